//! The overlap of two runs: which rows both hold. It is found once for a pair and cached as long as both runs live.
//!
//! Runs whose bounding boxes are disjoint share no row. A few late rows make boxes overlap although the runs share
//! hardly any row, or none. So the keys of the one run's rows that lie in the other's box are looked up in the other
//! run.
//!
//! ```text
//! run of 10:00–10:30   ────────────────       box: 09:40–10:30   rows in the box of the other: 40
//!   with late rows     · ·   ·                                   of these the other has: 0 ─▶ disjoint
//! run of 09:30–10:00 ──────────────
//! ```
//!
//! Rule: the first answer for a pair stays, so that a scan is planned and read by the same answer. It stays right,
//! since runs never change.

use std::ops::Range;
use std::sync::{Arc, Weak};

use keyspan_model::{Error, RelationDef, Result};
use parking_lot::Mutex;

use super::{Extent, Keys, SortedRun, Wanted};
use crate::files::is_refused;
use crate::window::{times, times_of};
use keyspan_seam::ScanCounters;

/// Most keys that are looked up.
const MOST_PROBES: usize = 16_384;
/// Most rows that are read to find those in the other's box.
const MOST_ROWS: u64 = 4 << 20;

/// What is known of the rows that two runs share.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlap {
    /// No row is in both.
    Disjoint,
    /// Exactly these rows of the first run are rows of the second, each list ascending.
    Shared(Arc<[u32]>, Arc<[u32]>),
    /// Too many rows would have to be compared, or they cannot be read.
    Unknown,
}

/// A run's overlaps with other runs, as far as they were asked for.
#[derive(Default)]
pub struct OverlapCache(Mutex<Vec<(Weak<dyn SortedRun>, Overlap)>>);

impl Clone for OverlapCache {
    /// A cloned run starts with an empty cache.
    fn clone(&self) -> OverlapCache {
        OverlapCache::default()
    }
}

impl std::fmt::Debug for OverlapCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverlapCache").field("known", &self.0.lock().len()).finish()
    }
}

impl OverlapCache {
    fn get(&self, other: &Arc<dyn SortedRun>) -> Option<Overlap> {
        let known = self.0.lock();
        let entry = known.iter().find(|(run, _)| address(run.as_ptr()) == address(Arc::as_ptr(other)));
        entry.map(|(_, overlap)| overlap.clone())
    }

    /// Adds an overlap unless another thread has been first; returns the one in the cache.
    fn put(&self, other: &Arc<dyn SortedRun>, overlap: Overlap) -> Overlap {
        let mut known = self.0.lock();
        // An address is not used again while a weak reference to it is left, so no entry can name another run.
        known.retain(|(run, _)| run.strong_count() > 0);
        match known.iter().find(|(run, _)| address(run.as_ptr()) == address(Arc::as_ptr(other))) {
            Some((_, before)) => before.clone(),
            None => {
                known.push((Arc::downgrade(other), overlap.clone()));
                overlap
            }
        }
    }
}

fn address(run: *const dyn SortedRun) -> *const () {
    run.cast()
}

impl Overlap {
    fn flipped(self) -> Overlap {
        match self {
            Overlap::Shared(one, other) => Overlap::Shared(other, one),
            same => same,
        }
    }

    fn flipped_if(self, flip: bool) -> Overlap {
        if flip { self.flipped() } else { self }
    }

    /// The overlap of two runs as far as boxes and the cache tell; no row is read.
    pub fn known(one: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>) -> Option<Overlap> {
        if one.meta().all.disjoint(&other.meta().all) {
            return Some(Overlap::Disjoint);
        }
        let (holder, held, flip) = placed(one, other);
        Some(holder.overlap_cache()?.get(held)?.flipped_if(flip))
    }

    /// Puts the overlap of two runs into the cache; returns the one that is in the cache then.
    fn remember(self, one: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>) -> Overlap {
        let (holder, held, flip) = placed(one, other);
        match holder.overlap_cache() {
            Some(cache) => cache.put(held, self.flipped_if(flip)).flipped_if(flip),
            None => self,
        }
    }

    /// The overlap of two runs: the cached one, else found by comparing keys. Where keys cannot be read it is unknown;
    /// the reader of these rows gets the error.
    pub fn find(relation: &RelationDef, one: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>) -> Overlap {
        if let Some(known) = Overlap::known(one, other) {
            return known;
        }
        let flip = one.meta().all.rows > other.meta().all.rows;
        let (few, many) = if flip { (other, one) } else { (one, other) };
        let compare = |run: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>| {
            let compared = compare(relation, run.as_ref(), other.as_ref(), &ScanCounters::default());
            compared.unwrap_or(Overlap::Unknown)
        };
        let found = match compare(few, many) {
            Overlap::Unknown => compare(many, few).flipped(),
            found => found,
        };
        let found = found.flipped_if(flip);
        // What was not in memory is looked at again, where it can be read.
        if is_refused() { found } else { found.remember(one, other) }
    }
}

