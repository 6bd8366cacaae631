//! Queries: everything that plans and runs a SELECT, on DataFusion. No tables of its own.
//!
//! One SELECT on its way through this crate:
//!
//! ```text
//! ast::Query ─▶ rewrite ─▶ SqlToRel over Names ─▶ LogicalPlan ─▶ analyze, optimize ─▶ KeyspanTable::scan ─▶ SpanScanExec
//!               labels,     search path, views,     PlannedQuery   per execution       filters → spans       splits → batches
//!               pseudo      functions                (parameters)
//!               columns
//! ```
//!
//! The modules, the lowest layer first (`docs/architecture.md` has the layers, and a test holds them):
//!
//! - [`error`]: DataFusion's errors as Keyspan's. `syntax`: names, keywords, casts and calls in a tree.
//! - [`types`]: the rules of types: common types, arithmetic, casts, zones.
//! - [`context`]: what a statement depends on besides its text. [`interrupt`]: stopping statements that have ended.
//! - [`functions`]: functions of values and columns. [`pg_catalog`]: the system tables and the functions over them.
//!   `builtins`: all functions that a query may call.
//! - [`spans`]: predicates to spans of row keys; also the point path's recognition.
//! - `coded_expr`: expressions over columns that may be codes. `widened`: whole numbers that are only widened.
//! - `scan`, [`table`]: the node that reads spans, and a table as DataFusion sees it.
//! - `grouped`, `not_constant`, `partition_top`, `join_keys`, `join_order`, `gapfill`, `asof`, `prefix`, `not_in`, `repeated`, `decorrelate`, `offset`,
//!   `memory`: operators and rules of our own.
//! - [`rollup`]: materialized views: what of them is kept, and what is computed when they are read.
//! - `name_resolution`: JOIN USING and NATURAL JOIN as JOIN … ON. [`semantics`]: where Postgres' answer differs from
//!   DataFusion's.
//! - `binder`: from a tree to a logical plan: names, views, labels, parameters.
//! - `optimizer`, `physical`, `inline_execution`: which rules look at a plan; whether it repartitions; where it runs.
//! - `plan_cache`: plans shared by all sessions.
//! - [`engine`]: what all sessions share: functions, rules, memory pool.
//! - [`expression`]: scalar expressions without a query: CHECK, DEFAULT, `SET x = x + 1`.
//! - [`session`]: plan, execute, explain; a plan is bound to a snapshot at each execution.

mod asof;
mod binder;
mod builtins;
mod coded_expr;
pub mod context;
mod decorrelate;
mod eager_aggregate;
pub mod engine;
pub mod error;
mod explain;
pub mod expression;
mod family;
pub mod functions;
mod gapfill;
mod grouped;
mod inline_execution;
pub mod interrupt;
mod join_keys;
mod join_order;
mod memory;
mod missing_sorts;
mod name_resolution;
mod not_constant;
mod not_in;
mod offset;
mod one_row;
mod optimizer;
mod partition_limits;
mod partition_top;
pub mod pg_catalog;
mod physical;
mod plan_cache;
mod plan_text;
mod prefix;
mod repeated;
mod rights;
pub mod rollup;
mod scan;
pub mod semantics;
pub mod session;
mod shared;
mod sort_order;
pub mod spans;
mod spared_plans;
mod statics;
mod syntax;
pub mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod types;
mod widened;
mod work_table;

pub use context::{
    AdvisoryKey, AdvisoryRequest, Caller, DescribedSetting, GivenRelation, Peers, QueryContext, QueryParser, Sequences,
    SessionInfo, SettingChange, ShownCursor, ShownHeat, ShownLock, ShownSession, ShownStatement,
};
pub use datafusion::sql::sqlparser::ast;
pub use engine::{QueryEngine, QueryOptions};
pub use expression::CompiledExprs;
pub use family::{EXPIRES_AT, FamilyRead, cells_table, family_field};
pub use functions::{POSTGRES_VERSION, POSTGRES_VERSION_NUM, has_aggregate};
pub use pg_catalog::{EXTENSIONS, Extension, Origin, are_alike, oid_array_parameters, type_oid};
pub use plan_cache::PlannedQuery;
pub use session::{ExplainOptions, QuerySession, ReadyQuery};
pub use spans::{Constants, KeyMatch, KeyPart, KeyRanges, compares_alike, key_of, no_constants};
pub use statics::StaticsRead;
pub use syntax::{cast_to, columns_of};
pub use types::Zone;
pub use types::cast::cast_value;
