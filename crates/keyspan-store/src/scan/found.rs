//! Rows that value indexes find: for conditions on indexed columns, the rows to look at instead of all in the spans.
//!
//! ```text
//! per column:   each run's value index ─▶ its rows with such a value     (a memtable is looked through)
//! per run that no other meets:   the rows that all columns have found
//! per key in runs that meet:     its rows in all of them, if each column has found the key in one of them
//! per cell of a family:          all of its versions in all runs, so that they can be counted
//! ```
//!
//! Rule: a superset. The run that holds the winning cell has found the row's key, and then the row is read out of every
//! run that has it, so that versions, deletions and expiry are judged as in any scan; the filter is evaluated above.
//! Where many rows are found, a plain scan costs less, and nothing is found here.

mod lookup;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use keyspan_model::{ColumnId, ColumnRange, Order, Result, Scan, Span};
use parking_lot::Mutex;

use lookup::{Lookup, Postings, RunPostings};

use super::plan::{Chosen, EncodedSpan, Sizes};
use super::split::{Means, PartRuns, SplitPart, encode_split};
use super::{Run, ScanSource};
use crate::files::is_refused;
use crate::merge::cursor::Which;
use crate::run::{SortedRun, ValueRanges};
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
        if self.relation.indexed.is_empty() || scan.per_prefix.is_some() {
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
        Ok(found.filter(|found| found.keys <= FEW as u64 || self.leaves_blocks_unread(found, chosen, &sizes)))
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
            count += own.len();
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
