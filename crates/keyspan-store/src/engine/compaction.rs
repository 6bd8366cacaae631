//! Merging segments: the policy chooses them; here the merge is run and becomes part of the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspan_model::{RelationId, Result, SegmentId};

use super::core::Core;
use super::flush::tombstone_key;
use super::version::RelationVersion;
use super::write::Inputs;
use crate::manifest::{Edit, TombstoneKey};
use crate::policy::{Pick, Situation, expired, old_rows, pick, window_around, window_level, worth_freeing};
use crate::run::{Extent, SortedRun, SpanTombstone, SpanTombstones};
use crate::segment::{Segment, SegmentRecord};

impl Core {
    /// Merges the segments of every relation as far as they can be.
    pub fn compact_all(&self) -> Result<()> {
        let ids: Vec<RelationId> = self.state.lock().version.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.compact_relation(id, true))
    }

    /// Merges and drops the segments that the policy chooses, relation by relation.
    pub fn compact_due(&self) -> Result<()> {
        let ids: Vec<RelationId> = self.state.lock().version.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.compact_relation(id, false))
    }

    fn compact_relation(&self, id: RelationId, all: bool) -> Result<()> {
        let _compacting = self.compacting.lock();
        self.drop_expired(id)?;
        while let Some(relation) = self.relation_version(id) {
            let records: Vec<SegmentRecord> =
                relation.flushed_segments().map(|segment| segment.record().clone()).collect();
            let pick = match pick(&relation.definition, &records, &self.situation(&relation, all)) {
                Some(pick) => pick,
                None => match self.pick_deleted(&relation, all)? {
                    Some(pick) => pick,
                    None => break,
                },
            };
            let chosen = relation.segments.iter().filter(|segment| pick.inputs.contains(&segment.id())).cloned();
            let chosen: Vec<Arc<Segment>> = chosen.collect();
            drop(relation);
            self.merge(id, chosen, pick.level)?;
        }
        Ok(())
    }

    /// What has come lately, and how much room there is: a large merge must not be what fills the disk.
    fn situation(&self, relation: &RelationVersion, all: bool) -> Situation {
        let fresh = relation.flushed_segments().filter(|segment| segment.age() < self.options.quiet);
        let free = self.files.free_space().ok().flatten().unwrap_or(u64::MAX);
        let room = match self.disk_low.load(Ordering::Relaxed) {
            _ if all => u64::MAX,
            true => 0,
            false => free.saturating_sub(self.options.free_space_mark),
        };
        Situation { fresh: fresh.map(|segment| segment.id()).collect(), room, all }
    }

    /// The next segment to free of rows that are deleted or too old, if there is one.
    fn pick_deleted(&self, relation: &RelationVersion, all: bool) -> Result<Option<Pick>> {
        let seq = self.final_seq();
        let room = match self.disk_low.load(Ordering::Relaxed) {
            true => self.files.free_space()?.map_or(u64::MAX, |free| free / 2),
            false => u64::MAX,
        };
        let now = self.expiry_clock();
        let worth = |segment: &&Arc<Segment>| {
            let meta = &segment.record().meta;
            worth_freeing(meta, deleted_rows(segment, &relation.tombstones, seq), all, room)
                || worth_freeing(meta, old_rows(&relation.definition, &meta.all, now), false, room)
        };
        let Some(segment) = relation.flushed_segments().find(worth) else { return Ok(None) };
        let extents = relation.segments.iter().map(|segment| &segment.record().meta.all);
        let level = window_level(&relation.definition, extents);
        let level = window_around(&relation.definition, &segment.record().meta.all, level).level;
        Ok(Some(Pick { inputs: vec![segment.id()], level }))
    }

    /// Span tombstones whose batches are durable and seen by every snapshot: what they delete may be dropped for good.
    pub fn final_tombstones(&self, relation: &RelationVersion) -> Vec<SpanTombstone> {
        relation.tombstones.over(&[], None, self.final_seq()).into_iter().cloned().collect()
    }

    /// The last batch that is durable and seen by every snapshot.
    fn final_seq(&self) -> u64 {
        self.durable().min(self.state.lock().visible)
    }

    /// Drops segments that have expired as a whole.
    fn drop_expired(&self, id: RelationId) -> Result<()> {
        let now = self.expiry_clock();
        let mut manifest = self.manifest.lock();
        let Some(relation) = self.relation_version(id) else { return Ok(()) };
        let records: Vec<SegmentRecord> = relation.flushed_segments().map(|segment| segment.record().clone()).collect();
        let mut elsewhere = relation.memory_extents();
        elsewhere.extend(relation.unflushed_segments().map(|segment| segment.record().meta.all.clone()));
        let mut gone: BTreeSet<SegmentId> =
            expired(&relation.definition, &records, &elsewhere, now).into_iter().collect();
        // Followers of the relation must see deletions, but not expiry.
        let seen = self.seen(id);
        let unseen = |record: &&SegmentRecord| record.meta.seq.1 > seen && record.meta.all.deleted_at.is_some();
        for record in records.iter().filter(unseen) {
            gone.remove(&record.id);
        }
        if gone.is_empty() {
            return Ok(());
        }
        let edit = Edit { remove: gone.iter().copied().collect(), ..self.edit(&manifest) };
        manifest.commit(edit, true)?;
        self.publish_merge(id, &gone, Vec::new());
        drop(manifest);
        self.bury(relation.segments.iter().filter(|segment| gone.contains(&segment.id())));
        drop(relation);
        self.delete_dead()
    }

    /// The newest state of one relation.
    pub fn relation_version(&self, id: RelationId) -> Option<Arc<RelationVersion>> {
        self.state.lock().version.get(&id).cloned()
    }

    /// Replaces segments of a relation by their merge.
    fn merge(&self, id: RelationId, chosen: Vec<Arc<Segment>>, level: u32) -> Result<()> {
        let Some(relation) = self.relation_version(id) else { return Ok(()) };
        let merged: BTreeSet<SegmentId> = chosen.iter().map(|segment| segment.id()).collect();
        let inputs = self.merge_inputs(&relation, chosen, &merged, level);
        let records = self.write_segments(&inputs)?;
        let segments = self.merged_segments(&relation, &inputs, &records);
        let mut manifest = self.manifest.lock();
        let current = self.relation_version(id);
        let alive = current.is_some_and(|current| {
            let segments: BTreeSet<SegmentId> = current.segments.iter().map(|segment| segment.id()).collect();
            merged.is_subset(&segments)
        });
        if !alive {
            // The relation was dropped meanwhile.
            return self.discard(&records);
        }
        let edit = Edit { add: records.clone(), remove: merged.iter().copied().collect(), ..self.edit(&manifest) };
        if let Err(error) = manifest.commit(edit, true) {
            self.doubt(&manifest, &records);
            return Err(error);
        }
        self.publish_merge(id, &merged, segments);
        drop(manifest);
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.bury(inputs.segments.iter());
        drop((inputs, relation));
        self.forget_tombstones(id)?;
        self.delete_dead()
    }

    /// Puts segments in the place of others, as the manifest has it.
    pub fn publish_merge(&self, id: RelationId, merged: &BTreeSet<SegmentId>, segments: Vec<Arc<Segment>>) {
        self.state.lock().change(id, |current| {
            current.segments.retain(|segment| !merged.contains(&segment.id()));
            current.segments.extend(segments);
        });
    }

    /// Removes span tombstones whose grace has passed and that cover nothing any more: every run that overlaps one has
    /// only younger writes there.
    fn forget_tombstones(&self, id: RelationId) -> Result<()> {
        let now = self.expiry_clock();
        let mut manifest = self.manifest.lock();
        let Some(relation) = self.relation_version(id) else { return Ok(()) };
        let old = obsolete_tombstones(&relation, now, self.seen(id));
        if old.is_empty() {
            return Ok(());
        }
        let edit = Edit { remove_tombstones: old.clone(), ..self.edit(&manifest) };
        manifest.commit(edit, true)?;
        self.state.lock().change(id, |current| {
            current.tombstones.retain(|tombstone| !old.contains(&tombstone_key(id, tombstone)));
        });
        Ok(())
    }

    fn merge_inputs(
        &self,
        relation: &RelationVersion,
        chosen: Vec<Arc<Segment>>,
        merged: &BTreeSet<SegmentId>,
        level: u32,
    ) -> Inputs {
        let others = relation.segments.iter().filter(|segment| !merged.contains(&segment.id()));
        let mut outside = relation.memory_extents();
        outside.extend(others.map(|segment| segment.record().meta.all.clone()));
        Inputs {
            relation: relation.definition.clone(),
            memory: Vec::new(),
            segments: chosen,
            tombstones: self.final_tombstones(relation),
            outside,
            seen: self.seen(relation.definition.id),
            now: self.expiry_clock(),
            level,
        }
    }
}

