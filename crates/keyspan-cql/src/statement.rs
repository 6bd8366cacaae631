//! The statements of the language: what [`crate::parse`] answers and everything else in Keyspan runs.
//!
//! The rule: names are folded (lower case unless quoted) by the time they stand here, and whatever is stored for later
//! (a view's query, a DEFAULT, a CHECK) carries its own source text, because SQL printed from a tree is never executed.
//! Expressions and queries are `sqlparser`'s own trees, since DataFusion plans exactly those. Their spans say line 1 and,
//! as column, the 1-based character position in the whole input, as PostgreSQL counts error positions.

// Statements are few and short-lived: boxing every expression would cost each reader more than the bytes are worth.
#![allow(clippy::large_enum_variant)]

use keyspan_model::ColumnType;
use sqlparser::ast;
use std::fmt;

/// One statement of the input, with what an error message or a stored definition needs to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What to do.
    pub statement: Statement,
    /// The statement's own source text, without the semicolon and without surrounding space or comments.
    pub text: String,
    /// Where [`Parsed::text`] begins in the input, in characters from 0.
    pub offset: usize,
    /// The parameters in the order of their numbers: element 0 is `$1`.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a statement. In the trees every parameter reads `$n`, however it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameter {
    /// The name, for `:name`; `?` and `$1` have none.
    pub name: Option<String>,
}

/// A table, view, index or type by name: folded, and with its keyspace where one was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// The database, where three parts were given; Keyspan has one database, and any name of it is accepted.
    pub database: Option<String>,
    /// The keyspace (schema), where given.
    pub keyspace: Option<String>,
    /// The object's own name.
    pub name: String,
    /// Where the name begins in the input: characters from 1.
    pub position: usize,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{}.{}", quoted(keyspace), quoted(&self.name)),
            None => f.write_str(&quoted(&self.name)),
        }
    }
}

/// The identifier as it must be written to mean itself: in double quotes unless it is plain lower case.
pub fn quoted(identifier: &str) -> String {
    let mut characters = identifier.chars();
    let plain = characters.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !crate::keyword::is_reserved(identifier);
    if plain { identifier.to_owned() } else { format!("\"{}\"", identifier.replace('"', "\"\"")) }
}

/// An expression that will be stored, with the text to store.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceExpression {
    /// The tree.
    pub expression: ast::Expr,
    /// The source text it was parsed from.
    pub text: String,
}

/// A SELECT, VALUES, TABLE or WITH query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The tree. CQL's tails of this query *and of every query nested in it* stand in `ast::Query::settings`
    /// (see [`cql_tails`]), so clear nothing there before reading them.
    pub query: Box<ast::Query>,
    /// The query's source text, as a view stores it.
    pub text: String,
    /// CQL's tails of the outermost query.
    pub tails: CqlTails,
}

/// What CQL lets follow a SELECT and SQL does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CqlTails {
    /// `ALLOW FILTERING` was said.
    pub allow_filtering: bool,
    /// `PER PARTITION LIMIT n`: the limit, a number or a parameter.
    pub per_partition_limit: Option<ast::Expr>,
}

