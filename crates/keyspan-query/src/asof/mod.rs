//! `ASOF JOIN`: each row of the left side with the nearest one of the right side that is not later (or not earlier).
//!
//! ```text
//! FROM trades t ASOF JOIN quotes q ON t.symbol = q.symbol AND t.ts >= q.ts      DuckDB's
//! FROM trades t ASOF LEFT JOIN quotes q USING (symbol, ts)                      the last column by >=
//! FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON …          Snowflake's, always LEFT
//! ```
//!
//! - `syntax`: the join's tree becomes a plan, marked by a call of [`MARK`] in its filter.
//! - `rule`: a marked join becomes the logical node; filters on the left side go below it.
//! - `node`: the logical node and its planner.
//! - `exec`, `merge`: the physical node: both sides sorted by the equal columns and the time, read side by side.

mod exec;
mod merge;
mod node;
mod rule;
mod syntax;
#[cfg(test)]
mod tests;

use keyspan_model::{Error, ErrorKind};

use crate::functions::asof::MARK;
pub use node::AsOfPlanner;
pub use rule::{AsOfJoins, PushThrough};
pub use syntax::{AsOfRelation, nested, nested_inside};

/// 42601 for a condition that is none of an ASOF join.
fn condition(message: &str) -> datafusion::error::DataFusionError {
    let error = Error::new(ErrorKind::Syntax, message);
    let hint = "Write ON a.key = b.key AND a.ts >= b.ts, with one of >=, >, <=, < between the sides.";
    crate::error::external(error.with_hint(hint))
}
