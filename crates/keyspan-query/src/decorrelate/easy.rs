//! Which correlated subqueries DataFusion makes joins of by itself.
//!
//! Its rules pull comparisons out of filters: of any kind for EXISTS and IN, equalities for aggregates. What stands above
//! them must let them through.

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinType, LogicalPlan, Operator, Subquery};

use super::outer::{nested_outer_columns, outer_columns};

/// The correlated subqueries that DataFusion loses the columns of: all within CASE, and EXISTS and IN that are not
/// conditions by themselves.
pub fn beneath_others(expr: &Expr) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    for part in split_conjunction(expr) {
        let condition = if let Expr::Not(inner) = part { inner } else { part };
        if matches!(condition, Expr::Exists(_) | Expr::InSubquery(_)) {
            continue;
        }
        part.apply(|inner| {
            let within_case = matches!(inner, Expr::Case(_));
            if within_case {
                inner.apply(|deeper| collect(deeper, true, &mut found))?;
            }
            collect(inner, false, &mut found)?;
            Ok(if within_case { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}

fn collect(expr: &Expr, scalars: bool, found: &mut Vec<Expr>) -> Result<TreeNodeRecursion> {
    let correlated = match expr {
        Expr::Exists(exists) => !exists.subquery.outer_ref_columns.is_empty(),
        Expr::InSubquery(within) => !within.subquery.outer_ref_columns.is_empty(),
        Expr::ScalarSubquery(subquery) => scalars && !subquery.outer_ref_columns.is_empty(),
        _ => false,
    };
    if correlated {
        found.push(expr.clone());
    }
    Ok(TreeNodeRecursion::Continue)
}

/// Whether a scalar subquery of this node is left to DataFusion.
pub fn is_scalar(subquery: &Subquery, node: &LogicalPlan) -> bool {
    if subquery.outer_ref_columns.is_empty() {
        return true;
    }
    let place = matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_));
    // Not under another name: DataFusion would not find there what it adds to the aggregate.
    let LogicalPlan::Aggregate(aggregate) = below_projections(&subquery.subquery) else { return false };
    let own = aggregate.aggr_expr.iter().all(|expr| !expr.contains_outer());
    place
        && own
        && !aggregate.aggr_expr.is_empty()
        && aggregate.group_expr.is_empty()
        && pulls(&aggregate.input, &is_equality)
        && own_projections(&subquery.subquery)
}

/// Whether EXISTS or IN over this subquery, in this node, is left to DataFusion.
pub fn is_predicate(subquery: &Subquery, node: &LogicalPlan) -> bool {
    if subquery.outer_ref_columns.is_empty() {
        return matches!(node, LogicalPlan::Filter(_));
    }
    let plan = subquery.subquery.as_ref();
    let grouped = match stripped(plan) {
        LogicalPlan::Aggregate(aggregate) => pulls(&aggregate.input, &is_equality),
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::Aggregate(aggregate) => {
                !filter.predicate.contains_outer() && pulls(&aggregate.input, &is_equality)
            }
            _ => false,
        },
        _ => false,
    };
    matches!(node, LogicalPlan::Filter(_)) && own_projections(plan) && (grouped || pulls(plan, &|_| true))
}

/// Whether a LATERAL join is left to DataFusion.
pub fn is_lateral(join: &Join) -> bool {
    let LogicalPlan::SubqueryAlias(alias) = join.right.as_ref() else { return false };
    let LogicalPlan::Subquery(subquery) = alias.input.as_ref() else { return false };
    let plain = pulls(&subquery.subquery, &is_equality) && own_projections(&subquery.subquery);
    join.join_type == JoinType::Inner && join.filter.is_none() && plain
}

fn below_projections(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => below_projections(&projection.input),
        other => other,
    }
}

fn stripped(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => stripped(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => stripped(&alias.input),
        other => other,
    }
}

/// Whether projections on top use no outer columns, and have no other column by the name of one that is compared with these:
/// DataFusion finds that by its name alone.
fn own_projections(plan: &LogicalPlan) -> bool {
    let Ok(compared) = compared_columns(plan) else { return false };
    let alike = |one: &Column, other: &Column| one.name == other.name && one != other;
    compared.iter().all(|one| !compared.iter().any(|other| alike(one, other))) && keep_names(plan, &compared)
}

fn keep_names(plan: &LogicalPlan, compared: &BTreeSet<Column>) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            let fits = |expr: &Expr| {
                let name = expr.qualified_name().1;
                let is_it = |column: &Column| matches!(expr, Expr::Column(own) if own == column);
                !expr.contains_outer() && compared.iter().all(|column| column.name != name || is_it(column))
            };
            projection.expr.iter().all(fits) && keep_names(&projection.input, compared)
        }
        LogicalPlan::SubqueryAlias(alias) => keep_names(&alias.input, compared),
        _ => true,
    }
}

/// The columns of a plan that its filters compare with outer ones.
fn compared_columns(plan: &LogicalPlan) -> Result<BTreeSet<Column>> {
    let mut compared = BTreeSet::new();
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let outer = split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer());
            compared.extend(outer.flat_map(|part| part.column_refs().into_iter().cloned().collect::<Vec<_>>()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(compared)
}

/// Whether outer columns are only in filters that can be pulled up, by comparisons that `fits` takes.
fn pulls(plan: &LogicalPlan, fits: &dyn Fn(&Expr) -> bool) -> bool {
    if outer_columns(plan).is_ok_and(|columns| columns.is_empty()) {
        return true;
    }
    if !nested_outer_columns(plan).is_ok_and(|columns| columns.is_empty()) {
        return false;
    }
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut parts = split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer());
            parts.all(fits) && pulls(&filter.input, fits)
        }
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expr| !expr.contains_outer()) && pulls(&projection.input, fits)
        }
        // Not through another name: the columns compared would have to be known by it.
        _ => false,
    }
}

fn is_equality(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return false };
    (is_outer(left) && is_column(right)) || (is_outer(right) && is_column(left))
}

/// Whether an expression is a column, of another type perhaps: by others DataFusion does not group.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

/// Whether an expression is a column of the outer query, of another type perhaps.
fn is_outer(expr: &Expr) -> bool {
    match expr {
        Expr::OuterReferenceColumn(..) => true,
        Expr::Cast(cast) => is_outer(&cast.expr),
        _ => false,
    }
}
