//! The expressions of one query, those of the queries within it left aside.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, Visit, VisitMut, Visitor, VisitorMut, visit_expressions,
};
use keyspan_model::{Error, Result};

use super::parts_of;

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

/// Whether an output column or an expression has an aggregate outside of subqueries.
pub fn has_aggregate(node: &impl Visit) -> bool {
    struct Finder {
        depth: usize,
    }
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = parts_of(&function.name).map(|(_, name)| name).unwrap_or_default();
            let known =
                ["count", "min", "max", "sum", "avg", "array_agg", "string_agg", "bool_and", "bool_or", "every"];
            let json = name.ends_with("_agg");
            match self.depth == 0 && (json || known.contains(&name.as_str())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    node.visit(&mut Finder { depth: 0 }).is_break()
}

/// Whether some SELECT gives several rows for one of its FROM: `SELECT id, unnest(list) FROM t`.
pub fn expands(query: &Query) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
            if grouped || select.from.is_empty() {
                return ControlFlow::Continue(());
            }
            select.projection.iter().try_for_each(calls_unnest)
        }
    }
    query.visit(&mut Finder).is_break()
}

fn calls_unnest(item: &SelectItem) -> ControlFlow<()> {
    visit_expressions(item, |expr| match expr {
        Expr::Function(call) if parts_of(&call.name).is_some_and(|(_, name)| name == "unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
}
