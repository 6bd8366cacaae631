//! What a session's functions and system tables ask of what all sessions of a database share: advisory locks, channels,
//! who else is there, and which keys are hot.

use std::fmt::Debug;

use keyspan_model::{Catalog, RelationId, Result, TableId};

/// What an advisory lock is named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdvisoryKey {
    /// A bigint.
    One(i64),
    /// Two ints.
    Two(i32, i32),
}

/// A call of a function that takes an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryRequest {
    /// Which lock.
    pub key: AdvisoryKey,
    /// Whether others may share it.
    pub shared: bool,
    /// Whether it goes with the transaction, not with the session.
    pub transaction: bool,
    /// Whether to wait until it is free.
    pub wait: bool,
}

/// A lock for `pg_locks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLock {
    /// Which lock.
    pub key: AdvisoryKey,
    /// Whether others may share it.
    pub shared: bool,
    /// The number of the session's connection.
    pub process: i32,
    /// Whether it is held, not waited for.
    pub granted: bool,
}

/// A session for `pg_stat_activity`. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownSession {
    /// The number of its connection.
    pub process: i32,
    /// Its user.
    pub user: String,
    /// The database that it named.
    pub database: String,
    /// `application_name`.
    pub application: String,
    /// Where the client is, if it is not on a Unix socket or in the program.
    pub client: Option<(String, u16)>,
    /// When it began.
    pub began: i64,
    /// When its transaction began.
    pub transaction_began: Option<i64>,
    /// When its last statement began.
    pub statement_began: Option<i64>,
    /// When its state changed.
    pub changed: i64,
    /// `active`, `idle`, `idle in transaction`, `idle in transaction (aborted)`.
    pub state: &'static str,
    /// Its last statement.
    pub query: String,
    /// What it waits for: PostgreSQL's type of wait event, and the event.
    pub wait: Option<(&'static str, &'static str)>,
}

/// A prepared statement for `pg_prepared_statements`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownStatement {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// When it was prepared, in microseconds since 1970.
    pub prepared: i64,
    /// OIDs of the types of its parameters.
    pub parameters: Vec<u32>,
    /// Whether it was made by PREPARE, not by the protocol.
    pub by_sql: bool,
}

/// An open cursor for `pg_cursors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCursor {
    /// Its name.
    pub name: String,
    /// The statement that declared it.
    pub text: String,
    /// Whether it outlives its transaction.
    pub hold: bool,
    /// Whether it can go back.
    pub scroll: bool,
    /// When it was declared, in microseconds since 1970.
    pub declared: i64,
}

/// How often keys of a range were used within a minute, for `keyspan_heat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownHeat {
    /// Its begin, in microseconds since 1970.
    pub minute: i64,
    /// The table.
    pub table: TableId,
    /// Its rows, static columns, or one of its families.
    pub relation: RelationId,
    /// The first key of the range that was seen, as `row_key` shows keys; none for scans from the first row on.
    pub first: Option<String>,
    /// The last one.
    pub last: Option<String>,
    /// Keys that were looked up and scans that began there, about.
    pub reads: i64,
    /// Rows, cells and deletions that were written, about.
    pub writes: i64,
}

/// Whom a call of `pg_cancel_backend` or `pg_terminate_backend` may hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller<'a> {
    /// Everyone.
    Superuser,
    /// Sessions of this user.
    User(&'a str),
}

/// The other sessions of the database, as one of them sees them.
pub trait Peers: Debug + Send + Sync {
    /// The number of the own connection.
    fn process(&self) -> i32;

    /// Takes an advisory lock; whether it has it. While it waits it asks `interrupted` again and again.
    ///
    /// # Errors
    /// 40P01 where the wait would never end, 55P03 after `lock_timeout` (as SHOW prints it), what `interrupted` says.
    fn lock(
        &self,
        request: AdvisoryRequest,
        lock_timeout: Option<&str>,
        interrupted: &dyn Fn() -> Result<()>,
    ) -> Result<bool>;

    /// Gives up an advisory lock of the session; false if it has none.
    fn unlock(&self, key: AdvisoryKey, shared: bool) -> bool;

    /// Gives up all advisory locks of the session, not those of its transaction.
    fn unlock_all(&self);

    /// Sends a message when the transaction commits.
    ///
    /// # Errors
    /// 22023 for a name or a payload that is too long, 54000 while a listener has too many that it has not read.
    fn notify(&self, channel: &str, payload: &str) -> Result<()>;

    /// All advisory locks.
    fn locks(&self) -> Vec<ShownLock>;

    /// All sessions.
    fn sessions(&self) -> Vec<ShownSession>;

    /// The prepared statements of the session.
    fn prepared(&self) -> Vec<ShownStatement>;

    /// The open cursors of the session.
    fn cursors(&self) -> Vec<ShownCursor>;

    /// The heat of the ranges of keys.
    fn heat(&self, catalog: &Catalog) -> Vec<ShownHeat>;

    /// Cancels the statement of the session with this number, or ends that session; false if there is none.
    ///
    /// # Errors
    /// 42501 if the caller may not.
    fn stop(&self, process: i32, end: bool, caller: Caller<'_>) -> Result<bool>;
}
