//! Keyspan's storage: an LSM whose runs are Arrow.
//!
//! ```text
//! mutations ─▶ apply lane ─▶ commit log ─▶ memtable ──freeze──▶ segment (Parquet) ──compact──▶ segment
//!              seq, stamps   fdatasync     sorted runs in RAM   fsync, manifest edit  by time window
//! snapshot(memtable runs + segments) ─▶ prune ─▶ merge only where runs overlap ─▶ batches of live rows
//! ```
//!
//! Everything above sees only [`keyspan_seam`].

pub mod backup;
pub mod check;
pub mod clock;
mod coded;
mod compact;
pub mod engine;
#[cfg(test)]
mod faults;
pub mod files;
mod format;
mod log;
mod manifest;
pub mod memory_run;
pub mod memtable;
pub mod merge;
mod policy;
#[cfg(test)]
mod random;
pub mod repair;
mod restore;
pub mod row;
pub mod run;
pub mod scan;
pub mod segment;
mod sparse_keys;
mod value_index;
mod varint;
mod window;

pub use backup::BackupReport;
pub use check::{CheckReport, check};
pub use engine::{EmbeddedStore, SegmentFile, StoreOptions, StoreStats};
pub use files::wait_on_this_thread;
pub use repair::{RepairReport, repair};
pub use restore::{RestoreReport, restore};
