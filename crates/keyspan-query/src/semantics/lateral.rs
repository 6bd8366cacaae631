//! Columns of an outer join in LATERAL: NULL, also where their table has none.
//!
//! `a RIGHT JOIN b ON … CROSS JOIN LATERAL (SELECT … WHERE c = coalesce(a.id, b.id))`: DataFusion takes `a.id` there as the
//! table declares it, so that a column that is NOT NULL stays so, and `coalesce` keeps nothing but it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A plan in which every column of an enclosing query may be NULL.
pub fn nullable_references(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Subquery(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(plan);
    }
    let rewrite = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(field, column) if !field.is_nullable() => {
            let field = Arc::new(field.as_ref().clone().with_nullable(true));
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    };
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(rewrite)).data()?;
        node.recompute_schema().map(Transformed::yes)
    });
    rewritten.data()
}
