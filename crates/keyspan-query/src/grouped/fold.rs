//! What is kept of a group's values: counts, sums, extremes.
//!
//! Values of a run are folded at once: over codes by a table of what they stand for, and where these ascend the
//! extremes are those of the codes themselves.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float64Type, Int64Type, UInt8Type};
use datafusion::error::Result;
use keyspan_model::{Error, ErrorKind};

use crate::error::external;

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
}

/// One aggregate of the answer.
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    pub(super) function: Function,
    /// Place of its argument in a batch; `None`: every row counts.
    pub(super) place: Option<usize>,
    /// Type of the argument.
    pub(super) ty: DataType,
    /// Name and type of the result.
    pub(super) field: FieldRef,
}

impl Aggregate {
    /// Whether it can be folded here.
    pub(super) fn is_supported(&self) -> bool {
        let float = matches!(self.ty, DataType::Float64);
        let result = self.field.data_type();
        match self.function {
            Function::Count => *result == DataType::Int64,
            Function::Average => float && *result == DataType::Float64,
            Function::Sum => {
                float && *result == DataType::Float64
                    || matches!(self.ty, DataType::Int16 | DataType::Int32) && *result == DataType::Int64
            }
            Function::Least | Function::Greatest => (float || is_whole(&self.ty)) && self.ty == *result,
        }
    }

    fn state(&self) -> State {
        match (self.function, self.ty == DataType::Float64) {
            (Function::Count, _) => State::Count(Vec::new()),
            (Function::Sum | Function::Average, true) => State::Floats(Folded::default()),
            (Function::Sum, _) => State::Wholes(Folded::default()),
            (_, true) => State::Floats(Folded::default()),
            (_, false) => State::Wholes(Folded::default()),
        }
    }
}

fn is_whole(ty: &DataType) -> bool {
    let number = matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    number || matches!(ty, DataType::Date32 | DataType::Timestamp(..))
}

/// The values of one aggregate's argument in a batch.
pub(super) enum Argument {
    Rows,
    Valid(Option<NullBuffer>),
    Floats(Column<Float64Type>),
    Wholes(Column<Int64Type>),
}

/// What each code stands for: as long as there are codes, so that looking one up needs no check.
type Table<T> = Box<[<T as ArrowPrimitiveType>::Native; 256]>;

/// A column as codes into a table, or as it is.
pub(super) struct Column<T: ArrowPrimitiveType> {
    codes: Option<(ScalarBuffer<u8>, Table<T>)>,
    /// Whether the table ascends, so that the greatest code is that of the greatest value.
    ascending: bool,
    values: ScalarBuffer<T::Native>,
    nulls: Option<NullBuffer>,
}

impl<T: ArrowPrimitiveType> Column<T> {
    fn new(array: &ArrayRef) -> Result<Column<T>> {
        if let Some(codes) = array.as_dictionary_opt::<UInt8Type>() {
            let values = whole_array::<T>(codes.values())?;
            let mut table = Box::new([T::Native::default(); 256]);
            let known = values.len().min(256);
            table[..known].copy_from_slice(&values.values()[..known]);
            let ordered = |pair: &[T::Native]| matches!(pair[0].partial_cmp(&pair[1]), Some(o) if o.is_le());
            let single = known == 1 && table[0].partial_cmp(&table[0]).is_some();
            return Ok(Column {
                ascending: single || known > 1 && table[..known].windows(2).all(ordered),
                codes: Some((codes.keys().values().clone(), table)),
                values: ScalarBuffer::from(Vec::new()),
                nulls: codes.keys().nulls().filter(|nulls| nulls.null_count() > 0).cloned(),
            });
        }
        let array = whole_array::<T>(array)?;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Ok(Column { codes: None, ascending: false, values: array.values().clone(), nulls })
    }

