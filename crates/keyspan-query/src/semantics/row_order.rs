//! The order of a subquery's rows, where it shows: under LIMIT, in what collects rows one after the other, and as the
//! order of the answer. Elsewhere it is taken out.
//!
//! Operators give rows in any order unless a sort stands right above them, so the subquery's sort moves up to where the
//! order shows. What it sorts by comes along as columns that nothing else names.
//!
//! ```text
//! SELECT x FROM (SELECT x FROM t ORDER BY y) AS q LIMIT 2      Limit over Sort by y over q, which has x and y
//! SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y) AS q   array_agg(x ORDER BY y)
//! SELECT count(*) FROM (SELECT x FROM t ORDER BY y) AS q       no sort
//! ```

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias, Window,
};

use super::order::sortable;

/// Begins the names of columns that are only sorted by.
const KEY: &str = "\u{1}order";

/// Aggregates and window functions whose result depends on the order of rows.
const OF_ORDER: [&str; 9] =
    ["array_agg", "string_agg", "first_value", "last_value", "nth_value", "row_number", "ntile", "lag", "lead"];

/// Whether a node is a subquery that sorts its rows.
pub fn is_sorted_subquery(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::SubqueryAlias(_)) && sorts_beneath(plan)
}

/// Whether the rows come from a subquery's sort, filtered and projected at most.
fn sorts_beneath(mut plan: &LogicalPlan) -> bool {
    let mut subquery = false;
    loop {
        plan = match plan {
            LogicalPlan::Sort(_) => return subquery,
            LogicalPlan::SubqueryAlias(alias) => {
                subquery = true;
                &alias.input
            }
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Limit(limit) => &limit.input,
            _ => return false,
        };
    }
}

/// The plan with sorts where their order shows, and no others.
pub fn sorted_where_shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    Orders { columns: 0 }.shown(plan)
}

struct Orders {
    /// Columns made so far.
    columns: usize,
}

