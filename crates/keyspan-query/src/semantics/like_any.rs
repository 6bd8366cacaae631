//! `x LIKE ANY (patterns)` and `x LIKE ALL (patterns)`: one LIKE for each pattern. So it is of `x ~ ANY (patterns)`.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use keyspan_model::text::array::elements;
use keyspan_model::{Error, Result};

use crate::syntax::parts_of;

/// The LIKEs of one over several patterns; none for another expression.
///
/// # Errors
/// 0A000 where the patterns are not written out, 22P02 for a text that is no array.
pub fn expanded(expr: &Expr) -> Result<Option<Expr>> {
    if let Some((left, matching, right, op)) = matched(expr) {
        let each = patterns(right)?.into_iter().map(|pattern| Expr::BinaryOp {
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
    let each = patterns(list)?.into_iter().map(|one| {
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

fn patterns(list: &Expr) -> Result<Vec<Expr>> {
    match list {
        Expr::Nested(inner) => patterns(inner),
        Expr::Cast { expr, .. } => patterns(expr),
        Expr::Array(array) => Ok(array.elem.clone()),
        Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) => {
            let value = |text: Option<String>| match text {
                Some(text) => Expr::Value(ast::Value::SingleQuotedString(text).into()),
                None => Expr::Value(ast::Value::Null.into()),
            };
            Ok(elements(text)?.into_iter().map(value).collect())
        }
        _ => {
            let error = Error::not_supported("LIKE ANY and LIKE ALL of an array that is not written out");
            Err(error.with_hint("Write EXISTS (SELECT 1 FROM unnest(patterns) AS p WHERE x LIKE p)."))
        }
    }
}
