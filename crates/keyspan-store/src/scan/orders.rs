//! The orders of a split reader: its tasks in the order of delivery, the grouping, and how deep rows must be read.

use std::collections::VecDeque;
use std::sync::Arc;

use keyspan_model::{KeyEncoder, Order, Result, Scan};

use super::ScanSource;
use super::overlap_groups::OverlapGroups;
use super::plan::Chosen;
use super::reader::{Grouping, Orders, Task};
use super::split::{Means, PartRuns, SplitPart};
use crate::merge::cursor::Which;
use crate::merge::live::Depth;
use crate::merge::versions::{PrefixFilter, VersionFilter};
use crate::run::Extent;
use keyspan_seam::{Conditions, End};

impl ScanSource {
    /// The orders for some parts of a scan, whose rows must meet these conditions.
    pub(crate) fn orders(
        &self,
        scan: &Scan,
        (means, parts): (Means, &[SplitPart]),
        conditions: &Conditions,
    ) -> Result<Orders> {
        let chosen = self.choose_first(scan)?;
        // If it should not be found again, all is read: that is no more wrong than before the index.
        let found = if means == Means::Index { self.found(scan, &chosen)? } else { None };
        let groups = self.overlap_groups(&chosen, means == Means::Keys)?;
        let reverse = scan.order == Order::Reverse;
        let versions = VersionFilter::new(&self.relation, self.now);
        let columns = self.relation.key.len();
        let per_prefix = scan.per_prefix.filter(|(prefix, _)| *prefix < columns);
        let mut limit = scan.limit;
        if scan.per_prefix.is_some_and(|(_, rows)| rows == 0) {
            limit = Some(0);
        }
        let (grouping, prefix) = match (&versions, per_prefix) {
            (Some(_), per_prefix) => {
                let prefix = per_prefix.map(|limit| PrefixFilter::new(&self.relation, limit));
                let groups = if reverse { Grouping::Versions { columns: columns - 1 } } else { Grouping::Rows };
                (groups, prefix)
            }
            (None, Some((columns, rows))) => (Grouping::Skip { columns, rows, last: None }, None),
            (None, None) => (Grouping::Rows, None),
        };
        let mut tasks = VecDeque::new();
        for part in parts {
            let (runs, apart) = match &found {
                Some(found) => (found.runs.iter().map(|run| (run.at, run.rows.clone())).collect(), found.apart),
                None => runs_of(part, &chosen, &groups),
            };
            tasks.extend(self.tasks(&chosen, (runs, apart), part, versions.is_some()));
        }
        if reverse {
            tasks.make_contiguous().reverse();
        }
        if scan.order == Order::Any && matches!(grouping, Grouping::Rows) && versions.is_none() {
            self.narrow_soon(tasks.make_contiguous(), conditions);
        }
        let deepest = tasks.iter().map(|task| task.depth).max().unwrap_or(Depth::Plain);
        let certain = deepest == Depth::Plain || deepest == Depth::Marker && self.is_certain(&chosen);
        // Of a family whose versions are counted nothing may be left out.
        let (ranges, conditions) = match versions {
            Some(_) => (Vec::new(), Conditions::default()),
            None => (scan.ranges.clone(), Arc::clone(conditions)),
        };
        let opened = found.iter().flat_map(|found| &found.runs);
        let opened = opened.filter_map(|run| Some((run.at, run.opened.clone()?))).collect();
        Ok(Orders { tasks, reverse, limit, grouping, versions, prefix, certain, ranges, conditions, opened })
    }

    /// First those tasks that let a condition on a key column become narrow, so that others have nothing to read.
    fn narrow_soon(&self, tasks: &mut [Task], conditions: &Conditions) {
        let wanted = conditions.iter().find_map(|condition| {
            let (column, end) = condition.first()?;
            Some((self.relation.key_index(column)?, end))
        });
        let Some((at, end)) = wanted else { return };
        // Encoded values stand in the order of the key.
        let from_last = (end == End::Greatest) != self.relation.key[at].descending;
        let ends = |task: &Task| {
            let columns = task.runs.iter().filter_map(|(run, _)| self.runs[*run].meta().all.columns.get(at));
            columns.fold((None, None), |(least, most): (Option<&Vec<u8>>, Option<&Vec<u8>>), (first, last)| {
                (Some(least.map_or(first, |least| least.min(first))), most.max(Some(last)))
            })
        };
        tasks.sort_by(|one, other| {
            let ((least, most), (others_least, others_most)) = (ends(one), ends(other));
            if from_last { others_most.cmp(&most) } else { least.cmp(&others_least) }
        });
    }

