//! What the statements of a database have done since it was opened: counts, times, rows.
//!
//! The rule: counting costs a few additions for each statement, and nothing is ever reset: who reads takes differences.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keyspan_cql::Statement;
use keyspan_model::{Error, ErrorKind};

/// Upper bounds of the buckets of [`StatementMetrics::buckets`], in seconds; the last bucket has none.
pub const LATENCY_BOUNDS: [f64; 12] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// SELECT, scan, FETCH.
    Select,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// COPY.
    Copy,
    /// What changes definitions, roles and rights.
    Define,
    /// BEGIN, COMMIT and their kin.
    Transaction,
    /// Everything else.
    Other,
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementEnd {
    /// It did what it was to do.
    Done,
    /// With an error.
    Failed,
    /// By a cancel request, a timeout, or since its client did not take all rows.
    Ended,
}

impl StatementKind {
    /// All, in the order of [`Metrics::statements`].
    pub const ALL: [StatementKind; 8] = [
        StatementKind::Select,
        StatementKind::Insert,
        StatementKind::Update,
        StatementKind::Delete,
        StatementKind::Copy,
        StatementKind::Define,
        StatementKind::Transaction,
        StatementKind::Other,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            StatementKind::Select => "select",
            StatementKind::Insert => "insert",
            StatementKind::Update => "update",
            StatementKind::Delete => "delete",
            StatementKind::Copy => "copy",
            StatementKind::Define => "define",
            StatementKind::Transaction => "transaction",
            StatementKind::Other => "other",
        }
    }

    pub(crate) fn of(statement: &Statement) -> StatementKind {
        use Statement as S;
        match statement {
            S::Query(_) | S::Hbase(_) | S::Fetch(_) | S::Execute(_) => StatementKind::Select,
            S::Insert(_) => StatementKind::Insert,
            S::With(with) => StatementKind::of(&with.statement.statement),
            S::Update(_) | S::Merge(_) => StatementKind::Update,
            S::Delete(_) => StatementKind::Delete,
            S::Copy(_) => StatementKind::Copy,
            S::CreateKeyspace(_) | S::AlterKeyspace(_) | S::CreateTable(_) | S::CreateTableAs(_) => {
                StatementKind::Define
            }
            S::CreateView(_) | S::AlterTable(_) | S::Drop(_) | S::Truncate(_) | S::Comment(_) => StatementKind::Define,
            S::CreateIndex(_) | S::RenameIndex(_) => StatementKind::Define,
            S::CreateSequence(_) | S::AlterSequence(_) | S::CreateRole(_) | S::AlterRole(_) | S::DropRole(_) => {
                StatementKind::Define
            }
            S::GrantRoles(_) | S::GrantRights(_) => StatementKind::Define,
            S::Begin(_) | S::BeginBatch(_) | S::ApplyBatch | S::Commit(_) | S::Rollback(_) => {
                StatementKind::Transaction
            }
            S::Savepoint(_) | S::Release(_) | S::RollbackTo(_) | S::SetTransaction(_) => StatementKind::Transaction,
            _ => StatementKind::Other,
        }
    }
}

impl StatementEnd {
    /// All, in the order of [`StatementMetrics::ends`].
    pub const ALL: [StatementEnd; 3] = [StatementEnd::Done, StatementEnd::Failed, StatementEnd::Ended];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            StatementEnd::Done => "done",
            StatementEnd::Failed => "failed",
            StatementEnd::Ended => "ended",
        }
    }

    pub(crate) fn of(error: &Error) -> StatementEnd {
        if error.kind == ErrorKind::Canceled { StatementEnd::Ended } else { StatementEnd::Failed }
    }
}

/// The statements of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementMetrics {
    /// How many ended in each way.
    pub ends: [u64; 3],
    /// How many took at most so long as [`LATENCY_BOUNDS`] says and longer than the bucket before; then those that took
    /// longer.
    pub buckets: [u64; LATENCY_BOUNDS.len() + 1],
    /// The time of all of them together.
    pub time: Duration,
}

/// What statements have done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// By kind, as in [`StatementKind::ALL`].
    pub statements: [StatementMetrics; 8],
    /// Rows that were answered.
    pub rows_sent: u64,
    /// Rows that were inserted, updated and deleted, as far as they were counted.
    pub rows_written: u64,
    /// Rows that scans read.
    pub rows_read: u64,
    /// Bytes that scans read from files.
    pub bytes_read: u64,
    /// Segments that scans opened.
    pub segments_read: u64,
}

#[derive(Debug, Default)]
struct KindCounters {
    ends: [AtomicU64; 3],
    buckets: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The counters behind [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct MetricCounters {
    kinds: [KindCounters; 8],
    rows_sent: AtomicU64,
    rows_written: AtomicU64,
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
    segments_read: AtomicU64,
}

/// One statement that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedStatement {
    pub(crate) kind: StatementKind,
    pub(crate) end: StatementEnd,
    pub(crate) time: Duration,
    pub(crate) rows_sent: u64,
    pub(crate) rows_written: u64,
    /// What scans read: rows, bytes, segments.
    pub(crate) read: [u64; 3],
}

impl MetricCounters {
    /// Counts a statement.
    pub(crate) fn record(&self, ended: &EndedStatement) {
        let add = |counter: &AtomicU64, by: u64| counter.fetch_add(by, Ordering::Relaxed);
        let kind = &self.kinds[ended.kind as usize];
        let seconds = ended.time.as_secs_f64();
        let bucket = LATENCY_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS.len());
        add(&kind.ends[ended.end as usize], 1);
        add(&kind.buckets[bucket], 1);
        add(&kind.micros, u64::try_from(ended.time.as_micros()).unwrap_or(u64::MAX));
        add(&self.rows_sent, ended.rows_sent);
        add(&self.rows_written, ended.rows_written);
        let [rows, bytes, segments] = ended.read;
        add(&self.rows_read, rows);
        add(&self.bytes_read, bytes);
        add(&self.segments_read, segments);
    }

    /// What they say now.
    pub(crate) fn read(&self) -> Metrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kind = |counters: &KindCounters| StatementMetrics {
            ends: counters.ends.each_ref().map(get),
            buckets: counters.buckets.each_ref().map(get),
            time: Duration::from_micros(get(&counters.micros)),
        };
        Metrics {
            statements: self.kinds.each_ref().map(kind),
            rows_sent: get(&self.rows_sent),
            rows_written: get(&self.rows_written),
            rows_read: get(&self.rows_read),
            bytes_read: get(&self.bytes_read),
            segments_read: get(&self.segments_read),
        }
    }
}
