//! A cursor over one run, forward or backward, that reads keys only when it must.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BinaryArray};
use keyspan_model::{ColumnRange, Result};

use super::select::Selection;
use crate::run::{SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// A cursor over one run: the remaining rows, and what is known of the next row's key.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<dyn SortedRun>,
    rows: Range<usize>,
    /// Ranges of rows after those, in the direction of reading; rows between them are outside the scan's ranges.
    rest: VecDeque<Range<usize>>,
    head: Head,
    window: Option<Window>,
    reverse: bool,
}

/// Which rows of a run may be left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skip {
    pub(crate) ranges: Vec<ColumnRange>,
    /// Whether also by value columns: only where every row stands in one run only and lives.
    pub(crate) values: bool,
    /// Tests single rows by their key columns; only for runs in memory.
    pub(crate) keys: Option<Arc<Selection>>,
}

/// Which rows of a run a sweep takes.
#[derive(Clone, Debug, Default)]
pub(crate) enum Which {
    #[default]
    All,
    /// All but these, ascending.
    Without(Arc<[u32]>),
    /// Only these, ascending.
    Only(Arc<[u32]>),
}

impl Which {
    fn of(&self, kept: VecDeque<Range<usize>>) -> VecDeque<Range<usize>> {
        let (rows, only) = match self {
            Which::All => return kept,
            Which::Without(rows) => (rows, false),
            Which::Only(rows) => (rows, true),
        };
        let mut taken = VecDeque::new();
        for range in kept {
            let first = rows.partition_point(|row| (*row as usize) < range.start);
            let inside = rows[first..].iter().map(|row| *row as usize).take_while(|row| *row < range.end);
            if only {
                for row in inside {
                    match taken.back_mut().filter(|last: &&mut Range<usize>| last.end == row) {
                        Some(last) => last.end = row + 1,
                        None => taken.push_back(row..row + 1),
                    }
                }
                continue;
            }
            let mut next = range.start;
            for row in inside {
                taken.extend((next < row).then_some(next..row));
                next = row + 1;
            }
            taken.extend((next < range.end).then_some(next..range.end));
        }
        taken
    }
}

impl Skip {
    fn keep(&self, run: &dyn SortedRun, rows: Range<usize>, counters: &ScanCounters) -> Result<VecDeque<Range<usize>>> {
        if rows.is_empty() {
            return Ok(VecDeque::new());
        }
        if self.ranges.is_empty() {
            return Ok(VecDeque::from([rows]));
        }
        let kept = run.keep(&self.ranges, rows, self.values).into_iter().filter(|rows| !rows.is_empty());
        match &self.keys {
            Some(keys) if run.in_memory() => selected(keys, run, kept, counters),
            _ => Ok(kept.collect()),
        }
    }
}

/// Those of the rows that lie inside the selection.
fn selected(
    keys: &Selection,
    run: &dyn SortedRun,
    kept: impl Iterator<Item = Range<usize>>,
    counters: &ScanCounters,
) -> Result<VecDeque<Range<usize>>> {
    let mut inside = VecDeque::new();
    for rows in kept {
        let mut next = rows.start;
        while next < rows.end {
            let part = next..run.block(next, &Wanted::default()).end.min(rows.end);
            next = part.end;
            inside.extend(keys.of(run, part, counters)?.keys.ranges());
        }
    }
    Ok(inside)
}

/// What is known of the next row's key.
#[derive(Debug)]
enum Head {
    /// Going forward it is not less than this, going backward not greater.
    Bound(Vec<u8>),
    /// It is in the block of keys that was read.
    Known,
}

/// The encoded keys of one block.
#[derive(Debug)]
struct Window {
    first: usize,
    keys: BinaryArray,
}

impl Window {
    fn holds(&self, row: usize) -> bool {
        row >= self.first && row < self.first + self.keys.len()
    }

    fn key(&self, row: usize) -> &[u8] {
        self.keys.value(row - self.first)
    }
}

