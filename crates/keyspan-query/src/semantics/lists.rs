//! IN lists as DataFusion's rules may take them.
//!
//! The rules make one list of two over the same expression, `x IN (1, 2) AND x NOT IN (2, 3)`, by which items are alike. That
//! is right for values and for nothing else: two columns may be equal, and `x NOT IN (2, NULL)` is never true. So where a plan
//! has several lists, each item that is no value becomes a comparison.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr, lit, not};
use datafusion::optimizer::AnalyzerRule;

/// The rule; it runs after types are coerced.
#[derive(Debug)]
pub struct ListsOfValues;

impl AnalyzerRule for ListsOfValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if count(&plan)? < 2 {
            return Ok(plan);
        }
        let changed = plan.transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| expr.transform_up(|part| Ok(compared(part))))
        });
        changed?.data.recompute_schema()
    }

    fn name(&self) -> &str {
        "lists_of_values"
    }
}

/// IN lists of a plan, subqueries included.
fn count(plan: &LogicalPlan) -> Result<usize> {
    let mut lists = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                lists += usize::from(matches!(part, Expr::InList(_)));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(lists)
}

fn compared(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(InList { expr: tested, list, negated }) = expr else { return Transformed::no(expr) };
    if tested.is_volatile() || list.iter().all(is_value) {
        return Transformed::no(Expr::InList(InList { expr: tested, list, negated }));
    }
    let (values, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_value);
    let list =
        (!values.is_empty()).then(|| Expr::InList(InList { expr: tested.clone(), list: values, negated: false }));
    let each = others.into_iter().map(|item| binary_expr((*tested).clone(), Operator::Eq, item));
    let any = list.into_iter().chain(each).reduce(|all, next| binary_expr(all, Operator::Or, next));
    match any {
        Some(any) => Transformed::yes(if negated { not(any) } else { any }),
        None => Transformed::yes(lit(negated)),
    }
}

/// Whether an item is a value, and not NULL, before rows are looked at. Parameters are: where they are not replaced by
/// their values first, a plan has one list at most ([`crate::kept`]).
fn is_value(item: &Expr) -> bool {
    let mut value = true;
    let walked = item.apply(|part| {
        value &= match part {
            Expr::Literal(scalar, _) => !scalar.is_null(),
            Expr::Placeholder(_)
            | Expr::Cast(_)
            | Expr::Negative(_)
            | Expr::BinaryExpr(_)
            | Expr::ScalarFunction(_) => true,
            _ => false,
        };
        Ok(if value { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && value && !item.is_volatile()
}
