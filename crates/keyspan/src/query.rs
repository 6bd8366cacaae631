//! SELECT and `scan`: by the point path where that is enough, through the planner otherwise.

use keyspan_cql::{Scan, ScanAttribute, Statement, ast, quoted};
use keyspan_model::{ColumnRole, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::{ExplainOptions, PlannedQuery, QueryContext};
use keyspan_store::seam::BatchStream;

use crate::database::count;
use crate::names;
use crate::outcome::{Outcome, Rows, Tag};
use crate::point;
use crate::prepared::{Plan, Prepared};
use crate::scan_guard;
use crate::session::Session;

/// Runs a prepared SELECT or scan.
pub(crate) async fn run(session: &mut Session, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
    match &prepared.plan {
        Plan::Point(select) => point::run(session, select, parameters).await,
        Plan::Query(planned) => {
            let stream = execute_checked(session, planned, parameters, prepared.statement()).await?;
            let outcome = Outcome::with_rows(Tag::streamed("SELECT"), Rows::new(planned.schema.clone(), stream));
            if !prepared.parsed.text.to_lowercase().contains("set_config") {
                return Ok(outcome);
            }
            // Of a statement that fails nothing is granted.
            let outcome = outcome.read_all().await.inspect_err(|_| session.settings_changed())?;
            session.grant_changes()?;
            Ok(outcome)
        }
        Plan::None | Plan::Explained(_) => Err(Error::internal("a query without a plan")),
    }
}

/// Plans a query on what the statement sees.
pub(crate) async fn plan(
    session: &mut Session,
    query: &ast::Query,
    types: &[Option<ColumnType>],
) -> Result<PlannedQuery> {
    check_locks(query)?;
    let snapshot = session.snapshot()?;
    let context = session.context(snapshot, types);
    if let Some(known) = session.queries.cached(query, &context) {
        return Ok(known);
    }
    count(&session.database.counts().planned_statements);
    plan_on(session, query, context).await
}

/// Plans a query in this context.
pub(crate) async fn plan_on(session: &Session, query: &ast::Query, context: QueryContext) -> Result<PlannedQuery> {
    let (queries, query) = (session.queries.clone(), query.clone());
    let work = Box::pin(async move { queries.plan(&query, &context).await });
    session.running.guard(session.database.threads().run(work)).await
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
    session: &mut Session,
    planned: &PlannedQuery,
    parameters: &[Value],
) -> Result<BatchStream> {
    let snapshot = session.snapshot()?;
    let context = session.context(snapshot, &[]);
    let stream = execute_on(session, planned, parameters, context).await?;
    Ok(session.running.guard_stream(stream))
}

/// Runs a planned query in this context. Nothing but its being dropped ends the stream early.
///
/// A plan that is kept is made ready here, and run here if it is brief, which is quicker than waking a thread for it;
/// whatever may take long is not.
pub(crate) async fn execute_on(
    session: &Session,
    planned: &PlannedQuery,
    parameters: &[Value],
    context: QueryContext,
) -> Result<BatchStream> {
    let threads = session.database.threads();
    if let Some(ready) = session.queries.ready(planned, parameters, &context) {
        return if ready.runs_inline() { threads.here(|| ready.start()) } else { threads.stream_of(|| ready.start()) };
    }
    let (queries, planned, parameters) = (session.queries.clone(), planned.clone(), parameters.to_vec());
    // On the heap: statements run within statements, each on the stack of the one that asks for it.
    let work = Box::pin(async move { queries.execute(&planned, &parameters, &context).await });
    session.running.guard(threads.stream(work)).await
}

/// The lines of EXPLAIN for a planned query.
pub(crate) async fn explain_on(
    session: &Session,
    planned: &PlannedQuery,
    parameters: &[Value],
    context: QueryContext,
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let (queries, planned, parameters) = (session.queries.clone(), planned.clone(), parameters.to_vec());
    let work = Box::pin(async move { queries.explain(&planned, &parameters, &context, options).await });
    session.running.guard(session.database.threads().run(work)).await
}

/// As [`execute`], with the guard against reading whole tables where the session wants it.
async fn execute_checked(
    session: &mut Session,
    planned: &PlannedQuery,
    parameters: &[Value],
    statement: &Statement,
) -> Result<BatchStream> {
    let allowed = matches!(statement, Statement::Query(query) if query.tails.allow_filtering);
    let mode = session.settings.get("full_scan").unwrap_or("allow").to_string();
    if allowed || mode == "allow" {
        return execute(session, planned, parameters).await;
    }
    let (snapshot, seen) = scan_guard::guarded(session.snapshot()?, mode == "error");
    let context = session.context(snapshot, &[]);
    let result = execute_on(session, planned, parameters, context).await;
    if let Some(notice) = scan_guard::notice(&seen) {
        session.notice(notice);
    }
    Ok(session.running.guard_stream(result?))
}

/// HBase's scan as the SELECT that means the same, so that both have one plan.
pub(crate) fn scan_query(session: &Session, scan: &Scan) -> Result<Box<ast::Query>> {
    let table = names::table(&session.catalog(), &session.settings.search_path(), &scan.table)?;
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
pub(crate) fn typed_parameters(session: &Session, prepared: &Prepared, given: &[Value]) -> Result<Vec<Value>> {
    check_count(prepared, given)?;
    let zone = session.zone();
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