/// Rows of a segment that span tombstones of batches up to `seq`, younger than all of it, cover: at least so many, as its index knows.
fn deleted_rows(segment: &Segment, tombstones: &SpanTombstones, seq: u64) -> u64 {
    let all = &segment.record().meta.all;
    let younger = |tombstone: &&SpanTombstone| all.ts.is_some_and(|ts| ts.1 <= tombstone.ts);
    let behind = [all.key.1.as_slice(), &[0]].concat();
    let overlapping = tombstones.over(&all.key.0, Some(&behind), seq).into_iter();
    let covered = overlapping.filter(younger).map(|tombstone| {
        let end = tombstone.end.as_ref().map_or(all.rows as usize, |end| segment.estimate(end).0);
        (segment.estimate(&tombstone.start).1, end)
    });
    let mut covered: Vec<(usize, usize)> = covered.collect();
    covered.sort_unstable();
    let (mut rows, mut counted) = (0, 0);
    for (first, end) in covered {
        let first = first.max(counted);
        rows += end.saturating_sub(first);
        counted = counted.max(end);
    }
    rows as u64
}

fn obsolete_tombstones(relation: &RelationVersion, now: i64, seen: u64) -> BTreeSet<TombstoneKey> {
    let grace = i64::from(relation.definition.gc_grace).saturating_mul(1_000_000);
    let mut extents = relation.memory_extents();
    extents.extend(relation.segments.iter().map(|segment| segment.meta().all.clone()));
    let id = relation.definition.id;
    let old = relation.tombstones.iter().filter(|tombstone| {
        let span = &tombstone.span;
        let needed = |extent: &Extent| {
            extent.overlaps(&span.start, span.end.as_deref()) && extent.ts.is_none_or(|ts| ts.0 <= span.ts)
        };
        let flushed = span.seq <= relation.flushed.min(seen);
        flushed && span.deleted_at.saturating_add(grace) <= now && !extents.iter().any(needed)
    });
    old.map(|tombstone| tombstone_key(id, tombstone)).collect()
}
