//! FOR UPDATE and FOR SHARE of rows that a query finds. Both lock a row for one session alone.
//!
//! ```text
//! SELECT * FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
//! SELECT id FROM jobs WHERE state = 'new' ORDER BY id      keys ─▶ locked, until there are enough
//! SELECT * FROM jobs WHERE state = 'new' AND id IN (keys) ORDER BY id LIMIT 1           of the newest state
//! ```
//!
//! As in PostgreSQL rows that another session has changed meanwhile are checked again, and rows that OFFSET leaves out
//! are locked, too. Locks last as long as the transaction.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;
use futures::StreamExt;
use keyspan_cql::{ast, has_subquery, quoted};
use keyspan_model::array::{array_of, coerce, value_at};
use keyspan_model::{ColumnDef, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::{PlannedQuery, has_aggregate};
use keyspan_seam::BatchStream;

use crate::context::{ClientContext, ROWS_LOCKED_MAX};
use crate::expression::Evaluator;
use crate::given::relation;
use crate::locks::{HeldLocks, RowName};
use crate::merge;
use crate::names::{self, fold_case, names_of_factor};
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

impl Target {
    /// The name of what is locked for a row that is found. A partition that has static values only shows them in a row
    /// without clustering columns: then it is the partition.
    fn lockable(&self, key: &[Value]) -> Result<RowName> {
        match &self.handle.statics {
            Some(statics) if !is_whole(key) => statics.name(&key[..statics.key_len()]),
            _ => self.handle.name(key),
        }
    }

    /// A column of it in the query.
    fn column(&self, column: &ColumnDef) -> String {
        format!("{}.{}", quoted(&self.name), quoted(&column.name))
    }

    /// The keys of rows, and of partitions that have static values only.
    fn split<'a>(&self, keys: impl Iterator<Item = &'a Vec<Value>>) -> (Vec<Vec<Value>>, Vec<Vec<Value>>) {
        let (rows, rest): (Vec<Vec<Value>>, Vec<_>) = keys.cloned().partition(|key| is_whole(key));
        (rows, rest.iter().map(|key| self.handle.partition(key)).collect())
    }
}

/// Whether a key is that of a row.
fn is_whole(key: &[Value]) -> bool {
    !key.iter().any(Value::is_null)
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
        context.require_lock(&target.handle.table)?;
    }
    let (locked, held) = lock(context, query, &targets, parameters).await?;
    for (place, target) in targets.iter().enumerate() {
        let (rows, partitions) = target.split(locked.iter().map(|found| &found[place]));
        context.check_locked(&target.handle, &rows)?;
        if let Some(statics) = &target.handle.statics {
            context.check_locked(statics, &partitions)?;
        }
    }
    // Outside of a transaction the locks end with the statement.
    let _held = match &mut context.transaction {
        Some(transaction) => {
            transaction.keep(held);
            None
        }
        None => Some(held),
    };
    let tag = Tag::streamed("SELECT");
    if locked.is_empty() {
        return Ok(Outcome::with_rows(tag, Rows::ready(planned.schema.clone(), Vec::new())));
    }
    let before = context.given.len();
    let read = read(context, query, &targets, &locked, parameters).await;
    context.given.truncate(before);
    let rows = Rows::new(planned.schema.clone(), read?);
    Outcome::with_rows(tag, rows).read_all().await
}

/// A row that the query finds: the key of each target's row.
type Found = Vec<Vec<Value>>;

/// Locks the rows that the query finds, until there are enough.
async fn lock(
    context: &mut ClientContext,
    query: &ast::Query,
    targets: &[Target],
    parameters: &[Value],
) -> Result<(Vec<Found>, HeldLocks)> {
    let nonblock = query.locks.iter().find_map(|lock| lock.nonblock);
    let skips = matches!(nonblock, Some(ast::NonBlock::SkipLocked));
    let most = most(context, query, parameters)?;
    let keys = keys_query(targets, query, most.filter(|_| !skips))?;
    let mut stream = stream_newest(context, &keys, parameters).await?;
    let mut held = HeldLocks::none(context.database.locks().clone());
    let (mut locked, mut waiting) = (Vec::new(), Vec::new());
    'found: while let Some(batch) = stream.next().await {
        for found in found(targets, &batch?)? {
            if skips && most.is_some_and(|most| locked.len() >= most) {
                break 'found;
            }
            let names = targets.iter().zip(&found).map(|(target, key)| target.lockable(key));
            let names = names.collect::<Result<Vec<RowName>>>()?;
            match nonblock {
                None => waiting.extend(names),
                Some(_) => match context.lock_free(names) {
                    Some(more) => held.absorb(more),
                    None if skips => continue,
                    None => {
                        let table = &targets[0].handle.table.name;
                        let message = format!("could not obtain lock on row in relation \"{table}\"");
                        return Err(Error::new(ErrorKind::LockTimeout, message));
                    }
                },
            }
            locked.push(found);
            if locked.len() > ROWS_LOCKED_MAX {
                let message = format!("FOR UPDATE of more than {ROWS_LOCKED_MAX} rows");
                return Err(Error::new(ErrorKind::LimitExceeded, message).with_hint("Lock them in parts, with LIMIT."));
            }
        }
    }
    drop(stream);
    held.absorb(context.lock(waiting).await?);
    Ok((locked, held))
}

