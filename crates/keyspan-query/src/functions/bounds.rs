//! `array_lower`, `array_upper`: the first and the last subscript of a dimension.
//!
//! Subscripts begin with 1; those of `int2vector` and `oidvector`, which only system tables have, with 0, as in Postgres.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray};
use arrow::datatypes::{Field, FieldRef, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use keyspan_model::ColumnType;
use keyspan_model::types::TYPE_KEY;

use super::list::{ListFunction, is_integer, is_list, lists, missing};

/// The functions.
pub fn functions() -> [ListFunction; 2] {
    [
        ListFunction::new("array_lower", 2, returns, |args| bounds(args, |bounds| bounds.lower)),
        ListFunction::new("array_upper", 2, returns, |args| bounds(args, |bounds| bounds.upper)),
    ]
}

/// Whether the subscripts of this list begin with 0.
pub fn counts_from_zero(field: &Field) -> bool {
    matches!(field.metadata().get(TYPE_KEY).map(String::as_str), Some("int2vector" | "oidvector"))
}

fn returns(name: &'static str, arguments: &[FieldRef]) -> Result<Field> {
    match arguments {
        [list, dimension] if is_list(list) && is_integer(dimension) => Ok(ColumnType::Int.field(name, true)),
        _ => missing(name, arguments),
    }
}

struct Bounds {
    lower: i32,
    upper: i32,
}

fn bounds(args: &ScalarFunctionArgs, which: fn(&Bounds) -> i32) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    if array.data_type().is_null() {
        return Ok(ColumnarValue::Array(Arc::new(Int32Array::new_null(args.number_rows))));
    }
    let dimensions = args.args[1].to_array(args.number_rows)?;
    let dimensions = arrow::compute::cast(&dimensions, &arrow::datatypes::DataType::Int64)?;
    let dimensions = dimensions.as_primitive::<Int64Type>();
    let (lists, from_zero) = (lists(&array)?, counts_from_zero(&args.arg_fields[0]));
    let of_row = |row: usize| {
        let asked = lists.is_valid(row) && dimensions.is_valid(row);
        let found = asked.then(|| of_dimension(lists, row, dimensions.value(row), from_zero)).flatten();
        found.as_ref().map(which)
    };
    let found: Int32Array = (0..args.number_rows).map(of_row).collect();
    Ok(ColumnarValue::Array(Arc::new(found)))
}

/// The bounds of one dimension, from 1, of the list in this row. An empty list has no dimensions; a vector has one.
fn of_dimension(lists: &ListArray, row: usize, dimension: i64, from_zero: bool) -> Option<Bounds> {
    let mut list: ArrayRef = lists.value(row);
    for _ in 1..dimension {
        let inner = list.as_list_opt::<i32>()?;
        // Lists within a list are of one length.
        list = (!inner.is_empty()).then(|| inner.value(0))?;
    }
    let (length, lower) = (i32::try_from(list.len()).ok()?, i32::from(!from_zero));
    let has_dimension = dimension >= 1 && (length > 0 || from_zero);
    has_dimension.then_some(Bounds { lower, upper: length + lower - 1 })
}
