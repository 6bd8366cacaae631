//! Definitions: CREATE, ALTER, DROP, COMMENT, and the upkeep of tables.

use std::fmt;

use keyspan_model::{ColumnType, FamilyKind, ForeignKeyRules, GcRule, Identity, KnownCell, TextType, TypeField};

use super::{ColumnSequence, ObjectName, Query, RoleName, SequenceOptions, SourceExpression};

/// `CREATE KEYSPACE [IF NOT EXISTS] name [WITH …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    /// The keyspace.
    pub name: String,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// `AUTHORIZATION role`.
    pub owner: Option<RoleName>,
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
    /// `OWNER TO role`.
    pub owner: Option<RoleName>,
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
    /// The families, in declaration order.
    pub families: Vec<FamilyDefinition>,
    /// The key; none for a table in arrival order. Inline `PRIMARY KEY` and the clause both end here.
    pub primary_key: Option<PrimaryKey>,
    /// CHECKs of columns and of the table, in order.
    pub checks: Vec<CheckDefinition>,
    /// UNIQUE of columns and of the table, in order.
    pub uniques: Vec<UniqueDefinition>,
    /// REFERENCES of columns and of the table, in order.
    pub foreign_keys: Vec<ForeignKeyDefinition>,
    /// `CLUSTERING ORDER BY`: clustering columns and whether they descend.
    pub clustering_order: Vec<ClusteringOrder>,
    /// All other options.
    pub options: Vec<TableOption>,
    /// Of a temporary table: what COMMIT does with it.
    pub on_commit: Option<OnCommit>,
    /// `LIKE` of other tables, in order.
    pub like: Vec<TableLike>,
}

/// `LIKE table [INCLUDING … | EXCLUDING …]`: columns as another table has them.
#[derive(Clone, Debug, PartialEq)]
pub struct TableLike {
    /// The other table.
    pub table: ObjectName,
    /// How many of the columns stand before.
    pub place: usize,
    /// How many of the families stand before.
    pub families: usize,
    /// What comes along.
    pub including: Including,
}

/// What comes along with the columns of another table. NOT NULL always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Including {
    /// Comments on its columns, and on its CHECKs if they come along.
    pub comments: bool,
    /// CHECKs.
    pub constraints: bool,
    /// DEFAULTs.
    pub defaults: bool,
    /// Numbers of identity columns, from sequences of their own.
    pub identity: bool,
    /// The key, unique constraints and indexes, with names of their own.
    pub indexes: bool,
    /// What WITH says: TTL, the grace of deletions, encodings.
    pub storage: bool,
}

impl Including {
    /// All of it.
    pub const ALL: Including =
        Including { comments: true, constraints: true, defaults: true, identity: true, indexes: true, storage: true };
}

/// What COMMIT does with a temporary table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    /// Nothing.
    PreserveRows,
    /// Deletes its rows.
    DeleteRows,
    /// Drops it.
    Drop,
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
    /// Which of SQL's text types it is.
    pub text_type: TextType,
    /// `counter`: a bigint that is only added to.
    pub counter: bool,
    /// `STATIC`: one value per partition.
    pub is_static: bool,
    /// `NOT NULL`.
    pub not_null: bool,
    /// `DEFAULT expression`.
    pub default: Option<SourceExpression>,
    /// `serial`, `GENERATED … AS IDENTITY`.
    pub sequence: Option<ColumnSequence>,
    /// Where the column begins in the input: characters from 1.
    pub position: usize,
}

/// A part of a family's qualifiers: the only one, or one of several, which have names.
#[derive(Clone, Debug, PartialEq)]
pub struct QualifierPart {
    /// Unique in its family.
    pub name: String,
    /// Type of its values.
    pub column_type: ColumnType,
    /// Whether larger values come first.
    pub descending: bool,
}

/// `name family<qualifier, value> [GC rule]`, or a collection, of a CREATE TABLE or ALTER TABLE ADD.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyDefinition {
    /// The family.
    pub name: String,
    /// What it is.
    pub kind: FamilyKind,
    /// The parts of its qualifiers: of a map its keys, of a set its elements, of a list its positions.
    pub qualifier: Vec<QualifierPart>,
    /// Type of its values: of a set a boolean that says nothing.
    pub value: ColumnType,
    /// Which versions are kept.
    pub gc: GcRule,
    /// Qualifiers whose cells have one type.
    pub known: Vec<KnownCell>,
    /// How many of the columns of a CREATE TABLE stand before.
    pub place: usize,
    /// Where it begins in the input: characters from 1.
    pub position: usize,
}

/// `PRIMARY KEY ((partition…), clustering…)`. `PRIMARY KEY (a, b, c)` has the partition key a.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// The constraint's name, if given.
    pub name: Option<String>,
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
    /// What must not be false. The text is what stands inside the parentheses.
    pub check: SourceExpression,
}

