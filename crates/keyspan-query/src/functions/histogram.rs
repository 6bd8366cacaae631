//! `histogram(value, min, max, buckets)`, as in TimescaleDB: how many values are below `min`, in each of so many equal parts
//! of `[min, max)`, and at or above `max`. Null and NaN are in none; where nothing was counted the answer is null.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility};
use keyspan_model::{ColumnType, Error, ErrorKind};

use crate::error::external;
use crate::types::arithmetic::out_of_range;

/// Parts that a histogram may have.
const MOST_BUCKETS: i32 = 100_000;

/// The aggregate.
pub fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Histogram { signature: Signature::any(4, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Histogram {
    signature: Signature,
}

impl AggregateUDFImpl for Histogram {
    fn name(&self) -> &str {
        "histogram"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::new_list(DataType::Int32, true))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        super::counter::refuse_distinct(&args)?;
        let constant = |place: usize| -> Result<ScalarValue> {
            let empty = RecordBatch::new_empty(Arc::new(args.schema.clone()));
            match args.exprs[place].evaluate(&empty)? {
                ColumnarValue::Scalar(scalar) => Ok(scalar),
                ColumnarValue::Array(_) => Err(refused("the bounds and buckets of histogram() must be constants")),
            }
        };
        match (constant(1)?, constant(2)?, constant(3)?) {
            (ScalarValue::Float64(Some(low)), ScalarValue::Float64(Some(high)), ScalarValue::Int32(Some(buckets))) => {
                Ok(Box::new(Counts::new(low, high, buckets).map_err(external)?))
            }
            _ => Err(refused("the bounds and buckets of histogram() must not be null")),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, DataType::new_list(DataType::Int32, true), true))])
    }
}

fn refused(message: &str) -> datafusion::error::DataFusionError {
    external(Error::new(ErrorKind::InvalidParameter, message))
}

/// The histogram of one group.
#[derive(Debug)]
struct Counts {
    low: f64,
    high: f64,
    /// Below, the parts, above; empty until something is counted.
    counts: Vec<i32>,
    parts: usize,
}

impl Counts {
    fn new(low: f64, high: f64, buckets: i32) -> Result<Counts, Error> {
        let refused = |message: &str| Err(Error::new(ErrorKind::InvalidParameter, message));
        if !low.is_finite() || !high.is_finite() || low >= high {
            return refused("the lower bound of histogram() must be less than the upper bound");
        }
        if !(1..=MOST_BUCKETS).contains(&buckets) {
            return refused("histogram() takes from 1 to 100000 buckets");
        }
        Ok(Counts { low, high, counts: Vec::new(), parts: buckets as usize })
    }

    fn place(&self, value: f64) -> usize {
        if value < self.low {
            0
        } else if value >= self.high {
            self.parts + 1
        } else {
            let part = ((value - self.low) / (self.high - self.low) * self.parts as f64) as usize;
            part.min(self.parts - 1) + 1
        }
    }

    fn add(&mut self, place: usize, count: i32) -> Result<()> {
        self.counts.resize(self.parts + 2, 0);
        let sum = self.counts[place].checked_add(count);
        self.counts[place] = sum.ok_or_else(|| external(out_of_range(ColumnType::Int)))?;
        Ok(())
    }

    fn list(&self) -> ScalarValue {
        if self.counts.is_empty() {
            return ScalarValue::new_null_list(DataType::Int32, true, 1);
        }
        SingleRowListArrayBuilder::new(Arc::new(Int32Array::from(self.counts.clone()))).build_list_scalar()
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten().filter(|value| !value.is_nan()) {
            self.add(self.place(value), 1)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
            for (place, count) in lists.value(row).as_primitive::<Int32Type>().iter().flatten().enumerate() {
                self.add(place, count)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.list())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list()])
    }

    fn size(&self) -> usize {
        size_of::<Counts>() + self.counts.capacity() * size_of::<i32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_buckets_of_their_own() {
        let counts = Counts::new(0.0, 10.0, 5).expect("bounds");
        let places = [-1.0, 0.0, 1.9, 2.0, 9.99, 10.0, f64::INFINITY].map(|value| counts.place(value));
        assert_eq!(places, [0, 1, 1, 2, 5, 6, 6]);
    }

    #[test]
    fn bounds_and_buckets_are_checked() {
        assert_eq!(Counts::new(1.0, 1.0, 5).expect_err("equal bounds").sqlstate(), "22023");
        assert_eq!(Counts::new(0.0, 1.0, 0).expect_err("no buckets").sqlstate(), "22023");
        assert_eq!(Counts::new(f64::NAN, 1.0, 1).expect_err("not a number").sqlstate(), "22023");
    }
}
