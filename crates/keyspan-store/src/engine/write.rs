//! Merging runs: what flushes, compactions and merges in memory have in common.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspan_model::{RelationDef, Result, SegmentId};

use super::core::{Core, closed};
use super::version::RelationVersion;
use crate::compact::{MergeOutput, SEGMENT_BYTES, write_merged};
use crate::memory_run::MemoryRun;
use crate::merge::{Compaction, CompactionInput};
use crate::run::{Extent, RunBatch, SortedRun, SpanTombstone, Wanted, inherit_disjoint};
use crate::segment::{Segment, SegmentRecord, SystemPlan, data_path, index_path};
use keyspan_seam::ScanCounters;

/// Assumed bytes of a row on disk, for cutting segments by rows.
pub const ROW_BYTES: u64 = 32;

/// The inputs of a merge.
pub struct Inputs {
    /// The newest definition.
    pub relation: Arc<RelationDef>,
    /// Runs in memory.
    pub memory: Vec<Arc<MemoryRun>>,
    /// Segments.
    pub segments: Vec<Arc<Segment>>,
    /// Every span tombstone of the relation.
    pub tombstones: Vec<SpanTombstone>,
    /// Extents of everything of the relation that is not merged.
    pub outside: Vec<Extent>,
    /// The batch up to which deletions may be forgotten.
    pub seen: u64,
    /// By what time expiry is judged, in microseconds.
    pub now: i64,
    /// Level of the windows to divide segments by.
    pub level: u32,
}

impl Core {
    /// Merges runs and writes them as segments, durably. Nothing refers to them yet.
    pub fn write_segments(&self, inputs: &Inputs) -> Result<Vec<SegmentRecord>> {
        let output = MergeOutput {
            files: &self.files,
            relation: &inputs.relation,
            plan: inputs.plan()?,
            level: inputs.level,
            seq: inputs.seq(),
            segment_bytes: SEGMENT_BYTES.min((self.options.segment_rows as u64).saturating_mul(ROW_BYTES)),
            new_id: &|| self.new_segment_id(),
            pause: &|| self.may_go_on_writing(),
        };
        write_merged(&output, || inputs.merge())
    }

    /// Called between two batches of a segment: fails when the store is being closed, and when the disk is full.
    pub fn may_go_on_writing(&self) -> Result<()> {
        match self.aborting.load(Ordering::Relaxed) {
            true => Err(closed()),
            false => self.check_room_for_segments(),
        }
    }

    /// Removes the files of segments that no manifest has ever named.
    pub fn discard(&self, records: &[SegmentRecord]) -> Result<()> {
        records.iter().try_for_each(|record| self.remove_segment(record.id))
    }

    /// Removes a segment's files.
    pub fn remove_segment(&self, id: SegmentId) -> Result<()> {
        self.files.remove(&index_path(id))?;
        self.files.remove(&data_path(id))
    }
}

impl Inputs {
    fn runs(&self) -> impl Iterator<Item = Arc<dyn SortedRun>> {
        let memory = self.memory.iter().map(|run| run.clone() as Arc<dyn SortedRun>);
        memory.chain(self.segments.iter().map(|segment| segment.clone() as Arc<dyn SortedRun>))
    }

    /// Records which of the relation's other runs share no row with the runs that these were merged into.
    pub fn inherit_disjoint(&self, relation: &RelationVersion, merged: &[Arc<dyn SortedRun>]) {
        let inputs: Vec<Arc<dyn SortedRun>> = self.runs().collect();
        let memory = relation.runs.iter().map(|run| run.clone() as Arc<dyn SortedRun>);
        let segments = relation.segments.iter().map(|segment| segment.clone() as Arc<dyn SortedRun>);
        let merged_away =
            |run: &Arc<dyn SortedRun>| inputs.iter().any(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(run)));
        let others = memory.chain(segments).filter(|run| !merged_away(run));
        inherit_disjoint(&self.relation, &inputs, merged, others);
    }

    /// Least and greatest commit order of what is merged.
    pub fn seq(&self) -> (u64, u64) {
        let seqs = self.runs().map(|run| run.meta().seq);
        seqs.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0))
    }

    fn plan(&self) -> Result<SystemPlan> {
        let mut plan = SystemPlan::default();
        for run in &self.memory {
            plan.observe(&self.relation, &whole(run.as_ref(), &self.relation)?);
        }
        for segment in &self.segments {
            segment.observe(&self.relation, &mut plan)?;
        }
        Ok(plan)
    }

    /// Begins to merge.
    pub fn merge(&self) -> Result<Compaction> {
        let input = CompactionInput {
            relation: self.relation.clone(),
            runs: self.runs().collect(),
            tombstones: &self.tombstones,
            outside: self.outside.clone(),
            keep_tombstones: self.seq().1 > self.seen,
            now: self.now,
        };
        Compaction::new(input, Arc::new(ScanCounters::default()))
    }
}

fn whole(run: &MemoryRun, relation: &RelationDef) -> Result<RunBatch> {
    let wanted = Wanted {
        keys: vec![false; relation.key.len()],
        encoded: false,
        values: relation.values.iter().map(|column| column.id).collect(),
        system: true,
        coded: false,
    };
    run.read(0..run.batch().rows, &wanted, &ScanCounters::default())
}
