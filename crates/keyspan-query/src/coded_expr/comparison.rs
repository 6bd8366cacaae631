//! A column of doubles beside a constant: Arrow would first write all of them anew, with one zero and one NaN.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
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
        let (values, constant): (&[f64], f64) = (doubles.values(), self.constant);
        let rows = |is: fn(f64, f64) -> bool| {
            let found = BooleanBuffer::collect_bool(values.len(), |row| is(values[row], constant));
            Some(Arc::new(BooleanArray::new(found, doubles.nulls().cloned())) as ArrayRef)
        };
        // NaN is greater than any number, as in PostgreSQL.
        match self.op {
            Operator::Eq => rows(|value, constant| value == constant),
            Operator::NotEq => rows(|value, constant| value != constant),
            Operator::Lt => rows(|value, constant| value < constant),
            Operator::LtEq => rows(|value, constant| value <= constant),
            Operator::Gt => rows(|value, constant| !(value <= constant)),
            Operator::GtEq => rows(|value, constant| !(value < constant)),
            _ => None,
        }
    }
}
