//! DECLARE, FETCH, MOVE, CLOSE.

use keyspan_cql::{DeclareCursor, Fetch};
use keyspan_model::{Error, ErrorKind, Result, Value};
use keyspan_query::ShownCursor;

use crate::context::ClientContext;
use crate::cursor::SqlCursor;
use crate::outcome::{Outcome, Rows, Tag};
use crate::query;

/// Cursors that a session may have open: each holds its statement's rows that were read ahead.
const CURSORS_MAX: usize = 256;

/// `DECLARE`; `text` is all of it.
pub(crate) async fn declare(
    context: &mut ClientContext,
    statement: &DeclareCursor,
    text: &str,
    parameters: &[Value],
) -> Result<Outcome> {
    if context.cursors.contains_key(&statement.name) {
        let message = format!("cursor \"{}\" already exists", statement.name);
        return Err(Error::new(ErrorKind::DuplicateCursor, message));
    }
    if context.cursors.len() >= CURSORS_MAX {
        let error = Error::new(ErrorKind::LimitExceeded, format!("a session has at most {CURSORS_MAX} cursors"));
        return Err(error.with_hint("CLOSE those that are read."));
    }
    if !context.in_transaction_block() && !statement.hold {
        return Err(Error::new(ErrorKind::NoTransaction, "DECLARE CURSOR can only be used in transaction blocks"));
    }
    if statement.binary {
        return Err(
            Error::not_supported("BINARY cursors are not supported").with_hint("Ask for binary results in Bind.")
        );
    }
    // The stream outlives the statement, so that only a FETCH can be cancelled.
    let (schema, stream) = query::run(context, &statement.query.query, parameters).await?;
    let rows = Rows::new(schema, stream);
    let scroll = statement.scroll == Some(true);
    let shown = context.peer.show_cursor(ShownCursor {
        name: statement.name.clone(),
        text: text.to_owned(),
        hold: statement.hold,
        scroll,
        declared: context.statement_time,
    });
    let cursor = SqlCursor::new(rows, scroll, statement.hold, shown);
    context.cursors.insert(statement.name.clone(), cursor);
    Ok(Outcome::done(Tag::plain("DECLARE CURSOR")))
}

/// `FETCH`, `MOVE`.
pub(crate) async fn fetch(context: &mut ClientContext, statement: &Fetch) -> Result<Outcome> {
    let running = context.running.clone();
    let Some(cursor) = context.cursors.get_mut(&statement.cursor) else { return Err(unknown(&statement.cursor)) };
    let batch = cursor.fetch(&running, statement.direction).await?;
    let rows = batch.num_rows() as u64;
    if statement.is_move {
        return Ok(Outcome::done(Tag::counted("MOVE", rows)));
    }
    let schema = cursor.schema().clone();
    Ok(Outcome::with_rows(Tag::counted("FETCH", rows), Rows::ready(schema, vec![batch])))
}

/// `CLOSE`.
pub(crate) fn close(context: &mut ClientContext, name: Option<&str>) -> Result<Outcome> {
    match name {
        None => {
            context.cursors.clear();
            Ok(Outcome::done(Tag::plain("CLOSE CURSOR ALL")))
        }
        Some(name) => match context.cursors.remove(name) {
            Some(_) => Ok(Outcome::done(Tag::plain("CLOSE CURSOR"))),
            None => Err(unknown(name)),
        },
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedCursor, format!("cursor \"{name}\" does not exist"))
}
