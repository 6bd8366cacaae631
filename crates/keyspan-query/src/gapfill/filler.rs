//! Puts rows for missing buckets between the rows of a sorted input. Holds one batch, the last row before it, and for
//! each fill what it needs of the rows before.
//!
//! Rows outside of the bounds pass as they are. One whose time is NULL is its group's last, behind the filled buckets. A
//! null that an aggregate gave ends a line, and is carried forward, as in TimescaleDB.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use keyspan_model::{ColumnType, ErrorKind, Value, array_of, value_at};

use super::exec::{Gaps, Series};
use super::node::FillKind;
use crate::error::external;
use crate::functions::bucket::{units_of, value_of_units};

/// Rows of an answer's batch at most.
const BATCH_ROWS: usize = 8192;

/// How a column of filled values is made.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) kind: FillKind,
    pub(super) missing: bool,
    pub(super) value: Arc<dyn PhysicalExpr>,
    /// What is carried into a group, or `(time, value)` before its first row.
    pub(super) before: Option<Arc<dyn PhysicalExpr>>,
    /// `(time, value)` after its last row.
    pub(super) after: Option<Arc<dyn PhysicalExpr>>,
}

type Point = Option<(i64, f64)>;

/// What a column knows of the rows before.
struct Known {
    column: Column,
    ty: DataType,
    /// The value of each row of the batch.
    values: ArrayRef,
    last: ScalarValue,
    point: Point,
    end: Point,
    out: Vec<ScalarValue>,
}

/// Where the current group's columns can be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Of the batch.
    Row(usize),
    /// The last row of the batch before.
    Carried,
    /// Of nothing: there are no group columns, or it is an aggregate of a missing bucket.
    Null,
}

/// See the module.
pub struct Filler {
    schema: SchemaRef,
    bucket: usize,
    groups: Vec<usize>,
    series: Series,
    known: Vec<Known>,
    converter: Option<RowConverter>,
    batch: Option<RecordBatch>,
    starts: Vec<Option<i64>>,
    keys: Option<Rows>,
    row: usize,
    carried: Option<RecordBatch>,
    /// The group being filled: its key and where its columns are.
    group: Option<(Option<OwnedRow>, Source)>,
    any: bool,
    next: i64,
    /// Rows of the answer: bucket, source of groups, source of the rest.
    out: Vec<(Option<i64>, Source, Source)>,
    ended: bool,
    done: bool,
}

impl Filler {
    pub(super) fn try_new(input: SchemaRef, schema: SchemaRef, gaps: Gaps) -> Result<Filler> {
        let Gaps { bucket, groups, series, columns } = gaps;
        let fields: Vec<SortField> =
            groups.iter().map(|place| SortField::new(input.field(*place).data_type().clone())).collect();
        let converter = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        let known = columns.into_iter().enumerate().map(|(at, column)| {
            let ty = schema.field(input.fields().len() + at).data_type().clone();
            let last = ScalarValue::try_from(&ty)?;
            Ok(Known { column, values: new_null_array(&ty, 0), ty, last, point: None, end: None, out: Vec::new() })
        });
        let next = series.start;
        Ok(Filler {
            known: known.collect::<Result<_>>()?,
            schema,
            bucket,
            groups,
            series,
            converter,
            batch: None,
            starts: Vec::new(),
            keys: None,
            row: 0,
            carried: None,
            group: None,
            any: false,
            next,
            out: Vec::new(),
            ended: false,
            done: false,
        })
    }

    /// No more rows come.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The next rows of the input; only when [`Filler::next`] has nothing left.
    pub(super) fn feed(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if let Some(before) = &self.batch {
            self.carried = Some(before.slice(before.num_rows() - 1, 1));
        }
        if let Some((_, source)) = &mut self.group {
            *source = Source::Carried;
        }
        let start = |row: usize| match value_at(batch.column(self.bucket).as_ref(), row, self.series.ty)? {
            Value::Null => Ok(None),
            value => units_of(&value).map(Some),
        };
        self.starts = (0..batch.num_rows()).map(start).collect::<keyspan_model::Result<_>>().map_err(external)?;
        let keys: Vec<ArrayRef> = self.groups.iter().map(|place| batch.column(*place).clone()).collect();
        self.keys = self.converter.as_ref().map(|converter| converter.convert_columns(&keys)).transpose()?;
        for known in &mut self.known {
            let values = known.column.value.evaluate(&batch)?.into_array(batch.num_rows())?;
            known.values = if *values.data_type() == known.ty { values } else { cast(&values, &known.ty)? };
        }
        self.row = 0;
        self.batch = Some(batch);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.batch.as_ref().map_or(0, RecordBatch::num_rows)
    }

