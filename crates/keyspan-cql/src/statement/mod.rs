//! The statements of the language: what [`crate::parse`] returns and the rest of Keyspan runs.
//!
//! The rule: names are folded (lower case unless quoted) by the time they stand here, and whatever is stored for later
//! (a view's query, a DEFAULT, a CHECK) carries its own source text, because SQL printed from a tree is never executed.
//! Expressions and queries are `sqlparser`'s own trees, since DataFusion plans exactly those. Their spans say line 1
//! and, as column, the 1-based character position in the whole input, as PostgreSQL counts error positions.
//!
//! - `define`: definitions; `hbase`: HBase's commands; `rights`: roles and rights;
//!   `sequence`: sequences; `write`: changes of rows; `read`: EXPLAIN, SHOW and the like; `session`: settings,
//!   transactions, prepared statements.

mod define;
mod hbase;
mod read;
mod rights;
mod sequence;
mod session;
mod write;

use std::fmt;

use keyspan_model::Result;
use sqlparser::ast;

pub use define::*;
pub use hbase::*;
pub use read::*;
pub use rights::*;
pub use sequence::*;
pub use session::*;
pub use write::*;

use crate::source::syntax;

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

impl ObjectName {
    /// The name of these parts, of which the last is the object's own. `position` counts from 1.
    ///
    /// # Errors
    /// 42601 for more than three parts.
    pub(crate) fn of_parts(mut parts: Vec<String>, position: usize) -> Result<ObjectName> {
        if parts.len() > 3 {
            let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
            return Err(syntax(message, position - 1));
        }
        let name = parts.pop().unwrap_or_default();
        Ok(ObjectName { keyspace: parts.pop(), database: parts.pop(), name, position })
    }
}

/// A name of a tree as it is looked up: in lower case unless quoted.
pub(crate) fn folded(name: &ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
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
    /// `SELECT JSON`: each row is one text.
    pub json: bool,
}

/// CQL's tails of this (perhaps nested) query, read from its settings.
pub fn cql_tails(query: &ast::Query) -> CqlTails {
    let mut tails = CqlTails::default();
    for setting in query.settings.iter().flatten() {
        match setting.key.value.as_str() {
            "allow_filtering" => tails.allow_filtering = true,
            "select_json" => tails.json = true,
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
    /// `CREATE TYPE`.
    CreateType(CreateType),
    /// `ALTER TYPE`.
    AlterType(AlterType),
    /// `CREATE EXTENSION`.
    CreateExtension(CreateExtension),
    /// `DROP EXTENSION`.
    DropExtension(DropExtension),
    /// `DROP TABLE | VIEW | MATERIALIZED VIEW | INDEX | SEQUENCE | TYPE | KEYSPACE`.
    Drop(Drop),
    /// `TRUNCATE`.
    Truncate(Truncate),
    /// `CREATE INDEX`.
    CreateIndex(CreateIndex),
    /// `ALTER INDEX … RENAME TO`.
    RenameIndex(RenameIndex),
    /// `COMMENT ON`.
    Comment(Comment),
    /// `CREATE SEQUENCE`.
    CreateSequence(CreateSequence),
    /// `ALTER SEQUENCE`.
    AlterSequence(AlterSequence),
    /// `CREATE ROLE | USER | GROUP`.
    CreateRole(CreateRole),
    /// `ALTER ROLE | USER | GROUP`.
    AlterRole(AlterRole),
    /// `DROP ROLE | USER | GROUP`.
    DropRole(DropRole),
    /// `GRANT` and `REVOKE` of memberships.
    GrantRoles(GrantRoles),
    /// `GRANT` and `REVOKE` of rights.
    GrantRights(GrantRights),
    /// `INSERT`.
    Insert(Box<Insert>),
    /// `UPDATE`.
    Update(Box<Update>),
    /// `DELETE`.
    Delete(Box<Delete>),
    /// `MERGE`.
    Merge(Box<Merge>),
    /// `WITH` of statements one of which writes.
    With(Box<With>),
    /// A query that answers rows.
    Query(Query),
    /// A command of HBase's shell: `scan 'table', {…}`.
    Hbase(Box<HbaseCommand>),
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
    /// `SET CONSTRAINTS`.
    SetConstraints(SetConstraints),
    /// `BEGIN`, `START TRANSACTION`.
    Begin(TransactionModes),
    /// `BEGIN BATCH`.
    BeginBatch(BeginBatch),
    /// `APPLY BATCH`.
    ApplyBatch,
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
    /// `ATTACH`.
    Attach(Attach),
    /// `DETACH`.
    Detach(Detach),
    /// `ADVISE table, …`.
    Advise(Vec<ObjectName>),
}
