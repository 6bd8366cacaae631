//! Marked joins become nodes, and filters go below them.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Extension, Filter, Join};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use super::node::AsOf;
use super::{MARK, condition};

/// Makes nodes of marked joins.
#[derive(Debug)]
pub struct AsOfJoins;

impl AnalyzerRule for AsOfJoins {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => match mark_of(&join) {
                Some(matched) => of_join(&join, matched).map(Transformed::yes),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            other => Ok(Transformed::no(other)),
        });
        changed.data()
    }

    fn name(&self) -> &str {
        "asof_joins"
    }
}

fn mark_of(join: &Join) -> Option<Expr> {
    match join.filter.as_ref()? {
        Expr::ScalarFunction(function) if function.func.name() == MARK => function.args.first().cloned(),
        _ => None,
    }
}

fn of_join(join: &Join, matched: Expr) -> Result<LogicalPlan> {
    let (mut equal, mut nearest) = (join.on.clone(), None);
    for part in split_conjunction_owned(matched) {
        let Expr::BinaryExpr(binary) = part else {
            return Err(condition("the condition of an ASOF join is made of comparisons"));
        };
        let (left, op, right) = sides(join, *binary.left, binary.op, *binary.right)?;
        match op {
            Operator::Eq => equal.push((left, right)),
            Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt if nearest.is_none() => {
                nearest = Some((left, op, right));
            }
            _ => return Err(condition("an ASOF join has equalities and one inequality")),
        }
    }
    let nearest = nearest.ok_or_else(|| condition("an ASOF join needs an inequality"))?;
    let node = AsOf::try_new(join.left.as_ref().clone(), join.right.as_ref().clone(), join.join_type, equal, nearest)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The comparison with the left side's expression first.
fn sides(join: &Join, left: Expr, op: Operator, right: Expr) -> Result<(Expr, Operator, Expr)> {
    let of = |expr: &Expr, plan: &LogicalPlan| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.iter().all(|column| plan.schema().has_column(column))
    };
    if of(&left, &join.left) && of(&right, &join.right) {
        return Ok((left, op, right));
    }
    match op.swap() {
        Some(op) if of(&right, &join.left) && of(&left, &join.right) => Ok((right, op, left)),
        _ => Err(condition("each comparison of an ASOF join is between the two sides")),
    }
}

/// Filters on the left side go below it; those on equal columns, and those that bound what can be nearest, below the right
/// side too.
#[derive(Debug)]
pub struct PushThrough;

impl OptimizerRule for PushThrough {
    fn name(&self) -> &str {
        "push_through_asof"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(extension) = filter.input.as_ref() else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let Some(node) = extension.node.as_any().downcast_ref::<AsOf>() else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let (mut left, mut right, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for part in split_conjunction_owned(filter.predicate.clone()) {
            let columns = part.column_refs();
            let own = columns.iter().all(|column| node.left.schema().has_column(column));
            if columns.is_empty() || !own || part.is_volatile() {
                kept.push(part);
                continue;
            }
            right.extend(on_equal(node, &part));
            right.extend(on_nearest(node, &part));
            left.push(part);
        }
        if left.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let node = AsOf { left: filtered(&node.left, left)?, right: filtered(&node.right, right)?, ..node.clone() };
        let joined = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        Ok(Transformed::yes(filtered(&joined, kept)?))
    }
}

fn filtered(plan: &LogicalPlan, parts: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(match conjunction(parts) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan.clone()))?),
        None => plan.clone(),
    })
}

/// The filter as one of the right side, if it is of columns that equal columns of it.
fn on_equal(node: &AsOf, part: &Expr) -> Option<Expr> {
    let other = |column: &Column| {
        node.equal.iter().find_map(|(left, right)| match (left, right) {
            (Expr::Column(left), Expr::Column(right)) if left == column => Some(right.clone()),
            _ => None,
        })
    };
    if !part.column_refs().into_iter().all(|column| other(column).is_some()) {
        return None;
    }
    let moved = part.clone().transform(|expr| {
        Ok(match &expr {
            Expr::Column(column) => match other(column) {
                Some(right) => Transformed::yes(Expr::Column(right)),
                None => Transformed::no(expr),
            },
            _ => Transformed::no(expr),
        })
    });
    moved.data().ok()
}

/// `left.ts < x` with `left.ts >= right.ts`: `right.ts < x`.
fn on_nearest(node: &AsOf, part: &Expr) -> Option<Expr> {
    let (left, op, right) = &node.nearest;
    let Expr::BinaryExpr(binary) = part else { return None };
    if binary.left.as_ref() != left || !binary.right.column_refs().is_empty() {
        return None;
    }
    let later = matches!(op, Operator::GtEq | Operator::Gt);
    let bounds = match binary.op {
        Operator::Lt | Operator::LtEq => later,
        Operator::Gt | Operator::GtEq => !later,
        _ => false,
    };
    bounds.then(|| binary_expr(right.clone(), binary.op, binary.right.as_ref().clone()))
}
