//! IN lists as DataFusion's rules may take them.
//!
//! The rules make one list of two over the same expression, `x IN (1, 2) AND x NOT IN (2, 3)`, by which items are alike. That
//! is right for values and for nothing else: two columns may be equal, and `x NOT IN (2, NULL)` is never true. So where a plan
//! has several lists, each item that is no value becomes a comparison. And where the rules find that nothing is left, they
//! forget that `x` may be NULL: so two lists of literals are made one here.

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, binary_expr, lit, not};
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
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|part| Ok(joined(compared(part))))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
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

/// Two lists of literals over one expression as one, as far as the rules would make one of them.
fn joined(list: Transformed<Expr>) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &list.data else { return list };
    let (Expr::InList(first), Expr::InList(second)) = (left.as_ref(), right.as_ref()) else { return list };
    let literals = first.list.iter().chain(&second.list).all(|item| matches!(item, Expr::Literal(..)));
    if first.expr != second.expr || !literals || first.expr.is_volatile() {
        return list;
    }
    let same =
        |item: &Expr, other: &Expr| matches!((item, other), (Expr::Literal(a, _), Expr::Literal(b, _)) if a == b);
    let of = |list: &InList, others: &InList, shared: bool| {
        let in_others = |item: &&Expr| others.list.iter().any(|other| same(item, other)) == shared;
        list.list.iter().filter(in_others).cloned().collect::<Vec<_>>()
    };
    let left_over = match (op, first.negated, second.negated) {
        (Operator::And, false, false) | (Operator::Or, true, true) => of(first, second, true),
        (Operator::And, false, true) => of(first, second, false),
        (Operator::And, true, false) => of(second, first, false),
        _ => return list,
    };
    let (tested, negated) = (first.expr.clone(), *op == Operator::Or);
    let unknown = lit(ScalarValue::Boolean(None));
    Transformed::yes(match (left_over.is_empty(), negated) {
        (false, _) => Expr::InList(InList { expr: tested, list: left_over, negated }),
        (true, false) => binary_expr(Expr::IsNull(tested), Operator::And, unknown),
        (true, true) => binary_expr(Expr::IsNotNull(tested), Operator::Or, unknown),
    })
}

/// Whether an item is a value, and not NULL, before rows are looked at. Parameters are: where they are not replaced by
/// their values first, a plan has one list at most ([`crate::plan_cache`]).
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
