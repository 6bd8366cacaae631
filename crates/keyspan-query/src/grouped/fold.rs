//! What is kept of a group's values: counts, sums, extremes; of other aggregates what DataFusion keeps.
//!
//! Values of a run are folded at once: over codes by a table of what they stand for, and where these ascend the
//! extremes are those of the codes themselves. FILTER makes NULLs of the rows that it leaves out.

mod column;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, new_empty_array,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Decimal128Type, FieldRef, Float64Type, Int64Type,
};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use keyspan_model::decoded;

pub(super) use self::column::{CodeCounts, whole_array};
use self::column::{Column, float, joined, joined_whole, some_null, sum, valid_rows, whole, wide_sum};
use super::distinct::{Asked, DistinctCounts};
use super::groups::{RowGroups, Run, supports};
use crate::coded_expr::Condition;
use crate::error::external;

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Count,
    /// How many different values there are.
    CountDistinct,
    Sum,
    /// The sum of whole numbers as a numeric.
    WideSum,
    Average,
    Least,
    Greatest,
    /// A variance, or the deviation that is its root.
    Variance {
        of_sample: bool,
        root: bool,
    },
    /// Any that DataFusion's accumulators compute, whatever the order of rows.
    Accumulated,
}

/// One aggregate of the answer.
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    pub(super) function: Function,
    /// As DataFusion has it.
    pub(super) expr: Arc<AggregateFunctionExpr>,
    /// Places of its arguments among the inputs; none: every row counts.
    pub(super) arguments: Vec<usize>,
    /// Which rows count.
    pub(super) filter: Option<Condition>,
    /// Types of its arguments; without one, of the result.
    pub(super) types: Vec<DataType>,
    /// Name and type of the result.
    pub(super) field: FieldRef,
}

impl Aggregate {
    /// Whether its own function can be folded here.
    pub(super) fn is_supported(&self) -> bool {
        let float = self.is_of_floats();
        let result = self.field.data_type();
        match self.function {
            Function::Count => *result == DataType::Int64,
            Function::CountDistinct => *result == DataType::Int64 && supports(&self.types[0]),
            Function::Average | Function::Variance { .. } => float && *result == DataType::Float64,
            Function::Sum => {
                float && *result == DataType::Float64
                    || matches!(self.types[..], [DataType::Int16 | DataType::Int32]) && *result == DataType::Int64
            }
            Function::WideSum => {
                matches!(self.types[..], [DataType::Int16 | DataType::Int32 | DataType::Int64])
                    && matches!(result, DataType::Decimal128(_, 0))
            }
            Function::Least | Function::Greatest => (float || is_whole(&self.types[0])) && self.types[0] == *result,
            Function::Accumulated => true,
        }
    }

    fn is_of_floats(&self) -> bool {
        self.types == [DataType::Float64]
    }

    fn state(&self) -> Result<State> {
        Ok(match (self.function, self.is_of_floats()) {
            (Function::Count, _) => State::Count(Vec::new()),
            (Function::CountDistinct, _) => State::Distinct(DistinctCounts::new(&self.types[0])),
            (Function::Variance { of_sample, root }, _) => {
                State::Variances(Variances { of_sample, root, ..Variances::default() })
            }
            (Function::Accumulated, _) => State::Accumulated(Accumulated {
                accumulator: accumulator(&self.expr)?,
                types: self.types.clone(),
                groups: 0,
            }),
            (Function::WideSum, _) => State::Wide(Folded::default()),
            (_, true) => State::Floats(Folded::default()),
            (_, false) => State::Wholes(Folded::default()),
        })
    }

