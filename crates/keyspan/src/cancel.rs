//! Stopping a statement: by a [`CancelHandle`] from elsewhere, or by `statement_timeout`. Both end it with 57014.
//!
//! The rule: a statement is stopped where it waits (for a lock, for rows, for the planner), never between a commit and
//! its answer, so that a cancelled statement has either not written or is told of its commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::Stream;
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_seam::BatchStream;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Sleep};

/// Cancels whatever a session is running. Clones act on the same session.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    current: Arc<Mutex<Arc<Token>>>,
    end: Arc<watch::Sender<bool>>,
}

#[derive(Debug, Default)]
struct Token {
    cancelled: AtomicBool,
    changed: Notify,
}

impl CancelHandle {
    /// Ends the session's running statement, and the stream of its rows, with 57014. No effect on an idle session.
    pub fn cancel(&self) {
        let token = self.current.lock().clone();
        token.cancelled.store(true, Ordering::SeqCst);
        token.changed.notify_waiters();
    }

    /// Cancels the statement, and asks whoever serves the session to end it.
    pub fn end(&self) {
        self.end.send_replace(true);
        self.cancel();
    }

    /// Whether the session is to end, for whoever serves it.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.end.subscribe()
    }

    /// Begins a statement: earlier calls of [`CancelHandle::cancel`] do not concern it.
    pub(crate) fn begin(&self, timeout: Option<Duration>) -> Running {
        let token = Arc::new(Token::default());
        *self.current.lock() = token.clone();
        Running { token, deadline: timeout.map(|timeout| Instant::now() + timeout) }
    }
}

/// The running statement's side of a [`CancelHandle`].
#[derive(Clone, Debug)]
pub(crate) struct Running {
    token: Arc<Token>,
    deadline: Option<Instant>,
}

impl Running {
    /// Fails once the statement is to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.token.cancelled.load(Ordering::SeqCst) {
            return Err(by_request());
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(by_timeout()),
            _ => Ok(()),
        }
    }

    /// The future's result, or 57014 as soon as the statement is to end; the future is then dropped.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            error = self.ended() => Err(error),
            result = work => result,
        }
    }

    /// The stream, ending with 57014 when the statement is to end.
    pub(crate) fn guard_stream(&self, stream: BatchStream) -> BatchStream {
        let running = self.clone();
        Box::pin(CancellableStream { stream: Some(stream), ended: Box::pin(async move { running.ended().await }) })
    }

    /// Resolves when the statement is to end, with the error to end it with.
    pub(crate) async fn ended(&self) -> Error {
        let notified = self.token.changed.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if self.token.cancelled.load(Ordering::SeqCst) {
            return by_request();
        }
        match self.deadline {
            None => {
                notified.await;
                by_request()
            }
            Some(deadline) => {
                let sleep: Sleep = tokio::time::sleep_until(deadline);
                tokio::select! {
                    () = notified => by_request(),
                    () = sleep => by_timeout(),
                }
            }
        }
    }
}

struct CancellableStream {
    stream: Option<BatchStream>,
    ended: Pin<Box<dyn Future<Output = Error> + Send>>,
}

impl Stream for CancellableStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
        if let Poll::Ready(error) = this.ended.as_mut().poll(context) {
            this.stream = None;
            return Poll::Ready(Some(Err(error)));
        }
        let polled = stream.as_mut().poll_next(context);
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            this.stream = None;
        }
        polled
    }
}

fn by_request() -> Error {
    Error::new(ErrorKind::Canceled, "canceling statement due to user request")
}

fn by_timeout() -> Error {
    Error::new(ErrorKind::Canceled, "canceling statement due to statement timeout")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    #[tokio::test]
    async fn a_cancelled_statement_ends_its_stream() {
        let handle = CancelHandle::default();
        let running = handle.begin(None);
        let mut stream = running.guard_stream(Box::pin(futures::stream::pending()));
        handle.cancel();
        let error = stream.next().await.expect("an item").expect_err("cancelled");
        assert_eq!(error.sqlstate(), "57014");
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn an_earlier_cancel_does_not_concern_the_next_statement() {
        let handle = CancelHandle::default();
        handle.cancel();
        let running = handle.begin(None);
        assert_eq!(running.guard(async { Ok(1) }).await, Ok(1));
    }

    #[tokio::test]
    async fn a_timeout_ends_a_statement_that_waits() {
        let running = CancelHandle::default().begin(Some(Duration::from_millis(5)));
        let error = running.guard(futures::future::pending::<Result<()>>()).await.expect_err("timed out");
        assert_eq!(error.message, "canceling statement due to statement timeout");
    }
}