/// CQL's tails of this (perhaps nested) query, read from its settings.
pub fn cql_tails(query: &ast::Query) -> CqlTails {
    let mut tails = CqlTails::default();
    for setting in query.settings.iter().flatten() {
        match setting.key.value.as_str() {
            "allow_filtering" => tails.allow_filtering = true,
            "per_partition_limit" => tails.per_partition_limit = Some(setting.value.clone()),
            _ => {}
        }
    }
    tails
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `CREATE KEYSPACE | SCHEMA`.
    CreateKeyspace(CreateKeyspace),
    /// `ALTER KEYSPACE | SCHEMA`.
    AlterKeyspace(AlterKeyspace),
    /// `USE keyspace`.
    Use(String),
    /// `CREATE TABLE` with declared columns.
    CreateTable(Box<CreateTable>),
    /// `CREATE TABLE … AS query`.
    CreateTableAs(Box<CreateTableAs>),
    /// `CREATE VIEW`.
    CreateView(Box<CreateView>),
    /// `ALTER TABLE | VIEW`.
    AlterTable(AlterTable),
    /// `DROP TABLE | VIEW | MATERIALIZED VIEW | INDEX | KEYSPACE`.
    Drop(Drop),
    /// `TRUNCATE`.
    Truncate(Truncate),
    /// `CREATE INDEX`.
    CreateIndex(CreateIndex),
    /// `COMMENT ON`.
    Comment(Comment),
    /// `INSERT`.
    Insert(Box<Insert>),
    /// `UPDATE`.
    Update(Box<Update>),
    /// `DELETE`.
    Delete(Box<Delete>),
    /// A query that answers rows.
    Query(Query),
    /// HBase's `scan 'table', {…}`.
    Scan(Scan),
    /// `EXPLAIN`.
    Explain(Explain),
    /// `SHOW`.
    Show(Show),
    /// `DESCRIBE`.
    Describe(Describe),
    /// `SET`.
    Set(Set),
    /// `RESET name`, or `RESET ALL` as none.
    Reset(Option<String>),
    /// `DISCARD`.
    Discard(Discard),
    /// `SET TRANSACTION` and `SET SESSION CHARACTERISTICS AS TRANSACTION`.
    SetTransaction(SetTransaction),
    /// `BEGIN`, `START TRANSACTION`.
    Begin(TransactionModes),
    /// `COMMIT`, `END`.
    Commit(EndTransaction),
    /// `ROLLBACK`, `ABORT`.
    Rollback(EndTransaction),
    /// `SAVEPOINT name`.
    Savepoint(String),
    /// `RELEASE [SAVEPOINT] name`.
    Release(String),
    /// `ROLLBACK TO [SAVEPOINT] name`.
    RollbackTo(String),
    /// `PREPARE`.
    Prepare(Prepare),
    /// `EXECUTE`.
    Execute(Execute),
    /// `DEALLOCATE name`, or `DEALLOCATE ALL` as none.
    Deallocate(Option<String>),
    /// `DECLARE … CURSOR`.
    DeclareCursor(DeclareCursor),
    /// `FETCH`, and `MOVE`, which is a FETCH that answers no rows.
    Fetch(Fetch),
    /// `CLOSE name`, or `CLOSE ALL` as none.
    Close(Option<String>),
    /// `COPY`.
    Copy(Box<Copy>),
    /// `LISTEN channel`.
    Listen(String),
    /// `UNLISTEN channel`, or `UNLISTEN *` as none.
    Unlisten(Option<String>),
    /// `NOTIFY channel [, payload]`.
    Notify(Notify),
    /// Upkeep of tables.
    Maintain(Maintain),
}

/// `CREATE KEYSPACE [IF NOT EXISTS] name [WITH …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    /// The keyspace.
    pub name: String,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// Cassandra's options (`replication`, `durable_writes`, …), stored as they are.
    pub options: Vec<TableOption>,
}

/// `ALTER KEYSPACE name WITH …` or `RENAME TO …`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    /// The keyspace.
    pub name: String,
    /// Answer a notice if it does not exist.
    pub if_exists: bool,
    /// Options to store.
    pub options: Vec<TableOption>,
    /// The new name.
    pub rename_to: Option<String>,
}

/// `option = value` of a table or keyspace. Unknown options are kept and shown, so that pasted Cassandra DDL works.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOption {
    /// The option, in lower case.
    pub name: String,
    /// Its value.
    pub value: OptionValue,
    /// Where the option begins in the input: characters from 1.
    pub position: usize,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A number, as written, with its sign.
    Number(String),
    /// A quoted string.
    Text(String),
    /// TRUE or FALSE.
    Boolean(bool),
    /// A bare word, folded (`on`, `none`, `daily`).
    Word(String),
    /// A map literal, in order.
    Map(Vec<(String, OptionValue)>),
    /// Anything else: its source text.
    Other(String),
}

impl OptionValue {
    /// The value as one plain text, without quotes: what most options compare with or parse.
    pub fn text(&self) -> String {
        match self {
            OptionValue::Number(text)
            | OptionValue::Text(text)
            | OptionValue::Word(text)
            | OptionValue::Other(text) => text.clone(),
            OptionValue::Boolean(value) => value.to_string(),
            OptionValue::Map(_) => self.to_string(),
        }
    }
}

impl fmt::Display for OptionValue {
    /// The value as CQL writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Number(text) | OptionValue::Word(text) | OptionValue::Other(text) => f.write_str(text),
            OptionValue::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            OptionValue::Boolean(value) => write!(f, "{value}"),
            OptionValue::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}'{}': {value}", key.replace('\'', "''"))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// `CREATE TABLE name (columns, constraints) [WITH …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// The table.
    pub name: ObjectName,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// The columns, in declaration order.
    pub columns: Vec<ColumnDefinition>,
    /// The key; none for a table in arrival order. Inline `PRIMARY KEY` and the clause both end here.
    pub primary_key: Option<PrimaryKey>,
    /// CHECKs of columns and of the table, in order.
    pub checks: Vec<CheckDefinition>,
    /// `CLUSTERING ORDER BY`: clustering columns and whether they descend.
    pub clustering_order: Vec<ClusteringOrder>,
    /// All other options.
    pub options: Vec<TableOption>,
}

