//! A row as bytes, which are equal where its values have the same Arrow form. `count(DISTINCT (a, b))` counts these:
//! DataFusion would keep the rows one by one, each with the whole batch that it came with, and count the memory of all.

use std::sync::Arc;

use arrow::array::{Array, BinaryBuilder};
use arrow::datatypes::{DataType, Field};
use arrow::row::{RowConverter, SortField};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::list::{ListFunction, missing};

/// A row as bytes.
pub const ROW_KEY: &str = "row_key";

/// The function.
pub fn function() -> ListFunction {
    let returns = |name: &'static str, args: &[_]| match args {
        [row] if is_row(row) => Ok(Field::new(name, DataType::Binary, true)),
        args => missing(name, args),
    };
    ListFunction::new(ROW_KEY, 1, returns, row_keys)
}

fn is_row(field: &arrow::datatypes::FieldRef) -> bool {
    matches!(field.data_type(), DataType::Struct(_))
}

/// Whether rows of this type have such bytes.
pub fn has_key(ty: &DataType) -> bool {
    matches!(ty, DataType::Struct(_)) && RowConverter::supports_fields(&[SortField::new(ty.clone())])
}

fn row_keys(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let rows = args.args[0].to_array(args.number_rows)?;
    let converter = RowConverter::new(vec![SortField::new(rows.data_type().clone())])?;
    let keys = converter.convert_columns(std::slice::from_ref(&rows))?;
    let mut builder = BinaryBuilder::with_capacity(rows.len(), keys.size());
    for (place, key) in keys.iter().enumerate() {
        builder.append_option(rows.is_valid(place).then_some(key.as_ref()));
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}
