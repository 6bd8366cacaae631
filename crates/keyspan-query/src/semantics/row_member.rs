//! IN over a subquery as EXISTS: of rows, `(a, b) IN (SELECT x, y …)`, which DataFusion does not plan, and of values
//! where its plan forgets what is unknown.
//!
//! ```text
//! WHERE (a, b) IN (q)        EXISTS (SELECT 1 FROM q WHERE a = q.x AND b = q.y)
//! WHERE (a, b) NOT IN (q)    NOT EXISTS (SELECT 1 FROM q WHERE (a = q.x AND b = q.y) IS NOT FALSE)
//! elsewhere                  CASE WHEN EXISTS (… equal) THEN true WHEN EXISTS (… unknown) THEN NULL ELSE false END
//! ```
//!
//! So is `x IN (SELECT y …)` of one value where it matters that it is unknown and not false: `(x NOT IN (q)) IS NULL`,
//! `NOT (x IN (q) AND …)`. There DataFusion's join forgets it.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, Select, SetExpr, TableFactor, UnaryOperator,
    Value,
};
use keyspan_model::{Error, ErrorKind, Result};

use super::filled::parsed;
use super::subquery::{derived, member};
use crate::functions::has_aggregate;
use crate::syntax::{QUERY, change_own, row_of};

/// Changes the conditions that a WHERE or HAVING is made of, where only what is true counts.
///
/// # Errors
/// None that a user can cause.
pub fn in_conditions(select: &mut Select) -> Result<()> {
    select.selection.iter_mut().chain(&mut select.having).try_for_each(|expr| {
        change_own(expr, |part| {
            if let Some(member) = member(part) {
                *part = member;
            }
            Ok(())
        })?;
        condition(expr)?;
        true_or_not(expr)
    })
}

/// Changes what is not asked only whether it is true. Under AND, OR, and NOT alone, `not_in` gives NULL its due.
fn true_or_not(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            true_or_not(left)?;
            true_or_not(right)
        }
        Expr::Nested(inner) => true_or_not(inner),
        Expr::InSubquery { .. } => Ok(()),
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } if is_member(inner) => Ok(()),
        other => change_own(other, answer),
    }
}

fn is_member(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_member(inner),
        other => matches!(other, Expr::InSubquery { .. }),
    }
}

/// IN with all three answers; leaves anything else.
fn answer(expr: &mut Expr) -> Result<()> {
    if let Expr::InSubquery { expr: value, subquery, negated } = &*expr {
        *expr = answered(value, subquery, *negated)?;
    }
    Ok(())
}

fn condition(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            condition(left)?;
            condition(right)
        }
        Expr::Nested(inner) => condition(inner),
        Expr::InSubquery { expr: value, subquery, negated } => {
            if row_of(value).is_some() {
                let equal = equal(value)?;
                let found = if *negated { Expr::IsNotFalse(Box::new(equal)) } else { equal };
                *expr = exists(subquery, value, found, *negated)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The same with all three answers; `None` for anything else.
///
/// # Errors
/// None that a user can cause.
pub fn anywhere(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::InSubquery { expr: value, subquery, negated } = expr else { return Ok(None) };
    if row_of(value).is_none() {
        return Ok(None);
    }
    answered(value, subquery, *negated).map(Some)
}

fn answered(value: &Expr, subquery: &Query, negated: bool) -> Result<Expr> {
    let equal = equal(value)?;
    let answers = if negated { "false WHEN u THEN NULL ELSE true" } else { "true WHEN u THEN NULL ELSE false" };
    let mut case = parsed(&format!("CASE WHEN e THEN {answers} END"))?;
    if let Expr::Case { conditions, .. } = &mut case
        && let [found, unknown] = conditions.as_mut_slice()
    {
        found.condition = exists(subquery, value, equal.clone(), false)?;
        unknown.condition = exists(subquery, value, Expr::IsUnknown(Box::new(Expr::Nested(Box::new(equal)))), false)?;
    }
    Ok(Expr::Nested(Box::new(case)))
}

/// Whether an expression is a row in a subquery.
pub fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery { expr, .. } if row_of(expr).is_some())
}

