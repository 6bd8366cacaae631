//! Sequences.

use keyspan_model::{ColumnType, Identity};

use super::{ObjectName, RoleName};

/// `CREATE SEQUENCE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSequence {
    /// Its name.
    pub name: ObjectName,
    /// `IF NOT EXISTS` was said.
    pub if_not_exists: bool,
    /// What was said of it.
    pub options: SequenceOptions,
}

/// `ALTER SEQUENCE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterSequence {
    /// Which.
    pub name: ObjectName,
    /// `IF EXISTS` was said.
    pub if_exists: bool,
    /// What is to change.
    pub options: SequenceOptions,
    /// `RENAME TO`.
    pub rename_to: Option<String>,
    /// `OWNER TO`.
    pub owner: Option<RoleName>,
}

/// What may be said of a sequence; none: not said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceOptions {
    /// `AS type`.
    pub ty: Option<ColumnType>,
    /// `START WITH n`.
    pub start: Option<i64>,
    /// `INCREMENT BY n`.
    pub increment: Option<i64>,
    /// `MINVALUE n`; `NO MINVALUE`: the inner none.
    pub min: Option<Option<i64>>,
    /// `MAXVALUE n`; `NO MAXVALUE`: the inner none.
    pub max: Option<Option<i64>>,
    /// `[NO] CYCLE`.
    pub cycle: Option<bool>,
    /// `CACHE n`.
    pub cache: Option<i64>,
    /// `RESTART [WITH n]`.
    pub restart: Option<Option<i64>>,
    /// `OWNED BY table.column`; `OWNED BY NONE`: the inner none.
    pub owned_by: Option<Option<SequenceOwner>>,
}

/// The column that a sequence goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    /// Its table.
    pub table: ObjectName,
    /// The column.
    pub column: String,
}

/// The sequence of a `serial` or identity column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSequence {
    /// Of an identity column: whether INSERT may give a number. None: `serial`.
    pub identity: Option<Identity>,
    /// SEQUENCE NAME, which dumps give.
    pub name: Option<ObjectName>,
    /// What was said of it.
    pub options: SequenceOptions,
}
