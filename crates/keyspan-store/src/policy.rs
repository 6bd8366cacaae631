//! The policy of compaction: which segments to merge next, and which to drop. Pure functions of what the manifest
//! knows.
//!
//! ```text
//! window of a table ─ sorted level: segments whose boxes are disjoint ─────────────┐ one run
//!                   ─ runs that overlap it and each other, newest last  ─── ─── ──  ┘ at most 4
//! ```
//!
//! A row is first put into a **base window**, sized for 1 M rows. There the **depth**, the greatest number of segments
//! that overlap in one key, is kept at [`MAX_DEPTH`]: beyond it the smallest are merged, together with every one not much
//! larger than all smaller ones together, so late rows are merged among themselves before they are merged into the level.
//!
//! ```text
//! base windows    ▏▏▏▏▏▏▏▏      loaded or flushed; open: the newest one
//! 8 of them       ▕▏▏▏▏▏▏▏▏▏    one sorted level, once all 8 are closed and quiet
//! 64 of them      ▕▏            the same again: then a row has been merged three times
//! ```
//!
//! **Windows grow with age.** One is closed when there are rows of a later one, and quiet when nothing has come to it for
//! a while. A closed and quiet window is merged into one sorted level, the largest such window first, if what is not in
//! its largest level yet is worth rewriting that: a series then has its rows together, and late rows alone never
//! rewrite a large window. Windows stay below an eighth of the life of rows that expire, so that whole segments can be
//! dropped in time.
//!
//! A table without time in its key has one window, which is never closed. Once nothing comes to it any more its runs are
//! merged into one level, if they are half as large as the largest, or in a small table a sixteenth.
//!
//! A segment that span tombstones cover to a good part is merged alone: if nothing overlapped it any more, its deleted
//! rows would take their space for ever.
//!
//! A segment is dropped whole only when all of it has expired and its newest write is older than the oldest of
//! everything that it overlaps, log and memtables included: until then an expired cell shadows older ones
//! (Cassandra's `getFullyExpiredSSTables`). What is older than the table's retention shadows nothing that is read, so a
//! segment of it is dropped at once.

use std::collections::{BTreeMap, BTreeSet};

use keyspan_model::{RelationDef, SegmentId};

use crate::compact::SEGMENT_BYTES;
use crate::run::{Extent, RunMeta};
use crate::segment::SegmentRecord;
use crate::window::{WHOLE, Window, times_of};

/// Most segments that may overlap in one key of a window before some are merged.
pub const MAX_DEPTH: usize = 4;
/// Rows that a base window is sized for; by powers of two, so that it holds between half of them and all.
const WINDOW_ROWS: u64 = 1_000_000;
/// Most windows that one merge or flush writes at the same time.
const MAX_OPEN_WINDOWS: i64 = 16;
/// Small runs are merged into a level only when together they are at least one n-th of it.
const LEVEL_SHARE: u64 = 4;
/// Runs that are quiet are merged into the level of a table without time when together they are one n-th of it.
const QUIET_SHARE: u64 = 2;
/// Bytes of a table that is rewritten in a second.
const SMALL_BYTES: u64 = 64 << 20;
/// The same for small tables. Of runs that are smaller still a scan finds the rows that others have, too, by their keys.
const SMALL_SHARE: u64 = 16;
/// A window grows by this many levels at a time: into one that is 8 times as long.
const GROWTH: u32 = 3;
/// How often it grows.
const GROWTHS: u32 = 2;
/// A window is at most this part of the life of its rows, if all of them expire.
const LIFE_SHARE: i64 = 8;
/// A segment whose writes all came within this part of a retention is not freed of those that are too old: it soon goes
/// as a whole.
const WRITTEN_SHARE: i64 = 4;
/// Most segments of one merge: of each a block of every column is in memory.
const MOST_INPUTS: usize = 64;
/// Pieces of one level that are left as they are, besides those that are cut for their size.
const MOST_PIECES: u64 = 8;

/// A merge that should be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The segments to merge.
    pub inputs: Vec<SegmentId>,
    /// Level of the windows that the output is divided by.
    pub level: u32,
}

/// What the policy is told of the segments besides their records.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Segments that have come so lately that others may follow them.
    pub fresh: BTreeSet<SegmentId>,
    /// Bytes that the outcome of a merge may take beside its inputs.
    pub room: u64,
    /// Whether all is to be merged that can be, fresh or not ([`keyspan_seam::Store::compact`]).
    pub all: bool,
}

/// The window level that suits a relation of these runs: rows are taken to be spread evenly over their time.
pub fn window_level<'a>(relation: &RelationDef, extents: impl IntoIterator<Item = &'a Extent> + Clone) -> u32 {
    let longest = longest_level(relation, extents.clone());
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
    level.unwrap_or(0).min(longest)
}

