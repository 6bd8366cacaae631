//! The workers: one thread that flushes, one that merges and one that builds value indexes ([`super::index`]), so that a
//! long merge never holds up a flush.
//!
//! The flusher acts when memory passes half of its budget, when the log passes its limit or takes scarce room (the
//! relation with the oldest unflushed batch goes first), when the catalog has changed, and when asked. Without
//! `background` it acts only when the whole budget is used up, and nothing is merged unless asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use keyspan_model::{Error, ErrorKind, Mutation, RelationId, Result, WriteBatch};

use super::core::{Core, Reply, closed};
use super::version::RelationVersion;

/// How often the flusher checks the free space and deletes the files of dead segments.
const TICK: Duration = Duration::from_millis(500);
/// Writers check the free space before each columnar write, and once in so many other batches: a disk can fill up
/// between two ticks.
const WRITES_PER_LOOK: u64 = 16;
/// How long a worker waits after a failure.
const REST: Duration = Duration::from_millis(200);

/// Starts the workers.
pub fn start(core: &Arc<Core>) -> Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, run: fn(&Core)| {
        let core = core.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&core));
        thread.map_err(|error| Error::new(ErrorKind::Io, format!("could not start a thread: {error}")))
    };
    Ok(vec![
        spawn("keyspan-flush", Core::run_flusher)?,
        spawn("keyspan-merge", Core::run_merger)?,
        spawn("keyspan-index", Core::run_builder)?,
    ])
}

impl Core {
    fn run_flusher(&self) {
        while let Some(answers) = self.next_flush() {
            if self.flush_round(answers).is_err() {
                std::thread::sleep(REST);
            }
        }
    }

    fn flush_round(&self, answers: Vec<Reply>) -> Result<()> {
        self.look_at_disk();
        let outcome = if answers.is_empty() { self.flush_due() } else { self.flush_all() };
        if !answers.is_empty() {
            self.ask_for_index();
        }
        if self.disk_low.load(Ordering::Relaxed) {
            // Space may have been freed.
            self.look_at_disk();
            self.ask_for_merge();
        }
        self.note_outcome(&outcome);
        for answer in answers {
            let _ = answer.send(outcome.clone());
        }
        outcome
    }

    /// One round of all workers, for a store without threads.
    pub fn tick(&self) -> Result<()> {
        self.flush_round(Vec::new())?;
        let merge = std::mem::take(&mut self.work.lock().merge);
        if merge {
            self.merge_round(Vec::new())?;
        }
        let index = std::mem::take(&mut self.work.lock().index);
        if index { self.build_indexes() } else { Ok(()) }
    }

    /// Runs the requests to the workers, for a store without threads.
    pub fn answer_requests(&self) {
        let (flush, compact) = {
            let mut work = self.work.lock();
            (std::mem::take(&mut work.flush), std::mem::take(&mut work.compact))
        };
        if self.lane.lock().closed.is_some() {
            return;
        }
        // Errors are sent to the callers.
        if !flush.is_empty() {
            let _ = self.flush_round(flush);
        }
        if !compact.is_empty() {
            let _ = self.merge_round(compact);
        }
    }

    /// Waits for something to flush; `None` when the store closes.
    fn next_flush(&self) -> Option<Vec<Reply>> {
        let mut work = self.work.lock();
        if !work.closing && !work.nudged && work.flush.is_empty() {
            let _ = self.wake.wait_for(&mut work, TICK);
        }
        work.nudged = false;
        if work.closing {
            work.flush.drain(..).for_each(|answer| drop(answer.send(Err(closed()))));
            return None;
        }
        Some(std::mem::take(&mut work.flush))
    }

    fn flush_due(&self) -> Result<()> {
        self.commit_catalog()?;
        self.freeze_sealed()?;
        self.merge_memory()?;
        let mut flushed = false;
        while let Some(id) = self.flush_next() {
            let before = (self.state.lock().memory, self.log().size().0);
            self.flush_relation(id)?;
            self.shorten_log()?;
            flushed = true;
            if (self.state.lock().memory, self.log().size().0) == before {
                break;
            }
        }
        if flushed {
            self.ask_for_merge();
            self.ask_for_index();
        }
        // Of tables that are dropped or truncated there is nothing left to flush, and much in the log perhaps.
        self.shorten_log()?;
        self.delete_dead()
    }

