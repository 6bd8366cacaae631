//! A split as a stream of batches: a poll does about one batch of work.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use futures::Stream;
use keyspan_model::{Result, Scan};

use super::ScanSource;
use super::reader::{Grouping, SplitReader};
use super::split::decode_split;
use keyspan_seam::{BatchStream, ScanCounters, Split};

impl ScanSource {
    /// Reads one part of a scan.
    pub fn scan(self: &Arc<Self>, scan: &Scan, split: &Split, counters: Arc<ScanCounters>) -> Result<BatchStream> {
        let reader = self.reader(scan, split, counters)?;
        Ok(Box::pin(SplitStream { reader: Some(reader) }))
    }

    pub(crate) fn reader(
        self: &Arc<Self>,
        scan: &Scan,
        split: &Split,
        counters: Arc<ScanCounters>,
    ) -> Result<SplitReader> {
        let (looked, parts) = decode_split(&split.payload)?;
        let orders = self.orders(scan, (looked, &parts))?;
        // Groups are joined from parts, which must be of one type.
        let coded = scan.coded && matches!(orders.grouping, Grouping::Rows);
        SplitReader::new(Arc::clone(self), &scan.columns, coded, orders, counters)
    }
}

struct SplitStream {
    /// `None` once the end or an error was reached.
    reader: Option<SplitReader>,
}

impl Stream for SplitStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(reader) = &mut self.reader else { return Poll::Ready(None) };
        match reader.next_batch() {
            Ok(Some(batch)) if batch.num_rows() == 0 => {
                // A batch without live rows: yield before the next one.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Some(batch)) => Poll::Ready(Some(Ok(batch))),
            Ok(None) => {
                self.reader = None;
                Poll::Ready(None)
            }
            Err(error) => {
                self.reader = None;
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}