    /// Calls with each value of the rows that is not null.
    fn each(&self, rows: Range<usize>, mut call: impl FnMut(T::Native)) {
        let valid = |row: &usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        match &self.codes {
            Some((codes, table)) if self.nulls.is_none() => {
                codes[rows].iter().for_each(|code| call(table[usize::from(*code)]));
            }
            Some((codes, table)) => rows.filter(valid).for_each(|row| call(table[usize::from(codes[row])])),
            None if self.nulls.is_none() => self.values[rows].iter().for_each(|value| call(*value)),
            None => rows.filter(valid).for_each(|row| call(self.values[row])),
        }
    }

    fn count(&self, rows: &Range<usize>) -> i64 {
        valid_rows(self.nulls.as_ref(), rows)
    }

    /// The least or greatest of the rows by their codes, where codes tell.
    fn extreme_by_code(&self, rows: &Range<usize>, greatest: bool) -> Option<T::Native> {
        let (codes, table) = self.codes.as_ref().filter(|_| self.ascending && self.nulls.is_none())?;
        let codes = &codes[rows.clone()];
        let code =
            if greatest { codes.iter().fold(0, |a, b| a.max(*b)) } else { codes.iter().fold(255, |a, b| a.min(*b)) };
        Some(table[usize::from(code)])
    }
}

fn whole_array<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<PrimitiveArray<T>> {
    let cast = match (array.data_type(), &T::DATA_TYPE) {
        // Dates are no whole numbers of 64 bits to Arrow.
        (DataType::Date32, to) => cast(&cast(array, &DataType::Int32)?, to)?,
        (from, to) if from == to => Arc::clone(array),
        (_, to) => cast(array, to)?,
    };
    Ok(cast.as_primitive::<T>().clone())
}

fn valid_rows(nulls: Option<&NullBuffer>, rows: &Range<usize>) -> i64 {
    let null = nulls.map_or(0, |nulls| nulls.slice(rows.start, rows.len()).null_count());
    (rows.len() - null) as i64
}

impl Argument {
    pub(super) fn new(aggregate: &Aggregate, columns: &[ArrayRef]) -> Result<Argument> {
        let Some(place) = aggregate.place else { return Ok(Argument::Rows) };
        let array = &columns[place];
        Ok(match (aggregate.function, &aggregate.ty) {
            (Function::Count, _) => Argument::Valid(array.logical_nulls().filter(|nulls| nulls.null_count() > 0)),
            (_, DataType::Float64) => Argument::Floats(Column::new(array)?),
            _ => Argument::Wholes(Column::new(array)?),
        })
    }
}

/// One number and how many values it was made of, for each group.
#[derive(Debug)]
struct Folded<N> {
    values: Vec<N>,
    counts: Vec<i64>,
}

impl<N> Default for Folded<N> {
    fn default() -> Self {
        Folded { values: Vec::new(), counts: Vec::new() }
    }
}

impl<N: Copy + Default> Folded<N> {
    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, N::default());
        self.counts.resize(groups, 0);
    }

    /// Joins `count` values that make `value` to a group's.
    fn add(&mut self, group: usize, value: N, count: i64, join: impl FnOnce(N, N) -> Result<N>) -> Result<()> {
        if count > 0 {
            let own = self.values[group];
            self.values[group] = if self.counts[group] == 0 { value } else { join(own, value)? };
            self.counts[group] += count;
        }
        Ok(())
    }

    /// Joins what others have folded to the groups of these numbers.
    fn join(
        &mut self,
        values: &[N],
        counts: &[i64],
        numbers: &[usize],
        join: impl Fn(N, N) -> Result<N>,
    ) -> Result<()> {
        let mut theirs = values.iter().zip(counts).zip(numbers);
        theirs.try_for_each(|((value, count), group)| self.add(*group, *value, *count, &join))
    }
}

fn add_counts(own: &mut [i64], counts: &[i64], numbers: &[usize]) {
    counts.iter().zip(numbers).for_each(|(count, group)| own[*group] += count);
}

#[derive(Debug)]
enum State {
    Count(Vec<i64>),
    Floats(Folded<f64>),
    Wholes(Folded<i64>),
}

/// What is kept of all groups for one aggregate.
#[derive(Debug)]
pub(super) struct Fold {
    function: Function,
    state: State,
    field: FieldRef,
}