    /// Rows of the answer; `None` when more input is needed, or all is done.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.out.len() < BATCH_ROWS && !self.done {
            if self.row < self.rows() {
                self.step()?;
            } else if self.ended {
                if self.group.is_none() && !self.any && self.groups.is_empty() {
                    self.begin(None, Source::Null)?;
                }
                if self.group.is_none() || self.fill(self.series.finish, None)? {
                    self.done = true;
                }
            } else {
                break;
            }
        }
        if self.out.is_empty() { Ok(None) } else { self.built().map(Some) }
    }

    /// Puts out the row at the cursor, or what is missing before it.
    fn step(&mut self) -> Result<()> {
        let row = self.row;
        let key = self.keys.as_ref().map(|keys| keys.row(row).owned());
        match &self.group {
            Some((own, _)) if *own == key => {}
            Some(_) => {
                if self.fill(self.series.finish, None)? {
                    self.begin(key, Source::Row(row))?;
                } else {
                    return Ok(());
                }
            }
            None => self.begin(key, Source::Row(row))?,
        }
        let start = self.starts[row];
        // A row without a time is the group's last.
        let until = start.map_or(self.series.finish, |start| start.min(self.series.finish));
        if !self.fill(until, start.map(|start| (start, row)))? {
            return Ok(());
        }
        for known in &mut self.known {
            known.pass(row, start)?;
        }
        self.out.push((start, Source::Row(row), Source::Row(row)));
        if start == Some(self.next) {
            self.next = self.series.bucket.next(self.next).map_err(external)?;
        }
        self.row += 1;
        Ok(())
    }

    fn begin(&mut self, key: Option<OwnedRow>, source: Source) -> Result<()> {
        let first = match (source, &self.batch) {
            (Source::Row(row), Some(batch)) => Some(batch.slice(row, 1)),
            _ => None,
        };
        for known in &mut self.known {
            known.begin(first.as_ref())?;
        }
        self.group = Some((key, source));
        self.any = true;
        self.next = self.series.start;
        Ok(())
    }

    /// Fills up to a bucket; whether it got there before the batch was full. `to` is the row of the group that follows.
    fn fill(&mut self, until: i64, to: Option<(i64, usize)>) -> Result<bool> {
        let source = self.group.as_ref().map_or(Source::Null, |(_, source)| *source);
        while self.next < until {
            if self.out.len() >= BATCH_ROWS {
                return Ok(false);
            }
            for known in &mut self.known {
                known.miss(self.next, to)?;
            }
            self.out.push((Some(self.next), source, Source::Null));
            self.next = match self.series.bucket.next(self.next) {
                // After the last time there is.
                Err(error) if error.kind == ErrorKind::DatetimeOverflow => i64::MAX,
                next => next.map_err(external)?,
            };
        }
        Ok(true)
    }

    fn built(&mut self) -> Result<RecordBatch> {
        let out = std::mem::take(&mut self.out);
        let width = self.schema.fields().len() - self.known.len();
        let mut arrays = Vec::with_capacity(self.schema.fields().len());
        for place in 0..width {
            if place == self.bucket {
                arrays.push(self.buckets(&out)?);
                continue;
            }
            let ty = self.schema.field(place).data_type();
            let null = new_null_array(ty, 1);
            let column = |batch: &Option<RecordBatch>| batch.as_ref().map(|batch| batch.column(place).clone());
            let batch = column(&self.batch).unwrap_or_else(|| null.clone());
            let carried = column(&self.carried).unwrap_or_else(|| null.clone());
            let is_group = self.groups.contains(&place);
            let index = |(_, group, rest): &(Option<i64>, Source, Source)| match if is_group { group } else { rest } {
                Source::Row(row) => (0, *row),
                Source::Carried => (1, 0),
                Source::Null => (2, 0),
            };
            let indices: Vec<(usize, usize)> = out.iter().map(index).collect();
            arrays.push(interleave(&[batch.as_ref(), carried.as_ref(), null.as_ref()], &indices)?);
        }
        for known in &mut self.known {
            arrays.push(ScalarValue::iter_to_array(std::mem::take(&mut known.out))?);
        }
        Ok(RecordBatch::try_new(self.schema.clone(), arrays)?)
    }

    fn buckets(&self, out: &[(Option<i64>, Source, Source)]) -> Result<ArrayRef> {
        let ty: ColumnType = self.series.ty;
        let value = |(at, ..): &(Option<i64>, Source, Source)| match at {
            Some(at) => value_of_units(*at, ty),
            None => Ok(Value::Null),
        };
        let values = out.iter().map(value).collect::<keyspan_model::Result<Vec<_>>>().map_err(external)?;
        array_of(ty, &values).map_err(external)
    }
}

