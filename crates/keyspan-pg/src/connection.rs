//! One connection after its start-up: read a request, answer it, say when ready for the next.
//!
//! The rule: an error ends the statement, an error of the protocol's framing ends the connection, a panic ends the
//! connection too and nothing else. After an error in the extended protocol everything is skipped up to Sync.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use keyspan_model::{Error, ErrorKind, Value};
use pgwire::messages::response::{NotificationResponse, ReadyForQuery, TransactionStatus as Status};
use pgwire::messages::startup::ParameterStatus;

use crate::control::Control;
use crate::encoding::Encoding;
use crate::engine::{Inbox, Outcome, Prepared, Session, TextStyle, TransactionStatus};
use crate::failure::{Failure, error_response, idle_too_long, notice_response, protocol, shutting_down};
use crate::frame::{Frame, FrameReader};
use crate::output::Output;
use crate::portal::{Portal, StoredStatement};
use crate::request::{Request, decode, is_extended};
use crate::startup::CLIENT_ENCODING;

/// A client whose start-up is complete.
pub(crate) struct Connection {
    pub(crate) reader: FrameReader,
    pub(crate) out: Output,
    pub(crate) session: Session,
    pub(crate) control: Control,
    /// Prepared statements by name; the unnamed one has the empty name.
    pub(crate) statements: HashMap<String, StoredStatement>,
    /// Portals by name; the unnamed one has the empty name. They end with the transaction.
    pub(crate) portals: HashMap<String, Portal>,
    /// Whether statements between two Syncs run in one implicit transaction that is open.
    pub(crate) implicit: bool,
    /// Whether requests are skipped up to the next Sync.
    skipping: bool,
    /// Whether what has gathered is to be sent before the next request is waited for: after a Query, a Sync, an error,
    /// messages of others. Between the requests of a pipeline nothing is sent, unless the client asks for it by Flush.
    is_due: bool,
    /// What others have sent to the client.
    inbox: Arc<Inbox>,
}

/// Whether the connection goes on.
enum Next {
    Continue,
    End,
}

impl Connection {
    /// A connection in its first state.
    pub(crate) fn new(reader: FrameReader, out: Output, session: Session, control: Control) -> Connection {
        Connection {
            inbox: session.inbox(),
            reader,
            out,
            session,
            control,
            statements: HashMap::new(),
            portals: HashMap::new(),
            implicit: false,
            skipping: false,
            is_due: true,
        }
    }

    /// Serves the client until it goes, breaks the protocol, or the server stops.
    pub(crate) async fn serve(&mut self) {
        let failure = loop {
            match self.step().await {
                Ok(Next::Continue) => {}
                Ok(Next::End) => return,
                Err(failure) => break failure,
            }
        };
        if let Failure::Fatal(error) | Failure::Statement(error) = failure {
            farewell(&mut self.reader, &mut self.out, &error).await;
        }
    }

    async fn step(&mut self) -> Result<Next, Failure> {
        let Some(frame) = self.next_frame().await? else { return Ok(Next::End) };
        let kind = frame.kind;
        if self.skipping && kind != b'S' && kind != b'X' {
            return Ok(Next::Continue);
        }
        match AssertUnwindSafe(self.answer(frame)).catch_unwind().await {
            Ok(Ok(next)) => Ok(next),
            Ok(Err(Failure::Statement(error))) => {
                self.fail(&error).await?;
                if is_extended(kind) {
                    self.skipping = true;
                } else {
                    self.ready()?;
                }
                Ok(Next::Continue)
            }
            Ok(Err(failure)) => Err(failure),
            Err(panic) => Err(Failure::Fatal(panicked(panic.as_ref()))),
        }
    }

    /// The next frame. What is due is sent before waiting for it, and what others send meanwhile, if the client is
    /// between two transactions.
    async fn next_frame(&mut self) -> Result<Option<Frame>, Failure> {
        loop {
            if self.is_due && self.reader.next_kind().is_none() || self.out.is_full() {
                self.control.begin_statement();
                match self.control.send(&mut self.reader, self.out.flush()).await {
                    // A cancel request that comes between statements is for none.
                    Err(Failure::Statement(_)) => self.out.flush().await?,
                    other => other?,
                }
                self.is_due = false;
            }
            let in_transaction = self.session.status() != TransactionStatus::Idle;
            let unfinished = self.skipping || self.implicit;
            let limit = self.session.settings().idle_timeout(in_transaction).filter(|_| !unfinished);
            let inbox = self.inbox.clone();
            let frame = async {
                tokio::select! {
                    biased;
                    frame = self.reader.frame() => frame.map(Some),
                    () = inbox.arrived(), if !in_transaction && !unfinished => Ok(None),
                    () = idle(limit) => Err(Failure::Fatal(idle_too_long(in_transaction))),
                }
            };
            let frame = tokio::select! {
                biased;
                () = self.control.sent_away(in_transaction || unfinished) => Err(Failure::Fatal(shutting_down())),
                frame = frame => frame,
            };
            match frame? {
                Some(frame) => return Ok(frame),
                None => self.tell_messages()?,
            }
        }
    }

