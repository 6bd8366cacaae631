//! `information_schema._pg_expandarray`: each element of a list with its number from 1, as rows of `x` and `n`.
//!
//! The function here gives the list of these rows; [`crate::semantics::expand`] puts `unnest` around it. Another one gives
//! the numbers alone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, ListArray, StructArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::list::{ListFunction, lists, missing};

/// Stands for the function where `unnest` is around it.
pub const NUMBERED: &str = "numbered_elements";

/// Gives the numbers of a list's elements, from 1: WITH ORDINALITY.
pub const NUMBERS: &str = "element_numbers";

/// The functions.
pub fn functions() -> [ListFunction; 2] {
    [ListFunction::new(NUMBERED, 1, returns, numbered), ListFunction::new(NUMBERS, 1, returns_numbers, numbers)]
}

fn returns_numbers(name: &'static str, arguments: &[FieldRef]) -> Result<Field> {
    match arguments.first().map(|list| list.data_type()) {
        Some(DataType::List(_) | DataType::Null) => Ok(Field::new(name, DataType::List(number_item()), true)),
        _ => missing(name, arguments),
    }
}

fn number_item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int64, true))
}

fn numbers(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    if array.data_type() == &DataType::Null {
        return Ok(ColumnarValue::Array(new_null_array(&DataType::List(number_item()), array.len())));
    }
    let lists = lists(&array)?;
    let lengths: Vec<i32> = (0..lists.len()).map(|row| lists.value_length(row)).collect();
    let numbers: Int64Array = lengths.iter().flat_map(|length| 1..=i64::from(*length)).map(Some).collect();
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| *length as usize));
    Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(
        number_item(),
        offsets,
        Arc::new(numbers),
        lists.nulls().cloned(),
    )?)))
}

fn returns(name: &'static str, arguments: &[FieldRef]) -> Result<Field> {
    match arguments.first().map(|list| list.data_type()) {
        Some(DataType::List(item)) => Ok(Field::new(name, DataType::new_list(row_type(item), true), true)),
        _ => missing("_pg_expandarray", arguments),
    }
}

fn fields(item: &Field) -> Fields {
    Fields::from(vec![
        Field::new("x", element_type(item.data_type()).clone(), true),
        Field::new("n", DataType::Int32, true),
    ])
}

fn row_type(item: &Field) -> DataType {
    DataType::Struct(fields(item))
}

/// A list of lists is a list of more dimensions, and has the same elements.
fn element_type(ty: &DataType) -> &DataType {
    match ty {
        DataType::List(item) => element_type(item.data_type()),
        other => other,
    }
}

fn numbered(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    let lists = lists(&array)?;
    let (first, last) = (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
    let items = lists.values().slice(first, last - first);
    // One subscript leads to no element of a list of several dimensions.
    let items: ArrayRef = match items.data_type() {
        DataType::List(item) => new_null_array(element_type(item.data_type()), items.len()),
        _ => items,
    };
    let lengths: Vec<i32> = (0..lists.len()).map(|row| lists.value_length(row)).collect();
    let numbers: Int32Array = lengths.iter().flat_map(|length| 1..=*length).map(Some).collect();
    let DataType::List(item) = array.data_type() else { return missing("_pg_expandarray", &args.arg_fields) };
    let fields = fields(item);
    let rows = StructArray::try_new(fields.clone(), vec![items, Arc::new(numbers)], None)?;
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| *length as usize));
    Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(item, offsets, Arc::new(rows), lists.nulls().cloned())?)))
}
