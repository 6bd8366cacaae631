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
//! - [`engine`]: what all sessions share: functions, rules, memory pool.
//! - [`session`]: plan, execute, explain; a plan is bound to a snapshot at each execution.
//! - [`expression`]: scalar expressions without a query: CHECK, DEFAULT, `SET x = x + 1`.
//! - [`spans`]: predicates to spans of row keys; also the point path's recognition.
//! - [`table`], `scan`: a table to DataFusion, and the node that reads its spans.
//! - `merged`: JOIN USING and NATURAL JOIN as JOIN … ON.
//! - `grouped`, `gapfill`, `asof`: operators of our own.
//! - [`rollup`]: materialized views: what of them is kept, and what is computed when they are read.
//! - `optimizer`: how often which of DataFusion's rules look at a plan; `not_in`: a rule of our own.
//! - `memory`, `repartition`: the memory of all queries; which plans may repartition their rows, given that.
//! - `plan_cache`: plans shared by all sessions. `function_context`: what functions depend on besides their arguments.
//! - [`interrupt`]: stopping the work of statements that have ended.
//! - `inline_execution`: which plans run in the task that asks, without a thread of their own.
//! - [`semantics`], [`functions`]: where Postgres' answer differs from DataFusion's.
//! - [`pg_catalog`]: the system tables.
//! - [`error`]: DataFusion's errors as Keyspan's.

mod asof;
pub mod engine;
pub mod error;
pub mod expression;
mod function_context;
pub mod functions;
mod gapfill;
mod grouped;
mod inline_execution;
pub mod interrupt;
mod memory;
mod merged;
mod names;
mod not_in;
mod optimizer;
pub mod pg_catalog;
mod plan_cache;
mod planning;
mod prefix;
mod repartition;
mod rewrite;
pub mod rollup;
mod scalar;
mod scan;
pub mod semantics;
pub mod session;
pub mod spans;
pub mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod types;

pub use datafusion::sql::sqlparser::ast;
pub use engine::{QueryEngine, QueryOptions, QueryParser};
pub use expression::CompiledExprs;
pub use functions::{POSTGRES_VERSION, POSTGRES_VERSION_NUM};
pub use session::{ExplainOptions, PlannedQuery, QueryContext, QuerySession, ReadyQuery, SessionInfo, SettingChange};
pub use spans::{KeyMatch, KeyPart, KeyRange, key_of};
pub use types::Zone;
