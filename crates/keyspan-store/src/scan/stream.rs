//! A split as a stream of batches: a poll does about one batch of work.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use futures::{FutureExt, Stream};
use keyspan_model::{Result, Scan};
use tokio::task::JoinHandle;

use super::ScanSource;
use super::reader::{Grouping, SplitReader};
use super::split::decode_split;
use crate::files::{answered, in_memory, may_wait, on_disk};
use keyspan_seam::{BatchStream, Conditions, ScanCounters, Split};

impl ScanSource {
    /// Reads one part of a scan; rows that do not meet the conditions may be left out.
    pub fn scan(
        self: &Arc<Self>,
        scan: &Scan,
        split: &Split,
        conditions: Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<BatchStream> {
        let part = Part { source: self.clone(), scan: scan.clone(), split: split.clone(), conditions, counters };
        Ok(Box::pin(SplitStream { part, rows: 0, state: State::New }))
    }

    pub(crate) fn reader(
        self: &Arc<Self>,
        scan: &Scan,
        split: &Split,
        conditions: &Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<SplitReader> {
        let (means, parts) = decode_split(&split.payload)?;
        let orders = self.orders(scan, (means, &parts), conditions)?;
        // Groups are joined from parts, which must be of one type.
        let coded = scan.coded && matches!(orders.grouping, Grouping::Rows);
        SplitReader::new(Arc::clone(self), &scan.columns, coded, orders, counters)
    }
}

/// One part of a scan.
#[derive(Clone)]
struct Part {
    source: Arc<ScanSource>,
    scan: Scan,
    split: Split,
    conditions: Conditions,
    counters: Arc<ScanCounters>,
}

impl Part {
    fn reader(&self) -> Result<SplitReader> {
        self.source.reader(&self.scan, &self.split, &self.conditions, self.counters.clone())
    }

    /// Whether another reader would deliver the same rows.
    fn is_repeatable(&self) -> bool {
        !self.conditions.iter().any(|condition| condition.narrows())
    }

    /// A reader behind so many rows.
    fn reader_behind(&self, mut rows: usize) -> Result<SplitReader> {
        let mut reader = self.reader()?;
        while rows > 0 {
            let Some(batch) = reader.next_batch()? else { break };
            rows = rows.saturating_sub(batch.num_rows());
        }
        Ok(reader)
    }
}

type Read = Result<(SplitReader, Option<RecordBatch>)>;

struct SplitStream {
    part: Part,
    /// Rows delivered so far.
    rows: usize,
    state: State,
}

enum State {
    New,
    /// Read by whoever polls: on a thread that may wait, or as long as all is in memory.
    Here(Box<SplitReader>),
    /// Read on a thread that may wait.
    Elsewhere(JoinHandle<Read>),
    /// The next batch is to be read there too.
    Rest(Box<SplitReader>),
    /// The end or an error was reached.
    Ended,
}

fn next(mut reader: SplitReader) -> Read {
    let batch = reader.next_batch()?;
    Ok((reader, batch))
}

impl SplitStream {
    /// The next batch, as far as it is read by now. Batches end where they do whoever reads them.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::New if !self.part.is_repeatable() && !may_wait() => {
                    self.state = State::Elsewhere(self.elsewhere());
                }
                State::New => match in_memory(|| self.part.reader()) {
                    Some(reader) => self.state = State::Here(Box::new(reader?)),
                    None => self.state = State::Elsewhere(self.elsewhere()),
                },
                State::Here(reader) if !self.part.is_repeatable() && !may_wait() => {
                    self.state = State::Elsewhere(on_disk(move || next(*reader)));
                }
                State::Here(mut reader) => match in_memory(|| reader.next_batch()) {
                    Some(batch) => {
                        let batch = batch?;
                        if batch.is_some() {
                            self.state = State::Here(reader);
                        }
                        return Poll::Ready(Ok(batch));
                    }
                    // A reader that was refused a read is of no more use.
                    None => self.state = State::Elsewhere(self.elsewhere()),
                },
                State::Elsewhere(mut handle) => match handle.poll_unpin(context) {
                    Poll::Pending => {
                        self.state = State::Elsewhere(handle);
                        return Poll::Pending;
                    }
                    Poll::Ready(read) => {
                        let (reader, batch) = answered(read)??;
                        if batch.is_some() {
                            self.state = State::Rest(Box::new(reader));
                        }
                        return Poll::Ready(Ok(batch));
                    }
                },
                State::Rest(reader) if may_wait() => self.state = State::Here(reader),
                State::Rest(reader) => self.state = State::Elsewhere(on_disk(move || next(*reader))),
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Reads the next batch anew on a thread that may wait.
    fn elsewhere(&self) -> JoinHandle<Read> {
        let (part, rows) = (self.part.clone(), self.rows);
        on_disk(move || next(part.reader_behind(rows)?))
    }
}

impl Stream for SplitStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match ready!(self.read(context)) {
            Ok(Some(batch)) if batch.num_rows() == 0 => {
                // A batch without live rows: yield before the next one.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Some(batch)) => {
                self.rows += batch.num_rows();
                Poll::Ready(Some(Ok(batch)))
            }
            Ok(None) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }
}
