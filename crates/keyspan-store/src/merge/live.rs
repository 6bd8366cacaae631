//! From resolved rows to what a reader sees: live rows, and in them live cells.
//!
//! A cell is live iff it was written after every deletion that covers it and has not expired; a row is live iff its
//! marker or any of its cells is. Where all rows live the arrays are passed on unchanged.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, nullif};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{ColumnType, Error, RelationDef, Result, ScanColumn, decoded};

use super::chunk::Gathered;
use crate::run::{CellColumn, Int64s, RunBatch, Wanted};
use keyspan_seam::output_schema;

/// Which columns a scan delivers and what it must read for them.
#[derive(Clone, Debug)]
pub(crate) struct ScanOutput {
    pub(crate) schema: SchemaRef,
    columns: Vec<OutputColumn>,
    pub(crate) wanted: Wanted,
    /// Types of the value columns that are read.
    pub(crate) types: Vec<ColumnType>,
    depth: Depth,
    /// Whether codes may be delivered.
    coded: bool,
    /// The place of the presence entries among the value columns that are read.
    presence: Option<usize>,
}

/// Rows that live.
#[derive(Debug)]
pub(crate) struct Live {
    /// By their marker or a column.
    pub(crate) rows: BooleanBuffer,
    /// By a cell of a family at most.
    pub(crate) perhaps: Vec<usize>,
}

/// How much of a row must be read to know whether it is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// Nothing: every row is its marker's, no other run has it, nothing has expired and nothing is deleted.
    Plain,
    /// Stamps: every cell of a row in a run has its marker's stamp and none has expired, so the marker tells.
    Marker,
    /// Every cell: a row may live by a cell that the scan does not ask for.
    Cells,
}

#[derive(Clone, Copy, Debug)]
enum OutputColumn {
    Key(usize),
    Value(usize),
    WriteTime(usize),
    Ttl(usize),
    ExpiresAt(usize),
}

impl ScanOutput {
    /// The output of these columns, read as deep as the runs need.
    pub(crate) fn new(relation: &RelationDef, columns: &[ScanColumn], depth: Depth, coded: bool) -> Result<ScanOutput> {
        let schema = output_schema(relation, columns)?;
        let system = depth != Depth::Plain;
        let mut wanted = Wanted { keys: vec![false; relation.key.len()], system, coded: true, ..Wanted::default() };
        if depth == Depth::Cells {
            wanted.values = relation.values.iter().map(|column| column.id).collect();
        }
        let mut outputs = Vec::with_capacity(columns.len());
        for column in columns {
            let id = column.id();
            if let Some(at) = relation.key_index(id) {
                wanted.keys[at] = true;
                outputs.push(OutputColumn::Key(at));
                continue;
            }
            let at = wanted.values.iter().position(|own| *own == id).unwrap_or_else(|| {
                wanted.values.push(id);
                wanted.values.len() - 1
            });
            outputs.push(match column {
                ScanColumn::Column(_) => OutputColumn::Value(at),
                ScanColumn::WriteTime(_) => OutputColumn::WriteTime(at),
                ScanColumn::Ttl(_) => OutputColumn::Ttl(at),
                ScanColumn::ExpiresAt(_) => OutputColumn::ExpiresAt(at),
            });
        }
        wanted.system |= outputs.iter().any(|o| !matches!(o, OutputColumn::Key(_) | OutputColumn::Value(_)));
        let ty = |id| relation.value(id).map(|column| column.ty).ok_or_else(|| Error::internal("no such value column"));
        let types = wanted.values.iter().map(|id| ty(*id)).collect::<Result<_>>()?;
        // Only a whole row tells whether it lives.
        let presence = match depth {
            Depth::Cells => wanted.values.iter().position(|id| *id == PRESENCE_COLUMN),
            Depth::Plain | Depth::Marker => None,
        };
        wanted.encoded |= presence.is_some();
        Ok(ScanOutput { schema, columns: outputs, wanted, types, depth, coded, presence })
    }

    /// Which rows live by themselves, and which may live by a cell of a family; `None`: all live.
    pub(crate) fn live(&self, rows: &Gathered, now: i64) -> Option<Live> {
        if self.depth == Depth::Plain {
            return None;
        }
        let (batch, covered) = (&rows.batch, &rows.covered);
        let count = batch.rows;
        let untouched = batch.row.deleted_ts.is_null() && covered.is_null();
        let unexpired = batch.row.expires.min_max().is_none_or(|expires| now < expires.0);
        if untouched && unexpired && batch.row.marker.count(count) == count {
            return None;
        }
        let mut perhaps = Vec::new();
        let live = BooleanBuffer::collect_bool(count, |row| {
            let deletion = deletion(batch, covered, row);
            let marker = batch.row.marker.get(row)
                && batch.row.ts.get(row).is_some_and(|ts| deletion.is_none_or(|deleted| ts > deleted))
                && batch.row.expires.get(row).is_none_or(|expires| now < expires);
            let cell = |at: usize| lives(batch, &batch.cells[at], row, deletion, now);
            let live = marker || (0..batch.cells.len()).any(|at| Some(at) != self.presence && cell(at));
            if !live && self.presence.is_some_and(cell) {
                perhaps.push(row);
            }
            live
        });
        (live.count_set_bits() < count).then_some(Live { rows: live, perhaps })
    }

