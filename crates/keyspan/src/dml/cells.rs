//! `DELETE FROM cells('table', 'family') WHERE …`: cells by ranges of qualifiers, and versions up to a time.
//!
//! The rule: of a cell either all versions go or the oldest ones. A version between others would leave a gap, into which
//! an older one that the family's rule has hidden could come back.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use keyspan_cql::{Delete, ast, quoted};
use keyspan_model::array::value_at;
use keyspan_model::{Error, ErrorKind, Mutation, RelationKind, Result, Span, SpanDelete, TableDef, Value};
use keyspan_query::{KeyMatch, cells_table};

use super::{existing, target, using};
use crate::context::ClientContext;
use crate::locks::HeldLocks;
use crate::names::{columns_of, fold_case, parse_query};
use crate::outcome::{Outcome, Tag};
use crate::query;
use crate::row::TableHandle;

/// A version's encoded key and its key.
type Version = (Vec<u8>, Vec<Value>);

/// The cells of a family as a table.
///
/// # Errors
/// 42703 if there is no such family.
pub(crate) fn handle(table: &Arc<TableDef>, family: &str) -> Result<TableHandle> {
    let Some(family) = table.family(family) else {
        let message = format!("family \"{family}\" of relation \"{}\" does not exist", table.name);
        return Err(Error::new(ErrorKind::UndefinedColumn, message));
    };
    let cells = Arc::new(cells_table(table, family));
    Ok(TableHandle::of_cells(cells, table.clone(), table.family_relation(family)))
}

/// Deletes cells.
pub(super) async fn delete(
    context: &mut ClientContext,
    table: &Arc<TableDef>,
    family: &str,
    statement: &Delete,
    parameters: &[Value],
) -> Result<Outcome> {
    let handle = handle(table, family)?;
    let plain = statement.columns.is_empty() && statement.from.is_empty();
    if !plain || statement.condition.is_some() || statement.returning.is_some() {
        let message = "DELETE FROM cells() takes a WHERE and USING TIMESTAMP only";
        return Err(Error::not_supported(message));
    }
    check_versions(&handle, statement.filter.as_ref())?;
    let stamp = using::timing(context, &statement.using, table, parameters)?.stamp;
    let (spans, cells) = match known_spans(context, &handle, statement.filter.as_ref(), parameters)? {
        Some(spans) => {
            let snapshot = context.newest()?;
            let cells = existing::count(context, &snapshot, handle.relation.id, spans.clone()).await?;
            (spans, cells)
        }
        None => found_spans(context, &handle, (table, family), statement, parameters).await?,
    };
    let relation = handle.relation.id;
    let delete = |span| Mutation::DeleteSpan(SpanDelete { relation, span, stamp });
    let locks = HeldLocks::none(context.database.locks().clone());
    context.write_checked(&handle, spans.into_iter().map(delete).collect(), Vec::new(), locks).await?;
    Ok(Outcome::done(Tag::counted("DELETE", cells)))
}

