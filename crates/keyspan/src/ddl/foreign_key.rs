//! Foreign keys: kept and shown to programs that read them, never enforced.
//!
//! The rule: none is dropped in silence. Each is written NOT ENFORCED, or the session has said
//! `SET foreign_keys = 'not enforced'`, and then a notice says so.

use std::sync::Arc;

use keyspan_cql::{ForeignKeyDefinition, ObjectName};
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{Catalog, ColumnId, Error, ErrorKind, ForeignKeyDef, Result, Right, TableDef, TableId};
use keyspan_query::types::common_type;

use super::comment;
use super::table::is_taken;
use super::validate::constraint_name;
use crate::context::ClientContext;
use crate::names;
use crate::outcome::Notice;

/// 0A000 for those that are to be enforced, 42501 for those to tables that the session may not read. The table that has
/// them is said by its keyspace and name.
pub(super) fn check(context: &ClientContext, own: (&str, &str), all: &[ForeignKeyDefinition]) -> Result<()> {
    let unenforced = context.settings.ignores_foreign_keys();
    if let Some(key) = all.iter().find(|key| !key.not_enforced && !unenforced) {
        return Err(keyspan_cql::foreign_key::refused().at(key.position));
    }
    let (catalog, path) = (context.catalog(), context.settings.search_path());
    for key in all {
        if let Some(target) = other_table(&catalog, &path, own, &key.table)? {
            context.require(&target, Right::Select, &[])?;
        }
    }
    Ok(())
}

/// Says of those that are kept now, and that were not written NOT ENFORCED, that nothing enforces them.
pub(super) fn notify<'a>(context: &mut ClientContext, kept: impl IntoIterator<Item = &'a ForeignKeyDefinition>) {
    for key in kept.into_iter().filter(|key| !key.not_enforced) {
        let message = format!("the foreign key to \"{}\" is not enforced", key.table.name);
        context.notice(Notice::plain(message));
    }
}

/// The table that a foreign key names, as the search path finds it; none for the table that has it, which may be about to
/// be made.
fn other_table(
    catalog: &Catalog,
    path: &[String],
    own: (&str, &str),
    name: &ObjectName,
) -> Result<Option<Arc<TableDef>>> {
    let (keyspace, table) = own;
    let is_own = name.name == table
        && match &name.keyspace {
            Some(named) => named == keyspace,
            None => {
                let holds = |each: &String| each == keyspace || is_taken(catalog, each, table);
                path.iter().find(|each| holds(each)).is_some_and(|first| first == keyspace)
            }
        };
    if is_own { Ok(None) } else { names::table(catalog, path, name).map(Some) }
}

/// Gives a table these foreign keys.
pub(super) fn attach(
    catalog: &mut Catalog,
    path: &[String],
    table: &mut TableDef,
    definitions: &[ForeignKeyDefinition],
) -> Result<()> {
    for definition in definitions {
        let key = new_key(catalog, path, table, definition)
            .map_err(|error| if error.position.is_some() { error } else { error.at(definition.position) })?;
        table.foreign_keys.push(key);
    }
    Ok(())
}

fn new_key(
    catalog: &mut Catalog,
    path: &[String],
    table: &TableDef,
    definition: &ForeignKeyDefinition,
) -> Result<ForeignKeyDef> {
    let target = target(catalog, path, table, &definition.table)?;
    let columns = columns(table, &definition.columns)?;
    let references = match definition.references.as_slice() {
        [] => target.key().filter(|column| !column.hidden).map(|column| column.id).collect(),
        names => self::columns(&target, names)?,
    };
    check_key(&target, definition, &columns, &references)?;
    let otherwise = format!("{}_{}_fkey", table.name, definition.columns.join("_"));
    let name = constraint_name(table, definition.name.as_deref(), otherwise)?;
    check_types(table, &target, &name, columns.iter().zip(&references))?;
    Ok(ForeignKeyDef {
        id: catalog.new_table_id(),
        name,
        columns,
        table: target.id,
        references,
        rules: definition.rules,
    })
}

/// The table that is referred to, which may be the one that refers.
fn target(catalog: &Catalog, path: &[String], table: &TableDef, name: &ObjectName) -> Result<Arc<TableDef>> {
    let Some(target) = other_table(catalog, path, (&table.keyspace, &table.name), name)? else {
        return Ok(Arc::new(table.clone()));
    };
    let (kind, other) = match (is_temporary(&table.keyspace), is_temporary(&target.keyspace)) {
        (true, false) => ("temporary", "temporary"),
        (false, true) => ("permanent", "permanent"),
        _ => return Ok(target),
    };
    let message = format!("constraints on {kind} tables may reference only {other} tables");
    Err(Error::new(ErrorKind::InvalidTableDefinition, message))
}

