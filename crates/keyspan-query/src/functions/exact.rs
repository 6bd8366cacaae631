//! `variance`, `stddev` and their kin of integers and numerics as numeric; `sum` of intervals.
//!
//! DataFusion computes variances of all numbers as floats, and sums no intervals. Of exact numbers the count, the sum and
//! the sum of squares are kept as whole numbers of the column's last digit, so that a frame can take back what leaves it:
//!
//! ```text
//! var_pop = (n · Σx² − (Σx)²) / n²        var_samp = the same / (n · (n − 1))        stddev = the root
//! ```

use std::sync::Arc;

use arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, IntervalUnit, i256};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility};
use keyspan_model::{ColumnType, Error, ErrorKind};

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
    let function = Variance { name, sample, root, given, shown, signature };
    Some((Arc::new(AggregateUDF::from(function)), decimal(given)))
}

/// `sum` over intervals.
pub fn sum_of_intervals() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Total { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Variance {
    name: &'static str,
    sample: bool,
    root: bool,
    /// Digits after the point of the argument, and of the result.
    given: i8,
    shown: i8,
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
        Ok(decimal(self.shown).arrow())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            let error = Error::not_supported(format!("{}(DISTINCT …) beside other aggregates", self.name));
            return Err(external(error.with_hint("Compute it in a subquery over SELECT DISTINCT.")));
        }
        let Variance { sample, root, given, shown, .. } = *self;
        Ok(Box::new(Moments { sample, root, given, shown, count: 0, sum: i256::ZERO, squares: i256::ZERO }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let wide = || DataType::Decimal256(WIDE, 0);
        Ok(vec![field("count", DataType::Int64), field("sum", wide()), field("squares", wide())])
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// Of some values, in units of their last digit.
#[derive(Debug)]
struct Moments {
    sample: bool,
    root: bool,
    given: i8,
    shown: i8,
    count: i64,
    sum: i256,
    squares: i256,
}

impl Moments {
    /// Takes values in, or back.
    fn change(&mut self, values: &ArrayRef, back: bool) -> Option<()> {
        for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
            let value = i256::from_i128(value);
            let square = value.checked_mul(value)?;
            (self.count, self.sum, self.squares) = match back {
                false => (self.count + 1, self.sum.checked_add(value)?, self.squares.checked_add(square)?),
                true => (self.count - 1, self.sum.checked_sub(value)?, self.squares.checked_sub(square)?),
            };
        }
        Some(())
    }

    fn merge(&mut self, states: &[ArrayRef]) -> Option<()> {
        let counts = states[0].as_primitive::<Int64Type>();
        let (sums, squares) = (states[1].as_primitive::<Decimal256Type>(), states[2].as_primitive::<Decimal256Type>());
        for place in 0..counts.len() {
            self.count += counts.value(place);
            self.sum = self.sum.checked_add(sums.value(place))?;
            self.squares = self.squares.checked_add(squares.value(place))?;
        }
        Some(())
    }

    /// The result's digits; the outer option is empty where they are too many.
    fn value(&self) -> Option<Option<i128>> {
        if self.count < 1 + i64::from(self.sample) {
            return Some(None);
        }
        let count = i256::from_i128(i128::from(self.count));
        let above = count.checked_mul(self.squares)?.checked_sub(self.sum.checked_mul(self.sum)?)?;
        let below = count.checked_mul(i256::from_i128(i128::from(self.count - i64::from(self.sample))))?;
        // The root halves the number of digits after the point.
        let shown = i32::from(self.shown) * if self.root { 2 } else { 1 };
        let shift = shown - 2 * i32::from(self.given);
        let power = |digits: i32| i256::from_i128(10).checked_pow(u32::try_from(digits).ok()?);
        let variance = match shift >= 0 {
            true => divided(above.checked_mul(power(shift)?)?, below)?,
            false => divided(above, below.checked_mul(power(-shift)?)?)?,
        };
        let digits = if self.root { root(variance)?.to_i128()? } else { variance.to_i128()? };
        (digits.unsigned_abs() < 10_u128.pow(38)).then_some(Some(digits))
    }
}

impl Accumulator for Moments {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], false).ok_or_else(|| external(out_of_range(decimal(self.shown))))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], true).ok_or_else(|| external(out_of_range(decimal(self.shown))))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(states).ok_or_else(|| external(out_of_range(decimal(self.shown))))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.value().ok_or_else(|| external(out_of_range(decimal(self.shown))))?;
        let DataType::Decimal128(precision, scale) = decimal(self.shown).arrow() else {
            return Err(DataFusionError::Internal("a numeric of another Arrow type".into()));
        };
        Ok(ScalarValue::Decimal128(value, precision, scale))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let wide = |value| ScalarValue::Decimal256(Some(value), WIDE, 0);
        Ok(vec![ScalarValue::Int64(Some(self.count)), wide(self.sum), wide(self.squares)])
    }

    fn size(&self) -> usize {
        size_of::<Moments>()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Total {
    signature: Signature,
}

impl AggregateUDFImpl for Total {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Intervals { count: 0, sum: IntervalMonthDayNano::ZERO }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        Ok(vec![Arc::new(Field::new(args.name, interval, true))])
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// Months, days and nanoseconds are added apart.
#[derive(Debug)]
struct Intervals {
    count: i64,
    sum: IntervalMonthDayNano,
}

impl Intervals {
    fn change(&mut self, values: &ArrayRef, back: bool) -> Result<()> {
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let sum = match back {
                false => added(self.sum, value),
                true => subtracted(self.sum, value),
            };
            self.sum = sum.ok_or_else(|| external(Error::new(ErrorKind::DatetimeOverflow, "interval out of range")))?;
            self.count += if back { -1 } else { 1 };
        }
        Ok(())
    }
}

fn added(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let (months, days) = (a.months.checked_add(b.months)?, a.days.checked_add(b.days)?);
    Some(IntervalMonthDayNano::new(months, days, a.nanoseconds.checked_add(b.nanoseconds)?))
}

fn subtracted(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let (months, days) = (a.months.checked_sub(b.months)?, a.days.checked_sub(b.days)?);
    Some(IntervalMonthDayNano::new(months, days, a.nanoseconds.checked_sub(b.nanoseconds)?))
}

impl Accumulator for Intervals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], false)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], true)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.change(&states[0], false)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano((self.count > 0).then_some(self.sum)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Intervals>()
    }
}
