//! UNIQUE constraints and unique indexes: declared with the table, or added to one that has rows.
//!
//! ```text
//! all rows sorted by the columns ─▶ the same side by side? 23505 ─▶ an entry for each ─▶ index and entries at once
//! ```
//!
//! The rule: the index and the entries of all rows appear in one atomic step or not at all. What others write to the
//! table meanwhile is found at the end; then all is done again, and they wait.

use std::sync::Arc;

use keyspan_cql::{CreateIndex, ObjectName, UniqueDefinition};
use keyspan_model::{
    Catalog, ColumnId, Error, ErrorKind, IndexDef, Mutation, Object, Result, Span, TableDef, Unchanged, UniqueDef,
    WriteBatch,
};
use keyspan_seam::Snapshot;

use super::index::{self, indexable};
use super::table::is_taken;
use super::{Check, check_free, exists, install, skipping};
use crate::context::ClientContext;
use crate::dml::new_values::SortedValues;
use crate::intake::Writes;
use crate::intake::gather::Gather;
use crate::names::{self, TableOrView};
use crate::outcome::{Outcome, Tag};
use crate::row::TableHandle;

/// How often all rows are read anew while others keep writing to the table.
const TRIES_MAX: usize = 10;

/// A unique index to be.
struct NewIndex {
    name: Option<String>,
    columns: Vec<ColumnId>,
    constraint: bool,
}

/// 0A000 where the store cannot write a row and what keeps it unique in one step.
pub(super) fn check_caps(context: &ClientContext) -> Result<()> {
    if context.database.store().caps().atomic_batches {
        return Ok(());
    }
    Err(Error::not_supported("UNIQUE needs atomic batches, which the store of this database does not have")
        .with_hint("Put the columns into the PRIMARY KEY."))
}

/// Gives a table that has no rows in these columns its constraints.
pub(super) fn attach(catalog: &mut Catalog, table: &mut TableDef, definitions: &[UniqueDefinition]) -> Result<()> {
    for definition in definitions {
        let at = |error: Error| error.at(definition.position);
        let columns = columns(table, &definition.columns).map_err(at)?;
        // As in PostgreSQL, what says the same as the key or an earlier one without a name of its own is one with it.
        let is_key = table.key().map(|column| column.id).eq(columns.iter().copied());
        let known = table.uniques().any(|(index, _)| index.columns == columns);
        if definition.name.is_some() || !(is_key || known) {
            add_index(catalog, table, NewIndex { name: definition.name.clone(), columns, constraint: true })
                .map_err(at)?;
        }
    }
    Ok(())
}

fn columns(table: &TableDef, names: &[String]) -> Result<Vec<ColumnId>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        if table.column(name).is_none_or(|column| column.hidden) && table.family(name).is_none() {
            let message = format!("column \"{name}\" named in key does not exist");
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        }
        if table.family(name).is_some() {
            return Err(no_elements(name));
        }
        let id = indexable(table, name)?.id;
        if columns.contains(&id) {
            let message = format!("column \"{name}\" appears twice in unique constraint");
            return Err(Error::new(ErrorKind::DuplicateColumn, message));
        }
        columns.push(id);
    }
    Ok(columns)
}

/// The columns of CREATE UNIQUE INDEX.
fn index_columns(table: &TableDef, statement: &CreateIndex) -> Result<Vec<ColumnId>> {
    let columns = index::columns(table, &statement.parts)?;
    match columns.iter().find_map(|column| table.family_of_column(*column)) {
        Some(family) => Err(no_elements(&family.name)),
        None => Ok(columns),
    }
}

/// 0A000: what is unique is known by a row's own cells.
fn no_elements(name: &str) -> Error {
    let error = Error::not_supported(format!("UNIQUE on \"{name}\", a family or collection, is not supported"));
    error.with_hint("Keep what must be unique in a column, or in a table whose key it is.")
}

/// The index, which the table then has.
fn add_index(catalog: &mut Catalog, table: &mut TableDef, new: NewIndex) -> Result<IndexDef> {
    let taken = |name: &str| {
        let own = table.indexes.iter().any(|index| index.name == *name) || table.has_constraint(name);
        own || *name == table.name || is_taken(catalog, &table.keyspace, name)
    };
    let name = match new.name {
        Some(name) if taken(&name) => return Err(exists(&name)),
        Some(name) => name,
        None => index::free_name(table, &new.columns, if new.constraint { "key" } else { "idx" }, taken),
    };
    let unique = Some(UniqueDef { entries: catalog.new_relation_id(), constraint: new.constraint });
    let index = IndexDef { id: catalog.new_table_id(), name, columns: new.columns, unique, similarity: None };
    table.indexes.push(index.clone());
    Ok(index)
}

/// `ALTER TABLE name ADD [CONSTRAINT …] UNIQUE (…)`.
pub(super) async fn add(context: &mut ClientContext, name: &ObjectName, definition: &UniqueDefinition) -> Result<()> {
    let new = |table: &TableDef| {
        let columns = columns(table, &definition.columns).map_err(|error| error.at(definition.position))?;
        Ok(NewIndex { name: definition.name.clone(), columns, constraint: true })
    };
    build(context, name, new).await
}

