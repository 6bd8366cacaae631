//! `sum`, `avg`, `stddev` and `variance` of floats over frames that move: computed of what is in the frame.
//!
//! DataFusion's own subtract what leaves the frame, and what a float has lost beside 1e17, NaN or infinity does not come back.
//!
//! ```text
//! front, a total of each and all behind it    back, one total
//! [x3+x4+x5] [x4+x5] [x5]                     x6 x7  x6+x7         the frame's total is the first of front and back's
//! ```
//!
//! A value that leaves takes its total from the front; when there is none, the back's values become the front. So each is
//! added twice, however long the frame.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility};

/// What is asked of the values, by DataFusion's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Sum,
    Average,
    /// Of a sample or of all there are; the root of it or not.
    Variance {
        sample: bool,
        root: bool,
    },
}

const FUNCTIONS: [(&str, Asked); 6] = [
    ("sum", Asked::Sum),
    ("avg", Asked::Average),
    ("var", Asked::Variance { sample: true, root: false }),
    ("var_pop", Asked::Variance { sample: false, root: false }),
    ("stddev", Asked::Variance { sample: true, root: true }),
    ("stddev_pop", Asked::Variance { sample: false, root: true }),
];

static ALL: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
    let function = |(name, asked)| Arc::new(AggregateUDF::from(Moving::new(name, asked)));
    FUNCTIONS.into_iter().map(function).collect()
});

/// The aggregate of this name over frames that move; `None` for other functions.
pub fn of_floats(name: &str) -> Option<Arc<AggregateUDF>> {
    ALL.iter().find(|function| function.name() == name).cloned()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    name: &'static str,
    asked: Asked,
    signature: Signature,
}

impl Moving {
    fn new(name: &'static str, asked: Asked) -> Moving {
        Moving { name, asked, signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { asked: self.asked, front: Vec::new(), back: Vec::new(), total: Moments::default() }))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Err(only_in_windows())
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

fn only_in_windows() -> DataFusionError {
    DataFusionError::Internal("an aggregate of a moving frame has no parts".into())
}

/// Of some values: how many, their sum and mean, and the sum of the squares of their distances from it.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    sum: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(value: f64) -> Moments {
        Moments { count: 1, sum: value, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    /// Those of both together (Chan, Golub, LeVeque).
    fn and(self, other: Moments) -> Moments {
        match (self.count, other.count) {
            (0, _) => return other,
            (_, 0) => return self,
            _ => {}
        }
        let count = self.count + other.count;
        let (own, others, all) = (self.count as f64, other.count as f64, count as f64);
        let distance = other.mean - self.mean;
        Moments {
            count,
            sum: self.sum + other.sum,
            mean: self.mean + distance * (others / all),
            squares: self.squares + other.squares + distance * distance * (own * others / all),
        }
    }
}

/// The values of a frame.
#[derive(Debug)]
struct Frame {
    asked: Asked,
    /// Those that leave next at the end, each with all before it here.
    front: Vec<Moments>,
    back: Vec<f64>,
    /// Of `back`.
    total: Moments,
}

impl Frame {
    fn leave(&mut self) -> Result<()> {
        if self.front.is_empty() {
            let mut behind = Moments::default();
            for value in self.back.drain(..).rev() {
                behind = Moments::of(value).and(behind);
                self.front.push(behind);
            }
            self.total = Moments::default();
        }
        match self.front.pop() {
            Some(_) => Ok(()),
            None => Err(DataFusionError::Internal("more values leave a frame than are in it".into())),
        }
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.back.push(value);
            self.total = self.total.and(Moments::of(value));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (values[0].null_count()..values[0].len()).try_for_each(|_| self.leave())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.front.last().copied().unwrap_or_default().and(self.total);
        let count = all.count as f64;
        let value = match self.asked {
            _ if all.count == 0 => None,
            Asked::Sum => Some(all.sum),
            Asked::Average => Some(all.sum / count),
            Asked::Variance { sample: true, .. } if all.count == 1 => None,
            Asked::Variance { sample, root } => {
                let variance = all.squares / if sample { count - 1.0 } else { count };
                Some(if root { variance.sqrt() } else { variance })
            }
        };
        // What the processor makes of two infinities is not the NaN that sorts last.
        Ok(ScalarValue::Float64(value.map(|value| if value.is_nan() { f64::NAN } else { value })))
    }

    fn size(&self) -> usize {
        size_of::<Frame>() + self.front.capacity() * size_of::<Moments>() + self.back.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(only_in_windows())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(only_in_windows())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    fn frame(asked: Asked) -> Frame {
        Frame { asked, front: Vec::new(), back: Vec::new(), total: Moments::default() }
    }

    fn value(frame: &mut Frame) -> Option<f64> {
        match frame.evaluate().expect("a value") {
            ScalarValue::Float64(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_of_any_length_have_the_values_of_what_is_in_them() {
        let column: Vec<Option<f64>> =
            (0..400_u32).map(|n| (n % 7 != 3).then(|| f64::from(n.wrapping_mul(2_654_435_761) % 1000) / 8.0)).collect();
        for width in [1, 2, 3, 10, 64, 200] {
            let mut frames = FUNCTIONS.map(|(_, asked)| frame(asked));
            for to in 1..=column.len() {
                let from = to.saturating_sub(width);
                let array = |range: std::ops::Range<usize>| [Arc::new(Float64Array::from(column[range].to_vec())) as _];
                let inside: Vec<f64> = column[from..to].iter().flatten().copied().collect();
                let count = inside.len() as f64;
                let sum: f64 = inside.iter().sum();
                let squares: f64 = inside.iter().map(|value| (value - sum / count).powi(2)).sum();
                for frame in &mut frames {
                    frame.update_batch(&array(to - 1..to)).expect("in");
                    if to > width {
                        frame.retract_batch(&array(from - 1..from)).expect("out");
                    }
                    let expected = match frame.asked {
                        _ if inside.is_empty() => None,
                        Asked::Sum => Some(sum),
                        Asked::Average => Some(sum / count),
                        Asked::Variance { sample: true, .. } if inside.len() == 1 => None,
                        Asked::Variance { sample, root } => {
                            let variance = squares / if sample { count - 1.0 } else { count };
                            Some(if root { variance.sqrt() } else { variance })
                        }
                    };
                    let near = match (value(frame), expected) {
                        (Some(own), Some(expected)) => (own - expected).abs() <= 1e-9 * (1.0 + expected.abs()),
                        (own, expected) => own == expected,
                    };
                    assert!(near, "{:?} of {inside:?}", frame.asked);
                }
            }
        }
    }
}
