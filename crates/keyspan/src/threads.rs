//! The threads that queries run on, apart from those of whoever asks.
//!
//! The rule: a plan's work may take long between two of its yields, so it is not polled by the task that answers a
//! client. That task waits for it, and so sees a cancel request or a timeout at once; the work is told to stop, and does
//! at its next yield. Dropping what is answered here stops it too. Only what takes less time than waking a thread for it
//! is polled by whoever asks ([`QueryThreads::here`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_store::seam::BatchStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

/// Batches that a query is ahead of who reads it: the reader's batch and this one are in memory.
const AHEAD: usize = 1;

/// The threads, begun when the first query runs.
#[derive(Debug, Default)]
pub(crate) struct QueryThreads {
    runtime: OnceLock<Option<Runtime>>,
}

impl QueryThreads {
    /// Does work on these threads.
    ///
    /// # Errors
    /// The work's own; 53200 when there can be no threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut task = Stopping(self.handle()?.spawn(work));
        (&mut task.0).await.unwrap_or_else(|error| Err(ended(error)))
    }

    /// Begins work that goes on by itself.
    ///
    /// # Errors
    /// 53200 when there can be no threads.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        self.handle()?.spawn(work);
        Ok(())
    }

    /// The stream that the work makes, read on these threads: one task does both.
    ///
    /// # Errors
    /// The work's own; 53200 when there can be no threads.
    pub(crate) async fn stream(
        &self,
        work: impl Future<Output = Result<BatchStream>> + Send + 'static,
    ) -> Result<BatchStream> {
        let (begun, beginning) = oneshot::channel();
        let mut remote = self.remote(|sender| async move {
            match work.await {
                Ok(stream) => {
                    // Whoever does not wait for this does not read either.
                    let _ = begun.send(Ok(()));
                    send(stream, &sender).await;
                }
                Err(error) => drop(begun.send(Err(error))),
            }
        })?;
        match beginning.await {
            Ok(result) => result.map(|()| Box::pin(remote) as BatchStream),
            // The task ended before it could say how.
            Err(_) => match remote.next().await {
                Some(Err(error)) => Err(error),
                _ => Err(Error::new(ErrorKind::Shutdown, "the database is closing")),
            },
        }
    }

    /// As [`QueryThreads::stream`] for work that only begins the stream: nobody waits for it, and its error is the first item.
    ///
    /// # Errors
    /// 53200 when there can be no threads.
    pub(crate) fn stream_of(
        &self,
        begin: impl FnOnce() -> Result<BatchStream> + Send + 'static,
    ) -> Result<BatchStream> {
        let remote = self.remote(|sender| async move {
            match begin() {
                Ok(stream) => send(stream, &sender).await,
                Err(error) => drop(sender.send(Err(error)).await),
            }
        })?;
        Ok(Box::pin(remote))
    }

    /// The stream that the work begins, polled by whoever reads it. Tasks of its own run on these threads.
    ///
    /// # Errors
    /// The work's own; 53200 when there can be no threads.
    pub(crate) fn here(&self, begin: impl FnOnce() -> Result<BatchStream>) -> Result<BatchStream> {
        let handle = self.handle()?;
        let mut stream = {
            let _entered = handle.enter();
            begin()?
        };
        let poll = move |context: &mut Context<'_>| {
            let _entered = handle.enter();
            stream.poll_next_unpin(context)
        };
        Ok(Box::pin(futures::stream::poll_fn(poll)))
    }

    fn remote<W: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(mpsc::Sender<Result<RecordBatch>>) -> W,
    ) -> Result<Remote> {
        let (sender, batches) = mpsc::channel(AHEAD);
        let task = self.handle()?.spawn(work(sender));
        Ok(Remote { batches, task: Some(Stopping(task)) })
    }

    fn handle(&self) -> Result<Handle> {
        let begin = || {
            // Asking takes long beside a short query.
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            Builder::new_multi_thread().worker_threads(threads).thread_name("keyspan-query").enable_all().build().ok()
        };
        match self.runtime.get_or_init(begin) {
            Some(runtime) => Ok(runtime.handle().clone()),
            None => Err(Error::new(ErrorKind::OutOfMemory, "could not start the threads that queries run on")),
        }
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        // Without waiting: the last session may end inside a task.
        if let Some(Some(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends batches until there are no more, or nobody takes them.
async fn send(mut stream: BatchStream, sender: &mpsc::Sender<Result<RecordBatch>>) {
    while let Some(batch) = stream.next().await {
        if sender.send(batch).await.is_err() {
            return;
        }
    }
}

/// A task that is stopped when nobody waits for it any more.
struct Stopping<T>(JoinHandle<T>);

impl<T> Drop for Stopping<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A panic goes on where the query was asked for, so that it ends what a panic there would end.
fn ended(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Error::new(ErrorKind::Shutdown, "the database is closing"),
    }
}

/// Batches that come from another task.
struct Remote {
    batches: mpsc::Receiver<Result<RecordBatch>>,
    task: Option<Stopping<()>>,
}

impl Stream for Remote {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = ready!(self.batches.poll_recv(context)) {
            return Poll::Ready(Some(batch));
        }
        // Only the task's own end tells the end of the rows from a panic among them.
        let Some(task) = &mut self.task else { return Poll::Ready(None) };
        let end = ready!(Pin::new(&mut task.0).poll(context));
        self.task = None;
        Poll::Ready(end.err().map(|error| Err(ended(error))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelHandle;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn work_that_never_yields_does_not_hold_up_its_cancel() {
        let threads = QueryThreads::default();
        let handle = CancelHandle::default();
        let running = handle.begin(Some(Duration::from_millis(20)));
        let start = Instant::now();
        let work = async {
            std::thread::sleep(Duration::from_secs(3));
            Ok(())
        };
        let error = running.guard(threads.run(work)).await.expect_err("timed out");
        assert_eq!(error.sqlstate(), "57014");
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn a_panic_before_the_rows_is_a_panic_too() {
        let threads = QueryThreads::default();
        let begun = tokio::spawn(async move { threads.stream(async { panic!("a defect") }).await.map(drop) });
        assert!(begun.await.expect_err("a panic").is_panic());
    }

    #[tokio::test]
    async fn a_panic_among_the_rows_is_not_their_end() {
        let threads = QueryThreads::default();
        let broken = || Ok(Box::pin(futures::stream::poll_fn(|_| panic!("a defect"))) as BatchStream);
        let stream = threads.stream_of(broken).expect("threads");
        let read = tokio::spawn(stream.collect::<Vec<_>>());
        assert!(read.await.expect_err("a panic").is_panic());
    }
}
