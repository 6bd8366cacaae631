//! `x NOT IN (SELECT y …)` as NOT EXISTS, where DataFusion's own way forgets what is unknown.
//!
//! A condition of its own over a subquery that does not look outside becomes an anti join that minds NULL. Under OR,
//! where the subquery refers to the row, or where `x` has no column of it, it becomes a join for which NULL is like no
//! other value, though `x NOT IN` is not true if `x` or a `y` is NULL. There it is asked for no row with `y = x OR y IS NULL OR x IS NULL`, which is true of
//! the same rows. Where more than what is true counts, as under NOT or IS NULL, it is another form already
//! (`semantics::row_member`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr, lit,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::syntax::QUERY;

/// The rule; it runs before subqueries become joins.
#[derive(Debug)]
pub struct NotInAsExists;

impl OptimizerRule for NotInAsExists {
    fn name(&self) -> &str {
        "not_in_as_exists"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        if !filter.predicate.exists(|part| Ok(matches!(part, Expr::InSubquery(_))))? {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let schema = filter.input.schema();
        let conditions = split_conjunction_owned(filter.predicate).into_iter().map(|condition| match condition {
            Expr::InSubquery(own) if own.subquery.outer_ref_columns.is_empty() && own.expr.any_column_refs() => {
                Ok(Expr::InSubquery(own))
            }
            other => asked(other, schema),
        });
        let predicate = conjunction(conditions.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    }
}

/// A condition with NOT EXISTS for each NOT IN of which it asks whether it is true: elsewhere, unknown is not false.
fn asked(condition: Expr, schema: &DFSchema) -> Result<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            Ok(binary_expr(asked(*left, schema)?, op, asked(*right, schema)?))
        }
        Expr::InSubquery(own) if own.negated && !depends_on_limit(&own)? => not_exists(own, schema),
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(own) if !own.negated && !depends_on_limit(&own)? => not_exists(own, schema),
            other => Ok(Expr::Not(Box::new(other))),
        },
        other => Ok(other),
    }
}

/// Whether a LIMIT is in a subquery that refers to the row: under EXISTS DataFusion takes it for one that does not matter.
fn depends_on_limit(own: &InSubquery) -> Result<bool> {
    if own.subquery.outer_ref_columns.is_empty() {
        return Ok(false);
    }
    own.subquery.subquery.exists(|node| Ok(matches!(node, LogicalPlan::Limit(_))))
}

fn not_exists(own: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let Subquery { mut subquery, mut outer_ref_columns, spans } = own.subquery;
    if subquery.exists(|node| Ok(matches!(node, LogicalPlan::Limit(_))))? {
        // What cannot be asked below a LIMIT stays above it, where two columns may have one name.
        let named = LogicalPlanBuilder::from(subquery).alias(TableReference::bare(QUERY))?;
        subquery = Arc::new(named.build()?);
    }
    let found = Expr::Column(subquery.schema().columns().swap_remove(0));
    let unknown_outside = own.expr.nullable(schema)?;
    let outside = own.expr.transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let outer = Expr::OuterReferenceColumn(field, column);
            outer_ref_columns.push(outer.clone());
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    });
    let outside = outside.data()?;
    let mut alike = found.clone().eq(outside.clone());
    if found.nullable(subquery.schema().as_ref())? {
        alike = alike.or(found.is_null());
    }
    if unknown_outside {
        alike = alike.or(outside.is_null());
    }
    let subquery = Arc::new(LogicalPlanBuilder::from(subquery).filter(alike)?.build()?);
    Ok(Expr::Exists(Exists { subquery: Subquery { subquery, outer_ref_columns, spans }, negated: true }))
}
