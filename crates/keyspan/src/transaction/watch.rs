//! A snapshot that records the spans read from it. SERIALIZABLE has COMMIT check that nobody else has written to them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use keyspan_model::{Catalog, ColumnId, RelationId, Result, Scan, ScanColumn, Span, Unchanged, Value, WriteBatch};
use keyspan_seam::{
    Accepted, BatchStream, Changes, Conditions, IndexState, Known, ScanCounters, ScanPlan, Snapshot, Split,
};
use parking_lot::Mutex;

/// A transaction with more recorded spans than this records whole relations instead.
const SPANS_MAX: usize = 1_000;

/// A snapshot that records what is read.
#[derive(Debug)]
pub(super) struct ReadTracker {
    inner: Arc<dyn Snapshot>,
    /// What is committed: only of such relations can another transaction change something.
    committed: Arc<Catalog>,
    reads: Arc<Mutex<Vec<Unchanged>>>,
}

impl ReadTracker {
    pub(super) fn new(inner: Arc<dyn Snapshot>, reads: Arc<Mutex<Vec<Unchanged>>>) -> ReadTracker {
        ReadTracker { committed: inner.catalog().clone(), inner, reads }
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

#[async_trait]
impl Snapshot for ReadTracker {
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

    async fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        // Even if no batch is read: count(*) may be answered from the plan's statistics alone.
        self.remember(scan.relation, scan.spans.iter().cloned());
        self.inner.plan(scan, want).await
    }

    fn scan(
        &self,
        scan: &Scan,
        split: &Split,
        conditions: Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<BatchStream> {
        self.inner.scan(scan, split, conditions, counters)
    }

    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        self.remember(relation, keys.iter().map(|key| Span::prefix(key.clone())));
        self.inner.get(relation, keys, columns).await
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        self.inner.stamps_ahead(relation, keys).await
    }

    /// The stored rows of a materialized view would hide which rows of its source were read, so everything is computed.
    fn changed(&self, _: RelationId, _: ColumnId, _: u64) -> Result<Changes> {
        Ok(Changes::Anywhere)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.with_writes(batch)?;
        Ok(Arc::new(ReadTracker { inner, committed: self.committed.clone(), reads: self.reads.clone() }))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.with_catalog(catalog)?;
        Ok(Arc::new(ReadTracker { inner, committed: self.committed.clone(), reads: self.reads.clone() }))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.lasting()?;
        Ok(Arc::new(ReadTracker { inner, committed: self.committed.clone(), reads: self.reads.clone() }))
    }

    fn relation_bytes(&self, relation: RelationId) -> Known<u64> {
        self.inner.relation_bytes(relation)
    }

    fn index_state(&self, relation: RelationId, column: ColumnId) -> Option<IndexState> {
        self.inner.index_state(relation, column)
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        self.inner.schema(relation, columns)
    }
}
