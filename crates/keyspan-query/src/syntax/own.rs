//! The expressions of one query, those of the queries within it left aside.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, VisitMut, Visitor, VisitorMut};
use keyspan_model::{Error, Result};

/// Calls a function for each expression of one query, the inner ones first.
///
/// # Errors
/// The first that the function fails with.
pub fn change_own(node: &mut impl VisitMut, change: impl FnMut(&mut Expr) -> Result<()>) -> Result<()> {
    match node.visit(&mut Own { each: change, depth: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Calls a function for each expression of one query until it breaks off, the outer ones first.
pub fn visit_own<B>(node: &impl Visit, visit: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    node.visit(&mut Own { each: visit, depth: 0 })
}

struct Own<F> {
    each: F,
    /// How many queries deep.
    depth: usize,
}

impl<F: FnMut(&mut Expr) -> Result<()>> VisitorMut for Own<F> {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match (self.each)(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Own<F> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        match self.depth {
            0 => (self.each)(expr),
            _ => ControlFlow::Continue(()),
        }
    }
}
