//! Runs in memory are merged in tiers, so that small batches do not leave hundreds of runs.
//!
//! ```text
//! 8 runs of 1–8 K rows ─▶ one of 8–64 K;  8 of those ─▶ one of 64–512 K, which stays until it is flushed
//! ```
//!
//! Rules: as with frozen memtables, only runs that every snapshot shows are merged, since the rows of a merged run have
//! no seq of their own; and not while a flush is under way. Span tombstones are not applied; readers do that. Nothing
//! of this is durable: after a restart the log has the batches as they came.

use std::sync::Arc;

use keyspan_model::Result;

use super::core::Core;
use super::version::RelationVersion;
use super::write::Inputs;
use crate::memory_run::MemoryRun;
use crate::run::{RunBatch, SortedRun};

/// Runs of a tier that are merged into one.
const RUNS: usize = 8;
/// Rows of the smallest run that a bulk write makes, about: the first tier's.
const FIRST_ROWS: u64 = 1024;
/// Tiers whose runs are merged; those of the next stay.
const TIERS: u32 = 2;

impl Core {
    /// Merges the tiers that are full.
    pub fn merge_memory(&self) -> Result<()> {
        let _flushing = self.flushing.lock();
        let ids: Vec<_> = self.state.lock().version.keys().copied().collect();
        for id in ids {
            loop {
                let (relation, visible) = {
                    let state = self.state.lock();
                    let Some(relation) = state.version.get(&id) else { break };
                    (relation.clone(), state.visible)
                };
                let Some(runs) = due(&relation, visible) else { break };
                let merged = self.merged(&relation, &runs)?;
                let gone = |run: &Arc<MemoryRun>| runs.iter().any(|merged| Arc::ptr_eq(run, merged));
                let mut state = self.state.lock();
                state.change(id, |current| {
                    current.runs.retain(|run| !gone(run));
                    current.runs.extend(merged);
                });
                state.recount();
            }
        }
        Ok(())
    }

    /// One run of all, or none if nothing is left of them.
    fn merged(&self, relation: &RelationVersion, runs: &[Arc<MemoryRun>]) -> Result<Option<Arc<MemoryRun>>> {
        let others = relation.runs.iter().filter(|run| !runs.iter().any(|merged| Arc::ptr_eq(run, merged)));
        let others = others.map(|run| run.meta().all.clone()).chain(relation.memtable_extents());
        let segments = relation.segments.iter().map(|segment| segment.record().meta.all.clone());
        let inputs = Inputs {
            relation: relation.definition.clone(),
            memory: runs.to_vec(),
            segments: Vec::new(),
            tombstones: Vec::new(),
            outside: others.chain(segments).collect(),
            seen: self.seen(relation.definition.id),
            now: self.expiry_clock(),
            level: 0,
        };
        let mut compaction = inputs.merge()?;
        let mut batches = Vec::new();
        while let Some(batch) = compaction.next_batch()? {
            if batch.rows > 0 {
                batches.push(batch.decoded()?);
            }
        }
        if batches.is_empty() {
            return Ok(None);
        }
        let columns = compaction.columns().to_vec();
        let run = MemoryRun::new(&relation.definition, RunBatch::concat(&batches)?, columns, inputs.seq())?;
        let run = Arc::new(run);
        inputs.inherit_disjoint(relation, &[Arc::<MemoryRun>::clone(&run)]);
        Ok(Some(run))
    }
}

/// The runs of the lowest tier that has enough of them.
fn due(relation: &RelationVersion, visible: u64) -> Option<Vec<Arc<MemoryRun>>> {
    (0..TIERS).find_map(|tier| {
        let ready = |run: &&Arc<MemoryRun>| run.meta().seq.1 <= visible && tier_of(run.meta().all.rows) == tier;
        let runs: Vec<_> = relation.runs.iter().filter(ready).cloned().collect();
        (runs.len() >= RUNS).then_some(runs)
    })
}

fn tier_of(rows: u64) -> u32 {
    (rows / FIRST_ROWS).max(1).ilog2() / RUNS.ilog2()
}
