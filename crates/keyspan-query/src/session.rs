//! A session's queries: plan once, execute as often as wanted, each time on the snapshot given.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast;
use keyspan_model::{ColumnType, Error, Result, Value};
use keyspan_store::seam::{BatchStream, Snapshot};

use crate::engine::QueryEngine;
use crate::expression::CompiledExprs;

/// What a session says of itself to functions and system tables; changes rarely, so it is shared.
#[derive(Clone, Debug, Default)]
pub struct SessionInfo {
    /// Answer of `current_user`.
    pub user: String,
    /// Answer of `current_database()`.
    pub database: String,
    /// Values of `current_setting(name)` and `SHOW`.
    pub settings: BTreeMap<String, String>,
}

/// Everything a statement's meaning depends on besides its text.
#[derive(Clone, Debug)]
pub struct QueryContext {
    /// What the statement sees; taken before planning.
    pub snapshot: Arc<dyn Snapshot>,
    /// Keyspaces in which unqualified names are looked up, first match wins. `pg_catalog` is always searched first.
    pub search_path: Vec<String>,
    /// IANA name or offset of the session's time zone.
    pub time_zone: String,
    /// `now()`, `current_timestamp`, `current_date`: microseconds since 1970.
    pub now: i64,
    /// Types the client gave for `$1`, `$2`, …; `None` and missing ones are inferred.
    pub parameter_types: Vec<Option<ColumnType>>,
    /// The session, to functions and system tables.
    pub info: Arc<SessionInfo>,
}

/// How EXPLAIN answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// Runs the query and shows counts and times.
    pub analyze: bool,
    /// Shows the logical plan too.
    pub verbose: bool,
}

/// A planned SELECT; may be executed many times, on other snapshots and with other parameters.
#[derive(Clone, Debug)]
pub struct PlannedQuery {
    /// Labels as Postgres gives them (they may repeat), types with `keyspan.type` in the metadata.
    pub schema: SchemaRef,
    /// Types of `$1`, `$2`, … .
    pub parameters: Vec<ColumnType>,
}

/// One session's access to queries. Holds no data; cheap to make.
#[derive(Clone, Debug)]
pub struct QuerySession {
    engine: Arc<QueryEngine>,
}

impl QuerySession {
    pub(crate) fn new(engine: Arc<QueryEngine>) -> Self {
        QuerySession { engine }
    }

    /// Plans a query: names, types and parameters are settled, nothing is read.
    ///
    /// # Errors
    /// 42P01, 42703, 42883, 42803, 42804, 42P18 and the like, with the nearest name as a hint.
    pub async fn plan(&self, query: &ast::Query, context: &QueryContext) -> Result<PlannedQuery> {
        Err(Error::not_supported(format!("queries are under construction: {query} {:?} {context:?}", self.engine)))
    }

    /// Runs a planned query on the context's snapshot. Dropping the stream cancels it.
    ///
    /// If the tables have changed since planning the query is planned anew; if that changes the types of its columns,
    /// the error is Postgres' "cached plan must not change result type" (0A000).
    pub async fn execute(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
    ) -> Result<BatchStream> {
        Err(Error::not_supported(format!("queries are under construction: {planned:?} {parameters:?} {context:?}")))
    }

    /// The lines of EXPLAIN. With `analyze` the query is run and its rows are thrown away.
    pub async fn explain(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
        options: ExplainOptions,
    ) -> Result<Vec<String>> {
        Err(Error::not_supported(format!("under construction: {planned:?} {parameters:?} {context:?} {options:?}")))
    }

    /// Compiles scalar expressions over rows of the inputs, side by side in one batch.
    ///
    /// `input` gives each table's qualifier and columns, in the order of the batch's columns. Subqueries and aggregates
    /// are refused (0A000).
    pub fn expression(
        &self,
        expressions: &[&ast::Expr],
        input: &[(&str, SchemaRef)],
        context: &QueryContext,
    ) -> Result<CompiledExprs> {
        Err(Error::not_supported(format!("under construction: {expressions:?} {input:?} {context:?}")))
    }
}
