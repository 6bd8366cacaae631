//! `x LIKE ANY (patterns)` and `x LIKE ALL (patterns)`: one LIKE for each pattern. So it is of `x ~ ANY (patterns)`.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use keyspan_model::text::array::elements;
use keyspan_model::{ColumnType, Error, Result};

use crate::functions::{MATCHES_ALL, MATCHES_ANY};
use crate::syntax::{call, cast_to, parts_of};

/// The LIKEs of one over several patterns; none for another expression.
///
/// # Errors
/// 0A000 for ESCAPE where the patterns are not written out, 22P02 for a text that is no array.
pub fn expanded(expr: &Expr) -> Result<Option<Expr>> {
    if let Some((left, matching, right, op)) = matched(expr) {
        let Some(patterns) = patterns(right)? else {
            let sign = matching.to_string();
            return Ok(Some(computed(left, right, &sign, &op)));
        };
        let each = patterns.into_iter().map(|pattern| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: matching.clone(),
            right: Box::new(pattern),
        });
        return Ok(Some(joined(each, &op)));
    }
    let (Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. }) = expr else { return Ok(None) };
    let (list, op) = match (*any, of_all(pattern)) {
        (true, _) => (pattern.as_ref(), BinaryOperator::Or),
        (false, Some(list)) => (list, BinaryOperator::And),
        (false, None) => return Ok(None),
    };
    let Some(patterns) = patterns(list)? else { return computed_like(expr, list, &op).map(Some) };
    let each = patterns.into_iter().map(|one| {
        let mut like = expr.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut like {
            (*any, **pattern) = (false, one);
        }
        like
    });
    Ok(Some(joined(each, &op)))
}

/// The parts of `x ~ ANY (patterns)` and its like, and what joins one match for each.
fn matched(expr: &Expr) -> Option<(&Expr, &BinaryOperator, &Expr, BinaryOperator)> {
    use BinaryOperator as Op;
    let (left, matching, right, op) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, Op::Or),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, Op::And),
        _ => return None,
    };
    let matches = matches!(
        matching,
        Op::PGRegexMatch
            | Op::PGRegexIMatch
            | Op::PGRegexNotMatch
            | Op::PGRegexNotIMatch
            | Op::PGLikeMatch
            | Op::PGILikeMatch
            | Op::PGNotLikeMatch
            | Op::PGNotILikeMatch
    );
    (matches && !matches!(right.as_ref(), Expr::Subquery(_))).then(|| (left.as_ref(), matching, right.as_ref(), op))
}

fn joined(each: impl Iterator<Item = Expr>, op: &BinaryOperator) -> Expr {
    let nothing = Expr::Value(ast::Value::Boolean(*op == BinaryOperator::And).into());
    let all =
        each.reduce(|left, right| Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) });
    Expr::Nested(Box::new(all.unwrap_or(nothing)))
}

/// What stands in `ALL (…)`, which is read as a call.
fn of_all(pattern: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = pattern else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))] if parts_of(&function.name)? == (None, "all".into()) => {
            Some(only)
        }
        _ => None,
    }
}

/// The call for an array that is only known when it is computed.
fn computed(left: &Expr, list: &Expr, sign: &str, op: &BinaryOperator) -> Expr {
    let list = cast_to(array_of(list), ColumnType::list(ColumnType::Text));
    let sign = Expr::Value(ast::Value::SingleQuotedString(sign.to_owned()).into());
    let name = if *op == BinaryOperator::And { MATCHES_ALL } else { MATCHES_ANY };
    call(name, vec![left.clone(), list, sign])
}

/// The array; of a subquery the array of its rows.
fn array_of(list: &Expr) -> Expr {
    let (Expr::Subquery(query), mut array) = (list, call("array", Vec::new())) else { return list.clone() };
    if let Expr::Function(function) = &mut array {
        function.args = FunctionArguments::Subquery(query.clone());
    }
    array
}

fn computed_like(expr: &Expr, list: &Expr, op: &BinaryOperator) -> Result<Expr> {
    let (negated, left, escape, sign) = match expr {
        Expr::Like { negated, expr, escape_char, .. } => (*negated, expr, escape_char, "~~"),
        Expr::ILike { negated, expr, escape_char, .. } => (*negated, expr, escape_char, "~~*"),
        _ => return Err(Error::internal("no LIKE")),
    };
    if escape.is_some() {
        let error = Error::not_supported("ESCAPE with LIKE ANY and LIKE ALL of an array that is not written out");
        return Err(error.with_hint("Write EXISTS (SELECT 1 FROM unnest(patterns) AS p WHERE x LIKE p ESCAPE …)."));
    }
    let sign = if negated { format!("!{sign}") } else { sign.to_owned() };
    Ok(computed(left, list, &sign, op))
}

/// The patterns, where they are written out.
fn patterns(list: &Expr) -> Result<Option<Vec<Expr>>> {
    match list {
        Expr::Nested(inner) => patterns(inner),
        Expr::Cast { expr, .. } => patterns(expr),
        Expr::Array(array) => Ok(Some(array.elem.clone())),
        Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) => {
            let value = |text: Option<String>| match text {
                Some(text) => Expr::Value(ast::Value::SingleQuotedString(text).into()),
                None => Expr::Value(ast::Value::Null.into()),
            };
            Ok(Some(elements(text)?.into_iter().map(value).collect()))
        }
        _ => Ok(None),
    }
}
