//! Two sorted sides read side by side.
//!
//! The right cursor stands at the first row that is not yet passed; a right row is passed once it is before the left row
//! (with `>=`: also if it is equal). The nearest one before is then the last row passed, the nearest one after the row at the
//! cursor, if its equal columns are the left row's. Right batches are held as long as an answer being built names them, at
//! most [`MOST_HELD`]; then the answer goes out as it is.
//!
//! Nulls: a left row with a null among its columns has no match, a right row with one is passed over.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;

use super::exec::{Near, ORDER};

/// Right batches that an answer may name.
const MOST_HELD: usize = 16;

/// What the merge needs, or has.
pub enum Wanted {
    /// More of the left side.
    Left,
    /// More of the right side.
    Right,
    /// Take this.
    Output(RecordBatch),
    /// All is done.
    Nothing,
}

/// One side's encoder of its columns.
struct Encoder {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Of the equal columns; none if there are none.
    equal: Option<RowConverter>,
    time: RowConverter,
}

/// A batch with its columns encoded.
struct Encoded {
    batch: RecordBatch,
    equal: Option<Rows>,
    time: Rows,
    /// Rows without a null among the columns.
    whole: Vec<bool>,
}

impl Encoder {
    fn try_new((schema, keys): (&SchemaRef, &[Arc<dyn PhysicalExpr>])) -> Result<Encoder> {
        let fields = keys.iter().map(|key| Ok(SortField::new_with_options(key.data_type(schema)?, ORDER)));
        let mut fields = fields.collect::<Result<Vec<_>>>()?;
        let time = RowConverter::new(fields.pop().into_iter().collect())?;
        let equal = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        Ok(Encoder { keys: keys.to_vec(), equal, time })
    }

    fn encode(&self, batch: RecordBatch) -> Result<Encoded> {
        let rows = batch.num_rows();
        let columns = self.keys.iter().map(|key| key.evaluate(&batch)?.into_array(rows));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let whole = (0..rows).map(|row| columns.iter().all(|column| column.is_valid(row))).collect();
        let last = columns.len() - 1;
        let equal = self.equal.as_ref().map(|equal| equal.convert_columns(&columns[..last])).transpose()?;
        let time = self.time.convert_columns(&columns[last..])?;
        Ok(Encoded { batch, equal, time, whole })
    }
}

impl Encoded {
    fn size(&self) -> usize {
        let rows = self.equal.as_ref().map_or(0, Rows::size) + self.time.size();
        self.batch.get_array_memory_size() + rows + self.whole.len()
    }

    /// Order of the equal columns of two rows.
    fn compare_equal(&self, row: usize, other: &Encoded, at: usize) -> std::cmp::Ordering {
        match (&self.equal, &other.equal) {
            (Some(own), Some(other)) => own.row(row).cmp(&other.row(at)),
            _ => std::cmp::Ordering::Equal,
        }
    }
}

/// See the module.
pub struct Merge {
    left: Encoder,
    right: Encoder,
    near: Near,
    outer: bool,
    schema: SchemaRef,
    memory: MemoryReservation,
    /// The left batch, and the row at the cursor.
    current: Option<Encoded>,
    row: usize,
    left_ended: bool,
    /// Right batches that are named or at the cursor; the cursor is in the last.
    held: Vec<Encoded>,
    cursor: usize,
    right_ended: bool,
    /// The last right row passed: batch and row.
    passed: Option<(usize, usize)>,
    /// Rows of the answer: left row, and right batch and row.
    out: Vec<(usize, Option<(usize, usize)>)>,
}

impl Merge {
    pub(super) fn try_new(
        left: (&SchemaRef, &[Arc<dyn PhysicalExpr>]),
        right: (&SchemaRef, &[Arc<dyn PhysicalExpr>]),
        near: Near,
        outer: bool,
        schema: SchemaRef,
        memory: MemoryReservation,
    ) -> Result<Merge> {
        Ok(Merge {
            left: Encoder::try_new(left)?,
            right: Encoder::try_new(right)?,
            near,
            outer,
            schema,
            memory,
            current: None,
            row: 0,
            left_ended: false,
            held: Vec::new(),
            cursor: 0,
            right_ended: false,
            passed: None,
            out: Vec::new(),
        })
    }

    pub(super) fn feed_left(&mut self, batch: Option<RecordBatch>) -> Result<()> {
        match batch {
            Some(batch) => {
                self.current = Some(self.left.encode(batch)?);
                self.row = 0;
            }
            None => self.left_ended = true,
        }
        self.account()
    }

