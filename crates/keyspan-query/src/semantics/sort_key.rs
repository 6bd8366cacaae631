//! ORDER BY, that of an aggregate, too, and OVER by an expression that DataFusion's physical plans lose sight of: computed
//! as a column first.
//!
//! - A subquery is taken for another one wherever it stands, so that rows sorted by it in several partitions could not be
//!   put together.
//! - A comparison of what a function or CASE gives has no known order, since these say nothing of their bounds: a plan
//!   sorted by it does not count as sorted.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Sort, SortExpr, Window,
};

use crate::decorrelate::under_names;

/// A name that no column has.
const KEY: &str = "\u{1}sort_key";

/// A plan whose sorts, windows and aggregates are by columns where they were by such expressions.
pub fn sorted_by_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let sorted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) if sort_needs_columns(&sort) => sort_by_columns(sort).map(Transformed::yes),
        LogicalPlan::Window(window) if functions_need_columns(&window.window_expr) => {
            window_by_columns(window).map(Transformed::yes)
        }
        LogicalPlan::Aggregate(aggregate) if functions_need_columns(&aggregate.aggr_expr) => {
            aggregate_by_columns(aggregate).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    sorted.data()
}

/// Whether a sort is by such an expression.
pub fn sort_needs_columns(sort: &Sort) -> bool {
    sort.expr.iter().any(|key| needs_column(&key.expr))
}

/// Whether window functions are divided or ordered by such an expression, or aggregates ordered.
pub fn functions_need_columns(functions: &[Expr]) -> bool {
    functions.iter().any(|function| match unaliased(function) {
        Expr::WindowFunction(function) => {
            let params = &function.params;
            params.partition_by.iter().any(needs_column) || params.order_by.iter().any(|key| needs_column(&key.expr))
        }
        Expr::AggregateFunction(function) => function.params.order_by.iter().any(|key| needs_column(&key.expr)),
        _ => false,
    })
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

fn needs_column(expr: &Expr) -> bool {
    let loses_sight = |part: &Expr| match part {
        Expr::ScalarSubquery(_) => true,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
                && !(has_bounds(left) && has_bounds(right))
        }
        Expr::Between(between) => {
            ![&between.expr, &between.low, &between.high].into_iter().all(|part| has_bounds(part))
        }
        _ => false,
    };
    expr.exists(|part| Ok(loses_sight(part))).unwrap_or_default()
}

fn has_bounds(expr: &Expr) -> bool {
    matches!(unaliased(expr), Expr::Column(_) | Expr::Literal(..) | Expr::Placeholder(_))
}

/// Columns for such expressions, beside those of a plan.
struct Keys {
    columns: Vec<Expr>,
    /// The expressions with the names of their columns.
    known: Vec<(Expr, String)>,
}

impl Keys {
    fn beside(input: &LogicalPlan) -> Keys {
        Keys { columns: input.schema().columns().into_iter().map(Expr::Column).collect(), known: Vec::new() }
    }

    /// The expression, or the column that has its value.
    fn column(&mut self, expr: Expr) -> Expr {
        if !needs_column(&expr) {
            return expr;
        }
        let known = self.known.iter().find(|(known, _)| *known == expr).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = format!("{KEY}{}", self.known.len());
            self.columns.push(expr.clone().alias(&name));
            self.known.push((expr, name.clone()));
            name
        });
        Expr::Column(Column::from_name(name))
    }

    fn sort(&mut self, keys: Vec<SortExpr>) -> Vec<SortExpr> {
        keys.into_iter().map(|key| SortExpr { expr: self.column(key.expr), ..key }).collect()
    }

    /// A window function or an aggregate by columns.
    fn function(&mut self, function: &Expr) -> Expr {
        match unaliased(function).clone() {
            Expr::WindowFunction(mut function) => {
                let params = &mut function.params;
                params.partition_by =
                    std::mem::take(&mut params.partition_by).into_iter().map(|key| self.column(key)).collect();
                params.order_by = self.sort(std::mem::take(&mut params.order_by));
                Expr::WindowFunction(function)
            }
            Expr::AggregateFunction(mut function) => {
                function.params.order_by = self.sort(std::mem::take(&mut function.params.order_by));
                Expr::AggregateFunction(function)
            }
            other => other,
        }
    }
}

fn sort_by_columns(sort: Sort) -> Result<LogicalPlan> {
    let shown: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut keys = Keys::beside(&sort.input);
    let order = keys.sort(sort.expr);
    let input = LogicalPlanBuilder::from(sort.input).project(keys.columns)?;
    input.sort_with_limit(order, sort.fetch)?.project(shown)?.build()
}

fn window_by_columns(window: Window) -> Result<LogicalPlan> {
    let mut keys = Keys::beside(&window.input);
    let functions: Vec<Expr> = window.window_expr.iter().map(|function| keys.function(function)).collect();
    let input = LogicalPlanBuilder::from(window.input.clone()).project(keys.columns)?;
    let computed = input.window(functions)?.build()?;
    // The columns that the keys are in stand between those of the input and those of the functions.
    let (columns, first) = (computed.schema().columns(), window.input.schema().fields().len());
    let functions = columns.len() - window.window_expr.len();
    let own = columns[..first].iter().chain(&columns[functions..]).cloned().collect();
    under_names(computed, own, window.schema.columns())
}

fn aggregate_by_columns(aggregate: Aggregate) -> Result<LogicalPlan> {
    let mut keys = Keys::beside(&aggregate.input);
    let functions: Vec<Expr> = aggregate.aggr_expr.iter().map(|function| keys.function(function)).collect();
    let input = LogicalPlanBuilder::from(aggregate.input.clone()).project(keys.columns)?.build()?;
    let computed = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), aggregate.group_expr, functions)?);
    let columns = computed.schema().columns();
    under_names(computed, columns, aggregate.schema.columns())
}
