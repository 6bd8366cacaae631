//! From a statement's begin to its end: what others see of it meanwhile, what is counted, and the log of slow ones.
//!
//! The rule: a statement ends when its last row was taken, when it fails, or when nobody wants more of its rows; then
//! the timer is dropped, whatever the way.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use futures::Stream;
use keyspan_cql::redacted;
use keyspan_model::{Error, Result};
use keyspan_query::Peers;
use keyspan_seam::BatchStream;
use keyspan_store::clock::Clock;

use crate::context::ClientContext;
use crate::database::Database;
use crate::metrics::{EndedStatement, MetricCounters, StatementEnd, StatementKind};
use crate::outcome::{Outcome, Rows};
use crate::peer::SessionPeer;
use crate::prepared::Prepared;
use crate::reads::ReadTotals;

/// A running statement.
#[derive(Debug)]
pub(crate) struct StatementTimer {
    metrics: Arc<MetricCounters>,
    clock: Arc<dyn Clock>,
    peer: Arc<SessionPeer>,
    kind: StatementKind,
    began: Instant,
    planning: Duration,
    end: StatementEnd,
    rows_sent: u64,
    rows_written: u64,
    /// What the session's scans had read before: rows, bytes, segments.
    read_before: [u64; 3],
    totals: Arc<ReadTotals>,
    /// The state in which it leaves its session.
    leaves: &'static str,
    slow: Option<SlowStatement>,
}

/// What is logged of a statement that takes this long.
#[derive(Debug)]
struct SlowStatement {
    least: Duration,
    text: String,
    user: String,
}

impl StatementTimer {
    /// A statement begins.
    pub(crate) fn begin(context: &mut ClientContext, prepared: &Prepared) -> StatementTimer {
        let text = &prepared.parsed.text;
        context.peer.begin_statement(text, context.statement_time);
        let slow = context.settings.slow_statement().map(|least| {
            let shown = context.settings.get("log_keys") == Some("show");
            let text = if shown { text.replace(['\n', '\r'], " ") } else { redacted(text) };
            SlowStatement { least, text, user: context.user().to_owned() }
        });
        StatementTimer {
            metrics: context.database.metric_counters().clone(),
            clock: context.database.clock().clone(),
            peer: Arc::clone(&context.peer),
            kind: StatementKind::of(prepared.statement()),
            began: Instant::now(),
            planning: std::mem::take(&mut context.planning),
            end: StatementEnd::Ended,
            rows_sent: 0,
            rows_written: 0,
            read_before: read(&context.reads),
            totals: context.reads.clone(),
            leaves: "idle",
            slow,
        }
    }

    /// Takes the statement's answer: counts the rows while they are taken, else the statement has ended. One that waits
    /// for COPY data goes on: its timer is answered, too.
    pub(crate) fn watch(
        mut self,
        context: &ClientContext,
        outcome: Result<Outcome>,
    ) -> Result<(Outcome, Option<StatementTimer>)> {
        self.leaves = state(context);
        match outcome {
            Ok(Outcome { tag, rows: Some(rows), copy }) => {
                self.rows_written = tag.rows().unwrap_or(0);
                let schema = rows.schema().clone();
                let timed = TimedRows { rows: Some(rows.into_stream()), timer: Some(self) };
                Ok((Outcome { tag, rows: Some(Rows::new(schema, Box::pin(timed))), copy }, None))
            }
            Ok(outcome) if outcome.copy.is_some() => {
                // Unless the data comes to its end.
                self.end = StatementEnd::Failed;
                Ok((outcome, Some(self)))
            }
            Ok(outcome) => {
                self.done(outcome.tag.rows().unwrap_or(0));
                Ok((outcome, None))
            }
            Err(error) => {
                self.failed(&error);
                Err(error)
            }
        }
    }

    /// It has done what it was to do, and written so many rows.
    pub(crate) fn done(mut self, rows_written: u64) {
        (self.end, self.rows_written) = (StatementEnd::Done, rows_written);
    }

    fn failed(&mut self, error: &Error) {
        self.end = StatementEnd::of(error);
        if self.leaves == "idle in transaction" {
            self.leaves = "idle in transaction (aborted)";
        }
    }

    fn log(&self, ended: &EndedStatement) {
        let Some(slow) = self.slow.as_ref().filter(|slow| ended.time >= slow.least) else { return };
        let mut hasher = DefaultHasher::new();
        redacted(&slow.text).hash(&mut hasher);
        let id = hasher.finish() as i64;
        let [rows_read, bytes_read, segments_read] = ended.read;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
        tracing::info!(
            target: "keyspan::slow",
            user = slow.user,
            process = self.peer.process(),
            query_id = id,
            duration_ms = milliseconds(ended.time),
            planning_ms = milliseconds(self.planning),
            outcome = ended.end.name(),
            rows_sent = ended.rows_sent,
            rows_written = ended.rows_written,
            rows_read,
            bytes_read,
            segments_read,
            "slow statement: {}",
            slow.text
        );
    }
}

impl std::ops::Drop for StatementTimer {
    fn drop(&mut self) {
        let now = read(&self.totals);
        let mut difference = [0; 3];
        for (place, each) in difference.iter_mut().enumerate() {
            *each = now[place].saturating_sub(self.read_before[place]);
        }
        let ended = EndedStatement {
            kind: self.kind,
            end: self.end,
            time: self.began.elapsed() + self.planning,
            rows_sent: self.rows_sent,
            rows_written: self.rows_written,
            read: difference,
        };
        self.metrics.record(&ended);
        self.peer.end_statement(self.leaves, self.clock.now());
        self.log(&ended);
    }
}

/// Counts a statement that fails before it runs.
pub(crate) fn count_failed(database: &Database, kind: StatementKind, time: Duration, error: &Error) {
    let end = StatementEnd::of(error);
    database.metric_counters().record(&EndedStatement { kind, end, time, rows_sent: 0, rows_written: 0, read: [0; 3] });
}

/// The state that a statement leaves its session in.
fn state(context: &ClientContext) -> &'static str {
    match &context.transaction {
        Some(transaction) if transaction.is_implicit() => "idle",
        Some(transaction) if transaction.failed => "idle in transaction (aborted)",
        Some(_) => "idle in transaction",
        None => "idle",
    }
}

fn read(totals: &ReadTotals) -> [u64; 3] {
    [&totals.rows, &totals.bytes, &totals.segments].map(|total| total.load(Ordering::Relaxed))
}

/// Rows that end their statement.
struct TimedRows {
    rows: Option<BatchStream>,
    timer: Option<StatementTimer>,
}

impl Stream for TimedRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(rows) = &mut this.rows else { return Poll::Ready(None) };
        let polled = rows.as_mut().poll_next(context);
        match (&polled, &mut this.timer) {
            (Poll::Ready(Some(Ok(batch))), Some(timer)) => timer.rows_sent += batch.num_rows() as u64,
            (Poll::Ready(Some(Err(error))), Some(timer)) => {
                timer.failed(error);
                (this.rows, this.timer) = (None, None);
            }
            (Poll::Ready(None), _) => {
                this.rows = None;
                if let Some(timer) = this.timer.take() {
                    let written = timer.rows_written;
                    timer.done(written);
                }
            }
            _ => {}
        }
        polled
    }
}
