//! Subqueries within a subquery that refer to a query further out.
//!
//! ```text
//! SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.a = a.id AND c.b = b.id))
//! ```
//!
//! Where the values of `a` have been pushed below the condition over `b`, they are columns beside those of `b`, and the
//! inner subquery refers to them there: a query next to it.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};

use super::outer::{nested_outer_columns, outer_columns};

/// References by the columns that are referred to, and what they are to be.
pub type References = [(Column, Expr)];

/// The plan whose subqueries list the references that are really to queries outside of them: DataFusion leaves out those of
/// subqueries within a subquery, and lists those of LATERAL to the subquery's own tables.
pub fn with_references(plan: LogicalPlan) -> Result<LogicalPlan> {
    let listed = |expr: Expr| expr.transform_up(|part| map_subquery(part, listing));
    plan.transform_up_with_subqueries(|node| node.map_expressions(listed)).data()
}

fn listing(subquery: Subquery) -> Result<Subquery> {
    let outer = outer_columns(&subquery.subquery)?.into_iter();
    let outer_ref_columns = outer.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect();
    Ok(Subquery { outer_ref_columns, ..subquery })
}

/// An expression over another subquery, if it is over one.
fn map_subquery(expr: Expr, change: impl FnOnce(Subquery) -> Result<Subquery>) -> Result<Transformed<Expr>> {
    Ok(Transformed::yes(match expr {
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(change(subquery)?),
        Expr::Exists(Exists { subquery, negated }) => Expr::Exists(Exists { subquery: change(subquery)?, negated }),
        Expr::InSubquery(within) => Expr::InSubquery(InSubquery { subquery: change(within.subquery)?, ..within }),
        other => return Ok(Transformed::no(other)),
    }))
}

/// Whether a subquery in some node refers to what the node's inputs do not have.
pub fn refers_further_out(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(!nested_outer_columns(node)?.is_empty()))
}

/// The node whose subqueries have other references, where these are not to the node's own inputs.
pub fn with_other_references(node: LogicalPlan, references: &References) -> Result<LogicalPlan> {
    in_expressions(node, &[], references)
}

/// The node with these references of its own, and those of its subqueries, replaced.
fn in_expressions(node: LogicalPlan, own: &References, nested: &References) -> Result<LogicalPlan> {
    let beyond = beyond(nested, node.inputs());
    // What a node above may name keeps its name.
    let named = matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
    let replaced = node.map_expressions(|expr| {
        let name = expr.name_for_alias()?;
        let replaced = expr.transform_up(|part| match part {
            Expr::OuterReferenceColumn(field, column) => Ok(match own.iter().find(|(known, _)| *known == column) {
                Some((_, other)) => Transformed::yes(other.clone()),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            part => map_subquery(part, |subquery| in_subquery(subquery, &beyond)),
        })?;
        replaced.map_data(|expr| if named { expr.alias_if_changed(name) } else { Ok(expr) })
    });
    replaced.data()
}

/// Those references that no input has the columns of.
fn beyond(references: &References, inputs: Vec<&LogicalPlan>) -> Vec<(Column, Expr)> {
    let own = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
    references.iter().filter(|(column, _)| !own(column)).cloned().collect()
}

fn in_subquery(subquery: Subquery, references: &References) -> Result<Subquery> {
    let plan = in_plan(Arc::unwrap_or_clone(subquery.subquery), references)?;
    listing(Subquery { subquery: Arc::new(plan), ..subquery })
}

fn in_plan(plan: LogicalPlan, references: &References) -> Result<LogicalPlan> {
    let plan = match plan {
        // LATERAL refers to the left side first.
        LogicalPlan::Join(join) => {
            let of_right = beyond(references, vec![&join.left]);
            let left = Arc::new(in_plan(Arc::unwrap_or_clone(join.left), references)?);
            let right = Arc::new(in_plan(Arc::unwrap_or_clone(join.right), &of_right)?);
            LogicalPlan::Join(Join { left, right, ..join })
        }
        LogicalPlan::Subquery(subquery) => LogicalPlan::Subquery(in_subquery(subquery, references)?),
        plan => plan.map_children(|child| in_plan(child, references).map(Transformed::yes)).data()?,
    };
    in_expressions(plan, references, references)
}
