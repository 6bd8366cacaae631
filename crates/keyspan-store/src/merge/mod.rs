//! The merge of sorted runs: versions of a row brought together, for a reader or for a compaction.
//!
//! [`sweep`] finds in key order the rows that only one run has and those that several have; [`chunk`] collects them and
//! makes arrays, resolving rows that several runs have ([`resolve`], by [`crate::row::rules`]); [`live`] keeps the live
//! ones for a reader, [`purge`] what a compaction must keep; [`versions`] applies a family's GC rule for both.

pub(crate) mod chunk;
pub(crate) mod cursor;
pub(crate) mod live;
mod purge;
mod resolve;
pub(crate) mod select;
pub(crate) mod sweep;
pub(crate) mod versions;

pub use purge::{Compaction, CompactionInput};
