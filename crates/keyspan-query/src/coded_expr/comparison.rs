//! A column of numbers or times beside a constant. Arrow would first write all doubles anew, with one zero and one NaN, and
//! takes several times as long for whole numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Date32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

/// `column op constant`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    op: Operator,
    constant: Constant,
}

#[derive(Clone, Copy, Debug)]
enum Constant {
    /// A number.
    Double(f64),
    TinyInt(i8),
    SmallInt(i16),
    Int(i32),
    BigInt(i64),
    Date(i32),
    /// In any zone.
    Timestamp(i64),
}

impl Comparison {
    /// Of a column and a constant, on either side.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Comparison> {
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let (column, constant, op) = match binary.left().is::<Column>() {
            true => (binary.left(), binary.right(), *binary.op()),
            false => (binary.right(), binary.left(), binary.op().swap()?),
        };
        let constant = match *constant.downcast_ref::<Literal>()?.value() {
            ScalarValue::Float64(Some(number)) if !number.is_nan() => Constant::Double(number),
            ScalarValue::Int8(Some(number)) => Constant::TinyInt(number),
            ScalarValue::Int16(Some(number)) => Constant::SmallInt(number),
            ScalarValue::Int32(Some(number)) => Constant::Int(number),
            ScalarValue::Int64(Some(number)) => Constant::BigInt(number),
            ScalarValue::Date32(Some(days)) => Constant::Date(days),
            ScalarValue::TimestampMicrosecond(Some(time), _) => Constant::Timestamp(time),
            _ => return None,
        };
        let compares = matches!(
            op,
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        (compares && column.is::<Column>()).then_some(Comparison { op, constant })
    }

    /// The results; `None` for arrays of another type than the constant.
    pub(super) fn of_array(&self, array: &ArrayRef) -> Option<ArrayRef> {
        match self.constant {
            // NaN is greater than any number, as in PostgreSQL.
            Constant::Double(number) => self.beside::<Float64Type>(array, number, |a, b| (a > b) | a.is_nan()),
            Constant::TinyInt(number) => self.beside::<Int8Type>(array, number, |a, b| a > b),
            Constant::SmallInt(number) => self.beside::<Int16Type>(array, number, |a, b| a > b),
            Constant::Int(number) => self.beside::<Int32Type>(array, number, |a, b| a > b),
            Constant::BigInt(number) => self.beside::<Int64Type>(array, number, |a, b| a > b),
            Constant::Date(days) => self.beside::<Date32Type>(array, days, |a, b| a > b),
            Constant::Timestamp(time) => self.beside::<TimestampMicrosecondType>(array, time, |a, b| a > b),
        }
    }

    /// `above`: whether a value is greater than the constant.
    fn beside<T: ArrowPrimitiveType<Native: PartialOrd>>(
        &self,
        array: &ArrayRef,
        constant: T::Native,
        above: impl Fn(T::Native, T::Native) -> bool,
    ) -> Option<ArrayRef> {
        let numbers = array.as_primitive_opt::<T>()?;
        let found = match self.op {
            Operator::Eq => rows(numbers, |value| value == constant),
            Operator::NotEq => rows(numbers, |value| value != constant),
            Operator::Lt => rows(numbers, |value| value < constant),
            Operator::LtEq => rows(numbers, |value| value <= constant),
            Operator::Gt => rows(numbers, |value| above(value, constant)),
            Operator::GtEq => rows(numbers, |value| above(value, constant) | (value == constant)),
            _ => return None,
        };
        Some(Arc::new(BooleanArray::new(found, numbers.nulls().cloned())))
    }
}

/// A loop of its own for each comparison.
fn rows<T: ArrowPrimitiveType>(numbers: &PrimitiveArray<T>, is: impl Fn(T::Native) -> bool) -> BooleanBuffer {
    let values: &[T::Native] = numbers.values();
    BooleanBuffer::collect_bool(values.len(), |row| is(values[row]))
}
