//! CREATE, ALTER and DROP INDEX.
//!
//! An index changes no answer, only how fast it comes: the store builds it in the background, segment by segment, and
//! reads the column where it is not built yet. So what would change answers is refused by name: WHERE, and the options of
//! Cassandra's indexes that fold case or split words. An index on several columns indexes each, and a query on several
//! looks for the rows that all of them find. A unique index is one that also refuses rows ([`super::unique`]).

use std::collections::BTreeSet;

use keyspan_cql::{CreateIndex, IndexedPart, ObjectName, RenameIndex};
use keyspan_model::{
    Catalog, ColumnDef, ColumnId, ColumnRole, Error, ErrorKind, FamilyDef, FamilyKind, IndexDef, Result, TableDef,
};

use super::alter::rename_constraint;
use super::table::is_taken;
use super::{change, check_free, comment, foreign_key, missing, skipping, unique, vector};
use crate::context::ClientContext;
use crate::names;
use crate::outcome::{Notice, Outcome, Tag};

/// PostgreSQL's access methods and Cassandra's classes that a value index can stand in for.
const METHODS: &[&str] = &["btree", "hash", "brin", "sai", "storageattachedindex", "sasiindex", "legacy_local_table"];

/// `CREATE INDEX`.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateIndex) -> Result<Outcome> {
    if statement.unique {
        check_kind(statement)?;
        return unique::create(context, statement).await;
    }
    let path = context.settings.search_path();
    let made = change(context, |catalog| {
        let table = names::indexed_table(catalog, &path, &statement.table)?;
        let similarity = vector::similarity(&table, statement)?;
        if similarity.is_none() {
            check_kind(statement)?;
        }
        let columns = columns(&table, &statement.parts)?;
        if let Some(name) = exists(catalog, &table, statement, &columns) {
            return Ok(Err(name));
        }
        let name = match &statement.name {
            Some(name) => {
                let named = ObjectName { name: name.clone(), ..statement.table.clone() };
                check_free(catalog, &table.keyspace, &named).map_err(|error| Error { position: None, ..error })?;
                name.clone()
            }
            None => free_name(&table, &columns, "idx", |name| is_taken(catalog, &table.keyspace, name)),
        };
        let (mut next, id) = (table.clone(), catalog.new_table_id());
        next.indexes.push(IndexDef { id, name, columns: columns.clone(), unique: None, similarity });
        next.version += 1;
        catalog.put_indexed(next);
        Ok(Ok((table, columns, similarity)))
    });
    match made.await? {
        Ok((_, _, Some(similarity))) => vector::tell(context, similarity),
        Ok((table, columns, None)) => tell_of_key(context, &table, &columns),
        Err(name) => skipping(context, "relation", &name),
    }
    Ok(Outcome::done(Tag::plain("CREATE INDEX")))
}

/// Refuses the kinds of index that would change answers, or are none of columns' values.
fn check_kind(statement: &CreateIndex) -> Result<()> {
    check_method(statement, METHODS)?;
    for (option, value) in &statement.options {
        let plain = match option.as_str() {
            "case_sensitive" => value.text() == "true",
            "normalize" | "ascii" => value.text() == "false",
            "mode" => value.text().eq_ignore_ascii_case("prefix"),
            _ => false,
        };
        if !plain {
            let error = Error::not_supported(format!("index option '{option}': '{}' is not supported", value.text()));
            return Err(error.with_hint("An index holds values as they are: leave the option out."));
        }
    }
    Ok(())
}

/// Refuses other access methods and classes than these.
pub(super) fn check_method(statement: &CreateIndex, methods: &[&str]) -> Result<()> {
    let Some(method) = &statement.method else { return Ok(()) };
    let own = method.rsplit('.').next().unwrap_or(method).to_ascii_lowercase();
    if methods.contains(&own.as_str()) {
        return Ok(());
    }
    let error = Error::not_supported(format!("index method \"{method}\" is not supported here"));
    Err(error.with_hint(format!("Leave it out, or write USING and one of {}.", methods.join(", "))))
}