impl RunCursor {
    /// At the first (or last) row to take of the run with a key in `[start, end)`; `None` if there is none.
    pub(crate) fn open(
        (run, which): (Arc<dyn SortedRun>, Which),
        (start, end): (&[u8], Option<&[u8]>),
        reverse: bool,
        skip: &Skip,
        counters: &ScanCounters,
    ) -> Result<Option<RunCursor>> {
        let extent = &run.meta().all;
        if !extent.overlaps(start, end) {
            return Ok(None);
        }
        let (least, greatest) = (extent.key.0.as_slice(), extent.key.1.as_slice());
        let first = if start <= least { 0 } else { run.lower_bound(start, counters)? };
        let last = match end {
            Some(end) if greatest >= end => run.lower_bound(end, counters)?,
            _ => extent.rows as usize,
        };
        let bound = if reverse { end.map_or(greatest, |end| end.min(greatest)) } else { start.max(least) };
        let head = Head::Bound(bound.to_vec());
        let mut rest = which.of(skip.keep(run.as_ref(), first..last, counters)?);
        let rows = if reverse { rest.pop_back() } else { rest.pop_front() };
        Ok(rows.map(|rows| RunCursor { run, rows, rest, head, window: None, reverse }))
    }

    pub(crate) fn run(&self) -> &Arc<dyn SortedRun> {
        &self.run
    }

    pub(crate) fn is_done(&self) -> bool {
        self.rows.is_empty()
    }

    /// The next row's key if it is known, else a bound of it: less or equal going forward, greater or equal going
    /// backward.
    pub(crate) fn bound(&self) -> &[u8] {
        match (&self.head, &self.window) {
            (Head::Known, Some(window)) => window.key(self.next_row()),
            (Head::Bound(bound), _) => bound,
            (Head::Known, None) => unreachable!("a known head is in the window"),
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        matches!(self.head, Head::Known)
    }

    /// The number of the next row.
    pub(crate) fn next_row(&self) -> usize {
        if self.reverse { self.rows.end - 1 } else { self.rows.start }
    }

    /// Reads the next row's key.
    pub(crate) fn look(&mut self, counters: &ScanCounters) -> Result<()> {
        let row = self.next_row();
        if !self.window.as_ref().is_some_and(|window| window.holds(row)) {
            let wanted = Wanted { encoded: true, ..Wanted::default() };
            let block = self.run.block(row, &wanted);
            let first = block.start;
            let batch = self.run.read(block, &wanted, counters)?;
            let keys = batch.encoded.expect("encoded keys were asked for");
            self.window = Some(Window { first, keys });
        }
        self.head = Head::Known;
        Ok(())
    }

    /// The rows that certainly come before `limit` (going backward: are not less than it), at most `max` and within
    /// one block of what is wanted, without looking at keys if the next one is not known. `None` as limit: all the rest.
    pub(crate) fn stretch(&self, limit: Option<&[u8]>, max: usize, wanted: &Wanted) -> Range<usize> {
        let block = self.run.block(self.next_row(), wanted);
        let near = if self.reverse {
            block.start.max(self.rows.start).max(self.rows.end.saturating_sub(max))..self.rows.end
        } else {
            self.rows.start..block.end.min(self.rows.end).min(self.rows.start + max)
        };
        let Some(limit) = limit else { return near };
        match (&self.head, &self.window) {
            // Blocks of keys may be smaller than those of what is wanted.
            (Head::Known, Some(window)) if self.reverse => {
                gallop_back(window, near.start.max(window.first)..near.end, limit)
            }
            (Head::Known, Some(window)) => {
                gallop(window, near.start..near.end.min(window.first + window.keys.len()), limit)
            }
            _ if self.reverse => self.run.estimate(limit).1.max(near.start).min(near.end)..near.end,
            _ => near.start..self.run.estimate(limit).0.min(near.end).max(near.start),
        }
    }

    /// Moves past the rows that `stretch` gave, or past one row.
    pub(crate) fn pass(&mut self, rows: &Range<usize>) {
        let last = if self.reverse { rows.start } else { rows.end - 1 };
        let passed = self.window.as_ref().filter(|window| window.holds(last)).map(|window| window.key(last).to_vec());
        if self.reverse {
            self.rows.end = rows.start
        } else {
            self.rows.start = rows.end
        }
        if self.rows.is_empty() && !self.next_rows() {
            return;
        }
        let next = self.next_row();
        if self.is_known() && self.window.as_ref().is_some_and(|window| window.holds(next)) {
            return;
        }
        if let (Head::Known, Some(passed)) = (&self.head, passed) {
            self.head = Head::Bound(passed);
        }
    }

    /// Goes on with the next rows that may be wanted; says whether there are any.
    fn next_rows(&mut self) -> bool {
        let next = if self.reverse { self.rest.pop_back() } else { self.rest.pop_front() };
        let some = next.is_some();
        self.rows = next.unwrap_or(0..0);
        some
    }

    /// Goes on at the first row not less than `key` (backward: at the last row less than it).
    pub(crate) fn seek(&mut self, key: &[u8], counters: &ScanCounters) -> Result<()> {
        if self.is_done() || (if self.reverse { self.bound() < key } else { self.bound() >= key }) {
            return Ok(());
        }
        let near = self.window.as_ref().filter(|_| self.is_known()).and_then(|window| {
            let edge = if self.reverse {
                window.first.max(self.rows.start)
            } else {
                (window.first + window.keys.len()).min(self.rows.end) - 1
            };
            let inside = if self.reverse { window.key(edge) < key } else { window.key(edge) >= key };
            inside.then(|| match self.reverse {
                true => gallop_back(window, edge..self.rows.end, key).start,
                false => gallop(window, self.rows.start..edge + 1, key).end,
            })
        });
        let row = match near {
            Some(row) => row,
            None => self.run.lower_bound(key, counters)?,
        };
        loop {
            let rows = &mut self.rows;
            if self.reverse {
                rows.end = rows.end.min(row).max(rows.start)
            } else {
                rows.start = rows.start.max(row).min(rows.end)
            }
            if !self.rows.is_empty() || !self.next_rows() {
                break;
            }
        }
        let holds = |row: usize| self.window.as_ref().is_some_and(|window| window.holds(row));
        let known = !self.is_done() && near.is_some() && holds(self.next_row());
        self.head = if known { Head::Known } else { Head::Bound(key.to_vec()) };
        Ok(())
    }
}

fn lower_bound(window: &Window, rows: Range<usize>, key: &[u8]) -> usize {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if window.key(middle) < key { low = middle + 1 } else { high = middle }
    }
    low
}

