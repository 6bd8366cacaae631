//! Where DataFusion and Postgres disagree: the hooks through which Postgres' answer is given.
//!
//! Every list here is used by [`crate::engine`] (rules, planners) or [`crate::rewrite`] (the statement's text as a tree),
//! for queries and for [`crate::CompiledExprs`] alike.

mod label;

use std::sync::Arc;

use datafusion::logical_expr::planner::{ExprPlanner, TypePlanner};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast;
use keyspan_model::Result;

pub use label::label;

/// Rules that run before DataFusion's own analysis (which coerces types).
pub fn analyzer_rules_before() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    Vec::new()
}

/// Rules that run after types are coerced.
pub fn analyzer_rules_after() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    Vec::new()
}

/// Planners of operators and literals; asked before DataFusion's own.
pub fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    Vec::new()
}

/// The planner of type names.
pub fn type_planner() -> Option<Arc<dyn TypePlanner>> {
    None
}

/// Changes a query before it is planned; called once for a statement, views' queries included.
///
/// # Errors
/// What Postgres refuses and DataFusion would not.
pub fn rewrite_query(_query: &mut ast::Query) -> Result<()> {
    Ok(())
}

/// Changes a single expression before it is compiled; also called for CHECK, DEFAULT and SET.
///
/// # Errors
/// As [`rewrite_query`].
pub fn rewrite_expression(_expression: &mut ast::Expr) -> Result<()> {
    Ok(())
}
