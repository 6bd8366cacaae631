//! EXCEPT ALL and INTERSECT ALL, which count equal rows: as EXCEPT and INTERSECT of rows that are numbered among their
//! equals.
//!
//! ```text
//! a EXCEPT ALL b    SELECT * without n FROM (   SELECT *, row_number() OVER (PARTITION BY q) AS n FROM (a) AS q
//!                                        EXCEPT SELECT *, row_number() OVER (PARTITION BY q) AS n FROM (b) AS q) AS q
//! ```

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, SelectItem, SetExpr, SetOperator, SetQuantifier,
};
use keyspan_model::{Error, Result};

use super::filled::parsed;
use super::subquery::derived;

/// The row's number among its equals.
const NUMBER: &str = "\u{1}number";

/// Changes such an operation; leaves every other one.
///
/// # Errors
/// None that a user can cause.
pub fn numbered(body: &mut SetExpr) -> Result<()> {
    let SetExpr::SetOperation {
        op: SetOperator::Except | SetOperator::Intersect,
        set_quantifier: quantifier @ SetQuantifier::All,
        left,
        right,
    } = body
    else {
        return Ok(());
    };
    *quantifier = SetQuantifier::None;
    for side in [left, right] {
        let text = format!("(SELECT *, row_number() OVER (PARTITION BY q) AS \"{NUMBER}\" FROM q)");
        **side = over(&text, side)?;
    }
    let mut whole = over("(SELECT * FROM q)", body)?;
    if let SetExpr::Select(select) = &mut whole
        && let Some(SelectItem::Wildcard(options)) = select.projection.first_mut()
    {
        let number = ObjectName::from(vec![Ident::with_quote('"', NUMBER)]);
        options.opt_exclude = Some(ExcludeSelectItem::Single(number));
    }
    *body = whole;
    Ok(())
}

/// The SELECT of this text, whose table `q` is the operand.
fn over(text: &str, operand: &SetExpr) -> Result<SetExpr> {
    let (Expr::Subquery(mut around), Expr::Subquery(mut inner)) = (parsed(text)?, parsed("(SELECT 1)")?) else {
        return Err(Error::internal(format!("{text} is no subquery")));
    };
    *inner.body = operand.clone();
    if let SetExpr::Select(select) = around.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        from.relation = derived(&inner, &[""; 0]);
    }
    Ok(*around.body)
}