impl Known {
    /// A group begins.
    fn begin(&mut self, first: Option<&RecordBatch>) -> Result<()> {
        self.last = ScalarValue::try_from(&self.ty)?;
        (self.point, self.end) = (None, None);
        let Some(first) = first else { return Ok(()) };
        let one = |expr: &Option<Arc<dyn PhysicalExpr>>| -> Result<Option<ScalarValue>> {
            let Some(expr) = expr else { return Ok(None) };
            Ok(Some(ScalarValue::try_from_array(&expr.evaluate(first)?.into_array(1)?, 0)?))
        };
        match self.column.kind {
            FillKind::Last => {
                if let Some(before) = one(&self.column.before)? {
                    self.last = before.cast_to(&self.ty)?;
                }
            }
            FillKind::Line => {
                self.point = one(&self.column.before)?.map(|scalar| point_of(&scalar)).transpose()?.flatten();
                self.end = one(&self.column.after)?.map(|scalar| point_of(&scalar)).transpose()?.flatten();
            }
        }
        Ok(())
    }

    /// A row of the input passes.
    fn pass(&mut self, row: usize, start: Option<i64>) -> Result<()> {
        let value = ScalarValue::try_from_array(&self.values, row)?;
        match self.column.kind {
            _ if start.is_none() => self.out.push(value),
            FillKind::Last if value.is_null() && self.column.missing => self.out.push(self.last.clone()),
            FillKind::Last => {
                self.last = value.clone();
                self.out.push(value);
            }
            FillKind::Line => {
                self.point = start.zip(number(&value));
                self.out.push(value);
            }
        }
        Ok(())
    }

    /// A bucket is missing; `to` is the row that follows in the group.
    fn miss(&mut self, at: i64, to: Option<(i64, usize)>) -> Result<()> {
        if self.column.kind == FillKind::Last {
            self.out.push(self.last.clone());
            return Ok(());
        }
        let next = match to {
            Some((start, row)) => {
                let value = ScalarValue::try_from_array(&self.values, row)?;
                number(&value).map(|value| (start, value))
            }
            None => self.end,
        };
        let value = match (self.point, next) {
            (Some((t0, v0)), Some((t1, v1))) if t1 > t0 => {
                let share = (at - t0) as f64 / (t1 - t0) as f64;
                Some(v0 + (v1 - v0) * share)
            }
            _ => None,
        };
        let whole = self.ty.is_integer();
        let value = value.map(|value| if whole { value.round() } else { value });
        self.out.push(ScalarValue::Float64(value).cast_to(&self.ty)?);
        Ok(())
    }
}

fn number(value: &ScalarValue) -> Option<f64> {
    match value.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    }
}

/// The point that a record `(time, value)` is.
fn point_of(scalar: &ScalarValue) -> Result<Point> {
    let wrong = || super::invalid("interpolate() takes (time, value) records for prev and next");
    if scalar.is_null() {
        return Ok(None);
    }
    let ScalarValue::Struct(record) = scalar else { return Err(wrong()) };
    let [time, value] = record.columns() else { return Err(wrong()) };
    let ty = ColumnType::of_arrow(time.data_type()).ok_or_else(wrong)?;
    let time = value_at(time.as_ref(), 0, ty).map_err(external)?;
    let value = ScalarValue::try_from_array(value, 0)?;
    if time.is_null() {
        return Ok(None);
    }
    let time = units_of(&time).map_err(external)?;
    Ok(number(&value).map(|value| (time, value)))
}