    /// Sends what others have sent to the client.
    fn tell_messages(&mut self) -> Result<(), Failure> {
        for message in self.inbox.take() {
            self.is_due = true;
            self.out.message(&NotificationResponse::new(message.process, message.channel, message.payload))?;
        }
        Ok(())
    }

    async fn answer(&mut self, frame: Frame) -> Result<Next, Failure> {
        match decode(frame, self.out.encoding())? {
            Request::Query(sql) => {
                self.query(&sql).await?;
                self.ready()?;
            }
            Request::Parse(parse) => self.parse(parse).await?,
            Request::Bind(bind) => self.bind(bind).await?,
            Request::Describe(describe) => self.describe(&describe)?,
            Request::Execute(execute) => self.execute(&execute).await?,
            Request::Close(close) => self.close(&close)?,
            Request::Flush => self.out.flush().await?,
            Request::Sync => self.sync().await?,
            Request::Terminate => return Ok(Next::End),
            // What a client still sends of a COPY that has failed.
            Request::CopyData(_) | Request::CopyDone | Request::CopyFail(_) => {}
            Request::Other(b'F') => return Err(Error::not_supported("function calls are not supported").into()),
            Request::Other(kind) => {
                return Err(Failure::Fatal(protocol(format!("unexpected message type 0x{kind:02X}"))));
            }
        }
        Ok(Next::Continue)
    }

    async fn sync(&mut self) -> Result<(), Failure> {
        self.skipping = false;
        let ended = self.end_implicit().await;
        self.tell_changes()?;
        if let Err(Failure::Statement(error)) = &ended {
            self.fail(error).await?;
        } else {
            ended?;
        }
        self.ready()?;
        Ok(())
    }

    /// Commits what the statements since the last Sync did.
    async fn end_implicit(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.implicit) {
            return Ok(());
        }
        self.control.run(&mut self.reader, &mut self.out, self.session.end_implicit(true)).await
    }

    /// Sends an error to the client, and marks the session's transaction as failed.
    async fn fail(&mut self, error: &Error) -> Result<(), Failure> {
        if std::mem::take(&mut self.implicit) {
            // The statement's error is the one to tell.
            let _ = self.session.end_implicit(false).await;
        }
        self.session.fail();
        self.is_due = true;
        self.tell_changes()?;
        Ok(self.out.message(&error_response("ERROR", error))?)
    }

    /// Sends ReadyForQuery. Portals end with their transaction.
    fn ready(&mut self) -> Result<(), Failure> {
        let status = match self.session.status() {
            TransactionStatus::Idle => Status::Idle,
            TransactionStatus::Open => Status::Transaction,
            TransactionStatus::Failed => Status::Error,
        };
        if status == Status::Idle {
            self.portals.clear();
            self.tell_messages()?;
        }
        self.is_due = true;
        Ok(self.out.message(&ReadyForQuery::new(status))?)
    }

    /// Runs a statement and sends its notices and changed settings.
    pub(crate) async fn run(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome, Failure> {
        self.control.begin_statement();
        let before = self.session.status();
        let outcome = self.control.run(&mut self.reader, &mut self.out, self.session.run(prepared, parameters)).await?;
        if before != TransactionStatus::Idle && self.session.status() == TransactionStatus::Idle {
            self.portals.clear();
        }
        if outcome.tag.command() == "DISCARD ALL" {
            self.statements.clear();
        }
        self.tell_changes()?;
        Ok(outcome)
    }

    /// Sends notices and changed settings.
    pub(crate) fn tell_changes(&mut self) -> Result<(), Failure> {
        for notice in self.session.take_notices() {
            self.out.message(&notice_response(&notice))?;
        }
        for (name, value) in self.session.take_parameter_changes() {
            if name == CLIENT_ENCODING {
                self.out.set_encoding(Encoding::of_setting(&value));
            }
            self.out.message(&ParameterStatus::new(name.to_string(), value.to_string()))?;
        }
        Ok(())
    }

    /// How values are printed.
    pub(crate) fn text_style(&self) -> TextStyle {
        self.session.settings().text_style()
    }
}

/// Resolves after this time; without a limit never.
async fn idle(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// Sends a fatal error and closes, so that the client reads the error before it sees the end.
pub(crate) async fn farewell(reader: &mut FrameReader, out: &mut Output, error: &Error) {
    if out.message(&error_response("FATAL", error)).is_err() {
        return;
    }
    let send = async {
        if out.flush().await.is_ok() {
            out.close().await;
            reader.drain().await;
        }
    };
    // Does not wait for a client that does not read.
    let _ = tokio::time::timeout(Duration::from_secs(2), send).await;
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!("a statement panicked: {text}");
    Error::new(ErrorKind::Internal, format!("internal error: {text}"))
        .with_hint("This is a defect in Keyspan. The statement may or may not have been done.")
}
