//! Rows of a run as arrays, in the layout that runs, merging and segments share.
//!
//! A row has a **base stamp** (write timestamp, seconds to live, expiry): its marker's, and that of every cell whose
//! own timestamp is null. So a plain INSERT of many rows has constants only.
//!
//! ```text
//! row k: marker? base(ts, ttl, expires)  deleted(ts, at)   cell c: value | tombstone(at) | absent   own(ts, ttl, expires)?
//! ```
//!
//! Rule: a stamp is taken whole. Where a cell's own `ts` is null the cell has the base stamp, and its own `ttl` and
//! `expires` are null too; where it is not null, null `ttl` and `expires` mean that the cell does not expire. A
//! tombstone never expires: of a base stamp it has only the timestamp. A tombstone whose *own* stamp expires is a cell
//! that has expired and lost its value in a compaction; it wins and loses ties as an expiring cell.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, Int64Array};
use arrow::buffer::BooleanBuffer;
use keyspan_model::array::own_bytes;
use keyspan_model::{ColumnId, RelationDef, Result, decoded};

use super::{Bits, Int64s};
use crate::coded::concat_coded;

/// What of a run's rows is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// For each key column of the relation, whether its typed array is wanted.
    pub keys: Vec<bool>,
    /// Whether the encoded keys are wanted.
    pub encoded: bool,
    /// The value columns wanted.
    pub values: Vec<ColumnId>,
    /// Whether markers, tombstones and stamps are wanted. If not, the reader may leave all of them out, as if each
    /// row were inserted whole and never expired: that is asked only where rows are settled.
    pub system: bool,
    /// Whether arrays of keys and values may be codes (`Dictionary(UInt8, T)`) where the run holds them so.
    pub coded: bool,
}

impl Wanted {
    /// Everything of a relation's rows, as arrays of the columns' own types.
    pub fn everything(relation: &RelationDef) -> Wanted {
        Wanted {
            keys: vec![true; relation.key.len()],
            encoded: true,
            values: relation.values.iter().map(|column| column.id).collect(),
            system: true,
            coded: false,
        }
    }
}

/// Rows of one run, ascending by key.
#[derive(Clone, Debug, Default)]
pub struct RunBatch {
    /// How many.
    pub rows: usize,
    /// One entry a key column of the relation; `None`: not wanted. No nulls.
    pub keys: Vec<Option<ArrayRef>>,
    /// Encoded keys; `None`: not wanted.
    pub encoded: Option<BinaryArray>,
    /// Markers, base stamps and row tombstones.
    pub row: RowColumns,
    /// One entry a column of [`Wanted::values`], in that order.
    pub cells: Vec<CellColumn>,
}

/// What a row has beside its cells. All times in microseconds since 1970, `ttl` in seconds.
#[derive(Clone, Debug, Default)]
pub struct RowColumns {
    /// Which rows have a row marker.
    pub marker: Bits,
    /// Write timestamp of the base stamp. Not null where there is a marker or a cell without a timestamp of its own.
    pub ts: Int64s,
    /// Seconds to live of the base stamp; null: for ever.
    pub ttl: Int64s,
    /// When the base stamp expires; null: never.
    pub expires: Int64s,
    /// Write timestamp of the row tombstone; null: none. Covers cells and marker written at or before it.
    pub deleted_ts: Int64s,
    /// Server clock when the row tombstone was written.
    pub deleted_at: Int64s,
}

/// The cells of one value column.
#[derive(Clone, Debug, Default)]
pub struct CellColumn {
    /// Values of the column's Arrow type, null where the cell is absent or a tombstone; `None`: null in all rows.
    pub values: Option<ArrayRef>,
    /// Which cells are tombstones; the others without a value are absent.
    pub tombstones: Bits,
    /// Own write timestamp; null: the cell has the row's base stamp.
    pub ts: Int64s,
    /// Seconds to live of the own stamp.
    pub ttl: Int64s,
    /// When the own stamp expires.
    pub expires: Int64s,
    /// Server clock when the tombstone was written, or when the cell expired.
    pub deleted_at: Int64s,
}

impl RunBatch {
    /// The rows from `offset` on; copies nothing.
    pub fn slice(&self, offset: usize, length: usize) -> RunBatch {
        if length == self.rows {
            return self.clone();
        }
        RunBatch {
            rows: length,
            keys: self.keys.iter().map(|key| key.as_ref().map(|key| key.slice(offset, length))).collect(),
            encoded: self.encoded.as_ref().map(|encoded| encoded.slice(offset, length)),
            row: self.row.slice(offset, length),
            cells: self.cells.iter().map(|cells| cells.slice(offset, length)).collect(),
        }
    }

