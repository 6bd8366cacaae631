//! Which rows two runs both hold: found once for a pair, and remembered as long as both live.
//!
//! Boxes tell that two runs cannot hold the same row. A few late rows make boxes meet although hardly any row does, or
//! none: then the keys of those rows of the one that lie in the box of the other are looked for there.
//!
//! ```text
//! run of 10:00–10:30   ────────────────       box: 09:40–10:30   rows in the box of the other: 40
//!   with late rows     · ·   ·                                   of these the other has: 0 ─▶ apart
//! run of 09:30–10:00 ──────────────
//! ```
//!
//! Rule: runs never change, so what was found stays true; and what was said once of a pair is said again, so that a scan
//! is planned and read by the same.

use std::ops::Range;
use std::sync::{Arc, Weak};

use keyspan_model::{Error, RelationDef, Result};
use parking_lot::Mutex;

use super::{Extent, Keys, SortedRun, Wanted};
use crate::seam::ScanCounters;
use crate::window::{times, times_of};

/// Most keys that are looked for.
const MOST_PROBES: usize = 16_384;
/// Most rows that are looked through for those in the other's box.
const MOST_ROWS: u64 = 4 << 20;

/// What is known of the rows of two runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Meeting {
    /// No row is in both.
    Apart,
    /// Exactly these rows of the one are rows of the other, each ascending.
    Shared(Arc<[u32]>, Arc<[u32]>),
    /// Too many rows would have to be looked for.
    Unclear,
}

/// What a run remembers of others.
#[derive(Default)]
pub struct Meetings(Mutex<Vec<(Weak<dyn SortedRun>, Meeting)>>);

impl Clone for Meetings {
    /// A copy of a run is a run of its own: it has met nobody.
    fn clone(&self) -> Meetings {
        Meetings::default()
    }
}

impl std::fmt::Debug for Meetings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meetings").field("known", &self.0.lock().len()).finish()
    }
}

impl Meetings {
    fn get(&self, other: &Arc<dyn SortedRun>) -> Option<Meeting> {
        let known = self.0.lock();
        known.iter().find(|(run, _)| address(run.as_ptr()) == address(Arc::as_ptr(other))).map(|(_, met)| met.clone())
    }

    /// What is known from now on: what somebody else has put here before stays.
    fn put(&self, other: &Arc<dyn SortedRun>, meeting: Meeting) -> Meeting {
        let mut known = self.0.lock();
        // A weak reference keeps the address from being used again, so that those of the dead cannot be mistaken.
        known.retain(|(run, _)| run.strong_count() > 0);
        match known.iter().find(|(run, _)| address(run.as_ptr()) == address(Arc::as_ptr(other))) {
            Some((_, before)) => before.clone(),
            None => {
                known.push((Arc::downgrade(other), meeting.clone()));
                meeting
            }
        }
    }
}

fn address(run: *const dyn SortedRun) -> *const () {
    run.cast()
}

impl Meeting {
    fn flipped(self) -> Meeting {
        match self {
            Meeting::Shared(one, other) => Meeting::Shared(other, one),
            same => same,
        }
    }

    /// What is known without looking.
    pub fn known(one: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>) -> Option<Meeting> {
        if one.meta().all.disjoint(&other.meta().all) {
            return Some(Meeting::Apart);
        }
        let (holder, held, flip) = placed(one, other);
        let met = holder.meetings()?.get(held)?;
        Some(if flip { met.flipped() } else { met })
    }

    /// Remembers what was found, and answers what is known from now on.
    fn remember(self, one: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>) -> Meeting {
        let (holder, held, flip) = placed(one, other);
        let turned = |meeting: Meeting| if flip { meeting.flipped() } else { meeting };
        match holder.meetings() {
            Some(meetings) => turned(meetings.put(held, turned(self))),
            None => self,
        }
    }

    /// What is known, else what a look at the keys says. Where they cannot be read it is unclear: who reads these rows
    /// is told why.
    pub fn find(relation: &RelationDef, one: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>) -> Meeting {
        if let Some(known) = Meeting::known(one, other) {
            return known;
        }
        let small_first = one.meta().all.rows <= other.meta().all.rows;
        let (few, many) = if small_first { (one, other) } else { (other, one) };
        let look = |run: &Arc<dyn SortedRun>, other: &Arc<dyn SortedRun>| {
            let looked = looked(relation, run.as_ref(), other.as_ref(), &ScanCounters::default());
            looked.unwrap_or(Meeting::Unclear)
        };
        let met = match look(few, many) {
            Meeting::Unclear => look(many, few).flipped(),
            clear => clear,
        };
        let met = if small_first { met } else { met.flipped() };
        met.remember(one, other)
    }
}

/// What `merged`, made of `inputs`, has in common with others: nothing, where no input has. Asks only where somebody has
/// asked before, and leaves what cannot be told to who reads.
pub fn inherit(
    relation: &RelationDef,
    inputs: &[Arc<dyn SortedRun>],
    merged: &[Arc<dyn SortedRun>],
    others: impl IntoIterator<Item = Arc<dyn SortedRun>>,
) {
    for other in others {
        let met = |input: &&Arc<dyn SortedRun>| !input.meta().all.disjoint(&other.meta().all);
        let asked = inputs.iter().filter(met).any(|input| Meeting::known(input, &other).is_some());
        let apart = |input| Meeting::find(relation, input, &other) == Meeting::Apart;
        if asked && inputs.iter().all(apart) {
            merged.iter().for_each(|run| drop(Meeting::Apart.remember(run, &other)));
        }
    }
}

/// The run that keeps what is known of the two, the other one, and whether they changed places.
fn placed<'a>(
    one: &'a Arc<dyn SortedRun>,
    other: &'a Arc<dyn SortedRun>,
) -> (&'a Arc<dyn SortedRun>, &'a Arc<dyn SortedRun>, bool) {
    let flip = address(Arc::as_ptr(other)) < address(Arc::as_ptr(one));
    if flip { (other, one, true) } else { (one, other, false) }
}

/// Looks for the rows of `run` in `other`.
fn looked(
    relation: &RelationDef,
    run: &dyn SortedRun,
    other: &dyn SortedRun,
    counters: &ScanCounters,
) -> Result<Meeting> {
    let Some(rows) = rows_within(relation, run, &other.meta().all, counters)? else { return Ok(Meeting::Unclear) };
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let mut keys = Keys::new(run);
    for row in rows {
        if let Some(found) = other.find(keys.at(row, counters)?, counters)? {
            own.push(row as u32);
            others.push(found as u32);
        }
    }
    Ok(if own.is_empty() { Meeting::Apart } else { Meeting::Shared(own.into(), others.into()) })
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
        let part = next..run.block(next).end.min(rows.end);
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
