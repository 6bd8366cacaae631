//! What a series of samples has changed by: `delta`, `increase`, `rate`, `irate` of `(value, time)`.
//!
//! Samples count in the order of their times, whatever order the rows come in; those without value or time do not count.
//! A value below the one before is a counter that began again at 0, as Prometheus reads it, so that it adds itself.
//! Nothing is extrapolated. Fewer than two samples, or no time between them, make null.
//!
//! ```text
//! values at 0 s, 10 s, 20 s, 30 s:  5, 9, 2, 4
//! increase  4 + 2 + 2 = 8      rate  8 / 30 s
//! irate     2 / 10 s           delta 4 - 5 = -1
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use keyspan_model::Error;

use crate::error::external;

/// What is asked of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    /// Last value less the first.
    Delta,
    /// All rises together.
    Increase,
    /// The rises in each second between the first sample and the last.
    Rate,
    /// The same between the last two.
    Instant,
}

/// The aggregates.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    let each =
        [("delta", Change::Delta), ("increase", Change::Increase), ("rate", Change::Rate), ("irate", Change::Instant)];
    each.map(|(name, change)| Arc::new(AggregateUDF::from(Counter::new(name, change)))).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Counter {
    name: &'static str,
    change: Change,
    signature: Signature,
}

impl Counter {
    fn new(name: &'static str, change: Change) -> Counter {
        Counter { name, change, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Counter {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(&args)?;
        Ok(Box::new(Samples { change: self.change, samples: Vec::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let list = |part: &str, ty: DataType| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), DataType::new_list(ty, true), true))
        };
        Ok(vec![list("values", DataType::Float64), list("times", DataType::Int64)])
    }
}

/// 0A000 for `rate(DISTINCT …)`.
pub fn refuse_distinct(args: &AccumulatorArgs<'_>) -> Result<()> {
    match args.is_distinct {
        true => Err(external(Error::not_supported(format!("DISTINCT is not supported in {}", args.name)))),
        false => Ok(()),
    }
}

/// The samples of one group: (time in microseconds, value).
#[derive(Debug)]
struct Samples {
    change: Change,
    samples: Vec<(i64, f64)>,
}

impl Samples {
    fn add(&mut self, values: &ArrayRef, times: &ArrayRef) -> Result<()> {
        let (values, times) = (cast(values, &DataType::Float64)?, cast(times, &DataType::Int64)?);
        let pairs = times.as_primitive::<Int64Type>().iter().zip(values.as_primitive::<Float64Type>().iter());
        self.samples.extend(pairs.filter_map(|(time, value)| Some((time?, value?))));
        Ok(())
    }
}

/// What a value has risen by since the one before.
fn rise(before: f64, value: f64) -> f64 {
    if value < before { value } else { value - before }
}

/// The change over samples that are sorted by time.
fn change_of(change: Change, samples: &[(i64, f64)]) -> Option<f64> {
    let [first, .., last] = samples else { return None };
    let per_second = |rise: f64, from: i64, to: i64| (to > from).then(|| rise / ((to - from) as f64 / 1e6));
    let increase = || samples.windows(2).map(|pair| rise(pair[0].1, pair[1].1)).sum::<f64>();
    match change {
        Change::Delta => Some(last.1 - first.1),
        Change::Increase => Some(increase()),
        Change::Rate => per_second(increase(), first.0, last.0),
        Change::Instant => {
            let before = samples[samples.len() - 2];
            per_second(rise(before.1, last.1), before.0, last.0)
        }
    }
}

impl Accumulator for Samples {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], &values[1])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, times) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            self.add(&values.value(row), &times.value(row))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Of two samples at one time the smaller counts as the earlier, so that the order of rows does not matter.
        self.samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Ok(ScalarValue::Float64(change_of(self.change, &self.samples)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Float64Array::from_iter_values(self.samples.iter().map(|sample| sample.1));
        let times = Int64Array::from_iter_values(self.samples.iter().map(|sample| sample.0));
        let list = |array: ArrayRef| SingleRowListArrayBuilder::new(array).build_list_scalar();
        Ok(vec![list(Arc::new(values)), list(Arc::new(times))])
    }

    fn size(&self) -> usize {
        size_of::<Samples>() + self.samples.capacity() * size_of::<(i64, f64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_fall_is_a_counter_that_began_again() {
        let samples = [(0, 5.0), (10 * SECOND, 9.0), (20 * SECOND, 2.0), (30 * SECOND, 4.0)];
        assert_eq!(change_of(Change::Increase, &samples), Some(8.0));
        assert_eq!(change_of(Change::Rate, &samples), Some(8.0 / 30.0));
        assert_eq!(change_of(Change::Instant, &samples), Some(0.2));
        assert_eq!(change_of(Change::Delta, &samples), Some(-1.0));
    }

    #[test]
    fn one_sample_or_no_time_between_is_null() {
        assert_eq!(change_of(Change::Delta, &[]), None);
        assert_eq!(change_of(Change::Increase, &[(0, 1.0)]), None);
        assert_eq!(change_of(Change::Rate, &[(7, 1.0), (7, 2.0)]), None);
    }

    #[test]
    fn order_and_splitting_of_rows_do_not_matter() {
        let array = |values: &[f64], times: &[i64]| -> [ArrayRef; 2] {
            [Arc::new(Float64Array::from(values.to_vec())), Arc::new(Int64Array::from(times.to_vec()))]
        };
        let samples = || Samples { change: Change::Increase, samples: Vec::new() };
        let (mut one, mut other, mut whole) = (samples(), samples(), samples());
        one.update_batch(&array(&[4.0, 5.0], &[30, 0])).expect("samples");
        other.update_batch(&array(&[2.0, 9.0], &[20, 10])).expect("samples");
        for part in [&mut one, &mut other] {
            let state: Vec<ArrayRef> =
                part.state().expect("a state").iter().map(|each| each.to_array().expect("an array")).collect();
            whole.merge_batch(&state).expect("merged");
        }
        assert_eq!(whole.evaluate().expect("a value"), ScalarValue::Float64(Some(8.0)));
    }
}
