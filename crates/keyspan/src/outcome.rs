//! What a statement answers: a command tag, rows if it returns any, the direction of COPY data; and notices.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use futures::{Stream, StreamExt};
use keyspan_cql::Copy;
use keyspan_model::{ColumnType, Result};
use keyspan_seam::BatchStream;
use parking_lot::Mutex;

/// What a statement did, as PostgreSQL's command tag says it: `INSERT 0 3`, `CREATE TABLE`, `SELECT 12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    command: Cow<'static, str>,
    count: TagCount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagCount {
    /// The command alone.
    None,
    /// So many rows, known when the statement has run.
    Known(u64),
    /// As many rows as the stream delivers.
    Streamed,
}

impl Tag {
    /// A tag without a number.
    pub fn plain(command: impl Into<Cow<'static, str>>) -> Tag {
        Tag { command: command.into(), count: TagCount::None }
    }

    /// A tag with the number of rows written.
    pub fn counted(command: &'static str, rows: u64) -> Tag {
        Tag { command: command.into(), count: TagCount::Known(rows) }
    }

    /// A tag whose number is that of the rows that the client takes from the stream.
    pub fn streamed(command: &'static str) -> Tag {
        Tag { command: command.into(), count: TagCount::Streamed }
    }

    /// The words of the tag, without the number.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Rows written, where the tag has a number that is known without reading the stream.
    pub fn rows(&self) -> Option<u64> {
        match self.count {
            TagCount::Known(rows) => Some(rows),
            _ => None,
        }
    }

    /// The tag as sent; `streamed` is the number of rows that were taken from the stream.
    pub fn text(&self, streamed: u64) -> String {
        let rows = match self.count {
            TagCount::None => return self.command.to_string(),
            TagCount::Known(rows) => rows,
            TagCount::Streamed => streamed,
        };
        match &*self.command {
            "INSERT" => format!("INSERT 0 {rows}"),
            command => format!("{command} {rows}"),
        }
    }
}

/// How grave a notice is, as PostgreSQL names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Notice,
    /// Probably not what was meant.
    Warning,
}

impl Severity {
    /// PostgreSQL's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// A message that accompanies a successful statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How grave it is.
    pub severity: Severity,
    /// Five characters; `00000` for a plain notice.
    pub sqlstate: &'static str,
    /// One sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Notice {
    /// A plain notice.
    pub fn plain(message: impl Into<String>) -> Notice {
        Notice { severity: Severity::Notice, sqlstate: "00000", message: message.into(), hint: None }
    }

    /// A warning with its SQLSTATE.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Notice {
        Notice { severity: Severity::Warning, sqlstate, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Notice {
        self.hint = Some(hint.into());
        self
    }
}

/// Rows as they are read. Dropping it stops the read.
pub struct Rows {
    schema: SchemaRef,
    /// Never locked. The mutex makes `Rows` `Sync`, which sessions with cursors have to be.
    stream: Mutex<BatchStream>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Rows {
    /// Rows with this schema from this stream.
    pub fn new(schema: SchemaRef, stream: BatchStream) -> Rows {
        Rows { schema, stream: Mutex::new(stream) }
    }

    /// Rows that are already there.
    pub fn ready(schema: SchemaRef, batches: Vec<RecordBatch>) -> Rows {
        Rows::new(schema, Box::pin(futures::stream::iter(batches.into_iter().map(Ok))))
    }

    /// No rows, and no columns.
    pub(crate) fn none() -> Rows {
        Rows::ready(Arc::new(Schema::empty()), Vec::new())
    }

    /// The columns: names are labels as PostgreSQL gives them, `ColumnType::of_field` tells their types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The batches alone.
    pub(crate) fn into_stream(self) -> BatchStream {
        self.stream.into_inner()
    }

    /// The next batch, or none after the last.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.stream.get_mut().next().await.transpose()
    }

    /// All batches. For results that fit into memory.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_batch().await? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.get_mut().as_mut().poll_next(context)
    }
}

/// The schema of rows whose columns are texts.
pub(crate) fn text_schema(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| ColumnType::Text.field(name, true)).collect::<Vec<_>>()))
}

/// Which way COPY data goes.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyDirection {
    /// `COPY … FROM STDIN`: call [`crate::Session::copy_in`] with this and send the data.
    In(Box<Copy>),
    /// `COPY … TO STDOUT`: the outcome's rows are to be sent in this format.
    Out(Box<Copy>),
}

/// What one statement answered.
#[derive(Debug)]
pub struct Outcome {
    /// What it did.
    pub tag: Tag,
    /// Its rows, for statements that return any.
    pub rows: Option<Rows>,
    /// Whether COPY data is to follow.
    pub copy: Option<CopyDirection>,
}

impl Outcome {
    /// A tag and nothing else.
    pub fn done(tag: Tag) -> Outcome {
        Outcome { tag, rows: None, copy: None }
    }

    /// The outcome with its rows in memory.
    pub async fn read_all(self) -> Result<Outcome> {
        let Some(rows) = self.rows else { return Ok(self) };
        let schema = rows.schema().clone();
        let rows = Some(Rows::ready(schema, rows.collect().await?));
        Ok(Outcome { rows, ..self })
    }

    /// A tag with rows.
    pub fn with_rows(tag: Tag, rows: Rows) -> Outcome {
        Outcome { tag, rows: Some(rows), copy: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_read_as_postgres_writes_them() {
        assert_eq!(Tag::plain("CREATE TABLE").text(7), "CREATE TABLE");
        assert_eq!(Tag::counted("INSERT", 3).text(0), "INSERT 0 3");
        assert_eq!(Tag::counted("DELETE", 1).text(9), "DELETE 1");
        assert_eq!(Tag::streamed("SELECT").text(12), "SELECT 12");
    }
}