    /// The output columns of the rows that `keep` has.
    pub(crate) fn batch(&self, rows: &Gathered, keep: Option<&BooleanBuffer>, now: i64) -> Result<RecordBatch> {
        let kept = keep.map_or(rows.batch.rows, |keep| keep.count_set_bits());
        let mask = keep.map(|keep| BooleanArray::new(keep.clone(), None));
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let array = self.column(*column, rows, now)?;
            let kept = match &mask {
                Some(mask) => filter(&array, mask)?,
                None => array,
            };
            arrays.push(if self.coded { kept } else { decoded(&kept)? });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(kept));
        Ok(RecordBatch::try_new_with_options(self.schema_of(&arrays), arrays, &options)?)
    }

    /// The output's schema, with the types that these columns have where they are codes.
    fn schema_of(&self, arrays: &[ArrayRef]) -> SchemaRef {
        let fields = self.schema.fields();
        if fields.iter().zip(arrays).all(|(field, array)| field.data_type() == array.data_type()) {
            return SchemaRef::clone(&self.schema);
        }
        let typed = |(field, array): (&FieldRef, &ArrayRef)| match field.data_type() == array.data_type() {
            true => FieldRef::clone(field),
            false => Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone())),
        };
        Arc::new(Schema::new(fields.iter().zip(arrays).map(typed).collect::<Vec<_>>()))
    }

    fn column(&self, column: OutputColumn, rows: &Gathered, now: i64) -> Result<ArrayRef> {
        let batch = &rows.batch;
        let (at, cells) = match column {
            OutputColumn::Key(at) => return Ok(batch.keys[at].clone().expect("the key column was asked for")),
            OutputColumn::Value(at)
            | OutputColumn::WriteTime(at)
            | OutputColumn::Ttl(at)
            | OutputColumn::ExpiresAt(at) => (at, &batch.cells[at]),
        };
        let live = |row: usize| lives(batch, cells, row, deletion(batch, &rows.covered, row), now);
        let expires = |row: usize| live(row).then(|| stamp(batch, cells, row)).flatten().and_then(|stamp| stamp.1);
        Ok(match column {
            OutputColumn::WriteTime(_) => Arc::new(Int64Array::from_iter(
                (0..batch.rows).map(|row| live(row).then(|| stamp(batch, cells, row)).flatten().map(|stamp| stamp.0)),
            )),
            OutputColumn::Ttl(_) => {
                Arc::new(Int32Array::from_iter((0..batch.rows).map(|row| {
                    i32::try_from(expires(row)?.saturating_sub(now).saturating_add(999_999) / 1_000_000).ok()
                })))
            }
            OutputColumn::ExpiresAt(_) => {
                let times = TimestampMicrosecondArray::from_iter((0..batch.rows).map(expires));
                Arc::new(times.with_timezone("UTC"))
            }
            _ => match &cells.values {
                None => new_null_array(&self.types[at].arrow(), batch.rows),
                Some(values) if all_live(rows, cells, now) => values.clone(),
                Some(values) => {
                    let dead = BooleanBuffer::collect_bool(batch.rows, |row| !live(row));
                    nullif(&decoded(values)?, &BooleanArray::new(dead, None))?
                }
            },
        })
    }
}

fn all_live(rows: &Gathered, cells: &CellColumn, now: i64) -> bool {
    let fresh = |expires: &Int64s| expires.min_max().is_none_or(|expires| now < expires.0);
    rows.batch.row.deleted_ts.is_null()
        && rows.covered.is_null()
        && fresh(&rows.batch.row.expires)
        && fresh(&cells.expires)
}

/// The greatest timestamp of a row or span tombstone over this row.
fn deletion(batch: &RunBatch, covered: &Int64s, row: usize) -> Option<i64> {
    batch.row.deleted_ts.get(row).max(covered.get(row))
}

/// Write timestamp and expiry of a cell that is there.
fn stamp(batch: &RunBatch, cells: &CellColumn, row: usize) -> Option<(i64, Option<i64>)> {
    match cells.ts.get(row) {
        Some(ts) => Some((ts, cells.expires.get(row))),
        None => batch.row.ts.get(row).map(|ts| (ts, batch.row.expires.get(row))),
    }
}

fn lives(batch: &RunBatch, cells: &CellColumn, row: usize, deletion: Option<i64>, now: i64) -> bool {
    if !cells.has_value(row) {
        return false;
    }
    // A plain read leaves system columns out: then there is no stamp, and nothing that could kill the cell.
    stamp(batch, cells, row).is_none_or(|(ts, expires)| {
        deletion.is_none_or(|deleted| ts > deleted) && expires.is_none_or(|expires| now < expires)
    })
}