    /// The relation that must be flushed now, if any.
    fn flush_next(&self) -> Option<RelationId> {
        let too_large = self.log().size().0 > self.options.log_limit || self.log_takes_scarce_room();
        let log_full = too_large && self.log().can_forget_before(u64::MAX);
        let state = self.state.lock();
        let loaded = |relation: &Arc<RelationVersion>| relation.unflushed_segments().next().is_some();
        if let Some((id, _)) = state.version.iter().find(|(_, relation)| loaded(relation)) {
            // The manifest is to name them soon: until then they are not merged, and need the log.
            return Some(*id);
        }
        let relations = || {
            state
                .version
                .iter()
                .filter_map(|(id, relation)| Some((relation.first_unflushed()?, *id, relation.memory())))
        };
        if log_full {
            return relations().min().map(|(_, id, _)| id);
        }
        let share = if self.options.background { self.options.memory_budget / 2 } else { self.options.memory_budget };
        let largest = || relations().max_by_key(|(_, _, memory)| *memory).map(|(_, id, _)| id);
        (state.memory >= share).then(largest).flatten()
    }

    /// Whether the disk is almost full, and the log takes more of it than what it is kept for would as segments: after
    /// a DROP most of it may be of rows that are gone. Those segments must have room beside it.
    fn log_takes_scarce_room(&self) -> bool {
        let memory = self.state.lock().memory as u64;
        let has_room = |free: u64| free / 2 > memory;
        self.disk_low.load(Ordering::Relaxed)
            && self.log().size().0 > 2 * memory + self.options.log_file
            && matches!(self.files.free_space(), Ok(Some(free)) if has_room(free))
    }

    /// Wakes the merger.
    pub fn ask_for_merge(&self) {
        self.work.lock().merge = true;
        self.wake.notify_all();
    }

    fn run_merger(&self) {
        while let Some(answers) = self.next_merge() {
            if self.merge_round(answers).is_err() {
                std::thread::sleep(REST);
            }
        }
    }

    fn merge_round(&self, answers: Vec<Reply>) -> Result<()> {
        let outcome = if answers.is_empty() { self.merge_due() } else { self.compact_now() };
        self.ask_for_index();
        if let Err(error) = &outcome {
            tracing::warn!(%error, "a merge of segments failed");
        }
        for answer in answers {
            let _ = answer.send(outcome.clone());
        }
        outcome
    }

    fn next_merge(&self) -> Option<Vec<Reply>> {
        let mut work = self.work.lock();
        let mut looked_at = false;
        while !work.closing && !work.merge && work.compact.is_empty() && !looked_at {
            // Windows become quiet with nothing happening.
            looked_at = self.wake.wait_for(&mut work, self.options.quiet.max(TICK)).timed_out();
        }
        work.merge = false;
        if work.closing {
            work.compact.drain(..).for_each(|answer| drop(answer.send(Err(closed()))));
            return None;
        }
        Some(std::mem::take(&mut work.compact))
    }

    /// Everything merged, and indexed.
    fn compact_now(&self) -> Result<()> {
        self.flush_all()?;
        self.compact_all()?;
        self.build_indexes()
    }

    fn merge_due(&self) -> Result<()> {
        if self.options.background { self.compact_due() } else { Ok(()) }
    }

    /// Tells writers that wait for room why there is none.
    fn note_outcome(&self, outcome: &Result<()>) {
        *self.stuck.lock() = outcome.as_ref().err().cloned();
        if let Err(error) = outcome {
            tracing::warn!(%error, "a flush failed");
        }
        self.room.notify_waiters();
    }

    /// Whether a writer must wait: memory or log are beyond what flushing keeps up with.
    fn is_full(&self) -> bool {
        let memory = self.state.lock().memory;
        memory >= self.options.memory_budget || self.log().size().0 > self.options.log_limit.saturating_mul(2)
    }

    /// Waits until there is room for a batch. Deletions alone take little space, and free more: for them the disk must
    /// be almost out.
    ///
    /// Errors: 53100 while the disk has less free space than the mark; whatever keeps memory from being freed.
    pub async fn wait_for_room(&self, batch: &WriteBatch) -> Result<()> {
        let large = batch.mutations.iter().any(|mutation| matches!(mutation, Mutation::Batch(_)));
        if self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(WRITES_PER_LOOK) || large {
            self.look_at_disk();
        }
        if !batch.mutations.iter().all(Mutation::is_deletion) || self.disk_out.load(Ordering::Relaxed) {
            self.check_disk()?;
        }
        let (memory, budget) = (self.state.lock().memory, self.options.memory_budget);
        if memory >= budget / 2 || self.log().size().0 > self.options.log_limit {
            self.nudge();
        }
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if !self.is_full() {
                return Ok(());
            }
            let closed = self.lane.lock().closed.clone();
            if let Some(error) = closed.or_else(|| self.stuck.lock().clone()).or_else(|| self.log().failure()) {
                return Err(error);
            }
            if !self.options.threads {
                // Unless the caller goes on while memory is flushed.
                return if self.flushing.is_locked() { Ok(()) } else { self.flush_round(Vec::new()) };
            }
            self.nudge();
            room.await;
        }
    }
}
