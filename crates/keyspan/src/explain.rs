//! EXPLAIN: the plan of a query, or how a write finds its rows. With ANALYZE the statement runs, as in PostgreSQL.

use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use keyspan_cql::{Delete, Explain, Insert, InsertSource, Statement, Update, ast};
use keyspan_model::array::array_of;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::ExplainOptions;

use crate::dml::target::{self, Target};
use crate::names;
use crate::outcome::{Outcome, Rows, Tag, text_schema};
use crate::prepared::{Plan, Prepared};
use crate::query;
use crate::row::Written;
use crate::session::Session;

/// The columns of EXPLAIN.
pub(crate) fn schema() -> SchemaRef {
    text_schema(&["QUERY PLAN"])
}

/// `EXPLAIN`.
pub(crate) async fn run(
    session: &mut Session,
    statement: &Explain,
    prepared: &Prepared,
    parameters: &[Value],
) -> Result<Outcome> {
    if let Some((_, format)) =
        statement.options.iter().find(|(name, value)| name == "format" && !value.eq_ignore_ascii_case("text"))
    {
        return Err(
            Error::not_supported(format!("EXPLAIN (FORMAT {format}) is not supported")).with_hint("Use FORMAT text.")
        );
    }
    let Plan::Explained(inner) = &prepared.plan else { return Err(Error::internal("EXPLAIN without a statement")) };
    let options = ExplainOptions { analyze: statement.analyze, verbose: statement.verbose };
    let lines = match &inner.plan {
        Plan::Query(planned) => {
            let snapshot = session.snapshot()?;
            let context = session.context(snapshot, &[]);
            query::explain_on(session, planned, parameters, context, options).await?
        }
        _ => {
            let mut lines = describe(session, inner, parameters, options).await?;
            if statement.analyze {
                lines.extend(analyze(session, inner, parameters).await?);
            }
            lines
        }
    };
    let values: Vec<Value> = lines.into_iter().map(Value::Text).collect();
    let batch = RecordBatch::try_new(schema(), vec![array_of(ColumnType::Text, &values)?])?;
    Ok(Outcome::with_rows(Tag::plain("EXPLAIN"), Rows::ready(schema(), vec![batch])))
}

/// Runs the statement and counts.
async fn analyze(session: &mut Session, inner: &Prepared, parameters: &[Value]) -> Result<Vec<String>> {
    let began = Instant::now();
    let outcome = Box::pin(session.run_prepared(inner, parameters)).await?;
    let mut rows = 0;
    if let Some(mut stream) = outcome.rows {
        while let Some(batch) = stream.next().await {
            rows += batch?.num_rows() as u64;
        }
    }
    let spent = began.elapsed().as_secs_f64() * 1_000.0;
    Ok(vec![format!("Answer: {}", outcome.tag.text(rows)), format!("Execution Time: {spent:.3} ms")])
}

async fn describe(
    session: &mut Session,
    inner: &Prepared,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    match (&inner.plan, inner.statement()) {
        (Plan::Point(_), Statement::Query(query)) => {
            let table = first_table(&query.query);
            Ok(vec![format!("Point Read on {table}"), "  Key: whole key, no planner".into()])
        }
        (_, Statement::Insert(insert)) => describe_insert(session, insert, parameters, options).await,
        (_, Statement::Update(update)) => describe_update(session, update, parameters, options).await,
        (_, Statement::Delete(delete)) => describe_delete(session, delete, parameters, options).await,
        (_, Statement::CreateTableAs(create)) => {
            let lines = plan_lines(session, &create.query.query, parameters, options).await?;
            Ok(indented(format!("Create Table {}", create.name), lines))
        }
        _ => Err(Error::new(
            ErrorKind::Syntax,
            "EXPLAIN shows plans of SELECT, INSERT, UPDATE, DELETE and CREATE TABLE AS",
        )),
    }
}

fn first_table(query: &ast::Query) -> String {
    match &*query.body {
        ast::SetExpr::Select(select) => select.from.first().map_or(String::new(), |from| from.relation.to_string()),
        _ => String::new(),
    }
}

fn indented(head: String, lines: Vec<String>) -> Vec<String> {
    std::iter::once(head).chain(lines.into_iter().map(|line| format!("  {line}"))).collect()
}

async fn plan_lines(
    session: &mut Session,
    query: &ast::Query,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let types: Vec<_> = parameters.iter().map(Value::natural_type).collect();
    let planned = query::plan(session, query, &types).await?;
    let snapshot = session.snapshot()?;
    let context = session.context(snapshot, &types);
    let options = ExplainOptions { analyze: false, ..options };
    query::explain_on(session, &planned, parameters, context, options).await
}

async fn describe_insert(
    session: &mut Session,
    insert: &Insert,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    names::table(&session.catalog(), &session.settings.search_path(), &insert.table)?;
    let looks = insert.if_not_exists || insert.on_conflict.is_some();
    let how = if looks { "  Keys: locked, read, then written" } else { "  Keys: written blind" };
    let mut lines = vec![format!("Insert on {}", insert.table), how.to_string()];
    match &insert.source {
        InsertSource::Query(source) => {
            let plan = plan_lines(session, &source.query, parameters, options).await?;
            lines.extend(indented("  Rows from:".into(), plan.into_iter().map(|line| format!("  {line}")).collect()));
        }
        InsertSource::Values(rows) => lines.push(format!("  Rows: {}", rows.len())),
        InsertSource::DefaultValues => lines.push("  Rows: 1".into()),
    }
    Ok(lines)
}

async fn describe_update(
    session: &mut Session,
    update: &Update,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let table = names::table(&session.catalog(), &session.settings.search_path(), &update.table)?;
    let written = Written::new(table);
    let target = target::target(session, &written, update.alias.as_deref(), update.filter.as_ref(), parameters)?;
    let lines = describe_target(session, &target, parameters, options).await?;
    Ok(indented(format!("Update on {}", update.table), lines))
}

async fn describe_delete(
    session: &mut Session,
    delete: &Delete,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let table = names::table(&session.catalog(), &session.settings.search_path(), &delete.table)?;
    let written = Written::new(table);
    let target = target::target(session, &written, delete.alias.as_deref(), delete.filter.as_ref(), parameters)?;
    let lines = describe_target(session, &target, parameters, options).await?;
    Ok(indented(format!("Delete on {}", delete.table), lines))
}

async fn describe_target(
    session: &mut Session,
    target: &Target,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    Ok(match target {
        Target::Key(_) => vec!["Key: whole key, no planner".into()],
        Target::Keys(keys) => vec![format!("Keys: {} whole keys, no planner", keys.len())],
        Target::Span(span) if span.is_all() => vec!["Span: all rows, no planner".into()],
        Target::Span(_) => vec!["Span: one span of the key, no planner".into()],
        Target::Nothing => vec!["Nothing: the key cannot be null".into()],
        Target::Query(query) => {
            let plan = plan_lines(session, query, parameters, options).await?;
            indented("Rows found by:".into(), plan)
        }
    })
}
