//! Foreign keys: kept and shown to programs that read them, never enforced.
//!
//! The rule: none is dropped in silence. Each is written NOT ENFORCED, or the session has said
//! `SET foreign_keys = 'not enforced'`, and then a notice says so.

use std::sync::Arc;

use keyspan_cql::{ForeignKeyDefinition, ObjectName};
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{Catalog, ColumnId, Error, ErrorKind, ForeignKeyDef, Result, Right, TableDef, TableId};

use crate::context::ClientContext;
use crate::names;
use crate::outcome::Notice;

/// 0A000 for those that are to be enforced, 42501 for those to tables that the session may not read.
pub(super) fn check(context: &mut ClientContext, own: &ObjectName, all: &[ForeignKeyDefinition]) -> Result<()> {
    let unenforced = context.settings.ignores_foreign_keys();
    if let Some(key) = all.iter().find(|key| !key.not_enforced && !unenforced) {
        return Err(keyspan_cql::foreign_key::refused().at(key.position));
    }
    let (catalog, path) = (context.catalog(), context.settings.search_path());
    for key in all.iter().filter(|key| key.table.name != own.name) {
        let target = names::table(&catalog, &path, &key.table)?;
        context.require(&target, Right::Select, &[])?;
    }
    for key in all.iter().filter(|key| !key.not_enforced) {
        let message = format!("the foreign key to \"{}\" is not enforced", key.table.name);
        context.notice(Notice::plain(message));
    }
    Ok(())
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
    Ok(ForeignKeyDef {
        id: catalog.new_table_id(),
        name: free_name(table, definition)?,
        columns,
        table: target.id,
        references,
        rules: definition.rules,
    })
}

/// The table that is referred to, which may be the one that refers.
fn target(catalog: &Catalog, path: &[String], table: &TableDef, name: &ObjectName) -> Result<Arc<TableDef>> {
    let is_own = name.name == table.name && name.keyspace.as_ref().is_none_or(|keyspace| *keyspace == table.keyspace);
    if is_own {
        return Ok(Arc::new(table.clone()));
    }
    let target = names::table(catalog, path, name)?;
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

/// `table_columns_fkey` where no name is given.
fn free_name(table: &TableDef, definition: &ForeignKeyDefinition) -> Result<String> {
    let taken = |name: &str| {
        let own = table.foreign_keys.iter().any(|key| key.name == name);
        own || table.checks.iter().any(|check| check.name == name) || table.indexes.iter().any(|own| own.name == name)
    };
    match &definition.name {
        Some(name) if taken(name) => {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
            Err(Error::new(ErrorKind::DuplicateObject, message))
        }
        Some(name) => Ok(name.clone()),
        None => {
            let base = format!("{}_{}_fkey", table.name, definition.columns.join("_"));
            let mut names = std::iter::once(base.clone()).chain((1..).map(|n| format!("{base}{n}")));
            Ok(names.find(|name| !taken(name)).unwrap_or(base))
        }
    }
}

/// Whether there was one of this name to drop.
pub(super) fn drop_constraint(table: &mut TableDef, name: &str) -> bool {
    let before = table.foreign_keys.len();
    table.foreign_keys.retain(|key| key.name != name);
    table.foreign_keys.len() < before
}

/// 2BP01 if another table, and none that `also` names, refers to a table that is to be dropped.
pub(super) fn check_unreferenced(catalog: &Catalog, id: TableId, also: impl Fn(&TableDef) -> bool) -> Result<()> {
    let Some(target) = catalog.tables.get(&id) else { return Ok(()) };
    let referring = catalog.references_to(id).find(|(table, _)| table.id != id && !also(table));
    match referring {
        None => Ok(()),
        Some((table, key)) => Err(depends(&format!("drop table {}", target.name), table, key)),
    }
}

/// 2BP01 if a foreign key refers to a column, or to the columns of a constraint, that is to be dropped.
pub(super) fn check_columns(catalog: &Catalog, table: &TableDef, columns: &[ColumnId], what: &str) -> Result<()> {
    let refers = |key: &ForeignKeyDef| key.references.iter().any(|column| columns.contains(column));
    match catalog.references_to(table.id).find(|(_, key)| refers(key)) {
        None => Ok(()),
        Some((other, key)) => Err(depends(what, other, key)),
    }
}

fn depends(what: &str, table: &TableDef, key: &ForeignKeyDef) -> Error {
    let message = format!("cannot {what} because other objects depend on it");
    Error::new(ErrorKind::DependentObjects, message)
        .with_detail(format!("constraint {} on table {} depends on it", key.name, table.name))
        .with_hint("Drop the constraint first, or use DROP TABLE … CASCADE.")
}

/// Drops the foreign keys that refer to a table that is gone.
pub(super) fn forget(catalog: &mut Catalog, gone: TableId) {
    let referring: Vec<TableId> = catalog.references_to(gone).map(|(table, _)| table.id).collect();
    for id in referring {
        if let Some(table) = catalog.tables.get(&id) {
            let mut table = (**table).clone();
            table.foreign_keys.retain(|key| key.table != gone);
            table.version += 1;
            catalog.tables.insert(id, Arc::new(table));
        }
    }
}
