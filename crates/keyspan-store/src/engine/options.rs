//! Options for opening a store, and its statistics.

use std::sync::Arc;
use std::time::Duration;

use keyspan_model::RelationId;

use crate::clock::{Clock, SystemClock};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes that memtables may hold before they are flushed; writers wait when flushing cannot keep up.
    pub memory_budget: usize,
    /// Bytes of decoded blocks that are kept for the next read.
    pub cache_budget: usize,
    /// Bytes of commit log above which the relation with the oldest unflushed batch is flushed.
    pub log_limit: u64,
    /// Bytes of one commit-log file.
    pub log_file: u64,
    /// Free bytes on the disk below which writes are refused with 53100. Statements that free space go on.
    pub free_space_mark: u64,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Whether flushing and compaction run in the background. If not, they run only on request or when the budget is
    /// reached.
    pub background: bool,
    /// Whether threads of the store's own write the log, flush and merge. Without, whoever calls does that work: a run
    /// on one thread is then the same every time. Nothing happens in the background but in
    /// [`crate::EmbeddedStore::tick`].
    pub threads: bool,
    /// Longest frame of the commit log in bytes; a longer record goes in parts. Small in tests.
    pub log_frame: usize,
    /// Rows of a segment above which a new one is begun; small in tests.
    pub segment_rows: usize,
    /// How long nothing must have come to a window of time until it is merged into one level.
    pub quiet: Duration,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            memory_budget: 256 << 20,
            cache_budget: 256 << 20,
            log_limit: 512 << 20,
            log_file: 64 << 20,
            free_space_mark: 64 << 20,
            clock: Arc::new(SystemClock),
            background: true,
            threads: true,
            log_frame: 8 << 20,
            segment_rows: 16 << 20,
            quiet: Duration::from_secs(60),
        }
    }
}

/// Statistics of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// By relation.
    pub relations: Vec<RelationStats>,
    /// Bytes in commit-log files that are still needed.
    pub log_bytes: u64,
    /// Bytes in segments.
    pub segment_bytes: u64,
    /// Bytes in memtables.
    pub memory_bytes: usize,
    /// The last batch that is durable.
    pub durable_seq: u64,
    /// Flushes since the store was opened.
    pub flushes: u64,
    /// Compactions since the store was opened.
    pub compactions: u64,
    /// Syncs of the commit log since the store was opened.
    pub log_syncs: u64,
}

/// Statistics of one relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationStats {
    /// Which.
    pub relation: RelationId,
    /// Runs in memory.
    pub memory_runs: usize,
    /// Segments.
    pub segments: usize,
    /// Rows in segments, overwritten ones and tombstones included.
    pub segment_rows: u64,
    /// Most segments of one window that overlap each other.
    pub most_runs_in_window: usize,
    /// Span tombstones, which are kept in memory.
    pub span_tombstones: usize,
}
