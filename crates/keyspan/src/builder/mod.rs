//! Writes and reads of one table that a program builds of values, without SQL text: [`Write`], [`Read`].
//!
//! ```
//! use keyspan::{Database, Read, Write};
//!
//! # #[tokio::main]
//! # async fn main() -> keyspan::Result<()> {
//! let mut session = Database::in_memory()?.session();
//! session.execute("CREATE TABLE planes (plane text PRIMARY KEY, model text, meta family<text, bigint>)").await?;
//! session.write(&Write::insert("planes", ["TF-FIR"]).set("model", "B757").set_cell("meta", "seats", 183)).await?;
//! session.write(&Write::update("planes", ["TF-FIR"]).set_cell("meta", "seats", 187).ttl(86_400)).await?;
//! let rows = session.read(&Read::cells("planes", "meta").prefix(["TF-FIR"]).range("a".."t").limit(10)).await?;
//! assert_eq!(rows.collect().await?[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The rule: each becomes one statement with its values as parameters, and goes the way of all statements. So checks,
//! rights, semantics and errors are the language's; what it says of a statement holds here (ADR 28).

mod read;
mod write;

use keyspan_cql::{ObjectName, quoted};
use keyspan_model::{Error, ErrorKind, Result, Value};

pub use read::Read;
pub use write::Write;

use crate::outcome::Outcome;
use crate::session::Session;

/// A statement and the values of its parameters.
#[derive(Default)]
struct Text {
    sql: String,
    parameters: Vec<Value>,
}

impl Text {
    fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Adds a value, as a parameter.
    fn value(&mut self, value: &Value) {
        self.parameters.push(value.clone());
        self.sql.push_str(&format!("${}", self.parameters.len()));
    }

    /// `column = value` of each, joined by AND. `columns` are as many at least.
    fn equal(&mut self, columns: &[String], values: &[Value]) {
        for (place, (column, value)) in columns.iter().zip(values).enumerate() {
            self.push(if place > 0 { " AND " } else { "" });
            self.push(&format!("{} = ", quoted(column)));
            self.value(value);
        }
    }
}

/// A table's name: its own, or with its keyspace and a point between them.
fn name(text: &str) -> ObjectName {
    let (keyspace, name) = match text.split_once('.') {
        Some((keyspace, name)) => (Some(keyspace.to_owned()), name),
        None => (None, text),
    };
    ObjectName { database: None, keyspace, name: name.to_owned(), position: 1 }
}

/// A name as SQL has it.
fn quoted_name(name: &ObjectName) -> String {
    let keyspace = name.keyspace.as_ref().map(|keyspace| format!("{}.", quoted(keyspace)));
    format!("{}{}", keyspace.unwrap_or_default(), quoted(&name.name))
}

/// Fails for a key with more values than there are columns.
///
/// # Errors
/// 22023.
fn check_key(table: &str, columns: &[String], values: &[Value]) -> Result<()> {
    if values.len() <= columns.len() {
        return Ok(());
    }
    let message = format!("a key of \"{table}\" has {} values, not {}", columns.len(), values.len());
    Err(Error::new(ErrorKind::InvalidParameter, message).with_hint(format!("They are {}.", columns.join(", "))))
}

impl Session {
    async fn run_text(&mut self, text: Text) -> Result<Outcome> {
        let parsed = self.parse(&text.sql)?;
        let prepared = self.prepare(&parsed[0], &[]).await?;
        self.run(&prepared, &text.parameters).await
    }
}
