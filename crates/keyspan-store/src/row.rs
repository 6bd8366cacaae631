//! One row as a value of its own, in the memtable and where versions are resolved one by one; [`rules`] says which of
//! two versions wins.

pub mod rules;

use keyspan_model::array::tie_bytes;
use keyspan_model::{CellWrite, ColumnId, RowWrite, Value};

use crate::run::Extent;
use rules::{Candidate, stronger};

/// When something was written and how long it lives. Times in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellStamp {
    /// Write timestamp.
    pub ts: i64,
    /// Seconds to live; `None`: for ever.
    pub ttl: Option<i64>,
    /// When it expires: live iff now < expires. `None` exactly when `ttl` is.
    pub expires: Option<i64>,
}

impl CellStamp {
    /// The stamp of a write at the server's clock `now`; `ttl` 0 means for ever.
    pub fn new(ts: i64, ttl: u32, now: i64) -> CellStamp {
        let seconds = (ttl > 0).then_some(i64::from(ttl));
        CellStamp { ts, ttl: seconds, expires: seconds.map(|seconds| now.saturating_add(seconds * 1_000_000)) }
    }

    /// Whether it has not expired.
    pub fn is_live(&self, now: i64) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

/// A row tombstone, or the deletion of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Covers what was written at or before it, in microseconds.
    pub ts: i64,
    /// Server clock when it was written, in microseconds.
    pub at: i64,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its stamp.
    pub stamp: CellStamp,
    /// Its value, or the server's clock when it was deleted.
    pub content: Result<Value, i64>,
}

impl Cell {
    fn candidate(&self) -> Candidate {
        Candidate { ts: self.stamp.ts, tombstone: self.content.is_err(), expires: self.stamp.expires }
    }

    fn beats(&self, other: &Cell) -> bool {
        let bytes = |cell: &Cell| cell.content.as_ref().map(tie_bytes).unwrap_or_default();
        stronger(self.candidate(), other.candidate(), || bytes(self).cmp(&bytes(other)))
    }
}

/// The entry of a row in one run or memtable: a marker, a row tombstone, cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowEntry {
    /// The row marker that an INSERT writes.
    pub marker: Option<CellStamp>,
    /// The row tombstone.
    pub deleted: Option<Deletion>,
    /// Cells, each column at most once.
    pub cells: Vec<(ColumnId, Cell)>,
}

impl RowEntry {
    /// What a write of one row does, stamped `ts`, at the server's clock `now` (both in microseconds).
    pub fn written(write: &RowWrite, ts: i64, now: i64) -> RowEntry {
        let stamp = CellStamp::new(ts, write.ttl, now);
        let mut entry = RowEntry { marker: write.marker.then_some(stamp), ..RowEntry::default() };
        for (column, content) in &write.cells {
            let cell = match content {
                CellWrite::Value(value) => Cell { stamp, content: Ok(value.clone().canonical()) },
                CellWrite::Tombstone => Cell { stamp: CellStamp::new(ts, 0, now), content: Err(now) },
            };
            entry.put(*column, cell);
        }
        entry
    }

    /// What a deletion of one row does.
    pub fn deleted(ts: i64, now: i64) -> RowEntry {
        RowEntry { deleted: Some(Deletion { ts, at: now }), ..RowEntry::default() }
    }

    /// Both entries of one row together: versions resolved, what the row tombstone covers left out.
    pub fn merged(mut self, other: RowEntry) -> RowEntry {
        self.marker = match (self.marker, other.marker) {
            (Some(a), Some(b)) => Some(if stronger(b.into(), a.into(), || std::cmp::Ordering::Equal) { b } else { a }),
            (a, b) => a.or(b),
        };
        self.deleted = match (self.deleted, other.deleted) {
            (Some(a), Some(b)) => Some(if (b.ts, b.at) > (a.ts, a.at) { b } else { a }),
            (a, b) => a.or(b),
        };
        for (column, cell) in other.cells {
            self.put(column, cell);
        }
        if let Some(deletion) = self.deleted {
            self.cover(deletion.ts);
        }
        self
    }

    /// Leaves out what a deletion at `ts` covers.
    pub fn cover(&mut self, ts: i64) {
        self.marker = self.marker.filter(|marker| marker.ts > ts);
        self.cells.retain(|(_, cell)| cell.stamp.ts > ts);
    }

    fn put(&mut self, column: ColumnId, cell: Cell) {
        match self.cells.iter_mut().find(|(own, _)| *own == column) {
            Some((_, own)) if cell.beats(own) => *own = cell,
            Some(_) => {}
            None => self.cells.push((column, cell)),
        }
    }

    /// Bytes in memory, estimated.
    pub fn bytes(&self) -> usize {
        let cell = |cell: &Cell| match &cell.content {
            Ok(Value::Text(text)) => text.len(),
            Ok(Value::Blob(bytes)) => bytes.len(),
            Ok(value @ (Value::List(_) | Value::Map(_) | Value::Tuple(_) | Value::Variant(_))) => {
                tie_bytes(value).len()
            }
            _ => 0,
        };
        std::mem::size_of::<RowEntry>()
            + self.cells.iter().map(|(_, own)| std::mem::size_of::<(ColumnId, Cell)>() + cell(own)).sum::<usize>()
    }

    /// What this one row counts for in its run's extent, keys left aside.
    pub fn extent(&self) -> Extent {
        let mut extent = Extent {
            rows: 1,
            row_tombstones: u64::from(self.deleted.is_some()),
            markerless: u64::from(self.marker.is_none()),
            ..Extent::default()
        };
        let mut stamps: Vec<CellStamp> = self.marker.iter().copied().collect();
        stamps.extend(self.cells.iter().map(|(_, cell)| cell.stamp));
        extent.own_stamps = stamps.iter().any(|stamp| *stamp != stamps[0]);
        extent.everlasting = stamps.iter().any(|stamp| stamp.expires.is_none());
        extent.expires = min_max(stamps.iter().filter_map(|stamp| stamp.expires));
        extent.ts = min_max(stamps.iter().map(|stamp| stamp.ts).chain(self.deleted.map(|deletion| deletion.ts)));
        let tombstones = || self.cells.iter().filter_map(|(_, cell)| cell.content.as_ref().err().copied());
        extent.cell_tombstones = tombstones().count() as u64;
        extent.deleted_at = min_max(tombstones().chain(self.deleted.map(|deletion| deletion.at)));
        extent
    }
}

impl From<CellStamp> for Candidate {
    fn from(stamp: CellStamp) -> Candidate {
        Candidate { ts: stamp.ts, tombstone: false, expires: stamp.expires }
    }
}

fn min_max(values: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
    values.fold(None, |extremes, value| match extremes {
        None => Some((value, value)),
        Some((least, greatest)) => Some((least.min(value), greatest.max(value))),
    })
}
