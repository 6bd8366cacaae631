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

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use keyspan_model::{Error, ErrorKind};

use super::group_state::{GroupState, ManyGroups, OneGroup};
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
            false => Ok(Box::new(OneGroup::<Moments>::new(self.statistic))),
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
        Ok(Box::new(ManyGroups::<Moments>::new(self.statistic)))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

impl Statistic {
    fn result(self) -> DataType {
        if self == Statistic::Count { DataType::Int64 } else { DataType::Float64 }
    }

    /// Null where there are too few pairs, or all are on one line that this is not told of.
    fn of(self, group: &Central) -> Result<Option<f64>> {
        let &Central { count, mean: [x, y], squares: [sxx, syy], products: sxy } = group;
        let n = count as f64;
        let overflows = x.is_finite() && y.is_finite() && ![sxx, syy, sxy].iter().all(|sum| sum.is_finite());
        Ok(match self {
            Statistic::Count => Some(n),
            _ if count == 0 => None,
            _ if overflows => {
                return Err(external(Error::new(ErrorKind::NumericOverflow, "value out of range: overflow")));
            }
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
    fn take_in(&mut self, pair: [f64; 2]) {
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

    fn take_over(&mut self, mut other: Moments) {
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

impl GroupState for Moments {
    type Function = Statistic;
    type Arguments<'a> = [&'a [f64]; 2];

    fn arguments(values: &[ArrayRef]) -> [&[f64]; 2] {
        // The first argument is the one that depends on the other.
        let [y, x] = [0, 1].map(|at| &**values[at].as_primitive::<Float64Type>().values());
        [x, y]
    }

    fn add(&mut self, _: Statistic, [x, y]: &[&[f64]; 2], row: usize) -> Result<()> {
        self.take_in([x[row], y[row]]);
        Ok(())
    }

    fn join(&mut self, _: Statistic, other: Moments) -> Result<()> {
        self.take_over(other);
        Ok(())
    }

    fn results(statistic: Statistic, groups: &[Moments]) -> Result<ArrayRef> {
        let each = groups.iter().map(|group| statistic.of(&group.central()));
        Ok(cast(&each.collect::<Result<Float64Array>>()?, &statistic.result())?)
    }

    fn columns(groups: &[Moments]) -> Vec<ArrayRef> {
        let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(groups.iter().map(|group| group.count)));
        let part = |(_, part): (_, Part)| {
            Arc::new(Float64Array::from_iter_values(groups.iter().map(|group| *part(&mut group.clone())))) as ArrayRef
        };
        std::iter::once(counts).chain(PARTS.map(part)).collect()
    }

    fn of_columns(columns: &[ArrayRef]) -> Vec<Moments> {
        let counts = columns[0].as_primitive::<Int64Type>().values();
        let mut groups: Vec<_> = counts.iter().map(|count| Moments { count: *count, ..Moments::default() }).collect();
        for ((_, part), values) in PARTS.iter().zip(&columns[1..]) {
            let values = values.as_primitive::<Float64Type>().values();
            groups.iter_mut().zip(values).for_each(|(group, value)| *part(group) = *value);
        }
        groups
    }
}
