//! Rows that value indexes find: for conditions on indexed columns, the rows to look at instead of all in the spans.
//!
//! ```text
//! per column:   each run's value index ─▶ its rows with such a value     (a memtable is looked through)
//! per run that no other meets:   the rows that all columns have found
//! per key in runs that meet:     its rows in all of them, if each column has found the key in one of them
//! ```
//!
//! Rule: a superset. The run that holds the winning cell has found the row's key, and then the row is read out of every
//! run that has it, so that versions, deletions and expiry are judged as in any scan; the filter is evaluated above.
//! Where many rows are found, a plain scan costs less, and nothing is found here.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use keyspan_model::{ColumnId, ColumnRange, KeyEncoder, Order, Result, Scan, Span};
use parking_lot::Mutex;

use super::plan::{Chosen, EncodedSpan, Sizes};
use super::split::{Means, PartRuns, SplitPart, encode_split};
use super::{Run, ScanSource};
use crate::files::is_refused;
use crate::merge::cursor::Which;
use crate::run::{Keys, Overlap, SortedRun, ValueRanges, WholeKey};
use crate::segment::BLOCK_ROWS;
use keyspan_seam::{FoundByIndex, ScanCounters, ScanForm, ScanPlan, Split};

/// Found rows that are always worth it.
const FEW: usize = 64;
/// Beyond them at most one of so many rows in the spans may be found.
const ROWS_A_KEY: u64 = 64;
/// And at most so many.
const MOST: u64 = 65_536;
/// Beyond a few, so large a part of the spans' blocks must stay unread: one of so many.
const UNREAD_PART: usize = 2;
/// Rows of segments without a value index that are looked through, if they are more than half of all.
const MOST_LOOKED_THROUGH: u64 = 131_072;
/// Look-ups of a source that are remembered: a scan is planned more than once, and then read.
const REMEMBERED: usize = 4;

/// What was found for a scan.
#[derive(Debug)]
pub(crate) struct FoundRows {
    pub(crate) runs: Vec<FoundRun>,
    /// Whether no row is in two runs.
    pub(crate) apart: bool,
    /// Rows, each counted once.
    keys: u64,
    columns: Vec<ColumnId>,
}

/// Rows found in one run.
#[derive(Debug)]
pub(crate) struct FoundRun {
    /// Its place among the source's runs.
    pub(crate) at: usize,
    pub(crate) rows: Which,
    /// Of a memtable: these rows as columns.
    pub(crate) opened: Option<Arc<dyn SortedRun>>,
}

type Remembered = (Vec<Span>, Vec<ColumnRange>, Option<Arc<FoundRows>>);

/// The last look-ups of a source.
#[derive(Default)]
pub struct Lookups(Mutex<VecDeque<Remembered>>);

impl Clone for Lookups {
    /// A cloned source will have other runs.
    fn clone(&self) -> Lookups {
        Lookups::default()
    }
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").field("known", &self.0.lock().len()).finish()
    }
}

impl Lookups {
    fn get(&self, scan: &Scan) -> Option<Option<Arc<FoundRows>>> {
        let known = self.0.lock();
        let same = |(spans, ranges, _): &&Remembered| *spans == scan.spans && *ranges == scan.ranges;
        known.iter().find(same).map(|(_, _, found)| found.clone())
    }

    fn put(&self, scan: &Scan, found: Option<Arc<FoundRows>>) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back((scan.spans.clone(), scan.ranges.clone(), found));
    }
}

/// What one column has found in the chosen runs, each by its place among them.
struct Postings {
    column: ColumnId,
    count: usize,
    runs: Vec<RunPostings>,
}

enum RunPostings {
    /// Ascending.
    Rows(Vec<u32>),
    /// Of a memtable, ascending.
    Keys(Vec<Vec<u8>>),
}

impl RunPostings {
    /// What both have found in the same run.
    fn intersect(self, other: &RunPostings) -> RunPostings {
        match (self, other) {
            (RunPostings::Rows(mut own), RunPostings::Rows(others)) => {
                own.retain(|row| others.binary_search(row).is_ok());
                RunPostings::Rows(own)
            }
            (RunPostings::Keys(mut own), RunPostings::Keys(others)) => {
                own.retain(|key| others.binary_search(key).is_ok());
                RunPostings::Keys(own)
            }
            (own, _) => own,
        }
    }

