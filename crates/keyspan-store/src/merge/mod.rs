//! Bringing versions together: the rules that say which version of a cell wins, and the merge of sorted runs.
//!
//! [`sweep`] says in key order which rows only one run has and which several have; [`chunk`] collects them and makes
//! arrays, resolving rows that several runs have ([`resolve`], [`rules`]); [`live`] leaves the live ones to a reader,
//! [`purge`] what must be kept to a compaction; [`versions`] applies a family's GC rule for both.

pub(crate) mod chunk;
pub(crate) mod cursor;
pub(crate) mod live;
mod purge;
mod resolve;
pub mod rules;
pub(crate) mod select;
pub(crate) mod sweep;
pub(crate) mod versions;

pub use purge::{Compaction, CompactionInput};
