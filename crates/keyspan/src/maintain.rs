//! FLUSH, COMPACT, CHECKPOINT, VACUUM, ANALYZE; and LISTEN, NOTIFY.

use keyspan_cql::{Maintain, ObjectName, Statement};
use keyspan_model::{Error, ErrorKind, Result};

use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::session::Session;

/// Upkeep. The store works on all tables at a time, so that names are only checked.
pub(crate) async fn run(session: &mut Session, statement: &Maintain) -> Result<Outcome> {
    let (tag, names, work): (_, &[ObjectName], _) = match statement {
        Maintain::Flush(names) => ("FLUSH", names, Work::Flush),
        Maintain::Compact(names) => ("COMPACT", names, Work::Compact),
        Maintain::Checkpoint => ("CHECKPOINT", &[], Work::Flush),
        // Space is freed and statistics are kept without being asked.
        Maintain::Vacuum(names) => ("VACUUM", names, Work::Nothing),
        Maintain::Analyze(names) => ("ANALYZE", names, Work::Nothing),
    };
    for name in names {
        names::expect(&session.catalog(), &session.settings.search_path(), name)?;
    }
    let in_block = session.transaction.as_ref().is_some_and(|transaction| !transaction.is_implicit());
    if tag == "VACUUM" && in_block {
        return Err(Error::new(ErrorKind::ActiveTransaction, "VACUUM cannot run inside a transaction block"));
    }
    match work {
        Work::Flush => session.database.flush().await?,
        Work::Compact => session.database.compact().await?,
        Work::Nothing => {}
    }
    Ok(Outcome::done(Tag::plain(tag)))
}

enum Work {
    Flush,
    Compact,
    Nothing,
}

/// Nothing would ever be delivered, so that listening is refused; there is nobody to forget, so that UNLISTEN, which
/// drivers send when they reset a connection, succeeds.
pub(crate) fn channel(statement: &Statement) -> Result<Outcome> {
    match statement {
        Statement::Unlisten(_) => Ok(Outcome::done(Tag::plain("UNLISTEN"))),
        _ => {
            let error = Error::not_supported("LISTEN and NOTIFY are not supported");
            Err(error.with_hint("Ask a table for what is new since the last time: its time is part of the key."))
        }
    }
}
