//! `DELETE FROM cells('table', 'family') WHERE …`: cells by ranges of qualifiers, and versions.
//!
//! What the condition says decides how:
//!
//! | condition on | deleted by |
//! |---|---|
//! | row key and qualifier alone | a span for each cell, or one over all: every version |
//! | also `written_at <= …` | the same, from that time on to the oldest version |
//! | anything else: `written_at = …`, `value`, `expires_at` | a row tombstone for each version that is found |

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use futures::StreamExt;
use keyspan_cql::{Delete, ast, quoted};
use keyspan_model::array::value_at;
use keyspan_model::{Error, ErrorKind, Mutation, RelationKind, Result, RowDelete, Span, SpanDelete, TableDef, Value};
use keyspan_query::{EXPIRES_AT, KeyMatch, cells_table};
use keyspan_seam::Snapshot;

use super::change::above_what_was_read;
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

/// The cells of a family as SQL names them.
pub(crate) fn source(table: &TableDef, family: &str) -> String {
    let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
    format!("cells({}, {}, {})", text(&table.keyspace), text(&table.name), text(family))
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
    let filter = statement.filter.as_ref();
    let stamp = using::timing(context, &statement.using, table, parameters)?.stamp;
    let relation = handle.relation.id;
    let about = VersionColumns::of(&handle).zip(filter);
    let of_versions = about.as_ref().is_some_and(|(columns, filter)| columns.are_in(filter));
    let (mutations, cells) = if about.is_some_and(|(columns, filter)| columns.may_leave_older(filter)) {
        check_committed(context, &handle)?;
        let (snapshot, found) = found(context, &handle, (table, family), statement, parameters).await?;
        let delete = |(_, key)| Mutation::DeleteRow(RowDelete { relation, key, stamp });
        let mutations: Vec<Mutation> = found.into_iter().map(delete).collect();
        let cells = mutations.len() as u64;
        (above_what_was_read(&snapshot, &handle, mutations).await?, cells)
    } else {
        let (spans, cells) = match known_spans(context, &handle, filter, parameters)? {
            Some(spans) => {
                let snapshot = context.newest()?;
                let cells = existing::count(context, &snapshot, relation, spans.clone()).await?;
                (spans, cells)
            }
            None => {
                let (_, found) = found(context, &handle, (table, family), statement, parameters).await?;
                let cells = found.len() as u64;
                (to_the_oldest(&handle, found, of_versions)?, cells)
            }
        };
        let delete = |span| Mutation::DeleteSpan(SpanDelete { relation, span, stamp });
        (spans.into_iter().map(delete).collect(), cells)
    };
    let locks = HeldLocks::none(context.database.locks().clone());
    context.write_checked(&handle, mutations, Vec::new(), locks).await?;
    Ok(Outcome::done(Tag::counted("DELETE", cells)))
}

/// Fails where versions are chosen by when they were written, and this transaction has written some: what it has written
/// gets its time when it commits.
fn check_committed(context: &ClientContext, handle: &TableHandle) -> Result<()> {
    if !context.transaction.as_ref().is_some_and(|transaction| transaction.has_written(handle.relation.id)) {
        return Ok(());
    }
    let message = "a transaction that has written to a family cannot choose versions of its cells to delete";
    Err(Error::not_supported(message).with_hint("COMMIT first: versions get their time when they are committed."))
}

/// The columns of a family's `cells()` that tell versions of a cell apart.
struct VersionColumns<'a> {
    written_at: &'a str,
    value: &'a str,
}

impl<'a> VersionColumns<'a> {
    /// Of a collection there are none: its elements have one version.
    fn of(handle: &'a TableHandle) -> Option<VersionColumns<'a>> {
        let [.., written_at, value] = handle.table.columns.as_slice() else { return None };
        let is_family = handle.relation.kind == RelationKind::Family;
        is_family.then_some(VersionColumns { written_at: &written_at.name, value: &value.name })
    }

    /// Whether a condition is about versions.
    fn are_in(&self, filter: &ast::Expr) -> bool {
        columns_of(filter).iter().any(|name| [self.written_at, self.value, EXPIRES_AT].contains(&name.as_str()))
    }

    /// Whether a condition may choose some versions of a cell and leave older ones.
    fn may_leave_older(&self, filter: &ast::Expr) -> bool {
        match filter {
            ast::Expr::Nested(inner) => self.may_leave_older(inner),
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
                self.may_leave_older(left) || self.may_leave_older(right)
            }
            part => self.are_in(part) && !is_until(part, self.written_at),
        }
    }
}

/// Whether a condition is `written_at <= …` or `written_at < …`.
fn is_until(condition: &ast::Expr, written_at: &str) -> bool {
    use ast::BinaryOperator::{Gt, GtEq, Lt, LtEq};
    let is_written = |side: &ast::Expr| match side {
        ast::Expr::Identifier(name) => fold_case(name) == written_at,
        ast::Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| fold_case(name) == written_at),
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

/// The versions that a query finds, each with its encoded key, and the snapshot on which it found them.
async fn found(
    context: &mut ClientContext,
    handle: &TableHandle,
    (table, family): (&TableDef, &str),
    statement: &Delete,
    parameters: &[Value],
) -> Result<(Arc<dyn Snapshot>, Vec<Version>)> {
    let alias = quoted(statement.alias.as_deref().unwrap_or("cells"));
    let key = handle.table.key().map(|column| format!("{alias}.{}", quoted(&column.name))).collect::<Vec<_>>();
    let sql = format!("SELECT {} FROM {} AS {alias}", key.join(", "), source(table, family));
    let mut query = parse_query(&sql)?;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.selection = statement.filter.clone();
    }
    let snapshot = context.newest()?;
    let types = context.types_of(parameters);
    let query_context = context.query_context(snapshot.clone(), &types);
    let (_, stream) = query::run_on(context, &query, parameters, query_context).await?;
    let mut stream = context.running.guard_stream(stream);
    let mut versions = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let columns = handle.table.key().zip(batch.columns());
            let values = columns.map(|(column, array)| value_at(array, row, column.ty)).collect::<Result<Vec<_>>>()?;
            let (_, key) = handle.name(&values)?;
            versions.push((key, values));
        }
    }
    Ok((snapshot, versions))
}

/// For each cell of which versions were found a span: from the newest that was found to the oldest, if the condition said
/// `until` when, or else all.
fn to_the_oldest(handle: &TableHandle, found: Vec<Version>, until: bool) -> Result<Vec<Span>> {
    let path_len = handle.relation.given_key().len();
    // Newer versions of a cell have lesser keys.
    let mut newest: BTreeMap<Vec<u8>, Version> = BTreeMap::new();
    for (key, values) in found {
        let path = handle.prefix(&values[..path_len])?;
        let known = newest.entry(path).or_insert_with(|| (key.clone(), values.clone()));
        if key < known.0 {
            *known = (key, values);
        }
    }
    let span = |(_, values): Version| {
        let path = values[..path_len].to_vec();
        match until {
            true => Span { start: Bound::Included(values), end: Bound::Included(path) },
            // What this transaction has written gets a later time when it commits than it shows now.
            false => Span::prefix(path),
        }
    };
    Ok(newest.into_values().map(span).collect())
}