fn columns(table: &TableDef, names: &[String]) -> Result<Vec<ColumnId>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let Some(column) = table.column(name).filter(|column| !column.hidden) else {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        };
        columns.push(column.id);
    }
    Ok(columns)
}

fn check_key(
    target: &TableDef,
    definition: &ForeignKeyDefinition,
    columns: &[ColumnId],
    references: &[ColumnId],
) -> Result<()> {
    if definition.references.is_empty() && references.is_empty() {
        let message = format!("there is no primary key for referenced table \"{}\"", target.name);
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    if columns.len() != references.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(Error::new(ErrorKind::InvalidForeignKey, message));
    }
    // A key declared together with the foreign key is there already: it is attached first.
    if target.key_on(references).is_none() {
        let name = &target.name;
        let message = format!("there is no unique constraint matching given keys for referenced table \"{name}\"");
        return Err(Error::new(ErrorKind::InvalidForeignKey, message));
    }
    Ok(())
}

/// 42804 for columns that cannot be compared.
fn check_types<'a>(
    table: &TableDef,
    target: &TableDef,
    name: &str,
    pairs: impl Iterator<Item = (&'a ColumnId, &'a ColumnId)>,
) -> Result<()> {
    for (column, reference) in pairs {
        let (Some(a), Some(b)) = (table.column_by_id(*column), target.column_by_id(*reference)) else { continue };
        if common_type(a.ty, b.ty).is_none() {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            let (a_type, b_type) = (a.ty.postgres_name(), b.ty.postgres_name());
            let detail = format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {a_type} and {b_type}.",
                a.name, b.name
            );
            return Err(Error::new(ErrorKind::DatatypeMismatch, message).with_detail(detail));
        }
    }
    Ok(())
}

/// Whether there was one of this name to drop.
pub(super) fn drop_constraint(table: &mut TableDef, name: &str) -> bool {
    let before = table.foreign_keys.len();
    table.foreign_keys.retain(|key| key.name != name);
    table.foreign_keys.len() < before
}

/// 2BP01 if another table that is not dropped with it refers to a table that is to be dropped.
pub(super) fn check_unreferenced(catalog: &Catalog, id: TableId, dropped: &[TableId]) -> Result<()> {
    let Some(target) = catalog.tables.get(&id) else { return Ok(()) };
    let referring = catalog.references_to(id).find(|(table, _)| table.id != id && !dropped.contains(&table.id));
    match referring {
        None => Ok(()),
        Some((table, key)) => Err(depends(&format!("drop table {}", target.name), table, key)),
    }
}

/// After a change of a table: foreign keys to columns that are no key of it any more go with `cascade`.
///
/// # Errors
/// 2BP01 without it: `what` cannot be done.
pub(super) fn settle(catalog: &mut Catalog, table: &mut TableDef, what: &str, cascade: bool) -> Result<()> {
    let (id, now) = (table.id, table.clone());
    let broken = |key: &ForeignKeyDef| key.table == id && now.key_on(&key.references).is_none();
    let others = catalog.references_to(id).filter(|(other, key)| other.id != id && broken(key));
    if cascade {
        let others: Vec<TableId> = others.map(|(other, _)| other.id).collect();
        others.into_iter().for_each(|other| drop_keys(catalog, other, broken));
        table.foreign_keys.retain(|key| !broken(key));
        return Ok(());
    }
    let own = now.foreign_keys.iter().filter(|key| broken(key)).map(|key| (&now, key));
    match own.chain(others).next() {
        Some((referring, key)) => Err(depends(what, referring, key)),
        None => Ok(()),
    }
}

fn depends(what: &str, table: &TableDef, key: &ForeignKeyDef) -> Error {
    let message = format!("cannot {what} because other objects depend on it");
    Error::new(ErrorKind::DependentObjects, message)
        .with_detail(format!("constraint {} on table {} depends on it", key.name, table.name))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Drops the foreign keys that refer to a table that is gone.
pub(super) fn forget(catalog: &mut Catalog, gone: TableId) {
    let referring: Vec<TableId> = catalog.references_to(gone).map(|(table, _)| table.id).collect();
    for id in referring {
        drop_keys(catalog, id, |key| key.table == gone);
    }
}

fn drop_keys(catalog: &mut Catalog, id: TableId, is_gone: impl Fn(&ForeignKeyDef) -> bool) {
    if let Some(table) = catalog.tables.get(&id) {
        let mut table = (**table).clone();
        table.foreign_keys.retain(|key| !is_gone(key));
        comment::settle(&mut table);
        table.version += 1;
        catalog.tables.insert(id, Arc::new(table));
    }
}
