//! GROUP BY over a scan: groups are made of its batches as the store has them, of codes where it has codes.
//!
//! **By key**: rows come in key order, so rows of one group stand together. A run's end is found by doubling steps, its
//! values are folded in one go, and only then is its group looked up: once a run.
//!
//! ```text
//! GROUP BY time_bucket('1 hour', ts), host           key (host, ts)
//! host  a a a a a a a a b b b b b b
//! ts    0 … … 1 … … 2 … 0 … … 1 … …
//! runs  └───┘ └───┘ └─┘ └───┘ └───┘                  five look-ups for fourteen rows
//! ```
//!
//! **By value**: a group is looked up once for each combination of codes in a batch, or for each row whose values are
//! others than those of the row before. Where groups turn out to be many, DataFusion's own aggregate reads the scan.
//!
//! - [`rule`]: which aggregates are done here, and in which way; [`source`]: what they read, as one scan.
//! - [`lookup`]: rows of smaller tables that the scan's rows are joined with.
//! - [`runs`]: where runs end.
//! - [`groups`]: the groups found so far.
//! - [`fold`]: what is kept of a group's values; [`distinct`]: those that are different.
//! - [`partial`]: groups of some rows and what is kept of them; [`spill`]: those that do not fit the memory.
//! - [`exec`]: the node: reads the splits on all cores, joins what they found, answers in the order asked for.
//! - [`hash_aggregate`]: DataFusion's aggregate, where groups are many.
//!
//! Rule: answers are those of DataFusion's own aggregate. Groups do not depend on where runs end: a run cut in two only
//! costs a second look-up, so any scan form will do.

mod distinct;
mod exec;
mod fold;
mod groups;
mod hash_aggregate;
mod lookup;
mod partial;
mod rule;
mod runs;
mod source;
mod spill;

#[cfg(test)]
mod tests;

pub(crate) use exec::{GroupedScanExec, GroupedTemplate};
pub(crate) use groups::{Groups, MOST_PARTS, Part, PartValue, Values, supports};
pub use rule::GroupedScans;
