//! The merge of sorted runs: versions of a row brought together, for a reader or for a compaction.
//!
//! [`sweep`] says in key order which rows only one run has and which several have; [`chunk`] collects them and makes
//! arrays, resolving rows that several runs have ([`resolve`], by [`crate::row::rules`]); [`live`] leaves the live ones to a reader,
//! [`purge`] what must be kept to a compaction; [`versions`] applies a family's GC rule for both.

pub(crate) mod chunk;
pub(crate) mod cursor;
pub(crate) mod live;
mod purge;
mod resolve;
pub(crate) mod select;
pub(crate) mod sweep;
pub(crate) mod versions;

pub use purge::{Compaction, CompactionInput};
