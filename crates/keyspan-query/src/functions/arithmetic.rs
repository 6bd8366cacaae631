//! Arithmetic over batches: Arrow's checked kernels where they give Postgres' answers, else row by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use keyspan_model::{ColumnBuilder, ColumnType, Error, value_at};

use crate::error::external;
use crate::types::arithmetic::{Op, apply, division_by_zero, out_of_range};
use crate::types::field_of;

/// An arithmetic operator with its result's type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ArithmeticFunction {
    op: Op,
    result: ColumnType,
    signature: Signature,
}

impl ArithmeticFunction {
    /// The operator on two expressions of types that belong to it.
    pub fn call(op: Op, left: Expr, right: Expr, result: ColumnType) -> Expr {
        let function = ArithmeticFunction { op, result, signature: Signature::any(2, Volatility::Immutable) };
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![left, right]))
    }

    /// The whole batch at once; `None` where rows must be looked at one by one.
    fn kernel(&self, left: &dyn Datum, right: &dyn Datum) -> Option<Result<ArrayRef, ArrowError>> {
        if matches!(self.result, ColumnType::Decimal { .. } | ColumnType::Real) {
            return None;
        }
        Some(match self.op {
            Op::Add => numeric::add(left, right),
            Op::Subtract => numeric::sub(left, right),
            Op::Multiply => numeric::mul(left, right),
            Op::Divide => numeric::div(left, right),
            Op::Modulo => numeric::rem(left, right),
            _ => return None,
        })
    }

    fn rows(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let sides = [&args[0], &args[1]].map(|arg| match arg {
            ColumnarValue::Array(array) => (array.clone(), true),
            ColumnarValue::Scalar(scalar) => {
                (scalar.to_array_of_size(1).unwrap_or_else(|_| arrow::array::new_null_array(&DataType::Null, 1)), false)
            }
        });
        let types = sides.iter().map(|(array, _)| ColumnType::of_arrow(array.data_type())).collect::<Option<Vec<_>>>();
        let Some(types) = types else {
            return Ok(arrow::array::new_null_array(&self.result.arrow(), rows));
        };
        let mut builder = ColumnBuilder::with_capacity(self.result, rows);
        for row in 0..rows {
            let at = |side: usize| {
                let (array, each) = &sides[side];
                value_at(array.as_ref(), if *each { row } else { 0 }, types[side]).map_err(external)
            };
            let value = apply(self.op, &at(0)?, &at(1)?, self.result).map_err(external)?;
            builder.append(&value).map_err(external)?;
        }
        Ok(builder.finish())
    }
}

/// Whether a float kernel's result may be Postgres' error: an infinity or, after a division or product of other numbers, a
/// zero.
fn suspicious(op: Op, args: &[ColumnarValue], array: &ArrayRef) -> bool {
    let Some(results) = array.as_primitive_opt::<Float64Type>() else { return false };
    let rows = results.len();
    match [Floats::of(&args[0], rows), Floats::of(&args[1], rows)] {
        [Floats::Each(left), Floats::Each(right)] => are_odd(op, results, |row| left[row], |row| right[row]),
        [Floats::Each(left), Floats::One(right)] => are_odd(op, results, |row| left[row], |_| right),
        [Floats::One(left), Floats::Each(right)] => are_odd(op, results, |_| left, |row| right[row]),
        [Floats::One(left), Floats::One(right)] => are_odd(op, results, |_| left, |_| right),
    }
}

/// An operand that a kernel has taken.
enum Floats<'a> {
    Each(&'a [f64]),
    One(f64),
}

impl<'a> Floats<'a> {
    fn of(operand: &'a ColumnarValue, rows: usize) -> Floats<'a> {
        match operand {
            ColumnarValue::Array(array) => match array.as_primitive_opt::<Float64Type>() {
                Some(array) => Floats::Each(&array.values()[..rows]),
                None => Floats::One(0.0),
            },
            ColumnarValue::Scalar(ScalarValue::Float64(Some(value))) => Floats::One(*value),
            ColumnarValue::Scalar(_) => Floats::One(0.0),
        }
    }
}

/// A loop without branches, which looks at several rows at once.
fn are_odd(op: Op, results: &Float64Array, left: impl Fn(usize) -> f64, right: impl Fn(usize) -> f64) -> bool {
    let (values, may_vanish, divides) = (results.values(), matches!(op, Op::Multiply | Op::Divide), op == Op::Divide);
    let odd = |row: usize| {
        let vanished = (values[row] == 0.0) & (left(row) != 0.0) & ((right(row) != 0.0) | divides);
        !values[row].is_finite() | (vanished & may_vanish)
    };
    match results.nulls() {
        None => (0..values.len()).fold(false, |any, row| any | odd(row)),
        Some(nulls) => (0..values.len()).fold(false, |any, row| any | (odd(row) & nulls.is_valid(row))),
    }
}

/// Sums, differences and products of numerics whose digits all stand in the result; `None` where one overflows.
fn decimals(op: Op, args: &[ColumnarValue], result: ColumnType) -> Option<ArrayRef> {
    let ColumnType::Decimal { scale: wanted, .. } = result else { return None };
    let sides = [Digits::of(&args[0])?, Digits::of(&args[1])?];
    let scale = match op {
        Op::Add | Op::Subtract => sides[0].scale.max(sides[1].scale),
        Op::Multiply => sides[0].scale.checked_add(sides[1].scale)?,
        _ => return None,
    };
    let unit = |side: &Digits<'_>| match op {
        Op::Multiply => Some(1),
        _ => 10_i128.checked_pow(u32::try_from(scale - side.scale).ok()?),
    };
    if wanted != scale {
        return None;
    }
    let units = [unit(&sides[0])?, unit(&sides[1])?];
    let rows = sides.iter().find_map(|side| side.rows())?;
    let nulls = NullBuffer::union(sides[0].nulls(), sides[1].nulls());
    let value = |row: usize| -> Option<i128> {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Some(0);
        }
        let (a, b) = (sides[0].at(row).checked_mul(units[0])?, sides[1].at(row).checked_mul(units[1])?);
        let value = match op {
            Op::Add => a.checked_add(b),
            Op::Subtract => a.checked_sub(b),
            _ => a.checked_mul(b),
        };
        value.filter(|value| value.unsigned_abs() < 10_u128.pow(38))
    };
    let values = (0..rows).map(value).collect::<Option<Vec<i128>>>()?;
    Some(Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(result.arrow())))
}

