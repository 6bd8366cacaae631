//! FOR UPDATE and FOR SHARE of rows that a query finds. Both lock a row for one session alone.
//!
//! ```text
//! SELECT * FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
//! SELECT id FROM jobs WHERE state = 'new' ORDER BY id      keys ─▶ locked, until there are enough
//! SELECT * FROM jobs WHERE state = 'new' AND id IN (keys) ORDER BY id LIMIT 1           of the newest state
//! ```
//!
//! As in PostgreSQL rows that another session has changed meanwhile are judged anew, and rows that OFFSET leaves out are
//! locked, too. Locks last as long as the transaction.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;
use futures::StreamExt;
use keyspan_cql::{ast, has_subquery, quoted};
use keyspan_model::array::{array_of, coerce, value_at};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Right, Value};
use keyspan_query::{PlannedQuery, has_aggregate};
use keyspan_seam::BatchStream;

use crate::context::{ClientContext, ROWS_LOCKED_MAX};
use crate::expression::Evaluator;
use crate::given::relation;
use crate::locks::{HeldLocks, RowName};
use crate::merge;
use crate::names::{self, names_in_from};
use crate::outcome::{Outcome, Rows, Tag};
use crate::query;
use crate::row::TableHandle;

/// The names of the keys that are locked; no table has one of them.
const LOCKED: &str = "\u{1}locked";

/// A table whose rows are locked.
struct Target {
    handle: TableHandle,
    /// Its name in FROM.
    name: String,
}

/// The query without its locks, as it is planned.
///
/// # Errors
/// 0A000 for queries whose rows are no rows of tables, 42P01 for `OF` of what is not in FROM.
pub(crate) fn without_locks(context: &mut ClientContext, query: &ast::Query) -> Result<ast::Query> {
    targets(context, query)?;
    Ok(ast::Query { locks: Vec::new(), ..query.clone() })
}

/// Runs it: locks the rows that it finds, and reads them.
pub(crate) async fn run(
    context: &mut ClientContext,
    planned: &PlannedQuery,
    query: &ast::Query,
    parameters: &[Value],
) -> Result<Outcome> {
    let targets = targets(context, query)?;
    for target in &targets {
        context.require(&target.handle.table, Right::Update, &[])?;
    }
    let nonblock = query.locks.iter().find_map(|lock| lock.nonblock);
    let skips = matches!(nonblock, Some(ast::NonBlock::SkipLocked));
    let most = most(context, query, parameters)?;
    let keys = keys_query(&targets, query, most.filter(|_| !skips))?;
    let snapshot = context.newest()?;
    let types = context.types_of(parameters);
    let query_context = context.query_context(snapshot, &types);
    let (_, stream) = query::run_on(context, &keys, parameters, query_context).await?;
    let mut stream = context.running.guard_stream(stream);
    let mut held = HeldLocks::none(context.database.locks().clone());
    let mut locked: Vec<Vec<Vec<Value>>> = vec![Vec::new(); targets.len()];
    let (mut rows, mut waiting) = (0, Vec::new());
    'found: while let Some(batch) = stream.next().await {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            if skips && most.is_some_and(|most| rows >= most) {
                break 'found;
            }
            let mut columns = batch.columns().iter();
            let mut keys = Vec::with_capacity(targets.len());
            for target in &targets {
                let key = target.handle.table.key().zip(columns.by_ref());
                let key = key.map(|(column, array)| value_at(&coerce(array, column.ty)?, row, column.ty));
                keys.push(key.collect::<Result<Vec<_>>>()?);
            }
            let names = targets.iter().zip(&keys).map(|(target, key)| target.handle.name(key));
            let names = names.collect::<Result<Vec<RowName>>>()?;
            match nonblock {
                None => waiting.extend(names),
                Some(_) => match context.lock_free(names) {
                    Some(more) => held.absorb(more),
                    None if skips => continue,
                    None => {
                        let message =
                            format!("could not obtain lock on row in relation \"{}\"", targets[0].handle.table.name);
                        return Err(Error::new(ErrorKind::LockTimeout, message));
                    }
                },
            }
            rows += 1;
            if rows > ROWS_LOCKED_MAX {
                let message = format!("FOR UPDATE of more than {ROWS_LOCKED_MAX} rows");
                return Err(Error::new(ErrorKind::LimitExceeded, message).with_hint("Lock them in parts, with LIMIT."));
            }
            locked.iter_mut().zip(keys).for_each(|(all, key)| all.push(key));
        }
    }
    drop(stream);
    held.absorb(context.lock(waiting).await?);
    // Outside of a transaction the locks end with the statement.
    if let Some(transaction) = &mut context.transaction {
        transaction.keep(std::mem::replace(&mut held, HeldLocks::none(context.database.locks().clone())));
    }
    let tag = Tag::streamed("SELECT");
    if rows == 0 {
        return Ok(Outcome::with_rows(tag, Rows::ready(planned.schema.clone(), Vec::new())));
    }
    let before = context.given.len();
    let read = read(context, query, &targets, locked, parameters).await;
    context.given.truncate(before);
    let rows = Rows::new(planned.schema.clone(), read?);
    Outcome::with_rows(tag, rows).read_all().await
}