/// The level of the longest window that rows of so long a life may have; 63 if some live for ever.
fn longest_level<'a>(relation: &RelationDef, extents: impl IntoIterator<Item = &'a Extent>) -> u32 {
    let life_of = |extent: &Extent| match (extent.everlasting, extent.expires, extent.ts) {
        (false, Some((first, _)), Some((written, _))) => first.saturating_sub(written),
        _ => i64::MAX,
    };
    let life = extents.into_iter().filter(|extent| extent.rows > 0).map(life_of).max().unwrap_or(i64::MAX);
    match life.min(relation.retention.age.unwrap_or(i64::MAX)) {
        i64::MAX => 63,
        life => (life / (LIFE_SHARE * 60_000_000)).max(1).ilog2(),
    }
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

/// The window, at least of this level, that the rows of one segment are in.
pub fn window_around(relation: &RelationDef, extent: &Extent, level: u32) -> Window {
    match times(relation, extent) {
        Some((first, last)) => Window::around(first, last, level),
        None => Window { level: WHOLE, number: 0 },
    }
}

/// The next merge, if one should be done: where too many runs overlap, else of the largest window that may grow.
pub fn pick(relation: &RelationDef, segments: &[SegmentRecord], situation: &Situation) -> Option<Pick> {
    let base = window_level(relation, segments.iter().map(|segment| &segment.meta.all));
    let groups = windows(relation, segments, base);
    let deepest = groups.iter().map(|group| (depth(group), group)).max_by_key(|(depth, _)| *depth)?;
    let chosen = match deepest {
        (depth, group) if depth > MAX_DEPTH && !situation.all => Some((smallest(group, depth), base)),
        // Runs in the open window, or of an older grid, which may stand across windows of every level.
        (depth, group) if depth > 1 && situation.all => {
            grown(relation, segments, base, situation).or_else(|| Some((overlapping(group), base)))
        }
        _ => grown(relation, segments, base, situation).or_else(|| without_time(relation, segments, situation)),
    };
    let (inputs, level) = chosen.filter(|(inputs, _)| inputs.len() > 1 && bytes(inputs) <= situation.room)?;
    let level = output_level(relation, inputs.iter().map(|input| &input.meta.all), level);
    Some(Pick { inputs: inputs.iter().map(|input| input.id).collect(), level })
}

/// The segments of the largest closed and quiet window that should become one level, and the level of its grid.
fn grown<'a>(
    relation: &RelationDef,
    segments: &'a [SegmentRecord],
    base: u32,
    situation: &Situation,
) -> Option<(Vec<&'a SegmentRecord>, u32)> {
    let newest = segments.iter().filter_map(|segment| times(relation, &segment.meta.all)).map(|times| times.1).max();
    let closed = |window: &Window| {
        newest.is_some_and(|newest| window.level < WHOLE && Window::of(newest, window.level).number > window.number)
    };
    let quiet = |group: &[&SegmentRecord]| !group.iter().any(|segment| situation.fresh.contains(&segment.id));
    let longest = longest_level(relation, segments.iter().map(|segment| &segment.meta.all));
    let larger = (1..=GROWTHS).rev().map(|growths| base + growths * GROWTH).filter(|level| *level <= longest);
    for level in larger.chain([base]) {
        for (window, mut group) in inside_windows(relation, segments, level) {
            if group.len() > MOST_INPUTS {
                if level > base {
                    continue;
                }
                group.truncate(MOST_INPUTS);
            }
            let may_grow = closed(&window) && (quiet(&group) || situation.all) && bytes(&group) <= situation.room;
            if may_grow && worth_merging(&group, situation.all) {
                return Some((group, level));
            }
        }
    }
    None
}

/// The segments of a table without time in its key that meet, once nothing comes to it and what is not in its largest
/// level yet is half of that, or a sixteenth in a small table: one that is loaded and then read is merged once.
fn without_time<'a>(
    relation: &RelationDef,
    segments: &'a [SegmentRecord],
    situation: &Situation,
) -> Option<(Vec<&'a SegmentRecord>, u32)> {
    let quiet = !segments.iter().any(|segment| situation.fresh.contains(&segment.id));
    if relation.window.is_some() || !quiet {
        return None;
    }
    let group = overlapping(&segments.iter().filter(|segment| segment.meta.all.rows > 0).collect::<Vec<_>>());
    let layers = layers(&group);
    let (total, largest): (u64, u64) = (layers.iter().sum(), layers.iter().max().copied().unwrap_or(0));
    let fits = group.len() <= MOST_INPUTS && bytes(&group) <= situation.room;
    let share = if total <= SMALL_BYTES { SMALL_SHARE } else { QUIET_SHARE };
    (fits && layers.len() > 1 && (total - largest) * share >= largest).then_some((group, WHOLE))
}