/// A numeric operand.
struct Digits<'a> {
    each: std::result::Result<&'a Decimal128Array, i128>,
    scale: i8,
}

impl<'a> Digits<'a> {
    fn of(arg: &'a ColumnarValue) -> Option<Digits<'a>> {
        match arg {
            ColumnarValue::Array(array) => {
                let array: &Decimal128Array = array.as_primitive_opt()?;
                Some(Digits { each: Ok(array), scale: array.scale() })
            }
            ColumnarValue::Scalar(ScalarValue::Decimal128(Some(digits), _, scale)) => {
                Some(Digits { each: Err(*digits), scale: *scale })
            }
            ColumnarValue::Scalar(_) => None,
        }
    }

    fn rows(&self) -> Option<usize> {
        self.each.as_ref().ok().map(|array| array.len())
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        self.each.as_ref().ok().and_then(|array| array.nulls())
    }

    fn at(&self, row: usize) -> i128 {
        match self.each {
            Ok(array) => array.value(row),
            Err(digits) => digits,
        }
    }
}

fn error_of(error: ArrowError, ty: ColumnType) -> Error {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(_) => out_of_range(ty),
        other => Error::internal(other.to_string()),
    }
}

impl ScalarUDFImpl for ArithmeticFunction {
    fn name(&self) -> &str {
        self.op.symbol()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.arrow())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(field_of(self.result, self.op.symbol(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if constant {
            let array = self.rows(&args.args, 1)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        if let Some(array) = decimals(self.op, &args.args, self.result) {
            return Ok(ColumnarValue::Array(array));
        }
        let result = match (&args.args[0], &args.args[1]) {
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => self.kernel(left, right),
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) if !right.is_null() => {
                self.kernel(left, &right.to_scalar()?)
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) if !left.is_null() => {
                self.kernel(&left.to_scalar()?, right)
            }
            _ => None,
        };
        match result {
            Some(Ok(array)) if !suspicious(self.op, &args.args, &array) => Ok(ColumnarValue::Array(array)),
            Some(Err(error)) => Err(external(error_of(error, self.result))),
            _ => Ok(ColumnarValue::Array(self.rows(&args.args, args.number_rows)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspan_model::{Value, array_of};

    use super::*;

    #[test]
    fn numerics_of_whole_arrays_are_those_of_their_rows() {
        let decimal = |scale| ColumnType::Decimal { precision: 38, scale };
        let large = 10_i128.pow(37);
        let digits = [0, 1, -1, 15, -995, 123_456_789, large, -large, large * 9];
        for (op, scales, wanted) in [
            (Op::Add, (2, 2), 2),
            (Op::Add, (2, 4), 4),
            (Op::Subtract, (6, 0), 6),
            (Op::Multiply, (2, 2), 4),
            (Op::Multiply, (0, 3), 3),
        ] {
            for count in [6, digits.len()] {
                let pairs = digits[..count].iter().flat_map(|a| digits[..count].iter().map(move |b| (*a, *b)));
                let (left, right): (Vec<Value>, Vec<Value>) =
                    pairs.map(|(a, b)| (Value::Decimal(a, scales.0), Value::Decimal(b, scales.1))).unzip();
                let with_null = |mut values: Vec<Value>, scale| {
                    values[3] = Value::Null;
                    ColumnarValue::Array(array_of(decimal(scale), &values).expect("an array"))
                };
                let args = [with_null(left, scales.0), with_null(right, scales.1)];
                let rows = count * count;
                let function = ArithmeticFunction {
                    op,
                    result: decimal(wanted),
                    signature: Signature::any(2, Volatility::Immutable),
                };
                match decimals(op, &args, decimal(wanted)) {
                    Some(whole) => assert_eq!(&whole, &function.rows(&args, rows).expect("no overflow"), "{op:?}"),
                    None => assert!(count > 6, "{op:?} {scales:?}"),
                }
            }
        }
    }

    #[test]
    fn zeros_are_looked_at_where_numbers_may_have_vanished() {
        let array = |values: &[f64]| ColumnarValue::Array(Arc::new(Float64Array::from(values.to_vec())));
        let result = |values: &[f64]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let five = ColumnarValue::Scalar(ScalarValue::Float64(Some(5.0)));
        assert!(!suspicious(Op::Divide, &[array(&[0.0, 10.0]), five.clone()], &result(&[0.0, 2.0])));
        assert!(suspicious(Op::Divide, &[array(&[1e-320, 10.0]), five.clone()], &result(&[0.0, 2.0])));
        assert!(!suspicious(Op::Multiply, &[array(&[0.0]), five.clone()], &result(&[0.0])));
        assert!(suspicious(Op::Multiply, &[array(&[1e-320]), five], &result(&[0.0])));
    }
}