    /// Bytes in memory of everything that is held, counted by the sizes of the slices.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().flatten().map(own_bytes).sum();
        let encoded = self.encoded.as_ref().map_or(0, |encoded| encoded.value_data().len() + encoded.len() * 4);
        keys + encoded + self.row.bytes() + self.cells.iter().map(CellColumn::bytes).sum::<usize>()
    }

    /// The rows that `keep` has.
    pub fn filter(&self, keep: &BooleanBuffer) -> Result<RunBatch> {
        let rows = keep.count_set_bits();
        if rows == self.rows {
            return Ok(self.clone());
        }
        let mask = BooleanArray::new(keep.clone(), None);
        let array = |array: &ArrayRef| Ok(arrow::compute::filter(array, &mask)?);
        let numbers = |column: &Int64s| -> Result<Int64s> {
            let Int64s::Array(own) = column else { return Ok(column.clone()) };
            let kept = arrow::compute::filter(own, &mask)?;
            Ok(Int64s::Array(Int64Array::from(kept.to_data())).compact())
        };
        let bits = |column: &Bits| match column {
            Bits::Some(own) => Bits::new(BooleanBuffer::from_iter(keep.set_indices().map(|row| own.value(row)))),
            constant => constant.clone(),
        };
        self.mapped(rows, &array, &numbers, &bits)
    }

    /// The same columns, each changed in the same way.
    fn mapped(
        &self,
        rows: usize,
        array: &dyn Fn(&ArrayRef) -> Result<ArrayRef>,
        numbers: &dyn Fn(&Int64s) -> Result<Int64s>,
        bits: &dyn Fn(&Bits) -> Bits,
    ) -> Result<RunBatch> {
        let cells = |column: &CellColumn| -> Result<CellColumn> {
            Ok(CellColumn {
                values: column.values.as_ref().map(array).transpose()?,
                tombstones: bits(&column.tombstones),
                ts: numbers(&column.ts)?,
                ttl: numbers(&column.ttl)?,
                expires: numbers(&column.expires)?,
                deleted_at: numbers(&column.deleted_at)?,
            })
        };
        let encoded = self.encoded.clone().map(|encoded| array(&(Arc::new(encoded) as ArrayRef))).transpose()?;
        Ok(RunBatch {
            rows,
            keys: self.keys.iter().map(|key| key.as_ref().map(array).transpose()).collect::<Result<_, _>>()?,
            encoded: encoded.map(|array| BinaryArray::from(array.to_data())),
            row: RowColumns {
                marker: bits(&self.row.marker),
                ts: numbers(&self.row.ts)?,
                ttl: numbers(&self.row.ttl)?,
                expires: numbers(&self.row.expires)?,
                deleted_ts: numbers(&self.row.deleted_ts)?,
                deleted_at: numbers(&self.row.deleted_at)?,
            },
            cells: self.cells.iter().map(cells).collect::<Result<_>>()?,
        })
    }

    /// All rows, with codes looked up.
    pub(crate) fn decoded(&self) -> Result<RunBatch> {
        self.mapped(self.rows, &decoded, &|column| Ok(column.clone()), &Bits::clone)
    }

    /// Batches of the same shape, one after another. Codes stay codes where few enough values are named.
    pub fn concat(parts: &[RunBatch]) -> Result<RunBatch> {
        let [first, others @ ..] = parts else { return Ok(RunBatch::default()) };
        if others.is_empty() {
            return Ok(first.clone());
        }
        let keys = (0..first.keys.len()).map(|at| {
            let arrays: Option<Vec<ArrayRef>> = parts.iter().map(|part| part.keys[at].clone()).collect();
            arrays.map(|arrays| concat_coded(&arrays)).transpose()
        });
        let encoded: Option<Vec<&dyn Array>> =
            parts.iter().map(|part| part.encoded.as_ref().map(|encoded| encoded as &dyn Array)).collect();
        let encoded = encoded.map(|arrays| arrow::compute::concat(&arrays)).transpose()?;
        Ok(RunBatch {
            rows: parts.iter().map(|part| part.rows).sum(),
            keys: keys.collect::<Result<_, _>>()?,
            encoded: encoded.map(|array| BinaryArray::from(array.to_data())),
            row: RowColumns::concat(parts)?,
            cells: (0..first.cells.len()).map(|at| CellColumn::concat(parts, at)).collect::<Result<_>>()?,
        })
    }
}

