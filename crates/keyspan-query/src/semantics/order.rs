//! Types whose Arrow form does not sort as they do: they are sorted by a form that does.
//!
//! `ORDER BY id` of a timeuuid becomes `ORDER BY timeuuid_bytes(id)`, and `min(id)` the timeuuid of the least such bytes.
//! Comparisons do the same ([`super::operator`]).

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SortExpr};
use datafusion::optimizer::AnalyzerRule;
use keyspan_model::{ColumnType, Error};

use super::alike::of_equal_values;
use crate::functions::{nested, typed_call, value_call};
use crate::types::{Ty, fail, sortable_form, type_of};

/// The function that makes a value of this type of its sortable form.
fn back(ty: ColumnType) -> Option<&'static str> {
    match ty {
        ColumnType::TimeUuid => Some("timeuuid_of_bytes"),
        ColumnType::Inet => Some("inet_of_bytes"),
        _ => None,
    }
}

/// The rule for ORDER BY of queries, DISTINCT ON included, and for groups of values that are alike.
#[derive(Debug)]
pub struct SortableForms;

impl AnalyzerRule for SortableForms {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Sort(mut sort) => {
                let schema = Arc::clone(sort.input.schema());
                let before = sort.expr.clone();
                sort.expr = sortable(sort.expr, &schema)?;
                let same = sort.expr == before;
                let plan = LogicalPlan::Sort(sort);
                Ok(if same { Transformed::no(plan) } else { Transformed::yes(plan) })
            }
            LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
                // The first of them are those of ON, which say what is alike and not what comes first.
                let Some(sorts) = distinct.sort_expr.take() else {
                    return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(distinct))));
                };
                let same = distinct.on_expr.len().min(sorts.len());
                let (on, rest) = sorts.split_at(same);
                let rest = sortable(rest.to_vec(), distinct.input.schema())?;
                let new = rest.into_iter().filter(|sort| on.iter().all(|before| before.expr != sort.expr));
                distinct.sort_expr = Some(on.iter().cloned().chain(new).collect());
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(distinct))))
            }
            other => of_equal_values(other),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "sortable_forms"
    }
}

/// The expressions of an ORDER BY, each in its sortable form, and none twice: DataFusion's aggregates take a repeated one
/// for another column.
pub fn sortable(sorts: Vec<SortExpr>, schema: &DFSchema) -> Result<Vec<SortExpr>> {
    let mut sortable: Vec<SortExpr> = Vec::with_capacity(sorts.len());
    for sort in sorts {
        let expr = form(sort.expr, schema)?;
        if sortable.iter().all(|before| before.expr != expr) {
            sortable.push(SortExpr { expr, ..sort });
        }
    }
    Ok(sortable)
}

fn form(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match type_of(&expr, schema)? {
        Ty::Known(ty) => match sortable_form(ty) {
            Some(name) => value_call(name, vec![expr], &[ty]),
            None => Ok(expr),
        },
        _ => Ok(expr),
    }
}

/// The argument of `min` or `max` in its sortable form, and the type to go back to; none if it sorts as it is.
pub fn extreme(name: &str, args: &[Expr], types: &[Ty]) -> Result<Option<(Expr, ColumnType)>> {
    let ("min" | "max", [arg], [Ty::Known(ty)]) = (name, args, types) else { return Ok(None) };
    match (sortable_form(*ty), back(*ty)) {
        (Some(_), None) if ty.is_packed() && ty.allowed_in_key().is_err() => {
            let message = format!("{name} of values of type {ty} is not supported");
            fail(Error::not_supported(message))
        }
        (Some(form), back) if back.is_some() || ty.is_packed() => {
            Ok(Some((value_call(form, vec![arg.clone()], &[*ty])?, *ty)))
        }
        _ => Ok(None),
    }
}

/// The value of this type whose sortable form an expression is.
pub fn restored(expr: Expr, ty: ColumnType) -> Result<Expr> {
    match back(ty) {
        Some(name) => value_call(name, vec![expr], &[ColumnType::Blob]),
        None if ty.is_packed() => typed_call(nested::OF_ORDER, vec![expr], &[ColumnType::Blob], ty),
        None => Ok(expr),
    }
}
