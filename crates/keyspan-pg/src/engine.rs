//! The database behind the server.
//!
//! The rule: the rest of the crate names the embedded API only through this module, so that the unit tests can put a
//! scripted stand-in (endless rows, slow statements, errors on demand) in its place. `tests/` runs the real one.

#[cfg(not(test))]
pub use keyspan::{
    CancelHandle, Copy, CopyDirection, CopyFormat, CopyHeader, CopyOptions, Database, Notice, Outcome, Parsed,
    Prepared, Rows, Session, Statement, Tag, TransactionStatus,
};

#[cfg(test)]
pub use crate::scripted::*;
