//! The scan of a table's spans, as a node of DataFusion's physical plans.
//!
//! ```text
//! snapshot.plan(scan) ─▶ splits ─▶ snapshot.scan(split) ─▶ read columns ─▶ filter ─▶ output columns ─▶ limit
//!                        grouped into partitions, or read in sequence, several at a time
//! ```
//!
//! - [`exec`]: the node, and what it tells the optimizer.
//! - [`layout`]: how it is divided among partitions.
//! - [`template`]: the node without what it reads, for the plan cache.
//! - [`read`]: from splits to batches.
//! - [`sort`]: which orders the scan can deliver.
//! - [`join_keys`]: spans that are known only when a join's build side has been read.
//! - [`key_set`]: which numbers those keys are, as a condition.
//! - [`conditions`]: what the store is told of a filter.
//! - [`rank`]: values as numbers in the order of ORDER BY.
//! - [`selectivity`]: which part of the rows a filter keeps, about.
//! - [`top`]: leaving out what a sort with a limit would not take.
//! - [`describe`]: what EXPLAIN shows.
//! - [`sequence`]: the rule that keeps row-key order where nothing else is asked for.

mod conditions;
mod describe;
mod exec;
mod join_keys;
mod key_set;
mod layout;
mod rank;
mod read;
mod selectivity;
mod sequence;
mod sort;
mod statistics;
mod template;
mod top;

pub(crate) use describe::describe;
pub use exec::{ReadPlan, SpanScanExec};
pub(crate) use join_keys::{AwaitedKeys, JoinKeys, KeysOfJoins, new_number};
pub(crate) use rank::{is_ranked, ranks};
pub(crate) use read::{FilteredRows, Reader};
pub use read::{KeyForm, ReadColumn};
pub(crate) use selectivity::whole_number;
pub use sequence::KeyOrder;
pub(crate) use template::ScanTemplate;
pub use top::TopRows;
pub(crate) use top::with_input;
