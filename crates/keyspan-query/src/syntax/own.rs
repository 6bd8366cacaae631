//! The expressions of one query, those of the queries within it left aside.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, Visit, VisitMut, Visitor, VisitorMut, visit_expressions,
    visit_relations,
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

/// Names of aggregates: DataFusion's, and others that have no name ending in `_agg`.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let own = ["every", "percentile_disc", "mode", "first", "last", "arg_min", "arg_max", "histogram", "rate", "delta"];
    let all = all_default_aggregate_functions().into_iter();
    let all = all.flat_map(|each| each.aliases().iter().cloned().chain([each.name().to_owned()]).collect::<Vec<_>>());
    all.chain(own.map(str::to_owned)).collect()
});

/// Whether an output column or an expression has an aggregate outside of subqueries, which is no window function.
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
            let aggregates = name.ends_with("_agg") || AGGREGATES.contains(&name);
            match self.depth == 0 && function.over.is_none() && aggregates {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    node.visit(&mut Finder { depth: 0 }).is_break()
}

/// The names of the tables of which some SELECT makes more rows: `SELECT id, unnest(list) FROM t`.
pub fn expanded(query: &Query) -> BTreeSet<String> {
    #[derive(Default)]
    struct Finder {
        names: BTreeSet<String>,
    }
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
            if !grouped && select.projection.iter().any(calls_unnest) {
                let _ = visit_relations(&select.from, |name| {
                    self.names.extend(parts_of(name).map(|(_, name)| name));
                    ControlFlow::<()>::Continue(())
                });
            }
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder::default();
    let _ = query.visit(&mut finder);
    finder.names
}

fn calls_unnest(item: &SelectItem) -> bool {
    let found = visit_expressions(item, |expr| match expr {
        Expr::Function(call) if parts_of(&call.name).is_some_and(|(_, name)| name == "unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
