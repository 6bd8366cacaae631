//! `percentile_disc` and `mode`: of the array of the group's values, in their order.
//!
//! ```text
//! percentile_disc(f) WITHIN GROUP (ORDER BY x)    percentile_of(array_agg(x ORDER BY x) FILTER (WHERE x IS NOT NULL), f)
//! mode() WITHIN GROUP (ORDER BY x)                mode_of(array_agg(x ORDER BY x) FILTER (WHERE x IS NOT NULL))
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName,
};
use keyspan_model::{Error, Result};

use crate::functions::array::{MODE, PERCENTILE};
use crate::syntax::call;

/// Whether a call is one of them.
pub fn is_ordered_set(function: &Function, name: &str) -> bool {
    matches!(name, "percentile_disc" | "mode") && !function.within_group.is_empty()
}

/// The call over an array. `mark` is put around the call that collects it.
///
/// # Errors
/// 0A000 for window calls, several columns in ORDER BY, and what is no such call.
pub fn over_array(function: Function, name: &str, mark: impl FnOnce(Expr) -> Expr) -> Result<Expr> {
    let refused = |what: &str| Err(Error::not_supported(format!("{name}() {what} is not supported")));
    if function.over.is_some() {
        return refused("as a window function");
    }
    let [order] = function.within_group.as_slice() else {
        return refused("by several expressions");
    };
    let FunctionArguments::List(list) = &function.args else { return refused("of a subquery") };
    let (taken, fraction) = match (name, list.args.as_slice()) {
        ("mode", []) => (MODE, None),
        ("percentile_disc", [FunctionArg::Unnamed(FunctionArgExpr::Expr(fraction))]) => {
            (PERCENTILE, Some(fraction.clone()))
        }
        _ => return refused("with these arguments"),
    };
    let there = Expr::IsNotNull(Box::new(order.expr.clone()));
    let filter = match &function.filter {
        None => there,
        Some(own) => {
            let own = Box::new(Expr::Nested(own.clone()));
            Expr::BinaryOp { left: own, op: BinaryOperator::And, right: Box::new(there) }
        }
    };
    let args = FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(order.expr.clone()))],
        clauses: vec![FunctionArgumentClause::OrderBy(vec![order.clone()])],
    });
    let collected = Function {
        name: ObjectName::from(vec![Ident::new("array_agg")]),
        args,
        filter: Some(Box::new(filter)),
        within_group: Vec::new(),
        ..function
    };
    Ok(call(taken, std::iter::once(mark(Expr::Function(collected))).chain(fraction).collect()))
}
