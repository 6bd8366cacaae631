//! Which rows an UPDATE or DELETE is about, and how they are found: by keys, by one span, or by a query.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use futures::StreamExt;
use keyspan_cql::{Statement, ast, quoted};
use keyspan_model::array::coerce;
use keyspan_model::{Error, Result, Span, Value};
use keyspan_query::{KeyMatch, key_of};
use keyspan_seam::Snapshot;

use super::existing;
use crate::context::ClientContext;
use crate::names;
use crate::query;
use crate::row::TableHandle;

/// Which rows a statement writes.
#[derive(Clone, Debug)]
pub(crate) enum WriteTarget {
    /// The row with this whole key.
    Key(Vec<Value>),
    /// The rows with these whole keys.
    Keys(Vec<Vec<Value>>),
    /// The rows of one span.
    Span(Span),
    /// None: the condition cannot be met.
    Nothing,
    /// Those that a query finds.
    Query(Box<ast::Query>),
}

/// The rows that the WHERE of an UPDATE or DELETE is about.
pub(crate) fn find_target(
    context: &ClientContext,
    handle: &TableHandle,
    alias: Option<&str>,
    filter: Option<&ast::Expr>,
    parameters: &[Value],
) -> Result<WriteTarget> {
    let Some(filter) = filter else { return Ok(WriteTarget::Span(Span::all())) };
    let matched = match alias {
        // The alias hides the table's name; the recognition knows only that.
        Some(alias) if alias != handle.table.name => {
            key_of(&without_qualifier(filter, alias), &handle.table, context.settings.time_zone())
        }
        _ => key_of(filter, &handle.table, context.settings.time_zone()),
    };
    let bind =
        |key: &[keyspan_query::KeyPart]| key.iter().map(|part| part.bind(parameters)).collect::<Result<Vec<_>>>();
    let possible = |key: &[Value]| !key.iter().any(Value::is_null);
    Ok(match matched {
        KeyMatch::WholeKey(key) => match bind(&key)? {
            key if possible(&key) => WriteTarget::Key(key),
            _ => WriteTarget::Nothing,
        },
        KeyMatch::WholeKeys(keys) => {
            let keys = keys.iter().map(|key| bind(key)).collect::<Result<Vec<_>>>()?;
            WriteTarget::Keys(keys.into_iter().filter(|key| possible(key)).collect())
        }
        KeyMatch::SpansOnly(range) => {
            range.bind(&handle.table, parameters)?.map_or(WriteTarget::Nothing, WriteTarget::Span)
        }
        KeyMatch::Other => WriteTarget::Query(Box::new(query_of(handle, alias, filter)?)),
    })
}

/// `SELECT every column FROM table WHERE filter`, the filter being the statement's own tree.
fn query_of(handle: &TableHandle, alias: Option<&str>, filter: &ast::Expr) -> Result<ast::Query> {
    let table = &handle.table;
    let columns: Vec<String> = table.columns.iter().map(|column| quote(&column.name)).collect();
    let alias = alias.map_or(String::new(), |alias| format!(" AS {}", quote(alias)));
    let text = format!("SELECT {} FROM {}.{}{alias}", columns.join(", "), quoted(&table.keyspace), quote(&table.name));
    let Statement::Query(query) = keyspan_cql::parse_one(&text)?.statement else {
        return Err(Error::internal("a SELECT is not a query"));
    };
    let mut query = query.query;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.selection = Some(filter.clone());
    }
    Ok(*query)
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The condition with `alias.column` as `column`.
fn without_qualifier(filter: &ast::Expr, alias: &str) -> ast::Expr {
    let mut filter = filter.clone();
    let _ = ast::visit_expressions_mut(&mut filter, |expression| {
        if let ast::Expr::CompoundIdentifier(parts) = expression
            && let [qualifier, column] = parts.as_slice()
            && names::fold_case(qualifier) == alias
        {
            *expression = ast::Expr::Identifier(column.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    filter
}

/// The live rows of the target, all columns, as the snapshot has them.
pub(crate) async fn read(
    context: &mut ClientContext,
    handle: &TableHandle,
    target: &WriteTarget,
    snapshot: &Arc<dyn Snapshot>,
    parameters: &[Value],
) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    match target {
        WriteTarget::Nothing => {}
        WriteTarget::Key(key) => batches.push(handle.read(snapshot, std::slice::from_ref(key)).await?),
        WriteTarget::Keys(keys) => batches.push(handle.read(snapshot, keys).await?),
        WriteTarget::Span(span) => {
            let columns = handle.scan_columns();
            let relation = handle.relation.id;
            let read = existing::visit(context, snapshot, relation, vec![span.clone()], columns, |batch| {
                batches.push(batch);
                Ok(false)
            });
            read.await?;
        }
        WriteTarget::Query(found) => {
            let types: Vec<_> = parameters.iter().map(Value::natural_type).collect();
            let query_context = context.query_context(snapshot.clone(), &types);
            let (_, stream) = query::run_on(context, found, parameters, query_context).await?;
            let mut stream = context.running.guard_stream(stream);
            while let Some(batch) = stream.next().await {
                batches.push(batch?);
            }
        }
    }
    let batches = batches.iter().map(|batch| with_table_types(handle, batch)).collect::<Result<Vec<_>>>()?;
    Ok(concat_batches(&handle.schema, &batches)?)
}

/// The batch with exactly the table's types and no column declared NOT NULL.
fn with_table_types(handle: &TableHandle, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = handle.table.columns.iter().zip(batch.columns());
    let arrays = columns.map(|(column, array)| coerce(array, column.ty)).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(handle.schema.clone(), arrays)?)
}
