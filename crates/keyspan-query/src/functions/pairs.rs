//! `corr`, `covar_pop`, `regr_slope` and their kin: statistics of pairs of numbers.
//!
//! Sums of squares of large numbers that are close together (times, counters) lose the digits that tell them apart. So each
//! group has an origin near its values, at first the first pair, and sums of distances to it. Whenever a group has twice as
//! many pairs its origin moves to their means: a first pair far from all others is not in the way for long.
//!
//! ```text
//! Sxx = Σ(x − ox)² − (Σ(x − ox))² / n      corr = Sxy / √(Sxx · Syy)      regr_slope = Sxy / Sxx
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use keyspan_model::{Error, ErrorKind};

use crate::error::external;

/// What is told of the pairs of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Statistic {
    Correlation,
    Covariance { of_sample: bool },
    Count,
    MeanX,
    MeanY,
    SquaresX,
    SquaresY,
    Products,
    Slope,
    Intercept,
    Determination,
}

const STATISTICS: [(&str, Statistic); 12] = [
    ("corr", Statistic::Correlation),
    ("covar_pop", Statistic::Covariance { of_sample: false }),
    ("covar_samp", Statistic::Covariance { of_sample: true }),
    ("regr_count", Statistic::Count),
    ("regr_avgx", Statistic::MeanX),
    ("regr_avgy", Statistic::MeanY),
    ("regr_sxx", Statistic::SquaresX),
    ("regr_syy", Statistic::SquaresY),
    ("regr_sxy", Statistic::Products),
    ("regr_slope", Statistic::Slope),
    ("regr_intercept", Statistic::Intercept),
    ("regr_r2", Statistic::Determination),
];

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    STATISTICS.into_iter().map(|(name, statistic)| {
        let signature = Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable);
        let aliases = if name == "covar_samp" { vec!["covar".to_owned()] } else { Vec::new() };
        Arc::new(AggregateUDF::from(OfPairs { name, aliases, statistic, signature }))
    })
}

