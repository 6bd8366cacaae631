//! Keyspan inside a program: open a [`Database`], make [`Session`]s, run statements, read Arrow batches.
//!
//! ```
//! use keyspan::Database;
//!
//! # #[tokio::main]
//! # async fn main() -> keyspan::Result<()> {
//! let database = Database::in_memory()?; // or Database::open("readings.keyspan")?
//! let mut session = database.session();
//! session.execute("CREATE TABLE readings (sensor text, ts timestamp, v double, PRIMARY KEY (sensor, ts))").await?;
//! session.execute("INSERT INTO readings VALUES ('a', '2024-01-01', 20.5), ('a', '2024-01-02', 21)").await?;
//! let rows = session.query("SELECT sensor, max(v) FROM readings GROUP BY sensor", &[]).await?;
//! let batches = rows.collect().await?;
//! assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
//! database.close()
//! # }
//! ```
//!
//! Sessions run on the caller's tokio runtime, of any kind; queries run on threads that the database begins for them.
//!
//! The modules in layers, each importing only earlier ones (`docs/architecture.md`):
//!
//! - [`cancel`], [`settings`], [`outcome`], [`text`]: what a session sets and what a statement answers. `describe`:
//!   definitions as text. `parameter`, `names`: what a statement's text names.
//! - [`database`]: what all sessions share: store, query engine, `threads`, row `locks`, `gates`
//!   before tables, row numbers. `row`: a
//!   table's rows as values, and what must be unique of them; `violation`: errors about them. `backup`: a directory that holds all of an open database; [`restore`] brings it back.
//!   `temporary`: tables that go
//!   with their session. `peer`: a session as the others see it, with `advisory` locks and [`channels`].
//! - `context`: what the statements of one client run in, with its `transaction` and each open `cursor`.
//! - `expression`, `constraint`, `query`, `point`, `intake`: what several families of statements use. [`prepared`]: a
//!   statement with its parameter types, columns and plan.
//! - `select`, `dml`, `ddl`, [`copy`], `set`, `show`, `explain`, `maintain`, `transaction_control`, `cursor_control`:
//!   the families of statements. `rollup`: refreshing materialized views.
//! - `prepare`: parameter types and columns before a statement runs. [`session`]: one client's conversation;
//!   [`Session::run`] routes each statement to its family. [`bulk`]: many rows at once, for COPY and imports. [`builder`]: writes
//!   and reads without SQL text. `open`: opening a database.

mod advice;
mod advisory;
mod attach;
mod audit;
mod backup;
pub mod builder;
pub mod bulk;
pub mod cancel;
pub mod channels;
mod constraint;
mod context;
pub mod copy;
mod cursor;
mod cursor_control;
pub mod database;
mod ddl;
mod depend;
mod describe;
mod dml;
mod explain;
mod expression;
mod gates;
mod given;
mod hbase;
mod heat;
mod intake;
mod locks;
mod maintain;
mod merge;
pub mod metrics;
mod names;
mod open;
pub mod outcome;
mod parameter;
pub mod password;
mod peer;
mod point;
mod prepare;
pub mod prepared;
mod query;
mod reads;
mod rollup;
mod row;
mod row_locks;
mod rowid;
mod scan_guard;
mod select;
mod sequences;
pub mod session;
mod set;
pub mod settings;
mod show;
mod stores;
mod temporary;
#[cfg(test)]
mod tests;
pub mod text;
mod threads;
mod timer;
mod transaction;
mod transaction_control;
mod usage;
mod violation;

pub use builder::{Read, Write};
pub use bulk::CopyIn;
pub use cancel::CancelHandle;
pub use channels::{Inbox, Notification};
pub use database::{Counters, Database};
pub use keyspan_cql::{
    Copy, CopyFormat, CopyHeader, CopyOptions, CopySubject, CopyTarget, CopyVerbosity, ObjectName, Parsed, Statement,
    first_incomplete, keywords, quoted,
};
pub use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
pub use keyspan_query::{Origin, Zone};
pub use keyspan_store::{
    BackupReport, CheckReport, RepairReport, RestoreReport, StoreOptions, StoreStats, check, repair, restore,
};
pub use open::Options;
pub use outcome::{CopyDirection, Notice, Outcome, Rows, Severity, Tag};
pub use prepared::Prepared;
pub use session::{Session, TransactionStatus};
pub use settings::parse_bytes;
pub use settings::{Settings, client_encodings};

/// The README's program, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The programs of the page about Rust, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/clients/rust.md")]
pub struct RustPage;