    fn copied(&self) -> RunPostings {
        match self {
            RunPostings::Rows(rows) => RunPostings::Rows(rows.clone()),
            RunPostings::Keys(keys) => RunPostings::Keys(keys.clone()),
        }
    }

    fn has(&self, key: &[u8], row: Option<u32>) -> bool {
        match (self, row) {
            (RunPostings::Rows(rows), Some(row)) => rows.binary_search(&row).is_ok(),
            (RunPostings::Keys(keys), _) => keys.binary_search_by(|own| own.as_slice().cmp(key)).is_ok(),
            _ => false,
        }
    }
}

/// One place where a key was found: of a chosen run, and its row there; of a memtable no row.
type Place = (usize, Option<u32>);

impl ScanSource {
    /// The rows that indexes find for a scan; `None` where a plain scan is better.
    pub(crate) fn found(&self, scan: &Scan, chosen: &Chosen) -> Result<Option<Arc<FoundRows>>> {
        let wanted = self.indexed_ranges(scan);
        if wanted.is_empty() {
            return Ok(None);
        }
        if let Some(known) = self.lookups.get(scan) {
            return Ok(known);
        }
        let found = self.look_up(&wanted, chosen)?.map(Arc::new);
        if !is_refused() {
            self.lookups.put(scan, found.clone());
        }
        Ok(found)
    }

    /// The scan's conditions on indexed columns.
    fn indexed_ranges(&self, scan: &Scan) -> Vec<ValueRanges> {
        if self.relation.indexed.is_empty() || scan.per_prefix.is_some() || self.counts_versions() {
            return Vec::new();
        }
        let indexed = scan.ranges.iter().filter(|range| self.relation.indexed.contains(&range.column));
        indexed.filter_map(|range| ValueRanges::new(&self.relation, range)).collect()
    }

    fn look_up(&self, wanted: &[ValueRanges], chosen: &Chosen) -> Result<Option<FoundRows>> {
        if self.whole_keys(&chosen.ranges).is_some() {
            return Ok(None);
        }
        let sizes = self.sizes(chosen);
        let rows = sizes.of(&chosen.runs).1;
        let most = usize::try_from((rows / ROWS_A_KEY).min(MOST)).unwrap_or(0).max(FEW);
        let mut postings = Vec::new();
        for wanted in wanted {
            postings.extend(self.postings(wanted, chosen, &sizes, most)?);
        }
        postings.sort_by_key(|postings| postings.count);
        if postings.is_empty() {
            return Ok(None);
        }
        let found = Lookup { source: self, chosen, postings: &postings, counters: ScanCounters::default() }.found()?;
        Ok(Some(found).filter(|found| found.keys <= FEW as u64 || self.leaves_blocks_unread(found, chosen, &sizes)))
    }

    /// What a column finds; `None`: more than `most` rows, or most runs would have to be looked through.
    fn postings(&self, wanted: &ValueRanges, chosen: &Chosen, sizes: &Sizes, most: usize) -> Result<Option<Postings>> {
        let column = wanted.column.id;
        let unindexed = |at: &&usize| self.runs[**at].sorted().is_some_and(|run| !run.has_values_of(column));
        let through: u64 = chosen.runs.iter().filter(unindexed).map(|at| self.runs[*at].meta().all.rows).sum();
        let all: u64 = chosen.runs.iter().map(|at| self.runs[*at].meta().all.rows).sum();
        if through > MOST_LOOKED_THROUGH && through > all / 2 {
            return Ok(None);
        }
        let (mut count, mut runs, counters) = (0, Vec::with_capacity(chosen.runs.len()), ScanCounters::default());
        for at in &chosen.runs {
            let own = match &self.runs[*at] {
                Run::Memtable(view) => {
                    let keys = view.keys_with(wanted, most - count);
                    keys.map(|keys| RunPostings::Keys(keys.into_iter().filter(|key| holds(chosen, key)).collect()))
                }
                run => {
                    let Some(run) = run.sorted() else { continue };
                    let rows = run.rows_with(wanted, most - count, &counters)?;
                    rows.map(|rows| RunPostings::Rows(inside(rows, &sizes.0[*at].places)))
                }
            };
            let Some(own) = own else { return Ok(None) };
            count += match &own {
                RunPostings::Rows(rows) => rows.len(),
                RunPostings::Keys(keys) => keys.len(),
            };
            runs.push(own);
        }
        Ok(Some(Postings { column, count, runs }))
    }