    /// Types of the columns that keep what there is of a group: [`Fold::take_states`].
    pub(super) fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(match (self.function, self.is_of_floats()) {
            (Function::Count, _) => vec![DataType::Int64],
            (Function::CountDistinct, _) => vec![DistinctCounts::state_type(&self.types[0])],
            (Function::Variance { .. }, _) => vec![DataType::Int64, DataType::Float64, DataType::Float64],
            (Function::Accumulated, _) => {
                self.expr.state_fields()?.iter().map(|field| field.data_type().clone()).collect()
            }
            (Function::WideSum, _) => vec![Decimal128Type::DATA_TYPE, DataType::Int64],
            (_, true) => vec![DataType::Float64, DataType::Int64],
            (_, false) => vec![DataType::Int64, DataType::Int64],
        })
    }
}

fn accumulator(expr: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if expr.groups_accumulator_supported() {
        return expr.create_groups_accumulator();
    }
    let expr = expr.clone();
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
}

fn is_whole(ty: &DataType) -> bool {
    let number = matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    number || matches!(ty, DataType::Date32 | DataType::Timestamp(..))
}

/// The values of one aggregate's arguments in a batch.
pub(super) enum Argument {
    Rows,
    Valid(Option<NullBuffer>),
    Floats(Column<Float64Type>),
    Wholes(Column<Int64Type>),
    Distinct(Asked),
    /// Which rows count, if not all; and how many there are.
    Arrays {
        arrays: Vec<ArrayRef>,
        among: Option<BooleanBuffer>,
        rows: usize,
    },
}

/// Counts the rows of a batch that are not null.
fn count(counts: &mut [i64], rows: &RowGroups, nulls: Option<&NullBuffer>) {
    match (rows, nulls) {
        (RowGroups::Runs(runs), _) => runs.iter().for_each(|run| counts[run.group] += valid_rows(nulls, &run.rows)),
        (RowGroups::Ascending(runs), _) => runs.iter().for_each(|Run { group, rows }| {
            let counts = counts[*group..].iter_mut().zip(rows.clone());
            counts.for_each(|(count, row)| *count += i64::from(nulls.is_none_or(|nulls| nulls.is_valid(row))));
        }),
        (RowGroups::Rows(groups), None) => groups.iter().for_each(|group| counts[*group] += 1),
        (RowGroups::Rows(groups), Some(nulls)) => {
            groups.iter().zip(nulls).for_each(|(group, valid)| counts[*group] += i64::from(valid));
        }
    }
}