/// The first rows of `rows` that are less than `limit`: doubling steps, then halving.
fn gallop(window: &Window, rows: Range<usize>, limit: &[u8]) -> Range<usize> {
    let mut step = 1;
    let mut low = rows.start;
    while low + step < rows.end && window.key(low + step) < limit {
        low += step;
        step *= 2;
    }
    rows.start..lower_bound(window, low..(low + step).min(rows.end), limit)
}

/// The last rows of `rows` that are not less than `limit`.
fn gallop_back(window: &Window, rows: Range<usize>, limit: &[u8]) -> Range<usize> {
    let mut step = 1;
    let mut high = rows.end;
    while high >= rows.start + step && window.key(high - step) >= limit {
        high -= step;
        step *= 2;
    }
    let low = high.saturating_sub(step).max(rows.start);
    lower_bound(window, low..high, limit)..rows.end
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use keyspan_model::{ColumnType, KeyEncoder, Value};

    use super::*;
    use crate::random::Random;
    use crate::segment::fixture;

    const ROWS: usize = 9000;

    /// Keys 0, 10, 20, … in three blocks of a segment.
    fn tens() -> (Arc<dyn SortedRun>, KeyEncoder) {
        let bigint = ColumnType::BigInt;
        let relation = fixture::relation(&[("key", bigint, false)], &[("value", bigint)]);
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| row * 10)));
        let rows = fixture::plain(&relation, vec![Arc::clone(&keys)], vec![keys], 1);
        let files = fixture::memory();
        let record = fixture::write(&files, 1, &relation, &[rows]).expect("written");
        (Arc::new(fixture::open(&files, &relation, &record, 1 << 20)), KeyEncoder::new(&relation.key))
    }

    /// From wherever the cursor is, whether its next key is known or not, and whatever rows are left out.
    #[test]
    fn a_cursor_goes_where_it_is_told() {
        let (run, encoder) = tens();
        let key = |number: i64| encoder.encode(&[Value::BigInt(number)]).expect("a key");
        let counters = ScanCounters::default();
        let mut random = Random::new(11);
        for case in 0..400 {
            let reverse = case % 2 == 0;
            let left_out: Vec<u32> = (0..ROWS as u32).filter(|row| case % 5 == 0 && row % 7 < 2).collect();
            let mut rest: VecDeque<usize> = (0..ROWS).filter(|row| !left_out.contains(&(*row as u32))).collect();
            if reverse {
                rest.make_contiguous().reverse();
            }
            let run = (Arc::clone(&run), Which::Without(left_out.into()));
            let cursor = RunCursor::open(run, (&[], None), reverse, &Skip::default(), &counters).expect("opens");
            let mut cursor = cursor.expect("there are rows");
            let mut what = String::new();
            for _ in 0..8 {
                let Some(next) = rest.front().map(|row| *row as i64) else { break };
                let away = [0, 1, 10, 3000, 60_000][random.below(5) as usize] + random.below(20) as i64 - 10;
                match random.below(3) {
                    0 => cursor.look(&counters).expect("looks"),
                    1 => {
                        let rows = cursor.stretch(None, 1 + random.below(3000) as usize, &Wanted::default());
                        cursor.pass(&rows);
                        rest.drain(..rows.len());
                        what += &format!("pass {rows:?}, ");
                    }
                    _ => {
                        let to = if reverse { next * 10 - away } else { next * 10 + away };
                        cursor.seek(&key(to), &counters).expect("seeks");
                        rest.retain(|row| if reverse { (*row as i64 * 10) < to } else { *row as i64 * 10 >= to });
                        what += &format!("seek {to}, ");
                    }
                }
                let next = (!cursor.is_done()).then(|| cursor.next_row());
                assert_eq!(next, rest.front().copied(), "case {case}: {what}");
                let Some(own) = next.map(|row| key(row as i64 * 10)) else { break };
                let holds = if reverse { cursor.bound() >= own.as_slice() } else { cursor.bound() <= own.as_slice() };
                assert!(holds && (!cursor.is_known() || cursor.bound() == own), "case {case}: {what}");
            }
        }
    }

    /// Where rows are wide their keys are read by smaller blocks than their numbers.
    #[test]
    fn a_stretch_ends_with_the_keys_that_are_known() {
        let bigint = ColumnType::BigInt;
        let relation = fixture::relation(&[("key", bigint, false)], &[("value", bigint), ("text", ColumnType::Text)]);
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|row| format!("{row:0>200}"))));
        let rows = fixture::plain(&relation, vec![Arc::clone(&keys)], vec![keys, texts], 1);
        let files = fixture::memory();
        let record = fixture::write(&files, 1, &relation, &[rows]).expect("written");
        let run: Arc<dyn SortedRun> = Arc::new(fixture::open(&files, &relation, &record, 1 << 20));
        let numbers = Wanted { values: vec![relation.values[0].id], ..Wanted::default() };
        let keys = Wanted { encoded: true, ..Wanted::default() };
        assert!(run.block(0, &keys).len() < run.block(0, &numbers).len(), "blocks of two sizes");
        let key = |number: i64| KeyEncoder::new(&relation.key).encode(&[Value::BigInt(number)]).expect("a key");
        let counters = ScanCounters::default();
        for reverse in [false, true] {
            let run = (Arc::clone(&run), Which::All);
            let cursor = RunCursor::open(run, (&[], None), reverse, &Skip::default(), &counters).expect("opens");
            let mut cursor = cursor.expect("there are rows");
            let limit = key(if reverse { 10 } else { ROWS as i64 - 10 });
            let mut passed = 0;
            while passed < ROWS - 10 {
                cursor.look(&counters).expect("looks");
                let rows = cursor.stretch(Some(&limit), usize::MAX >> 1, &numbers);
                assert!(!rows.is_empty(), "{passed}");
                passed += rows.len();
                cursor.pass(&rows);
            }
            assert_eq!(passed, ROWS - 10);
        }
    }

    #[test]
    fn rows_are_left_out_or_picked_within_what_is_kept() {
        let kept = || VecDeque::from([2..5, 7..8, 9..14]);
        let rows: Arc<[u32]> = vec![0, 4, 7, 10, 11, 20].into();
        assert_eq!(Which::All.of(kept()), kept());
        assert_eq!(Which::Without(Arc::clone(&rows)).of(kept()), [2..4, 9..10, 12..14]);
        assert_eq!(Which::Only(rows).of(kept()), [4..5, 7..8, 10..12]);
    }
}
