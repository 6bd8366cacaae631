//! The embedded store: one directory, one process, one apply lane.
//!
//! ```text
//! apply ─▶ staging ─▶ lane ─▶ commit log ─▶ answer          snapshot ◀─ version ◀─ state (visible seq, schema)
//!                        └──▶ memtables ─▶ flush ─▶ segments ─▶ merge ─▶ segments      (worker threads)
//! ```
//!
//! What a snapshot shows: every acknowledged batch, each whole. Batches become visible in their order, when they are
//! durable; a relaxed batch is acknowledged and visible when it is applied, and makes those before it visible too.

mod backup;
mod compaction;
mod core;
mod disk;
mod flush;
mod index;
#[cfg(test)]
mod index_tests;
mod lane;
#[cfg(test)]
mod live_tests;
mod load;
mod options;
pub(crate) mod overlay;
mod recovery;
mod repair;
mod segment_files;
mod snapshot;
mod staging;
#[cfg(test)]
pub(crate) mod tests;
mod tiers;
mod version;
#[cfg(test)]
mod window_tests;
mod worker;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;

use async_trait::async_trait;
use keyspan_model::{
    Applied, Catalog, Error, ErrorKind, RelationDef, RelationId, Result, Stamp, Unchanged, WriteBatch,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::backup::BackupReport;
use crate::files::{Files, LocalFiles, MemoryFiles};
use crate::policy::most_runs_in_window;
use crate::run::SortedRun;
use crate::segment::SegmentRecord;
use keyspan_seam::{Caps, Load, ReadAt, Snapshot, Store};

pub use options::{RelationStats, StoreOptions, StoreStats};
pub use segment_files::SegmentFile;
pub use snapshot::StoreSnapshot;

use self::core::{Core, WorkerRequests, closed};
use self::load::StoreLoad;
use self::staging::{Precondition, PreparedBatch};
use self::version::RelationVersion;

/// Bytes in memory above which closing flushes, so that the next start is quick.
const FLUSH_AT_CLOSE: usize = 4 << 20;

/// A store in a directory of this machine, or in memory.
#[derive(Debug)]
pub struct EmbeddedStore {
    caps: Caps,
    core: Arc<Core>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is made if it does not exist. Blocks while the commit log is replayed.
    ///
    /// Errors: 55006 if another process has it open, XX002 for a newer format, XX001 naming the damaged file.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Arc<EmbeddedStore>> {
        EmbeddedStore::open_files(Arc::new(LocalFiles::new(path.as_ref())?), options)
    }

    /// A store in memory, gone when it is dropped.
    pub fn in_memory(options: StoreOptions) -> Result<Arc<EmbeddedStore>> {
        EmbeddedStore::open_files(Arc::new(MemoryFiles::new()), options)
    }

    /// Opens the store in any directory of files; so tests bring their own disk.
    pub fn open_files(files: Arc<dyn Files>, options: StoreOptions) -> Result<Arc<EmbeddedStore>> {
        let core = Core::open(files, options)?;
        let workers = Mutex::new(if core.options.threads { worker::start(&core)? } else { Vec::new() });
        core.nudge();
        core.ask_for_index();
        let caps = Caps { global_key_order: true, snapshots: true, atomic_batches: true, timestamp_step: 1 };
        Ok(Arc::new(EmbeddedStore { caps, core, workers }))
    }

    /// Waits for what is under way, makes everything durable and frees the directory. Later calls fail with 57P01.
    /// Blocks.
    pub fn close(&self) -> Result<()> {
        self.core.lane.lock().closed = Some(closed());
        self.core.aborting.store(true, Ordering::Relaxed);
        self.end_workers();
        // Loads under way end at their next batch, and leave no file.
        drop(self.core.loads.write());
        self.core.aborting.store(false, Ordering::Relaxed);
        if self.core.lock.lock().is_none() {
            return Ok(());
        }
        let closed = self.core.log().close().and_then(|()| self.leave());
        self.core.room.notify_waiters();
        *self.core.lock.lock() = None;
        closed
    }

    fn leave(&self) -> Result<()> {
        let low = self.core.disk_low.load(Ordering::Relaxed);
        if !low && self.core.files.local_root().is_some() && self.core.state.lock().memory > FLUSH_AT_CLOSE {
            self.core.flush_all()?;
        }
        let mut manifest = self.core.manifest.lock();
        let edit = self.core.edit(&manifest);
        let committed = manifest.commit(edit, false);
        manifest.close();
        committed
    }

    fn end_workers(&self) {
        self.core.work.lock().closing = true;
        self.core.wake.notify_all();
        for worker in self.workers.lock().drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker of the store has panicked");
            }
        }
    }

    /// Writes everything that was acknowledged before to a directory, which is made if it does not exist, while the
    /// store goes on. What an earlier backup in the directory has is not written again. Blocks; `stop` ends it with
    /// 57014.
    ///
    /// Errors: 55000 if the directory holds anything but a backup of this store, 55006 while another backup is written
    /// there, 53100 if there is no space, XX001 naming the damaged file. An earlier backup in the directory stays.
    pub fn backup(&self, directory: impl AsRef<Path>, stop: &AtomicBool) -> Result<BackupReport> {
        self.backup_to(|| Ok(Arc::new(LocalFiles::new(directory.as_ref())?)), stop)
    }

    /// As [`EmbeddedStore::backup`], to any directory of files, which is made when it is needed.
    pub fn backup_to(
        &self,
        target: impl FnOnce() -> Result<Arc<dyn Files>>,
        stop: &AtomicBool,
    ) -> Result<BackupReport> {
        self.core.backup(target, stop)
    }

    /// Why nothing can be written any more until a restart: the commit log has failed.
    pub fn failure(&self) -> Option<Error> {
        self.core.log().failure()
    }

    /// Statistics of the store.
    pub fn stats(&self) -> StoreStats {
        let (log_bytes, log_syncs) = self.core.log().size();
        let state = self.core.state.lock();
        let segments = || state.version.values().flat_map(|relation| &relation.segments);
        StoreStats {
            relations: state.version.values().map(|relation| relation_stats(relation)).collect(),
            log_bytes,
            segment_bytes: segments().map(|segment| segment.record().disk_bytes()).sum(),
            memory_bytes: state.memory,
            durable_seq: self.core.log().durable(),
            flushes: self.core.flushes.load(Ordering::Relaxed),
            compactions: self.core.compactions.load(Ordering::Relaxed),
            log_syncs,
        }
    }

    async fn enter(&self, prepared: PreparedBatch) -> Result<Applied> {
        let entered = self.core.enter(prepared)?;
        if !self.core.options.threads && entered.durable.is_some() {
            // Yields, so that other batches may enter and share the sync.
            yield_once().await;
            self.core.log().step();
        }
        if let Some(durable) = entered.durable {
            durable.await.unwrap_or_else(|_| Err(Error::internal("the commit log ended without an answer")))?;
        }
        Ok(entered.applied)
    }

    /// Waits until everything applied so far is durable.
    async fn synced(&self) -> Result<()> {
        let synced = self.core.log().synced();
        if !self.core.options.threads {
            self.core.log().step();
        }
        synced.await.unwrap_or_else(|_| Err(Error::internal("the commit log ended without an answer")))
    }

    /// Without threads: does the background work that is due. Blocks.
    pub fn tick(&self) -> Result<()> {
        self.core.tick()
    }

    /// Hands a request to the workers and waits for its answer.
    async fn ask(&self, request: impl FnOnce(&mut WorkerRequests, self::core::Reply)) -> Result<()> {
        if !self.core.options.threads {
            yield_once().await;
            let (answer, mut answered) = oneshot::channel();
            request(&mut self.core.work.lock(), answer);
            self.core.answer_requests();
            return answered.try_recv().unwrap_or_else(|_| Err(closed()));
        }
        let (answer, answered) = oneshot::channel();
        {
            let mut work = self.core.work.lock();
            if work.closing {
                return Err(closed());
            }
            request(&mut work, answer);
        }
        self.core.wake.notify_all();
        answered.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// Yields once to other tasks.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the store was not closed cleanly");
        }
    }
}

