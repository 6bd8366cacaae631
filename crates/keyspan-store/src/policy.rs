//! The policy of compaction: which segments to merge next, and which to drop. Pure functions of what the manifest
//! knows.
//!
//! ```text
//! window of a table ─ sorted level: segments whose boxes are disjoint ─────────────┐ one run
//!                   ─ runs that overlap it and each other, newest last  ─── ─── ──  ┘ at most 4
//! ```
//!
//! Windows are sized so that a closed one holds 1–16 M rows. In a window, the **depth** is the greatest number of
//! segments that overlap in one key. Beyond [`MAX_DEPTH`] the smallest are merged first, together with every one not
//! much larger than all smaller ones together: so late rows are merged among themselves before they are merged into the
//! level. A window in which nothing is written any more is merged into one level, once that is worth its cost.
//!
//! A segment that span tombstones cover to a good part is merged alone: if nothing overlapped it any more, its deleted
//! rows would take their space for ever.
//!
//! A segment is dropped whole only when all of it has expired and its newest write is older than the oldest of
//! everything that it overlaps, log and memtables included: until then an expired cell shadows older ones
//! (Cassandra's `getFullyExpiredSSTables`).

use std::collections::BTreeMap;

use keyspan_model::{RelationDef, SegmentId};

use crate::run::{Extent, RunMeta};
use crate::segment::SegmentRecord;
use crate::window::{WHOLE, Window, times_of};

/// Most segments that may overlap in one key of a window before some are merged.
pub const MAX_DEPTH: usize = 4;
/// Rows that a window is sized for; by powers of two, so that a closed one holds between half and twice as many.
const WINDOW_ROWS: u64 = 4_000_000;
/// Most windows that one merge or flush writes at the same time.
const MAX_OPEN_WINDOWS: i64 = 16;
/// Small runs are merged into a level only when together they are at least one n-th of it.
const LEVEL_SHARE: u64 = 4;

/// A merge that should be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The segments to merge.
    pub inputs: Vec<SegmentId>,
    /// Level of the windows that the output is divided by.
    pub level: u32,
}

/// The window level that suits a relation of these runs: rows are taken to be spread evenly over their time.
pub fn window_level<'a>(relation: &RelationDef, extents: impl IntoIterator<Item = &'a Extent>) -> u32 {
    let (mut rows, mut bounds) = (0, None::<(i64, i64)>);
    for extent in extents {
        let Some((first, last)) = times(relation, extent) else { continue };
        rows += extent.rows;
        bounds = Some(bounds.map_or((first, last), |(least, greatest)| (least.min(first), greatest.max(last))));
    }
    let Some((first, last)) = bounds else { return WHOLE };
    let minutes = (i128::from(last) - i128::from(first)) / 60_000_000 + 1;
    // The longest window that holds no more rows than wanted.
    let level = (0..63).rev().find(|level| i128::from(rows) << level <= i128::from(WINDOW_ROWS) * minutes);
    level.unwrap_or(0)
}

/// The least level, from `level` on, at which rows of these runs fall into few enough windows to be written at once.
pub fn output_level<'a>(relation: &RelationDef, extents: impl IntoIterator<Item = &'a Extent>, level: u32) -> u32 {
    if relation.window.is_none() {
        return WHOLE;
    }
    let mut bounds = None::<(i64, i64)>;
    for extent in extents.into_iter().filter(|extent| extent.rows > 0) {
        let Some((first, last)) = times(relation, extent) else { return WHOLE };
        bounds = Some(bounds.map_or((first, last), |(least, greatest)| (least.min(first), greatest.max(last))));
    }
    let Some((first, last)) = bounds else { return level };
    let fits = |level: &u32| Window::of(last, *level).number - Window::of(first, *level).number < MAX_OPEN_WINDOWS;
    (level..63).find(fits).unwrap_or(WHOLE)
}

/// The next merge, if one should be done. `all`: also merges that only reduce the number of segments
/// ([`keyspan_seam::Store::compact`]).
pub fn pick(relation: &RelationDef, segments: &[SegmentRecord], all: bool) -> Option<Pick> {
    let level = window_level(relation, segments.iter().map(|segment| &segment.meta.all));
    let newest = segments.iter().map(|segment| segment.meta.seq.1).max()?;
    let mut picks: Vec<(usize, Pick)> = Vec::new();
    for group in windows(relation, segments, level) {
        let depth = depth(&group);
        let quiet = group.iter().all(|segment| segment.meta.seq.1 < newest);
        let inputs = if depth < 2 {
            None
        } else if all {
            Some(overlapping(&group))
        } else if depth > MAX_DEPTH {
            Some(smallest(&group, depth))
        } else if quiet {
            worth_tidying(&group)
        } else {
            None
        };
        let Some(inputs) = inputs.filter(|inputs| inputs.len() > 1) else { continue };
        let level = output_level(relation, inputs.iter().map(|input| &input.meta.all), level);
        picks.push((depth, Pick { inputs: inputs.iter().map(|input| input.id).collect(), level }));
    }
    picks.into_iter().max_by_key(|(depth, _)| *depth).map(|(_, pick)| pick)
}

/// Whether a segment of which deletions of spans cover so many rows should be merged alone (`all`: for any row). What
/// is left of it may take `room` bytes.
pub fn worth_freeing(meta: &RunMeta, deleted: u64, all: bool, room: u64) -> bool {
    let left = meta.bytes - meta.bytes * deleted / meta.all.rows.max(1);
    deleted > 0 && (all || deleted * LEVEL_SHARE >= meta.all.rows) && left <= room
}

