//! `SET full_scan = 'warn' | 'error'`: CQL's guard against queries that read whole tables, with CQL's message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use keyspan_model::{Catalog, ColumnId, Error, ErrorKind, RelationId, Result, Scan, ScanColumn, Value, WriteBatch};
use keyspan_seam::{
    Accepted, BatchStream, Changes, Conditions, IndexState, Known, ScanCounters, ScanPlan, Snapshot, Split, is_bounded,
};

use crate::outcome::Notice;

const MESSAGE: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable \
     performance. If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// A snapshot that detects scans of whole relations.
#[derive(Debug)]
struct GuardedSnapshot {
    inner: Arc<dyn Snapshot>,
    refuse: bool,
    seen: Arc<AtomicBool>,
}

/// The snapshot with the guard, and a flag that tells whether a whole relation was scanned.
pub(crate) fn guard(inner: Arc<dyn Snapshot>, refuse: bool) -> (Arc<dyn Snapshot>, Arc<AtomicBool>) {
    let seen = Arc::new(AtomicBool::new(false));
    (Arc::new(GuardedSnapshot { inner, refuse, seen: seen.clone() }), seen)
}

/// What `warn` says.
pub(crate) fn notice(seen: &AtomicBool) -> Option<Notice> {
    let notice = || Notice::warning("01000", "this query reads a whole table");
    let hint = "Restrict the leading key columns, or say ALLOW FILTERING.";
    seen.load(Ordering::Relaxed).then(|| notice().with_hint(hint))
}

impl GuardedSnapshot {
    /// Whether a condition is on an indexed column: as in Cassandra that is no scan of the whole table.
    fn asks_an_index(&self, scan: &Scan) -> bool {
        let indexed = self.catalog().relation(scan.relation).map(|relation| relation.indexed).unwrap_or_default();
        scan.ranges.iter().any(|range| indexed.contains(&range.column))
    }
}

#[async_trait]
impl Snapshot for GuardedSnapshot {
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
        // A query with a LIMIT and no filter stops by itself.
        if !is_bounded(&scan.spans, &[]) && scan.limit.is_none() && !self.asks_an_index(scan) {
            if self.refuse {
                return Err(Error::new(ErrorKind::InvalidArgument, MESSAGE));
            }
            self.seen.store(true, Ordering::Relaxed);
        }
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
        self.inner.get(relation, keys, columns).await
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        self.inner.stamps_ahead(relation, keys).await
    }

    fn changed(&self, relation: RelationId, column: ColumnId, since: u64) -> Result<Changes> {
        self.inner.changed(relation, column, since)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.with_writes(batch)?;
        Ok(Arc::new(GuardedSnapshot { inner, refuse: self.refuse, seen: self.seen.clone() }))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.with_catalog(catalog)?;
        Ok(Arc::new(GuardedSnapshot { inner, refuse: self.refuse, seen: self.seen.clone() }))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        let inner = self.inner.lasting()?;
        Ok(Arc::new(GuardedSnapshot { inner, refuse: self.refuse, seen: self.seen.clone() }))
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
