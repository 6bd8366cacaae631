//! `(a, b) IN (SELECT x, y …)`, which DataFusion does not plan: as EXISTS.
//!
//! ```text
//! WHERE (a, b) IN (q)        EXISTS (SELECT 1 FROM q WHERE a = q.x AND b = q.y)
//! WHERE (a, b) NOT IN (q)    NOT EXISTS (SELECT 1 FROM q WHERE (a = q.x AND b = q.y) IS NOT FALSE)
//! elsewhere                  CASE WHEN EXISTS (… equal) THEN true WHEN EXISTS (… unknown) THEN NULL ELSE false END
//! ```

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Query, Select, SetExpr};
use keyspan_model::Result;

use super::subquery::{derived, parsed};

/// Changes the conditions that a WHERE or HAVING is made of, where only what is true counts.
///
/// # Errors
/// None that a user can cause.
pub fn in_conditions(select: &mut Select) -> Result<()> {
    select.selection.iter_mut().chain(&mut select.having).try_for_each(condition)
}

fn condition(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            condition(left)?;
            condition(right)
        }
        Expr::Nested(inner) => condition(inner),
        Expr::InSubquery { expr: value, subquery, negated } => {
            if let Some(equal) = equal(value) {
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
    let Some(equal) = equal(value) else { return Ok(None) };
    let answers = if *negated { "false WHEN u THEN NULL ELSE true" } else { "true WHEN u THEN NULL ELSE false" };
    let mut case = parsed(&format!("CASE WHEN e THEN {answers} END"))?;
    if let Expr::Case { conditions, .. } = &mut case
        && let [found, unknown] = conditions.as_mut_slice()
    {
        found.condition = exists(subquery, value, equal.clone(), false)?;
        unknown.condition = exists(subquery, value, Expr::IsUnknown(Box::new(Expr::Nested(Box::new(equal)))), false)?;
    }
    Ok(Some(Expr::Nested(Box::new(case))))
}

/// Whether an expression is a row in a subquery.
pub fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery { expr, .. } if matches!(expr.as_ref(), Expr::Tuple(_)))
}

/// A name of the query's column that no other column has.
fn column(place: usize) -> String {
    format!("\u{1}c{place}")
}

/// Whether all parts of a row equal the query's columns; `None` if it is no row.
fn equal(value: &Expr) -> Option<Expr> {
    let Expr::Tuple(parts) = value else { return None };
    let pairs = parts.iter().enumerate().map(|(place, part)| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(part.clone()))),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::CompoundIdentifier(vec![Ident::new("q"), Ident::with_quote('"', column(place))])),
    });
    let both = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    pairs.reduce(both).map(|equal| Expr::Nested(Box::new(equal)))
}

fn exists(query: &Query, value: &Expr, condition: Expr, negated: bool) -> Result<Expr> {
    let count = if let Expr::Tuple(parts) = value { parts.len() } else { 0 };
    let names: Vec<String> = (0..count).map(column).collect();
    let Expr::Subquery(mut found) = parsed("(SELECT 1 FROM q)")? else {
        return Ok(condition);
    };
    if let SetExpr::Select(select) = found.body.as_mut() {
        select.selection = Some(condition);
        if let Some(from) = select.from.first_mut() {
            from.relation = derived(query, &names);
        }
    }
    Ok(Expr::Exists { subquery: found, negated })
}
