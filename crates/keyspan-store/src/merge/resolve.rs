//! One row out of its versions in several runs: each cell's strongest version, the latest row tombstone, the strongest
//! marker. Tombstones stay; what the row tombstone covers goes.

use arrow::array::AsArray;
use arrow::datatypes::UInt8Type;
use keyspan_model::array::{tie_bytes, value_at};
use keyspan_model::{ColumnType, Result};

use crate::row::rules::{Candidate, stronger};
use crate::row::{CellStamp, Deletion};
use crate::run::{CellColumn, RunBatch};

/// A row in a batch: `(batch, row)`.
pub(crate) type Place = (usize, usize);

/// A resolved row.
#[derive(Debug)]
pub(crate) struct ResolvedRow {
    pub(crate) marker: Option<CellStamp>,
    pub(crate) deleted: Option<Deletion>,
    /// One entry a cell column.
    pub(crate) cells: Vec<Option<ResolvedCell>>,
}

/// The winning version of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedCell {
    pub(crate) place: Place,
    pub(crate) stamp: CellStamp,
    /// Server clock of the deletion if it is a tombstone.
    pub(crate) tombstone: Option<i64>,
}

/// The base stamp of a row; `None` where it has none.
pub(crate) fn base_stamp(batch: &RunBatch, row: usize) -> Option<CellStamp> {
    let columns = &batch.row;
    columns.ts.get(row).map(|ts| CellStamp { ts, ttl: columns.ttl.get(row), expires: columns.expires.get(row) })
}

/// A cell as it stands in a row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellHere {
    pub(crate) stamp: CellStamp,
    pub(crate) tombstone: Option<i64>,
}

/// The cell in a row of a batch; `None` where it is absent.
pub(crate) fn cell_in(batch: &RunBatch, cells: &CellColumn, row: usize) -> Option<CellHere> {
    let tombstone = cells.tombstones.get(row);
    if !tombstone && !cells.has_value(row) {
        return None;
    }
    let own = cells.ts.get(row);
    let stamp = match own {
        Some(ts) => CellStamp { ts, ttl: cells.ttl.get(row), expires: cells.expires.get(row) },
        None => base_stamp(batch, row)?,
    };
    if !tombstone {
        return Some(CellHere { stamp, tombstone: None });
    }
    let stamp = if own.is_some() { stamp } else { CellStamp { ttl: None, expires: None, ..stamp } };
    Some(CellHere { stamp, tombstone: Some(cells.deleted_at.get(row).unwrap_or(stamp.ts)) })
}

fn cell_at(batches: &[&RunBatch], place: Place, column: usize) -> Option<ResolvedCell> {
    let batch = batches[place.0];
    let CellHere { stamp, tombstone } = cell_in(batch, &batch.cells[column], place.1)?;
    Some(ResolvedCell { place, stamp, tombstone })
}

/// Resolves the versions of one row. `types` are those of the batches' cell columns.
pub(crate) fn resolve(batches: &[&RunBatch], places: &[Place], types: &[ColumnType]) -> Result<ResolvedRow> {
    let deleted = places.iter().filter_map(|(batch, row)| deletion(batches[*batch], *row)).max_by_key(|d| (d.ts, d.at));
    let covered = |ts: i64| deleted.is_some_and(|deletion| ts <= deletion.ts);
    let markers = places.iter().filter(|(batch, row)| batches[*batch].row.marker.get(*row));
    let marker = markers.filter_map(|(batch, row)| base_stamp(batches[*batch], *row)).reduce(|best, next| {
        if stronger(next.into(), best.into(), || std::cmp::Ordering::Equal) { next } else { best }
    });
    let mut cells = Vec::with_capacity(types.len());
    for (column, ty) in types.iter().enumerate() {
        let mut best: Option<ResolvedCell> = None;
        for cell in places.iter().filter_map(|place| cell_at(batches, *place, column)) {
            best = Some(match best {
                Some(best) if !beats(batches, column, *ty, cell, best)? => best,
                _ => cell,
            });
        }
        cells.push(best.filter(|cell| !covered(cell.stamp.ts)));
    }
    Ok(ResolvedRow { marker: marker.filter(|marker| !covered(marker.ts)), deleted, cells })
}

fn deletion(batch: &RunBatch, row: usize) -> Option<Deletion> {
    let ts = batch.row.deleted_ts.get(row)?;
    Some(Deletion { ts, at: batch.row.deleted_at.get(row).unwrap_or(ts) })
}

fn beats(batches: &[&RunBatch], column: usize, ty: ColumnType, a: ResolvedCell, b: ResolvedCell) -> Result<bool> {
    let (first, second) = (candidate(a), candidate(b));
    if first != second || first.tombstone {
        return Ok(stronger(first, second, || std::cmp::Ordering::Equal));
    }
    let bytes = |place: Place| -> Result<Vec<u8>> {
        // An expired cell whose value compaction left out has no bytes; nobody reads it or its rival any more.
        let Some(values) = &batches[place.0].cells[column].values else { return Ok(Vec::new()) };
        let (values, row) = match values.as_dictionary_opt::<UInt8Type>() {
            Some(codes) => (codes.values(), usize::from(codes.keys().value(place.1))),
            None => (values, place.1),
        };
        Ok(tie_bytes(&value_at(values, row, ty)?))
    };
    let order = bytes(a.place)?.cmp(&bytes(b.place)?);
    Ok(stronger(first, second, || order))
}

fn candidate(cell: ResolvedCell) -> Candidate {
    // A tombstone that expires is a cell that has expired: it wins and loses ties as it did before.
    let tombstone = cell.tombstone.is_some() && cell.stamp.expires.is_none();
    Candidate { ts: cell.stamp.ts, tombstone, expires: cell.stamp.expires }
}
