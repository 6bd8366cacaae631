//! Whole numbers that an expression only widens, `CAST(small AS bigint)`, as a join of columns of two types has them.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};

/// What an expression widens; the expression itself, if it does not.
///
/// # Errors
/// Those of an expression that is none over this schema.
pub fn unwidened<'e>(expr: &'e Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<&'e Arc<dyn PhysicalExpr>> {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return Ok(expr) };
    let (from, to) = (cast.expr().data_type(schema)?, cast.cast_type());
    let whole = from.is_signed_integer() && to.is_signed_integer();
    Ok(if whole && from.primitive_width() <= to.primitive_width() { cast.expr() } else { expr })
}

/// The place of the column that an expression is or widens.
pub fn column_of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    unwidened(expr, schema).ok()?.downcast_ref::<Column>().map(Column::index)
}
