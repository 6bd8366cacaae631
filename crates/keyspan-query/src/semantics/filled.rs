//! Expressions from texts in which names stand for others: `x IS NULL` over an expression for `x`.
//!
//! What is put in is never looked through for names itself.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, TableFactor, VisitMut, VisitorMut};
use keyspan_model::{Error, Result};

use super::subquery::derived;
use crate::syntax::{parsed_expression, parts_of};

/// An expression from its text.
pub fn parsed(text: &str) -> Result<Expr> {
    parsed_expression(text).map_err(|error| Error::internal(format!("{text}: {error}")))
}

/// The expression of a text, with these for its names.
pub(super) fn filled(text: &str, values: &[(&str, &Expr)]) -> Result<Expr> {
    fill(text, Filling { values, query: None })
}

/// The expression of a text over a query, which it calls `q`, and whose one column it calls `c`.
pub(super) fn over(text: &str, query: &Query, values: &[(&str, &Expr)]) -> Result<Expr> {
    fill(text, Filling { values, query: Some(query) })
}

fn fill(text: &str, mut filling: Filling<'_>) -> Result<Expr> {
    let mut expr = parsed(text)?;
    let _ = expr.visit(&mut filling);
    Ok(expr)
}

struct Filling<'a> {
    values: &'a [(&'a str, &'a Expr)],
    query: Option<&'a Query>,
}

impl VisitorMut for Filling<'_> {
    type Break = ();

    // Behind its parts: what is put in is not visited.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = &*expr
            && name.quote_style.is_none()
            && let Some((_, value)) = self.values.iter().find(|(own, _)| *own == name.value)
        {
            *expr = operand(value);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let (TableFactor::Table { name, .. }, Some(query)) = (&*factor, self.query)
            && parts_of(name).is_some_and(|(schema, name)| schema.is_none() && name == "q")
        {
            *factor = derived(query, &["c"]);
        }
        ControlFlow::Continue(())
    }
}

/// In parentheses, unless it needs none beside any operator.
fn operand(value: &Expr) -> Expr {
    match value {
        Expr::Function(_)
        | Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Array(_)
        | Expr::Nested(_) => value.clone(),
        other => Expr::Nested(Box::new(other.clone())),
    }
}
