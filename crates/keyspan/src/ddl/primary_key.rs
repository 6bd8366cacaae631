//! ALTER TABLE … ADD PRIMARY KEY, for a table that has none.
//!
//! ```text
//! rows by their hidden number ─▶ sorted by the new key ─▶ NULL? 23502; same as the one before? 23505 ─▶ a new relation
//! ```
//!
//! The rule: rows are stored by their key, so all are written anew, and the new key and the new rows appear in one
//! atomic step or not at all. Sorting spills and the store loads more than 16 MB while they come, so that memory is
//! bounded. What others write to the table meanwhile is found at the end; then all is done again, and they wait.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use futures::StreamExt;
use keyspan_cql::{ObjectName, PrimaryKey, quoted};
use keyspan_model::{
    BatchWrite, Catalog, ColumnDef, ColumnRole, Error, ErrorKind, Mutation, Object, Result, Span, Stamp, TableDef,
    Unchanged, ViewDef, WriteBatch,
};
use keyspan_seam::Snapshot;

use super::alter::contains_nulls;
use super::table::{check_counters, name_key};
use super::{Check, install, option, unique};
use crate::context::ClientContext;
use crate::dml::existing;
use crate::dml::remembered::Neighbours;
use crate::intake::Intake;
use crate::intake::gather::Gather;
use crate::row::TableHandle;
use crate::row::unique::WrittenRow;
use crate::violation::Uniqueness;
use crate::{names, query};

/// How often all rows are written anew while others keep writing to the table.
const TRIES_MAX: usize = 10;

/// `ALTER TABLE name ADD PRIMARY KEY (…)`.
pub(super) async fn add(context: &mut ClientContext, name: &ObjectName, key: &PrimaryKey) -> Result<()> {
    let path = context.settings.search_path();
    let mut closed = None;
    for _ in 0..TRIES_MAX {
        let before = context.newest_catalog();
        let table = names::table(&before, &path, name)?;
        context.require_owner(&Object::Relation(table.id), &format!("table {}", table.name))?;
        let mut next = (*before).clone();
        let keyed = Arc::new(with_key(&mut next, &table, key)?);
        next.tables.insert(keyed.id, keyed.clone());
        let snapshot = context.newest()?;
        let mutations = rewrite(context, &table, &snapshot, keyed).await?;
        let unchanged = vec![Unchanged { relation: table.rows, span: Span::all(), seq: snapshot.seq() }];
        let batch = WriteBatch { mutations, unchanged, ..WriteBatch::default() };
        if install(context, &before, next, Some(batch), Check::Done).await? {
            return Ok(());
        }
        closed.get_or_insert_with(|| context.database.gates().close(table.id));
    }
    let message = "could not add the PRIMARY KEY: others kept writing to the table";
    Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again while nobody writes to it."))
}

/// The table with this key, and a new relation for its rows.
fn with_key(catalog: &mut Catalog, table: &TableDef, key: &PrimaryKey) -> Result<TableDef> {
    check_possible(catalog, table).map_err(|error| error.at(key.position))?;
    let mut columns = key_columns(table, key).map_err(|error| error.at(key.position))?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    columns.extend(table.columns.iter().filter(|each| !each.hidden && !names.contains(&each.name)).cloned());
    let window = match table.options.contains_key("window") {
        true => table.window,
        false => option::window_column(&columns),
    };
    let version = table.version + 1;
    let mut keyed = TableDef { columns, window, version, rows: catalog.new_relation_id(), ..table.clone() };
    unique::empty(catalog, &mut keyed);
    check_counters(&keyed)?;
    name_key(catalog, &mut keyed, key)?;
    Ok(keyed)
}

fn check_possible(catalog: &Catalog, table: &TableDef) -> Result<()> {
    if table.has_key() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        let error = Error::new(ErrorKind::InvalidTableDefinition, message);
        return Err(error.with_hint("Write CREATE TABLE new (PRIMARY KEY (…)) AS SELECT … FROM old, then rename."));
    }
    if !table.families.is_empty() {
        return Err(Error::not_supported("a PRIMARY KEY cannot be added to a table with families or collections"));
    }
    if table.retention.age.is_some() {
        let message = format!("a PRIMARY KEY cannot be added to table \"{}\": its rows would be as new", table.name);
        let hint = "A retention counts from the time of the write. Set it to 'none' first, or copy the rows.";
        return Err(Error::not_supported(message).with_hint(hint));
    }
    let kept = |view: &ViewDef| view.rollup().is_some_and(|rollup| rollup.source == table.id);
    match catalog.views.values().find(|view| kept(view)) {
        Some(view) => {
            let message =
                format!("cannot add a PRIMARY KEY to table \"{}\": view \"{}\" is kept of it", table.name, view.name);
            Err(Error::new(ErrorKind::DependentObjects, message).with_hint("Drop the materialized view first."))
        }
        None => Ok(()),
    }
}