/// The rows of the query whose keys are locked, of the newest state.
async fn read(
    context: &mut ClientContext,
    query: &ast::Query,
    targets: &[Target],
    locked: Vec<Vec<Vec<Value>>>,
    parameters: &[Value],
) -> Result<BatchStream> {
    let mut only = ast::Query { locks: Vec::new(), ..query.clone() };
    for (place, (target, keys)) in targets.iter().zip(locked).enumerate() {
        let columns = target.handle.table.key().collect::<Vec<_>>();
        let fields = columns.iter().enumerate().map(|(at, column)| column.ty.field(&at.to_string(), true)).collect();
        let array = |at: usize| {
            let values: Vec<Value> = keys.iter().map(|key| key[at].clone()).collect();
            array_of(columns[at].ty, &values)
        };
        let arrays = (0..columns.len()).map(array).collect::<Result<Vec<_>>>()?;
        let batch =
            RecordBatch::try_from_iter(arrays.into_iter().enumerate().map(|(at, array)| (at.to_string(), array)))?;
        let name = format!("{LOCKED}{place}");
        context.given.push(relation(&name, fields, vec![batch])?);
        let own = columns.iter().map(|column| format!("{}.{}", quoted(&target.name), quoted(&column.name)));
        let given = (0..columns.len()).map(|at| format!("\"{at}\""));
        let list = |parts: Vec<String>| parts.join(", ");
        let text = format!("({}) IN (SELECT {} FROM \"{name}\")", list(own.collect()), list(given.collect()));
        let is_locked = keyspan_cql::parse_expression(&text)?;
        if let ast::SetExpr::Select(select) = only.body.as_mut() {
            select.selection = Some(match select.selection.take() {
                Some(filter) => merge::both(is_locked, ast::Expr::Nested(Box::new(filter))),
                None => is_locked,
            });
        }
    }
    let snapshot = context.newest()?;
    let types = context.types_of(parameters);
    let query_context = context.query_context(snapshot, &types);
    let (_, stream) = query::run_on(context, &only, parameters, query_context).await?;
    Ok(context.running.guard_stream(stream))
}

/// `SELECT keys FROM … WHERE … ORDER BY … LIMIT most`.
fn keys_query(targets: &[Target], query: &ast::Query, most: Option<usize>) -> Result<ast::Query> {
    let mut keys = ast::Query { locks: Vec::new(), ..query.clone() };
    let columns = targets.iter().flat_map(|target| {
        target.handle.table.key().map(|column| format!("{}.{}", quoted(&target.name), quoted(&column.name)))
    });
    let limit = most.map_or_else(String::new, |most| format!(" LIMIT {most}"));
    let mut list = names::parse_query(&format!("SELECT {}{limit}", columns.collect::<Vec<_>>().join(", ")))?;
    let (shown, order) = match (query.body.as_ref(), &query.order_by) {
        (ast::SetExpr::Select(select), Some(order)) => (select.projection.clone(), Some(order.clone())),
        _ => (Vec::new(), None),
    };
    keys.order_by = order.map(|order| by_expressions(order, &shown));
    keys.limit_clause = list.limit_clause.take();
    keys.fetch = None;
    if let (ast::SetExpr::Select(select), ast::SetExpr::Select(list)) = (keys.body.as_mut(), list.body.as_mut()) {
        select.projection = std::mem::take(&mut list.projection);
    }
    Ok(keys)
}

/// ORDER BY without the places and names of output columns, which another list has not.
fn by_expressions(mut order: ast::OrderBy, shown: &[ast::SelectItem]) -> ast::OrderBy {
    let expression = |item: &ast::SelectItem| match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let meant = |by: &ast::Expr| match by {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(place, _) => {
                let place = place.parse::<usize>().ok()?.checked_sub(1)?;
                shown.get(place).and_then(expression)
            }
            _ => None,
        },
        ast::Expr::Identifier(name) => shown.iter().find_map(|item| match item {
            ast::SelectItem::ExprWithAlias { expr, alias } if alias == name => Some(expr.clone()),
            _ => None,
        }),
        _ => None,
    };
    if let ast::OrderByKind::Expressions(all) = &mut order.kind {
        for by in all {
            if let Some(expr) = meant(&by.expr) {
                by.expr = expr;
            }
        }
    }
    order
}