/// Whether a segment of which deletions of spans cover so many rows should be merged alone (`all`: for any row). What
/// is left of it may take `room` bytes.
pub fn worth_freeing(meta: &RunMeta, deleted: u64, all: bool, room: u64) -> bool {
    let left = meta.bytes - meta.bytes * deleted / meta.all.rows.max(1);
    deleted > 0 && (all || deleted * LEVEL_SHARE >= meta.all.rows) && left <= room
}

/// How many rows of a segment are older than the retention at `now` (microseconds), if it was written to evenly. None where
/// its first and last write are so near to each other that all of it will soon be dropped.
pub fn old_rows(relation: &RelationDef, extent: &Extent, now: i64) -> u64 {
    let (Some(age), Some(horizon), Some((first, last))) =
        (relation.retention.age, relation.retention.horizon(now), extent.ts)
    else {
        return 0;
    };
    let (long, old) = (last.saturating_sub(first), horizon.saturating_sub(first).saturating_add(1));
    if long <= age / WRITTEN_SHARE || old <= 0 {
        return 0;
    }
    let share = i128::from(extent.rows) * i128::from(old.min(long)) / i128::from(long);
    u64::try_from(share).unwrap_or(extent.rows)
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
        if relation.retention.horizon(now) >= Some(newest) {
            dropped.push(segment.id);
            continue;
        }
        if own.everlasting || !over(own.expires) || !over(own.deleted_at) {
            continue;
        }
        let others = segments.iter().filter(|other| other.id != segment.id).map(|other| &other.meta.all);
        // A version of a family hides older ones of its cell, which have other keys.
        let apart = |other: &Extent| match relation.counts_versions() {
            true => own.disjoint_in(other, relation.given_key().len()),
            false => own.disjoint(other),
        };
        let younger = |other: &Extent| apart(other) || other.ts.is_none_or(|(oldest, _)| oldest > newest);
        if others.chain(elsewhere).all(younger) {
            dropped.push(segment.id);
        }
    }
    dropped
}

fn bytes(segments: &[&SegmentRecord]) -> u64 {
    segments.iter().map(|segment| segment.meta.bytes).sum()
}

fn times(relation: &RelationDef, extent: &Extent) -> Option<(i64, i64)> {
    let at = relation.window?;
    let (least, greatest) = extent.columns.get(at)?;
    times_of(&relation.key[at], (least, greatest))
}

/// The segments of each window. One that stands across several windows of this level, from a time when the grid was
/// coarser, makes one window of them all.
fn windows<'a>(relation: &RelationDef, segments: &'a [SegmentRecord], level: u32) -> Vec<Vec<&'a SegmentRecord>> {
    let window = |segment: &SegmentRecord| window_around(relation, &segment.meta.all, level);
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

/// The segments of each window of this level, without those that stand across several.
fn inside_windows<'a>(
    relation: &RelationDef,
    segments: &'a [SegmentRecord],
    level: u32,
) -> BTreeMap<Window, Vec<&'a SegmentRecord>> {
    let mut groups: BTreeMap<Window, Vec<&SegmentRecord>> = BTreeMap::new();
    for segment in segments.iter().filter(|segment| segment.meta.all.rows > 0) {
        let window = window_around(relation, &segment.meta.all, level);
        if window.level == level {
            groups.entry(window).or_default().push(segment);
        }
    }
    groups
}

/// Whether these should be made one level (`all`: if they are not yet): what is not in the largest level is worth
/// rewriting it, or they are many small pieces of one level.
fn worth_merging(group: &[&SegmentRecord], all: bool) -> bool {
    let layers = layers(group);
    let total: u64 = layers.iter().sum();
    let largest = layers.iter().max().copied().unwrap_or(0);
    match layers.len() {
        0 | 1 => group.len() as u64 > MOST_PIECES * (total / SEGMENT_BYTES + 1),
        _ => all || (total - largest) * LEVEL_SHARE >= largest,
    }
}

/// The bytes of each layer: of segments of which none overlaps the next by its keys, whatever time they are of. A series
/// may have rows in as many segments as there are layers.
fn layers(group: &[&SegmentRecord]) -> Vec<u64> {
    let mut by_key = group.to_vec();
    by_key.sort_by(|one, other| one.meta.all.key.cmp(&other.meta.all.key));
    let mut layers: Vec<(&SegmentRecord, u64)> = Vec::new();
    for segment in by_key {
        let behind = |layer: &(&SegmentRecord, u64)| layer.0.meta.all.key.1 < segment.meta.all.key.0;
        let together = |layer: &(&SegmentRecord, u64)| layer.0.meta.seq == segment.meta.seq && behind(layer);
        let at = layers.iter().position(together).or_else(|| layers.iter().position(behind));
        match at {
            Some(at) => layers[at] = (segment, layers[at].1 + segment.meta.bytes),
            None => layers.push((segment, segment.meta.bytes)),
        }
    }
    layers.into_iter().map(|(_, bytes)| bytes).collect()
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
