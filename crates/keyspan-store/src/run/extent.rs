//! Extents: counts, bounding boxes and extremes of the system columns of some rows, known without reading them.
//!
//! A box has one interval for *each* key column, as encoded bytes: two extents disjoint in any one column cannot hold
//! the same row, whatever their whole keys say (time slices over all series).

use arrow::array::{Array, BinaryArray};
use keyspan_model::{KeyColumn, KeyEncoder, RelationDef, Result, Value};
use serde::{Deserialize, Serialize};

use super::{Int64s, RunBatch, WholeKey};

/// What is known of a range of rows of a run. All bounds are inclusive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// Number of the first row in its run.
    pub first_row: u64,
    /// How many rows.
    pub rows: u64,
    /// Least and greatest encoded key.
    pub key: (Vec<u8>, Vec<u8>),
    /// Least and greatest encoded value of each key column, in the column's own direction.
    pub columns: Vec<(Vec<u8>, Vec<u8>)>,
    /// Cells that are tombstones.
    pub cell_tombstones: u64,
    /// Rows with a row tombstone.
    pub row_tombstones: u64,
    /// Rows without a marker.
    pub markerless: u64,
    /// Whether some cell has a stamp other than its row's base stamp.
    pub own_stamps: bool,
    /// Whether some marker or cell never expires.
    pub everlasting: bool,
    /// Least and greatest write timestamp of markers, cells and row tombstones, in microseconds.
    pub ts: Option<(i64, i64)>,
    /// Least and greatest expiry of markers and cells that expire, in microseconds.
    pub expires: Option<(i64, i64)>,
    /// Least and greatest clock of tombstones, in microseconds.
    pub deleted_at: Option<(i64, i64)>,
}

/// What is known of a run without reading it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunMeta {
    /// All rows. Of an active memtable it may be wider than what its snapshot shows.
    pub all: Extent,
    /// Consecutive groups of rows that make up the whole; empty: not divided.
    pub groups: Vec<Extent>,
    /// Least and greatest commit order of what is in the run.
    pub seq: (u64, u64),
    /// Bytes in memory, or on disk.
    pub bytes: u64,
}

impl Extent {
    /// Whether every row is its marker's: no row tombstone, no row without a marker, nothing expired at `now`.
    pub fn is_plain(&self, now: i64) -> bool {
        self.row_tombstones == 0 && self.markerless == 0 && self.expires.is_none_or(|expires| now < expires.0)
    }

    /// Whether the bounding boxes are disjoint, so that no row can be in both.
    pub fn disjoint(&self, other: &Extent) -> bool {
        self.key.1 < other.key.0 || other.key.1 < self.key.0 || self.disjoint_in(other, self.columns.len())
    }

    /// Whether no two rows of the boxes agree in all of so many first columns.
    pub fn disjoint_in(&self, other: &Extent, columns: usize) -> bool {
        let mut columns = self.columns.iter().zip(&other.columns).take(columns);
        self.rows == 0 || other.rows == 0 || columns.any(|(a, b)| a.1 < b.0 || b.1 < a.0)
    }

    /// Whether the whole keys overlap `[start, end)`.
    pub fn overlaps(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        self.rows > 0 && self.key.1.as_slice() >= start && end.is_none_or(|end| self.key.0.as_slice() < end)
    }

    /// Whether the key lies between least and greatest key.
    pub fn spans(&self, key: &[u8]) -> bool {
        self.rows > 0 && self.key.0.as_slice() <= key && key <= self.key.1.as_slice()
    }

    /// Whether the key lies in the box: between least and greatest key, and so does each of its columns.
    pub fn may_contain(&self, key: &WholeKey<'_>) -> bool {
        self.spans(key.bytes) && self.columns.iter().zip(&key.columns).all(is_inside)
    }

    /// Whether a key may lie in the box that agrees with this one in so many first columns.
    pub fn may_contain_prefix(&self, key: &WholeKey<'_>, columns: usize) -> bool {
        let prefix = key.prefix(columns);
        let begun = self.key.0.as_slice() <= prefix || self.key.0.starts_with(prefix);
        self.rows > 0
            && begun
            && prefix <= self.key.1.as_slice()
            && self.columns.iter().zip(&key.columns).take(columns).all(is_inside)
    }

    /// Least and greatest value of a key column; `None` if the extent does not know.
    pub fn values(&self, column: &KeyColumn, at: usize) -> Option<(Value, Value)> {
        let (first, last) = self.columns.get(at)?;
        column.decoded_bounds((first, last)).ok()
    }

    /// The extent of the same rows with `base` added to every write timestamp.
    pub fn shifted(mut self, base: i64) -> Extent {
        self.ts = self.ts.map(|(first, last)| (first.saturating_add(base), last.saturating_add(base)));
        self
    }

    /// Widens this extent by another; `first_row` stays.
    pub fn widen(&mut self, other: &Extent) {
        if other.rows == 0 {
            return;
        }
        if self.rows == 0 {
            *self = Extent { first_row: self.first_row, ..other.clone() };
            return;
        }
        widen_box(&mut self.key, &other.key.0, &other.key.1);
        for (own, others) in self.columns.iter_mut().zip(&other.columns) {
            widen_box(own, &others.0, &others.1);
        }
        self.widen_counts(other);
    }

