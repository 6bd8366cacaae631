//! Assignment casts of whole arrays.
//!
//! Rule: the same values and the same errors as [`Value::cast`] gives row by row; Arrow's kernels are used only
//! where they cannot differ from it, and where they fail the rows are cast one by one for the error's sake.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, TimestampMicrosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{self as dt, DataType, TimeUnit};

use super::value::{to_micros, value_at};
use super::{ColumnBuilder, canonical_floats, vector};
use crate::error::{Error, ErrorKind, Result};
use crate::json::checked_json;
use crate::text::{checked_ascii, checked_timeuuid};
use crate::types::ColumnType;
use crate::value::Value;

/// The array as a column of type `to` stores it: exactly its Arrow type, floats in their one form, texts checked.
///
/// Errors as [`Value::cast`].
pub fn coerce(array: &ArrayRef, to: ColumnType) -> Result<ArrayRef> {
    let wanted = to.arrow();
    if let Some(dimension) = to.dimension()
        && let Some(vectors) = vector::coerced(array, dimension)
    {
        return vectors;
    }
    // Every text takes jsonb's form, every nested value is checked.
    if (to == ColumnType::Jsonb || to.as_nested().is_some()) && !matches!(array.data_type(), DataType::Null) {
        return row_by_row(array, to);
    }
    if *array.data_type() == wanted && !matches!(to, ColumnType::Inet | ColumnType::List(_)) {
        check_content(array, to)?;
        return Ok(canonical_floats(array));
    }
    if let (Some(lists), Some(element)) = (array.as_list_opt::<i32>(), to.element()) {
        return match coerce_items(lists, element) {
            Ok(lists) => Ok(lists),
            Err(_) => row_by_row(array, to),
        };
    }
    if let (DataType::Timestamp(unit, _), ColumnType::Timestamp | ColumnType::LocalTimestamp) = (array.data_type(), to)
    {
        return timestamps(array, *unit, &wanted);
    }
    if kernel_agrees(array.data_type(), &wanted) && !matches!(to, ColumnType::Inet) {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        if let Ok(cast) = cast_with_options(array, &wanted, &options) {
            check_content(&cast, to)?;
            return Ok(canonical_floats(&cast));
        }
    }
    row_by_row(array, to)
}

/// Casts the items of all lists at once; those of null lists, too, whatever they are.
fn coerce_items(lists: &ListArray, element: ColumnType) -> Result<ArrayRef> {
    let items = coerce(lists.values(), element)?;
    let item = Arc::new(dt::Field::new_list_field(element.arrow(), true));
    Ok(Arc::new(ListArray::try_new(item, lists.offsets().clone(), items, lists.nulls().cloned())?))
}

fn row_by_row(array: &ArrayRef, to: ColumnType) -> Result<ArrayRef> {
    let mut builder = ColumnBuilder::with_capacity(to, array.len());
    for row in 0..array.len() {
        let mut value = value_at(array.as_ref(), row, to)?;
        if to == ColumnType::Jsonb || to.as_nested().is_some() {
            value = value.cast(to)?;
        }
        match (&value, to) {
            (Value::Text(text), ColumnType::Ascii) => checked_ascii(text).map(str::len)?,
            (Value::Text(text), ColumnType::Json) => checked_json(text).map(str::len)?,
            _ => 0,
        };
        builder.append(&value)?;
    }
    Ok(builder.finish())
}

/// Types that share an Arrow type with wider ones: each value must be one of theirs.
fn check_content(array: &ArrayRef, to: ColumnType) -> Result<()> {
    let rows = || (0..array.len()).filter(|row| array.is_valid(*row));
    match to {
        ColumnType::Ascii if !array.as_string_view().is_ascii() => {
            rows().try_for_each(|row| checked_ascii(array.as_string_view().value(row)).map(|_| ()))
        }
        ColumnType::Json => rows().try_for_each(|row| checked_json(array.as_string_view().value(row)).map(|_| ())),
        ColumnType::TimeUuid => rows().try_for_each(|row| {
            let bytes = array.as_fixed_size_binary().value(row);
            let uuid = uuid::Uuid::from_slice(bytes).map_err(|error| Error::internal(error.to_string()))?;
            checked_timeuuid(uuid).map(|_| ())
        }),
        _ => Ok(()),
    }
}

fn timestamps(array: &ArrayRef, unit: TimeUnit, wanted: &DataType) -> Result<ArrayRef> {
    fn micros<T>(array: &ArrayRef, unit: TimeUnit) -> Result<TimestampMicrosecondArray>
    where
        T: dt::ArrowPrimitiveType<Native = i64>,
    {
        array.as_primitive::<T>().try_unary(|value| to_micros(value, unit))
    }
    let converted = match unit {
        TimeUnit::Second => micros::<dt::TimestampSecondType>(array, unit),
        TimeUnit::Millisecond => micros::<dt::TimestampMillisecondType>(array, unit),
        TimeUnit::Microsecond => Ok(array.as_primitive::<dt::TimestampMicrosecondType>().clone()),
        TimeUnit::Nanosecond => micros::<dt::TimestampNanosecondType>(array, unit),
    }?;
    // The number is an instant in UTC whatever the zone of the type, so only the label changes.
    match wanted {
        DataType::Timestamp(_, zone) => Ok(Arc::new(converted.with_timezone_opt(zone.clone()))),
        other => Err(Error::new(ErrorKind::Internal, format!("{other} is not a timestamp"))),
    }
}

/// Whether Arrow's kernel (with errors instead of nulls) gives Keyspan's values for these types.
fn kernel_agrees(from: &DataType, to: &DataType) -> bool {
    let decimal = |ty: &DataType| {
        matches!(
            ty,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
        )
    };
    match (from, to) {
        (DataType::Null, _) => true,
        (DataType::Dictionary(_, value), to) => value.as_ref() == to || kernel_agrees(value, to),
        (from, to) if from.is_integer() => to.is_integer() || to.is_floating() || decimal(to),
        (DataType::Float16, DataType::Float32 | DataType::Float64) => true,
        (DataType::Float32, DataType::Float64) => true,
        (from, to) if decimal(from) => decimal(to),
        (DataType::Utf8 | DataType::LargeUtf8, DataType::Utf8View) => true,
        (DataType::LargeBinary | DataType::BinaryView, DataType::Binary) => true,
        (DataType::Time32(_), DataType::Time64(TimeUnit::Microsecond)) => true,
        _ => false,
    }
}