    /// Whether many blocks of the segments need not be decoded for the rows that were found.
    fn leaves_blocks_unread(&self, found: &FoundRows, chosen: &Chosen, sizes: &Sizes) -> bool {
        let on_disk = |at: &usize| self.runs[*at].is_segment();
        let all: usize = chosen.runs.iter().filter(|at| on_disk(at)).map(|at| sizes.0[*at].rows as usize).sum();
        let read = found.runs.iter().filter(|run| on_disk(&run.at)).map(|run| match &run.rows {
            Which::Only(rows) => rows.chunk_by(|a, b| *a as usize / BLOCK_ROWS == *b as usize / BLOCK_ROWS).count(),
            _ => 0,
        });
        read.sum::<usize>() * UNREAD_PART <= all.div_ceil(BLOCK_ROWS)
    }

    /// The plan of a scan that reads what was found: one split.
    pub(crate) fn plan_of_found(&self, scan: &Scan, chosen: &Chosen, found: &FoundRows) -> Result<ScanPlan> {
        let runs: Vec<usize> = found.runs.iter().map(|run| run.at).collect();
        let segments = runs.iter().filter(|at| self.runs[**at].is_segment()).count();
        let form = match (runs.len(), found.apart) {
            (0, _) => ScanForm::Empty,
            (1, _) => ScanForm::Concatenate,
            (_, false) => ScanForm::Merge,
            (_, true) if scan.order == Order::Any => ScanForm::Unordered,
            (_, true) => ScanForm::Interleave,
        };
        let mut pruned = chosen.pruned.clone();
        pruned.extend(Some(("index", chosen.runs.len() - runs.len())).filter(|(_, count)| *count > 0));
        let everything = SplitPart { runs: PartRuns::All, start: Vec::new(), end: None };
        let split = Split { payload: encode_split(Means::Index, &[everything]), rows: found.keys };
        let memory_runs = runs.len() - segments;
        let read = Chosen { ranges: chosen.ranges.clone(), runs, pruned: Vec::new() };
        Ok(ScanPlan {
            splits: if form == ScanForm::Empty { Vec::new() } else { vec![split] },
            form,
            memory_runs,
            segments,
            pruned,
            statistics: self.statistics(scan, &read, (false, found.keys))?,
            found: Some(FoundByIndex { columns: found.columns.clone(), keys: found.keys }),
        })
    }
}

/// Whether a key is in the spans.
fn holds(chosen: &Chosen, key: &[u8]) -> bool {
    let behind = chosen.ranges.partition_point(|(start, _)| start.as_slice() <= key);
    let range: Option<&EncodedSpan> = behind.checked_sub(1).and_then(|at| chosen.ranges.get(at));
    range.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < end.as_slice()))
}

/// Those of some rows, which ascend, that are in one of these ranges.
fn inside(rows: Vec<u32>, places: &[std::ops::Range<usize>]) -> Vec<u32> {
    let within = |row: &u32| places.iter().any(|place| place.contains(&(*row as usize)));
    match places {
        [all] if rows.last().is_none_or(|last| (*last as usize) < all.end) && all.start == 0 => rows,
        _ => rows.into_iter().filter(|row| within(row)).collect(),
    }
}

/// A look-up, once each column has found its rows.
struct Lookup<'a> {
    source: &'a ScanSource,
    chosen: &'a Chosen,
    /// The column that has found the fewest first.
    postings: &'a [Postings],
    counters: ScanCounters,
}

