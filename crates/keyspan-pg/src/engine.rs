//! The database behind the server.
//!
//! The rule: the rest of the crate names the embedded API only through this module, so that the unit tests can put a
//! scripted stand-in (endless rows, slow statements, errors on demand) in its place. `tests/` runs the real one.

#[cfg(not(test))]
mod real {
    pub(crate) use keyspan::copy::CopyParser;
    pub(crate) use keyspan::{
        CancelHandle, Copy, CopyDirection, CopyFormat, Database, Notice, Outcome, Parsed, Prepared, Rows, Session,
        Statement, Tag, TransactionStatus,
    };
}

#[cfg(not(test))]
pub(crate) use real::*;

pub(crate) use keyspan::copy::{CopyCells, CopyEncoder};
pub(crate) use keyspan::text::TextStyle;
pub(crate) use keyspan::{Inbox, Origin, Zone};

#[cfg(test)]
pub(crate) use crate::scripted::{
    CopyFormat, ScriptedCancelHandle as CancelHandle, ScriptedCopy as Copy, ScriptedCopyDirection as CopyDirection,
    ScriptedCopyParser as CopyParser, ScriptedDatabase as Database, ScriptedNotice as Notice,
    ScriptedOutcome as Outcome, ScriptedParsed as Parsed, ScriptedPrepared as Prepared, ScriptedRows as Rows,
    ScriptedSession as Session, ScriptedStatement as Statement, ScriptedTag as Tag,
    ScriptedTransactionStatus as TransactionStatus,
};