/// One column of a CREATE TABLE or ALTER TABLE ADD.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// The column.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// The type as it was written.
    pub type_text: String,
    /// `n` of `varchar(n)` and `char(n)`: the most characters a value may have.
    pub max_length: Option<u32>,
    /// `STATIC`: one value per partition.
    pub is_static: bool,
    /// `NOT NULL`.
    pub not_null: bool,
    /// `DEFAULT expression`.
    pub default: Option<SourceExpression>,
    /// Where the column begins in the input: characters from 1.
    pub position: usize,
}

/// `PRIMARY KEY ((partition…), clustering…)`. `PRIMARY KEY (a, b, c)` has the partition key a.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// The partition key's columns.
    pub partition: Vec<String>,
    /// The clustering columns.
    pub clustering: Vec<String>,
    /// Where the clause begins in the input: characters from 1.
    pub position: usize,
}

/// `column ASC | DESC` of CLUSTERING ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringOrder {
    /// The clustering column.
    pub column: String,
    /// Whether it descends.
    pub descending: bool,
    /// Where it stands in the input: characters from 1.
    pub position: usize,
}

/// `[CONSTRAINT name] CHECK (expression)`.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckDefinition {
    /// The constraint's name, where given.
    pub name: Option<String>,
    /// The column it was written at, where it was.
    pub column: Option<String>,
    /// What must not be false. The text is what stands inside the parentheses.
    pub check: SourceExpression,
}

/// `CREATE TABLE name [(columns)] [WITH …] AS query [WITH [NO] DATA]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// The table.
    pub name: ObjectName,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// Names for the query's columns, where given.
    pub columns: Vec<String>,
    /// `PRIMARY KEY (…)` inside the column list or after it.
    pub primary_key: Option<PrimaryKey>,
    /// `CLUSTERING ORDER BY`.
    pub clustering_order: Vec<ClusteringOrder>,
    /// All other options.
    pub options: Vec<TableOption>,
    /// The rows.
    pub query: Query,
    /// False for `WITH NO DATA`.
    pub with_data: bool,
}

/// `CREATE [OR REPLACE] VIEW name [(columns)] AS query`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The view.
    pub name: ObjectName,
    /// Replace one that exists.
    pub or_replace: bool,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// Names for the query's columns, where given.
    pub columns: Vec<String>,
    /// The query. Its text is what to store.
    pub query: Query,
    /// What a materialized view has besides.
    pub materialized: Option<Materialized>,
}

/// What `CREATE MATERIALIZED VIEW` says besides its query.
#[derive(Clone, Debug, PartialEq)]
pub struct Materialized {
    /// Options of the table that holds its rows.
    pub options: Vec<TableOption>,
    /// False for `WITH NO DATA`: the rows are computed later.
    pub with_data: bool,
}

/// `ALTER TABLE [IF EXISTS] name action, …`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub name: ObjectName,
    /// Answer a notice if it does not exist.
    pub if_exists: bool,
    /// Whether it said ALTER VIEW.
    pub is_view: bool,
    /// What to change, in order.
    pub actions: Vec<AlterAction>,
}

/// One change of an ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// `ADD [COLUMN] [IF NOT EXISTS] column type …`.
    AddColumn {
        /// Answer a notice if the column exists.
        if_not_exists: bool,
        /// The column.
        column: ColumnDefinition,
        /// Its CHECKs.
        checks: Vec<CheckDefinition>,
    },
    /// `DROP [COLUMN] [IF EXISTS] column`.
    DropColumn {
        /// Answer a notice if the column does not exist.
        if_exists: bool,
        /// The column.
        column: String,
        /// CASCADE was said.
        cascade: bool,
    },
    /// `RENAME [COLUMN] a TO b`.
    RenameColumn {
        /// The column.
        from: String,
        /// Its new name.
        to: String,
    },
    /// `RENAME TO name`.
    RenameTo(String),
    /// `SET SCHEMA keyspace`.
    SetKeyspace(String),
    /// `WITH option = value AND …`.
    SetOptions(Vec<TableOption>),
    /// `ALTER [COLUMN] column SET DEFAULT expression`, or `DROP DEFAULT` as none.
    SetDefault {
        /// The column.
        column: String,
        /// The new default.
        default: Option<SourceExpression>,
    },
    /// `ALTER [COLUMN] column SET | DROP NOT NULL`.
    SetNotNull {
        /// The column.
        column: String,
        /// True for SET.
        not_null: bool,
    },
    /// `ADD [CONSTRAINT name] CHECK (expression)`.
    AddCheck(CheckDefinition),
    /// `DROP CONSTRAINT [IF EXISTS] name`.
    DropConstraint {
        /// Answer a notice if it does not exist.
        if_exists: bool,
        /// The constraint.
        name: String,
    },
}

