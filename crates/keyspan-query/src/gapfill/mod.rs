//! `time_bucket_gapfill`, `locf` and `interpolate`, with TimescaleDB's meanings: buckets without rows get rows.
//!
//! ```text
//! SELECT time_bucket_gapfill('1 hour', ts), host, avg(v), locf(avg(v)) … WHERE ts >= a AND ts < b GROUP BY 1, 2
//!
//! Projection                      Projection                  `locf(…)` is a column of the node below
//! └ Filter (HAVING)        ─▶     └ GapFill                   sorted by the other groups, then by bucket
//!   └ Aggregate                     └ Filter (HAVING)
//!                                     └ Aggregate             by `time_bucket`
//! ```
//!
//! - `rule`: finds the call and the bounds, and changes the plan.
//! - `node`: the logical node; its planner makes the physical one and evaluates what is constant.
//! - `exec`, `filler`: the physical node; a stream that holds one batch.

mod exec;
mod filler;
mod node;
mod rule;
#[cfg(test)]
mod tests;

use datafusion::error::DataFusionError;
use keyspan_model::{Error, ErrorKind};

use crate::error::external;
use crate::functions::gapfill::{BUCKET, INTERPOLATE, LOCF};
pub use node::{GapFillPlanner, constant};
pub use rule::GapFilling;

/// 22023, in TimescaleDB's words.
fn invalid(message: impl std::fmt::Display) -> DataFusionError {
    let message = format!("invalid time_bucket_gapfill argument: {message}");
    external(Error::new(ErrorKind::InvalidParameter, message))
}
