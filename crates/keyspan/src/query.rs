//! Queries of a statement: planned and executed on its snapshot, on the threads of queries.
//!
//! ```text
//! prepared     [`plan`] ─▶ columns and parameter types … later, with parameters: [`execute`]
//! at once      [`run`]: plan ─▶ execute, both in one task on the threads of queries
//! ```

use arrow::datatypes::SchemaRef;
use keyspan_cql::ast;
use keyspan_model::{ColumnType, Error, Result, Value};
use keyspan_query::{ExplainOptions, PlannedQuery, QueryContext};
use keyspan_seam::BatchStream;
use tokio::sync::oneshot;

use crate::context::ClientContext;
use crate::database::count;

/// Plans a query on what the statement sees.
pub(crate) async fn plan(
    context: &mut ClientContext,
    query: &ast::Query,
    types: &[Option<ColumnType>],
) -> Result<PlannedQuery> {
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, types);
    plan_on(context, query, query_context).await
}

/// As [`plan`], in this context.
pub(crate) async fn plan_on(
    context: &ClientContext,
    query: &ast::Query,
    query_context: QueryContext,
) -> Result<PlannedQuery> {
    check_locks(query)?;
    if let Some(known) = context.queries.cached(query, &query_context) {
        return Ok(known);
    }
    count(&context.database.counts().planned_statements);
    let (queries, query) = (context.queries.clone(), query.clone());
    let work = Box::pin(async move { queries.plan(&query, &query_context).await });
    context.running.guard(context.database.threads().run(work)).await
}

/// Plans a query and executes it at once. A cancel does not end its stream; dropping it does.
pub(crate) async fn run(
    context: &mut ClientContext,
    query: &ast::Query,
    parameters: &[Value],
) -> Result<(SchemaRef, BatchStream)> {
    check_locks(query)?;
    let snapshot = context.snapshot()?;
    let types = context.types_of(parameters);
    let query_context = context.query_context(snapshot, &types);
    if let Some(known) = context.queries.cached(query, &query_context) {
        let stream = execute_on(context, &known, parameters, query_context).await?;
        return Ok((known.schema, stream));
    }
    run_on(context, query, parameters, query_context).await
}

/// As [`run`], in this context: one task on the threads of queries plans, then executes.
pub(crate) async fn run_on(
    context: &ClientContext,
    query: &ast::Query,
    parameters: &[Value],
    query_context: QueryContext,
) -> Result<(SchemaRef, BatchStream)> {
    count(&context.database.counts().planned_statements);
    let (queries, query, parameters) = (context.queries.clone(), query.clone(), parameters.to_vec());
    let (planned, schema) = oneshot::channel();
    let work = Box::pin(async move {
        let plan = queries.plan(&query, &query_context).await?;
        // Whoever does not wait for it has dropped the stream too.
        let _ = planned.send(plan.schema.clone());
        queries.execute(&plan, &parameters, &query_context).await
    });
    let stream = context.running.guard(context.database.threads().stream(work)).await?;
    let schema = schema.await.map_err(|_| Error::internal("a query that runs without a plan"))?;
    Ok((schema, stream))
}

/// Rows are locked by a SELECT that stands alone ([`crate::row_locks`]).
fn check_locks(query: &ast::Query) -> Result<()> {
    if query.locks.is_empty() {
        return Ok(());
    }
    let error = Error::not_supported("FOR UPDATE is not supported in another statement");
    Err(error.with_hint("Run the SELECT … FOR UPDATE by itself, in a transaction."))
}

/// Runs a planned query; its stream ends with 57014 when the statement is to end.
pub(crate) async fn execute(
    context: &mut ClientContext,
    planned: &PlannedQuery,
    parameters: &[Value],
) -> Result<BatchStream> {
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, &[]);
    let stream = execute_on(context, planned, parameters, query_context).await?;
    Ok(context.running.guard_stream(stream))
}

/// Runs a planned query in this context. A cancel does not end the stream; dropping it does.
///
/// A cached plan is bound here, and polled here too if it runs inline: that is quicker than waking a thread. Everything
/// else runs on the threads of queries.
pub(crate) async fn execute_on(
    context: &ClientContext,
    planned: &PlannedQuery,
    parameters: &[Value],
    query_context: QueryContext,
) -> Result<BatchStream> {
    let threads = context.database.threads();
    if let Some(ready) = context.queries.ready(planned, parameters, &query_context).await {
        return if ready.runs_inline() {
            threads.poll_here(|| ready.start())
        } else {
            threads.begin_stream(|| ready.start())
        };
    }
    let (queries, planned, parameters) = (context.queries.clone(), planned.clone(), parameters.to_vec());
    // On the heap: statements run within statements, each on the stack of the one that asks for it.
    let work = Box::pin(async move { queries.execute(&planned, &parameters, &query_context).await });
    context.running.guard(threads.stream(work)).await
}

/// The lines of EXPLAIN for a planned query.
pub(crate) async fn explain_on(
    context: &ClientContext,
    planned: &PlannedQuery,
    parameters: &[Value],
    query_context: QueryContext,
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let (queries, planned, parameters) = (context.queries.clone(), planned.clone(), parameters.to_vec());
    let work = Box::pin(async move { queries.explain(&planned, &parameters, &query_context, options).await });
    context.running.guard(context.database.threads().run(work)).await
}