impl Fold {
    pub(super) fn new(aggregate: &Aggregate) -> Fold {
        Fold { function: aggregate.function, state: aggregate.state(), field: aggregate.field.clone() }
    }

    /// Bytes for each group.
    pub(super) const BYTES: usize = 16;

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        match &mut self.state {
            State::Count(counts) => *counts = Vec::new(),
            State::Floats(folded) => *folded = Folded::default(),
            State::Wholes(folded) => *folded = Folded::default(),
        }
    }

    /// Makes room for so many groups.
    pub(super) fn resize(&mut self, groups: usize) {
        match &mut self.state {
            State::Count(counts) => counts.resize(groups, 0),
            State::Floats(folded) => folded.resize(groups),
            State::Wholes(folded) => folded.resize(groups),
        }
    }

    /// Makes room for a group; groups are numbered in the order in which they are found.
    pub(super) fn resize_for(&mut self, group: usize) {
        let known = match &self.state {
            State::Count(counts) => counts.len(),
            State::Floats(folded) => folded.counts.len(),
            State::Wholes(folded) => folded.counts.len(),
        };
        if group >= known {
            self.resize(group + 1);
        }
    }

    /// Folds the rows of a run into a group.
    pub(super) fn add(&mut self, group: usize, argument: &Argument, rows: Range<usize>) -> Result<()> {
        let function = self.function;
        match (&mut self.state, argument) {
            (State::Count(counts), Argument::Valid(nulls)) => counts[group] += valid_rows(nulls.as_ref(), &rows),
            (State::Count(counts), _) => counts[group] += rows.len() as i64,
            (State::Floats(folded), Argument::Floats(column)) => {
                let count = column.count(&rows);
                folded.add(group, float(function, column, rows), count, |a, b| Ok(joined(function, a, b)))?;
            }
            (State::Wholes(folded), Argument::Wholes(column)) => {
                let count = column.count(&rows);
                folded.add(group, whole(function, column, rows), count, |a, b| joined_whole(function, a, b))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes over what another kept; `numbers` gives for each of its groups the number here.
    pub(super) fn join(&mut self, other: &Fold, numbers: &[usize]) -> Result<()> {
        let function = self.function;
        match (&mut self.state, &other.state) {
            (State::Count(own), State::Count(theirs)) => add_counts(own, theirs, numbers),
            (State::Floats(own), State::Floats(theirs)) => {
                own.join(&theirs.values, &theirs.counts, numbers, |a, b| Ok(joined(function, a, b)))?;
            }
            (State::Wholes(own), State::Wholes(theirs)) => {
                own.join(&theirs.values, &theirs.counts, numbers, |a, b| joined_whole(function, a, b))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Types of the columns that keep what there is of a group: [`Fold::states`].
    pub(super) fn state_types(&self) -> &'static [DataType] {
        match &self.state {
            State::Count(_) => &[DataType::Int64],
            State::Floats(_) => &[DataType::Float64, DataType::Int64],
            State::Wholes(_) => &[DataType::Int64, DataType::Int64],
        }
    }

    /// What is kept of these groups, as columns.
    pub(super) fn states(&self, groups: &[usize]) -> Vec<ArrayRef> {
        fn of<T: ArrowPrimitiveType>(kept: &[T::Native], groups: &[usize]) -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::from_iter_values(groups.iter().map(|group| kept[*group])))
        }
        match &self.state {
            State::Count(counts) => vec![of::<Int64Type>(counts, groups)],
            State::Floats(own) => {
                vec![of::<Float64Type>(&own.values, groups), of::<Int64Type>(&own.counts, groups)]
            }
            State::Wholes(own) => vec![of::<Int64Type>(&own.values, groups), of::<Int64Type>(&own.counts, groups)],
        }
    }

    /// Takes over what such columns keep; `numbers` gives for each of their rows the number of the group here.
    pub(super) fn join_states(&mut self, columns: &[ArrayRef], numbers: &[usize]) -> Result<()> {
        let function = self.function;
        let wholes = |at: usize| columns[at].as_primitive::<Int64Type>().values();
        match &mut self.state {
            State::Count(own) => add_counts(own, wholes(0), numbers),
            State::Floats(own) => {
                let values = columns[0].as_primitive::<Float64Type>().values();
                own.join(values, wholes(1), numbers, |a, b| Ok(joined(function, a, b)))?;
            }
            State::Wholes(own) => own.join(wholes(0), wholes(1), numbers, |a, b| joined_whole(function, a, b))?,
        }
        Ok(())
    }

    /// The results of these groups.
    pub(super) fn column(&self, groups: &[usize]) -> Result<ArrayRef> {
        Ok(match &self.state {
            State::Count(counts) => Arc::new(Int64Array::from_iter_values(groups.iter().map(|group| counts[*group]))),
            State::Floats(folded) => {
                let value = |group: &usize| match (folded.counts[*group], self.function) {
                    (0, _) => None,
                    (count, Function::Average) => Some(folded.values[*group] / count as f64),
                    _ => Some(folded.values[*group]),
                };
                Arc::new(groups.iter().map(value).collect::<Float64Array>())
            }
            State::Wholes(folded) => {
                let value = |group: &usize| (folded.counts[*group] > 0).then(|| folded.values[*group]);
                let numbers = groups.iter().map(value).collect::<Int64Array>();
                match self.field.data_type() {
                    DataType::Date32 => cast(&cast(&numbers, &DataType::Int32)?, &DataType::Date32)?,
                    ty => cast(&numbers, ty)?,
                }
            }
        })
    }
}

fn float(function: Function, column: &Column<Float64Type>, rows: Range<usize>) -> f64 {
    match function {
        Function::Least | Function::Greatest => {
            let greatest = function == Function::Greatest;
            if let Some(found) = column.extreme_by_code(&rows, greatest) {
                return found;
            }
            let mut found: Option<f64> = None;
            column.each(rows, |value| found = Some(found.map_or(value, |own| joined(function, own, value))));
            found.unwrap_or_default()
        }
        _ => sum(column, rows),
    }
}

/// Four sums side by side: one addition need not wait for the one before.
fn sum(column: &Column<Float64Type>, rows: Range<usize>) -> f64 {
    match (&column.codes, &column.nulls) {
        (Some((codes, table)), None) => four_sums(&codes[rows], |code| table[usize::from(*code)]),
        (None, None) => four_sums(&column.values[rows], |value| *value),
        _ => {
            let mut total = 0.0;
            column.each(rows, |value| total += value);
            total
        }
    }
}

fn four_sums<V>(values: &[V], number: impl Fn(&V) -> f64) -> f64 {
    let mut sums = [0.0; 4];
    let fours = values.chunks_exact(4);
    let rest: f64 = fours.remainder().iter().map(&number).sum();
    for four in fours {
        sums.iter_mut().zip(four).for_each(|(sum, value)| *sum += number(value));
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

fn whole(function: Function, column: &Column<Int64Type>, rows: Range<usize>) -> i64 {
    match function {
        Function::Least | Function::Greatest => {
            let greatest = function == Function::Greatest;
            if let Some(found) = column.extreme_by_code(&rows, greatest) {
                return found;
            }
            let (mut least, mut most) = (i64::MAX, i64::MIN);
            column.each(rows, |value| (least, most) = (least.min(value), most.max(value)));
            if greatest { most } else { least }
        }
        // Of numbers of at most 32 bits a batch has too few to overflow.
        _ => {
            let mut total = 0i64;
            column.each(rows, |value| total += value);
            total
        }
    }
}

/// NaN is the greatest number, as in Postgres.
fn joined(function: Function, a: f64, b: f64) -> f64 {
    match function {
        Function::Least if b < a || a.is_nan() => b,
        Function::Greatest if b > a || b.is_nan() => b,
        Function::Least | Function::Greatest => a,
        _ => a + b,
    }
}

fn joined_whole(function: Function, a: i64, b: i64) -> Result<i64> {
    match function {
        Function::Least => Ok(a.min(b)),
        Function::Greatest => Ok(a.max(b)),
        _ => a.checked_add(b).ok_or_else(|| external(Error::new(ErrorKind::NumericOverflow, "bigint out of range"))),
    }
}
