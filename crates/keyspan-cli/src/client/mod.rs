//! A database as the shell sees it: embedded or behind a server, with the same answers.

mod embedded;
mod remote;

use std::io;

pub use embedded::{Embedded, columns_of};
pub use remote::Remote;

use crate::failure::{Failure, Result};

/// What a column holds, as far as its presentation depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shown at the left.
    Text,
    /// Shown at the right; bare in JSON.
    Number,
    /// `t` and `f`; true and false in JSON.
    Boolean,
    /// JSON already.
    Json,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its label.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// Takes the answer of one statement, piece by piece.
pub trait Sink {
    /// Whether cells are wanted as JSON values, not as texts.
    fn wants_json(&self) -> bool {
        false
    }
    /// The columns; called first, and only for statements that return rows.
    fn columns(&mut self, _columns: Vec<Column>) -> io::Result<()> {
        Ok(())
    }
    /// A row; none is null.
    fn row(&mut self, _cells: Vec<Option<String>>) -> io::Result<()> {
        Ok(())
    }
    /// The data of a COPY TO STDOUT.
    fn bytes(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// The statement is done; its command tag.
    fn done(&mut self, _tag: &str) -> io::Result<()> {
        Ok(())
    }
}

/// An answer that is kept.
#[derive(Debug, Default)]
pub struct Table {
    /// The columns' labels.
    pub names: Vec<String>,
    /// The rows; none is null.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// The first value.
    pub fn value(self) -> Option<String> {
        self.rows.into_iter().next()?.into_iter().next()?
    }
}

impl Sink for Table {
    fn columns(&mut self, columns: Vec<Column>) -> io::Result<()> {
        self.names = columns.into_iter().map(|column| column.name).collect();
        Ok(())
    }

    fn row(&mut self, cells: Vec<Option<String>>) -> io::Result<()> {
        self.rows.push(cells);
        Ok(())
    }
}

/// Gives the data of a COPY FROM STDIN.
pub trait CopyData {
    /// The next bytes; none at the end.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>>;
}

/// No data: an empty COPY.
impl CopyData for () {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Stops the running statement from elsewhere.
#[derive(Clone)]
pub enum Canceller {
    /// Of this process.
    Embedded(keyspan::CancelHandle),
    /// Over a connection of its own.
    Remote(tokio_postgres::CancelToken),
}

impl Canceller {
    /// Asks for the running statement to end.
    pub async fn cancel(&self) {
        match self {
            Canceller::Embedded(handle) => handle.cancel(),
            Canceller::Remote(token) => {
                // If it cannot be delivered the statement runs on, which the user sees.
                let _ = token.cancel_query(tokio_postgres::NoTls).await;
            }
        }
    }
}

/// Names for completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Tables and views.
    pub relations: Vec<String>,
    /// Columns of all of them.
    pub columns: Vec<String>,
}

/// A database.
pub enum Client {
    /// In this process.
    Embedded(Box<Embedded>),
    /// Behind a server.
    Remote(Box<Remote>),
}

impl Client {
    /// Runs one statement.
    pub async fn run(&mut self, statement: &str, sink: &mut dyn Sink, data: &mut dyn CopyData) -> Result<()> {
        match self {
            Client::Embedded(embedded) => embedded.run(statement, sink, data).await,
            Client::Remote(remote) => remote.run(statement, sink, data).await,
        }
    }

    /// Runs one statement and stops it when Ctrl-C is pressed.
    pub async fn run_interruptibly(
        &mut self,
        statement: &str,
        sink: &mut dyn Sink,
        data: &mut dyn CopyData,
    ) -> Result<()> {
        let canceller = self.canceller();
        let running = self.run(statement, sink, data);
        tokio::pin!(running);
        loop {
            tokio::select! {
                result = &mut running => {
                    // Nobody reads the rest of the answer.
                    if result.as_ref().is_err_and(Failure::is_closed_output) {
                        canceller.cancel().await;
                    }
                    return result;
                }
                pressed = tokio::signal::ctrl_c() => match pressed {
                    Ok(()) => canceller.cancel().await,
                    Err(_) => return running.await,
                },
            }
        }
    }

    /// Runs one statement and keeps its answer.
    pub async fn rows(&mut self, statement: &str) -> Result<Table> {
        let mut table = Table::default();
        self.run_interruptibly(statement, &mut table, &mut ()).await?;
        Ok(table)
    }

    /// What stops the running statement.
    pub fn canceller(&self) -> Canceller {
        match self {
            Client::Embedded(embedded) => embedded.canceller(),
            Client::Remote(remote) => remote.canceller(),
        }
    }

    /// Messages that came with the last statements, as lines.
    pub fn take_notices(&mut self) -> Vec<String> {
        match self {
            Client::Embedded(embedded) => embedded.take_notices(),
            Client::Remote(remote) => remote.take_notices(),
        }
    }

    /// Names for completion.
    pub async fn names(&mut self) -> Names {
        match self {
            Client::Embedded(embedded) => embedded.names(),
            Client::Remote(remote) => remote.names().await,
        }
    }

    /// Whether a transaction is open, for the prompt; unknown behind a server.
    pub fn status(&self) -> Option<keyspan::TransactionStatus> {
        match self {
            Client::Embedded(embedded) => Some(embedded.session.status()),
            Client::Remote(_) => None,
        }
    }

    /// Where the database is, as psql's `\conninfo` says it.
    pub async fn place(&mut self) -> String {
        match self {
            Client::Embedded(embedded) => embedded.place(),
            Client::Remote(remote) => remote.place().await,
        }
    }

    /// Whether it is one of Keyspan's.
    pub async fn is_keyspan(&mut self) -> bool {
        match self {
            Client::Embedded(_) => true,
            Client::Remote(remote) => remote.is_keyspan().await,
        }
    }

    /// Makes everything durable and frees the directory.
    pub fn close(self) -> Result<()> {
        match self {
            Client::Embedded(embedded) => embedded.close(),
            Client::Remote(_) => Ok(()),
        }
    }
}

/// A notice as psql shows it.
fn notice_text(severity: &str, message: &str, hint: Option<&str>) -> String {
    let hint = hint.map(|hint| format!("\nHINT:  {hint}")).unwrap_or_default();
    format!("{severity}:  {message}{hint}")
}
