//! Groups of overlapping runs: which runs of a scan must be merged with each other, and which rows.
//!
//! Two groupings of the chosen runs:
//! - a **merge group**: runs of which it is not known which rows they share. They are merged whole.
//! - a **shared group**: runs of different merge groups that share known rows, directly or through other runs. Only the
//!   shared rows are merged.
//!
//! A run's other rows are read with its merge group alone; where that is one run, without a merge. Groups are kept
//! small because a merge holds a block of each of its runs in memory.
//!
//! ```text
//! a ═══════════════     merge group 1: a without x ─▶ as it is
//! b    x ══════════     merge group 2: b and c without x ─▶ merged      shared group: x of a and b ─▶ merged
//! c      ══════
//! ```

use std::sync::Arc;

use keyspan_model::Result;

use super::ScanSource;
use super::plan::Chosen;
use crate::merge::cursor::Which;
use crate::run::Overlap;

/// A pair of overlapping runs, and the rows of each that the other has too.
struct Pair {
    runs: [usize; 2],
    rows: [Arc<[u32]>; 2],
}

/// The groups of the chosen runs. A run is named by its place among the chosen, a group by its first run.
#[derive(Debug)]
pub(crate) struct OverlapGroups {
    /// For each run its merge group.
    merged: Vec<usize>,
    /// For each run its rows that runs of other merge groups have too, ascending.
    shared: Vec<Arc<[u32]>>,
    /// For each run its shared group.
    sharing: Vec<usize>,
}

impl ScanSource {
    /// The groups of these runs. `look`: where bounding boxes overlap, keys are compared, once for a pair of runs.
    pub(crate) fn overlap_groups(&self, chosen: &Chosen, look: bool) -> Result<OverlapGroups> {
        let count = chosen.runs.len();
        let mut merged: Vec<usize> = (0..count).collect();
        let mut pairs: Vec<Pair> = Vec::new();
        for one in 0..count {
            for other in one + 1..count {
                match self.overlap(chosen.runs[one], chosen.runs[other], look)? {
                    Overlap::Disjoint => {}
                    Overlap::Shared(own, others) => pairs.push(Pair { runs: [one, other], rows: [own, others] }),
                    Overlap::Unknown => unite(&mut merged, one, other),
                }
            }
        }
        let mut shared = vec![Vec::new(); count];
        let mut sharing: Vec<usize> = (0..count).collect();
        // Rows shared inside a merge group are merged there.
        for Pair { runs, rows } in pairs.iter().filter(|pair| merged[pair.runs[0]] != merged[pair.runs[1]]) {
            runs.iter().zip(rows).for_each(|(run, rows)| shared[*run].extend_from_slice(rows));
            unite(&mut sharing, runs[0], runs[1]);
        }
        let sorted = |mut rows: Vec<u32>| {
            rows.sort_unstable();
            rows.dedup();
            rows.into()
        };
        Ok(OverlapGroups { merged, shared: shared.into_iter().map(sorted).collect(), sharing })
    }

    fn overlap(&self, one: usize, other: usize, look: bool) -> Result<Overlap> {
        let (one, other) = (&self.runs[one], &self.runs[other]);
        if one.meta().all.disjoint(&other.meta().all) {
            return Ok(Overlap::Disjoint);
        }
        if !look {
            return Ok(Overlap::Unknown);
        }
        Ok(Overlap::find(&self.relation, &one.whole()?, &other.whole()?))
    }
}

/// Unites the groups of two runs.
fn unite(groups: &mut [usize], one: usize, other: usize) {
    let (least, greatest) = (groups[one].min(groups[other]), groups[one].max(groups[other]));
    groups.iter_mut().filter(|group| **group == greatest).for_each(|group| *group = least);
}

/// The groups that a grouping has.
fn distinct(groups: &[usize]) -> impl Iterator<Item = usize> {
    groups.iter().enumerate().filter(|(run, group)| run == *group).map(|(run, _)| run)
}

impl OverlapGroups {
    /// Whether no row is in two runs.
    pub(crate) fn all_disjoint(&self) -> bool {
        distinct(&self.merged).count() == self.merged.len() && self.shared.iter().all(|rows| rows.is_empty())
    }

    /// Whether there are several merge groups.
    pub(crate) fn are_several(&self) -> bool {
        self.merged.iter().any(|group| *group != 0)
    }

    /// The merge groups.
    pub(crate) fn merge_groups(&self) -> impl Iterator<Item = usize> {
        distinct(&self.merged)
    }

    /// The runs of a merge group.
    pub(crate) fn runs_merged_in(&self, group: usize) -> impl Iterator<Item = usize> {
        (0..self.merged.len()).filter(move |run| self.merged[*run] == group)
    }

    /// The shared groups, each with the number of rows that its runs share, counted once for each run.
    pub(crate) fn shared_groups(&self) -> impl Iterator<Item = (usize, u64)> {
        let rows = |group| self.runs_sharing_in(group).map(|run| self.shared[run].len() as u64).sum();
        distinct(&self.sharing).map(move |group| (group, rows(group))).filter(|(_, rows)| *rows > 0)
    }

    /// The runs of a shared group.
    pub(crate) fn runs_sharing_in(&self, group: usize) -> impl Iterator<Item = usize> {
        (0..self.shared.len()).filter(move |run| self.sharing[*run] == group && !self.shared[*run].is_empty())
    }

    /// The rows of a run that only its merge group has.
    pub(crate) fn own_rows(&self, run: usize) -> Which {
        let rows = &self.shared[run];
        if rows.is_empty() { Which::All } else { Which::Without(Arc::clone(rows)) }
    }

    /// The rows of a run that other merge groups have too.
    pub(crate) fn shared_rows(&self, run: usize) -> Which {
        Which::Only(Arc::clone(&self.shared[run]))
    }
}