/// `CREATE UNIQUE INDEX`.
pub(super) async fn create(context: &mut ClientContext, statement: &CreateIndex) -> Result<Outcome> {
    let done = Outcome::done(Tag::plain("CREATE INDEX"));
    let (catalog, path) = (context.catalog(), context.settings.search_path());
    if let Some(TableOrView::View(view)) = names::find(&catalog, &path, &statement.table)
        && view.stored().is_some()
    {
        let error = Error::not_supported("a unique index on a materialized view is not supported");
        return Err(error.with_hint("REFRESH needs none to let readers read. CREATE INDEX makes one to find rows by."));
    }
    let table = names::table(&catalog, &path, &statement.table)?;
    context.require_owner(&Object::Relation(table.id), &format!("table {}", table.name))?;
    let columns = index_columns(&table, statement)?;
    if let Some(name) = index::exists(&catalog, &table, statement, &columns) {
        skipping(context, "relation", &name);
        return Ok(done);
    }
    if let Some(name) = &statement.name {
        let named = ObjectName { name: name.clone(), ..statement.table.clone() };
        check_free(&catalog, &table.keyspace, &named).map_err(|error| Error { position: None, ..error })?;
    }
    let new = |table: &TableDef| {
        let columns = index_columns(table, statement)?;
        Ok(NewIndex { name: statement.name.clone(), columns, constraint: false })
    };
    build(context, &statement.table, new).await?;
    Ok(done)
}

/// Makes the index that `new` says together with the entries of all rows.
async fn build(
    context: &mut ClientContext,
    name: &ObjectName,
    new: impl Fn(&TableDef) -> Result<NewIndex>,
) -> Result<()> {
    check_caps(context)?;
    let path = context.settings.search_path();
    let mut closed = None;
    for _ in 0..TRIES_MAX {
        let before = context.catalog_to_change();
        let table = names::table(&before, &path, name)?;
        context.require_owner(&Object::Relation(table.id), &format!("table {}", table.name))?;
        let new = new(&table)?;
        let (mut next, mut changed) = ((*before).clone(), (*table).clone());
        let index = add_index(&mut next, &mut changed, new)?;
        changed.version += 1;
        let changed = Arc::new(changed);
        next.tables.insert(changed.id, changed.clone());
        let snapshot = context.newest()?;
        let mutations = entries(context, changed, &index, snapshot.clone()).await?;
        let unchanged = vec![Unchanged { relation: table.rows, span: Span::all(), seq: snapshot.seq() }];
        let batch = WriteBatch { mutations, unchanged, ..WriteBatch::default() };
        if install(context, &before, next, Some(batch), Check::Done).await? {
            return Ok(());
        }
        closed.get_or_insert_with(|| context.database.gates().close(table.id));
    }
    let message = "could not create the unique index: others kept writing to the table";
    Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again while nobody writes to it."))
}

/// What writes the entries of all rows.
async fn entries(
    context: &mut ClientContext,
    table: Arc<TableDef>,
    index: &IndexDef,
    snapshot: Arc<dyn Snapshot>,
) -> Result<Vec<Mutation>> {
    let (handle, stamp) = (TableHandle::new(table), context.server_stamp());
    let own = handle.uniques.iter().find(|own| own.index.id == index.id);
    let own = own.ok_or_else(|| Error::internal("a unique index without its relation"))?;
    let mut gather = Gather::of(context.database.store(), std::iter::once(&own.entries));
    let mut sorted = SortedValues::begin(context, &handle, own, snapshot).await?;
    while let Some(batch) = sorted.next().await? {
        if batch.num_rows() > 0 {
            gather.push(Writes { rows: vec![own.entries_of(batch, stamp)], wholes: Vec::new() }).await?;
        }
    }
    drop(sorted);
    gather.finish().await
}

/// Gives the unique indexes of a table new relations: nothing written before can show through.
pub(super) fn empty(catalog: &mut Catalog, table: &mut TableDef) {
    for unique in table.indexes.iter_mut().filter_map(|index| index.unique.as_mut()) {
        unique.entries = catalog.new_relation_id();
    }
}

/// Whether there was a constraint of this name to drop.
pub(super) fn drop_constraint(table: &mut TableDef, name: &str) -> bool {
    let before = table.indexes.len();
    let is_named = |index: &IndexDef| index.name == name && index.is_constraint();
    table.indexes.retain(|index| !is_named(index));
    table.indexes.len() < before
}

/// 2BP01 for the index of a constraint, which is dropped with it.
pub(super) fn check_no_constraint(table: &TableDef, index: &IndexDef) -> Result<()> {
    if !index.is_constraint() {
        return Ok(());
    }
    let (name, table) = (&index.name, &table.name);
    let message = format!("cannot drop index {name} because constraint {name} on table {table} requires it");
    let hint = format!("You can drop constraint {name} on table {table} instead.");
    Err(Error::new(ErrorKind::DependentObjects, message).with_hint(hint))
}
