//! `rank(v) WITHIN GROUP (ORDER BY x)` and its like: which place a row of these values would have in the group.
//!
//! ```text
//! rank(v)            1 + count(*) FILTER (WHERE x comes before v)
//! dense_rank(v)      1 + count(DISTINCT x) FILTER (WHERE x comes before v), and one for NULL
//! percent_rank(v)    rows before v / rows
//! cume_dist(v)       (rows before v or like it + 1) / (rows + 1)
//! ```

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr};
use keyspan_model::{Error, ErrorKind, Result};

use super::filled::{filled, parsed};
use crate::syntax::parts_of;

/// Whether an expression is such a call.
pub fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if name_of(function).is_some())
}

fn name_of(function: &Function) -> Option<String> {
    let (None, name) = parts_of(&function.name)? else { return None };
    let known = matches!(name.as_str(), "rank" | "dense_rank" | "percent_rank" | "cume_dist");
    (known && !function.within_group.is_empty()).then_some(name)
}

/// The call as counts of rows; `None` for anything else.
///
/// # Errors
/// 42883 where there are not as many values as sort expressions; 0A000 for `dense_rank` of several.
pub fn expanded(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Function(function) = expr else { return Ok(None) };
    let Some(name) = name_of(function) else { return Ok(None) };
    let values = arguments(function, &name)?;
    let pairs: Vec<(&OrderByExpr, &Expr)> = function.within_group.iter().zip(values).collect();
    let text = match name.as_str() {
        "rank" => "(1 + count(*) FILTER (WHERE b))",
        "dense_rank" if pairs.len() > 1 => {
            let error = Error::not_supported("dense_rank() WITHIN GROUP by several expressions is not supported");
            return Err(error.with_hint("Count rows of SELECT DISTINCT … that come before, or write rank()."));
        }
        "dense_rank" => {
            "(1 + count(DISTINCT x) FILTER (WHERE b) + CASE WHEN count(*) FILTER (WHERE (x IS NULL) AND b) > 0 THEN 1 \
             ELSE 0 END)"
        }
        "percent_rank" => {
            "(CASE WHEN count(*) FILTER (WHERE w) = 0 THEN 0.0::float8 ELSE count(*) FILTER (WHERE b)::float8 / \
             count(*) FILTER (WHERE w) END)"
        }
        _ => "((count(*) FILTER (WHERE b OR e) + 1)::float8 / (count(*) FILTER (WHERE w) + 1))",
    };
    let filter = function.filter.as_deref();
    let before = filtered(filter, before(&pairs)?)?;
    let equal = filtered(filter, equal(&pairs)?)?;
    let all = filtered(filter, parsed("true")?)?;
    let first = &pairs[0].0.expr;
    filled(text, &[("b", &before), ("e", &equal), ("w", &all), ("x", first)]).map(Some)
}

/// The values of the row, one for each sort expression.
fn arguments<'a>(function: &'a Function, name: &str) -> Result<Vec<&'a Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return Err(Error::new(ErrorKind::UndefinedFunction, format!("function {name}() does not exist")));
    };
    let values = list.args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    });
    let values: Vec<&Expr> = values.collect();
    if values.len() == function.within_group.len() && function.over.is_none() {
        return Ok(values);
    }
    let message = format!(
        "function {name} of {} arguments WITHIN GROUP by {} expressions does not exist",
        values.len(),
        function.within_group.len()
    );
    let hint = "The row has a value for each sort expression, and the call is no window function.";
    Err(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint))
}

/// The row comes before the values: by the first expression, or alike by it and before them by the rest.
fn before(pairs: &[(&OrderByExpr, &Expr)]) -> Result<Expr> {
    let Some(((order, value), rest)) = pairs.split_first() else { return parsed("false") };
    let descending = order.options.asc == Some(false);
    let nulls_first = order.options.nulls_first.unwrap_or(descending);
    let sign = if descending { ">" } else { "<" };
    let strictly = filled(
        &format!(
            "(CASE WHEN x IS NULL AND v IS NULL THEN false WHEN x IS NULL THEN {nulls_first} WHEN v IS NULL THEN {} \
             ELSE x {sign} v END)",
            !nulls_first
        ),
        &[("x", &order.expr), ("v", value)],
    )?;
    if rest.is_empty() {
        return Ok(strictly);
    }
    either(strictly, both(alike(order, value)?, before(rest)?)?)
}

fn equal(pairs: &[(&OrderByExpr, &Expr)]) -> Result<Expr> {
    pairs.iter().try_fold(parsed("true")?, |all, (order, value)| both(all, alike(order, value)?))
}

fn alike(order: &OrderByExpr, value: &Expr) -> Result<Expr> {
    filled("(x IS NOT DISTINCT FROM v)", &[("x", &order.expr), ("v", value)])
}

fn filtered(filter: Option<&Expr>, condition: Expr) -> Result<Expr> {
    match filter {
        Some(filter) => both(filter.clone(), condition),
        None => Ok(condition),
    }
}

fn both(left: Expr, right: Expr) -> Result<Expr> {
    filled("(x AND v)", &[("x", &left), ("v", &right)])
}

fn either(left: Expr, right: Expr) -> Result<Expr> {
    filled("(x OR v)", &[("x", &left), ("v", &right)])
}
