//! Which calls in a parsed expression are aggregates.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{Expr, Visit};

use crate::syntax::{parts_of, visit_own};

/// Names of aggregates: of ours, of DataFusion's, and `every`, which is planned as another one.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let all = all_default_aggregate_functions().into_iter().chain(super::aggregate());
    let names = all.flat_map(|each| each.aliases().iter().cloned().chain([each.name().to_owned()]).collect::<Vec<_>>());
    names.chain(["every".to_owned()]).collect()
});

/// Whether an output column or an expression has an aggregate outside of subqueries, which is no window function.
pub fn has_aggregate(node: &impl Visit) -> bool {
    let found = visit_own(node, |expr| match is_aggregate(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = parts_of(&function.name).map(|(_, name)| name).unwrap_or_default();
    let aggregates = !function.within_group.is_empty() || name.ends_with("_agg") || AGGREGATES.contains(&name);
    function.over.is_none() && aggregates
}
