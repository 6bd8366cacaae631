//! EXPLAIN, SHOW and DESCRIBE. A SELECT is [`super::Query`].

use super::{ObjectName, Parsed};

/// `EXPLAIN [ANALYZE] [VERBOSE] [(options)] statement`.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// Run it and tell what was really read.
    pub analyze: bool,
    /// Tell more.
    pub verbose: bool,
    /// Answer with JSON.
    pub json: bool,
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
