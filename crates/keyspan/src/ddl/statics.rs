//! Static columns of a table: what they may not be, and the relation that holds them. The texts are Cassandra's.

use keyspan_cql::{ColumnDefinition, ast};
use keyspan_model::{Catalog, ColumnDef, ColumnRole, Error, ErrorKind, Result, TableDef};

use super::alter::check_no_rollups;
use crate::names::columns_of;

/// Fails where a static column is declared with what only columns of rows can have.
pub(super) fn check_column(column: &ColumnDefinition) -> Result<()> {
    let what = match column {
        _ if !column.is_static => return Ok(()),
        ColumnDefinition { sequence: Some(_), .. } => "a sequence",
        ColumnDefinition { default: Some(_), .. } => "a DEFAULT",
        ColumnDefinition { not_null: true, .. } => "NOT NULL",
        _ => return Ok(()),
    };
    Err(refused(&column.name, what).at(column.position))
}

/// The column of this name, if it is not static: static ones cannot have this.
pub(super) fn expect_plain<'a>(table: &'a TableDef, name: &str, what: &str) -> Result<&'a ColumnDef> {
    let column = table.expect_column(name)?;
    if column.role == ColumnRole::Static { Err(refused(name, what)) } else { Ok(column) }
}

fn refused(name: &str, what: &str) -> Error {
    let error = Error::not_supported(format!("static column \"{name}\" cannot have {what}"));
    error.with_hint("A row that is inserted does not write the static values of its partition unless it names them.")
}

/// Fails where a CHECK reads static columns and columns of rows: neither kind is written with the other.
pub(super) fn check_condition(table: &TableDef, condition: &ast::Expr) -> Result<()> {
    let names = columns_of(condition);
    let roles = names.iter().filter_map(|name| table.column(name)).map(|column| column.role);
    let (statics, others): (Vec<_>, Vec<_>) =
        roles.filter(|role| *role != ColumnRole::Partition).partition(|role| *role == ColumnRole::Static);
    match statics.is_empty() || others.is_empty() {
        true => Ok(()),
        false => Err(Error::not_supported("a CHECK of static columns and columns of rows is not supported")
            .with_hint("Write one CHECK for each.")),
    }
}

/// Gives a table with static columns a relation for them, and takes that of a table without any.
pub(super) fn follow(catalog: &mut Catalog, table: &mut TableDef) -> Result<()> {
    let is = |wanted: fn(&ColumnRole) -> bool| table.columns.iter().any(|column| wanted(&column.role));
    let has_statics = is(|role| *role == ColumnRole::Static);
    if has_statics && !is(|role| matches!(role, ColumnRole::Clustering { .. })) {
        let message =
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column";
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    }
    match table.statics {
        None if has_statics => {
            check_no_rollups(catalog, table, "a static column")?;
            table.statics = Some(catalog.new_relation_id());
        }
        Some(_) if !has_statics => table.statics = None,
        _ => {}
    }
    Ok(())
}