/// The query under its name, with these names for its columns.
pub(super) fn named(query: &Query, names: &[String]) -> TableFactor {
    let mut relation = derived(query, names);
    if let TableFactor::Derived { alias: Some(alias), .. } = &mut relation {
        alias.name = Ident::with_quote('"', QUERY);
    }
    relation
}

/// `SELECT * FROM (query) AS q (names …)`.
///
/// # Errors
/// None that a user can cause.
pub(crate) fn rows_of(query: &Query, names: &[String]) -> Result<Query> {
    let Expr::Subquery(mut rows) = parsed("(SELECT * FROM q)")? else { return Ok(query.clone()) };
    if let SetExpr::Select(select) = rows.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        from.relation = named(query, names);
    }
    Ok(*rows)
}

/// The column at a place of the query under its name.
pub(super) fn column_of_query(place: usize) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', QUERY), Ident::with_quote('"', column(place))])
}

/// 0A000 for an aggregate, which would be one of the subquery's.
pub(super) fn refuse_aggregate(parts: &[Expr]) -> Result<()> {
    if !parts.iter().any(has_aggregate) {
        return Ok(());
    }
    let error = Error::not_supported("an aggregate compared with the rows of a subquery is not supported here");
    Err(error.with_hint("Compute it in a subquery: SELECT * FROM (SELECT count(*) AS n …) AS q WHERE n IN (SELECT …)."))
}

/// A name of the query's column that no other column has.
pub(super) fn column(place: usize) -> String {
    format!("\u{1}c{place}")
}

/// What the query's columns are compared with: the parts of a row, or the one value.
fn parts_of(value: &Expr) -> Vec<Expr> {
    match row_of(value) {
        Some(parts) => parts.into_iter().cloned().collect(),
        None => vec![value.clone()],
    }
}

/// Whether all parts of a row equal the query's columns.
///
/// # Errors
/// 42601 for an empty row; 0A000 for an aggregate, which would be one of the subquery's.
fn equal(value: &Expr) -> Result<Expr> {
    let parts = parts_of(value);
    refuse_aggregate(&parts)?;
    let pairs = parts.into_iter().enumerate().map(|(place, part)| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(part))),
        op: BinaryOperator::Eq,
        right: Box::new(column_of_query(place)),
    });
    let both = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    let equal = pairs.reduce(both).ok_or_else(|| Error::new(ErrorKind::Syntax, "a row in IN has no values"))?;
    Ok(Expr::Nested(Box::new(equal)))
}

/// The query without an order by places of its columns, of which there are so many: it says nothing about which values are
/// in it, and would put a column of the outer query beside its groups.
fn unordered(query: &Query, columns: usize) -> Query {
    let place = |by: &OrderByExpr| match &by.expr {
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => place.parse().is_ok_and(|place| (1..=columns).contains(&place)),
            _ => false,
        },
        _ => false,
    };
    let mut query = query.clone();
    if let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = &query.order_by
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && by.iter().all(place)
    {
        query.order_by = None;
    }
    query
}

fn exists(query: &Query, value: &Expr, condition: Expr, negated: bool) -> Result<Expr> {
    let names: Vec<String> = (0..parts_of(value).len()).map(column).collect();
    let Expr::Subquery(mut found) = parsed("(SELECT 1 FROM q)")? else {
        return Ok(condition);
    };
    if let SetExpr::Select(select) = found.body.as_mut() {
        select.selection = Some(condition);
        if let Some(from) = select.from.first_mut() {
            from.relation = named(&unordered(query, names.len()), &names);
        }
    }
    Ok(Expr::Exists { subquery: found, negated })
}
