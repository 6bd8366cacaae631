//! One database reached in two ways, in three storage states: what every query file is run against.

use std::time::Duration;

use async_trait::async_trait;
use keyspan::text::ArrayText;
use keyspan::{Database, Error, ErrorKind, Session};
use keyspan_pg::{RunningServer, Server, ServerOptions};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Where rows are when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Where the write left them.
    Memtable,
    /// In segments: flushed after each statement that is not a query.
    Flushed,
    /// In merged segments: compacted after each statement that is not a query.
    Compacted,
}

impl State {
    /// The label that query files know it by.
    pub fn label(self) -> &'static str {
        match self {
            State::Memtable => "memtable",
            State::Flushed => "flushed",
            State::Compacted => "compacted",
        }
    }
}

/// How a test failed: Keyspan's error, or the wire's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TestError {
    sqlstate: Option<String>,
    message: String,
}

impl From<Error> for TestError {
    fn from(error: Error) -> Self {
        TestError { sqlstate: Some(error.sqlstate().to_string()), message: error.to_string() }
    }
}

impl From<tokio_postgres::Error> for TestError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(answer) = error.as_db_error() else {
            return TestError { sqlstate: None, message: error.to_string() };
        };
        let mut message = answer.message().to_string();
        for more in [answer.detail(), answer.hint()].into_iter().flatten() {
            message = format!("{message} ({more})");
        }
        TestError { sqlstate: Some(answer.code().code().to_string()), message }
    }
}

enum Client {
    Embedded(Box<Session>),
    Wire(tokio_postgres::Client),
}

/// One connection to the database under test.
pub struct Target {
    database: Database,
    state: State,
    client: Client,
}

impl Target {
    /// A session inside this process.
    pub fn embedded(database: &Database, state: State) -> Target {
        Target { database: database.clone(), state, client: Client::Embedded(Box::new(database.session())) }
    }

    /// A connection to a server on this port.
    pub async fn wire(database: &Database, state: State, port: u16) -> Result<Target, TestError> {
        let address = format!("host=127.0.0.1 port={port} user=test dbname=test");
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
        tokio::spawn(connection);
        Ok(Target { database: database.clone(), state, client: Client::Wire(client) })
    }

    async fn settle(&self, sql: &str) -> Result<(), TestError> {
        let first = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        if matches!(first.as_str(), "SELECT" | "WITH" | "EXPLAIN" | "SHOW" | "SET" | "VALUES") {
            return Ok(());
        }
        match self.state {
            State::Memtable => {}
            State::Flushed => self.database.flush().await?,
            State::Compacted => self.database.compact().await?,
        }
        Ok(())
    }
}

#[async_trait]
impl AsyncDB for Target {
    type Error = TestError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, TestError> {
        let output = match &mut self.client {
            Client::Embedded(session) => run_embedded(session, sql).await?,
            Client::Wire(client) => run_wire(client, sql).await?,
        };
        self.settle(sql).await?;
        Ok(output)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "keyspan"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &TestError) -> Option<String> {
        error.sqlstate.clone()
    }
}

async fn run_embedded(session: &mut Session, sql: &str) -> Result<DBOutput<DefaultColumnType>, TestError> {
    let style = session.settings().text_style();
    let outcomes = session.execute(sql).await?;
    let outcome = outcomes.into_iter().last().ok_or_else(|| Error::new(ErrorKind::Syntax, "no statement"))?;
    let Some(rows) = outcome.rows else {
        return Ok(DBOutput::StatementComplete(outcome.tag.rows().unwrap_or_default()));
    };
    let schema = rows.schema().clone();
    let mut lines = Vec::new();
    // As whoever reads rows must: what fails while they come fails the transaction.
    let batches = rows.collect().await.inspect_err(|_| session.fail())?;
    for batch in batches {
        let columns = schema.fields().iter().zip(batch.columns());
        let columns: Vec<ArrayText> =
            columns.map(|(field, column)| ArrayText::new(field, column, style)).collect::<keyspan::Result<_>>()?;
        for row in 0..batch.num_rows() {
            lines.push(columns.iter().map(|column| cell(column, row)).collect::<keyspan::Result<_>>()?);
        }
    }
    Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; schema.fields().len()], rows: lines })
}

fn cell(column: &ArrayText, row: usize) -> keyspan::Result<String> {
    if column.is_null(row) {
        return Ok(shown(None));
    }
    let mut text = String::new();
    column.write(row, &mut text)?;
    Ok(shown(Some(text)))
}

async fn run_wire(client: &tokio_postgres::Client, sql: &str) -> Result<DBOutput<DefaultColumnType>, TestError> {
    let (mut lines, mut columns, mut count) = (Vec::new(), None, 0);
    for message in client.simple_query(sql).await? {
        match message {
            SimpleQueryMessage::RowDescription(description) => columns = Some(description.len()),
            SimpleQueryMessage::Row(row) => {
                lines.push((0..row.len()).map(|n| shown(row.get(n).map(str::to_string))).collect());
            }
            SimpleQueryMessage::CommandComplete(rows) => count = rows,
            _ => {}
        }
    }
    Ok(match columns {
        Some(columns) => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: lines },
        None => DBOutput::StatementComplete(count),
    })
}

fn shown(text: Option<String>) -> String {
    match text {
        None => "NULL".into(),
        Some(text) if text.is_empty() => "(empty)".into(),
        Some(text) => text,
    }
}

/// A server over the database on a free port of this machine.
pub async fn serve(database: &Database) -> RunningServer {
    Server::bind(database.clone(), ServerOptions::loopback(0)).await.expect("a free port").start()
}
