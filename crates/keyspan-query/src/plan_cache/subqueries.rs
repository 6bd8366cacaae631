//! Scalar subqueries that may run before the statement that they stand in is planned: found, and replaced by their values.
//!
//! Rule: its rows depend on nothing of the statement, and no other part of it has to see the same ones.

use std::collections::HashMap;

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Filter, Limit, LogicalPlan, Subquery, Volatility};

use super::nodes::tables;
use crate::semantics::OR_NULL;

/// Whether a subquery is such a one.
pub fn runs_ahead(subquery: &Subquery) -> bool {
    let plan = subquery.subquery.as_ref();
    subquery.outer_ref_columns.is_empty() && tables(plan).is_some() && !is_volatile(plan)
}

fn is_volatile(plan: &LogicalPlan) -> bool {
    has_part(plan, |part| match part {
        // Volatile for the optimizer only: it gives its argument.
        Expr::ScalarFunction(call) if call.name() == OR_NULL => false,
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Volatile,
        _ => false,
    })
}

/// Whether an expression of a plan, or of a subquery in it, has such a part.
pub fn has_part(plan: &LogicalPlan, is_such: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|part| Ok(is_such(part)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || walked.is_err()
}

/// Those in an expression.
pub fn of_expression(expr: &Expr) -> Vec<Subquery> {
    let mut found = Vec::new();
    let walked = expr.apply(|part| {
        if let Expr::ScalarSubquery(subquery) = part
            && runs_ahead(subquery)
        {
            found.push(subquery.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map(|_| found).unwrap_or_default()
}

/// Those in the conditions of a plan and of its other subqueries.
pub fn of_conditions(plan: &LogicalPlan) -> Result<Vec<Subquery>> {
    let mut found = Vec::new();
    in_conditions(plan.clone(), |expr| {
        let own = of_expression(&expr);
        // What stands in one of these is its own.
        let nulls = own.iter().map(|subquery| Ok((subquery.clone(), null_of(subquery)?))).collect::<Result<_>>()?;
        found.extend(own);
        with_values(expr, &nulls)
    })?;
    Ok(found)
}

/// Those in LIMIT and OFFSET.
pub fn of_limits(plan: &LogicalPlan) -> Result<Vec<Subquery>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            found.extend(limit.skip.iter().chain(&limit.fetch).flat_map(|rows| of_expression(rows)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// A plan with values in the places of the subqueries of its limits.
pub fn with_values_in_limits(plan: LogicalPlan, values: &HashMap<Subquery, ScalarValue>) -> Result<LogicalPlan> {
    let value = |rows: Option<Box<Expr>>| rows.map(|rows| with_values(*rows, values).map(Box::new)).transpose();
    let changed = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Limit(Limit { skip, fetch, input }) => {
            Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip: value(skip)?, fetch: value(fetch)?, input })))
        }
        other => Ok(Transformed::no(other)),
    });
    changed.data()
}

fn null_of(subquery: &Subquery) -> Result<ScalarValue> {
    ScalarValue::try_from(subquery.subquery.schema().field(0).data_type())
}

/// An expression with values in the places of subqueries.
pub fn with_values(expr: Expr, values: &HashMap<Subquery, ScalarValue>) -> Result<Expr> {
    let put = |expr: Expr| match &expr {
        Expr::ScalarSubquery(subquery) => match values.get(subquery) {
            Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    expr.transform_up(put).data()
}

/// A plan with values in the places of the subqueries of its conditions.
pub fn with_values_in_conditions(plan: LogicalPlan, values: &HashMap<Subquery, ScalarValue>) -> Result<LogicalPlan> {
    in_conditions(plan, |expr| with_values(expr, values))
}

/// A plan with other conditions.
fn in_conditions(plan: LogicalPlan, mut change: impl FnMut(Expr) -> Result<Expr>) -> Result<LogicalPlan> {
    let changed = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(Filter { predicate, input, .. }) if !of_expression(&predicate).is_empty() => {
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(change(predicate)?, input)?)))
        }
        other => Ok(Transformed::no(other)),
    });
    changed.data()
}
