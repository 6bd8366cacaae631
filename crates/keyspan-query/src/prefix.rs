//! The first or last rows of each key prefix: by skipping from prefix to prefix, not by reading all.
//!
//! Users ask for the newest row of each series in many ways, which all come down to three plans over a scan:
//!
//! ```text
//! DISTINCT ON (host) … ORDER BY host, ts DESC            Aggregate by host: first_value(… ORDER BY ts DESC) …
//! last_value(x ORDER BY ts), max(ts) … GROUP BY host     the same
//! row_number() OVER (PARTITION BY host ORDER BY ts) <= n Filter over Window: both stay, over fewer rows
//! PER PARTITION LIMIT n                                  the same
//! ```
//!
//! Rule: only where the spans answer every filter of the scan exactly; else rows would be counted that a filter drops. And
//! only where the store accepts the spans and the number of rows.
//! It runs after DataFusion's rules, so that nothing is pushed into a scan that has become narrower.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment, Sort, WindowFunction};
use datafusion::logical_expr::logical_plan::{Aggregate, Filter, Projection, TableScan};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use keyspan_model::{ColumnRole, KeyColumn, Order};
use keyspan_seam::Snapshot;

use crate::spans;
use crate::statics::may_see_rowless;
use crate::table::{KeyspanTable, PrefixLimit};
use crate::types::sortable_form;

/// Most rows of each prefix for which skipping is tried.
const MOST_ROWS: usize = 1000;

/// The plan with scans narrowed to the first rows of each prefix, where that is all they are read for.
pub fn narrowed(plan: LogicalPlan, snapshot: &dyn Snapshot) -> Result<LogicalPlan> {
    let narrow = |node: LogicalPlan| {
        let narrowed = match &node {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, snapshot)?,
            LogicalPlan::Filter(filter) => of_filter(filter, snapshot)?,
            _ => None,
        };
        Ok(narrowed.map_or_else(|| Transformed::no(node), Transformed::yes))
    };
    plan.transform_down_with_subqueries(narrow).data()
}

/// A scan of a table of ours whose filters its spans answer, and the nodes above that name its columns, the upper ones
/// first.
struct Scanned {
    scan: TableScan,
    table: Arc<KeyspanTable>,
    names: Vec<LogicalPlan>,
}

