//! A column of doubles beside a constant: Arrow would first write all of them anew, with one zero and one NaN.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Float64Type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

/// `column op constant`; the constant is a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    op: Operator,
    constant: f64,
}

impl Comparison {
    /// Of a column and a constant, on either side.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Comparison> {
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let (column, constant, op) = match binary.left().is::<Column>() {
            true => (binary.left(), binary.right(), *binary.op()),
            false => (binary.right(), binary.left(), binary.op().swap()?),
        };
        let ScalarValue::Float64(Some(constant)) = *constant.downcast_ref::<Literal>()?.value() else { return None };
        let compares = matches!(
            op,
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        (compares && column.is::<Column>() && !constant.is_nan()).then_some(Comparison { op, constant })
    }

    /// The results for doubles; `None` for arrays of another kind.
    pub(super) fn of_doubles(&self, array: &ArrayRef) -> Option<ArrayRef> {
        let doubles = array.as_primitive_opt::<Float64Type>()?;
        let constant = self.constant;
        // NaN is greater than any number, as in PostgreSQL.
        let found = match self.op {
            Operator::Eq => rows(doubles, |value| value == constant),
            Operator::NotEq => rows(doubles, |value| value != constant),
            Operator::Lt => rows(doubles, |value| value < constant),
            Operator::LtEq => rows(doubles, |value| value <= constant),
            Operator::Gt => rows(doubles, |value| (value > constant) | value.is_nan()),
            Operator::GtEq => rows(doubles, |value| (value >= constant) | value.is_nan()),
            _ => return None,
        };
        Some(Arc::new(BooleanArray::new(found, doubles.nulls().cloned())))
    }
}

/// A loop of its own for each comparison.
fn rows(doubles: &Float64Array, is: impl Fn(f64) -> bool) -> BooleanBuffer {
    let values: &[f64] = doubles.values();
    BooleanBuffer::collect_bool(values.len(), |row| is(values[row]))
}
