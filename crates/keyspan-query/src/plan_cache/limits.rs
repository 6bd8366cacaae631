//! `LIMIT $1`: an execution looks for the plan of its value, as if that stood in the text. So a statement that always asks
//! for the same number of rows is planned once. OFFSET stays a parameter that is planned anew: pages have many.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan};

/// Whether a LIMIT, and no OFFSET, is a parameter.
pub fn has_limit_parameter(plan: &LogicalPlan) -> bool {
    let (mut limit, mut offset) = (false, false);
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(own) = node {
            limit |= own.fetch.as_deref().is_some_and(has_parameter);
            offset |= own.skip.as_deref().is_some_and(has_parameter);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_ok() && limit && !offset
}

fn has_parameter(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_)))).unwrap_or(false)
}

/// The plan with these values of its LIMITs; `None` for one that is no number of rows, which planning says better.
pub fn with_limits(plan: &LogicalPlan, given: &[ScalarValue]) -> Option<LogicalPlan> {
    let filled = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(Limit { skip, fetch: Some(fetch), input }) if has_parameter(&fetch) => {
            let rows = rows(*fetch, given);
            Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip, fetch: Some(Box::new(rows)), input })))
        }
        node => Ok(Transformed::no(node)),
    });
    let filled = filled.data().ok()?;
    (!has_limit_parameter(&filled)).then_some(filled)
}

/// The LIMIT as a literal; as it is where its value is none.
fn rows(limit: Expr, given: &[ScalarValue]) -> Expr {
    let value = parameter(&limit).and_then(|place| {
        let number = place.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
        let value = given.get(number).filter(|value| value.data_type().is_integer())?;
        let value = value.cast_to(&DataType::Int64).ok()?;
        matches!(value, ScalarValue::Int64(Some(0..))).then_some(value)
    });
    value.map_or(limit, |value| Expr::Literal(value, None))
}

/// The parameter that an expression is, under a cast to bigint or not.
fn parameter(expr: &Expr) -> Option<&Placeholder> {
    match expr {
        Expr::Placeholder(place) => Some(place),
        Expr::Cast(cast) => parameter(&cast.expr),
        Expr::ScalarFunction(call) if call.name().starts_with("cast_to") => match call.args.as_slice() {
            [arg] => parameter(arg),
            _ => None,
        },
        _ => None,
    }
}