fn relation_stats(relation: &RelationVersion) -> RelationStats {
    let records: Vec<SegmentRecord> = relation.segments.iter().map(|segment| segment.record().clone()).collect();
    RelationStats {
        relation: relation.definition.id,
        memory_runs: relation.runs.len() + relation.memtables().filter(|memtable| !memtable.is_empty()).count(),
        segments: relation.segments.len(),
        segment_rows: relation.segments.iter().map(|segment| segment.meta().all.rows).sum(),
        most_runs_in_window: most_runs_in_window(&relation.definition, &records),
        span_tombstones: relation.tombstones.iter().count(),
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.core.state.lock().schema.catalog.clone()
    }

    async fn change(&self, base: u64, next: Catalog, batch: Option<WriteBatch>) -> Result<Arc<Catalog>> {
        let batch = WriteBatch { relaxed: false, ..batch.unwrap_or_default() };
        if !batch.mutations.is_empty() {
            self.core.wait_for_room(&batch).await?;
        }
        let prepared = PreparedBatch::change(base, next, batch)?;
        let catalog = prepared.change.as_ref().map(|(_, schema)| schema.catalog.clone());
        if let Err(error) = self.enter(prepared).await {
            if error.kind == ErrorKind::Serialization {
                // What was in its way may wait for its sync: who tries again is to see it.
                self.synced().await?;
            }
            return Err(error);
        }
        self.core.nudge();
        self.core.ask_for_index();
        catalog.ok_or_else(|| Error::internal("a change without a catalog"))
    }

    async fn apply(&self, batch: WriteBatch) -> Result<Applied> {
        self.core.wait_for_room(&batch).await?;
        let schema = self.core.state.lock().newest_schema().clone();
        self.enter(PreparedBatch::batch(&schema, batch)?).await
    }

    fn check(&self, unchanged: &[Unchanged]) -> Result<()> {
        let schema = self.core.state.lock().newest_schema().clone();
        self.core.check(&Precondition::all(&schema, unchanged)?)
    }

    fn load(&self, relation: RelationDef, stamp: Stamp) -> Result<Box<dyn Load>> {
        self.core.check_disk()?;
        Ok(Box::new(StoreLoad::new(&self.core, relation, stamp)))
    }

    fn snapshot(&self, at: ReadAt) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(self.core.snapshot(at)))
    }

    async fn flush(&self) -> Result<()> {
        self.ask(|work, answer| work.flush.push(answer)).await
    }

    async fn compact(&self) -> Result<()> {
        self.ask(|work, answer| work.compact.push(answer)).await
    }

    fn followed(&self, relation: RelationId, seq: u64) {
        self.core.seen.lock().insert(relation, seq);
    }

    fn close(&self) -> Result<()> {
        EmbeddedStore::close(self)
    }
}
