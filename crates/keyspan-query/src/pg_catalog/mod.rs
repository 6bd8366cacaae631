//! The system tables: `pg_catalog` and `information_schema`, so that embedded and wire answer alike.

use std::sync::Arc;

use datafusion::catalog::TableProvider;

use crate::session::QueryContext;

/// Schemas that hold system tables.
pub const SCHEMAS: &[&str] = &["pg_catalog", "information_schema"];

/// The system table of this name. Its rows may come from `context.snapshot.catalog()`, or, if it must be new at each
/// execution, from the [`crate::table::Statement`] in the session's configuration when it is scanned.
pub fn table(_schema: &str, _name: &str, _context: &QueryContext) -> Option<Arc<dyn TableProvider>> {
    None
}
