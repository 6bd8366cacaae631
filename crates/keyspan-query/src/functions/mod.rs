//! Functions that DataFusion lacks, or whose answers differ from Postgres'. A function here replaces DataFusion's of the
//! same name.

use std::sync::Arc;

use datafusion::catalog::TableFunction;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

/// Scalar functions.
pub fn scalar() -> Vec<Arc<ScalarUDF>> {
    Vec::new()
}

/// Aggregate functions.
pub fn aggregate() -> Vec<Arc<AggregateUDF>> {
    Vec::new()
}

/// Window functions.
pub fn window() -> Vec<Arc<WindowUDF>> {
    Vec::new()
}

/// Functions in FROM.
pub fn table() -> Vec<Arc<TableFunction>> {
    Vec::new()
}
