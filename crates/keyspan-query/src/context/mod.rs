//! What a statement depends on besides its text: the snapshot, the session, the time. No part of the planner.
//!
//! - [`QueryContext`]: given from above, for each statement.
//! - [`StatementContext`]: what the nodes of a plan and the system tables ask for; travels in the configuration.
//! - [`Facts`], [`FunctionContext`]: what functions ask for. [`Peers`]: what they ask of the other sessions.

mod facts;
mod function;
mod peers;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast;
use keyspan_model::{Catalog, ColumnType, Principal, Result, SequenceDef, SequenceState};
use keyspan_seam::Snapshot;

pub use facts::Facts;
pub use function::FunctionContext;
pub use peers::{
    AdvisoryKey, AdvisoryRequest, Caller, Peers, ShownCursor, ShownHeat, ShownLock, ShownSession, ShownStatement,
};

/// Parses the stored text of a view. Given from above, so that the language has one parser.
pub type QueryParser = fn(&str) -> Result<Box<ast::Query>>;

/// The numbers of sequences, as one session takes them.
pub trait Sequences: Debug + Send + Sync {
    /// The next number. May wait for a disk.
    ///
    /// # Errors
    /// 2200H where there is none left, and those of writing.
    fn next(&self, sequence: &SequenceDef) -> Result<i64>;

    /// The number that this session got last from the sequence.
    fn current(&self, sequence: &SequenceDef) -> Option<i64>;

    /// The number that this session got last from any sequence.
    fn last(&self) -> Option<i64>;

    /// Says how far the sequence is.
    ///
    /// # Errors
    /// 22003 for a number that it cannot give, and those of writing.
    fn set(&self, sequence: &SequenceDef, to: SequenceState) -> Result<()>;

    /// How far the sequence is.
    ///
    /// # Errors
    /// Those of reading.
    fn state(&self, sequence: &SequenceDef) -> Result<SequenceState>;
}

/// What a session says of itself to functions and system tables; changes rarely, so it is shared.
#[derive(Clone, Debug, Default)]
pub struct SessionInfo {
    /// Answer of `current_user`.
    pub user: String,
    /// Answer of `session_user`.
    pub session_user: String,
    /// As whom statements run.
    pub principal: Principal,
    /// Answer of `current_database()`.
    pub database: String,
    /// Bytes that the queries of one statement may take; none: as many as there are for all.
    pub statement_memory: Option<usize>,
    /// Values of `current_setting(name)` and `SHOW`.
    pub settings: BTreeMap<String, String>,
    /// What `pg_settings` says of them.
    pub described: &'static [DescribedSetting],
    /// The numbers of sequences; none where there are no sequences.
    pub sequences: Option<Arc<dyn Sequences>>,
    /// The other sessions; none where there are none.
    pub peers: Option<Arc<dyn Peers>>,
    /// What `set_config` has asked for, in order; whoever runs the statement takes it.
    pub changes: Arc<Mutex<Vec<SettingChange>>>,
}

impl QueryContext {
    /// The catalog as system tables and functions show it: without tables and views that the principal has no right
    /// to, and without temporary tables of other sessions.
    pub(crate) fn shown_catalog(&self) -> Arc<Catalog> {
        let catalog = self.snapshot.catalog();
        let catalog = match catalog.without_temporary_of_others(&self.search_path) {
            Some(shown) => Arc::new(shown),
            None => catalog.clone(),
        };
        match catalog.rights.is_superuser(self.info.principal) {
            true => catalog,
            false => Arc::new(catalog.seen_by(self.info.principal)),
        }
    }
}

/// A setting as `pg_settings` has it.
#[derive(Clone, Debug)]
pub struct DescribedSetting {
    /// The name as PostgreSQL spells it.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// `bool`, `integer`, `enum` or `string`.
    pub kind: &'static str,
    /// Of what a number counts: `ms`.
    pub unit: Option<&'static str>,
    /// The least and the largest number.
    pub bounds: Option<(i64, i64)>,
    /// The words that there are.
    pub words: &'static [&'static str],
    /// The value of a new session, in the unit.
    pub default: String,
    /// Who may change it: `user`, `superuser`, nobody (`internal`).
    pub context: &'static str,
    /// A value as it is shown, without its unit.
    pub in_unit: fn(&str) -> String,
}

/// A call of `set_config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The setting.
    pub name: String,
    /// Its new value.
    pub value: String,
    /// Only to the end of the transaction.
    pub local: bool,
}

/// Everything a statement's meaning depends on besides its text.
#[derive(Clone, Debug)]
pub struct QueryContext {
    /// What the statement sees; taken before planning.
    pub snapshot: Arc<dyn Snapshot>,
    /// The newest catalog, whose rights count beside those in the snapshot's; none where it is the same.
    pub newest: Option<Arc<Catalog>>,
    /// Keyspaces in which unqualified names are looked up, first match wins. `pg_catalog` is always searched first.
    pub search_path: Vec<String>,
    /// IANA name or offset of the session's time zone.
    pub time_zone: String,
    /// `now()`, `current_timestamp`, `current_date`: microseconds since 1970.
    pub now: i64,
    /// `statement_timestamp()`: microseconds since 1970.
    pub statement_time: i64,
    /// Types the client gave for `$1`, `$2`, …; `None` and missing ones are inferred.
    pub parameter_types: Vec<Option<ColumnType>>,
    /// The session, to functions and system tables.
    pub info: Arc<SessionInfo>,
    /// Rows that names stand for before tables do: those of statements in WITH that have run.
    pub given: Vec<GivenRelation>,
    /// How many of the answer's first columns are for a statement that writes their rows, which judges what of them it
    /// shows: they need no right to be read.
    pub unjudged_columns: usize,
}

/// Rows under a name.
#[derive(Clone, Debug)]
pub struct GivenRelation {
    /// The name, without a schema.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
}

/// What one execution of a statement sees. An extension of the session's configuration.
#[derive(Debug)]
pub struct StatementContext {
    /// The tables as of the statement.
    pub snapshot: Arc<dyn Snapshot>,
    /// What system tables show of the catalog.
    pub catalog: Arc<Catalog>,
    /// The session, to functions and system tables.
    pub info: Arc<SessionInfo>,
}