    pub(super) fn feed_right(&mut self, batch: Option<RecordBatch>) -> Result<()> {
        match batch {
            Some(batch) if batch.num_rows() == 0 => {}
            Some(batch) => {
                self.forget();
                self.held.push(self.right.encode(batch)?);
                self.cursor = 0;
            }
            None => self.right_ended = true,
        }
        self.account()
    }

    fn account(&mut self) -> Result<()> {
        let held: usize = self.held.iter().chain(&self.current).map(Encoded::size).sum();
        self.memory.try_resize(held)
    }

    /// Lets go of right batches that nothing names.
    fn forget(&mut self) {
        if !self.out.is_empty() {
            return;
        }
        let keep = self.passed.map_or(self.held.len(), |(batch, _)| batch);
        let last = self.held.len().saturating_sub(1);
        // The batch of the last row passed, and the last one, in which the cursor is.
        let mut at = 0;
        self.held.retain(|_| {
            at += 1;
            at - 1 == keep || at - 1 == last
        });
        if let Some((batch, _)) = &mut self.passed {
            *batch = 0;
        }
    }

    /// Goes on until something is needed.
    pub(super) fn advance(&mut self) -> Result<Wanted> {
        loop {
            let Some(current) = &self.current else {
                return Ok(if self.left_ended { Wanted::Nothing } else { Wanted::Left });
            };
            if self.row >= current.batch.num_rows() {
                let output = self.built()?;
                self.current = None;
                self.forget();
                match output {
                    Some(output) => return Ok(Wanted::Output(output)),
                    None => continue,
                }
            }
            if !current.whole[self.row] {
                self.put(None);
                continue;
            }
            // Passes right rows that are before this left row.
            while let Some(right) = self.held.last() {
                if self.cursor >= right.batch.num_rows() {
                    break;
                }
                let passes = !right.whole[self.cursor]
                    || match right.compare_equal(self.cursor, current, self.row) {
                        std::cmp::Ordering::Equal => {
                            let order = right.time.row(self.cursor).cmp(&current.time.row(self.row));
                            // Equal times count as passed where the one before is wanted and may be equal, or the one
                            // after is wanted and may not.
                            order.is_lt() || (order.is_eq() && self.near.before == self.near.equal)
                        }
                        order => order.is_lt(),
                    };
                if !passes {
                    break;
                }
                if right.whole[self.cursor] {
                    self.passed = Some((self.held.len() - 1, self.cursor));
                }
                self.cursor += 1;
            }
            let at_end = self.held.last().is_none_or(|right| self.cursor >= right.batch.num_rows());
            if at_end && !self.right_ended {
                if self.held.len() >= MOST_HELD
                    && let Some(output) = self.built()?
                {
                    self.forget();
                    return Ok(Wanted::Output(output));
                }
                return Ok(Wanted::Right);
            }
            let candidate = match self.near.before {
                true => self.passed,
                false => (!at_end).then(|| (self.held.len() - 1, self.cursor)),
            };
            let same = |(batch, row): &(usize, usize)| self.held[*batch].compare_equal(*row, current, self.row).is_eq();
            let found = candidate.filter(same);
            self.put(found);
        }
    }

    fn put(&mut self, found: Option<(usize, usize)>) {
        if found.is_some() || self.outer {
            self.out.push((self.row, found));
        }
        self.row += 1;
    }

    /// The rows put so far.
    fn built(&mut self) -> Result<Option<RecordBatch>> {
        let out = std::mem::take(&mut self.out);
        let Some(current) = self.current.as_ref().filter(|_| !out.is_empty()) else { return Ok(None) };
        let rows = UInt64Array::from_iter_values(out.iter().map(|(row, _)| *row as u64));
        let left = current.batch.columns().iter().map(|column| Ok(take(column, &rows, None)?));
        let mut arrays = left.collect::<Result<Vec<ArrayRef>>>()?;
        let indices: Vec<(usize, usize)> =
            out.iter().map(|(_, found)| found.map_or((0, 0), |(batch, row)| (batch + 1, row))).collect();
        let width = arrays.len();
        for place in width..self.schema.fields().len() {
            let null = new_null_array(self.schema.field(place).data_type(), 1);
            let held = self.held.iter().map(|held| held.batch.column(place - width).as_ref());
            let sources: Vec<&dyn Array> = std::iter::once(null.as_ref()).chain(held).collect();
            arrays.push(interleave(&sources, &indices)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(out.len()));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?))
    }
}