/// The columns of an index, each once.
pub(super) fn columns(table: &TableDef, parts: &[IndexedPart]) -> Result<Vec<ColumnId>> {
    let mut columns = Vec::with_capacity(parts.len());
    for part in parts {
        let named = match part {
            IndexedPart::Column(name) => match table.family(name) {
                Some(family) => elements(family, None)?,
                None => vec![indexable(table, name)?.id],
            },
            IndexedPart::Elements(what, name) => match table.family(name) {
                Some(family) => elements(family, Some(what))?,
                None => return Err(no_collection(table, what, name)?),
            },
            IndexedPart::Expression(text) => {
                let error = Error::not_supported(format!("an index on \"{text}\" is not supported"));
                return Err(error.with_hint("Name columns, or elements of collections: expressions are not indexed."));
            }
        };
        columns.extend(named);
    }
    let mut seen = BTreeSet::new();
    columns.retain(|column| seen.insert(*column));
    Ok(columns)
}

/// The columns of a family's or collection's cells that are meant: without a word a set's or list's elements, the values
/// of others.
fn elements(family: &FamilyDef, what: Option<&str>) -> Result<Vec<ColumnId>> {
    let (key, value) = (family.qualifier[0].id, family.value.id);
    let columns = match (family.kind, what) {
        (FamilyKind::Family, Some("keys" | "entries")) if family.several_parts => {
            let message = format!("an index on the qualifiers of \"{}\", which have several parts", family.name);
            let error = Error::not_supported(format!("{message}, is not supported"));
            return Err(error.with_hint("VALUES of the family can be indexed."));
        }
        (FamilyKind::Map | FamilyKind::Family | FamilyKind::List, None | Some("values")) => vec![value],
        (FamilyKind::Map | FamilyKind::Family, Some("keys")) | (FamilyKind::Set, None | Some("values")) => vec![key],
        (FamilyKind::Map | FamilyKind::Family, _) => vec![key, value],
        (FamilyKind::Set | FamilyKind::List, Some(what)) => {
            // Cassandra's text.
            let message = format!("Cannot create {what}() index on {}. Non-map columns have no keys", family.name);
            return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
        }
    };
    let ty = if columns.contains(&value) { family.value.ty } else { family.qualifier[0].ty };
    if ty.allowed_in_key().is_err() || ty.is_variant() {
        let message = format!("an index on elements of \"{}\" of type {ty} is not supported", family.name);
        return Err(Error::not_supported(message).with_hint("Values of this type have no order, or none that fits."));
    }
    Ok(columns)
}

fn no_collection(table: &TableDef, what: &str, name: &str) -> Result<Error> {
    table.expect_column(name)?;
    // Cassandra's text.
    let message = format!("Cannot create {what}() index on {name}. It is no collection");
    Ok(Error::new(ErrorKind::InvalidTableDefinition, message))
}

/// The column of this name, if its values can be indexed.
pub(super) fn indexable<'a>(table: &'a TableDef, name: &str) -> Result<&'a ColumnDef> {
    let column = table.expect_column(name)?;
    if column.role == ColumnRole::Static || column.counter {
        let what = if column.counter { "counter" } else { "static" };
        return Err(Error::not_supported(format!("an index on {what} column \"{name}\" is not supported")));
    }
    if column.ty.allowed_in_key().is_err() {
        let message = format!("an index on column \"{name}\" of type {} is not supported", column.ty);
        return Err(Error::not_supported(message).with_hint("Values of this type have no order, or none that fits."));
    }
    Ok(column)
}

/// Of IF NOT EXISTS: the name of what is there already, which of an index without a name is one on the same columns.
pub(super) fn exists(
    catalog: &Catalog,
    table: &TableDef,
    statement: &CreateIndex,
    columns: &[ColumnId],
) -> Option<String> {
    if !statement.if_not_exists {
        return None;
    }
    match &statement.name {
        Some(name) => is_taken(catalog, &table.keyspace, name).then(|| name.clone()),
        None => table.indexes.iter().find(|index| index.columns == columns).map(|index| index.name.clone()),
    }
}

