//! Statements that write static columns only: they are about partitions, the rows of a table of their own.
//!
//! The rules are Cassandra's: an INSERT that gives no clustering column, and an UPDATE or DELETE of nothing but static
//! columns. Their WHERE may not restrict clustering columns.

use keyspan_cql::{Condition, Delete, Insert, Update, ast};
use keyspan_model::{ColumnRole, Error, ErrorKind, Result, TableDef};

use super::condition::expression_of;
use crate::names::columns_of;
use crate::row::TableHandle;

/// The table that an INSERT writes to.
pub(crate) fn inserted(handle: &TableHandle, statement: &Insert) -> TableHandle {
    let names: Vec<&str> = statement.columns.iter().map(|column| column.name.as_str()).collect();
    loaded(handle, &names)
}

/// The table that rows of these columns are written to; no columns means all.
pub(crate) fn loaded(handle: &TableHandle, names: &[&str]) -> TableHandle {
    let has = |role| names.iter().any(|name| role_of(&handle.table, name) == Some(role));
    match &handle.statics {
        Some(statics) if has(ColumnRole::Static) && names.iter().all(|name| statics.table.column(name).is_some()) => {
            (**statics).clone()
        }
        _ => handle.clone(),
    }
}

/// The table that an UPDATE writes to.
pub(crate) fn updated(handle: &TableHandle, statement: &Update) -> Result<TableHandle> {
    let names: Vec<&str> = statement.assignments.iter().map(|each| each.column.name.as_str()).collect();
    written(handle, "UPDATE", &names, statement.filter.as_ref(), statement.condition.as_ref())
}

/// The table that a DELETE deletes from.
pub(crate) fn deleted(handle: &TableHandle, statement: &Delete) -> Result<TableHandle> {
    let names: Vec<&str> = statement.columns.iter().map(|column| column.name.as_str()).collect();
    written(handle, "DELETE", &names, statement.filter.as_ref(), statement.condition.as_ref())
}

/// Whether a condition on rows names nothing that only rows have: then it is about whole partitions. Names that the table
/// has not are those of subqueries.
pub(crate) fn is_of_partitions(table: &TableDef, filter: Option<&ast::Expr>) -> bool {
    let of_partition =
        |name: &String| matches!(role_of(table, name), None | Some(ColumnRole::Partition | ColumnRole::Static));
    filter.is_none_or(|filter| columns_of(filter).iter().all(of_partition))
}

fn written(
    handle: &TableHandle,
    what: &str,
    names: &[&str],
    filter: Option<&ast::Expr>,
    condition: Option<&Condition>,
) -> Result<TableHandle> {
    let is_static = |name: &&str| role_of(&handle.table, name) == Some(ColumnRole::Static);
    let Some(statics) = handle.statics.as_ref().filter(|_| !names.is_empty() && names.iter().all(is_static)) else {
        return Ok(handle.clone());
    };
    if !is_of_partitions(&handle.table, expression_of(condition)) {
        // A condition on a row that is written together with the static values of its partition.
        return Ok(handle.clone());
    }
    let is_clustering = |name: &String| matches!(role_of(&handle.table, name), Some(ColumnRole::Clustering { .. }));
    if filter.is_some_and(|filter| columns_of(filter).iter().any(is_clustering)) {
        // Cassandra's text.
        let message = format!(
            "Invalid restrictions on clustering columns since the {what} statement modifies only static columns"
        );
        return Err(Error::new(ErrorKind::InvalidColumnReference, message)
            .with_hint("Static values belong to the partition: leave the clustering columns out."));
    }
    Ok((**statics).clone())
}

fn role_of(table: &TableDef, name: &str) -> Option<ColumnRole> {
    table.column(name).map(|column| column.role)
}