impl Lookup<'_> {
    fn run(&self, place: usize) -> &Run {
        &self.source.runs[self.chosen.runs[place]]
    }

    fn found(&self) -> Result<FoundRows> {
        let count = self.chosen.runs.len();
        let meets = |one: usize, other: usize| self.meet(one, other);
        let meeting: Vec<Vec<usize>> =
            (0..count).map(|one| (0..count).filter(|other| *other != one && meets(one, *other)).collect()).collect();
        let (mut rows, mut keys): (Vec<Vec<u32>>, Vec<Vec<Vec<u8>>>) =
            (vec![Vec::new(); count], vec![Vec::new(); count]);
        for place in (0..count).filter(|place| meeting[*place].is_empty()) {
            let own = self.postings[0].runs[place].copied();
            let both = self.postings[1..].iter().fold(own, |own, other| own.intersect(&other.runs[place]));
            match both {
                RunPostings::Rows(own) => rows[place] = own,
                RunPostings::Keys(own) => keys[place] = own,
            }
        }
        let mut distinct = rows.iter().map(Vec::len).chain(keys.iter().map(Vec::len)).sum::<usize>() as u64;
        let mut apart = true;
        for (key, places) in self.in_several(&meeting)? {
            distinct += 1;
            apart &= places.len() == 1;
            for (place, row) in places {
                match row {
                    Some(row) => rows[place].push(row),
                    None => keys[place].push(key.clone()),
                }
            }
        }
        let runs = (0..count).filter(|place| !rows[*place].is_empty() || !keys[*place].is_empty());
        let runs = runs.map(|place| self.found_run(place, &rows[place], &keys[place])).collect::<Result<Vec<_>>>()?;
        let columns = self.postings.iter().map(|postings| postings.column).collect();
        Ok(FoundRows { runs, apart, keys: distinct, columns })
    }

    fn found_run(&self, place: usize, rows: &[u32], keys: &[Vec<u8>]) -> Result<FoundRun> {
        let at = self.chosen.runs[place];
        Ok(match self.run(place) {
            Run::Memtable(view) => FoundRun { at, rows: Which::All, opened: Some(Arc::new(view.rows_of(keys)?)) },
            _ => FoundRun { at, rows: Which::Only(rows.into()), opened: None },
        })
    }

    /// Whether a row may be in both of two runs, as far as is known without comparing keys.
    fn meet(&self, one: usize, other: usize) -> bool {
        let (one, other) = (self.run(one), self.run(other));
        if one.meta().all.disjoint(&other.meta().all) {
            return false;
        }
        match (one, other) {
            (Run::Memtable(_), _) | (_, Run::Memtable(_)) => true,
            _ => match (one.whole(), other.whole()) {
                (Ok(one), Ok(other)) => Overlap::known(&one, &other) != Some(Overlap::Disjoint),
                _ => true,
            },
        }
    }

    /// The keys found in runs that meet others, ascending, with all places where they are. `meeting`: for each run those
    /// that it meets.
    fn in_several(&self, meeting: &[Vec<usize>]) -> Result<Vec<(Vec<u8>, Vec<Place>)>> {
        let mut found: Vec<(Vec<u8>, Place)> = Vec::new();
        for place in (0..meeting.len()).filter(|place| !meeting[*place].is_empty()) {
            match (&self.postings[0].runs[place], self.run(place).sorted()) {
                (RunPostings::Rows(rows), Some(run)) => {
                    let mut keys = Keys::new(run);
                    for row in rows {
                        let key = keys.at(*row as usize, &self.counters)?;
                        if holds(self.chosen, key) {
                            found.push((key.to_vec(), (place, Some(*row))));
                        }
                    }
                }
                (RunPostings::Keys(keys), _) => found.extend(keys.iter().map(|key| (key.clone(), (place, None)))),
                _ => {}
            }
        }
        found.sort_unstable();
        let encoder = KeyEncoder::new(&self.source.relation.key);
        let mut keys = Vec::new();
        for group in found.chunk_by(|one, other| one.0 == other.0) {
            let mut places: Vec<Place> = group.iter().map(|(_, place)| *place).collect();
            self.look_elsewhere(&WholeKey::new(&encoder, &group[0].0), &mut places, meeting)?;
            let key = &group[0].0;
            let has = |postings: &Postings| places.iter().any(|(place, row)| postings.runs[*place].has(key, *row));
            if self.postings[1..].iter().all(has) {
                keys.push((key.clone(), places));
            }
        }
        Ok(keys)
    }

    /// Adds the places of a key in runs whose postings do not have it.
    fn look_elsewhere(&self, key: &WholeKey<'_>, places: &mut Vec<Place>, meeting: &[Vec<usize>]) -> Result<()> {
        let mut others: Vec<usize> = places.iter().flat_map(|(place, _)| meeting[*place].clone()).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|other| places.iter().all(|(place, _)| place != other));
        for other in others {
            match self.run(other) {
                Run::Memtable(view) => places.extend(view.get(key.bytes).map(|_| (other, None))),
                run => {
                    let Some(sorted) = run.sorted().filter(|_| run.may_contain(key)) else { continue };
                    let row = sorted.find(key.bytes, &self.counters)?;
                    places.extend(row.map(|row| (other, Some(row as u32))));
                }
            }
        }
        Ok(())
    }
}
