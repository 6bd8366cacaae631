//! Lists, rows and maps as JSON.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use keyspan_model::ColumnType;

use crate::functions::json::OF_VALUE;
use crate::functions::{list_function, value_call};
use crate::types::{Ty, type_of};

/// A family's map is `jsonb` to operators; its type is told, too.
pub fn without_maps(expr: Expr, schema: &DFSchema) -> Result<(Expr, Ty)> {
    match type_of(&expr, schema)? {
        Ty::Other(DataType::Map(..)) => Ok((json_of_nested(expr)?, Ty::Known(ColumnType::Jsonb))),
        ty => Ok((expr, ty)),
    }
}

/// A list, a row or a map as `jsonb`.
pub fn json_of_nested(value: Expr) -> Result<Expr> {
    value_call("to_jsonb", vec![json_of(OF_VALUE, value)], &[ColumnType::Json])
}

/// A list or a row as JSON, by one of the functions that make it.
pub fn json_of(function: &str, value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(list_function(function), vec![value]))
}