impl Orders {
    /// A plan the order of whose rows shows.
    fn shown(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if !sorts_beneath(&plan) {
            return self.placed(plan, true);
        }
        let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let Some((input, keys)) = self.carried(&plan)? else { return self.placed(plan, true) };
        let sorted = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(input), fetch: None });
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(sorted))?))
    }

    /// A plan whose own order shows (`wanted`) or does not.
    fn placed(&mut self, plan: LogicalPlan, wanted: bool) -> Result<LogicalPlan> {
        let plan = match plan {
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) if !wanted => {
                return self.placed(Arc::unwrap_or_clone(input), false);
            }
            LogicalPlan::Limit(limit) => {
                let input = Arc::new(self.shown(Arc::unwrap_or_clone(limit.input))?);
                LogicalPlan::Limit(Limit { input, ..limit })
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(depends_on_order) => {
                self.aggregate(aggregate)?
            }
            LogicalPlan::Window(window) if window.window_expr.iter().any(depends_on_order) => self.window(window)?,
            other => {
                let passes = matches!(
                    other,
                    LogicalPlan::Projection(_)
                        | LogicalPlan::Filter(_)
                        | LogicalPlan::SubqueryAlias(_)
                        | LogicalPlan::Unnest(_)
                        | LogicalPlan::Extension(_)
                );
                let each = |input| self.placed(input, wanted && passes).map(Transformed::yes);
                other.map_children(each)?.data
            }
        };
        Ok(plan.map_subqueries(|subquery| self.placed(subquery, false).map(Transformed::yes))?.data)
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
        let (input, aggr_expr) = self.ordered(input, aggr_expr)?;
        Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?))
    }

    fn window(&mut self, window: Window) -> Result<LogicalPlan> {
        // All calls of a node have one order.
        let (of_order, others): (Vec<_>, Vec<_>) = window.window_expr.into_iter().partition(depends_on_order);
        let (input, of_order) = self.ordered(window.input, of_order)?;
        let inner = Window::try_new(of_order, Arc::new(input))?;
        if others.is_empty() {
            return Ok(LogicalPlan::Window(inner));
        }
        Ok(LogicalPlan::Window(Window::try_new(others, Arc::new(LogicalPlan::Window(inner)))?))
    }

    /// The input, and the calls over it with its order as their own where they have none.
    fn ordered(&mut self, input: Arc<LogicalPlan>, calls: Vec<Expr>) -> Result<(LogicalPlan, Vec<Expr>)> {
        let carried = if sorts_beneath(&input) { self.carried(&input)? } else { None };
        let Some((input, keys)) = carried else {
            return Ok((self.placed(Arc::unwrap_or_clone(input), true)?, calls));
        };
        let keys = sortable(keys, input.schema())?;
        let calls = calls.into_iter().map(|call| with_order(call, &keys)).collect();
        Ok((input, calls))
    }

    /// The plan without the sort that its rows come from, and what that sorts by, in the plan's columns.
    fn carried(&mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        Ok(Some(match plan {
            LogicalPlan::Sort(sort) => (self.placed(LogicalPlan::clone(&sort.input), false)?, sort.expr.clone()),
            LogicalPlan::Limit(limit) => {
                let Some((input, expr)) = self.carried(&limit.input)? else { return Ok(None) };
                let sorted = Sort { expr: expr.clone(), input: Arc::new(input), fetch: None };
                let input = Arc::new(LogicalPlan::Sort(sorted));
                (LogicalPlan::Limit(Limit { input, ..limit.clone() }), expr)
            }
            LogicalPlan::Filter(filter) => {
                let Some((input, keys)) = self.carried(&filter.input)? else { return Ok(None) };
                (LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?), keys)
            }
            LogicalPlan::Projection(projection) => {
                let Some((input, keys)) = self.carried(&projection.input)? else { return Ok(None) };
                self.projected(projection.expr.clone(), input, keys)?
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some((input, keys)) = self.carried(&alias.input)? else { return Ok(None) };
                let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
                let (input, keys) = self.projected(columns, input, keys)?;
                let aliased = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
                (LogicalPlan::SubqueryAlias(aliased.clone()), renamed(keys, &aliased)?)
            }
            _ => return Ok(None),
        }))
    }

    /// A projection to these expressions, and to what else the keys need.
    fn projected(
        &mut self,
        mut exprs: Vec<Expr>,
        input: LogicalPlan,
        mut keys: Vec<SortExpr>,
    ) -> Result<(LogicalPlan, Vec<SortExpr>)> {
        for key in &mut keys {
            let same = |expr: &&Expr| match expr {
                Expr::Alias(alias) => *alias.expr == key.expr,
                expr => **expr == key.expr,
            };
            let (qualifier, name) = match exprs.iter().find(same) {
                Some(expr) => expr.qualified_name(),
                None => {
                    let name = format!("{KEY}{}", self.columns);
                    self.columns += 1;
                    exprs.push(key.expr.clone().alias(&name));
                    (None, name)
                }
            };
            key.expr = Expr::Column(Column::new(qualifier, name));
        }
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), keys))
    }
}

/// The keys, which are columns under the alias, as its columns.
fn renamed(mut keys: Vec<SortExpr>, alias: &SubqueryAlias) -> Result<Vec<SortExpr>> {
    let columns = alias.schema.columns();
    for key in &mut keys {
        if let Expr::Column(column) = &key.expr {
            let place = alias.input.schema().index_of_column(column)?;
            key.expr = Expr::Column(columns[place].clone());
        }
    }
    Ok(keys)
}

/// Whether a call's result depends on the order of rows, and it says none.
fn depends_on_order(call: &Expr) -> bool {
    match call {
        Expr::Alias(alias) => depends_on_order(&alias.expr),
        Expr::AggregateFunction(function) => {
            let params = &function.params;
            params.order_by.is_empty() && !params.distinct && OF_ORDER.contains(&function.func.name())
        }
        Expr::WindowFunction(function) => {
            let params = &function.params;
            params.order_by.is_empty() && !params.distinct && OF_ORDER.contains(&function.fun.name())
        }
        _ => false,
    }
}

/// The call in this order, under its own name.
fn with_order(call: Expr, keys: &[SortExpr]) -> Expr {
    if !depends_on_order(&call) {
        return call;
    }
    let (qualifier, name) = call.qualified_name();
    let mut inner = call;
    while let Expr::Alias(alias) = inner {
        inner = *alias.expr;
    }
    match &mut inner {
        Expr::AggregateFunction(function) => function.params.order_by = keys.to_vec(),
        Expr::WindowFunction(function) => function.params.order_by = keys.to_vec(),
        _ => {}
    }
    inner.alias_qualified(qualifier, name)
}