/// `[CONSTRAINT name] UNIQUE (columns)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueDefinition {
    /// The constraint's name, where given.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<String>,
    /// Where it begins in the input: characters from 1.
    pub position: usize,
}

/// `[CONSTRAINT name] FOREIGN KEY (columns) REFERENCES table [(columns)] …`.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKeyDefinition {
    /// The constraint's name, where given.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub table: ObjectName,
    /// The columns that they refer to; none for the primary key.
    pub references: Vec<String>,
    /// What is said about changes of the rows referred to.
    pub rules: ForeignKeyRules,
    /// Whether NOT ENFORCED was written.
    pub not_enforced: bool,
    /// Where it begins in the input: characters from 1.
    pub position: usize,
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
    /// Of a temporary table: what COMMIT does with it.
    pub on_commit: Option<OnCommit>,
}

/// `CREATE [OR REPLACE] [TEMP] VIEW name [(columns)] AS query`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The view.
    pub name: ObjectName,
    /// Replace one that exists.
    pub or_replace: bool,
    /// The session's own.
    pub temporary: bool,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// Names for the query's columns, where given.
    pub columns: Vec<String>,
    /// The query. Its text is what to store.
    pub query: Query,
    /// What a materialized view has besides.
    pub materialized: Option<MaterializedOptions>,
}

/// What `CREATE MATERIALIZED VIEW` says besides its query.
#[derive(Clone, Debug, PartialEq)]
pub struct MaterializedOptions {
    /// Options of the table that holds its rows.
    pub options: Vec<TableOption>,
    /// False for `WITH NO DATA`: the rows are computed later.
    pub with_data: bool,
}

/// `ALTER TABLE | [MATERIALIZED] VIEW [IF EXISTS] name action, …`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub name: ObjectName,
    /// Answer a notice if it does not exist.
    pub if_exists: bool,
    /// What it said that the name is of: "table", "view", "materialized view".
    pub kind: &'static str,
    /// What to change, in order.
    pub actions: Vec<AlterAction>,
}

/// One change of an ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// `OWNER TO role`.
    OwnerTo(RoleName),
    /// `ADD [COLUMN] [IF NOT EXISTS] column type …`.
    AddColumn {
        /// Answer a notice if the column exists.
        if_not_exists: bool,
        /// The column.
        column: ColumnDefinition,
        /// Its CHECKs.
        checks: Vec<CheckDefinition>,
        /// UNIQUE, if it says so.
        uniques: Vec<UniqueDefinition>,
        /// REFERENCES, if it says so.
        foreign_keys: Vec<ForeignKeyDefinition>,
    },
    /// `ADD [CONSTRAINT name] FOREIGN KEY (columns) REFERENCES …`.
    AddForeignKey(ForeignKeyDefinition),
    /// `ADD [CONSTRAINT name] PRIMARY KEY (…)`.
    AddPrimaryKey(PrimaryKey),
    /// `ADD [CONSTRAINT name] UNIQUE (columns)`.
    AddUnique(UniqueDefinition),
    /// `ADD [IF NOT EXISTS] name family<qualifier, value> …`.
    AddFamily {
        /// Answer a notice if it exists.
        if_not_exists: bool,
        /// The family.
        family: FamilyDefinition,
    },
    /// `ALTER family SET GC rule`.
    SetGc {
        /// The family.
        family: String,
        /// Its new rule.
        gc: GcRule,
    },
    /// `DROP [COLUMN] [IF EXISTS] column`, or a family.
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
    /// `RENAME CONSTRAINT a TO b`.
    RenameConstraint {
        /// The constraint.
        from: String,
        /// Its new name.
        to: String,
    },
    /// `ENABLE | DISABLE TRIGGER ALL | USER | name`: the name, if one is given. There are no triggers.
    SetTrigger(Option<String>),
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
    /// `ALTER [COLUMN] column [SET DATA] TYPE type [USING expression]`.
    SetType(ColumnTypeChange),
    /// `ALTER [COLUMN] column ADD GENERATED … AS IDENTITY [(option …)]`.
    AddIdentity {
        /// The column.
        column: String,
        /// Its sequence.
        sequence: ColumnSequence,
    },
    /// `ALTER [COLUMN] column SET GENERATED … | SET option | RESTART [WITH n]`, several of them.
    SetIdentity {
        /// The column.
        column: String,
        /// Whether INSERT may give a number from now on; none: as before.
        identity: Option<Identity>,
        /// What changes of its sequence.
        options: SequenceOptions,
    },
    /// `ALTER [COLUMN] column DROP IDENTITY [IF EXISTS]`.
    DropIdentity {
        /// The column.
        column: String,
        /// Answer a notice if it is no identity column.
        if_exists: bool,
    },
    /// `ADD [CONSTRAINT name] CHECK (expression)`.
    AddCheck(CheckDefinition),
    /// `VALIDATE CONSTRAINT name`: every constraint is valid.
    ValidateConstraint(String),
    /// `DROP CONSTRAINT [IF EXISTS] name [CASCADE]`.
    DropConstraint {
        /// Answer a notice if it does not exist.
        if_exists: bool,
        /// The constraint.
        name: String,
        /// Also drop the foreign keys that refer to it.
        cascade: bool,
    },
}