/// How many rows are locked at most: LIMIT and OFFSET together.
fn most(context: &mut ClientContext, query: &ast::Query, parameters: &[Value]) -> Result<Option<usize>> {
    let evaluator = Evaluator::new(context);
    let mut number = |expr: Option<&ast::Expr>| -> Result<Option<usize>> {
        let Some(expr) = expr else { return Ok(None) };
        match evaluator.constant(context, expr, ColumnType::BigInt, parameters)? {
            Value::BigInt(rows) => Ok(usize::try_from(rows).ok()),
            _ => Ok(None),
        }
    };
    let (limit, offset) = match &query.limit_clause {
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
            (number(limit.as_ref())?, number(offset.as_ref().map(|offset| &offset.value))?)
        }
        _ => (None, None),
    };
    let fetch = match &query.fetch {
        Some(fetch) => number(fetch.quantity.as_ref())?.or(Some(1)),
        None => None,
    };
    Ok(limit.or(fetch).map(|limit| limit.saturating_add(offset.unwrap_or(0))))
}

/// The tables whose rows are locked: those that OF names, or all.
fn targets(context: &mut ClientContext, query: &ast::Query) -> Result<Vec<Target>> {
    let refused = |what: &str| Error::not_supported(format!("FOR UPDATE is not allowed with {what}"));
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return Err(refused("UNION/INTERSECT/EXCEPT")) };
    let grouped = match &select.group_by {
        ast::GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    let items = || {
        select.projection.iter().filter_map(|item| match item {
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        })
    };
    let windows = |expr: &ast::Expr| {
        let over = |part: &ast::Expr| match part {
            ast::Expr::Function(function) if function.over.is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        ast::visit_expressions(expr, over).is_break()
    };
    match select {
        _ if grouped => return Err(refused("GROUP BY clause")),
        select if select.distinct.is_some() => return Err(refused("DISTINCT clause")),
        select if select.having.is_some() => return Err(refused("HAVING clause")),
        _ if items().any(|expr| !has_subquery(expr) && has_aggregate(expr)) => {
            return Err(refused("aggregate functions"));
        }
        _ if items().any(windows) => return Err(refused("window functions")),
        _ => {}
    }
    let named: Vec<String> = query
        .locks
        .iter()
        .filter_map(|lock| lock.of.as_ref())
        .filter_map(|name| name.0.last().and_then(|part| part.as_ident()).map(names::fold_case))
        .collect();
    let mut targets = Vec::new();
    for from in &select.from {
        let nullable = |kind: &ast::JoinOperator| {
            use ast::JoinOperator as J;
            match kind {
                J::Left(_) | J::LeftOuter(_) => (false, true),
                J::Right(_) | J::RightOuter(_) => (true, false),
                J::FullOuter(_) => (true, true),
                _ => (false, false),
            }
        };
        let first = from.joins.iter().any(|join| nullable(&join.join_operator).0);
        let factors =
            std::iter::once((&from.relation, first)).chain(from.joins.iter().enumerate().map(|(at, join)| {
                let later = from.joins[at + 1..].iter().any(|join| nullable(&join.join_operator).0);
                (&join.relation, nullable(&join.join_operator).1 || later)
            }));
        for (factor, nullable) in factors {
            let alone = ast::TableWithJoins { relation: factor.clone(), joins: Vec::new() };
            let Some(name) = names_in_from(&alone).into_iter().next() else { continue };
            if !named.is_empty() && !named.contains(&name) {
                continue;
            }
            let ast::TableFactor::Table { name: table, args: None, .. } = factor else {
                let error = Error::not_supported("FOR UPDATE of what is no table is not supported");
                return Err(error.with_hint("Name the tables whose rows are to be locked: FOR UPDATE OF t."));
            };
            if nullable {
                let message = "FOR UPDATE cannot be applied to the nullable side of an outer join";
                return Err(Error::not_supported(message).with_hint("Name the other tables: FOR UPDATE OF t."));
            }
            let Some(table) = names::object_name(table) else { continue };
            let table = names::table(&context.catalog(), &context.settings.search_path(), &table)?;
            if !table.has_key() {
                let error = Error::not_supported("FOR UPDATE of a table without a key is not supported");
                return Err(error.with_hint("Give it a PRIMARY KEY."));
            }
            targets.push(Target { handle: context.handle(table), name });
        }
    }
    if let Some(missing) = named.iter().find(|name| targets.iter().all(|target| target.name != **name)) {
        let message = format!("relation \"{missing}\" in FOR UPDATE clause not found in FROM clause");
        return Err(Error::new(ErrorKind::UndefinedTable, message));
    }
    match targets.is_empty() {
        true => Err(Error::not_supported("FOR UPDATE without a table is not supported")),
        false => Ok(targets),
    }
}