/// The greatest number of segments of one window that overlap in one key: what a reader of a key may have to merge.
pub fn most_runs_in_window(relation: &RelationDef, segments: &[SegmentRecord]) -> usize {
    let level = window_level(relation, segments.iter().map(|segment| &segment.meta.all));
    windows(relation, segments, level).iter().map(|group| depth(group)).max().unwrap_or(0)
}

/// The segments that can be dropped whole at `now` (microseconds). `elsewhere`: every run of the relation that is not
/// a segment, what the log still has to replay included.
pub fn expired(relation: &RelationDef, segments: &[SegmentRecord], elsewhere: &[Extent], now: i64) -> Vec<SegmentId> {
    let grace = i64::from(relation.gc_grace) * 1_000_000;
    let over = |range: Option<(i64, i64)>| range.is_none_or(|(_, last)| last.saturating_add(grace) <= now);
    let mut dropped = Vec::new();
    for segment in segments {
        let own = &segment.meta.all;
        let Some((_, newest)) = own.ts else { continue };
        if own.everlasting || !over(own.expires) || !over(own.deleted_at) {
            continue;
        }
        let others = segments.iter().filter(|other| other.id != segment.id).map(|other| &other.meta.all);
        let younger = |other: &Extent| own.disjoint(other) || other.ts.is_none_or(|(oldest, _)| oldest > newest);
        if others.chain(elsewhere).all(younger) {
            dropped.push(segment.id);
        }
    }
    dropped
}

fn times(relation: &RelationDef, extent: &Extent) -> Option<(i64, i64)> {
    let at = relation.window?;
    let (least, greatest) = extent.columns.get(at)?;
    times_of(&relation.key[at], (least, greatest))
}

/// The segments of each window. One that stands across several windows of this level, from a time when the grid was
/// coarser, makes one window of them all.
fn windows<'a>(relation: &RelationDef, segments: &'a [SegmentRecord], level: u32) -> Vec<Vec<&'a SegmentRecord>> {
    let window = |segment: &SegmentRecord| match times(relation, &segment.meta.all) {
        Some((first, last)) => Window::around(first, last, level),
        None => Window { level: WHOLE, number: 0 },
    };
    let mut all: Vec<(Window, &SegmentRecord)> = segments.iter().map(|segment| (window(segment), segment)).collect();
    all.sort_by_key(|(window, segment)| (std::cmp::Reverse(window.level), segment.id));
    let mut groups: BTreeMap<Window, Vec<&SegmentRecord>> = BTreeMap::new();
    for (window, segment) in all {
        // Coarser windows came before: the coarsest one around this, if there is any, takes the segment.
        let holder = groups.keys().rev().find(|holder| window.inside(holder)).copied();
        groups.entry(holder.unwrap_or(window)).or_default().push(segment);
    }
    groups.into_values().collect()
}

/// The greatest number of segments that overlap in one key, by their bounding boxes.
fn depth(group: &[&SegmentRecord]) -> usize {
    deepest(group).len()
}

/// The segments that overlap in the key where most do.
fn deepest<'a>(group: &[&'a SegmentRecord]) -> Vec<&'a SegmentRecord> {
    let overlapping = |segment: &&SegmentRecord| -> Vec<&'a SegmentRecord> {
        let own = &segment.meta.all;
        let overlaps = |other: &&&SegmentRecord| other.meta.all.spans(&own.key.0) && !other.meta.all.disjoint(own);
        group.iter().filter(overlaps).copied().collect()
    };
    group.iter().map(overlapping).max_by_key(Vec::len).unwrap_or_default()
}

/// Those that overlap some other.
fn overlapping<'a>(group: &[&'a SegmentRecord]) -> Vec<&'a SegmentRecord> {
    let overlaps = |segment: &&&SegmentRecord| {
        group.iter().any(|other| other.id != segment.id && !other.meta.all.disjoint(&segment.meta.all))
    };
    group.iter().filter(overlaps).copied().collect()
}

/// Where most overlap, the smallest: enough of them to bring the depth down, and those not much larger.
fn smallest<'a>(group: &[&'a SegmentRecord], depth: usize) -> Vec<&'a SegmentRecord> {
    let mut by_size = deepest(group);
    by_size.sort_by_key(|segment| (level_bytes(group, segment), segment.id));
    let least = (depth - MAX_DEPTH + 1).max(MAX_DEPTH).min(by_size.len());
    let (mut taken, mut bytes) = (0, 0);
    for segment in &by_size {
        if taken >= least && level_bytes(group, segment) > bytes * LEVEL_SHARE {
            break;
        }
        bytes += segment.meta.bytes;
        taken += 1;
    }
    by_size.truncate(taken);
    by_size
}

/// Bytes of the level that a segment is part of: of all those that were written together with it. A level is cut
/// into segments, and a large one must not look like many small ones.
fn level_bytes(group: &[&SegmentRecord], segment: &SegmentRecord) -> u64 {
    group.iter().filter(|other| other.meta.seq == segment.meta.seq).map(|other| other.meta.bytes).sum()
}

/// All that overlap others, if the small ones together are large enough to be worth rewriting the largest.
fn worth_tidying<'a>(group: &[&'a SegmentRecord]) -> Option<Vec<&'a SegmentRecord>> {
    let inputs = overlapping(group);
    let largest = inputs.iter().map(|segment| level_bytes(group, segment)).max()?;
    let all: u64 = inputs.iter().map(|segment| segment.meta.bytes).sum();
    ((all - largest.min(all)) * LEVEL_SHARE >= largest).then_some(inputs)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
