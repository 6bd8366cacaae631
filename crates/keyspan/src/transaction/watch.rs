//! A snapshot that remembers what was read from it: how SERIALIZABLE knows what must not change before COMMIT.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use keyspan_model::{Catalog, ColumnId, RelationId, Result, Scan, ScanColumn, Span, Unchanged, Value, WriteBatch};
use keyspan_store::seam::{Accepted, BatchStream, Changes, Known, ScanCounters, ScanPlan, Snapshot, Split};
use parking_lot::Mutex;

/// More remembered spans than this of one transaction become whole relations.
const SPANS_MAX: usize = 1_000;

/// A snapshot whose reads are remembered.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Arc<dyn Snapshot>,
    /// What is committed: only of such relations can another transaction change something.
    committed: Arc<Catalog>,
    reads: Arc<Mutex<Vec<Unchanged>>>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Snapshot>, reads: Arc<Mutex<Vec<Unchanged>>>) -> Watched {
        Watched { committed: inner.catalog().clone(), inner, reads }
    }

    fn remember(&self, relation: RelationId, spans: impl IntoIterator<Item = Span>) {
        if self.committed.relation(relation).is_none() {
            return;
        }
        let mut reads = self.reads.lock();
        for span in spans {
            let read = Unchanged { relation, span, seq: self.inner.seq() };
            if !reads.contains(&read) {
                reads.push(read);
            }
        }
        if reads.len() > SPANS_MAX {
            let mut relations: Vec<(RelationId, u64)> = reads.drain(..).map(|read| (read.relation, read.seq)).collect();
            relations.sort();
            relations.dedup_by_key(|(relation, _)| *relation);
            reads.extend(relations.into_iter().map(|(relation, seq)| Unchanged { relation, span: Span::all(), seq }));
        }
    }
}

impl Snapshot for Watched {
    fn catalog(&self) -> &Arc<Catalog> {
        self.inner.catalog()
    }

    fn seq(&self) -> u64 {
        self.inner.seq()
    }

    fn now(&self) -> i64 {
        self.inner.now()
    }

    fn accept(&self, scan: &Scan) -> Accepted {
        self.inner.accept(scan)
    }

    fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        // Whether or not it is read: an answer may come from the plan's statistics alone, as that of count(*).
        self.remember(scan.relation, scan.spans.iter().cloned());
        self.inner.plan(scan, want)
    }

    fn scan(&self, scan: &Scan, split: &Split, counters: Arc<ScanCounters>) -> Result<BatchStream> {
        self.inner.scan(scan, split, counters)
    }

    fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        self.remember(relation, keys.iter().map(|key| Span::prefix(key.clone())));
        self.inner.get(relation, keys, columns)
    }

    /// Kept rows of a materialized view would hide what of its source was read: so all of it is computed.
    fn changed(&self, _: RelationId, _: ColumnId, _: u64) -> Result<Changes> {
        Ok(Changes::Anywhere)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.with_writes(batch)?;
        Ok(Arc::new(Watched { inner, committed: self.committed.clone(), reads: self.reads.clone() }))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.with_catalog(catalog)?;
        Ok(Arc::new(Watched { inner, committed: self.committed.clone(), reads: self.reads.clone() }))
    }

    fn relation_bytes(&self, relation: RelationId) -> Known<u64> {
        self.inner.relation_bytes(relation)
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        self.inner.schema(relation, columns)
    }
}