/// The name that PostgreSQL and Cassandra give: `table_column_idx`, with a number if that is taken.
pub(super) fn free_name(table: &TableDef, columns: &[ColumnId], kind: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let name = |column: &ColumnId| match table.family_of_column(*column) {
        Some(family) => Some(family.name.as_str()),
        None => table.column_by_id(*column).map(|column| column.name.as_str()),
    };
    let mut names: Vec<&str> = columns.iter().filter_map(name).collect();
    names.dedup();
    let plain = format!("{}_{}_{kind}", table.name, names.join("_"));
    let numbered = (1..).map(|number| format!("{plain}{number}"));
    let mut all = std::iter::once(plain.clone()).chain(numbered);
    all.find(|name| !is_taken(name)).unwrap_or(plain)
}

/// An index on the first key column only is nothing that the key is not.
fn tell_of_key(context: &mut ClientContext, table: &TableDef, columns: &[ColumnId]) {
    let first = table.key().next().filter(|column| !column.hidden);
    if let Some(column) = first.filter(|column| columns == [column.id]) {
        let message = format!("column \"{}\" comes first in the PRIMARY KEY: no index is built for it", column.name);
        context.notice(Notice::plain(message));
    }
}

/// `ALTER INDEX … RENAME TO`, of a key too.
pub(crate) async fn rename(context: &mut ClientContext, statement: &RenameIndex) -> Result<Outcome> {
    let path = context.settings.search_path();
    let renamed = change(context, |catalog| {
        let Some((table, index)) = find(catalog, &path, &statement.name)? else {
            let Some(table) = table_of_key(catalog, &path, &statement.name) else { return Ok(false) };
            let mut next = table.clone();
            rename_constraint(catalog, &mut next, &statement.name.name, &statement.to)?;
            next.version += 1;
            catalog.put_indexed(next);
            return Ok(true);
        };
        let (id, mut next) = (index.id, table.clone());
        let new = ObjectName { name: statement.to.clone(), ..statement.name.clone() };
        check_free(catalog, &next.keyspace, &new)?;
        if let Some(index) = next.indexes.iter_mut().find(|index| index.id == id) {
            index.name = statement.to.clone();
        }
        next.version += 1;
        catalog.put_indexed(next);
        Ok(true)
    });
    match (renamed.await?, statement.if_exists) {
        (true, _) => {}
        (false, true) => missing(context, "relation", &statement.name),
        (false, false) => {
            let message = format!("relation \"{}\" does not exist", names::display(&statement.name));
            return Err(Error::new(ErrorKind::UndefinedTable, message).at(statement.name.position));
        }
    }
    Ok(Outcome::done(Tag::plain("ALTER INDEX")))
}

/// The index of a name, and its table.
///
/// # Errors
/// 42809 if the name is that of another relation.
fn find<'a>(catalog: &'a Catalog, path: &[String], name: &ObjectName) -> Result<Option<(&'a TableDef, &'a IndexDef)>> {
    let found = names::searched(path, name).into_iter().find_map(|keyspace| catalog.index(keyspace, &name.name));
    if found.is_none() && names::find(catalog, path, name).is_some() {
        let message = format!("\"{}\" is not an index", name.name);
        return Err(Error::new(ErrorKind::WrongObjectType, message).at(name.position));
    }
    Ok(found)
}

/// The table whose key has this name.
fn table_of_key<'a>(catalog: &'a Catalog, path: &[String], name: &ObjectName) -> Option<&'a TableDef> {
    let of = |keyspace: &str| {
        catalog.tables.values().find(|table| table.keyspace == keyspace && table.names_key(&name.name))
    };
    names::searched(path, name).into_iter().find_map(of).map(AsRef::as_ref)
}

/// Whether there was an index of this name to drop.
pub(super) fn drop_one(catalog: &mut Catalog, path: &[String], name: &ObjectName, cascade: bool) -> Result<bool> {
    let Some((table, index)) = find(catalog, path, name)? else { return Ok(false) };
    unique::check_no_constraint(table, index)?;
    let (id, mut next) = (index.id, table.clone());
    next.indexes.retain(|index| index.id != id);
    foreign_key::settle(catalog, &mut next, &format!("drop index {}", name.name), cascade)?;
    comment::settle(&mut next);
    next.version += 1;
    catalog.put_indexed(next);
    Ok(true)
}
