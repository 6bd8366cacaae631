//! `min` and `max` of floating-point numbers, where NaN is greater than every number, and of intervals, which are
//! compared by their length; `greatest` and `least` of values whose Arrow form does not sort as they do.
//!
//! DataFusion's own take whatever follows a NaN, so that their answer depends on the order of the rows, and compare the
//! texts of `jsonb` and the months of intervals before their days.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, IntervalUnit};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use keyspan_model::value::interval_length;
use keyspan_model::{ColumnType, Value};

use super::json::tree;
use super::overload::{Call, Overload, Parameter};

/// `greatest` of values of one type, compared as that type is.
pub const GREATEST_OF: &str = "greatest_of";
/// `least`, likewise.
pub const LEAST_OF: &str = "least_of";

/// The functions of several values.
pub fn functions() -> Vec<Overload> {
    let of = |name, code| {
        Overload::new(name, &[Parameter::Any], ColumnType::Text, code)
            .returning(|types| types[0])
            .variadic()
            .with_nulls()
    };
    vec![
        of(GREATEST_OF, |call, values| best(call, values, Ordering::Greater)),
        of(LEAST_OF, |call, values| best(call, values, Ordering::Less)),
    ]
}

/// The value that is so compared with all others; NULLs are none.
fn best(call: &Call<'_>, values: &[Value], wanted: Ordering) -> keyspan_model::Result<Value> {
    let mut best: Option<&Value> = None;
    for value in values.iter().filter(|value| !value.is_null()) {
        let better = match best {
            Some(best) => compared(call.result, value, best)? == wanted,
            None => true,
        };
        if better {
            best = Some(value);
        }
    }
    Ok(best.cloned().unwrap_or(Value::Null))
}

/// How values of one type compare, as Postgres has it.
pub(super) fn compared(ty: ColumnType, a: &Value, b: &Value) -> keyspan_model::Result<Ordering> {
    Ok(match ty {
        ColumnType::Jsonb => tree(a)?.order().cmp(&tree(b)?.order()),
        ty => Value::compare_as(ty, a, b),
    })
}

/// One of the two.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    signature: Signature,
}

static LEAST: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(AggregateUDF::from(Extreme::new(false))));
static GREATEST: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(AggregateUDF::from(Extreme::new(true))));

/// `min` or `max` over `double`, `real` and intervals; `None` for other functions and types.
pub fn of_type(name: &str, ty: ColumnType) -> Option<Arc<AggregateUDF>> {
    if !matches!(ty, ColumnType::Double | ColumnType::Real | ColumnType::Duration) {
        return None;
    }
    match name {
        "min" => Some(LEAST.clone()),
        "max" => Some(GREATEST.clone()),
        _ => None,
    }
}

/// Whether a function is one of those.
pub fn is_own(function: &AggregateUDF) -> bool {
    function.inner().is::<Extreme>()
}

/// The order in which Postgres compares values of a type.
trait Ranked: Copy {
    /// Whether it is the greater one.
    fn exceeds(self, other: Self) -> bool;
}

impl Ranked for f32 {
    fn exceeds(self, other: f32) -> bool {
        self > other || self.is_nan()
    }
}

impl Ranked for f64 {
    fn exceeds(self, other: f64) -> bool {
        self > other || self.is_nan()
    }
}

impl Ranked for IntervalMonthDayNano {
    fn exceeds(self, other: IntervalMonthDayNano) -> bool {
        let length = |own: IntervalMonthDayNano| interval_length(own.months, own.days, own.nanoseconds);
        length(self) > length(other)
    }
}

/// Whether the second takes the place of the first.
fn precedes<T: Ranked>(greatest: bool, own: T, other: T) -> bool {
    if greatest { other.exceeds(own) } else { own.exceeds(other) }
}

impl Extreme {
    fn new(greatest: bool) -> Extreme {
        let types = vec![DataType::Float64, DataType::Float32, DataType::Interval(IntervalUnit::MonthDayNano)];
        Extreme { greatest, signature: Signature::uniform(1, types, Volatility::Immutable) }
    }

    fn groups<T>(&self, ty: &DataType, first: T::Native) -> Box<dyn GroupsAccumulator>
    where
        T: ArrowPrimitiveType + Send,
        T::Native: Ranked,
    {
        let greatest = self.greatest;
        let join = move |own: &mut T::Native, other: T::Native| {
            if precedes(greatest, *own, other) {
                *own = other;
            }
        };
        Box::new(PrimitiveGroupsAccumulator::<T, _>::new(ty, join).with_starting_value(first))
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.greatest { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| DataFusionError::Internal("an extreme of nothing".into()))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let found = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(One { greatest: self.greatest, found }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<arrow::datatypes::FieldRef>> {
        Ok(vec![Arc::new(args.return_field.as_ref().clone().with_name(args.name).with_nullable(true))])
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        // The first value of any kind takes its place.
        let first = if self.greatest { f64::NEG_INFINITY } else { f64::NAN };
        Ok(match args.return_field.data_type() {
            ty @ DataType::Interval(_) => {
                let first = match self.greatest {
                    true => IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN),
                    false => IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX),
                };
                self.groups::<IntervalMonthDayNanoType>(ty, first)
            }
            DataType::Float32 => self.groups::<Float32Type>(&DataType::Float32, first as f32),
            _ => self.groups::<Float64Type>(&DataType::Float64, first),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The extreme of one group.
#[derive(Debug)]
struct One {
    greatest: bool,
    found: ScalarValue,
}

impl One {
    fn best<T: ArrowPrimitiveType>(&self, own: Option<T::Native>, array: &ArrayRef) -> Option<T::Native>
    where
        T::Native: Ranked,
    {
        let join = |own: Option<T::Native>, other: T::Native| match own {
            Some(own) if !precedes(self.greatest, own, other) => Some(own),
            _ => Some(other),
        };
        array.as_primitive::<T>().iter().flatten().fold(own, join)
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.found = match self.found {
            ScalarValue::Float32(own) => ScalarValue::Float32(self.best::<Float32Type>(own, &values[0])),
            ScalarValue::Float64(own) => ScalarValue::Float64(self.best::<Float64Type>(own, &values[0])),
            ScalarValue::IntervalMonthDayNano(own) => {
                ScalarValue::IntervalMonthDayNano(self.best::<IntervalMonthDayNanoType>(own, &values[0]))
            }
            ref other => return Err(DataFusionError::Internal(format!("an extreme of {}", other.data_type()))),
        };
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.found.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.found.clone()])
    }

    fn size(&self) -> usize {
        size_of::<One>()
    }
}