impl Scanned {
    fn of(plan: &LogicalPlan) -> Option<Scanned> {
        let is_column = |expr: &Expr| matches!(expr.clone().unalias(), Expr::Column(_));
        let input = match plan {
            LogicalPlan::Projection(projection) if projection.expr.iter().all(is_column) => Some(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => Some(&alias.input),
            _ => None,
        };
        if let Some(input) = input {
            let mut scanned = Scanned::of(input)?;
            scanned.names.insert(0, plan.clone());
            return Some(scanned);
        }
        let LogicalPlan::TableScan(scan) = plan else { return None };
        let table = Arc::new(KeyspanTable::of_scan(scan)?);
        let filters: Vec<&Expr> = scan.filters.iter().collect();
        let exact = spans::push(&filters, table.relation()).exact.into_iter().all(|exact| exact);
        let whole = exact && scan.fetch.is_none() && !table.is_limited();
        whole.then(|| Scanned { scan: scan.clone(), table, names: Vec::new() })
    }

    fn key(&self) -> &[KeyColumn] {
        &self.table.relation().key
    }

    /// How many columns the prefix has that these expressions are, in whatever order.
    fn prefix(&self, expressions: &[Expr]) -> Option<usize> {
        let places = expressions.iter().map(|expr| self.key_place(expr)).collect::<Option<Vec<_>>>()?;
        let columns = places.len();
        let whole = (0..columns).all(|place| places.contains(&place));
        (whole && columns > 0 && columns < self.key().len()).then_some(columns)
    }

    /// The key column that sorts as this expression does: a column, or the form in which it sorts.
    fn key_place(&self, expr: &Expr) -> Option<usize> {
        let (column, form) = match expr {
            Expr::Column(column) => (column, None),
            Expr::ScalarFunction(call) => match call.args.as_slice() {
                [Expr::Column(column)] => (column, Some(call.name())),
                _ => return None,
            },
            _ => return None,
        };
        let name = self.name_in_table(column)?;
        let place = self.key().iter().position(|own| own.name == name)?;
        let ty = self.key()[place].ty;
        let sorts = match form {
            None => ty.arrow_order_is_key_order(),
            Some(form) => sortable_form(ty) == Some(form),
        };
        sorts.then_some(place)
    }

    /// Whether these expressions are the whole partition key and static columns.
    fn are_of_partition(&self, expressions: &[Expr]) -> bool {
        let table = self.table.definition();
        let role = |expr: &Expr| match expr {
            Expr::Column(column) => Some(table.column(&self.name_in_table(column)?)?.role),
            _ => None,
        };
        let roles: Option<Vec<ColumnRole>> = expressions.iter().map(role).collect();
        let Some(roles) = roles else { return false };
        let count = |wanted| roles.iter().filter(|role| **role == wanted).count();
        let (partition, statics) = (count(ColumnRole::Partition), count(ColumnRole::Static));
        partition == table.partition_len() && statics > 0 && partition + statics == roles.len()
    }

    fn name_in_table(&self, column: &Column) -> Option<String> {
        let mut column = column.clone();
        for node in &self.names {
            column = match node {
                LogicalPlan::Projection(projection) => {
                    let place = projection.schema.maybe_index_of_column(&column)?;
                    let Expr::Column(own) = projection.expr[place].clone().unalias() else { return None };
                    own
                }
                _ => Column::from_name(column.name),
            };
        }
        Some(column.name)
    }

    /// The direction in which rows of one prefix of so many columns come in this order.
    fn direction(&self, prefix: usize, order: &[Sort]) -> Option<Order> {
        let (mut next, mut direction) = (prefix, None);
        for sort in order {
            let place = self.key_place(&sort.expr)?;
            if place < next {
                continue;
            }
            if place != next {
                return None;
            }
            let own = if sort.asc != self.key()[place].descending { Order::Forward } else { Order::Reverse };
            if *direction.get_or_insert(own) != own {
                return None;
            }
            next += 1;
        }
        direction
    }

    /// The scan of so many rows of each prefix; `None` if the store does not count them.
    fn limited(&self, limit: PrefixLimit, snapshot: &dyn Snapshot) -> Result<Option<LogicalPlan>> {
        let table = self.table.limited(limit);
        let filters: Vec<&Expr> = self.scan.filters.iter().collect();
        // A partition without rows is a row of its own prefix only where that is the whole partition key.
        let definition = table.definition();
        if limit.columns < definition.partition_len() && may_see_rowless(definition, filters.iter().copied()) {
            return Ok(None);
        }
        let accepted = snapshot.accept(&table.limited_scan(&spans::push(&filters, table.relation())));
        if !(accepted.spans && accepted.per_prefix) {
            return Ok(None);
        }
        let source = provider_as_source(Arc::new(table));
        let mut plan = LogicalPlan::TableScan(TableScan { source, ..self.scan.clone() });
        for node in self.names.iter().rev() {
            plan = node.with_new_exprs(node.expressions(), vec![plan])?;
        }
        Ok(Some(plan))
    }
}

/// An aggregate whose every result stands in the first (or last) row of its group: that row's columns.
fn of_aggregate(aggregate: &Aggregate, snapshot: &dyn Snapshot) -> Result<Option<LogicalPlan>> {
    let Some(scanned) = Scanned::of(&aggregate.input) else { return Ok(None) };
    if aggregate.aggr_expr.is_empty() && scanned.are_of_partition(&aggregate.group_expr) {
        return of_partitions(aggregate, &scanned, snapshot);
    }
    let Some(columns) = scanned.prefix(&aggregate.group_expr) else { return Ok(None) };
    let mut direction = None;
    let mut expressions = aggregate.group_expr.clone();
    for (expr, (qualifier, field)) in
        aggregate.aggr_expr.iter().zip(aggregate.schema.iter().skip(aggregate.group_expr.len()))
    {
        let Some((value, own)) = end_of(&scanned, columns, expr) else { return Ok(None) };
        if *direction.get_or_insert(own) != own {
            return Ok(None);
        }
        expressions.push(value.alias_qualified(qualifier.cloned(), field.name()));
    }
    let Some(order) = direction else { return Ok(None) };
    let Some(input) = scanned.limited(PrefixLimit { columns, rows: 1, order }, snapshot)?.map(Arc::new) else {
        return Ok(None);
    };
    Ok(Some(LogicalPlan::Projection(Projection::try_new_with_schema(expressions, input, aggregate.schema.clone())?)))
}

/// Distinct partition keys with their static columns: one row of each partition says them.
fn of_partitions(aggregate: &Aggregate, scanned: &Scanned, snapshot: &dyn Snapshot) -> Result<Option<LogicalPlan>> {
    let columns = scanned.table.definition().partition_len();
    let limit = PrefixLimit { columns, rows: 1, order: Order::Forward };
    let Some(input) = scanned.limited(limit, snapshot)? else { return Ok(None) };
    let mut aggregate = aggregate.clone();
    aggregate.input = Arc::new(input);
    Ok(Some(LogicalPlan::Aggregate(aggregate)))
}

/// What an aggregate takes from the row at one end of its group, and from which.
fn end_of(scanned: &Scanned, columns: usize, expr: &Expr) -> Option<(Expr, Order)> {
    let call = match expr {
        Expr::Alias(alias) => return end_of(scanned, columns, &alias.expr),
        Expr::AggregateFunction(call) => call,
        _ => return None,
    };
    let AggregateFunction { func, params } = call;
    if params.distinct || params.filter.is_some() || params.null_treatment == Some(NullTreatment::IgnoreNulls) {
        return None;
    }
    let [value] = params.args.as_slice() else { return None };
    let order = match func.name() {
        "first_value" => scanned.direction(columns, &params.order_by)?,
        "last_value" => opposite(scanned.direction(columns, &params.order_by)?),
        "min" | "max" if params.order_by.is_empty() => {
            let place = scanned.key_place(value).filter(|place| *place == columns)?;
            let first = (func.name() == "min") != scanned.key()[place].descending;
            if first { Order::Forward } else { Order::Reverse }
        }
        _ => return None,
    };
    Some((value.clone(), order))
}

fn opposite(order: Order) -> Order {
    if order == Order::Forward { Order::Reverse } else { Order::Forward }
}

/// `row_number() <= n` over a window of a scan: the same over a narrower scan.
fn of_filter(filter: &Filter, snapshot: &dyn Snapshot) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Window(window) = filter.input.as_ref() else { return Ok(None) };
    let [number] = window.window_expr.as_slice() else { return Ok(None) };
    let Some(scanned) = Scanned::of(&window.input) else { return Ok(None) };
    let name = window.schema.field(window.schema.fields().len() - 1).name();
    let most = split_conjunction(&filter.predicate).into_iter().filter_map(|part| most_rows(part, name)).min();
    let Some(rows) = most.filter(|rows| (1..=MOST_ROWS).contains(rows)) else { return Ok(None) };
    let Some((columns, order)) = numbered(&scanned, number) else { return Ok(None) };
    let Some(input) = scanned.limited(PrefixLimit { columns, rows, order }, snapshot)? else { return Ok(None) };
    let mut window = window.clone();
    window.input = Arc::new(input);
    let mut filter = filter.clone();
    filter.input = Arc::new(LogicalPlan::Window(window));
    Ok(Some(LogicalPlan::Filter(filter)))
}

