//! `variance`, `stddev` and their kin of integers and numerics as numeric.
//!
//! DataFusion computes variances of all numbers as floats. Of exact numbers the count, the sum and the sum of squares
//! ([`Sums`]) are kept as whole numbers of the column's last digit, so that a frame can take back what leaves it:
//!
//! ```text
//! var_pop = (n · Σx² − (Σx)²) / n²        var_samp = the same / (n · (n − 1))        stddev = the root
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, i256};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use keyspan_model::ColumnType;

use super::distinct::{Distinct, distinct_state};
use crate::error::external;
use crate::types::arithmetic::{divided, out_of_range, root};
use crate::types::{decimal, number_rank, scale_of};

/// Digits of a 256-bit number.
const WIDE: u8 = 76;

/// The variance of this name over exact numbers, and the type its argument is to have; `None` for other functions and types.
pub fn of_exact(name: &str, ty: ColumnType) -> Option<(Arc<AggregateUDF>, ColumnType)> {
    let (name, sample, root) = match name {
        "var" | "var_samp" | "variance" => ("var", true, false),
        "var_pop" => ("var_pop", false, false),
        "stddev" | "stddev_samp" => ("stddev", true, true),
        "stddev_pop" => ("stddev_pop", false, true),
        _ => return None,
    };
    if number_rank(ty)? > 6 {
        return None;
    }
    // A bigint's variance may need more digits before the point.
    let wide = matches!(ty, ColumnType::BigInt | ColumnType::VarInt) && !root;
    let (given, shown) = (scale_of(ty), if wide { 8 } else { scale_of(ty).max(16) });
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Variance { name, form: Form { sample, root, given, shown }, signature };
    Some((Arc::new(AggregateUDF::from(function)), decimal(given)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Variance {
    name: &'static str,
    form: Form,
    signature: Signature,
}

impl AggregateUDFImpl for Variance {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(decimal(self.form.shown).arrow())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let moments = Moments { of: self.form, sums: Sums::default() };
        Ok(match args.is_distinct {
            true => Box::new(Distinct::<Decimal128Type, _>::new(decimal(self.form.given).arrow(), moments)),
            false => Box::new(moments),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(distinct_state(args.name, decimal(self.form.given).arrow()));
        }
        let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let wide = || DataType::Decimal256(WIDE, 0);
        Ok(vec![field("count", DataType::Int64), field("sum", wide()), field("squares", wide())])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupedMoments { of: self.form, groups: Vec::new() }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// What is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    /// Of a sample, not of all.
    sample: bool,
    /// The standard deviation.
    root: bool,
    /// Digits after the point of the argument.
    given: i8,
    /// Digits after the point of the result.
    shown: i8,
}

impl Form {
    fn overflow(&self) -> DataFusionError {
        let error = out_of_range(decimal(self.shown));
        external(error.with_hint("Cast the argument to double precision."))
    }

    /// The result's digits, none of too few values.
    fn value(&self, sums: &Sums) -> Result<Option<i128>> {
        if sums.count < 1 + i64::from(self.sample) {
            return Ok(None);
        }
        self.digits(sums).map(Some).ok_or_else(|| self.overflow())
    }

    fn digits(&self, sums: &Sums) -> Option<i128> {
        let count = i256::from_i128(i128::from(sums.count));
        let above = count.checked_mul(sums.squares)?.checked_sub(sums.sum.checked_mul(sums.sum)?)?;
        let below = count.checked_mul(i256::from_i128(i128::from(sums.count - i64::from(self.sample))))?;
        // The root halves the number of digits after the point.
        let shown = i32::from(self.shown) * if self.root { 2 } else { 1 };
        let shift = shown - 2 * i32::from(self.given);
        let power = |digits: i32| i256::from_i128(10).checked_pow(u32::try_from(digits).ok()?);
        let variance = match shift >= 0 {
            true => divided(above.checked_mul(power(shift)?)?, below)?,
            false => divided(above, below.checked_mul(power(-shift)?)?)?,
        };
        let digits = if self.root { root(variance)?.to_i128()? } else { variance.to_i128()? };
        (digits.unsigned_abs() < 10_u128.pow(38)).then_some(digits)
    }
}

/// Of some values, in units of their last digit.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: i64,
    sum: i256,
    squares: i256,
}

impl Sums {
    /// Takes a value in; none if the sums have too many digits.
    fn add(&mut self, value: i128) -> Option<()> {
        self.squares = self.squares.checked_add(square(value)?)?;
        self.sum = self.sum.checked_add(i256::from_i128(value))?;
        self.count += 1;
        Some(())
    }

    fn take_back(&mut self, value: i128) -> Option<()> {
        self.squares = self.squares.checked_sub(square(value)?)?;
        self.sum = self.sum.checked_sub(i256::from_i128(value))?;
        self.count -= 1;
        Some(())
    }

    fn merge(&mut self, count: i64, sum: i256, squares: i256) -> Option<()> {
        self.count += count;
        self.sum = self.sum.checked_add(sum)?;
        self.squares = self.squares.checked_add(squares)?;
        Some(())
    }
}

fn square(value: i128) -> Option<i256> {
    match value.checked_mul(value) {
        Some(square) => Some(i256::from_i128(square)),
        None => i256::from_i128(value).checked_mul(i256::from_i128(value)),
    }
}

/// The sums of a partial aggregation: see `Variance::state_fields`.
fn partial(states: &[ArrayRef]) -> (&Int64Array, &Decimal256Array, &Decimal256Array) {
    (states[0].as_primitive::<Int64Type>(), states[1].as_primitive(), states[2].as_primitive::<Decimal256Type>())
}

fn states(groups: &[Sums]) -> Vec<ArrayRef> {
    let wide = |of: fn(&Sums) -> i256| {
        let digits = Decimal256Array::from_iter_values(groups.iter().map(of));
        Arc::new(digits.with_data_type(DataType::Decimal256(WIDE, 0))) as ArrayRef
    };
    let counts = Int64Array::from_iter_values(groups.iter().map(|sums| sums.count));
    vec![Arc::new(counts), wide(|sums| sums.sum), wide(|sums| sums.squares)]
}

/// The values of rows that pass a FILTER, and none for the others.
fn passed<'a>(values: &'a ArrayRef, filter: Option<&'a BooleanArray>) -> impl Iterator<Item = Option<i128>> + 'a {
    let passes = move |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
    let values = values.as_primitive::<Decimal128Type>().iter().enumerate();
    values.map(move |(row, value)| value.filter(|_| passes(row)))
}

/// The variance of all rows, or of a frame.
#[derive(Debug)]
struct Moments {
    of: Form,
    sums: Sums,
}

impl Accumulator for Moments {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut values = values[0].as_primitive::<Decimal128Type>().iter().flatten();
        values.try_for_each(|value| self.sums.add(value)).ok_or_else(|| self.of.overflow())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut values = values[0].as_primitive::<Decimal128Type>().iter().flatten();
        values.try_for_each(|value| self.sums.take_back(value)).ok_or_else(|| self.of.overflow())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, sums, squares) = partial(states);
        let mut rows = 0..counts.len();
        rows.try_for_each(|row| self.sums.merge(counts.value(row), sums.value(row), squares.value(row)))
            .ok_or_else(|| self.of.overflow())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let DataType::Decimal128(precision, scale) = decimal(self.of.shown).arrow() else {
            return Err(DataFusionError::Internal("a numeric of another Arrow type".into()));
        };
        Ok(ScalarValue::Decimal128(self.of.value(&self.sums)?, precision, scale))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        states(&[self.sums]).iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of::<Moments>()
    }
}

/// The variances of GROUP BY's groups.
struct GroupedMoments {
    of: Form,
    groups: Vec<Sums>,
}

impl GroupsAccumulator for GroupedMoments {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_of: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize(groups, Sums::default());
        for (value, group) in passed(&values[0], filter).zip(group_of) {
            if let Some(value) = value {
                self.groups[*group].add(value).ok_or_else(|| self.of.overflow())?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_of: &[usize], groups: usize) -> Result<()> {
        self.groups.resize(groups, Sums::default());
        let (counts, sums, squares) = partial(states);
        for (row, group) in group_of.iter().enumerate() {
            let merged = self.groups[*group].merge(counts.value(row), sums.value(row), squares.value(row));
            merged.ok_or_else(|| self.of.overflow())?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let groups = emit.take_needed(&mut self.groups);
        let digits = groups.iter().map(|sums| self.of.value(sums)).collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(digits.with_data_type(decimal(self.of.shown).arrow())))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states(&emit.take_needed(&mut self.groups)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let of_one = |value: Option<i128>| {
            let mut sums = Sums::default();
            let added = value.map_or(Some(()), |value| sums.add(value));
            added.map(|()| sums).ok_or_else(|| self.of.overflow())
        };
        Ok(states(&passed(&values[0], filter).map(of_one).collect::<Result<Vec<_>>>()?))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Sums>()
    }
}
