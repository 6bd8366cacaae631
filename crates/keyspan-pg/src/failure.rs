//! Failures of a connection's steps, and errors and notices as messages.

use keyspan_model::{Error, ErrorKind};
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

use crate::engine::Notice;

/// Why a step of a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The statement failed; the connection goes on.
    #[error(transparent)]
    Statement(#[from] Error),
    /// The connection must end, and the client is told why.
    #[error("the connection ends: {0}")]
    Fatal(#[source] Error),
    /// The client has disconnected: nothing can be sent.
    #[error("the client has disconnected")]
    Gone,
}

impl From<std::io::Error> for Failure {
    fn from(_: std::io::Error) -> Failure {
        Failure::Gone
    }
}

/// A violation of the protocol (08P01).
pub(crate) fn protocol(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, message)
}

/// What a client is told when the server stops.
pub(crate) fn shutting_down() -> Error {
    Error::new(ErrorKind::Shutdown, "terminating connection due to administrator command")
}

/// What a client is told that was idle for longer than its session's settings allow.
pub(crate) fn idle_too_long(in_transaction: bool) -> Error {
    match in_transaction {
        true => Error::new(ErrorKind::IdleInTransaction, "terminating connection due to idle-in-transaction timeout"),
        false => Error::new(ErrorKind::IdleTimeout, "terminating connection due to idle-session timeout"),
    }
}

/// The message for an error; `severity` is `ERROR` or `FATAL`.
pub(crate) fn error_response(severity: &str, error: &Error) -> ErrorResponse {
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.sqlstate().to_owned()),
        (b'M', clean(&error.message)),
    ];
    fields.extend(error.detail.as_deref().map(|detail| (b'D', clean(detail))));
    fields.extend(error.hint.as_deref().map(|hint| (b'H', clean(hint))));
    fields.extend(error.position.map(|position| (b'P', position.to_string())));
    if error.kind == ErrorKind::CachedPlan {
        // Drivers know by this routine of PostgreSQL's that they are to prepare the statement anew.
        fields.push((b'R', "RevalidateCachedQuery".to_owned()));
    }
    if let Some(subject) = &error.subject {
        fields.extend([(b's', clean(&subject.schema)), (b't', clean(&subject.table))]);
        fields.extend(subject.column.as_deref().map(|column| (b'c', clean(column))));
        fields.extend(subject.constraint.as_deref().map(|constraint| (b'n', clean(constraint))));
    }
    ErrorResponse::new(fields)
}

/// The message for a notice.
pub(crate) fn notice_response(notice: &Notice) -> NoticeResponse {
    let severity = notice.severity.name();
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', notice.sqlstate.to_owned()),
        (b'M', clean(&notice.message)),
    ];
    fields.extend(notice.hint.as_deref().map(|hint| (b'H', clean(hint))));
    NoticeResponse::new(fields)
}

/// Strings of the protocol end at a zero byte, so none may stand inside.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
