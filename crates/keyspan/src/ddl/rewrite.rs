//! Writes all rows of a table anew: for a key that is added, and for columns of another type.
//!
//! ```text
//! all rows ─▶ sorted by the new key ─▶ NULL? 23502; same as the one before? 23505 ─▶ a new relation
//! ```
//!
//! The rule: the new definition and the new rows appear in one atomic step or not at all. Sorting spills and the store
//! loads more than 16 MB while they come, so that memory is bounded. What others write to the table meanwhile is found
//! at the end; then all is done again, and they wait.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use futures::StreamExt;
use keyspan_cql::{ObjectName, quoted};
use keyspan_model::{
    BatchWrite, Catalog, Error, ErrorKind, Mutation, Object, Result, Span, Stamp, TableDef, Unchanged, ViewDef,
    WriteBatch,
};
use keyspan_seam::Snapshot;

use super::alter::contains_nulls;
use super::{Check, install, unique};
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

/// A column's name, and the expression over the old rows that gives its new values.
pub(super) type NewValues = (String, String);

/// Rows that are to be written anew.
pub(super) struct Rewrite<'a> {
    /// What is done, for errors: `a PRIMARY KEY cannot be added`.
    pub(super) refused: &'a str,
    /// What else to do, for their hint.
    pub(super) hint: &'a str,
}

impl Rewrite<'_> {
    /// Gives the table the definition that `define` makes of it, and its rows the new values.
    ///
    /// # Errors
    /// 0A000 for tables whose rows have more than values: families, an end of their life, a rollup of them.
    pub(super) async fn run(
        &self,
        context: &mut ClientContext,
        name: &ObjectName,
        define: impl Fn(&mut Catalog, &TableDef) -> Result<(TableDef, Vec<NewValues>)>,
    ) -> Result<()> {
        let path = context.settings.search_path();
        let mut closed = None;
        for _ in 0..TRIES_MAX {
            let before = context.catalog_to_change();
            let table = names::table(&before, &path, name)?;
            context.require_owner(&Object::Relation(table.id), &format!("table {}", table.name))?;
            let mut next = (*before).clone();
            let (mut defined, values) = define(&mut next, &table)?;
            self.check_possible(&next, &table)?;
            defined.version = table.version + 1;
            defined.rows = next.new_relation_id();
            unique::empty(&mut next, &mut defined);
            let defined = Arc::new(defined);
            next.tables.insert(defined.id, defined.clone());
            let snapshot = context.newest()?;
            self.check_lasting(context, &table, &snapshot).await?;
            let mutations = rewrite(context, &table, &snapshot, (defined, &values)).await?;
            let unchanged = vec![Unchanged { relation: table.rows, span: Span::all(), seq: snapshot.seq() }];
            let batch = WriteBatch { mutations, unchanged, ..WriteBatch::default() };
            if install(context, &before, next, Some(batch), Check::Done).await? {
                return Ok(());
            }
            closed.get_or_insert_with(|| context.database.gates().close(table.id));
        }
        let message = format!("{}: others kept writing to the table", self.refused);
        Err(Error::new(ErrorKind::Serialization, message)
            .with_hint("Run the statement again while nobody writes to it."))
    }

    fn check_possible(&self, catalog: &Catalog, table: &TableDef) -> Result<()> {
        let (refused, name) = (self.refused, &table.name);
        if !table.families.is_empty() {
            let message = format!("{refused}: table \"{name}\" has families or collections");
            return Err(Error::not_supported(message).with_hint(self.hint));
        }
        if table.statics.is_some() {
            let message = format!("{refused}: table \"{name}\" has static columns");
            return Err(Error::not_supported(message).with_hint(self.hint));
        }
        if table.retention.age.is_some() {
            let message = format!("{refused}: table \"{name}\" has a retention, and its rows would be as new");
            let hint = "A retention counts from the time of the write. Set it to 'none' first, or copy the rows.";
            return Err(Error::not_supported(message).with_hint(hint));
        }
        let kept = |view: &ViewDef| view.rollup().is_some_and(|rollup| rollup.source == table.id);
        match catalog.views.values().find(|view| kept(view)) {
            Some(view) => {
                let message = format!("{refused}: view \"{}\" is kept of table \"{name}\"", view.name);
                Err(Error::new(ErrorKind::DependentObjects, message).with_hint("Drop the materialized view first."))
            }
            None => Ok(()),
        }
    }

    /// Rows that are written anew would not expire any more.
    async fn check_lasting(
        &self,
        context: &ClientContext,
        table: &TableDef,
        snapshot: &Arc<dyn Snapshot>,
    ) -> Result<()> {
        match existing::any_expiring(context, snapshot, table).await? {
            true => {
                let message = format!("{}: rows of table \"{}\" expire", self.refused, table.name);
                Err(Error::not_supported(message).with_hint(self.hint))
            }
            false => Ok(()),
        }
    }
}

/// What writes the table's rows into the relation of its new definition.
async fn rewrite(
    context: &mut ClientContext,
    table: &TableDef,
    snapshot: &Arc<dyn Snapshot>,
    (defined, values): (Arc<TableDef>, &[NewValues]),
) -> Result<Vec<Mutation>> {
    let numbered = !defined.has_key();
    let relation = defined.rows;
    let stamp = context.stamp();
    let mut order = KeyOrder { handle: TableHandle::new(defined.clone()), neighbours: Neighbours::default() };
    let mut intake = Intake::complete(context, TableHandle::new(defined.clone()), &names_of(&defined))?;
    intake.ttl = 0;
    if numbered {
        intake = intake.numbered_from(1);
    }
    let mut gather = Gather::new(context.database.store(), intake.target());
    let query = names::parse_query(&sorted_rows(table, &order.handle.table, values))?;
    let query_context = context.query_context(snapshot.clone(), &[]);
    let (_, rows) = query::run_on(context, &query, &[], query_context).await?;
    let mut rows = context.running.guard_stream(rows);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            if !numbered {
                order.check_nulls(&batch)?;
            }
            let mut writes = intake.write(&batch, stamp)?;
            for write in writes.rows.iter().filter(|_| !numbered) {
                order.check(&write.batch)?;
            }
            let mutations: Vec<Mutation> = writes.rows.iter().cloned().map(Mutation::Batch).collect();
            writes.rows.extend(entries(&order.handle, &mutations, stamp)?);
            gather.push(writes).await?;
        }
    }
    drop(rows);
    if numbered {
        context.database.learn_row_ids(relation, gather.rows());
    }
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

/// The columns that rows are read and written by: those of the key first.
fn names_of(table: &TableDef) -> Vec<String> {
    table.columns.iter().filter(|column| !column.hidden).map(|column| column.name.clone()).collect()
}

/// The query for all rows as they become, equal keys side by side.
fn sorted_rows(table: &TableDef, defined: &TableDef, values: &[NewValues]) -> String {
    let from = quoted(&table.name);
    let value = |column: &str| match values.iter().find(|(name, _)| name == column) {
        Some((_, expression)) => format!("({expression})"),
        None => format!("{from}.{}", quoted(column)),
    };
    let outputs: Vec<String> = names_of(defined).iter().map(|name| value(name)).collect();
    let key: Vec<String> = match defined.has_key() {
        true => (1..=defined.key_len()).map(|place| place.to_string()).collect(),
        false => defined.key().map(|column| value(&column.name)).collect(),
    };
    format!("SELECT {} FROM {}.{from} ORDER BY {}", outputs.join(", "), quoted(&table.keyspace), key.join(", "))
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
