//! Arithmetic over batches: Arrow's checked kernels where they give Postgres' answers, else row by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Float64Array};
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

/// Whether a float kernel's result may be Postgres' error: an infinity or, after a division or product, a zero.
fn suspicious(op: Op, array: &ArrayRef) -> bool {
    let Some(values) = array.as_primitive_opt::<Float64Type>() else { return false };
    let odd = |value: f64| !value.is_finite() || (value == 0.0 && matches!(op, Op::Multiply | Op::Divide));
    let any = |values: &Float64Array| values.iter().flatten().any(odd);
    any(values)
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
            Some(Ok(array)) if !suspicious(self.op, &array) => Ok(ColumnarValue::Array(array)),
            Some(Err(error)) => Err(external(error_of(error, self.result))),
            _ => Ok(ColumnarValue::Array(self.rows(&args.args, args.number_rows)?)),
        }
    }
}