    /// What is read of a part, span by span. `apart`: no row is in two of these runs.
    fn tasks(
        &self,
        chosen: &Chosen,
        (runs, apart): (Arc<[(usize, Which)]>, bool),
        part: &SplitPart,
        whole_groups: bool,
    ) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (start, end) in &chosen.ranges {
            let start = start.max(&part.start).clone();
            let end = match (end, &part.end) {
                (Some(a), Some(b)) => Some(a.min(b).clone()),
                (a, b) => a.clone().or_else(|| b.clone()),
            };
            if end.as_ref().is_some_and(|end| start >= *end) {
                continue;
            }
            let task = Task { runs: Arc::clone(&runs), start, end, floor: None, depth: Depth::Cells };
            let task = if whole_groups { self.widened_to_group(task) } else { task };
            tasks.push(Task { depth: self.depth(&task, apart), ..task });
        }
        tasks
    }

    /// Versions count from the begin of their group, wherever the span begins.
    fn widened_to_group(&self, task: Task) -> Task {
        let group = self.group_start(&task.start).to_vec();
        if group == task.start {
            return task;
        }
        Task { start: group, floor: Some(task.start), ..task }
    }

    /// The first bytes of a family's group of versions that a key belongs to.
    pub(crate) fn group_start<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..KeyEncoder::new(&self.relation.key).prefix_len(key, self.relation.key.len() - 1)]
    }

    /// How deep a task's rows must be read. `apart`: no row is in two of its runs.
    fn depth(&self, task: &Task, apart: bool) -> Depth {
        let extents: Vec<&Extent> = task.runs.iter().map(|(at, _)| &self.runs[*at].meta().all).collect();
        if extents.iter().any(|extent| extent.expires.is_some_and(|expires| expires.0 <= self.now)) {
            return Depth::Cells;
        }
        let plain = extents.iter().all(|extent| self.is_plain(extent));
        if apart && plain && !self.tombstones.cover_any(&task.start, task.end.as_deref()) {
            Depth::Plain
        } else if extents.iter().all(|extent| extent.markerless == 0 && !extent.own_stamps) {
            Depth::Marker
        } else {
            Depth::Cells
        }
    }

    /// Whether every row of the chosen runs is live, whatever versions it has.
    fn is_certain(&self, chosen: &Chosen) -> bool {
        let covered = chosen.ranges.iter().any(|(start, end)| self.tombstones.cover_any(start, end.as_deref()));
        !covered && chosen.runs.iter().all(|at| self.is_plain(&self.runs[*at].meta().all))
    }
}

/// The runs of a part, and whether no row is in two of them.
fn runs_of(part: &SplitPart, chosen: &Chosen, groups: &OverlapGroups) -> (Arc<[(usize, Which)]>, bool) {
    let all = 0..chosen.runs.len();
    let (places, apart): (Vec<(usize, Which)>, bool) = match part.runs {
        PartRuns::All => (all.map(|place| (place, Which::All)).collect(), groups.all_disjoint()),
        PartRuns::Group(group) => {
            let own: Vec<_> =
                groups.runs_merged_in(group as usize).map(|place| (place, groups.own_rows(place))).collect();
            let alone = own.len() == 1;
            (own, alone)
        }
        PartRuns::Shared(group) => {
            let sharing = groups.runs_sharing_in(group as usize);
            (sharing.map(|place| (place, groups.shared_rows(place))).collect(), false)
        }
    };
    (places.into_iter().map(|(place, which)| (chosen.runs[place], which)).collect(), apart)
}
