//! A row as text, as PostgreSQL writes it: `(1,"a b",)`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use keyspan_model::text::array::array_text;
use keyspan_model::{ColumnType, Error, value_at};

use super::list::ListFunction;
use super::overload::zone_of;
use crate::error::external;
use crate::types::Zone;
use crate::types::cast::output_text;

/// A row as text.
pub const ROW_TEXT: &str = "row_text";

/// The function.
pub fn function() -> ListFunction {
    ListFunction::new(ROW_TEXT, 1, |name, _| Ok(ColumnType::Text.field(name, true)), rows_as_text).stable()
}

fn rows_as_text(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    let zone = zone_of(&args.config_options)?;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    for row in 0..array.len() {
        builder.append_option(output(&args.arg_fields[0], &array, row, zone)?);
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

/// The text of a row, or of a field within it; none for NULL.
fn output(field: &Field, array: &ArrayRef, row: usize, zone: Zone) -> Result<Option<String>> {
    if array.is_null(row) || *field.data_type() == DataType::Null {
        return Ok(None);
    }
    if let Some(ty) = ColumnType::of_field(field) {
        let value = value_at(array.as_ref(), row, ty).map_err(external)?;
        return Ok(Some(output_text(&value, ty, zone)));
    }
    match field.data_type() {
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let each = columns.map(|(field, column)| {
                Ok(output(field, column, row, zone)?.map_or_else(String::new, |text| quoted(&text)))
            });
            Ok(Some(format!("({})", each.collect::<Result<Vec<String>>>()?.join(","))))
        }
        DataType::List(item) => {
            let items = array.as_list::<i32>().value(row);
            let each = (0..items.len()).map(|place| output(item, &items, place, zone));
            Ok(Some(array_text(each.collect::<Result<Vec<Option<String>>>>()?)))
        }
        other => Err(external(Error::not_supported(format!("{other} as text is not supported")))),
    }
}

/// A field's text within the row's.
fn quoted(text: &str) -> String {
    let special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace();
    if !text.is_empty() && !text.contains(special) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
}
