//! Control of a connection by other tasks: cancelling its statement, ending it.

use std::future::Future;
use std::time::Duration;

use keyspan_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::engine::CancelHandle;
use crate::failure::{Failure, shutting_down};
use crate::frame::{Frame, FrameReader};
use crate::output::Output;

/// How long answers that have gathered wait for a statement that runs: long enough that quick ones go in one piece.
const FLUSH_DELAY: Duration = Duration::from_millis(5);

/// The phases of the server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Clients are served.
    Serving,
    /// Idle clients are disconnected; running statements and transactions may finish.
    Draining,
    /// Running statements are cancelled, transactions undone.
    Stopping,
}

/// The handle by which cancel requests reach a connection.
#[derive(Clone, Debug)]
pub(crate) struct Canceller {
    handle: CancelHandle,
    requests: watch::Sender<u64>,
}

impl Canceller {
    /// Ends the statement that is running, if one is.
    pub(crate) fn cancel(&self) {
        self.handle.cancel();
        self.requests.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// The connection's own side of that handle.
#[derive(Debug)]
pub(crate) struct Control {
    canceller: Canceller,
    requests: watch::Receiver<u64>,
    phase: Ending,
}

/// What ends a connection from outside: the server's shutdown, or another session (`pg_terminate_backend`).
#[derive(Debug)]
struct Ending {
    server: watch::Receiver<Phase>,
    own: watch::Receiver<bool>,
}

impl Control {
    /// For a session with this handle, on a server in this phase.
    pub(crate) fn new(handle: CancelHandle, phase: watch::Receiver<Phase>) -> Control {
        let (sender, requests) = watch::channel(0);
        let phase = Ending { server: phase, own: handle.ending() };
        Control { canceller: Canceller { handle, requests: sender }, requests, phase }
    }

    /// What a cancel request holds.
    pub(crate) fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Forgets cancel requests: they were for an earlier statement.
    pub(crate) fn begin_statement(&mut self) {
        self.requests.mark_unchanged();
    }

    /// Resolves when the server is so far on its way down that a client that waits is sent away: at once, or with
    /// `grace` when running statements are cancelled too.
    pub(crate) async fn sent_away(&mut self, grace: bool) {
        reached(&mut self.phase, if grace { Phase::Stopping } else { Phase::Draining }).await;
    }

    /// Runs a statement's work to its end. Buffered messages are sent if the work takes long. If the client goes, or
    /// the server stops, the work is cancelled, but still awaited: the session is whole only after it.
    pub(crate) async fn run<T>(
        &mut self,
        reader: &mut FrameReader,
        out: &mut Output,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T, Failure> {
        tokio::pin!(work);
        let failure = tokio::select! {
            biased;
            result = &mut work => return self.finished(result),
            error = late_flush(out) => Failure::from(error),
            () = reader.closed() => Failure::Gone,
            () = reached(&mut self.phase, Phase::Stopping) => Failure::Fatal(shutting_down()),
        };
        self.canceller.cancel();
        // Whatever it says, the connection ends.
        let _ = work.await;
        Err(failure)
    }

    /// A statement that fails since its session is being ended says that.
    fn finished<T>(&self, result: Result<T>) -> Result<T, Failure> {
        result.map_err(|error| match *self.phase.own.borrow() {
            true => Failure::Fatal(shutting_down()),
            false => Failure::Statement(error),
        })
    }

    /// Reads on in a statement's rows. As [`Control::run`], but a stream may be dropped at any time, and one that an
    /// earlier Execute opened is no longer what the session's own handle cancels.
    pub(crate) async fn read_rows<T>(
        &mut self,
        reader: &mut FrameReader,
        out: &mut Output,
        rows: impl Future<Output = Result<T>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = rows => self.finished(result),
            error = late_flush(out) => Err(error.into()),
            () = reader.closed() => Err(Failure::Gone),
            () = reached(&mut self.phase, Phase::Stopping) => Err(Failure::Fatal(shutting_down())),
            _ = self.requests.changed() => Err(canceled().into()),
        }
    }

    /// The next frame within a statement. A cancel request and the server's stop end the wait.
    pub(crate) async fn receive(&mut self, reader: &mut FrameReader) -> Result<Frame, Failure> {
        tokio::select! {
            biased;
            frame = reader.frame() => frame?.ok_or(Failure::Gone),
            () = reached(&mut self.phase, Phase::Stopping) => Err(Failure::Fatal(shutting_down())),
            _ = self.requests.changed() => Err(canceled().into()),
        }
    }

    /// Runs work that may be dropped at any time, such as sending. A cancel request ends it too.
    pub(crate) async fn send<T>(
        &mut self,
        reader: &mut FrameReader,
        work: impl Future<Output = std::io::Result<T>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = work => Ok(result?),
            () = reader.closed() => Err(Failure::Gone),
            () = reached(&mut self.phase, Phase::Stopping) => Err(Failure::Fatal(shutting_down())),
            _ = self.requests.changed() => Err(canceled().into()),
        }
    }
}

/// Sends buffered messages when a statement takes long. Resolves only if sending fails.
async fn late_flush(out: &mut Output) -> std::io::Error {
    tokio::time::sleep(FLUSH_DELAY).await;
    match out.flush().await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

fn canceled() -> Error {
    Error::new(ErrorKind::Canceled, "canceling statement due to user request")
}

/// Resolves when the server is in this phase, or another session has ended this one.
async fn reached(ending: &mut Ending, wanted: Phase) {
    let gone = tokio::select! {
        reached = ending.server.wait_for(|phase| *phase >= wanted) => reached.is_err(),
        ended = ending.own.wait_for(|ended| *ended) => ended.is_err(),
    };
    if gone {
        // The server is gone without a word; its runtime ends this task.
        std::future::pending::<()>().await;
    }
}
