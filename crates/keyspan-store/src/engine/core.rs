//! The state that the parts of an open store share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};

use keyspan_model::{Error, ErrorKind, RelationId, Result, SegmentId};
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use super::lane::Lane;
use super::options::StoreOptions;
use super::version::State;
use crate::files::{FileLock, Files};
use crate::log::CommitLog;
use crate::manifest::{Manifest, Marks};
use crate::segment::{BlockCache, Segment, SegmentRecord};

/// An open store: what the lane, the workers and the snapshots share.
#[derive(Debug)]
pub struct Core {
    /// Where everything is.
    pub files: Arc<dyn Files>,
    /// How it was opened.
    pub options: StoreOptions,
    /// The store's own id.
    pub store: Uuid,
    /// Decoded blocks.
    pub cache: Arc<BlockCache>,
    /// The apply lane. Lock order: manifest, lane, state.
    pub lane: Mutex<Lane>,
    /// What snapshots are taken from.
    pub state: Arc<State>,
    /// The manifest; held while an edit is made and its result published.
    pub manifest: Mutex<Manifest>,
    /// Taken while memory is flushed: one flush at a time.
    pub flushing: Mutex<()>,
    /// Taken while segments are merged: one merge at a time.
    pub compacting: Mutex<()>,
    /// Taken while value indexes are built: one builder at a time.
    pub indexing: Mutex<()>,
    /// The catalog's version when files of value indexes were looked through last.
    pub swept: AtomicU64,
    /// Held for reading while files of a load are written or removed; closing waits for it.
    pub loads: RwLock<()>,
    /// Next unused segment id.
    pub next_segment: AtomicU64,
    /// Dead segments whose files may still be read by somebody.
    pub graveyard: Mutex<Vec<(SegmentId, std::sync::Weak<Segment>)>>,
    /// Segments whose edit failed, with the number of the next one: that edit may be on disk all the same, so their
    /// files stay until a later checkpoint does not name them.
    pub doubtful: Mutex<Vec<(SegmentId, u64)>>,
    /// What the workers are asked to do.
    pub work: Mutex<WorkerRequests>,
    /// Wakes the workers.
    pub wake: Condvar,
    /// Told when memory or log was freed.
    pub room: Notify,
    /// Why memory cannot be freed, while it cannot.
    pub stuck: Mutex<Option<Error>>,
    /// Whether the disk has less free space than the mark.
    pub disk_low: AtomicBool,
    /// Whether it has so little that deletions are refused too.
    pub disk_out: AtomicBool,
    /// Set when the store closes: merges under way end at their next batch.
    pub aborting: AtomicBool,
    /// For each relation that is followed, the batch up to which deletions may be forgotten.
    pub seen: Mutex<BTreeMap<RelationId, u64>>,
    /// Batches that asked for room.
    pub writes: AtomicU64,
    /// Flushes since the store was opened.
    pub flushes: AtomicU64,
    /// Compactions since the store was opened.
    pub compactions: AtomicU64,
    /// The commit log, once it was replayed.
    pub commit_log: OnceLock<CommitLog>,
    /// The directory's lock; given back by closing.
    pub lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// Where the result of a request is sent.
pub type Reply = oneshot::Sender<Result<()>>;

/// What the workers are asked to do.
#[derive(Debug, Default)]
pub struct WorkerRequests {
    /// Something has changed that the flusher may have to act on.
    pub nudged: bool,
    /// Something was flushed that may have to be merged.
    pub merge: bool,
    /// Value indexes may have to be built, or their files removed.
    pub index: bool,
    /// Callers that wait for a flush of everything.
    pub flush: Vec<Reply>,
    /// Callers that wait for a merge of everything.
    pub compact: Vec<Reply>,
    /// The workers are to end.
    pub closing: bool,
}

impl Core {
    /// The commit log.
    pub fn log(&self) -> &CommitLog {
        self.commit_log.get().expect("a store is given out only after its log was started")
    }

    /// Wakes the flusher.
    pub fn nudge(&self) {
        self.work.lock().nudged = true;
        self.wake.notify_all();
    }

    /// The batch up to which deletions of a relation may be forgotten: see [`keyspan_seam::Store::followed`].
    pub fn seen(&self, relation: RelationId) -> u64 {
        if !self.state.lock().newest_schema().followed.contains(&relation) {
            return u64::MAX;
        }
        self.seen.lock().get(&relation).copied().unwrap_or(0)
    }

    /// The marks as they are now.
    pub fn marks(&self) -> Marks {
        let durable_seq = self.commit_log.get().map_or(0, CommitLog::durable);
        let state = self.state.lock();
        Marks {
            epoch: 0,
            next_segment: self.next_segment.load(std::sync::atomic::Ordering::SeqCst),
            timestamp: state.timestamp,
            read_time: state.read_time,
            durable_seq,
            log_start: 0,
        }
    }

    /// Remembers the segments of a failed edit, which may be on disk or not.
    pub fn doubt(&self, manifest: &Manifest, records: &[SegmentRecord]) {
        let next = manifest.next();
        self.doubtful.lock().extend(records.iter().map(|record| (record.id, next)));
    }

    /// A segment id that was never used.
    pub fn new_segment_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
    }
}

/// The error of everything asked of a closed store.
pub fn closed() -> Error {
    Error::new(ErrorKind::Shutdown, "the store is closed")
}
