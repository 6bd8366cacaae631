//! What a session's scans have read: a snapshot that counts, for metrics, the log of slow statements, `keyspan_heat`,
//! ADVISE, and the guardrails `tombstones_warn` and `tombstones_fail`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use keyspan_model::{
    Catalog, ColumnId, Error, ErrorKind, RelationId, Result, Scan, ScanColumn, Span, Value, WriteBatch,
};
use keyspan_seam::{Accepted, BatchStream, Changes, Conditions, Known, ScanCounters, ScanPlan, Snapshot, Split};
use parking_lot::Mutex;

use crate::heat::Heat;
use crate::outcome::Notice;
use crate::usage::Usage;

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

/// Who is told of what the queries of a statement read.
#[derive(Clone, Debug)]
pub(crate) struct ReadWatch {
    /// The sums of the session.
    pub(crate) totals: Arc<ReadTotals>,
    /// The keys that all sessions read.
    pub(crate) heat: Arc<Heat>,
    /// How all sessions read each table.
    pub(crate) usage: Arc<Usage>,
    /// The limits on dead rows, where there are any.
    pub(crate) dead: Option<Arc<DeadRows>>,
}

/// How many deleted and expired rows a statement has read, and may read.
#[derive(Debug)]
pub(crate) struct DeadRows {
    /// Rows beyond which the client is warned.
    pub(crate) warn: Option<u64>,
    /// Rows beyond which the statement ends.
    pub(crate) fail: Option<u64>,
    /// Where warnings go that come while rows are read.
    pub(crate) warnings: Arc<Mutex<Vec<Notice>>>,
    /// Rows so far.
    pub(crate) read: AtomicU64,
}

impl DeadRows {
    fn add(&self, rows: u64) {
        let before = self.read.fetch_add(rows, Ordering::Relaxed);
        if let Some(limit) = self.warn.filter(|limit| (before + 1..=before + rows).contains(&(limit + 1))) {
            let notice = Notice::warning("01000", said("tombstones_warn", limit)).with_hint(DEAD_HINT);
            self.warnings.lock().push(notice);
        }
    }

    /// Fails if there were too many.
    fn check(&self) -> Result<()> {
        match self.fail.filter(|limit| self.read.load(Ordering::Relaxed) > *limit) {
            Some(limit) => {
                Err(Error::new(ErrorKind::LimitExceeded, said("tombstones_fail", limit)).with_hint(DEAD_HINT))
            }
            None => Ok(()),
        }
    }
}

const DEAD_HINT: &str = "Restrict the key so that they are not read, or COMPACT the table: what gc_grace_seconds \
     does not keep is gone then.";

fn said(setting: &str, limit: u64) -> String {
    format!("the query reads more rows that were deleted or have expired than {setting} allows: {limit}")
}

/// A snapshot whose scans are counted.
#[derive(Debug)]
pub(crate) struct CountedSnapshot {
    inner: Arc<dyn Snapshot>,
    watch: Arc<ReadWatch>,
    /// Scans whose spans were noted: each of their splits is read by a call of its own.
    noted: Mutex<Vec<(RelationId, Vec<Span>)>>,
}

impl CountedSnapshot {
    /// The same snapshot, counted.
    pub(crate) fn counted(inner: Arc<dyn Snapshot>, watch: &Arc<ReadWatch>) -> Arc<dyn Snapshot> {
        Arc::new(CountedSnapshot { inner, watch: watch.clone(), noted: Mutex::default() })
    }
}

impl CountedSnapshot {
    /// Notes the spans of a scan, once.
    fn note(&self, scan: &Scan) {
        let mut noted = self.noted.lock();
        if noted.iter().any(|(relation, spans)| *relation == scan.relation && *spans == scan.spans) {
            return;
        }
        self.watch.heat.read_spans(scan.relation, &scan.spans);
        self.watch.usage.scanned(scan);
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
    watch: Arc<ReadWatch>,
}

impl Counted {
    /// Passes on what was counted, and fails if there were too many dead rows.
    fn check(&self) -> Result<()> {
        self.pass_on();
        self.watch.dead.as_ref().map_or(Ok(()), |dead| dead.check())
    }

    /// Moves what was counted since the last time on.
    fn pass_on(&self) {
        let pass = |from: &AtomicU64, to: &[&AtomicU64]| {
            let counted = from.swap(0, Ordering::Relaxed);
            to.iter().for_each(|to| {
                to.fetch_add(counted, Ordering::Relaxed);
            });
        };
        let (own, shared, totals) = (&self.counters, &self.shared, &self.watch.totals);
        if let Some(dead) = &self.watch.dead {
            dead.add(own.rows_dead.load(Ordering::Relaxed));
        }
        pass(&own.rows, &[&shared.rows, &totals.rows]);
        pass(&own.bytes_read, &[&shared.bytes_read, &totals.bytes]);
        pass(&own.segments_read, &[&shared.segments_read, &totals.segments]);
        pass(&own.rows_merged, &[&shared.rows_merged]);
        pass(&own.rows_dead, &[&shared.rows_dead]);
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
        let counted = Arc::new(Counted { counters: own, shared: counters, watch: self.watch.clone() });
        let at_end = counted.clone();
        let rows = rows.map(move |rows| counted.check().and(rows));
        // Dead rows behind the last live one come in no batch.
        let end = futures::stream::once(async move { at_end.check().err() });
        Ok(Box::pin(rows.chain(end.filter_map(|error| futures::future::ready(error.map(Err))))))
    }

    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        self.watch.heat.read_keys(relation, keys);
        self.watch.usage.looked_up(relation);
        let rows = self.inner.get(relation, keys, columns).await?;
        self.watch.totals.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        Ok(rows)
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        self.inner.stamps_ahead(relation, keys).await
    }

    fn changed(&self, relation: RelationId, column: ColumnId, since: u64) -> Result<Changes> {
        self.inner.changed(relation, column, since)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        Ok(CountedSnapshot::counted(self.inner.with_writes(batch)?, &self.watch))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        Ok(CountedSnapshot::counted(self.inner.with_catalog(catalog)?, &self.watch))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(CountedSnapshot::counted(self.inner.lasting()?, &self.watch))
    }

    fn relation_bytes(&self, relation: RelationId) -> Known<u64> {
        self.inner.relation_bytes(relation)
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        self.inner.schema(relation, columns)
    }
}
