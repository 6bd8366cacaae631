//! A snapshot with a transaction's own DDL: tables that it has created are read from its own writes alone.
//!
//! ```text
//! relation known to the committed catalog ─▶ committed snapshot with own writes
//! relation made by this transaction       ─▶ an in-memory store that holds nothing but own writes
//! ```
//!
//! The rule: a table that the transaction has *altered* is in neither world (its columns are not the committed ones),
//! so reading or writing it before COMMIT is refused by name.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use keyspan_model::{
    Catalog, Error, ErrorKind, Mutation, RelationId, Result, Scan, ScanColumn, TableDef, Value, WriteBatch,
};
use keyspan_store::seam::{
    Accepted, BatchStream, ReadAt, ScanCounters, ScanPlan, ScanStatistics, Snapshot, Split, Store,
};
use keyspan_store::{EmbeddedStore, StoreOptions};

/// The committed state with a transaction's own catalog and own writes.
#[derive(Debug)]
struct Overlay {
    committed: Arc<dyn Snapshot>,
    own: Arc<dyn Snapshot>,
    catalog: Arc<Catalog>,
}

/// What a transaction that has changed the catalog sees.
pub(super) fn snapshot(
    committed: Arc<dyn Snapshot>,
    catalog: &Arc<Catalog>,
    writes: &WriteBatch,
) -> Result<Arc<dyn Snapshot>> {
    let known = |relation: RelationId| committed.catalog().relation(relation).is_some();
    let (old, new): (Vec<Mutation>, Vec<Mutation>) =
        writes.mutations.iter().cloned().partition(|mutation| known(mutation.relation()));
    let batch = |mutations| WriteBatch { mutations, unchanged: Vec::new(), relaxed: true };
    let own = own_store(&committed, catalog, batch(new))?;
    let committed = if old.is_empty() { committed } else { committed.with_writes(&batch(old))? };
    Ok(Arc::new(Overlay { committed, own, catalog: catalog.clone() }))
}

/// A snapshot of an empty store with the transaction's new tables, and its writes to them on top.
fn own_store(committed: &Arc<dyn Snapshot>, catalog: &Catalog, batch: WriteBatch) -> Result<Arc<dyn Snapshot>> {
    let options = StoreOptions { background: false, ..StoreOptions::default() };
    let store = EmbeddedStore::in_memory(options)?;
    let base = store.catalog().version;
    let mut own = Catalog { version: base + 1, ..catalog.clone() };
    own.tables.retain(|_, table| committed.catalog().relation(table.rows).is_none());
    own.views.clear();
    let live: Vec<RelationId> = own.tables.values().map(|table| table.rows).collect();
    let mut batch = batch;
    batch.mutations.retain(|mutation| live.contains(&mutation.relation()));
    let store_for_work = store.clone();
    // The in-memory store does no IO, so its futures are ready as soon as its own threads have run.
    let work = async move { store_for_work.change(base, own, None).await.map(drop) };
    std::thread::scope(|scope| scope.spawn(|| futures::executor::block_on(work)).join())
        .map_err(|_| Error::internal("the transaction's own store failed"))??;
    // On top, not applied: rows that were loaded beforehand lie in the files of the real store.
    store.snapshot(ReadAt::Newest)?.with_writes(&batch)
}

/// Fails for a table whose definition the transaction has changed since the committed snapshot.
fn check_usable(committed: &Catalog, table: &TableDef) -> Result<()> {
    let ids = |table: &TableDef| table.columns.iter().map(|column| column.id).collect::<Vec<_>>();
    let altered = |before: &Arc<TableDef>| before.rows == table.rows && ids(before) != ids(table);
    if !committed.tables.get(&table.id).is_some_and(altered) {
        return Ok(());
    }
    let message = format!("table \"{}\" was altered in this transaction and cannot be used before COMMIT", table.name);
    Err(Error::new(ErrorKind::NotSupported, message).with_hint("COMMIT after ALTER TABLE, then go on."))
}

impl Overlay {
    fn of(&self, relation: RelationId) -> &Arc<dyn Snapshot> {
        if self.committed.catalog().relation(relation).is_some() { &self.committed } else { &self.own }
    }

    /// As [`Overlay::of`], refusing altered tables.
    fn usable(&self, relation: RelationId) -> Result<&Arc<dyn Snapshot>> {
        if let Some(table) = self.catalog.tables.values().find(|table| table.rows == relation) {
            check_usable(self.committed.catalog(), table)?;
        }
        Ok(self.of(relation))
    }
}

impl Snapshot for Overlay {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn seq(&self) -> u64 {
        self.committed.seq()
    }

    fn now(&self) -> i64 {
        self.committed.now()
    }

    fn accept(&self, scan: &Scan) -> Accepted {
        self.of(scan.relation).accept(scan)
    }

    fn statistics(&self, scan: &Scan) -> Result<ScanStatistics> {
        self.usable(scan.relation)?.statistics(scan)
    }

    fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        self.usable(scan.relation)?.plan(scan, want)
    }

    fn scan(&self, scan: &Scan, split: &Split, counters: Arc<ScanCounters>) -> Result<BatchStream> {
        self.usable(scan.relation)?.scan(scan, split, counters)
    }

    fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        self.usable(relation)?.get(relation, keys, columns)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        let known = |mutation: &Mutation| self.committed.catalog().relation(mutation.relation()).is_some();
        let (old, new): (Vec<_>, Vec<_>) = batch.mutations.iter().cloned().partition(known);
        let batch = |mutations| WriteBatch { mutations, unchanged: Vec::new(), relaxed: true };
        Ok(Arc::new(Overlay {
            committed: self.committed.with_writes(&batch(old))?,
            own: self.own.with_writes(&batch(new))?,
            catalog: self.catalog.clone(),
        }))
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        self.usable(relation)?.schema(relation, columns)
    }
}
