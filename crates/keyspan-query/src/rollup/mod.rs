//! Rollups, the materialized views that are never out of date: the rows of a GROUP BY over steps of time, kept, and made
//! complete when they are read.
//!
//! ```text
//! SELECT … FROM view ─▶ kept rows of all other buckets ─────────────────────────────┐ UNION ALL
//!                    ─▶ the view's query over the source's rows of stale buckets ───┘
//! refresh            ─▶ both for stale buckets only; what differs is written, with the batch it is right up to
//! ```
//!
//! The rule: a read of a view answers what its query would answer on the same snapshot. A bucket is **stale** when a batch
//! after the last refresh wrote or deleted something in it: [`stale`] asks the store for the values of time that batches
//! have touched, and rounds to whole buckets. [`mod@definition`] says which queries can be kept this way: those whose
//! bucket alone tells which rows of the source a group is made of.
//!
//! The exception to the rule are rows that expire. Where all of the source's do (`retention`, `default_time_to_live`), a
//! bucket is **final** once its first row may have expired: it is not computed again, so that it outlives its rows. A row
//! that expires by a time to live of its own makes nothing stale.

pub mod definition;
mod stale;
mod table;

pub use definition::{Definition, NoRollup, definition};
pub use stale::{Progress, progress};
pub use table::{RollupTable, expanded};
