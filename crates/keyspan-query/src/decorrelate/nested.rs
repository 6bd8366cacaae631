//! Subqueries within a subquery that refer to a query further out.
//!
//! ```text
//! SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.a = a.id AND c.b = b.id))
//! ```
//!
//! Where the values of `a` have been pushed below the condition over `b`, they are columns beside those of `b`, and the
//! inner subquery refers to them there: a query next to it.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};
use std::sync::Arc;

use super::outer::{nested_outer_columns, outer_columns};

/// References by the columns that are referred to, and what they are to be.
type References = Vec<(Column, Expr)>;

/// The subquery with a list of the references that are really to queries outside of it: DataFusion's leaves out those of
/// subqueries within it, and has those of LATERAL to the subquery's own tables.
pub fn with_references(subquery: Subquery) -> Result<Subquery> {
    let outer = outer_columns(&subquery.subquery)?.into_iter();
    let outer_ref_columns = outer.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect();
    Ok(Subquery { outer_ref_columns, ..subquery })
}

/// An expression, if it is one over a subquery, over another one.
pub fn map_subquery(expr: Expr, change: impl FnOnce(Subquery) -> Result<Subquery>) -> Result<Transformed<Expr>> {
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

/// The node whose subqueries refer to columns by other names, where these are not of the node's own inputs.
pub fn referring(node: LogicalPlan, references: &[(Column, Expr)]) -> Result<LogicalPlan> {
    let beyond = beyond(references, node.inputs());
    let changed = node.map_expressions(|expr| {
        let name = expr.name_for_alias()?;
        let changed = expr.transform_up(|part| {
            map_subquery(part, |subquery| {
                let plan = within(LogicalPlan::clone(&subquery.subquery), &beyond)?;
                with_references(Subquery { subquery: Arc::new(plan), ..subquery })
            })
        })?;
        changed.map_data(|expr| expr.alias_if_changed(name))
    });
    changed.data()
}

/// Those references that no input has the columns of.
fn beyond(references: &[(Column, Expr)], inputs: Vec<&LogicalPlan>) -> References {
    let own = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
    references.iter().filter(|(column, _)| !own(column)).cloned().collect()
}

/// A plan whose references are others.
fn within(plan: LogicalPlan, references: &References) -> Result<LogicalPlan> {
    let plan = match plan {
        // LATERAL refers to the left side first.
        LogicalPlan::Join(Join {
            left,
            right,
            on,
            filter,
            join_type,
            join_constraint,
            schema,
            null_equality,
            null_aware,
        }) => {
            let of_right = beyond(references, vec![&left]);
            let left = Arc::new(within(Arc::unwrap_or_clone(left), references)?);
            let right = Arc::new(within(Arc::unwrap_or_clone(right), &of_right)?);
            LogicalPlan::Join(Join {
                left,
                right,
                on,
                filter,
                join_type,
                join_constraint,
                schema,
                null_equality,
                null_aware,
            })
        }
        LogicalPlan::Subquery(subquery) => {
            let plan = within(Arc::unwrap_or_clone(subquery.subquery.clone()), references)?;
            LogicalPlan::Subquery(with_references(Subquery { subquery: Arc::new(plan), ..subquery })?)
        }
        plan => plan.map_children(|child| within(child, references).map(Transformed::yes)).data()?,
    };
    let named = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
    let changed = plan.map_expressions(|expr| {
        let name = expr.name_for_alias()?;
        let changed = expr.transform_up(|part| match part {
            Expr::OuterReferenceColumn(field, column) => {
                let other = references.iter().find(|(own, _)| *own == column);
                Ok(match other {
                    Some((_, other)) => Transformed::yes(other.clone()),
                    None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                })
            }
            other => Ok(Transformed::no(other)),
        })?;
        changed.map_data(|expr| if named { expr.alias_if_changed(name) } else { Ok(expr) })
    });
    referring(changed.data()?, references)
}