/// What a DROP drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropKind {
    /// Tables.
    Table,
    /// Views.
    View,
    /// Materialized views.
    MaterializedView,
    /// Indexes.
    Index,
    /// Keyspaces: the name is in [`ObjectName::name`].
    Keyspace,
}

/// `DROP kind [IF EXISTS] name, … [CASCADE | RESTRICT]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// What kind of objects.
    pub kind: DropKind,
    /// Answer a notice for each that does not exist.
    pub if_exists: bool,
    /// Which.
    pub names: Vec<ObjectName>,
    /// Drop what depends on them too. CQL's DROP KEYSPACE always does: see [`Drop::said_keyspace`].
    pub cascade: bool,
    /// RESTRICT was said.
    pub restrict: bool,
    /// KEYSPACE was said, not SCHEMA: Cassandra drops a keyspace with all that is in it.
    pub said_keyspace: bool,
}

/// `TRUNCATE [TABLE] name, …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// The tables.
    pub names: Vec<ObjectName>,
}

/// `CREATE [UNIQUE] INDEX [IF NOT EXISTS] [name] ON table (columns)`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The index's name, where given.
    pub name: Option<String>,
    /// The table.
    pub table: ObjectName,
    /// The indexed columns; an expression stands as its source text.
    pub columns: Vec<String>,
    /// UNIQUE was said.
    pub unique: bool,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
}

/// `COMMENT ON kind name IS 'text'`.
#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    /// What kind of object, in lower case: `table`, `column`, `view`, `schema`, ….
    pub kind: String,
    /// The object. For a column this is the table.
    pub name: ObjectName,
    /// The column, for COMMENT ON COLUMN.
    pub column: Option<String>,
    /// The comment; none to remove it.
    pub comment: Option<String>,
}

/// `USING TTL n AND TIMESTAMP n`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    /// Time to live, in seconds.
    pub ttl: Option<ast::Expr>,
    /// Write timestamp, in microseconds since 1970.
    pub timestamp: Option<ast::Expr>,
}

/// `INSERT INTO table [AS alias] [(columns)] source …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table.
    pub table: ObjectName,
    /// The table's alias.
    pub alias: Option<String>,
    /// The columns; empty means all of the table's in their order.
    pub columns: Vec<ColumnName>,
    /// The rows.
    pub source: InsertSource,
    /// TTL and timestamp.
    pub using: Using,
    /// `IF NOT EXISTS`: answers `[applied]`.
    pub if_not_exists: bool,
    /// `ON CONFLICT`.
    pub on_conflict: Option<OnConflict>,
    /// `RETURNING`.
    pub returning: Option<Vec<ast::SelectItem>>,
}

/// A column named in an INSERT, UPDATE or DELETE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    /// The column, folded.
    pub name: String,
    /// Where it stands in the input: characters from 1.
    pub position: usize,
}

/// Where an INSERT's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// `VALUES (…), (…)`.
    Values(Vec<Vec<InsertValue>>),
    /// `DEFAULT VALUES`.
    DefaultValues,
    /// A query.
    Query(Query),
}

/// One value of an INSERT's row, or of an UPDATE's SET.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertValue {
    /// `DEFAULT`.
    Default,
    /// An expression.
    Expression(ast::Expr),
}

/// `ON CONFLICT [(columns) | ON CONSTRAINT name] action`.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// The columns, where given.
    pub columns: Vec<ColumnName>,
    /// The constraint, where given.
    pub constraint: Option<String>,
    /// What to do with a row whose key exists.
    pub action: ConflictAction,
}

/// What ON CONFLICT does.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    /// `DO NOTHING`.
    Nothing,
    /// `DO UPDATE SET … [WHERE …]`.
    Update {
        /// The assignments.
        assignments: Vec<Assignment>,
        /// Only these rows.
        filter: Option<ast::Expr>,
    },
}

/// `column = value`. `(a, b) = (x, y)` becomes two of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: ColumnName,
    /// Its new value.
    pub value: InsertValue,
}

