//! What a session's scans have read: a snapshot that counts, for metrics, the log of slow statements and `keyspan_heat`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use keyspan_model::{Catalog, ColumnId, RelationId, Result, Scan, ScanColumn, Span, Value, WriteBatch};
use keyspan_seam::{Accepted, BatchStream, Changes, Conditions, Known, ScanCounters, ScanPlan, Snapshot, Split};
use parking_lot::Mutex;

use crate::heat::Heat;

/// Scans of a snapshot that are told apart.
const NOTED: usize = 16;

/// Sums over all scans of a session.
#[derive(Debug, Default)]
pub(crate) struct ReadTotals {
    /// Rows delivered.
    pub(crate) rows: AtomicU64,
    /// Bytes read from files.
    pub(crate) bytes: AtomicU64,
    /// Segments opened for reading.
    pub(crate) segments: AtomicU64,
}

/// A snapshot whose scans are counted.
#[derive(Debug)]
pub(crate) struct CountedSnapshot {
    inner: Arc<dyn Snapshot>,
    totals: Arc<ReadTotals>,
    heat: Arc<Heat>,
    /// Scans whose spans were noted: each of their splits is read by a call of its own.
    noted: Mutex<Vec<(RelationId, Vec<Span>)>>,
}

impl CountedSnapshot {
    /// The same snapshot, counted.
    pub(crate) fn counted(inner: Arc<dyn Snapshot>, totals: &Arc<ReadTotals>, heat: &Arc<Heat>) -> Arc<dyn Snapshot> {
        Arc::new(CountedSnapshot { inner, totals: totals.clone(), heat: heat.clone(), noted: Mutex::default() })
    }
}

impl CountedSnapshot {
    /// Notes the spans of a scan, once.
    fn note(&self, scan: &Scan) {
        let mut noted = self.noted.lock();
        if noted.iter().any(|(relation, spans)| *relation == scan.relation && *spans == scan.spans) {
            return;
        }
        self.heat.read_spans(scan.relation, &scan.spans);
        if noted.len() < NOTED {
            noted.push((scan.relation, scan.spans.clone()));
        }
    }
}

/// What of a scan's counters has gone into the totals. The splits of a scan share its counters, so each is taken from
/// its own.
struct Counted {
    counters: Arc<ScanCounters>,
    shared: Arc<ScanCounters>,
    totals: Arc<ReadTotals>,
}

impl Counted {
    /// Moves what was counted since the last time on.
    fn pass_on(&self) {
        let pass = |from: &AtomicU64, to: &[&AtomicU64]| {
            let counted = from.swap(0, Ordering::Relaxed);
            to.iter().for_each(|to| {
                to.fetch_add(counted, Ordering::Relaxed);
            });
        };
        let (own, shared, totals) = (&self.counters, &self.shared, &self.totals);
        pass(&own.rows, &[&shared.rows, &totals.rows]);
        pass(&own.bytes_read, &[&shared.bytes_read, &totals.bytes]);
        pass(&own.segments_read, &[&shared.segments_read, &totals.segments]);
        pass(&own.rows_merged, &[&shared.rows_merged]);
        pass(&own.pages_read, &[&shared.pages_read]);
    }
}

impl std::ops::Drop for Counted {
    fn drop(&mut self) {
        self.pass_on();
    }
}

#[async_trait]
impl Snapshot for CountedSnapshot {
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
        self.inner.plan(scan, want).await
    }

    fn scan(
        &self,
        scan: &Scan,
        split: &Split,
        conditions: Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<BatchStream> {
        self.note(scan);
        let own: Arc<ScanCounters> = Arc::default();
        let rows = self.inner.scan(scan, split, conditions, own.clone())?;
        let counted = Counted { counters: own, shared: counters, totals: self.totals.clone() };
        Ok(Box::pin(rows.inspect(move |_| counted.pass_on())))
    }

    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        self.heat.read_keys(relation, keys);
        let rows = self.inner.get(relation, keys, columns).await?;
        self.totals.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        Ok(rows)
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        self.inner.stamps_ahead(relation, keys).await
    }

    fn changed(&self, relation: RelationId, column: ColumnId, since: u64) -> Result<Changes> {
        self.inner.changed(relation, column, since)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        Ok(CountedSnapshot::counted(self.inner.with_writes(batch)?, &self.totals, &self.heat))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        Ok(CountedSnapshot::counted(self.inner.with_catalog(catalog)?, &self.totals, &self.heat))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(CountedSnapshot::counted(self.inner.lasting()?, &self.totals, &self.heat))
    }

    fn relation_bytes(&self, relation: RelationId) -> Known<u64> {
        self.inner.relation_bytes(relation)
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        self.inner.schema(relation, columns)
    }
}