/// Another type of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnTypeChange {
    /// The column.
    pub column: String,
    /// Its new type.
    pub column_type: ColumnType,
    /// `n` of `varchar(n)` and `char(n)`.
    pub max_length: Option<u32>,
    /// Which of SQL's text types it is.
    pub text_type: TextType,
    /// `USING`: what gives the new values.
    pub using: Option<SourceExpression>,
    /// Where the type stands in the input: characters from 1.
    pub position: usize,
}

/// `CREATE TYPE [IF NOT EXISTS] name (field type, …)`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    /// The type.
    pub name: ObjectName,
    /// Answer a notice if it exists.
    pub if_not_exists: bool,
    /// Its fields. The names of user types in them are not yet resolved.
    pub fields: Vec<TypeField>,
}

/// `ALTER TYPE [IF EXISTS] name action`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    /// The type.
    pub name: ObjectName,
    /// Answer a notice if it does not exist.
    pub if_exists: bool,
    /// What to change.
    pub action: AlterTypeAction,
}

/// A change of a user type.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTypeAction {
    /// `ADD [IF NOT EXISTS] field type`.
    Add {
        /// Answer a notice if the field exists.
        if_not_exists: bool,
        /// The field.
        field: TypeField,
    },
    /// `RENAME [IF EXISTS] field TO name [AND …]`.
    Rename {
        /// Answer a notice for a field that does not exist.
        if_exists: bool,
        /// The fields and their new names.
        names: Vec<(String, String)>,
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
    /// Sequences.
    Sequence,
    /// User types.
    Type,
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
    /// `RESTART IDENTITY`.
    pub restart_identity: bool,
}

/// What an index is about.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexedPart {
    /// A column.
    Column(String),
    /// `KEYS(m)`, `VALUES(m)`, `ENTRIES(m)`: what of a collection, in lower case, and its name.
    Elements(String, String),
    /// An expression, as its source text.
    Expression(String),
}

/// `CREATE EXTENSION [IF NOT EXISTS] name …`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateExtension {
    /// Its name.
    pub name: String,
    /// Where its name stands in the text: characters, from 1.
    pub position: usize,
}

/// `DROP EXTENSION [IF EXISTS] name, …`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropExtension {
    /// Their names.
    pub names: Vec<String>,
    /// Answer a notice if there is none.
    pub if_exists: bool,
}

/// `ALTER INDEX [IF EXISTS] name RENAME TO name`.
#[derive(Clone, Debug, PartialEq)]
pub struct RenameIndex {
    /// Its name.
    pub name: ObjectName,
    /// Answer a notice if there is none.
    pub if_exists: bool,
    /// Its new name.
    pub to: String,
}

/// `CREATE [UNIQUE | CUSTOM] INDEX [IF NOT EXISTS] [name] ON table [USING method] (columns) [USING 'class']`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The index's name, where given.
    pub name: Option<String>,
    /// The table.
    pub table: ObjectName,
    /// Columns and expressions.
    pub parts: Vec<IndexedPart>,
    /// PostgreSQL's access method, or Cassandra's class.
    pub method: Option<String>,
    /// The operator class of the last part that names one.
    pub operator_class: Option<String>,
    /// Cassandra's `WITH OPTIONS = {…}`.
    pub options: Vec<(String, OptionValue)>,
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

/// `ATTACH 'directory' AS name (KEYSPACE keyspace)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    /// The data directory of the other database.
    pub directory: String,
    /// The keyspace's name here.
    pub name: String,
    /// Its name there.
    pub keyspace: String,
    /// Answer a notice if the name is that of an attached keyspace.
    pub if_not_exists: bool,
}

/// `DETACH name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Detach {
    /// The attached keyspace.
    pub name: String,
    /// Answer a notice if there is none.
    pub if_exists: bool,
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
    /// `REFRESH MATERIALIZED VIEW name [WITH [NO] DATA]`.
    Refresh {
        /// The view.
        name: ObjectName,
        /// False for `WITH NO DATA`: the rows go, until the next refresh.
        with_data: bool,
    },
}
