//! Settings, transactions, prepared statements, cursors, NOTIFY.

use keyspan_model::ColumnType;
use sqlparser::ast;

use super::{ObjectName, Parsed, Query};

/// `SET [SESSION | LOCAL] name TO value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// The setting, in lower case (`TIME ZONE` is `timezone`, `NAMES` is `client_encoding`).
    pub name: String,
    /// Its values, unquoted (folded where bare words); none for DEFAULT.
    pub values: Option<Vec<String>>,
    /// Only until the transaction ends.
    pub local: bool,
}

/// What DISCARD discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Everything of the session.
    All,
    /// Cached plans.
    Plans,
    /// Cached sequences.
    Sequences,
    /// Temporary tables.
    Temporary,
}

/// The isolation level asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// READ UNCOMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

/// What BEGIN may say about its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// The isolation level, where said.
    pub isolation: Option<IsolationLevel>,
    /// `READ ONLY` is true, `READ WRITE` is false.
    pub read_only: Option<bool>,
    /// `DEFERRABLE` is true, `NOT DEFERRABLE` is false.
    pub deferrable: Option<bool>,
}

/// `SET TRANSACTION …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTransaction {
    /// For all later transactions of the session, not for the open one.
    pub session: bool,
    /// What to set.
    pub modes: TransactionModes,
}

/// `SET CONSTRAINTS ALL | name, … DEFERRED | IMMEDIATE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConstraints {
    /// The constraints; `None`: all.
    pub names: Option<Vec<ObjectName>>,
    /// Whether they are to be checked at COMMIT.
    pub deferred: bool,
}

/// The tail of COMMIT and ROLLBACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndTransaction {
    /// `AND CHAIN`: open the next one with the same modes.
    pub chain: bool,
}

/// `PREPARE name [(types)] AS statement`.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    /// The prepared statement's name.
    pub name: String,
    /// The parameters' types, as far as given.
    pub types: Vec<ColumnType>,
    /// The statement. Its text, offset and parameters are its own.
    pub statement: Box<Parsed>,
}

/// `EXECUTE name [(arguments)]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// The prepared statement's name.
    pub name: String,
    /// The arguments.
    pub arguments: Vec<ast::Expr>,
}

/// `DECLARE name [BINARY] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    /// The cursor.
    pub name: String,
    /// Rows in binary form.
    pub binary: bool,
    /// `SCROLL` is true, `NO SCROLL` is false.
    pub scroll: Option<bool>,
    /// `WITH HOLD`: outlives its transaction.
    pub hold: bool,
    /// The rows.
    pub query: Query,
}

/// `BEGIN [LOGGED | UNLOGGED | COUNTER] BATCH [USING TIMESTAMP n]`. The statements up to APPLY BATCH follow by themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct BeginBatch {
    /// `COUNTER`: its statements update counters.
    pub counter: bool,
    /// Write timestamp of all its statements, in microseconds since 1970.
    pub timestamp: Option<ast::Expr>,
}

/// `FETCH [direction] [FROM | IN] cursor`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    /// The cursor.
    pub cursor: String,
    /// Which rows.
    pub direction: FetchDirection,
    /// MOVE was said: no rows are answered.
    pub is_move: bool,
}

/// Which rows a FETCH takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// `FORWARD n`, `n`, `NEXT` (1); below zero is backward.
    Forward(i64),
    /// `ALL`, `FORWARD ALL`.
    All,
    /// `BACKWARD n`, `PRIOR` (1).
    Backward(i64),
    /// `BACKWARD ALL`.
    BackwardAll,
    /// `FIRST`.
    First,
    /// `LAST`.
    Last,
    /// `ABSOLUTE n`.
    Absolute(i64),
    /// `RELATIVE n`.
    Relative(i64),
}

/// `NOTIFY channel [, 'payload']`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The channel.
    pub channel: String,
    /// The payload.
    pub payload: String,
}