/// `UPDATE table [AS alias] [USING …] SET … [WHERE …] [IF …] [RETURNING …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The table.
    pub table: ObjectName,
    /// The table's alias.
    pub alias: Option<String>,
    /// TTL and timestamp.
    pub using: Using,
    /// The assignments.
    pub assignments: Vec<Assignment>,
    /// Which rows.
    pub filter: Option<ast::Expr>,
    /// CQL's condition: answers `[applied]`.
    pub condition: Option<Condition>,
    /// `RETURNING`.
    pub returning: Option<Vec<ast::SelectItem>>,
}

/// CQL's `IF` of an UPDATE or DELETE.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `IF EXISTS`.
    Exists,
    /// `IF a = 1 AND b < 2`: one expression over the old row.
    If(ast::Expr),
}

/// `DELETE [columns] FROM table [AS alias] [USING TIMESTAMP n] [WHERE …] [IF …] [RETURNING …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// CQL's list of cells to delete; empty means whole rows.
    pub columns: Vec<ColumnName>,
    /// The table.
    pub table: ObjectName,
    /// The table's alias.
    pub alias: Option<String>,
    /// The timestamp (a TTL is refused).
    pub using: Using,
    /// Which rows.
    pub filter: Option<ast::Expr>,
    /// CQL's condition: answers `[applied]`.
    pub condition: Option<Condition>,
    /// `RETURNING`.
    pub returning: Option<Vec<ast::SelectItem>>,
}

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
    /// `DESCRIBE name`: whatever has that name.
    Any(ObjectName),
}

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

/// `COPY …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// What is copied.
    pub subject: CopySubject,
    /// From or to where.
    pub target: CopyTarget,
    /// True for FROM.
    pub is_from: bool,
    /// How.
    pub options: CopyOptions,
    /// `WHERE` of a COPY FROM.
    pub filter: Option<ast::Expr>,
}

/// What a COPY copies.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySubject {
    /// A table.
    Table {
        /// The table.
        name: ObjectName,
        /// The columns; empty means all.
        columns: Vec<ColumnName>,
    },
    /// The rows of a query.
    Query(Query),
}

/// The other end of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTarget {
    /// STDIN or STDOUT.
    Standard,
    /// A file of the server's machine.
    File(String),
}

/// The format of a COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// Tabs and backslashes.
    #[default]
    Text,
    /// Comma-separated.
    Csv,
    /// PostgreSQL's binary.
    Binary,
}

/// HEADER of a COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyHeader {
    /// No header line.
    #[default]
    None,
    /// A header line, skipped on input.
    Present,
    /// A header line whose names must match.
    Match,
}

/// The options of a COPY, as given. What was not given has PostgreSQL's default for the format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// `FORMAT`.
    pub format: CopyFormat,
    /// `HEADER`.
    pub header: CopyHeader,
    /// `DELIMITER`.
    pub delimiter: Option<char>,
    /// `NULL`.
    pub null: Option<String>,
    /// `QUOTE`.
    pub quote: Option<char>,
    /// `ESCAPE`.
    pub escape: Option<char>,
    /// `DEFAULT`: the text that stands for a column's default.
    pub default: Option<String>,
    /// `ENCODING`.
    pub encoding: Option<String>,
    /// `FORCE_QUOTE`: none, or columns (`*` is an empty list).
    pub force_quote: Option<Vec<String>>,
    /// `FORCE_NOT_NULL` columns.
    pub force_not_null: Vec<String>,
    /// `FORCE_NULL` columns.
    pub force_null: Vec<String>,
}

/// `NOTIFY channel [, 'payload']`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The channel.
    pub channel: String,
    /// The payload.
    pub payload: String,
}

/// Upkeep of tables.
#[derive(Clone, Debug, PartialEq)]
pub enum Maintain {
    /// `FLUSH [TABLE] name, …`: what is in memory becomes segments. No names: every table.
    Flush(Vec<ObjectName>),
    /// `COMPACT [TABLE] name, …`. No names: every table.
    Compact(Vec<ObjectName>),
    /// `CHECKPOINT`: flush everything.
    Checkpoint,
    /// `BACKUP DATABASE TO 'directory'`.
    Backup(String),
    /// `VACUUM [(options)] [name, …]`.
    Vacuum(Vec<ObjectName>),
    /// `ANALYZE [name, …]`.
    Analyze(Vec<ObjectName>),
    /// `REFRESH MATERIALIZED VIEW name`.
    Refresh(ObjectName),
}