/// Fails where a condition may choose a version between others.
fn check_versions(handle: &TableHandle, filter: Option<&ast::Expr>) -> Result<()> {
    if handle.relation.kind != RelationKind::Family {
        return Ok(());
    }
    let key = handle.key_len();
    let (written, value) = (&handle.table.columns[key - 1].name, &handle.table.columns[key].name);
    let mut left: Vec<&ast::Expr> = filter.into_iter().collect();
    while let Some(part) = left.pop() {
        match part {
            ast::Expr::Nested(inner) => left.push(inner),
            ast::Expr::BinaryOp { left: a, op: ast::BinaryOperator::And, right: b } => left.extend([&**a, &**b]),
            part if is_until(part, written) => {}
            part if columns_of(part).iter().any(|name| name == written || name == value) => {
                let message = "versions of a cell can only be deleted up to a time";
                let hint =
                    format!("Write {written} <= …: without a version between others an older one could come back.");
                return Err(Error::not_supported(message).with_hint(hint));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a condition of a family's cells is about when they were written.
fn limits_versions(handle: &TableHandle, filter: &ast::Expr) -> bool {
    let written = &handle.table.columns[handle.key_len() - 1].name;
    handle.relation.kind == RelationKind::Family && columns_of(filter).contains(written)
}

/// Whether a condition is `written_at <= …` or `written_at < …`.
fn is_until(condition: &ast::Expr, written: &str) -> bool {
    use ast::BinaryOperator::{Gt, GtEq, Lt, LtEq};
    let is_written = |side: &ast::Expr| match side {
        ast::Expr::Identifier(name) => fold_case(name) == written,
        ast::Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| fold_case(name) == written),
        _ => false,
    };
    match condition {
        ast::Expr::BinaryOp { left, op: Lt | LtEq, right } => is_written(left) && columns_of(right).is_empty(),
        ast::Expr::BinaryOp { left, op: Gt | GtEq, right } => is_written(right) && columns_of(left).is_empty(),
        _ => false,
    }
}

/// The spans that a condition on the key means, if it says no more.
fn known_spans(
    context: &mut ClientContext,
    handle: &TableHandle,
    filter: Option<&ast::Expr>,
    parameters: &[Value],
) -> Result<Option<Vec<Span>>> {
    let Some(filter) = filter else { return Ok(Some(vec![Span::all()])) };
    Ok(match target::key_of_write(context, handle, filter, parameters) {
        KeyMatch::TooMany | KeyMatch::Other => None,
        KeyMatch::WholeKeys(ranges) | KeyMatch::SpansOnly(ranges) => Some(ranges.bind(&handle.table, parameters)?),
        KeyMatch::WholeKey(key) => {
            let key = key.iter().map(|part| part.bind(parameters)).collect::<Result<Vec<_>>>()?;
            let possible = !key.iter().any(Value::is_null);
            Some(possible.then(|| Span::prefix(key)).into_iter().collect())
        }
    })
}

/// The versions that a query finds, as a span for each cell, and how many they are.
async fn found_spans(
    context: &mut ClientContext,
    handle: &TableHandle,
    (table, family): (&TableDef, &str),
    statement: &Delete,
    parameters: &[Value],
) -> Result<(Vec<Span>, u64)> {
    let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let alias = quoted(statement.alias.as_deref().unwrap_or("cells"));
    let key = handle.table.key().map(|column| format!("{alias}.{}", quoted(&column.name))).collect::<Vec<_>>();
    let from = format!("cells({}, {})", text(&format!("{}.{}", table.keyspace, table.name)), text(family));
    let sql = format!("SELECT {} FROM {from} AS {alias}", key.join(", "));
    let mut query = parse_query(&sql)?;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.selection = statement.filter.clone();
    }
    let snapshot = context.newest()?;
    let types = context.types_of(parameters);
    let query_context = context.query_context(snapshot, &types);
    let (_, stream) = query::run_on(context, &query, parameters, query_context).await?;
    let mut stream = context.running.guard_stream(stream);
    let (mut newest, mut cells): (BTreeMap<Vec<u8>, Version>, u64) = (BTreeMap::new(), 0);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        cells += batch.num_rows() as u64;
        for row in 0..batch.num_rows() {
            let (path, key, values) = path_of(handle, &batch, row)?;
            let known = newest.entry(path).or_insert_with(|| (key.clone(), values.clone()));
            if key < known.0 {
                *known = (key, values);
            }
        }
    }
    let path_len = handle.relation.given_key().len();
    let limited = statement.filter.as_ref().is_some_and(|filter| limits_versions(handle, filter));
    let until_oldest = |(_, values): Version| {
        let path = values[..path_len].to_vec();
        match limited {
            true => Span { start: Bound::Included(values), end: Bound::Included(path) },
            // What this transaction has written gets a later time when it commits than it shows now.
            false => Span::prefix(path),
        }
    };
    Ok((newest.into_values().map(until_oldest).collect(), cells))
}

/// A version's encoded path, its encoded key and its key: newer versions of a path have lesser keys.
fn path_of(handle: &TableHandle, batch: &RecordBatch, row: usize) -> Result<(Vec<u8>, Vec<u8>, Vec<Value>)> {
    let columns = handle.table.key().zip(batch.columns());
    let values = columns.map(|(column, array)| value_at(array, row, column.ty)).collect::<Result<Vec<_>>>()?;
    let (_, key) = handle.name(&values)?;
    let path = handle.prefix(&values[..handle.relation.given_key().len()])?;
    Ok((path, key, values))
}
