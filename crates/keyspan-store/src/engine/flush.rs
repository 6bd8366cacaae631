//! Flushing: rows in memory become segments, so that the log can be shortened.
//!
//! ```text
//! seal ─▶ wait until durable ─▶ segments, synced ─▶ manifest edit and checkpoint ─▶ publish ─▶ shorten the log
//! ```
//!
//! Rule: nothing is flushed before the log has it: else a crash could leave half of a batch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspan_model::{RelationId, Result};

use super::core::Core;
use super::version::{RelationVersion, Schema};
use super::write::Inputs;
use crate::manifest::{Edit, Manifest, Marks};
use crate::memory_run::MemoryRun;
use crate::policy::{output_level, window_level};
use crate::run::{Extent, SortedRun, Tombstone};
use crate::segment::{SEGMENT_DIRECTORY, Segment, SegmentRecord};

impl Core {
    /// Flushes every relation that has something in memory.
    pub fn flush_all(&self) -> Result<()> {
        self.commit_catalog()?;
        let ids: Vec<RelationId> = self.state.lock().version.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush_relation(id))?;
        self.shorten_log()
    }

    /// Flushes one relation, up to the newest batch.
    pub fn flush_relation(&self, id: RelationId) -> Result<()> {
        let _flushing = self.flushing.lock();
        let Some((relation, upto)) = self.seal(id) else { return Ok(()) };
        if relation.first_unflushed().is_none() {
            return Ok(());
        }
        self.wait_durable(upto)?;
        let memory = frozen(&relation, upto)?;
        let inputs = self.flush_inputs(&relation, memory, upto);
        let records = self.write_segments(&inputs)?;
        let segments = self.merged_segments(&relation, &inputs, &records);
        let mut manifest = self.manifest.lock();
        if !self.state.lock().version.contains_key(&id) {
            return self.discard(&records);
        }
        let committed = self.commit_flush(&mut manifest, &relation, segments, upto);
        if committed.is_err() {
            self.doubt(&manifest, &records);
        }
        drop(manifest);
        committed?;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.room.notify_waiters();
        Ok(())
    }

    /// Closes the relation's memtable; everything up to the seq given back is in sealed memtables and runs.
    fn seal(&self, id: RelationId) -> Option<(Arc<RelationVersion>, u64)> {
        let lane = self.lane.lock();
        let mut state = self.state.lock();
        state.change(id, RelationVersion::seal);
        Some((state.version.get(&id)?.clone(), lane.seq))
    }

    /// The last batch that is on disk.
    pub fn durable(&self) -> u64 {
        self.commit_log.get().map_or(u64::MAX, crate::log::CommitLog::durable)
    }

    fn wait_durable(&self, seq: u64) -> Result<()> {
        // While the log is replayed there is none to wait for: all of it is durable.
        self.commit_log.get().map_or(Ok(()), |log| log.wait(seq))
    }

    fn flush_inputs(&self, relation: &RelationVersion, memory: Vec<Arc<MemoryRun>>, upto: u64) -> Inputs {
        let extents: Vec<Extent> = memory.iter().map(|run| run.meta().all.clone()).collect();
        let known = relation.segments.iter().map(|segment| &segment.record().meta.all).chain(&extents);
        let level = output_level(&relation.definition, &extents, window_level(&relation.definition, known));
        let newer = relation.runs.iter().filter(|run| run.meta().seq.1 > upto).map(|run| run.meta().all.clone());
        let segments = relation.segments.iter().map(|segment| segment.record().meta.all.clone());
        Inputs {
            relation: relation.definition.clone(),
            memory,
            segments: Vec::new(),
            tombstones: self.final_tombstones(relation),
            outside: newer.chain(segments).collect(),
            seen: self.seen(relation.definition.id),
            now: self.expiry_clock(),
            level,
        }
    }

    /// The time by which flushes and merges judge expiry: no later snapshot judges by an earlier one.
    pub fn expiry_clock(&self) -> i64 {
        let clock = self.options.clock.now();
        let mut state = self.state.lock();
        state.read_time = state.read_time.max(clock);
        state.read_time
    }

    fn commit_flush(
        &self,
        manifest: &mut Manifest,
        relation: &RelationVersion,
        segments: Vec<Arc<Segment>>,
        upto: u64,
    ) -> Result<()> {
        let id = relation.definition.id;
        let tombstones = relation.unflushed_tombstones().filter(|tombstone| tombstone.span.seq <= upto);
        let mut tombstones: Vec<_> = tombstones.cloned().collect();
        tombstones.sort_by_key(|tombstone| (tombstone.span.seq, tombstone.number));
        let add_tombstones = vec![(id, tombstones)];
        let loaded = relation.unflushed_segments().filter(|segment| segment.record().meta.seq.1 <= upto);
        let add = loaded.chain(&segments).map(|segment| segment.record().clone()).collect();
        let edit = Edit { add, flushed: vec![(id, upto)], add_tombstones, ..self.edit(manifest) };
        manifest.commit(edit, true)?;
        let gone: BTreeSet<*const ()> = relation.sealed.iter().map(|memtable| Arc::as_ptr(memtable).cast()).collect();
        let mut state = self.state.lock();
        state.change(id, |current| {
            current.sealed.retain(|memtable| !gone.contains(&Arc::as_ptr(memtable).cast()));
            current.runs.retain(|run| run.meta().seq.1 > upto);
            current.segments.extend(segments);
            current.flushed = upto;
        });
        state.recount();
        Ok(())
    }

    /// A segment of a relation, not opened yet.
    pub fn segment(&self, relation: &RelationVersion, record: SegmentRecord) -> Arc<Segment> {
        Arc::new(Segment::new(self.files.clone(), self.cache.clone(), &relation.definition, record))
    }

    /// The segments that were written of merged runs, not opened yet.
    pub fn merged_segments(
        &self,
        relation: &RelationVersion,
        inputs: &Inputs,
        records: &[SegmentRecord],
    ) -> Vec<Arc<Segment>> {
        let segments = records.iter().map(|record| self.segment(relation, record.clone()));
        let segments: Vec<Arc<Segment>> = segments.collect();
        let runs: Vec<Arc<dyn SortedRun>> = segments.iter().map(|segment| segment.clone() as _).collect();
        inputs.inherit_disjoint(relation, &runs);
        segments
    }

    /// The beginning of every edit: the marks, and a newer catalog if the manifest lacks it.
    pub fn edit(&self, manifest: &Manifest) -> Edit {
        let state = self.state.lock();
        let (schema, seq) = (state.schema.clone(), state.schema_seq);
        drop(state);
        let newer = seq > manifest.state().catalog_seq && seq <= self.durable();
        Edit { catalog: newer.then(|| (schema.catalog.clone(), seq)), marks: self.marks(), ..Edit::default() }
    }

    /// Writes an acknowledged change of the catalog to the manifest, and frees what it dropped.
    pub fn commit_catalog(&self) -> Result<()> {
        let changed = self.state.lock().schema_seq;
        // A relaxed batch may have made the change visible before it is durable.
        self.wait_durable(changed)?;
        let mut manifest = self.manifest.lock();
        let dropped = self.dropped_relations(changed, &manifest);
        if self.state.lock().schema_seq <= manifest.state().catalog_seq && dropped.is_empty() {
            return Ok(());
        }
        let edit = Edit { drop: dropped.clone(), ..self.edit(&manifest) };
        manifest.commit(edit, true)?;
        let mut state = self.state.lock();
        let version = Arc::make_mut(&mut state.version);
        let gone: Vec<Arc<RelationVersion>> = dropped.iter().filter_map(|id| version.remove(id)).collect();
        state.recount();
        drop(state);
        self.bury(gone.iter().flat_map(|relation| &relation.segments));
        drop(gone);
        drop(manifest);
        self.room.notify_waiters();
        self.delete_dead()?;
        // Value indexes of what was dropped are of nothing now.
        self.swept.store(u64::MAX, Ordering::Relaxed);
        self.ask_for_index();
        Ok(())
    }

    /// Relations of the version, and of the manifest's segments, that no schema names, neither the acknowledged one nor
    /// one on its way. None if there is a newer schema than that of the change: then they are dropped with that one.
    fn dropped_relations(&self, changed: u64, manifest: &Manifest) -> Vec<RelationId> {
        let state = self.state.lock();
        if state.schema_seq != changed {
            return Vec::new();
        }
        let schemas: Vec<&Arc<Schema>> =
            [&state.schema].into_iter().chain(state.pending.iter().map(|(_, schema)| schema)).collect();
        let named = |id: &RelationId| schemas.iter().any(|schema| schema.relations.contains_key(id));
        // An earlier edit may have brought the newer catalog before a crash.
        let left = manifest.state().segments.values().map(|record| record.relation);
        let known: BTreeSet<RelationId> = state.version.keys().copied().chain(left).collect();
        known.into_iter().filter(|id| !named(id)).collect()
    }

    /// Marks segments for deletion once nobody reads them any more.
    pub fn bury<'a>(&self, segments: impl Iterator<Item = &'a Arc<Segment>>) {
        self.graveyard.lock().extend(segments.map(|segment| (segment.id(), Arc::downgrade(segment))));
    }

    /// Deletes the files of dead segments that nobody reads. The manifest must have said that they are dead, in a
    /// checkpoint.
    pub fn delete_dead(&self) -> Result<()> {
        self.delete_doubtful()?;
        let free: Vec<_> = {
            let mut graveyard = self.graveyard.lock();
            let (free, kept) = graveyard.drain(..).partition(|(_, segment)| segment.strong_count() == 0);
            *graveyard = kept;
            free
        };
        if free.is_empty() {
            return Ok(());
        }
        for (id, _) in &free {
            self.remove_segment(*id)?;
            self.cache.forget(*id);
        }
        self.files.sync_dir(SEGMENT_DIRECTORY)?;
        let buried = free.into_iter().map(|(id, _)| id).collect();
        self.manifest.lock().commit(Edit { buried, ..Edit::default() }, false)
    }

    /// Deletes the files of segments whose edit failed, once a later checkpoint does not name them.
    fn delete_doubtful(&self) -> Result<()> {
        if self.doubtful.lock().is_empty() {
            return Ok(());
        }
        let checkpoint = self.manifest.lock().checkpoint();
        let mut doubtful = self.doubtful.lock();
        for (id, next) in doubtful.iter().filter(|(_, next)| *next <= checkpoint) {
            tracing::debug!(%id, next, "a segment whose edit failed is removed");
            self.remove_segment(*id)?;
        }
        doubtful.retain(|(_, next)| *next > checkpoint);
        Ok(())
    }

    /// Removes log files whose batches are all flushed.
    pub fn shorten_log(&self) -> Result<()> {
        let Some(log) = self.commit_log.get().filter(|log| log.can_forget_before(u64::MAX)) else { return Ok(()) };
        let durable = log.durable();
        let mut manifest = self.manifest.lock();
        let catalog_seq = manifest.state().catalog_seq;
        let needed = {
            let state = self.state.lock();
            let rows = state.version.values().filter_map(|relation| relation.first_unflushed());
            let schemas =
                state.pending.iter().map(|(seq, _)| *seq).chain([state.schema_seq]).filter(|seq| *seq > catalog_seq);
            rows.chain(schemas).min().unwrap_or(durable + 1).min(durable + 1)
        };
        if !log.can_forget_before(needed) {
            return Ok(());
        }
        let marks = Marks { log_start: needed, ..self.marks() };
        manifest.commit(Edit { marks, ..Edit::default() }, true)?;
        drop(manifest);
        log.forget_before(self.files.as_ref(), needed)?;
        self.room.notify_waiters();
        Ok(())
    }

    /// Turns sealed memtables into runs, so that scans need not copy them each time.
    pub fn freeze_sealed(&self) -> Result<()> {
        let _flushing = self.flushing.lock();
        let (version, visible) = {
            let state = self.state.lock();
            (state.version.clone(), state.visible)
        };
        for (id, relation) in version.iter() {
            let ready =
                |memtable: &&Arc<_>| crate::memtable::Memtable::seqs(memtable).is_some_and(|seqs| seqs.1 <= visible);
            for memtable in relation.sealed.iter().filter(ready) {
                let run = Arc::new(memtable.freeze(&relation.definition)?);
                let mut state = self.state.lock();
                state.change(*id, |current| {
                    if let Some(at) = current.sealed.iter().position(|sealed| Arc::ptr_eq(sealed, memtable)) {
                        current.sealed.remove(at);
                        current.runs.push(run);
                    }
                });
                state.recount();
            }
        }
        Ok(())
    }
}

/// Names a span tombstone in the manifest.
pub fn tombstone_key(relation: RelationId, tombstone: &Tombstone) -> (RelationId, u64, u32) {
    (relation, tombstone.span.seq, tombstone.number)
}

fn frozen(relation: &RelationVersion, upto: u64) -> Result<Vec<Arc<MemoryRun>>> {
    let sealed = relation.sealed.iter().map(|memtable| memtable.freeze(&relation.definition).map(Arc::new));
    let mut runs = sealed.collect::<Result<Vec<_>>>()?;
    runs.extend(relation.runs.iter().filter(|run| run.meta().seq.1 <= upto).cloned());
    Ok(runs)
}