/// The prefix within which rows are numbered, and from which end.
fn numbered(scanned: &Scanned, expr: &Expr) -> Option<(usize, Order)> {
    let call = match expr {
        Expr::Alias(alias) => return numbered(scanned, &alias.expr),
        Expr::WindowFunction(call) => call,
        _ => return None,
    };
    let WindowFunction { fun, params } = call.as_ref();
    if fun.name() != "row_number" || params.filter.is_some() {
        return None;
    }
    let columns = scanned.prefix(&params.partition_by)?;
    Some((columns, scanned.direction(columns, &params.order_by)?))
}

/// How many rows a comparison of the row's number lets through.
fn most_rows(expr: &Expr, number: &str) -> Option<usize> {
    let Expr::BinaryExpr(binary) = expr else { return None };
    let is_number = |expr: &Expr| matches!(under_casts(expr), Expr::Column(column) if column.name == number);
    let constant = |expr: &Expr| match under_casts(expr) {
        Expr::Literal(ScalarValue::UInt64(Some(rows)), _) => usize::try_from(*rows).ok(),
        Expr::Literal(ScalarValue::Int64(Some(rows)), _) => usize::try_from(*rows).ok(),
        Expr::Literal(ScalarValue::Int32(Some(rows)), _) => usize::try_from(*rows).ok(),
        _ => None,
    };
    let (operator, rows) = match (is_number(&binary.left), is_number(&binary.right)) {
        (true, false) => (binary.op, constant(&binary.right)?),
        (false, true) => (binary.op.swap()?, constant(&binary.left)?),
        _ => return None,
    };
    match operator {
        Operator::LtEq | Operator::Eq => Some(rows),
        Operator::Lt => rows.checked_sub(1),
        _ => None,
    }
}

fn under_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => under_casts(&cast.expr),
        other => other,
    }
}
