//! EXPLAIN: the plan of a query, or how a write finds its rows. With ANALYZE the statement runs, as in PostgreSQL.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use futures::StreamExt;
use keyspan_cql::{Delete, Explain, Insert, InsertSource, Statement, Update, ast};
use keyspan_model::array::array_of;
use keyspan_model::json;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Span, Value};
use keyspan_query::ExplainOptions;

use crate::context::ClientContext;
use crate::dml::target::{self, Beside, WriteTarget};
use crate::dml::{assign, rights};
use crate::names;
use crate::outcome::{Outcome, Rows, Tag};
use crate::prepared::{Prepared, PreparedPlan};
use crate::query;
use crate::row::TableHandle;

/// The columns of EXPLAIN.
pub(crate) fn schema(statement: &Explain) -> SchemaRef {
    let ty = if statement.json { ColumnType::Json } else { ColumnType::Text };
    Arc::new(Schema::new(vec![ty.field("QUERY PLAN", true)]))
}

/// What an EXPLAIN explains.
pub(crate) fn explained(prepared: &Prepared) -> Result<&Prepared> {
    match &prepared.plan {
        PreparedPlan::Explained(explained) => Ok(explained),
        _ => Err(Error::internal("EXPLAIN without a statement")),
    }
}

/// The lines of the plan. With ANALYZE a planned query is run, and they tell its counts and times; others are not run.
pub(crate) async fn lines(
    context: &mut ClientContext,
    statement: &Explain,
    explained: &Prepared,
    parameters: &[Value],
) -> Result<Vec<String>> {
    // JSON has nodes in nodes, and no room for the logical plan.
    let options = ExplainOptions { analyze: statement.analyze, verbose: statement.verbose && !statement.json };
    match &explained.plan {
        PreparedPlan::Query { planned, .. } => {
            let snapshot = context.snapshot()?;
            let query_context = context.query_context(snapshot, &[]);
            query::explain_on(context, planned, parameters, query_context, options).await
        }
        _ => describe(context, explained, parameters, options).await,
    }
}

/// PostgreSQL's form of a plan as JSON: nodes in nodes, by how far their lines are indented. A line's text is the node's
/// type; lines that are no nodes (times, ranges) stand beside the plan.
fn json_of(lines: &[String]) -> String {
    let depth = |line: &str| (line.len() - line.trim_start().len()) / 2;
    let beside = |line: &&String| line.starts_with("Planning Time:") || line.starts_with("Execution Time:");
    let nodes: Vec<(usize, &str)> =
        lines.iter().filter(|line| !beside(line)).map(|line| (depth(line), line.trim())).collect();
    let mut out = String::from("[{\"Plan\": ");
    let mut at = 0;
    put_node(&nodes, &mut at, &mut out);
    // What VERBOSE shows beside the plan.
    let rest: Vec<String> = nodes[at..].iter().map(|(_, text)| json::quoted(text)).collect();
    if !rest.is_empty() {
        out.push_str(&format!(", \"Lines\": [{}]", rest.join(", ")));
    }
    for line in lines.iter().filter(beside) {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        let number = value.split(' ').next().filter(|number| number.parse::<f64>().is_ok()).unwrap_or("null");
        out.push_str(&format!(", {}: {number}", json::quoted(name)));
    }
    out.push_str("}]");
    out
}

/// The node at a place, and as its plans those behind it that are indented more.
fn put_node(nodes: &[(usize, &str)], at: &mut usize, out: &mut String) {
    let Some((depth, text)) = nodes.get(*at) else { return out.push_str("null") };
    *at += 1;
    out.push_str(&format!("{{\"Node Type\": {}", json::quoted(text)));
    let mut opened = false;
    while nodes.get(*at).is_some_and(|(next, _)| next > depth) {
        out.push_str(if opened { ", " } else { ", \"Plans\": [" });
        opened = true;
        put_node(nodes, at, out);
    }
    out.push_str(if opened { "]}" } else { "}" });
}

/// The answer of EXPLAIN.
pub(crate) fn answer(statement: &Explain, lines: Vec<String>) -> Result<Outcome> {
    let (ty, lines) =
        if statement.json { (ColumnType::Json, vec![json_of(&lines)]) } else { (ColumnType::Text, lines) };
    let values: Vec<Value> = lines.into_iter().map(Value::Text).collect();
    let schema = schema(statement);
    let batch = RecordBatch::try_new(schema.clone(), vec![array_of(ty, &values)?])?;
    Ok(Outcome::with_rows(Tag::plain("EXPLAIN"), Rows::ready(schema, vec![batch])))
}

