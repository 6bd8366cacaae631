//! Subqueries that DataFusion would take for one another.
//!
//! It calls every subquery `(<subquery>)`, and knows aggregates, windows, groups and functions that give rows by the names of
//! what they are of. So each further subquery of a SELECT gets a name of its own there:
//!
//! ```text
//! max((SELECT 1)), max((SELECT 2)), max((SELECT 3))
//! max((SELECT 1)), max(coalesce((SELECT 2))), max(coalesce(coalesce((SELECT 3))))
//! ```
//!
//! Rule: those that are written alike stay alike, as in SELECT and GROUP BY.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SetExpr, VisitMut, VisitorMut};

use crate::syntax::{call, has_groups};

/// Tells the subqueries of a query apart, and those of the queries within it.
pub fn tell_apart(query: &mut Query) {
    let _ = query.visit(&mut Queries);
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => {
                    let mut own = Own::of(select);
                    let _ = select.projection.visit(&mut own);
                    let _ = select.group_by.visit(&mut own);
                    let _ = select.having.visit(&mut own);
                    let _ = query.order_by.visit(&mut own);
                }
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// The expressions of one SELECT.
struct Own {
    /// Whether all of them are named, and not only those in functions.
    grouped: bool,
    /// The subqueries so far that differ.
    seen: Vec<Expr>,
    /// How many functions and queries deep.
    functions: usize,
    queries: usize,
}

impl Own {
    fn of(select: &Select) -> Own {
        Own { grouped: has_groups(select), seen: Vec::new(), functions: 0, queries: 0 }
    }
}

impl VisitorMut for Own {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.functions += usize::from(matches!(expr, Expr::Function(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(_) => self.functions -= 1,
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. }
                if self.queries == 0 && (self.grouped || self.functions > 0) =>
            {
                let known = self.seen.iter().position(|seen| seen == expr);
                let number = known.unwrap_or(self.seen.len());
                if known.is_none() {
                    self.seen.push(expr.clone());
                }
                for _ in 0..number {
                    *expr = call("coalesce", vec![expr.clone()]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
