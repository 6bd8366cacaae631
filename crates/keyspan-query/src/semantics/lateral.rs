//! LATERAL subqueries without a table of their own: `FROM t, unnest(t.list) AS x`, `FROM t, generate_series(1, t.n)`.
//!
//! DataFusion knows how to join with a correlated subquery where it compares columns with columns. One that only
//! computes on the columns of the left side is no join: it is computed on the left side's rows.
//!
//! ```text
//! Join                               Projection: t.*, x AS q.x
//!   t                                  Unnest: x
//!   q: Subquery                 ─▶       Projection: t.*, t.list AS x
//!     Projection: x                        t
//!       Unnest: x
//!         Projection: outer(t.list) AS x
//!           EmptyRelation
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullHandling, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};

/// Whether a node may be such a join.
pub fn is_lateral(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if is_correlated(&join.right))
}

/// The plan with these joins computed on their left sides. Others stay as they are.
pub fn computed_on_left(plan: LogicalPlan) -> Result<LogicalPlan> {
    let computed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => Ok(match computed(&join)? {
            Some(plan) => Transformed::yes(plan),
            None => Transformed::no(LogicalPlan::Join(join)),
        }),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(computed.data)
}

fn is_correlated(right: &LogicalPlan) -> bool {
    match right {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_correlated(&alias.input),
        _ => false,
    }
}

fn computed(join: &Join) -> Result<Option<LogicalPlan>> {
    let inner = join.join_type == JoinType::Inner;
    let always = match &join.filter {
        None => true,
        Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => true,
        Some(_) => inner,
    };
    let joins = always && join.on.is_empty() && (inner || join.join_type == JoinType::Left);
    if !joins || !is_correlated(&join.right) {
        return Ok(None);
    }
    let left = Left { plan: &join.left, keep_empty: !inner };
    let Some(right) = left.with(&join.right)? else { return Ok(None) };
    let filtered = match &join.filter {
        Some(filter) if inner => LogicalPlanBuilder::from(right).filter(filter.clone())?.build()?,
        _ => right,
    };
    Ok(Some(filtered))
}

/// The left side, on which the right one is computed.
struct Left<'a> {
    plan: &'a LogicalPlan,
    /// Rows without a row on the right side are kept.
    keep_empty: bool,
}

impl Left<'_> {
    fn columns(&self) -> Vec<Expr> {
        self.plan.schema().columns().into_iter().map(Expr::Column).collect()
    }

    /// The left side's columns, then those of `node`; `None` where `node` reads something of its own.
    fn with(&self, node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let of = |input: &LogicalPlan| self.with(input);
        match node {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Ok(Some(self.plan.clone())),
            LogicalPlan::Subquery(subquery) => of(&subquery.subquery),
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = of(&alias.input)? else { return Ok(None) };
                let inner = alias.input.schema().columns().into_iter();
                let named = inner.map(|column| {
                    let name = column.name.clone();
                    Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name)
                });
                let exprs = self.columns().into_iter().chain(named);
                LogicalPlanBuilder::from(input).project(exprs)?.build().map(Some)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = of(&projection.input)? else { return Ok(None) };
                let own = projection.expr.iter().cloned().map(known_columns);
                let exprs = self.columns().into_iter().map(Ok).chain(own).collect::<Result<Vec<_>>>()?;
                LogicalPlanBuilder::from(input).project(exprs)?.build().map(Some)
            }
            // What a filter drops of a row's list would have to be kept where nothing is left.
            LogicalPlan::Filter(filter) if !self.keep_empty => {
                let Some(input) = of(&filter.input)? else { return Ok(None) };
                LogicalPlanBuilder::from(input).filter(known_columns(filter.predicate.clone())?)?.build().map(Some)
            }
            LogicalPlan::Unnest(unnest) => {
                let Some(input) = of(&unnest.input)? else { return Ok(None) };
                let lists = unnest.exec_columns.clone();
                let mut options = unnest.options.clone();
                if self.keep_empty {
                    options = options.with_null_handling(NullHandling::PreserveAndExpandEmpty);
                }
                LogicalPlanBuilder::from(input).unnest_columns_with_options(lists, options)?.build().map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Columns of the left side are columns now.
fn known_columns(expr: Expr) -> Result<Expr> {
    let named = expr.name_for_alias()?;
    let known = expr.transform(|part| match part {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    known.data.alias_if_changed(named)
}