/// What ANALYZE tells of a statement that began to run then. Reads all its rows.
pub(crate) async fn measured(outcome: Outcome, began: Instant) -> Result<Vec<String>> {
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
    context: &mut ClientContext,
    inner: &Prepared,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    match (&inner.plan, inner.statement()) {
        (PreparedPlan::Point(select), Statement::Query(query)) => {
            let table = first_table(&query.query);
            Ok(vec![format!("Point Read on {table}"), format!("  {}, no planner", select.keys_text(parameters)?)])
        }
        (_, Statement::Insert(insert)) => describe_insert(context, insert, parameters, options).await,
        (_, Statement::Update(update)) => describe_update(context, update, parameters, options).await,
        (_, Statement::Delete(delete)) => describe_delete(context, delete, parameters, options).await,
        (_, Statement::CreateTableAs(create)) => {
            let lines = plan_lines(context, &create.query.query, parameters, options).await?;
            Ok(indented(format!("Create Table {}", create.name), lines))
        }
        (_, Statement::With(_) | Statement::Merge(_)) => {
            let error = Error::not_supported("EXPLAIN of MERGE and of writes in WITH is not supported");
            Err(error.with_hint("Explain their queries and writes, each as a statement of its own."))
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
    context: &mut ClientContext,
    query: &ast::Query,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let types = context.types_of(parameters);
    let planned = query::plan(context, query, &types).await?;
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, &types);
    let options = ExplainOptions { analyze: false, ..options };
    query::explain_on(context, &planned, parameters, query_context, options).await
}

async fn describe_insert(
    context: &mut ClientContext,
    insert: &Insert,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &insert.table)?;
    rights::insert(context, &table, insert)?;
    let looks = insert.if_not_exists || insert.on_conflict.is_some();
    let how = if looks { "  Keys: locked, read, then written" } else { "  Keys: written blind" };
    let mut lines = vec![format!("Insert on {}", insert.table), how.to_string()];
    match &insert.source {
        InsertSource::Query(source) => {
            let plan = plan_lines(context, &source.query, parameters, options).await?;
            lines.extend(indented("  Rows from:".into(), plan.into_iter().map(|line| format!("  {line}")).collect()));
        }
        InsertSource::Values(rows) => lines.push(format!("  Rows: {}", rows.len())),
        InsertSource::DefaultValues | InsertSource::Json { .. } => lines.push("  Rows: 1".into()),
    }
    Ok(lines)
}

async fn describe_update(
    context: &mut ClientContext,
    update: &Update,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &update.table)?;
    rights::update(context, &table, update)?;
    let handle = TableHandle::new(table);
    let (alias, filter, values) = (update.alias.as_deref(), update.filter.as_ref(), assign::by_query(update));
    let beside = Beside { from: &update.from, values: &values };
    let target = target::find_target(context, &handle, alias, filter, beside, parameters)?;
    let lines = describe_target(context, &target, parameters, options).await?;
    Ok(indented(format!("Update on {}", update.table), lines))
}

async fn describe_delete(
    context: &mut ClientContext,
    delete: &Delete,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &delete.table)?;
    rights::delete(context, &table, delete)?;
    let handle = TableHandle::new(table);
    let (alias, filter) = (delete.alias.as_deref(), delete.filter.as_ref());
    let beside = Beside { from: &delete.from, values: &[] };
    let target = target::find_target(context, &handle, alias, filter, beside, parameters)?;
    let lines = describe_target(context, &target, parameters, options).await?;
    Ok(indented(format!("Delete on {}", delete.table), lines))
}

async fn describe_target(
    context: &mut ClientContext,
    target: &WriteTarget,
    parameters: &[Value],
    options: ExplainOptions,
) -> Result<Vec<String>> {
    Ok(match target {
        WriteTarget::Key(_) => vec!["Key: whole key, no planner".into()],
        WriteTarget::Keys(keys) => vec![format!("Keys: {} whole keys, no planner", keys.len())],
        WriteTarget::Spans(spans) if spans.iter().any(Span::is_all) => vec!["Span: all rows, no planner".into()],
        WriteTarget::Spans(spans) if spans.len() == 1 => vec!["Span: one span of the key, no planner".into()],
        WriteTarget::Spans(spans) => vec![format!("Spans: {} spans of the key, no planner", spans.len())],
        WriteTarget::Nothing => vec!["Nothing: the key cannot be null".into()],
        WriteTarget::Query(found) => {
            let plan = plan_lines(context, &found.query, parameters, options).await?;
            indented("Rows found by:".into(), plan)
        }
    })
}
