//! Which columns of enclosing queries a plan uses.

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The columns that a plan does not find within itself, each once.
pub fn outer_columns(plan: &LogicalPlan) -> Result<Vec<(FieldRef, Column)>> {
    let mut found = own_outer_columns(plan)?;
    let nested = nested_outer_columns(plan)?;
    add(&mut found, nested);
    if let LogicalPlan::Join(join) = plan {
        add(&mut found, outer_columns(&join.left)?);
        let right = outer_columns(&join.right)?.into_iter();
        add(&mut found, right.filter(|(_, column)| !join.left.schema().has_column(column)).collect());
        return Ok(found);
    }
    if let LogicalPlan::Subquery(subquery) = plan {
        add(&mut found, outer_columns(&subquery.subquery)?);
        return Ok(found);
    }
    for input in plan.inputs() {
        add(&mut found, outer_columns(input)?);
    }
    Ok(found)
}

/// Those that the subqueries in a node's expressions do not find in themselves nor in the node's inputs.
pub fn nested_outer_columns(plan: &LogicalPlan) -> Result<Vec<(FieldRef, Column)>> {
    let mut found = Vec::new();
    each_part(plan, |part| {
        if let Some(subquery) = subquery_plan(part) {
            let free = outer_columns(subquery)?.into_iter();
            let inputs = plan.inputs();
            let own = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
            add(&mut found, free.filter(|(_, column)| !own(column)).collect());
        }
        Ok(())
    })?;
    Ok(found)
}

fn own_outer_columns(plan: &LogicalPlan) -> Result<Vec<(FieldRef, Column)>> {
    let mut found = Vec::new();
    each_part(plan, |part| {
        if let Expr::OuterReferenceColumn(field, column) = part {
            add(&mut found, vec![(field.clone(), column.clone())]);
        }
        Ok(())
    })?;
    Ok(found)
}

fn each_part(plan: &LogicalPlan, mut each: impl FnMut(&Expr) -> Result<()>) -> Result<()> {
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            each(part)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// The plan of a subquery that is an expression.
pub fn subquery_plan(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(within) => Some(&within.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

fn add(found: &mut Vec<(FieldRef, Column)>, more: Vec<(FieldRef, Column)>) {
    for (field, column) in more {
        if !found.iter().any(|(_, own)| *own == column) {
            found.push((field, column));
        }
    }
}
