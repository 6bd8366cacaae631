//! ORDER BY an expression with a subquery: computed as a column first.
//!
//! DataFusion's physical plans take such an expression for another one wherever it stands, so that rows sorted by it in
//! several partitions could not be put together.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Sort, col};

/// A name that no column has.
const KEY: &str = "\u{1}sort_key";

/// A plan whose sorts are by columns where they were by subqueries.
pub fn sorted_by_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let sorted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) if is_by_subquery(&sort) => by_columns(sort).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    });
    sorted.data()
}

/// Whether a sort is by an expression with a subquery.
pub fn is_by_subquery(sort: &Sort) -> bool {
    sort.expr.iter().any(|key| has_subquery(&key.expr))
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_)))).unwrap_or_default()
}

fn by_columns(sort: Sort) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let (mut computed, mut keys) = (columns.clone(), sort.expr);
    for (place, key) in keys.iter_mut().enumerate().filter(|(_, key)| has_subquery(&key.expr)) {
        let name = format!("{KEY}{place}");
        let expr = std::mem::replace(&mut key.expr, col(format!("\"{name}\"")));
        computed.push(expr.alias(name));
    }
    let input = LogicalPlanBuilder::from(sort.input).project(computed)?;
    input.sort_with_limit(keys, sort.fetch)?.project(columns)?.build()
}
