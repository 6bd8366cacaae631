//! Loading: the rows of a statement that has more than memory should hold are written out while they come.
//!
//! ```text
//! batches ─▶ part (≤ 64 MB) ─▶ sorted, folded ─▶ segments, synced ─▶ ... ─▶ Mutation::Load ─▶ lane, log: visible, all at once
//!            gathered          by threads of their own
//! ```
//!
//! Rules: nothing names the segments until a batch with the [`Mutation::Load`] has its place in the commit order, so a
//! load that is aborted leaves only files that are removed (by [`Loaded`], or by opening the store). The files'
//! timestamps count from 0, one a part; the lane adds the batch's own. Memory: one part is gathered, and as many are
//! written at a time as the memory budget holds and there are cores for; only one of them is sorted at a time, which
//! takes its memory twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use async_trait::async_trait;
use keyspan_model::array::batch_bytes;
use keyspan_model::{BatchWrite, Error, ErrorKind, LoadedRows, Mutation, RelationDef, Result, Stamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::core::{Core, closed};
use super::staging::{check_arrays, known_columns};
use super::write::ROW_BYTES;
use crate::compact::{MergeOutput, SEGMENT_BYTES, write_batches};
use crate::memory_run::MemoryRun;
use crate::merge::{Compaction, CompactionInput};
use crate::policy::{output_level, window_level};
use crate::run::{Extent, Int64s, RunBatch, SortedRun, Wanted};
use crate::segment::{NO_SEQ, Segment, SegmentRecord, SystemPlan};
use keyspan_seam::{Load, ScanCounters};

/// Bytes of rows that make a part; less where the memory budget is small.
const PART_BYTES: usize = 64 << 20;
/// Bytes below which parts are not made smaller so that more of them can be written at a time.
const LEAST_PART_BYTES: usize = PART_BYTES / 2;
/// Rows of a batch on its way into a segment.
const BATCH_ROWS: usize = 8192;
/// Parts that one merge reads at once.
const FAN_IN: usize = 32;

/// Segments that were written beforehand. Dropped before [`Loaded::keep`], it removes their files.
#[derive(Debug)]
pub struct Loaded {
    core: Arc<Core>,
    records: Mutex<Vec<SegmentRecord>>,
    /// Held while a part is sorted, which takes its memory twice.
    sorting: Mutex<()>,
    kept: AtomicBool,
}

impl Loaded {
    fn new(core: &Arc<Core>) -> Arc<Loaded> {
        Arc::new(Loaded {
            core: core.clone(),
            records: Mutex::default(),
            sorting: Mutex::default(),
            kept: AtomicBool::new(false),
        })
    }

    /// The segments behind a mutation of this store.
    pub fn of(rows: &LoadedRows) -> Result<Arc<Loaded>> {
        let own = rows.handle.clone().downcast::<Loaded>();
        own.map_err(|_| Error::internal("rows that another kind of store has written"))
    }

    /// Their records, not placed.
    pub fn records(&self) -> Vec<SegmentRecord> {
        self.records.lock().clone()
    }

    /// The segments as a snapshot with this transaction's writes reads them.
    pub fn segments(&self, relation: &RelationDef, ts: i64, seq: u64) -> Vec<Arc<Segment>> {
        let segment = |record: SegmentRecord| {
            let record = record.placed(ts, seq);
            Arc::new(Segment::new(self.core.files.clone(), self.core.cache.clone(), relation, record))
        };
        self.records().into_iter().map(segment).collect()
    }

    /// Keeps the files: the segments belong to a batch of this store now.
    pub fn keep(&self, core: &Core) {
        if std::ptr::eq(Arc::as_ptr(&self.core), core) {
            self.kept.store(true, Ordering::Relaxed);
        }
    }

    fn remove(&self, records: &[SegmentRecord]) {
        // The thread of a load that removes what it has merged holds it already.
        let _open = self.core.loads.read_recursive();
        // After closing the directory may be another store's, which has removed what was left over.
        if self.core.lane.lock().closed.is_none() {
            for record in records {
                // Best effort: opening the store removes files that nothing names.
                let _ = self.core.remove_segment(record.id);
                self.core.cache.forget(record.id);
            }
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            self.remove(&self.records());
        }
    }
}

/// Bytes of a part, and how many parts are written at a time.
fn division(budget: usize, cores: usize) -> (usize, usize) {
    // Besides the parts being written there is the one being gathered, and a copy of the one being sorted.
    let threads = (budget / LEAST_PART_BYTES).saturating_sub(2).clamp(1, cores);
    (PART_BYTES.min(budget / (threads + 2)).max(1 << 16), threads)
}

/// A load under way.
pub struct StoreLoad {
    core: Arc<Core>,
    relation: Arc<RelationDef>,
    loaded: Arc<Loaded>,
    stamp: Stamp,
    /// The server's clock when it began, in microseconds: seconds to live count from here.
    clock: i64,
    part_bytes: usize,
    pending: Vec<BatchWrite>,
    bytes: usize,
    parts: u32,
    rows: u64,
    /// Parts that are written at a time.
    threads: usize,
    /// The parts being written.
    writing: VecDeque<oneshot::Receiver<Result<()>>>,
}

impl StoreLoad {
    /// Begins a load.
    pub fn new(core: &Arc<Core>, relation: RelationDef, stamp: Stamp) -> StoreLoad {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (part_bytes, threads) = division(core.options.memory_budget, cores);
        StoreLoad {
            loaded: Loaded::new(core),
            relation: Arc::new(relation),
            stamp,
            clock: core.options.clock.now(),
            part_bytes,
            threads,
            pending: Vec::new(),
            bytes: 0,
            parts: 0,
            rows: 0,
            writing: VecDeque::new(),
            core: core.clone(),
        }
    }

    /// Has the pending rows written, once there is a thread for them.
    async fn begin_part(&mut self) -> Result<()> {
        self.wait(self.threads - 1).await?;
        let part = Part {
            core: self.core.clone(),
            relation: self.relation.clone(),
            loaded: self.loaded.clone(),
            writes: std::mem::take(&mut self.pending),
            number: self.parts,
            clock: self.clock,
        };
        (self.bytes, self.parts) = (0, self.parts + 1);
        self.writing.push_back(in_thread(&self.core, move || part.write())?);
        Ok(())
    }

    /// Waits until no more than so many parts are being written.
    async fn wait(&mut self, most: usize) -> Result<()> {
        while self.writing.len() > most
            && let Some(writing) = self.writing.pop_front()
        {
            writing.await.unwrap_or_else(|_| Err(Error::internal("a thread of a load has panicked")))?;
        }
        Ok(())
    }

    /// Under a timestamp that was given all parts have the same, so later rows can win only if nothing overlaps.
    async fn fold(&mut self) -> Result<()> {
        if self.parts < 2 || matches!(self.stamp, Stamp::Server(_)) {
            return Ok(());
        }
        let (core, relation, loaded) = (self.core.clone(), self.relation.clone(), self.loaded.clone());
        let fold = move || Fold { core: &core, relation: &relation, loaded: &loaded }.all();
        self.writing.push_back(in_thread(&self.core, fold)?);
        self.wait(0).await
    }
}

#[async_trait]
impl Load for StoreLoad {
    async fn write(&mut self, write: BatchWrite) -> Result<()> {
        self.core.check_disk()?;
        let write = known_columns(&self.relation, write)?;
        check_arrays(&self.relation, &write)?;
        self.rows += write.batch.num_rows() as u64;
        self.bytes += batch_bytes(&write.batch);
        self.pending.push(write);
        if self.bytes >= self.part_bytes { self.begin_part().await } else { Ok(()) }
    }

    async fn finish(mut self: Box<Self>) -> Result<Mutation> {
        if !self.pending.is_empty() {
            self.begin_part().await?;
        }
        self.wait(0).await?;
        self.fold().await?;
        let parts = if matches!(self.stamp, Stamp::Server(_)) { self.parts.max(1) } else { 1 };
        let (relation, stamp, rows) = (self.relation.id, self.stamp, self.rows);
        Ok(Mutation::Load(LoadedRows { relation, stamp, parts, rows, handle: self.loaded }))
    }
}

/// Does work in a thread of its own, or at once where the store has no threads.
fn in_thread(core: &Core, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<oneshot::Receiver<Result<()>>> {
    let (answer, answered) = oneshot::channel();
    if !core.options.threads {
        let _ = answer.send(work());
        return Ok(answered);
    }
    let thread = std::thread::Builder::new().name("keyspan-load".into()).spawn(move || {
        // The receiver is gone if the load was aborted.
        let _ = answer.send(work());
    });
    thread.map_err(|error| Error::new(ErrorKind::Io, format!("could not start a thread: {error}")))?;
    Ok(answered)
}

/// Rows to be written as segments of their own.
struct Part {
    core: Arc<Core>,
    relation: Arc<RelationDef>,
    loaded: Arc<Loaded>,
    writes: Vec<BatchWrite>,
    number: u32,
    clock: i64,
}

impl Part {
    fn write(mut self) -> Result<()> {
        let writes = std::mem::take(&mut self.writes);
        let _open = self.core.loads.read();
        let Some(run) = self.sorted(writes)? else { return Ok(()) };
        let wanted = Wanted::everything(&self.relation);
        let rows = run.read(0..run.batch().rows, &wanted, &ScanCounters::default())?;
        let mut plan = SystemPlan::default();
        plan.observe(&self.relation, &rows);
        let level = self.level(&run.meta().all);
        let records = write_to(&self.core, &self.relation, plan, level, || {
            let mut at = 0;
            let rows = &rows;
            Ok(move || {
                let length = BATCH_ROWS.min(rows.rows - at);
                let batch = rows.slice(at, length);
                at += length;
                Ok((length > 0).then_some(batch))
            })
        })?;
        self.loaded.records.lock().extend(records);
        Ok(())
    }

    /// The rows as one run; `None` if there are none.
    fn sorted(&self, writes: Vec<BatchWrite>) -> Result<Option<MemoryRun>> {
        let _alone = self.loaded.sorting.lock();
        let Some(write) = joined(writes)? else { return Ok(None) };
        MemoryRun::from_write(&self.relation, &write, i64::from(self.number), self.clock, 0).map(Some)
    }

    /// Level of the windows to divide by.
    fn level(&self, own: &Extent) -> u32 {
        let there = self.core.relation_version(self.relation.id);
        let there =
            there.iter().flat_map(|relation| &relation.segments).map(|segment| segment.record().meta.all.clone());
        let mut known: Vec<Extent> = there.collect();
        known.extend(self.loaded.records().into_iter().map(|record| record.meta.all));
        known.push(own.clone());
        output_level(&self.relation, [own], window_level(&self.relation, &known))
    }
}

/// Writes of one statement as one, rows in the order they came.
fn joined(writes: Vec<BatchWrite>) -> Result<Option<BatchWrite>> {
    let Some(first) = writes.first().cloned() else { return Ok(None) };
    if writes.iter().any(|write| write.columns != first.columns) {
        return Err(Error::internal("the batches of a load differ in their columns"));
    }
    let batches: Vec<RecordBatch> = writes.into_iter().map(|write| write.batch).collect();
    let schema = first.batch.schema();
    Ok(Some(BatchWrite { batch: concat_batches(&schema, &batches)?, ..first }))
}

fn write_to<S>(
    core: &Core,
    relation: &Arc<RelationDef>,
    plan: SystemPlan,
    level: u32,
    open: impl FnMut() -> Result<S>,
) -> Result<Vec<SegmentRecord>>
where
    S: FnMut() -> Result<Option<RunBatch>>,
{
    let output = MergeOutput {
        files: &core.files,
        relation,
        plan,
        level,
        seq: NO_SEQ,
        segment_bytes: SEGMENT_BYTES.min((core.options.segment_rows as u64).saturating_mul(ROW_BYTES)),
        new_id: &|| core.new_segment_id(),
        pause: &|| match core.lane.lock().closed.is_some() {
            true => Err(closed()),
            false => core.may_go_on_writing(),
        },
    };
    write_batches(&output, open)
}

/// Makes one run of overlapping parts: of two rows with one key the later part's stays.
struct Fold<'a> {
    core: &'a Arc<Core>,
    relation: &'a Arc<RelationDef>,
    loaded: &'a Loaded,
}

impl Fold<'_> {
    fn all(&self) -> Result<()> {
        let _open = self.core.loads.read();
        while self.loaded.records.lock().len() > FAN_IN {
            let first = self.loaded.records()[..FAN_IN].to_vec();
            self.merge(&first, false)?;
        }
        self.merge(&self.loaded.records(), true)
    }

    /// Merges segments; the outcome takes their place. `last`: all its timestamps are 0.
    fn merge(&self, merged: &[SegmentRecord], last: bool) -> Result<()> {
        let segment = |record: &SegmentRecord| {
            let (files, cache) = (self.core.files.clone(), self.core.cache.clone());
            Arc::new(Segment::new(files, cache, self.relation, record.clone()))
        };
        let runs: Vec<Arc<Segment>> = merged.iter().map(segment).collect();
        let mut plan = SystemPlan::default();
        runs.iter().try_for_each(|run| run.observe(self.relation, &mut plan))?;
        let level = output_level(self.relation, merged.iter().map(|record| &record.meta.all), 0);
        let records = write_to(self.core, self.relation, plan, level, || {
            let mut merge = self.compaction(&runs)?;
            Ok(move || {
                let mut batch = merge.next_batch()?;
                if let Some(batch) = batch.as_mut().filter(|_| last) {
                    batch.row.ts = Int64s::Constant(0);
                }
                Ok(batch)
            })
        })?;
        drop(runs);
        self.loaded.records.lock().retain(|record| !merged.contains(record));
        self.loaded.records.lock().extend(records);
        self.loaded.remove(merged);
        Ok(())
    }

    fn compaction(&self, runs: &[Arc<Segment>]) -> Result<Compaction> {
        let input = CompactionInput {
            relation: self.relation.clone(),
            runs: runs.iter().map(|run| run.clone() as Arc<dyn SortedRun>).collect(),
            tombstones: &[],
            keep_tombstones: false,
            outside: Vec::new(),
            // Time before everything: nothing has expired and no tombstone may be dropped.
            now: i64::MIN,
        };
        Compaction::new(input, Arc::default())
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
