//! SELECT and `scan`: by the point path where that is enough, through the planner otherwise.

use keyspan_cql::{Scan, ScanAttribute, Statement, ast, quoted};
use keyspan_model::{ColumnRole, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::{ExplainOptions, PlannedQuery, QueryContext};
use keyspan_store::seam::BatchStream;

use crate::context::ClientContext;
use crate::database::count;
use crate::names;
use crate::outcome::{Outcome, Rows, Tag};
use crate::point;
use crate::prepared::{Plan, Prepared};
use crate::scan_guard;
use crate::show;

/// Runs a prepared SELECT or scan.
pub(crate) async fn run(context: &mut ClientContext, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
    match &prepared.plan {
        Plan::Point(select) => point::run(context, select, parameters).await,
        Plan::Query(planned) => {
            let stream = execute_checked(context, planned, parameters, prepared.statement()).await?;
            let outcome = Outcome::with_rows(Tag::streamed("SELECT"), Rows::new(planned.schema.clone(), stream));
            if !prepared.parsed.text.to_lowercase().contains("set_config") {
                return Ok(outcome);
            }
            // Of a statement that fails nothing is granted.
            let outcome = outcome.read_all().await.inspect_err(|_| context.settings_changed())?;
            set_config(context)?;
            Ok(outcome)
        }
        Plan::None | Plan::Explained(_) => Err(Error::internal("a query without a plan")),
    }
}

/// Does what calls of `set_config` in the statement asked for.
fn set_config(context: &mut ClientContext) -> Result<()> {
    context.take_setting_changes().into_iter().try_for_each(|change| show::set_config(context, change))
}

/// Plans a query on what the statement sees.
pub(crate) async fn plan(
    context: &mut ClientContext,
    query: &ast::Query,
    types: &[Option<ColumnType>],
) -> Result<PlannedQuery> {
    check_locks(query)?;
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, types);
    if let Some(known) = context.queries.known(query, &query_context) {
        return Ok(known);
    }
    count(&context.database.counts().planned_statements);
    plan_on(context, query, query_context).await
}

/// Plans a query in this context.
pub(crate) async fn plan_on(
    context: &ClientContext,
    query: &ast::Query,
    query_context: QueryContext,
) -> Result<PlannedQuery> {
    let (queries, query) = (context.queries.clone(), query.clone());
    let work = Box::pin(async move { queries.plan(&query, &query_context).await });
    context.running.guard(context.database.threads().run(work)).await
}

/// Row locks need keys: FOR UPDATE works where the whole key is given.
fn check_locks(query: &ast::Query) -> Result<()> {
    if query.locks.is_empty() {
        return Ok(());
    }
    let error = Error::not_supported("FOR UPDATE needs a WHERE that gives the whole key of one table");
    Err(error.with_hint("Or use UPDATE … RETURNING, or BEGIN ISOLATION LEVEL REPEATABLE READ."))
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

/// Runs a planned query in this context. Nothing but its being dropped ends the stream early.
///
/// A plan that is kept is made ready here, and run here if it is brief, which is quicker than waking a thread for it;
/// whatever may take long is not.
pub(crate) async fn execute_on(
    context: &ClientContext,
    planned: &PlannedQuery,
    parameters: &[Value],
    query_context: QueryContext,
) -> Result<BatchStream> {
    let threads = context.database.threads();
    if let Some(ready) = context.queries.ready(planned, parameters, &query_context) {
        return if ready.is_brief() { threads.here(|| ready.start()) } else { threads.stream_of(|| ready.start()) };
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

/// As [`execute`], with the guard against reading whole tables where the session wants it.
async fn execute_checked(
    context: &mut ClientContext,
    planned: &PlannedQuery,
    parameters: &[Value],
    statement: &Statement,
) -> Result<BatchStream> {
    let allowed = matches!(statement, Statement::Query(query) if query.tails.allow_filtering);
    let mode = context.settings.get("full_scan").unwrap_or("allow").to_string();
    if allowed || mode == "allow" {
        return execute(context, planned, parameters).await;
    }
    let (snapshot, seen) = scan_guard::guarded(context.snapshot()?, mode == "error");
    let query_context = context.query_context(snapshot, &[]);
    let result = execute_on(context, planned, parameters, query_context).await;
    if let Some(notice) = scan_guard::notice(&seen) {
        context.notice(notice);
    }
    Ok(context.running.guard_stream(result?))
}

/// HBase's scan as the SELECT that means the same, so that both have one plan.
pub(crate) fn scan_query(context: &ClientContext, scan: &Scan) -> Result<Box<ast::Query>> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &scan.table)?;
    let mut columns = "*".to_string();
    let (mut conditions, mut limit, mut reversed) = (Vec::new(), String::new(), false);
    for attribute in &scan.attributes {
        match attribute {
            ScanAttribute::RowPrefix(prefix) => conditions.push(format!("starts_with(row_key, {})", literal(prefix))),
            ScanAttribute::StartRow(row) => conditions.push(format!("row_key >= {}", literal(row))),
            ScanAttribute::StopRow(row) => conditions.push(format!("row_key < {}", literal(row))),
            ScanAttribute::Limit(rows) => limit = format!(" LIMIT {rows}"),
            ScanAttribute::Reversed(backwards) => reversed = *backwards,
            ScanAttribute::Columns(names) => {
                for name in names {
                    table.expect_column(name)?;
                }
                columns = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
            }
        }
    }
    let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let order = |column: &keyspan_model::ColumnDef| {
        let descending = matches!(column.role, ColumnRole::Clustering { descending: true });
        format!("{} {}", quoted(&column.name), if descending != reversed { "DESC" } else { "ASC" })
    };
    let order = table.key().map(order).collect::<Vec<_>>().join(", ");
    let (keyspace, name) = (quoted(&table.keyspace), quoted(&table.name));
    names::parse_query(&format!("SELECT {columns} FROM {keyspace}.{name}{filter} ORDER BY {order}{limit}"))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The parameters as the types that the statement was prepared with.
pub(crate) fn typed_parameters(context: &ClientContext, prepared: &Prepared, given: &[Value]) -> Result<Vec<Value>> {
    check_count(prepared, given)?;
    let zone = context.zone();
    let resolve = |name: Option<&str>, local| zone.resolve(name, local);
    let typed = given.iter().cloned().zip(&prepared.parameters);
    typed.map(|(value, ty)| value.cast_zoned(*ty, &resolve)).collect()
}

/// Fails unless there is a value for each parameter.
pub(crate) fn check_count(prepared: &Prepared, given: &[Value]) -> Result<()> {
    if given.len() != prepared.parameters.len() {
        let message = format!(
            "bind message supplies {} parameters, but prepared statement \"\" requires {}",
            given.len(),
            prepared.parameters.len()
        );
        return Err(Error::new(ErrorKind::Protocol, message));
    }
    Ok(())
}