fn join<'a>(parts: impl Iterator<Item = (&'a Int64s, usize)>) -> Result<Int64s> {
    Ok(Int64s::concat(&parts.collect::<Vec<_>>())?)
}

fn join_bits<'a>(parts: impl Iterator<Item = (&'a Bits, usize)> + Clone) -> Bits {
    let mut all = parts.clone().map(|part| part.0);
    match all.next() {
        None => Bits::None,
        Some(first) if !matches!(first, Bits::Some(_)) && all.all(|part| part == first) => first.clone(),
        Some(_) => {
            let mut builder = arrow::array::BooleanBufferBuilder::new(0);
            for (part, rows) in parts {
                builder.append_buffer(&part.to_buffer(rows));
            }
            Bits::new(builder.finish())
        }
    }
}

impl RowColumns {
    pub(crate) fn slice(&self, offset: usize, length: usize) -> RowColumns {
        RowColumns {
            marker: self.marker.slice(offset, length),
            ts: self.ts.slice(offset, length),
            ttl: self.ttl.slice(offset, length),
            expires: self.expires.slice(offset, length),
            deleted_ts: self.deleted_ts.slice(offset, length),
            deleted_at: self.deleted_at.slice(offset, length),
        }
    }

    fn bytes(&self) -> usize {
        let numbers = [&self.ts, &self.ttl, &self.expires, &self.deleted_ts, &self.deleted_at];
        self.marker.bytes() + numbers.iter().map(|column| column.bytes()).sum::<usize>()
    }

    fn concat(parts: &[RunBatch]) -> Result<RowColumns> {
        Ok(RowColumns {
            marker: join_bits(parts.iter().map(|part| (&part.row.marker, part.rows))),
            ts: join(parts.iter().map(|part| (&part.row.ts, part.rows)))?,
            ttl: join(parts.iter().map(|part| (&part.row.ttl, part.rows)))?,
            expires: join(parts.iter().map(|part| (&part.row.expires, part.rows)))?,
            deleted_ts: join(parts.iter().map(|part| (&part.row.deleted_ts, part.rows)))?,
            deleted_at: join(parts.iter().map(|part| (&part.row.deleted_at, part.rows)))?,
        })
    }
}

impl CellColumn {
    /// A column of which no row has a cell.
    pub fn absent() -> CellColumn {
        CellColumn::default()
    }

    /// Whether a row has a value.
    #[inline]
    pub fn has_value(&self, row: usize) -> bool {
        self.values.as_ref().is_some_and(|values| values.is_valid(row))
    }

    pub(crate) fn slice(&self, offset: usize, length: usize) -> CellColumn {
        CellColumn {
            values: self.values.as_ref().map(|values| values.slice(offset, length)),
            tombstones: self.tombstones.slice(offset, length),
            ts: self.ts.slice(offset, length),
            ttl: self.ttl.slice(offset, length),
            expires: self.expires.slice(offset, length),
            deleted_at: self.deleted_at.slice(offset, length),
        }
    }

    fn bytes(&self) -> usize {
        let numbers = [&self.ts, &self.ttl, &self.expires, &self.deleted_at];
        let values = self.values.as_ref().map_or(0, own_bytes);
        values + self.tombstones.bytes() + numbers.iter().map(|column| column.bytes()).sum::<usize>()
    }

    fn concat(parts: &[RunBatch], at: usize) -> Result<CellColumn> {
        let columns = || parts.iter().map(|part| (&part.cells[at], part.rows));
        Ok(CellColumn {
            values: concat_values(columns())?,
            tombstones: join_bits(columns().map(|(column, rows)| (&column.tombstones, rows))),
            ts: join(columns().map(|(column, rows)| (&column.ts, rows)))?,
            ttl: join(columns().map(|(column, rows)| (&column.ttl, rows)))?,
            expires: join(columns().map(|(column, rows)| (&column.expires, rows)))?,
            deleted_at: join(columns().map(|(column, rows)| (&column.deleted_at, rows)))?,
        })
    }
}

fn concat_values<'a>(columns: impl Iterator<Item = (&'a CellColumn, usize)> + Clone) -> Result<Option<ArrayRef>> {
    let Some(ty) =
        columns.clone().find_map(|(column, _)| column.values.as_ref().map(|values| values.data_type().clone()))
    else {
        return Ok(None);
    };
    let arrays: Vec<ArrayRef> = columns
        .map(|(column, rows)| column.values.clone().unwrap_or_else(|| arrow::array::new_null_array(&ty, rows)))
        .collect();
    concat_coded(&arrays).map(Some)
}