fn key_columns(table: &TableDef, key: &PrimaryKey) -> Result<Vec<ColumnDef>> {
    let partition = key.partition.iter().map(|name| (name, ColumnRole::Partition));
    let clustering = key.clustering.iter().map(|name| (name, ColumnRole::Clustering { descending: false }));
    let mut columns: Vec<ColumnDef> = Vec::new();
    for (name, role) in partition.chain(clustering) {
        if columns.iter().any(|column| column.name == *name) {
            let message = format!("column \"{name}\" appears twice in primary key constraint");
            return Err(Error::new(ErrorKind::DuplicateColumn, message));
        }
        let Some(column) = table.column(name).filter(|column| !column.hidden) else {
            let message = format!("column \"{name}\" named in key does not exist");
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        };
        column.ty.allowed_in_key()?;
        columns.push(ColumnDef { role, not_null: true, ..column.clone() });
    }
    Ok(columns)
}

/// What writes the table's rows into the relation of the table with a key.
async fn rewrite(
    context: &mut ClientContext,
    table: &TableDef,
    snapshot: &Arc<dyn Snapshot>,
    keyed: Arc<TableDef>,
) -> Result<Vec<Mutation>> {
    check_lasting(context, table, snapshot).await?;
    let columns: Vec<String> = keyed.columns.iter().map(|column| column.name.clone()).collect();
    let (stamp, zone) = (context.stamp(), Arc::new(context.zone()));
    let mut order = KeyOrder { handle: TableHandle::new(keyed.clone()), neighbours: Neighbours::default() };
    let mut intake = Intake::new(TableHandle::new(keyed), &columns, zone)?;
    intake.ttl = 0;
    let mut gather = Gather::new(context.database.store(), intake.target());
    let query = names::parse_query(&sorted_rows(table, &order.handle.table))?;
    let query_context = context.query_context(snapshot.clone(), &[]);
    let (_, rows) = query::run_on(context, &query, &[], query_context).await?;
    let mut rows = context.running.guard_stream(rows);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            order.check_nulls(&batch)?;
            let mut writes = intake.write(&batch, stamp)?;
            for write in &writes.rows {
                order.check(&write.batch)?;
            }
            let mutations: Vec<Mutation> = writes.rows.iter().cloned().map(Mutation::Batch).collect();
            writes.rows.extend(entries(&order.handle, &mutations, stamp)?);
            gather.push(writes).await?;
        }
    }
    drop(rows);
    gather.finish().await
}

/// The entries of rows for the table's unique indexes.
fn entries(handle: &TableHandle, mutations: &[Mutation], stamp: Stamp) -> Result<Vec<BatchWrite>> {
    if handle.uniques.is_empty() {
        return Ok(Vec::new());
    }
    let rows = WrittenRow::all(handle, mutations)?;
    let indexes = handle.uniques.iter().enumerate();
    indexes.map(|(place, index)| index.entries(handle, &index.claims(handle, place, &rows)?, stamp)).collect()
}

/// The query for all rows, equal keys side by side.
fn sorted_rows(table: &TableDef, keyed: &TableDef) -> String {
    let list = |columns: &mut dyn Iterator<Item = &ColumnDef>| {
        columns.map(|column| format!("rows.{}", quoted(&column.name))).collect::<Vec<_>>().join(", ")
    };
    let (columns, key) = (list(&mut keyed.columns.iter()), list(&mut keyed.key()));
    format!("SELECT {columns} FROM {}.{} AS rows ORDER BY {key}", quoted(&table.keyspace), quoted(&table.name))
}

/// Rows that are written anew would not expire any more.
async fn check_lasting(context: &ClientContext, table: &TableDef, snapshot: &Arc<dyn Snapshot>) -> Result<()> {
    match existing::any_expiring(context, snapshot, table).await? {
        true => {
            Err(Error::not_supported(format!("rows of table \"{}\" expire: a PRIMARY KEY cannot be added", table.name))
                .with_hint("Write CREATE TABLE new (PRIMARY KEY (…)) AS SELECT … FROM old, then rename."))
        }
        false => Ok(()),
    }
}

/// Looks at keys that come in order.
struct KeyOrder {
    handle: TableHandle,
    neighbours: Neighbours,
}

impl KeyOrder {
    /// 23502 if a key column has a NULL; key columns come first.
    fn check_nulls(&self, rows: &RecordBatch) -> Result<()> {
        let table = &self.handle.table;
        match table.key().zip(rows.columns()).find(|(_, array)| array.null_count() > 0) {
            Some((column, _)) => Err(contains_nulls(table, &column.name)),
            None => Ok(()),
        }
    }

    /// 23505 if two rows have one key.
    fn check(&mut self, rows: &RecordBatch) -> Result<()> {
        let keys = self.handle.encoded_keys(&rows.columns()[..self.handle.key_len()])?;
        match self.neighbours.repeated(&keys) {
            Some(row) => Err(Uniqueness::of_key(&self.handle.table).repeated(&self.handle.key(rows, row)?)),
            None => Ok(()),
        }
    }
}