    /// Widens this extent by one row: its key, and what the row counts for.
    pub(crate) fn add_row(&mut self, key: &WholeKey<'_>, row: &Extent) {
        if self.rows == 0 {
            self.key = (key.bytes.to_vec(), key.bytes.to_vec());
            self.columns = key.columns.iter().map(|part| (part.to_vec(), part.to_vec())).collect();
        } else {
            widen_box(&mut self.key, key.bytes, key.bytes);
            self.columns.iter_mut().zip(&key.columns).for_each(|(own, part)| widen_box(own, part, part));
        }
        self.widen_counts(row);
    }

    fn widen_counts(&mut self, other: &Extent) {
        self.rows += other.rows;
        self.cell_tombstones += other.cell_tombstones;
        self.row_tombstones += other.row_tombstones;
        self.markerless += other.markerless;
        self.own_stamps |= other.own_stamps;
        self.everlasting |= other.everlasting;
        self.ts = span(self.ts, other.ts);
        self.expires = span(self.expires, other.expires);
        self.deleted_at = span(self.deleted_at, other.deleted_at);
    }
}

/// Whether a part of a key lies between least and greatest.
fn is_inside((own, part): (&(Vec<u8>, Vec<u8>), &&[u8])) -> bool {
    own.0.as_slice() <= *part && *part <= own.1.as_slice()
}

fn widen_box(own: &mut (Vec<u8>, Vec<u8>), least: &[u8], greatest: &[u8]) {
    if least < own.0.as_slice() {
        own.0 = least.to_vec();
    }
    if greatest > own.1.as_slice() {
        own.1 = greatest.to_vec();
    }
}

fn span(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// Computes the extent of rows, batch by batch in key order.
#[derive(Debug)]
pub struct ExtentBuilder {
    columns: Vec<KeyEncoder>,
    extent: Extent,
}

impl ExtentBuilder {
    /// For rows of this relation whose first one has this number in its run.
    pub fn new(relation: &RelationDef, first_row: u64) -> ExtentBuilder {
        let columns = relation.key.iter().map(|column| KeyEncoder::new(std::slice::from_ref(column))).collect();
        ExtentBuilder { columns, extent: Extent { first_row, ..Extent::default() } }
    }

    /// Adds rows that follow those before. The batch must have encoded keys, every key column and every value column.
    pub fn add(&mut self, batch: &RunBatch) -> Result<()> {
        let Some(encoded) = batch.encoded.as_ref().filter(|encoded| !encoded.is_empty()) else { return Ok(()) };
        let mut extent = Extent {
            rows: batch.rows as u64,
            key: (encoded.value(0).to_vec(), encoded.value(batch.rows - 1).to_vec()),
            ..Extent::default()
        };
        for (encoder, array) in self.columns.iter().zip(&batch.keys) {
            let array = array.as_ref().expect("the caller gives every key column");
            extent.columns.push(extremes(&encoder.encode_batch(std::slice::from_ref(array))?));
        }
        count_rows(batch, &mut extent);
        count_cells(batch, &mut extent);
        self.extent.widen(&extent);
        Ok(())
    }

    /// The extent of all rows added.
    pub fn finish(self) -> Extent {
        self.extent
    }
}

fn extremes(encoded: &BinaryArray) -> (Vec<u8>, Vec<u8>) {
    let mut least = encoded.value(0);
    let mut greatest = least;
    for value in encoded.iter().flatten() {
        if value < least {
            least = value;
        } else if value > greatest {
            greatest = value;
        }
    }
    (least.to_vec(), greatest.to_vec())
}

fn count_rows(batch: &RunBatch, extent: &mut Extent) {
    let (rows, row) = (batch.rows, &batch.row);
    extent.markerless = (rows - row.marker.count(rows)) as u64;
    extent.row_tombstones = non_null(&row.deleted_ts, rows) as u64;
    extent.ts = span(row.ts.min_max(), row.deleted_ts.min_max());
    extent.expires = row.expires.min_max();
    extent.deleted_at = row.deleted_at.min_max();
    extent.everlasting = non_null(&row.expires, rows) < non_null(&row.ts, rows);
}

fn count_cells(batch: &RunBatch, extent: &mut Extent) {
    for column in &batch.cells {
        extent.cell_tombstones += column.tombstones.count(batch.rows) as u64;
        let own = non_null(&column.ts, batch.rows);
        extent.own_stamps |= own > 0;
        extent.everlasting |= non_null(&column.expires, batch.rows) < own;
        extent.ts = span(extent.ts, column.ts.min_max());
        extent.expires = span(extent.expires, column.expires.min_max());
        extent.deleted_at = span(extent.deleted_at, column.deleted_at.min_max());
    }
}

fn non_null(column: &Int64s, rows: usize) -> usize {
    match column {
        Int64s::Null => 0,
        Int64s::Constant(_) => rows,
        Int64s::Array(array) => array.len() - array.null_count(),
    }
}
