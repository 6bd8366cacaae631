//! The threads that queries run on. They are not the threads of the tasks that serve clients.
//!
//! The rules:
//! - A plan may compute for long between two yields, so the task that serves the client does not poll it. That task
//!   only waits, and so sees a cancel request or a timeout at once. Dropping the returned future or stream ends the
//!   work.
//! - Each statement has a group of threads for itself ([`group`]), so that no statement waits for another's next yield.
//!   After a tenth of a second its group gets a lower priority ([`watch`]), so that short statements come first.
//! - Only a plan that takes less time than waking a thread is polled by the task that asked ([`QueryThreads::poll_here`]).

mod group;
mod pool;
mod priority;
mod stream;
mod watch;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::task::Context;

use futures::{StreamExt, stream::poll_fn};
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_seam::BatchStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use self::pool::{GroupWork, Pool};
use self::stream::{Remote, send};

/// Bytes of a thread's stack, of which memory has what was used. What a statement may nest ([`keyspan_cql`] bounds it)
/// is planned and run by functions that call each other as deeply.
pub(super) const STACK: usize = 64 << 20;

/// The threads, begun when they are needed.
#[derive(Debug, Default)]
pub(crate) struct QueryThreads {
    groups: Arc<Pool>,
    /// For background work, and for the tasks that a plan spawns which is polled by the task that asked for it.
    shared: OnceLock<Option<Runtime>>,
}

impl QueryThreads {
    /// Runs work on a group of threads. When it ends the group is taken back: a stream that the work has begun must not
    /// outlive it.
    ///
    /// # Errors
    /// The work's own; 53200 when there can be no threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let work = async {
            let result = work.await;
            if result.is_err() {
                group::wait_for_tasks().await;
            }
            result
        };
        self.begin(work)?.await.unwrap_or_else(|error| Err(ended(error)))
    }

    /// Begins work in the background, on shared threads.
    ///
    /// # Errors
    /// 53200 when there can be no threads.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        self.shared()?.spawn(work);
        Ok(())
    }

    /// The stream that the work makes. One task on a group of threads does the work and then polls the stream.
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
                Err(error) => {
                    group::wait_for_tasks().await;
                    drop(begun.send(Err(error)));
                }
            }
        })?;
        match beginning.await {
            Ok(result) => result.map(|()| Box::pin(remote) as BatchStream),
            // The task ended before it could say how.
            Err(_) => match remote.next().await {
                Some(Err(error)) => Err(error),
                _ => Err(closing()),
            },
        }
    }

    /// As [`QueryThreads::stream`], for work that only begins the stream: this does not wait for it, and its error is
    /// the stream's first item.
    ///
    /// # Errors
    /// 53200 when there can be no threads.
    pub(crate) fn begin_stream(
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

    /// The stream that the work begins, polled by the task that reads it. Tasks that it spawns run on shared threads.
    ///
    /// # Errors
    /// The work's own; 53200 when there can be no threads.
    pub(crate) fn poll_here(&self, begin: impl FnOnce() -> Result<BatchStream>) -> Result<BatchStream> {
        let handle = self.shared()?;
        let mut stream = {
            let _entered = handle.enter();
            begin()?
        };
        let poll = move |context: &mut Context<'_>| {
            let _entered = handle.enter();
            stream.poll_next_unpin(context)
        };
        Ok(Box::pin(poll_fn(poll)))
    }

    fn remote<W: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(mpsc::Sender<Result<arrow::array::RecordBatch>>) -> W,
    ) -> Result<Remote> {
        let (sender, batches) = stream::channel();
        Ok(Remote::new(batches, self.begin(work(sender))?))
    }

    fn begin<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<GroupWork<T>> {
        Pool::begin(&self.groups, work).ok_or_else(no_threads)
    }

    fn shared(&self) -> Result<Handle> {
        let begin = || {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(pool::cores()).thread_name("keyspan-shared").thread_stack_size(STACK);
            builder.enable_all().build().ok()
        };
        match self.shared.get_or_init(begin) {
            Some(runtime) => Ok(runtime.handle().clone()),
            None => Err(no_threads()),
        }
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        // Without waiting: the last session may end inside a task.
        if let Some(Some(runtime)) = self.shared.take() {
            runtime.shutdown_background();
        }
    }
}

fn no_threads() -> Error {
    Error::new(ErrorKind::OutOfMemory, "could not start the threads that queries run on")
}

fn closing() -> Error {
    Error::new(ErrorKind::Shutdown, "the database is closing")
}

/// A panic goes on where the query was asked for, so that it ends what a panic there would end.
fn ended(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => closing(),
    }
}

#[cfg(test)]
mod tests;
