//! Batches on their way from the threads of a query to who reads them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use keyspan_model::Result;
use keyspan_seam::BatchStream;
use tokio::sync::mpsc;

use super::pool::GroupWork;
use super::{ended, group};

/// Batches that a query is ahead of who reads it: the reader's batch and this one are in memory.
const AHEAD: usize = 1;

/// Both ends of a stream.
pub(super) fn channel() -> (mpsc::Sender<Result<RecordBatch>>, mpsc::Receiver<Result<RecordBatch>>) {
    mpsc::channel(AHEAD)
}

/// Sends batches until there are no more, there is an error, or nobody takes them.
pub(super) async fn send(mut stream: BatchStream, sender: &mpsc::Sender<Result<RecordBatch>>) {
    while let Some(batch) = stream.next().await {
        if batch.is_err() {
            drop(stream);
            group::wait_for_tasks().await;
            let _ = sender.send(batch).await;
            return;
        }
        if sender.send(batch).await.is_err() {
            return;
        }
    }
}

/// Batches that come from other threads.
pub(super) struct Remote {
    batches: mpsc::Receiver<Result<RecordBatch>>,
    work: Option<GroupWork<()>>,
}

impl Remote {
    /// The batches that this work sends.
    pub(super) fn new(batches: mpsc::Receiver<Result<RecordBatch>>, work: GroupWork<()>) -> Remote {
        Remote { batches, work: Some(work) }
    }
}

impl Stream for Remote {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = ready!(self.batches.poll_recv(context)) {
            return Poll::Ready(Some(batch));
        }
        // Only the work's own end tells the end of the rows from a panic among them.
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let end = ready!(Pin::new(work).poll(context));
        self.work = None;
        Poll::Ready(end.err().map(|error| Err(ended(error))))
    }
}
