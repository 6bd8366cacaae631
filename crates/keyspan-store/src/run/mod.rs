//! Runs: immutable sorted sequences of rows, wherever they are, behind one interface.
//!
//! A run is **positional**: its rows are numbered from 0 in key order; [`SortedRun::lower_bound`] turns a key into a
//! row number and [`SortedRun::read`] turns a range of row numbers into arrays. Everything else (merging, splits,
//! reading backwards, skip-scan, statistics) is arithmetic on row numbers, done once in [`crate::merge`] and
//! [`crate::scan`] for runs of every kind.
//!
//! Rule: inside one run a key stands once. Whatever is constant in a run is not an array ([`Int64s`], [`Bits`]).

mod batch;
mod bits;
mod extent;
mod int64s;
mod overlap;
mod prefixes;
mod range;
mod row_test;
mod tombstone;
mod tombstones;
mod value_ranges;
mod whole_key;

use std::fmt::Debug;
use std::ops::Range;

use arrow::array::BinaryArray;
use keyspan_model::{ColumnId, ColumnRange, Error, Result};

pub use batch::{CellColumn, RowColumns, RunBatch, Wanted};
pub use bits::Bits;
pub use extent::{Extent, ExtentBuilder, RunMeta};
pub use int64s::Int64s;
pub use overlap::{Overlap, OverlapCache, inherit_disjoint};
pub use prefixes::{KnownPrefixes, Prefixes};
pub(crate) use range::EncodedRange;
pub(crate) use row_test::Steps;
pub use row_test::{Inside, RowTest, Tested};
pub use tombstone::{Cover, SpanTombstone};
pub use tombstones::{ShownTombstones, SpanTombstones, Tombstone};
pub use value_ranges::{IndexedColumn, ValueRanges};
pub(crate) use value_ranges::{ValueRange, inside};
pub use whole_key::WholeKey;

use keyspan_seam::ScanCounters;