/// Records that `merged`, made of `inputs`, shares no row with those of `others` that no input shares a row with. Only
/// for others that were compared with an input before: the rest is found when a scan needs it.
pub fn inherit_disjoint(
    relation: &RelationDef,
    inputs: &[Arc<dyn SortedRun>],
    merged: &[Arc<dyn SortedRun>],
    others: impl IntoIterator<Item = Arc<dyn SortedRun>>,
) {
    for other in others {
        let overlaps = |input: &&Arc<dyn SortedRun>| !input.meta().all.disjoint(&other.meta().all);
        let compared = inputs.iter().filter(overlaps).any(|input| Overlap::known(input, &other).is_some());
        let disjoint = |input| Overlap::find(relation, input, &other) == Overlap::Disjoint;
        if compared && inputs.iter().all(disjoint) {
            merged.iter().for_each(|run| drop(Overlap::Disjoint.remember(run, &other)));
        }
    }
}

/// The run whose cache has the pair, the other one, and whether that changed their order.
fn placed<'a>(
    one: &'a Arc<dyn SortedRun>,
    other: &'a Arc<dyn SortedRun>,
) -> (&'a Arc<dyn SortedRun>, &'a Arc<dyn SortedRun>, bool) {
    let flip = address(Arc::as_ptr(other)) < address(Arc::as_ptr(one));
    if flip { (other, one, true) } else { (one, other, false) }
}

/// Looks up the rows of `run` in `other`.
fn compare(
    relation: &RelationDef,
    run: &dyn SortedRun,
    other: &dyn SortedRun,
    counters: &ScanCounters,
) -> Result<Overlap> {
    let Some(rows) = rows_within(relation, run, &other.meta().all, counters)? else { return Ok(Overlap::Unknown) };
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let mut keys = Keys::new(run);
    for row in rows {
        if let Some(found) = other.find(keys.at(row, counters)?, counters)? {
            own.push(row as u32);
            others.push(found as u32);
        }
    }
    Ok(if own.is_empty() { Overlap::Disjoint } else { Overlap::Shared(own.into(), others.into()) })
}

/// The rows of a run inside a box, by their keys and by the window column; `None` if they are too many.
fn rows_within(
    relation: &RelationDef,
    run: &dyn SortedRun,
    within: &Extent,
    counters: &ScanCounters,
) -> Result<Option<Vec<usize>>> {
    let all = &run.meta().all;
    let first = if within.key.0 <= all.key.0 { 0 } else { run.estimate(&within.key.0).0 };
    let behind = if within.key.1 >= all.key.1 { all.rows as usize } else { run.estimate(&within.key.1).1 + 1 };
    let rows = first..behind.min(all.rows as usize);
    let window = relation.window.and_then(|at| {
        let (least, greatest) = within.columns.get(at)?;
        Some((at, times_of(&relation.key[at], (least, greatest))?))
    });
    let Some((at, times)) = window else {
        return Ok((rows.len() <= MOST_PROBES).then(|| rows.collect()));
    };
    if rows.len() as u64 > MOST_ROWS {
        return Ok(None);
    }
    rows_in_times(run, rows, relation.key.len(), at, times, counters)
}

fn rows_in_times(
    run: &dyn SortedRun,
    rows: Range<usize>,
    columns: usize,
    at: usize,
    (from, to): (i64, i64),
    counters: &ScanCounters,
) -> Result<Option<Vec<usize>>> {
    let wanted = Wanted { keys: (0..columns).map(|column| column == at).collect(), ..Wanted::default() };
    let (mut found, mut next) = (Vec::new(), rows.start);
    while next < rows.end {
        let part = next..run.block(next, &wanted).end.min(rows.end);
        let batch = run.read(part.clone(), &wanted, counters)?;
        let column = batch.keys.get(at).and_then(Option::as_ref);
        let times = times(column.ok_or_else(|| Error::internal("the window column was asked for"))?)?;
        let inside = times.iter().enumerate().filter(|(_, time)| from <= **time && **time <= to);
        found.extend(inside.map(|(row, _)| part.start + row).take(MOST_PROBES + 1 - found.len()));
        if found.len() > MOST_PROBES {
            return Ok(None);
        }
        next = part.end;
    }
    Ok(Some(found))
}
