//! Rows compared: with that of a subquery, and by IS DISTINCT FROM.
//!
//! ```text
//! (a, b) = (SELECT x, y …)            (SELECT (a, b) = (q.x, q.y) FROM q)
//! (a, b) IS DISTINCT FROM (c, d)      a IS DISTINCT FROM c OR b IS DISTINCT FROM d
//! ```

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SelectItem, SetExpr};
use keyspan_model::{Error, ErrorKind, Result};

use super::filled::parsed;
use super::row_member::{column, column_of_query, named, refuse_aggregate};
use crate::syntax::row_of;

/// Whether an expression is a row compared with a subquery.
pub fn is_one(expr: &Expr) -> bool {
    comparison(expr).is_some()
}

/// A row compared with that of a subquery, as a subquery that compares; `None` for anything else.
///
/// # Errors
/// 0A000 for an aggregate, which would be one of the subquery's.
pub fn with_subquery(expr: &Expr) -> Result<Option<Expr>> {
    let Some((row, op, query)) = comparison(expr) else { return Ok(None) };
    refuse_aggregate(&row)?;
    let names: Vec<String> = (0..row.len()).map(column).collect();
    let Expr::Subquery(mut found) = parsed("(SELECT 1 FROM q)")? else { return Ok(None) };
    if let SetExpr::Select(select) = found.body.as_mut() {
        let left = Box::new(Expr::Tuple(row));
        let right = Box::new(Expr::Tuple((0..names.len()).map(column_of_query).collect()));
        select.projection = vec![SelectItem::UnnamedExpr(Expr::BinaryOp { left, op: op.clone(), right })];
        if let Some(from) = select.from.first_mut() {
            from.relation = named(query, &names);
        }
    }
    Ok(Some(Expr::Subquery(found)))
}

/// The row, how it is compared, and the query that it is compared with.
fn comparison(expr: &Expr) -> Option<(Vec<Expr>, &BinaryOperator, &Query)> {
    use BinaryOperator as B;
    let Expr::BinaryOp { left, op: op @ (B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq), right } = expr else {
        return None;
    };
    let Expr::Subquery(query) = right.as_ref() else { return None };
    Some((row_of(left)?.into_iter().cloned().collect(), op, query))
}

/// `(a, b) IS DISTINCT FROM (c, d)` part by part; `None` for anything else.
///
/// # Errors
/// 42601 for rows of different lengths.
pub fn distinct(expr: &Expr) -> Result<Option<Expr>> {
    let (left, right, negated) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, right, false),
        Expr::IsNotDistinctFrom(left, right) => (left, right, true),
        _ => return Ok(None),
    };
    let Some((left, right)) = row_of(left).zip(row_of(right)) else { return Ok(None) };
    if left.len() != right.len() {
        return Err(Error::new(ErrorKind::Syntax, "unequal number of entries in row expressions"));
    }
    let pairs = left.iter().zip(right).map(|(left, right)| {
        let (left, right) = (Box::new((*left).clone()), Box::new((*right).clone()));
        if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) }
    });
    let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
    let all =
        pairs.reduce(|left, right| Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) });
    Ok(all.map(|all| Expr::Nested(Box::new(all))))
}