/// A sorted sequence of rows, in memory or in a file.
///
/// All methods block. Reads add what they do to the counters they are given.
pub trait SortedRun: Debug + Send + Sync + 'static {
    /// What is known of the run without reading it.
    fn meta(&self) -> &RunMeta;

    /// Number of the first row whose encoded key is not less than `key`; the number of rows if there is none.
    fn lower_bound(&self, key: &[u8], counters: &ScanCounters) -> Result<usize>;

    /// Number of the row with this whole encoded key, if the run has it.
    fn find(&self, key: &[u8], counters: &ScanCounters) -> Result<Option<usize>> {
        let row = self.lower_bound(key, counters)?;
        if row >= self.meta().all.rows as usize {
            return Ok(None);
        }
        let wanted = Wanted { encoded: true, ..Wanted::default() };
        let batch = self.read(row..row + 1, &wanted, counters)?;
        Ok(batch.encoded.is_some_and(|keys| keys.value(0) == key).then_some(row))
    }

    /// Bounds of what [`SortedRun::lower_bound`] would answer, from what is in memory anyway, without IO: every row
    /// before the first number is less than `key`, no row from the second number on is. The same twice: exact.
    fn estimate(&self, key: &[u8]) -> (usize, usize);

    /// [`SortedRun::estimate`] for each of these keys.
    fn estimates(&self, keys: &[&[u8]]) -> Vec<(usize, usize)> {
        keys.iter().map(|key| self.estimate(key)).collect()
    }

    /// An encoded key at this row or at most a block before it, without IO (from a sparse index).
    fn sample(&self, row: usize) -> Option<Vec<u8>>;

    /// The block of this row: the rows that are decoded together where this is wanted of them.
    ///
    /// Every row of a block returns the same block.
    fn block(&self, row: usize, wanted: &Wanted) -> Range<usize>;

    /// Rows of the blocks that must be decoded when this column of these rows is read.
    fn undecoded(&self, column: ColumnId, rows: Range<usize>) -> u64 {
        let _ = (column, rows);
        0
    }

    /// Reads exactly these rows, which takes least where they lie within one block. Columns that the run lacks are absent in all rows.
    fn read(&self, rows: Range<usize>, wanted: &Wanted, counters: &ScanCounters) -> Result<RunBatch>;

    /// Which of these rows, within one block if it is to be quick, are inside a range of one column.
    fn inside(&self, rows: Range<usize>, test: &RowTest, counters: &ScanCounters) -> Result<Inside> {
        let batch = self.read(rows.clone(), &test.wanted(), counters)?;
        let array = match test.column() {
            Tested::Key(at) => batch.keys[at].as_ref(),
            Tested::Value(_) => batch.cells[0].values.as_ref(),
        };
        match array {
            Some(array) => test.of_array(rows, array),
            // A column of nulls only.
            None => Ok(Inside::nothing(rows)),
        }
    }

    /// Whether the run may hold this key: by its box first, which costs nothing, then by its bloom filter; without
    /// reading rows.
    fn may_contain(&self, key: &WholeKey<'_>) -> bool;

    /// Those of `rows` that may lie inside all of `ranges`, ascending, by boxes of key columns and, if `values`,
    /// by zone maps of value columns too. No IO. `values` is given only where rows are settled.
    fn keep(&self, ranges: &[ColumnRange], rows: Range<usize>, values: bool) -> Vec<Range<usize>> {
        let _ = (ranges, values);
        if rows.is_empty() { Vec::new() } else { vec![rows] }
    }

    /// Least and greatest value of a value column over the whole run, if known exactly: encoded as a key of that one
    /// column, ascending.
    fn zone(&self, column: ColumnId) -> Option<(Vec<u8>, Vec<u8>)> {
        let _ = column;
        None
    }

    /// Rows in which a column may have one of these values, ascending; `None`: more than `most`. A superset, never too
    /// few, of what the run's own cells say: another run may hold newer ones.
    fn rows_with(&self, wanted: &ValueRanges, most: usize, counters: &ScanCounters) -> Result<Option<Vec<u32>>> {
        wanted.look_through(self, most, counters)
    }

    /// Whether [`SortedRun::rows_with`] need not look at every row.
    fn has_values_of(&self, column: ColumnId) -> bool {
        let _ = column;
        false
    }

    /// Whether the run is a segment: only EXPLAIN asks.
    fn is_segment(&self) -> bool {
        false
    }

    /// Whether the run is in memory, so that reading needs no decoding.
    fn in_memory(&self) -> bool {
        false
    }

    /// The cache of the run's overlaps with other runs; `None`: it has none, and overlaps are found anew each time.
    fn overlap_cache(&self) -> Option<&OverlapCache> {
        None
    }

    /// The cache of the prefixes of the run's keys; `None`: it has none, and prefixes are found anew each time.
    fn known_prefixes(&self) -> Option<&KnownPrefixes> {
        None
    }
}

/// The encoded keys of a run, row by row, ascending: each block is read once.
pub(crate) struct Keys<'a> {
    run: &'a dyn SortedRun,
    block: Option<(Range<usize>, BinaryArray)>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(run: &'a dyn SortedRun) -> Keys<'a> {
        Keys { run, block: None }
    }

    pub(crate) fn at(&mut self, row: usize, counters: &ScanCounters) -> Result<&[u8]> {
        let block = match self.block.take().filter(|(rows, _)| rows.contains(&row)) {
            Some(block) => block,
            None => {
                let wanted = Wanted { encoded: true, ..Wanted::default() };
                let rows = self.run.block(row, &wanted);
                let keys = self.run.read(rows.clone(), &wanted, counters)?.encoded;
                (rows, keys.ok_or_else(|| Error::internal("encoded keys were asked for"))?)
            }
        };
        let (rows, keys) = self.block.insert(block);
        Ok(keys.value(row - rows.start))
    }
}