/// Whether a function of this name is one of these.
pub fn is_of_pairs(name: &str) -> bool {
    STATISTICS.iter().any(|(own, _)| *own == name)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPairs {
    name: &'static str,
    aliases: Vec<String>,
    statistic: Statistic,
    signature: Signature,
}

impl AggregateUDFImpl for OfPairs {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.statistic.result())
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        match self.statistic {
            Statistic::Count => Ok(ScalarValue::Int64(Some(0))),
            _ => Ok(ScalarValue::Float64(None)),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct {
            true => Err(external(Error::not_supported(format!("DISTINCT is not supported for {}", self.name)))),
            false => Ok(Box::new(Pairs { statistic: self.statistic, of: Moments::default() })),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let floats = PARTS.map(|(part, _)| field(part, DataType::Float64));
        Ok(std::iter::once(field("count", DataType::Int64)).chain(floats).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupedPairs { statistic: self.statistic, groups: Vec::new() }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

impl Statistic {
    fn result(self) -> DataType {
        if self == Statistic::Count { DataType::Int64 } else { DataType::Float64 }
    }

    /// Of each group.
    fn array(self, groups: &[Moments]) -> Result<ArrayRef> {
        if self == Statistic::Count {
            return Ok(Arc::new(Int64Array::from_iter_values(groups.iter().map(|group| group.count))));
        }
        Ok(Arc::new(groups.iter().map(|group| self.of(&group.central())).collect::<Result<Float64Array>>()?))
    }

    /// Null where there are too few pairs, or all are on one line that this is not told of.
    fn of(self, group: &Central) -> Result<Option<f64>> {
        let &Central { count, mean: [x, y], squares: [sxx, syy], products: sxy } = group;
        if count == 0 {
            return Ok(None);
        }
        let finite = x.is_finite() && y.is_finite();
        if finite && ![sxx, syy, sxy].iter().all(|sum| sum.is_finite()) {
            return Err(external(Error::new(ErrorKind::NumericOverflow, "value out of range: overflow")));
        }
        let n = count as f64;
        Ok(match self {
            Statistic::Count => Some(n),
            Statistic::MeanX => Some(x),
            Statistic::MeanY => Some(y),
            Statistic::SquaresX => Some(sxx),
            Statistic::SquaresY => Some(syy),
            Statistic::Products => Some(sxy),
            Statistic::Covariance { of_sample: false } => Some(sxy / n),
            Statistic::Covariance { of_sample: true } => (count > 1).then(|| sxy / (n - 1.0)),
            Statistic::Correlation => (sxx != 0.0 && syy != 0.0).then(|| sxy / (sxx * syy).sqrt()),
            Statistic::Slope => (sxx != 0.0).then(|| sxy / sxx),
            Statistic::Intercept => (sxx != 0.0).then(|| y - x * (sxy / sxx)),
            Statistic::Determination if sxx == 0.0 => None,
            Statistic::Determination if syy == 0.0 => Some(1.0),
            Statistic::Determination => Some((sxy * sxy) / (sxx * syy)),
        })
    }
}

/// Sums of a group's pairs, of their distances to its origin.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: i64,
    origin: [f64; 2],
    sums: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

/// How many pairs a group has, their means, and the sums of the squares and products of their distances to these.
#[derive(Clone, Copy, Debug)]
struct Central {
    count: i64,
    mean: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

impl Moments {
    fn add(&mut self, pair: [f64; 2]) {
        if self.count == 0 {
            self.origin = pair.map(finite_or_zero);
        }
        let [x, y] = [pair[0] - self.origin[0], pair[1] - self.origin[1]];
        self.count += 1;
        self.sums = [self.sums[0] + x, self.sums[1] + y];
        self.squares = [self.squares[0] + x * x, self.squares[1] + y * y];
        self.products += x * y;
        if self.count.count_ones() == 1 {
            self.move_origin();
        }
    }

    /// Moves the origin to the means, as far as they can be told.
    fn move_origin(&mut self) {
        let mean = self.central().mean;
        if mean.iter().all(|mean| mean.is_finite()) {
            self.see_from(mean);
        }
    }

    /// Takes distances to another origin: `Σ(x − o + d)² = Σ(x − o)² + 2d · Σ(x − o) + n · d²`.
    fn see_from(&mut self, origin: [f64; 2]) {
        let n = self.count as f64;
        let [x, y] = [self.origin[0] - origin[0], self.origin[1] - origin[1]];
        let [sum_x, sum_y] = self.sums;
        self.squares = [self.squares[0] + x * (2.0 * sum_x + n * x), self.squares[1] + y * (2.0 * sum_y + n * y)];
        self.products += x * sum_y + y * sum_x + n * x * y;
        self.sums = [sum_x + n * x, sum_y + n * y];
        self.origin = origin;
    }

    fn central(&self) -> Central {
        let n = self.count.max(1) as f64;
        let [x, y] = self.sums;
        // Rounding may leave less than nothing.
        let square = |square: f64, sum: f64| match square - sum * (sum / n) {
            left if left < 0.0 => 0.0,
            left => left,
        };
        Central {
            count: self.count,
            mean: [self.origin[0] + x / n, self.origin[1] + y / n],
            squares: [square(self.squares[0], x), square(self.squares[1], y)],
            products: self.products - x * (y / n),
        }
    }

    fn join(&mut self, mut other: Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        other.see_from(self.origin);
        self.count += other.count;
        self.sums = [self.sums[0] + other.sums[0], self.sums[1] + other.sums[1]];
        self.squares = [self.squares[0] + other.squares[0], self.squares[1] + other.squares[1]];
        self.products += other.products;
        self.move_origin();
    }
}

/// An origin that distances can be taken to.
fn finite_or_zero(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Calls with each row's pair, if it has one and passes a FILTER.
fn each_pair(values: &[ArrayRef], filter: Option<&BooleanArray>, mut call: impl FnMut(usize, [f64; 2])) {
    // The first argument is the one that depends on the other.
    let (y, x) = (values[0].as_primitive::<Float64Type>(), values[1].as_primitive::<Float64Type>());
    let passed = filter.map(|filter| match filter.nulls() {
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
        None => NullBuffer::new(filter.values().clone()),
    });
    let valid = NullBuffer::union(NullBuffer::union(x.nulls(), y.nulls()).as_ref(), passed.as_ref());
    let pairs = x.values().iter().zip(y.values()).map(|(x, y)| [*x, *y]).enumerate();
    match valid.filter(|valid| valid.null_count() > 0) {
        None => pairs.for_each(|(row, pair)| call(row, pair)),
        Some(valid) => pairs.filter(|(row, _)| valid.is_valid(*row)).for_each(|(row, pair)| call(row, pair)),
    }
}

type Part = fn(&mut Moments) -> &mut f64;

/// What is kept of a group beside the count.
const PARTS: [(&str, Part); 7] = [
    ("origin_x", |group| &mut group.origin[0]),
    ("origin_y", |group| &mut group.origin[1]),
    ("sum_x", |group| &mut group.sums[0]),
    ("sum_y", |group| &mut group.sums[1]),
    ("sxx", |group| &mut group.squares[0]),
    ("syy", |group| &mut group.squares[1]),
    ("sxy", |group| &mut group.products),
];

/// The groups of a partial aggregation: see `OfPairs::state_fields`.
fn partial(states: &[ArrayRef]) -> Vec<Moments> {
    let counts = states[0].as_primitive::<Int64Type>().values();
    let mut groups: Vec<Moments> = counts.iter().map(|count| Moments { count: *count, ..Moments::default() }).collect();
    for ((_, part), values) in PARTS.iter().zip(&states[1..]) {
        let values = values.as_primitive::<Float64Type>().values();
        groups.iter_mut().zip(values).for_each(|(group, value)| *part(group) = *value);
    }
    groups
}

fn states(mut groups: Vec<Moments>) -> Vec<ArrayRef> {
    let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(groups.iter().map(|group| group.count)));
    let floats = PARTS.map(|(_, part)| {
        Arc::new(Float64Array::from_iter_values(groups.iter_mut().map(|group| *part(group)))) as ArrayRef
    });
    std::iter::once(counts).chain(floats).collect()
}

/// The statistic of all rows, or of a frame.
#[derive(Debug)]
struct Pairs {
    statistic: Statistic,
    of: Moments,
}

impl Accumulator for Pairs {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_pair(values, None, |_, pair| self.of.add(pair));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        partial(states).into_iter().for_each(|other| self.of.join(other));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.statistic.array(&[self.of])?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        states(vec![self.of]).iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of::<Pairs>()
    }
}

/// The statistics of GROUP BY's groups.
struct GroupedPairs {
    statistic: Statistic,
    groups: Vec<Moments>,
}

impl GroupsAccumulator for GroupedPairs {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_of: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize(groups, Moments::default());
        each_pair(values, filter, |row, pair| self.groups[group_of[row]].add(pair));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_of: &[usize], groups: usize) -> Result<()> {
        self.groups.resize(groups, Moments::default());
        partial(states).into_iter().zip(group_of).for_each(|(other, group)| self.groups[*group].join(other));
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.statistic.array(&emit.take_needed(&mut self.groups))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states(emit.take_needed(&mut self.groups)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = vec![Moments::default(); values[0].len()];
        each_pair(values, filter, |row, pair| each[row].add(pair));
        Ok(states(each))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Moments>()
    }
}
