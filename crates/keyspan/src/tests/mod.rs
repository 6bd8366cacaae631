//! Sessions on a database in memory, one behaviour a test.

mod attach;
mod builder;
mod bulk;
mod ddl;
mod families;
mod guardrail;
mod isolation;
mod memory;
mod prepared;
mod read;
mod session;
mod values;
mod write;

use keyspan_model::array::value_at;
use keyspan_model::{ColumnType, Error, Result, Value};

use crate::{Database, Outcome, Session};

/// A database in memory with a session.
pub(crate) fn open() -> (Database, Session) {
    let database = Database::in_memory().expect("a store in memory");
    let session = database.session();
    (database, session)
}

/// Runs statements that must succeed.
pub(crate) async fn run(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The tag of one statement.
pub(crate) async fn tag(session: &mut Session, sql: &str) -> String {
    let mut outcomes = session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let outcome = outcomes.pop().expect("a statement");
    let tag = outcome.tag.clone();
    tag.text(rows_of(outcome).await.expect("rows").len() as u64)
}

/// The rows of one statement, values joined by spaces.
pub(crate) async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    try_rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// As [`rows`], with the error.
pub(crate) async fn try_rows(session: &mut Session, sql: &str) -> Result<Vec<String>> {
    let mut outcomes = session.execute(sql).await?;
    rows_of(outcomes.pop().expect("a statement")).await
}

/// The error of one statement.
pub(crate) async fn error(session: &mut Session, sql: &str) -> Error {
    match try_rows(session, sql).await {
        Ok(rows) => panic!("{sql} succeeded: {rows:?}"),
        Err(error) => error,
    }
}

async fn rows_of(outcome: Outcome) -> Result<Vec<String>> {
    let Some(rows) = outcome.rows else { return Ok(Vec::new()) };
    let schema = rows.schema().clone();
    let mut lines = Vec::new();
    for batch in rows.collect().await? {
        for row in 0..batch.num_rows() {
            let value = |(field, array): (&arrow::datatypes::FieldRef, &arrow::array::ArrayRef)| {
                let ty = ColumnType::of_field(field).unwrap_or(ColumnType::Text);
                match value_at(array, row, ty) {
                    Ok(Value::Null) => "NULL".to_string(),
                    Ok(value) => value.to_text(ty),
                    Err(error) => error.to_string(),
                }
            };
            lines.push(schema.fields().iter().zip(batch.columns()).map(value).collect::<Vec<_>>().join(" "));
        }
    }
    Ok(lines)
}
