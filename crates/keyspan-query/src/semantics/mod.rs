//! Where DataFusion and Postgres disagree: the hooks through which Postgres' answer is given.
//!
//! Every list here is used by [`crate::engine`] (rules, planners) or `crate::binder` (the statement's text as a tree),
//! for queries and for [`crate::CompiledExprs`] alike.
//!
//! ```text
//! tree ─▶ mark ─▶ planner ─▶ operator | cast | call ─▶ comparisons of one type, calls of crate::functions
//!         places   types known, from the leaves up
//! ```
//!
//! - `mark`: makes every place where types decide visible to the planner.
//! - `planner`: literals, CASE, IN, BETWEEN, LIKE. `branches`: the one type of several branches.
//! - `operator`: operators. `cast`: casts of expressions. What types and values give is in [`crate::types`].
//! - `call`: which function a call means.
//! - `frame`: the frames of windows.
//! - `window_names`: windows by name.
//! - `series`: aggregates over time that another aggregate is; arguments given by name.
//! - `lists`: IN lists as the optimizer may take them.
//! - `correct`: what is put right in a plan before it is analyzed: `union`, `nullable`, `sort_key`,
//!   `row_order`.
//! - `alike`: groups and sets of values that are equal though their forms differ; `alike_subqueries`: subqueries that
//!   have one name.
//! - `order`: sorting by what a type's Arrow form does not sort by; `sort_key`: by subqueries.
//! - `subquery`: ANY, ALL, EXISTS and other forms that another form answers; `member`: IN outside of WHERE; `relation`:
//!   functions in FROM; `json_rows`: functions of JSON that give rows.
//! - `recursive`: what WITH RECURSIVE may not have; `with`: CTEs that are named several times; `set_all`:
//!   EXCEPT ALL and INTERSECT ALL; `referring_values`: VALUES of what only queries compute; `set_order`: ORDER BY beside
//!   functions that give rows.
//! - `array`: ARRAY[…]; `quantified`: ANY and ALL of arrays; `like_any`: of patterns; `ordered_set`:
//!   percentile_disc and mode; `hypothetical`: `rank(v) WITHIN GROUP`. `ties`: FETCH FIRST … WITH TIES.
//! - `variant`: variants beside values of one type; `vector`: what similarities and distances compare.
//! - `access`: fields of rows, subscripts of lists; `nested_types`: the types that casts name, and tuples as values.
//! - `union`: the types of UNION's columns.
//! - `outer`: names that only an enclosing query can mean.
//! - `label`: names of output columns; `user`: where that word is the function.

mod access;
mod alike;
mod alike_subqueries;
mod array;
mod branches;
mod call;
mod cast;
mod correct;
mod filled;
mod frame;
mod hypothetical;
mod json_rows;
mod label;
mod lateral;
mod like_any;
mod lists;
mod mark;
mod member;
mod nested;
mod nested_types;
mod nullable;
mod operator;
mod order;
mod ordered_set;
mod outer;
mod percentiles;
mod planner;
mod quantified;
mod recursive;
mod referring_values;
mod relation;
mod row_comparison;
mod row_member;
mod row_order;
mod series;
mod set_all;
mod set_order;
mod short_names;
mod sort_key;
mod subquery;
#[cfg(test)]
mod tests;
mod ties;
mod union;
mod user;
mod values;
mod variant;
mod vector;
mod window_names;
mod with;
mod with_names;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::logical_expr::planner::{ExprPlanner, TypePlanner};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{self, VisitMut};
use keyspan_model::Result;

pub use correct::corrected;
pub(crate) use filled::parsed;
pub use label::{label, label_of};
pub use mark::merged as merged_column;
pub use nested::{json_of, json_of_nested};
pub use nested_types::TypeNames;
pub(crate) use nullable::OR_NULL;
pub(crate) use row_member::rows_of;
pub(crate) use subquery::{expand, expand_expression};
pub use union::UnionRelation;
pub use values::ValuesRelation;

/// Rules that run before DataFusion's own analysis (which coerces types).
pub fn analyzer_rules_before() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![Arc::new(order::SortableForms)]
}

/// Rules that run after types are coerced.
pub fn analyzer_rules_after() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![Arc::new(lists::ListsOfValues)]
}

/// Planners of operators and literals; asked before DataFusion's own.
pub fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![Arc::new(planner::PostgresPlanner)]
}

/// The planner of type names.
pub fn type_planner() -> Option<Arc<dyn TypePlanner>> {
    None
}

/// Changes a query before it is planned; called once for a statement, views' queries included. Comes last, since marks
/// hide what other changes look for.
///
/// # Errors
/// What Postgres refuses and DataFusion would not.
pub fn rewrite_query(query: &mut ast::Query) -> Result<()> {
    alike_subqueries::tell_apart(query);
    into_result(query.visit(&mut mark::Marker::default()))
}

/// Changes a single expression before it is compiled; also called for CHECK, DEFAULT and SET.
///
/// # Errors
/// As [`rewrite_query`].
pub fn rewrite_expression(expression: &mut ast::Expr) -> Result<()> {
    into_result(expression.visit(&mut mark::Marker::default()))
}

fn into_result(flow: ControlFlow<keyspan_model::Error>) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