/// The rows of a batch whose last columns are the targets' keys.
fn found(targets: &[Target], batch: &RecordBatch) -> Result<Vec<Found>> {
    let types: Vec<ColumnType> =
        targets.iter().flat_map(|target| target.handle.table.key().map(|column| column.ty)).collect();
    let keys = &batch.columns()[batch.num_columns() - types.len()..];
    let columns = keys.iter().zip(types).map(|(array, ty)| Ok((coerce(array, ty)?, ty)));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let row = |row: usize| {
        let mut columns = columns.iter();
        let keys = targets.iter().map(|target| {
            let key = columns.by_ref().take(target.handle.table.key().count());
            key.map(|(array, ty)| value_at(array, row, *ty)).collect()
        });
        keys.collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// A query's rows, of the newest state.
async fn stream_newest(context: &mut ClientContext, query: &ast::Query, parameters: &[Value]) -> Result<BatchStream> {
    let snapshot = context.newest()?;
    let types = context.types_of(parameters);
    let query_context = context.query_context(snapshot, &types);
    let (_, stream) = query::run_on(context, query, parameters, query_context).await?;
    Ok(context.running.guard_stream(stream))
}

/// The rows of the query whose keys are locked, of the newest state.
async fn read(
    context: &mut ClientContext,
    query: &ast::Query,
    targets: &[Target],
    locked: &[Found],
    parameters: &[Value],
) -> Result<BatchStream> {
    let mut only = ast::Query { locks: Vec::new(), ..query.clone() };
    for (place, target) in targets.iter().enumerate() {
        let (rows, partitions) = target.split(locked.iter().map(|found| &found[place]));
        let name = format!("{LOCKED}{place}");
        let mut text = among(context, target, &name, &rows)?;
        if !partitions.is_empty() {
            let clustering = target.handle.table.key().nth(target.handle.relation.partition_len);
            let bare = clustering.map_or("true".to_owned(), |column| format!("{} IS NULL", target.column(column)));
            let of_partition = among(context, target, &format!("{name} partitions"), &partitions)?;
            text = format!("({text} OR ({of_partition} AND {bare}))");
        }
        let is_locked = keyspan_cql::parse_expression(&text)?;
        if let ast::SetExpr::Select(select) = only.body.as_mut() {
            select.selection = Some(match select.selection.take() {
                Some(filter) => merge::both(is_locked, ast::Expr::Nested(Box::new(filter))),
                None => is_locked,
            });
        }
    }
    stream_newest(context, &only, parameters).await
}

/// The condition that a row of a target has one of these keys, or begins with it; they are given under this name.
fn among(context: &mut ClientContext, target: &Target, name: &str, keys: &[Vec<Value>]) -> Result<String> {
    let length = keys.first().map_or(target.handle.key_len(), Vec::len);
    let columns: Vec<&ColumnDef> = target.handle.table.key().take(length).collect();
    let fields = columns.iter().enumerate().map(|(at, column)| column.ty.field(&at.to_string(), true)).collect();
    let array = |at: usize| {
        let values: Vec<Value> = keys.iter().map(|key| key[at].clone()).collect();
        Ok((at.to_string(), array_of(columns[at].ty, &values)?))
    };
    let arrays = (0..length).map(array).collect::<Result<Vec<_>>>()?;
    context.given.push(relation(name, fields, vec![RecordBatch::try_from_iter(arrays)?])?);
    let own: Vec<String> = columns.iter().map(|column| target.column(column)).collect();
    let given: Vec<String> = (0..length).map(|at| format!("\"{at}\"")).collect();
    Ok(format!("({}) IN (SELECT {} FROM \"{name}\")", own.join(", "), given.join(", ")))
}

/// `SELECT keys FROM … WHERE … ORDER BY … LIMIT most`. Where ORDER BY means output columns by names or places, these
/// stand before the keys.
fn keys_query(targets: &[Target], query: &ast::Query, most: Option<usize>) -> Result<ast::Query> {
    let mut keys = ast::Query { locks: Vec::new(), ..query.clone() };
    let columns = targets.iter().flat_map(|target| target.handle.table.key().map(|column| target.column(column)));
    let limit = most.map_or_else(String::new, |most| format!(" LIMIT {most}"));
    let mut list = names::parse_query(&format!("SELECT {}{limit}", columns.collect::<Vec<_>>().join(", ")))?;
    keys.limit_clause = list.limit_clause.take();
    keys.fetch = None;
    if let (ast::SetExpr::Select(select), ast::SetExpr::Select(list)) = (keys.body.as_mut(), list.body.as_mut()) {
        if !keys.order_by.as_ref().is_some_and(|order| means_output(order, &select.projection)) {
            select.projection.clear();
        }
        select.projection.append(&mut list.projection);
    }
    Ok(keys)
}

/// Whether ORDER BY has a place, or a name that the query gives to an output column.
fn means_output(order: &ast::OrderBy, shown: &[ast::SelectItem]) -> bool {
    let ast::OrderByKind::Expressions(all) = &order.kind else { return false };
    let is_name = |name: &ast::Ident, item: &ast::SelectItem| match item {
        ast::SelectItem::ExprWithAlias { alias, .. } => fold_case(alias) == fold_case(name),
        _ => false,
    };
    all.iter().any(|by| match &by.expr {
        ast::Expr::Value(_) => true,
        ast::Expr::Identifier(name) => shown.iter().any(|item| is_name(name, item)),
        _ => false,
    })
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
    let select = select_of_rows(query)?;
    let of = query.locks.iter().filter_map(|lock| lock.of.as_ref());
    let named: Vec<String> =
        of.filter_map(|name| name.0.last().and_then(|part| part.as_ident()).map(fold_case)).collect();
    let is_target = |name: &String| named.is_empty() || named.contains(name);
    let mut targets = Vec::new();
    for (factor, nullable) in select.from.iter().flat_map(factors) {
        let names = names_of_factor(factor);
        if !named.is_empty() && !names.iter().any(is_target) {
            continue;
        }
        if let Some(what) = without_rows(context, query, factor) {
            if named.is_empty() {
                continue;
            }
            return Err(Error::not_supported(format!("FOR UPDATE cannot be applied to {what}")));
        }
        let (ast::TableFactor::Table { name: table, .. }, Some(name)) = (factor, names.into_iter().next()) else {
            let error = Error::not_supported("FOR UPDATE of a subquery in FROM is not supported");
            return Err(error.with_hint("Name the tables whose rows are to be locked: FOR UPDATE OF t."));
        };
        if nullable {
            let message = "FOR UPDATE cannot be applied to the nullable side of an outer join";
            return Err(Error::not_supported(message).with_hint("Name the other tables: FOR UPDATE OF t."));
        }
        let Some(table) = names::object_name(table) else { continue };
        let table = names::table(&context.catalog(), &context.settings.search_path(), &table)?;
        targets.push(Target { handle: context.handle(table), name });
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

/// The query's SELECT.
///
/// # Errors
/// 0A000 where its rows are not those of tables, or where more than LIMIT tells how many there are.
fn select_of_rows(query: &ast::Query) -> Result<&ast::Select> {
    let refused = |what: &str| Err(Error::not_supported(format!("FOR UPDATE is not allowed with {what}")));
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return refused("UNION/INTERSECT/EXCEPT") };
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
    match () {
        () if grouped => refused("GROUP BY clause"),
        () if select.distinct.is_some() => refused("DISTINCT clause"),
        () if select.having.is_some() => refused("HAVING clause"),
        () if items().any(|expr| !has_subquery(expr) && has_aggregate(expr)) => refused("aggregate functions"),
        () if items().any(windows) => refused("window functions"),
        () if query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties) => refused("WITH TIES"),
        () => Ok(select),
    }
}

/// What stands in FROM, and whether an outer join may give rows without it.
fn factors(from: &ast::TableWithJoins) -> impl Iterator<Item = (&ast::TableFactor, bool)> {
    use ast::JoinOperator as J;
    let left = |join: &ast::Join| matches!(join.join_operator, J::Right(_) | J::RightOuter(_) | J::FullOuter(_));
    let right = |join: &ast::Join| matches!(join.join_operator, J::Left(_) | J::LeftOuter(_) | J::FullOuter(_));
    let first = std::iter::once((&from.relation, from.joins.iter().any(left)));
    first.chain(
        from.joins
            .iter()
            .enumerate()
            .map(move |(at, join)| (&join.relation, right(join) || from.joins[at + 1..].iter().any(left))),
    )
}

/// What has no rows to lock, in words.
fn without_rows(context: &ClientContext, query: &ast::Query, factor: &ast::TableFactor) -> Option<&'static str> {
    match factor {
        ast::TableFactor::Table { args: Some(_), .. }
        | ast::TableFactor::Function { .. }
        | ast::TableFactor::UNNEST { .. }
        | ast::TableFactor::TableFunction { .. } => Some("a function"),
        ast::TableFactor::Derived { subquery, .. } if matches!(*subquery.body, ast::SetExpr::Values(_)) => {
            Some("VALUES")
        }
        ast::TableFactor::Table { name, .. } => {
            let name = names::object_name(name).filter(|name| name.keyspace.is_none())?.name;
            let mut parts = query.with.iter().flat_map(|with| &with.cte_tables);
            let is_part = parts.any(|part| fold_case(&part.alias.name) == name)
                || context.given.iter().any(|given| given.name == name);
            is_part.then_some("a WITH query")
        }
        _ => None,
    }
}
