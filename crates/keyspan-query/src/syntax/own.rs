//! The expressions of one query, those of the queries within it left aside.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, VisitMut, VisitorMut};
use keyspan_model::{Error, Result};

/// Calls a function for each expression of one query, the inner ones first.
///
/// # Errors
/// The first that the function fails with.
pub fn change_own(node: &mut impl VisitMut, change: impl FnMut(&mut Expr) -> Result<()>) -> Result<()> {
    match node.visit(&mut Own { change, depth: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Own<F> {
    change: F,
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
        match (self.change)(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
