//! `percentile_cont(ARRAY[0.5, 0.9])` and `percentile_disc` of several fractions: an array of as many calls, NULL where
//! there is no row.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value, visit_expressions,
};
use keyspan_model::Result;
use keyspan_model::text::array;

use super::filled::{filled, parsed};
use crate::syntax::parts_of;

/// Whether there is such a call in an expression.
pub fn are_in(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Function(function) if fractions(function).is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The call as an array of calls; `None` for anything else.
///
/// # Errors
/// Those of parsing what it is made of.
pub fn expanded(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Function(function) = expr else { return Ok(None) };
    let Some(fractions) = fractions(function) else { return Ok(None) };
    let calls: Vec<Expr> = fractions.into_iter().map(|fraction| of(function, fraction)).collect();
    let names: Vec<String> = (0..calls.len()).map(|number| format!("p{number}")).collect();
    let least = of(function, parsed("0.0")?);
    let mut values: Vec<(&str, &Expr)> = names.iter().map(String::as_str).zip(&calls).collect();
    values.push(("least", &least));
    let text = format!("(CASE WHEN least IS NOT NULL THEN ARRAY[{}] END)", names.join(", "));
    filled(&text, &values).map(Some)
}

/// The fractions of a call that has several, or one in an array.
fn fractions(function: &Function) -> Option<Vec<Expr>> {
    let (None, name) = parts_of(&function.name)? else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    let known = matches!(name.as_str(), "percentile_cont" | "percentile_disc") && !function.within_group.is_empty();
    if known { elements(argument) } else { None }
}

fn elements(argument: &Expr) -> Option<Vec<Expr>> {
    match argument {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => elements(inner),
        Expr::Array(array) if !array.elem.is_empty() => Some(array.elem.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) if text.trim_start().starts_with('{') => {
                let fractions = array::elements(text).ok()?;
                let parse = |fraction: Option<String>| parsed(&fraction?).ok();
                fractions.into_iter().map(parse).collect::<Option<Vec<Expr>>>().filter(|all| !all.is_empty())
            }
            _ => None,
        },
        _ => None,
    }
}

fn of(function: &Function, fraction: Expr) -> Expr {
    let mut function = function.clone();
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(fraction))];
    }
    Expr::Function(function)
}
