//! EXPLAIN, SHOW, DESCRIBE, and the scan of HBase's shell. A SELECT is [`super::Query`].

use super::{ObjectName, Parsed};

/// HBase's `scan 'table', {ROWPREFIXFILTER => 'STC#22#', LIMIT => 10, …}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The table.
    pub table: ObjectName,
    /// The attributes, in order.
    pub attributes: Vec<ScanAttribute>,
}

/// One `NAME => value` of a scan.
#[derive(Clone, Debug, PartialEq)]
pub enum ScanAttribute {
    /// `ROWPREFIXFILTER => 'text'`: only row keys that begin so.
    RowPrefix(String),
    /// `STARTROW => 'text'`: from this row key on.
    StartRow(String),
    /// `STOPROW => 'text'`: up to this row key, itself left out.
    StopRow(String),
    /// `LIMIT => n`: so many rows.
    Limit(u64),
    /// `COLUMNS => ['a', 'b']`: only these columns.
    Columns(Vec<String>),
    /// `REVERSED => true`: from the end.
    Reversed(bool),
}

/// `EXPLAIN [ANALYZE] [VERBOSE] [(options)] statement`.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// Run it and tell what was really read.
    pub analyze: bool,
    /// Tell more.
    pub verbose: bool,
    /// All other options, by lower-case name and value (`format` = `json`).
    pub options: Vec<(String, String)>,
    /// The statement. Its text and offset are its own; its parameters are those of the whole.
    pub statement: Box<Parsed>,
}

/// `SHOW …`.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// `SHOW name`: a setting, in lower case (`TIME ZONE` is `timezone`, `TRANSACTION ISOLATION LEVEL` is
    /// `transaction_isolation`).
    Setting(String),
    /// `SHOW ALL`.
    All,
    /// `SHOW TABLES [FROM | IN keyspace]`.
    Tables {
        /// Only of this keyspace.
        keyspace: Option<String>,
    },
    /// `SHOW KEYSPACES | SCHEMAS | DATABASES`.
    Keyspaces,
    /// `SHOW VIEWS`.
    Views,
    /// `SHOW FUNCTIONS`.
    Functions,
    /// `SHOW COLUMNS FROM | IN table`.
    Columns(ObjectName),
    /// `SHOW FILES FROM | IN table`.
    Files(ObjectName),
    /// `SHOW CREATE TABLE | VIEW name`.
    Create(ObjectName),
}

/// `DESCRIBE | DESC …`.
#[derive(Clone, Debug, PartialEq)]
pub enum Describe {
    /// `DESCRIBE CLUSTER`.
    Cluster,
    /// `DESCRIBE [FULL] SCHEMA`: everything.
    Schema,
    /// `DESCRIBE KEYSPACES`.
    Keyspaces,
    /// `DESCRIBE KEYSPACE [name]`.
    Keyspace(Option<String>),
    /// `DESCRIBE TABLES`.
    Tables,
    /// `DESCRIBE TABLE | VIEW name`.
    Table(ObjectName),
    /// `DESCRIBE INDEX name`.
    Index(ObjectName),
    /// `DESCRIBE TYPES`.
    Types,
    /// `DESCRIBE TYPE name`.
    Type(ObjectName),
    /// `DESCRIBE name`: whatever has that name.
    Any(ObjectName),
}
