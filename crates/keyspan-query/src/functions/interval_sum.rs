//! `sum` of intervals, which DataFusion does not have.

use std::sync::Arc;

use arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility};
use keyspan_model::{Error, ErrorKind};

use super::distinct::{Distinct, distinct_state};
use crate::error::external;

/// `sum` over intervals.
pub fn sum_of_intervals() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Total { signature: Signature::any(1, Volatility::Immutable) }))
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
        Ok(interval())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let total = Intervals { count: 0, sum: IntervalMonthDayNano::ZERO };
        Ok(match args.is_distinct {
            true => Box::new(Distinct::<IntervalMonthDayNanoType, _>::new(interval(), total)),
            false => Box::new(total),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(distinct_state(args.name, interval()));
        }
        Ok(vec![Arc::new(Field::new(args.name, interval(), true))])
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

fn interval() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
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