impl Argument {
    /// Of a batch's columns and inputs.
    pub(super) fn new(
        aggregate: &Aggregate,
        columns: &[ArrayRef],
        inputs: &[ArrayRef],
        rows: usize,
        counts: &mut CodeCounts,
    ) -> Result<Argument> {
        let among = aggregate.filter.as_ref().map(|filter| filter.mask(columns, rows)).transpose()?;
        let among = among.map(|among| among.values().clone());
        if aggregate.function == Function::Accumulated {
            let arrays = aggregate.arguments.iter().map(|place| decoded(&inputs[*place]).map_err(external));
            return Ok(Argument::Arrays { arrays: arrays.collect::<Result<_>>()?, among, rows });
        }
        if let (Function::CountDistinct, Some(place)) = (aggregate.function, aggregate.arguments.first()) {
            return Asked::new(&inputs[*place], among).map(Argument::Distinct);
        }
        let among = some_null(among.map(NullBuffer::new));
        let Some(place) = aggregate.arguments.first() else {
            return Ok(if among.is_some() { Argument::Valid(among) } else { Argument::Rows });
        };
        let array = &inputs[*place];
        Ok(match (aggregate.function, aggregate.is_of_floats()) {
            (Function::Count, _) => {
                Argument::Valid(some_null(NullBuffer::union(array.logical_nulls().as_ref(), among.as_ref())))
            }
            (_, true) => Argument::Floats(Column::new(array, among.as_ref(), counts)?),
            _ => Argument::Wholes(Column::new(array, among.as_ref(), counts)?),
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

impl<N: ArrowNativeType> Folded<N> {
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

    /// Adds the rows of a batch, `of` being what one value is: a run at a time where they stand in runs.
    fn fold<T: ArrowPrimitiveType>(
        &mut self,
        column: &Column<T>,
        rows: &RowGroups,
        of: impl Fn(T::Native) -> N,
        of_run: impl Fn(Range<usize>) -> N,
        join: impl Fn(N, N) -> Result<N>,
    ) -> Result<()> {
        match rows {
            RowGroups::Runs(runs) => runs
                .iter()
                .try_for_each(|Run { group, rows }| self.add(*group, of_run(rows.clone()), column.count(rows), &join)),
            RowGroups::Ascending(runs) => runs.iter().try_for_each(|run| self.add_each(column, run, &of, &join)),
            RowGroups::Rows(groups) => match (&column.codes, &column.nulls) {
                (None, None) => {
                    let mut each = groups.iter().zip(&column.values);
                    each.try_for_each(|(group, value)| self.add(*group, of(*value), 1, &join))
                }
                (Some((codes, table)), None) => {
                    let mut each = groups.iter().zip(codes);
                    each.try_for_each(|(group, code)| self.add(*group, of(table[usize::from(*code)]), 1, &join))
                }
                _ => groups.iter().enumerate().try_for_each(|(row, group)| match column.value(row) {
                    Some(value) => self.add(*group, of(value), 1, &join),
                    None => Ok(()),
                }),
            },
        }
    }

    /// Adds each row of a run to a group of its own: the first to the run's, the second to the one after that, and so on.
    fn add_each<T: ArrowPrimitiveType>(
        &mut self,
        column: &Column<T>,
        Run { group, rows }: &Run,
        of: impl Fn(T::Native) -> N,
        join: impl Fn(N, N) -> Result<N>,
    ) -> Result<()> {
        let mut groups = self.values[*group..].iter_mut().zip(&mut self.counts[*group..]);
        let add = |(own, count): (&mut N, &mut i64), value: T::Native| {
            let value = of(value);
            *own = if *count == 0 { value } else { join(*own, value)? };
            *count += 1;
            Ok(())
        };
        match (&column.codes, &column.nulls) {
            (None, None) => groups.zip(&column.values[rows.clone()]).try_for_each(|(own, value)| add(own, *value)),
            (Some((codes, table)), None) => {
                groups.zip(&codes[rows.clone()]).try_for_each(|(own, code)| add(own, table[usize::from(*code)]))
            }
            _ => rows.clone().try_for_each(|row| match (groups.next(), column.value(row)) {
                (Some(own), Some(value)) => add(own, value),
                _ => Ok(()),
            }),
        }
    }

    /// Joins what others have folded, values and their counts, to the groups of these numbers.
    fn join<T: ArrowPrimitiveType<Native = N>>(
        &mut self,
        states: &[ArrayRef],
        numbers: &[usize],
        join: impl Fn(N, N) -> Result<N>,
    ) -> Result<()> {
        let values: &[N] = states[0].as_primitive::<T>().values();
        let counts = states[1].as_primitive::<Int64Type>().values();
        let mut theirs = values.iter().zip(counts).zip(numbers);
        theirs.try_for_each(|((value, count), group)| self.add(*group, *value, *count, &join))
    }

    fn take<T: ArrowPrimitiveType<Native = N>>(&mut self) -> Vec<ArrayRef> {
        let Folded { values, counts } = std::mem::take(self);
        vec![array_of::<T>(values), array_of::<Int64Type>(counts)]
    }
}

fn array_of<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

/// How many values there are, their mean and the sum of the squares of their distances to it, for each group.
#[derive(Debug, Default)]
struct Variances {
    of_sample: bool,
    root: bool,
    counts: Vec<i64>,
    means: Vec<f64>,
    squares: Vec<f64>,
}

impl Variances {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.means.resize(groups, 0.0);
        self.squares.resize(groups, 0.0);
    }

    /// Joins so many values of this mean and these squares to a group's: Chan, Golub and LeVeque, Updating Formulae and a
    /// Pairwise Algorithm for Computing Sample Variances (1979).
    fn add(&mut self, group: usize, (count, mean, squares): (i64, f64, f64)) {
        if count == 0 {
            return;
        }
        let own = self.counts[group];
        self.counts[group] = own + count;
        if own == 0 {
            (self.means[group], self.squares[group]) = (mean, squares);
            return;
        }
        let (all, distance) = ((own + count) as f64, mean - self.means[group]);
        self.means[group] += distance * (count as f64 / all);
        self.squares[group] += squares + distance * distance * (own as f64 * (count as f64 / all));
    }

    /// Joins one value: infinity and NaN have no distance to themselves.
    fn add_one(&mut self, group: usize, value: f64) {
        self.add(group, (1, value, if value.is_finite() { 0.0 } else { f64::NAN }));
    }

    /// Adds the rows of a batch: of a run first the mean, then the distances to it.
    fn fold(&mut self, column: &Column<Float64Type>, rows: &RowGroups) {
        match rows {
            RowGroups::Runs(runs) => runs.iter().for_each(|Run { group, rows }| {
                let count = column.count(rows);
                let mean = sum(column, rows.clone(), |value| value) / count as f64;
                let squares = sum(column, rows.clone(), |value| (value - mean) * (value - mean));
                self.add(*group, (count, mean, squares));
            }),
            RowGroups::Ascending(runs) => runs.iter().for_each(|Run { group, rows }| {
                column.each_row(rows.clone(), |row, value| self.add_one(group + row - rows.start, value));
            }),
            RowGroups::Rows(groups) => column.each_row(0..groups.len(), |row, value| self.add_one(groups[row], value)),
        }
    }

    fn join(&mut self, states: &[ArrayRef], numbers: &[usize]) {
        let counts = states[0].as_primitive::<Int64Type>().values();
        let (means, squares) = (states[1].as_primitive::<Float64Type>(), states[2].as_primitive::<Float64Type>());
        for (row, (count, group)) in counts.iter().zip(numbers).enumerate() {
            self.add(*group, (*count, means.value(row), squares.value(row)));
        }
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let counts = array_of::<Int64Type>(std::mem::take(&mut self.counts));
        let numbers = [&mut self.means, &mut self.squares];
        let numbers = numbers.map(|numbers| array_of::<Float64Type>(std::mem::take(numbers)));
        std::iter::once(counts).chain(numbers).collect()
    }

    /// Null where there are too few values.
    fn finish(&mut self) -> ArrayRef {
        let Variances { of_sample, root, counts, squares, .. } = std::mem::take(self);
        let value = |(count, squares): (i64, f64)| {
            let count = count - i64::from(of_sample);
            let variance = (count > 0).then(|| squares / count as f64)?;
            Some(if root { variance.sqrt() } else { variance })
        };
        Arc::new(counts.into_iter().zip(squares).map(value).collect::<Float64Array>())
    }
}

enum State {
    Count(Vec<i64>),
    Variances(Variances),
    Floats(Folded<f64>),
    Wholes(Folded<i64>),
    Wide(Folded<i128>),
    Distinct(DistinctCounts),
    Accumulated(Accumulated),
}

/// What DataFusion keeps.
struct Accumulated {
    accumulator: Box<dyn GroupsAccumulator>,
    /// Types of the arguments.
    types: Vec<DataType>,
    /// Groups that it has seen.
    groups: usize,
}

impl Accumulated {
    /// Makes room for groups of no rows. A row is given to it that does not count: of an empty batch it would take all
    /// groups for seen.
    fn resize(&mut self, groups: usize) -> Result<()> {
        if groups > self.groups {
            let arguments: Vec<ArrayRef> = self.types.iter().map(|ty| new_null_array(ty, 1)).collect();
            let none = BooleanArray::from(vec![false]);
            self.accumulator.update_batch(&arguments, &[groups - 1], Some(&none), groups)?;
            self.groups = groups;
        }
        Ok(())
    }

    fn take_states(&mut self, groups: usize) -> Result<Vec<ArrayRef>> {
        self.resize(groups)?;
        self.groups = 0;
        self.accumulator.state(EmitTo::All)
    }

    fn finish(&mut self, groups: usize) -> Result<ArrayRef> {
        self.resize(groups)?;
        self.accumulator.evaluate(EmitTo::All)
    }
}

/// What is kept of all groups for one aggregate.
pub(super) struct Fold {
    function: Function,
    state: State,
    field: FieldRef,
}

impl Fold {
    pub(super) fn new(aggregate: &Aggregate) -> Result<Fold> {
        Ok(Fold { function: aggregate.function, state: aggregate.state()?, field: aggregate.field.clone() })
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        match &self.state {
            State::Count(counts) => counts.len() * size_of::<i64>(),
            State::Floats(Folded { counts, .. }) | State::Wholes(Folded { counts, .. }) => {
                counts.len() * 2 * size_of::<i64>()
            }
            State::Variances(variances) => variances.counts.len() * 3 * size_of::<i64>(),
            State::Wide(folded) => folded.counts.len() * 3 * size_of::<i64>(),
            State::Distinct(distinct) => distinct.bytes(),
            State::Accumulated(own) => own.accumulator.size(),
        }
    }

    /// Makes room for so many groups.
    fn resize(&mut self, groups: usize) {
        match &mut self.state {
            State::Count(counts) => counts.resize(groups, 0),
            State::Variances(variances) => variances.resize(groups),
            State::Floats(folded) => folded.resize(groups),
            State::Wholes(folded) => folded.resize(groups),
            State::Wide(folded) => folded.resize(groups),
            State::Distinct(distinct) => distinct.resize(groups),
            // It does so itself.
            State::Accumulated(_) => {}
        }
    }

    /// Folds the rows of a batch into their groups, of which there are so many.
    pub(super) fn add(&mut self, argument: &Argument, rows: &RowGroups, groups: usize) -> Result<()> {
        self.resize(groups);
        let function = self.function;
        match (&mut self.state, argument) {
            (State::Count(counts), Argument::Valid(nulls)) => count(counts, rows, nulls.as_ref()),
            (State::Count(counts), _) => count(counts, rows, None),
            (State::Variances(variances), Argument::Floats(column)) => variances.fold(column, rows),
            (State::Floats(folded), Argument::Floats(column)) => {
                let (same, of_run) = (|value| value, |rows| float(function, column, rows));
                // One loop for each function: it does not ask at each row which it is.
                match function {
                    Function::Least => {
                        folded.fold(column, rows, same, of_run, |a, b| Ok(joined(Function::Least, a, b)))?
                    }
                    Function::Greatest => {
                        folded.fold(column, rows, same, of_run, |a, b| Ok(joined(Function::Greatest, a, b)))?;
                    }
                    _ => folded.fold(column, rows, same, of_run, |a, b| Ok(a + b))?,
                }
            }
            (State::Wholes(folded), Argument::Wholes(column)) => {
                let of_run = |rows| whole(function, column, rows);
                folded.fold(column, rows, |value| value, of_run, |a, b| joined_whole(function, a, b))?;
            }
            (State::Wide(folded), Argument::Wholes(column)) => {
                folded.fold(column, rows, i128::from, |rows| wide_sum(column, rows), |a, b| Ok(a + b))?;
            }
            (State::Distinct(distinct), Argument::Distinct(asked)) => distinct.add(asked, rows)?,
            (State::Accumulated(own), Argument::Arrays { arrays, among, rows: all }) => {
                let (each, within) = rows.of_each(*all);
                let among = match (within, among) {
                    (Some(within), Some(among)) => Some(&within & among),
                    (within, among) => within.or_else(|| among.clone()),
                };
                let among = among.map(|among| BooleanArray::new(among, None));
                own.groups = groups;
                own.accumulator.update_batch(arrays, &each, among.as_ref(), groups)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What is kept of all groups, as columns of [`Aggregate::state_types`]; afterwards nothing is kept.
    pub(super) fn take_states(&mut self, groups: usize) -> Result<Vec<ArrayRef>> {
        self.resize(groups);
        Ok(match &mut self.state {
            State::Count(counts) => vec![array_of::<Int64Type>(std::mem::take(counts))],
            State::Variances(variances) => variances.take(),
            State::Floats(folded) => folded.take::<Float64Type>(),
            State::Wholes(folded) => folded.take::<Int64Type>(),
            State::Wide(folded) => folded.take::<Decimal128Type>(),
            State::Distinct(distinct) => vec![distinct.take_states(groups)],
            State::Accumulated(own) => own.take_states(groups)?,
        })
    }

    /// Takes over what such columns keep. `numbers` gives for each of their rows the group here, of which there are so many.
    pub(super) fn join(&mut self, states: &[ArrayRef], numbers: &[usize], groups: usize) -> Result<()> {
        self.resize(groups);
        let function = self.function;
        match &mut self.state {
            State::Count(own) => {
                let counts = states[0].as_primitive::<Int64Type>().values();
                counts.iter().zip(numbers).for_each(|(count, group)| own[*group] += count);
            }
            State::Variances(own) => own.join(states, numbers),
            State::Floats(own) => own.join::<Float64Type>(states, numbers, |a, b| Ok(joined(function, a, b)))?,
            State::Wholes(own) => own.join::<Int64Type>(states, numbers, |a, b| joined_whole(function, a, b))?,
            State::Wide(own) => own.join::<Decimal128Type>(states, numbers, |a, b| Ok(a + b))?,
            State::Distinct(own) => own.join(&states[0], numbers),
            State::Accumulated(_) if numbers.is_empty() => {}
            State::Accumulated(own) => {
                own.groups = groups;
                own.accumulator.merge_batch(states, numbers, groups)?;
            }
        }
        Ok(())
    }

    /// The results of all groups; afterwards nothing is kept.
    pub(super) fn finish(&mut self, groups: usize) -> Result<ArrayRef> {
        self.resize(groups);
        let function = self.function;
        Ok(match &mut self.state {
            State::Count(counts) => array_of::<Int64Type>(std::mem::take(counts)),
            State::Variances(variances) => variances.finish(),
            State::Floats(folded) => {
                let Folded { values, counts } = std::mem::take(folded);
                let value = |(value, count): (f64, i64)| match (count, function) {
                    (0, _) => None,
                    (count, Function::Average) => Some(value / count as f64),
                    _ => Some(value),
                };
                Arc::new(values.into_iter().zip(counts).map(value).collect::<Float64Array>())
            }
            State::Wholes(folded) => {
                let Folded { values, counts } = std::mem::take(folded);
                let numbers = values.into_iter().zip(counts).map(|(value, count)| (count > 0).then_some(value));
                let numbers = numbers.collect::<Int64Array>();
                match self.field.data_type() {
                    DataType::Date32 => cast(&cast(&numbers, &DataType::Int32)?, &DataType::Date32)?,
                    ty => cast(&numbers, ty)?,
                }
            }
            // 38 digits are enough for as many numbers of 64 bits as can be counted.
            State::Wide(folded) => {
                let Folded { values, counts } = std::mem::take(folded);
                let sums = values.into_iter().zip(counts).map(|(sum, count)| (count > 0).then_some(sum));
                Arc::new(sums.collect::<Decimal128Array>().with_data_type(self.field.data_type().clone()))
            }
            State::Distinct(distinct) => array_of::<Int64Type>(distinct.finish()),
            State::Accumulated(_) if groups == 0 => new_empty_array(self.field.data_type()),
            State::Accumulated(own) => own.finish(groups)?,
        })
    }
}
