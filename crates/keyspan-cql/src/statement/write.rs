//! INSERT, UPDATE, DELETE and COPY.

use sqlparser::ast;

use crate::nested;

use super::{ObjectName, Parsed, Query};

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
    /// Where no columns are named and VALUES says DEFAULT beside a subquery: the places, among the table's columns, that
    /// the source has columns for.
    pub places: Vec<usize>,
    /// TTL and timestamp.
    pub using: Using,
    /// `OVERRIDING SYSTEM VALUE`: it gives numbers of identity columns.
    pub overriding: bool,
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
    /// `family[qualifier]`: the cell of a family.
    pub qualifier: Option<ast::Expr>,
    /// Where it stands in the input: characters from 1.
    pub position: usize,
}

/// Where an INSERT's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// CQL's `JSON '…'`: one row, its columns by name.
    Json {
        /// The JSON text.
        json: ast::Expr,
        /// `DEFAULT UNSET`: columns that it does not name keep what they have, instead of becoming NULL.
        unset: bool,
    },
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
    /// A field of the row that a subquery of one output gives: of `SET (a, b) = (SELECT …)`.
    OfRow {
        /// The subquery, the same for all columns.
        query: ast::Expr,
        /// Which field, from 0.
        place: usize,
    },
    /// `{key: value, …}`, and `{}`, which is an empty set, too.
    Map(Vec<(ast::Expr, ast::Expr)>),
    /// `{element, …}`.
    Set(Vec<ast::Expr>),
    /// `[element, …]`.
    List(Vec<ast::Expr>),
    /// `column + {…}` and its like, in a SET.
    Changed {
        /// The column that the expression names.
        column: ColumnName,
        /// What is done to it.
        change: Change,
        /// With what: one of the collections above.
        value: Box<InsertValue>,
    },
}

impl InsertValue {
    /// The expressions in it.
    pub fn expressions(&self) -> Vec<&ast::Expr> {
        match self {
            InsertValue::Default => Vec::new(),
            InsertValue::Expression(expression) | InsertValue::OfRow { query: expression, .. } => vec![expression],
            InsertValue::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            InsertValue::Set(elements) | InsertValue::List(elements) => elements.iter().collect(),
            InsertValue::Changed { value, .. } => value.expressions(),
        }
    }
}

impl InsertValue {
    /// The collection that a literal in brackets is; any other expression as it is.
    pub(crate) fn of_literal(expr: ast::Expr) -> InsertValue {
        let own = |parts: Vec<&ast::Expr>| parts.into_iter().cloned().collect();
        match nested::nested_literal(&expr) {
            Some(nested::NestedLiteral::Map(entries)) => {
                InsertValue::Map(entries.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            Some(nested::NestedLiteral::Set(elements)) => InsertValue::Set(own(elements)),
            Some(nested::NestedLiteral::List(elements)) => InsertValue::List(own(elements)),
            Some(nested::NestedLiteral::User(_) | nested::NestedLiteral::Tuple(_)) | None => {
                InsertValue::Expression(expr)
            }
        }
    }

    /// The value as an expression, where a column gets it and no collection; none for DEFAULT and changes.
    pub fn as_expression(&self) -> Option<ast::Expr> {
        match self {
            InsertValue::Expression(expression) => Some(expression.clone()),
            InsertValue::Map(entries) => Some(nested::map_of(entries)),
            InsertValue::Set(elements) => Some(nested::set_of(elements)),
            InsertValue::List(elements) => Some(nested::list_of(elements)),
            InsertValue::Default | InsertValue::Changed { .. } | InsertValue::OfRow { .. } => None,
        }
    }
}

/// What a SET does to a collection that it does not replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `c + x`: puts entries into a map or set, and elements behind those of a list.
    Append,
    /// `x + c`: puts elements before those of a list.
    Prepend,
    /// `c - x`: removes elements, or the entries of keys.
    Remove,
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
    /// `FROM`: tables that the assignments and the condition read.
    pub from: Vec<ast::TableWithJoins>,
    /// Which rows.
    pub filter: Option<ast::Expr>,
    /// CQL's condition: answers `[applied]`.
    pub condition: Option<Condition>,
    /// `RETURNING`.
    pub returning: Option<Vec<ast::SelectItem>>,
    /// Makes the row also where a value reads it, as HBase's `incr` does.
    pub upserts: bool,
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
    /// The family of it whose cells are deleted: `DELETE FROM cells('table', 'family')`.
    pub family: Option<String>,
    /// The table's alias.
    pub alias: Option<String>,
    /// The timestamp (a TTL is refused).
    pub using: Using,
    /// `USING`: tables that the condition reads.
    pub from: Vec<ast::TableWithJoins>,
    /// Which rows.
    pub filter: Option<ast::Expr>,
    /// CQL's condition: answers `[applied]`.
    pub condition: Option<Condition>,
    /// `RETURNING`.
    pub returning: Option<Vec<ast::SelectItem>>,
}

/// `WITH name AS (statement), … statement`, where one of them writes.
#[derive(Clone, Debug, PartialEq)]
pub struct With {
    /// The named statements, in order.
    pub parts: Vec<WithPart>,
    /// What the whole answers.
    pub statement: Box<Parsed>,
    /// Whether that is the RETURNING list of the only named statement: the whole has the tag of that one.
    pub is_returning: bool,
}

/// `name [(columns)] AS (statement)`.
#[derive(Clone, Debug, PartialEq)]
pub struct WithPart {
    /// The name under which the next ones read its rows.
    pub name: String,
    /// Names for the first of its columns.
    pub columns: Vec<String>,
    /// A query, INSERT, UPDATE or DELETE.
    pub body: Box<Parsed>,
}

/// `MERGE INTO table [AS alias] USING source ON condition WHEN …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The table.
    pub table: ObjectName,
    /// The table's alias.
    pub alias: Option<String>,
    /// A table or a subquery.
    pub source: ast::TableFactor,
    /// Which rows match.
    pub on: ast::Expr,
    /// What is done with them: the first that fits.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeClause {
    /// Whether it is about rows that match.
    pub matched: bool,
    /// Only for these.
    pub condition: Option<ast::Expr>,
    /// What to do.
    pub action: MergeAction,
}

/// What a clause of MERGE does.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    /// `DO NOTHING`.
    Nothing,
    /// `DELETE`.
    Delete,
    /// `UPDATE SET …`.
    Update(Vec<Assignment>),
    /// `INSERT [(columns)] VALUES (…)`.
    Insert {
        /// The columns; empty means all of the table's in their order.
        columns: Vec<ColumnName>,
        /// Their values.
        values: Vec<InsertValue>,
        /// `OVERRIDING SYSTEM VALUE`.
        overriding: bool,
    },
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
    /// `ON_ERROR ignore`: rows with values that are not of their column's type are left out.
    pub ignore_errors: bool,
    /// `REJECT_LIMIT`: how many rows may be left out.
    pub reject_limit: Option<u64>,
    /// `LOG_VERBOSITY`.
    pub verbosity: CopyVerbosity,
}

/// How much is said of the rows that a COPY leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyVerbosity {
    /// How many they were.
    #[default]
    Default,
    /// Each of them.
    Verbose,
    /// Nothing.
    Silent,
}
