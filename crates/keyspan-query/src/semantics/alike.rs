//! `jsonb` in GROUP BY, DISTINCT, set operations and IN: values that are equal are one, `1` and `1.0` too, though their
//! texts differ.
//!
//! Groups are made of the one form of equal values (`jsonb_canonical`), which they then show; what is only compared is so
//! by its bytes (`jsonb_order`).

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Join, LogicalPlan, Projection};
use keyspan_model::ColumnType;

use super::union::is_set_operation;
use crate::decorrelate::is_value;
use crate::functions::value_call;
use crate::types::{Ty, field_type, type_of};

/// A node whose groups are of equal values.
pub fn of_equal_values(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) if has_json(input.schema()) => {
            let distinct = Distinct::All(Arc::new(canonical_columns(input)?));
            Ok(Transformed::yes(LogicalPlan::Distinct(distinct)))
        }
        LogicalPlan::Join(join) if is_set_operation(&join) && has_json(join.left.schema()) => compared(join),
        other => Ok(Transformed::no(other)),
    }
}

/// The values of an expression in the one form of equal ones.
pub fn canonical(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match is_json(&expr, schema)? {
        true => value_call("jsonb_canonical", vec![expr], &[ColumnType::Jsonb]),
        false => Ok(expr),
    }
}

/// The plan of one column with its values by their bytes.
pub fn in_order(plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    each_value(plan, |value| value_call("jsonb_order", vec![value], &[ColumnType::Jsonb]))
}

/// The plan with this applied to each of its columns.
pub fn each_value(plan: &Arc<LogicalPlan>, of: impl Fn(Expr) -> Result<Expr>) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(|column| {
        let name = column.name.clone();
        Ok(of(Expr::Column(column))?.alias(name))
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect::<Result<_>>()?, Arc::clone(plan))?))
}

fn has_json(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| field_type(field) == Ty::Known(ColumnType::Jsonb))
}

fn is_json(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let outer = matches!(expr, Expr::Column(column) if is_value(column));
    Ok(!outer && type_of(expr, schema)? == Ty::Known(ColumnType::Jsonb))
}

fn canonical_columns(input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().map(|column| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        let value = Expr::Column(column);
        match is_json(&value, input.schema())? {
            true => Ok(canonical(value, input.schema())?.alias_qualified(relation, name)),
            false => Ok(value),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(columns, input)?))
}

/// Columns are put into their one form below the groups, so that whatever names them still does; other expressions where
/// they stand, under the name that they have.
fn grouped(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(aggregate.input.schema());
    let mut columns = false;
    let mut computed = false;
    for expr in &aggregate.group_expr {
        let parts = match expr {
            Expr::GroupingSet(sets) => sets.distinct_expr(),
            expr => vec![expr],
        };
        for part in parts {
            match (is_json(part, &schema)?, part) {
                (true, Expr::Column(_)) => columns = true,
                (true, _) => computed = true,
                (false, _) => {}
            }
        }
    }
    if !columns && !computed {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let input = if columns { Arc::new(canonical_columns(input)?) } else { input };
    let groups = group_expr.into_iter().map(|expr| match expr {
        expr @ (Expr::Column(_) | Expr::GroupingSet(_)) => Ok(expr),
        expr if is_json(&expr, &schema)? => {
            let name = expr.schema_name().to_string();
            Ok(canonical(expr, &schema)?.alias(name))
        }
        expr => Ok(expr),
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, groups, aggr_expr)?)))
}

/// INTERSECT and EXCEPT: the rows of the left side, found by their values' bytes.
fn compared(join: Join) -> Result<Transformed<LogicalPlan>> {
    let order = |expr: Expr, schema: &DFSchema| match is_json(&expr, schema)? {
        true => value_call("jsonb_order", vec![expr], &[ColumnType::Jsonb]),
        false => Ok(expr),
    };
    let Join { left, right, on, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let on = on.into_iter().map(|(own, other)| Ok((order(own, left.schema())?, order(other, right.schema())?)));
    let on = on.collect::<Result<Vec<_>>>()?;
    let join = Join::try_new(left, right, on, None, join_type, join_constraint, null_equality, null_aware)?;
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}
