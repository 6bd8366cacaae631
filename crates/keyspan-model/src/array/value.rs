//! One value out of an Arrow array, whatever Arrow type holds it.
//!
//! Rule: a number that Keyspan's types cannot hold is an error (22003), never a neighbour of it.

use arrow::array::{Array, AsArray, ListArray, downcast_dictionary_array};
use arrow::datatypes::{self as dt, DataType, IntervalUnit, TimeUnit};
use uuid::Uuid;

use super::cell::value_of_bytes;
use crate::cast::round_to_micros;
use crate::error::{Error, ErrorKind, Result};
use crate::text::parse_inet;
use crate::types::ColumnType;
use crate::value::Value;

/// The value of one row as a column of type `ty` has it.
///
/// `array` is of `ty`'s Arrow type, or of another one (Utf8, Dictionary, other time units, unsigned integers, other
/// widths of decimals) whose value is then cast as [`Value::cast`] does.
pub fn value_at(array: &dyn Array, row: usize, ty: ColumnType) -> Result<Value> {
    if row >= array.len() {
        return Err(Error::internal(format!("row {row} of an array of {}", array.len())));
    }
    if let (Some(lists), Some(element)) = (array.as_list_opt::<i32>(), ty.element()) {
        return list_at(lists, row, element);
    }
    match (natural_value(array, row)?, ty) {
        (Value::Blob(bytes), ColumnType::Nested(_)) => value_of_bytes(&bytes, ty)
            .ok_or_else(|| Error::new(ErrorKind::Corrupted, format!("the bytes of a cell are no value of type {ty}"))),
        (Value::Text(text), ColumnType::Inet) => Ok(Value::Inet(parse_inet(&text)?)),
        // Texts were checked when they were written.
        (value @ Value::Text(_), ColumnType::Text | ColumnType::Ascii | ColumnType::Json | ColumnType::Jsonb) => {
            Ok(value)
        }
        (value, ty) => value.cast(ty),
    }
}

fn list_at(lists: &ListArray, row: usize, element: ColumnType) -> Result<Value> {
    if lists.is_null(row) {
        return Ok(Value::Null);
    }
    let offsets = lists.value_offsets();
    let items = offsets[row] as usize..offsets[row + 1] as usize;
    items.map(|item| value_at(lists.values(), item, element)).collect::<Result<_>>().map(Value::List)
}

fn natural_value(array: &dyn Array, row: usize) -> Result<Value> {
    macro_rules! primitive {
        ($arrow:ty) => {
            array.as_primitive::<$arrow>().value(row)
        };
    }
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => Value::TinyInt(primitive!(dt::Int8Type)),
        DataType::Int16 => Value::SmallInt(primitive!(dt::Int16Type)),
        DataType::Int32 => Value::Int(primitive!(dt::Int32Type)),
        DataType::Int64 => Value::BigInt(primitive!(dt::Int64Type)),
        DataType::UInt8 => Value::SmallInt(primitive!(dt::UInt8Type).into()),
        DataType::UInt16 => Value::Int(primitive!(dt::UInt16Type).into()),
        DataType::UInt32 => Value::BigInt(primitive!(dt::UInt32Type).into()),
        DataType::UInt64 => Value::Decimal(primitive!(dt::UInt64Type).into(), 0),
        DataType::Float16 => Value::Real(primitive!(dt::Float16Type).to_f32()),
        DataType::Float32 => Value::Real(primitive!(dt::Float32Type)),
        DataType::Float64 => Value::Double(primitive!(dt::Float64Type)),
        DataType::Decimal32(_, scale) => Value::Decimal(primitive!(dt::Decimal32Type).into(), *scale),
        DataType::Decimal64(_, scale) => Value::Decimal(primitive!(dt::Decimal64Type).into(), *scale),
        DataType::Decimal128(_, scale) => Value::Decimal(primitive!(dt::Decimal128Type), *scale),
        DataType::Decimal256(_, scale) => {
            let digits = primitive!(dt::Decimal256Type).to_i128();
            let digits = digits.ok_or_else(|| Error::new(ErrorKind::NumericOverflow, "numeric field overflow"))?;
            Value::Decimal(digits, *scale)
        }
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row).to_owned()),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_owned()),
        DataType::Binary => Value::Blob(array.as_binary::<i32>().value(row).to_vec()),
        DataType::LargeBinary => Value::Blob(array.as_binary::<i64>().value(row).to_vec()),
        DataType::BinaryView => Value::Blob(array.as_binary_view().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary().value(row);
            Uuid::from_slice(bytes).map_or_else(|_| Value::Blob(bytes.to_vec()), Value::Uuid)
        }
        DataType::Dictionary(_, _) => return dictionary_value(array, row),
        DataType::FixedSizeList(..) => {
            let items = array.as_fixed_size_list().value(row);
            Value::List((0..items.len()).map(|item| natural_value(&items, item)).collect::<Result<_>>()?)
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            Value::List((0..items.len()).map(|item| natural_value(&items, item)).collect::<Result<_>>()?)
        }
        _ => return natural_time(array, row),
    })
}

fn dictionary_value(array: &dyn Array, row: usize) -> Result<Value> {
    downcast_dictionary_array!(
        array => match array.key(row) {
            Some(key) => natural_value(array.values().as_ref(), key),
            None => Ok(Value::Null),
        },
        other => Err(Error::internal(format!("{other} is not a dictionary")))
    )
}

fn natural_time(array: &dyn Array, row: usize) -> Result<Value> {
    macro_rules! primitive {
        ($arrow:ty) => {
            array.as_primitive::<$arrow>().value(row)
        };
    }
    Ok(match array.data_type() {
        DataType::Date32 => Value::Date(primitive!(dt::Date32Type)),
        DataType::Date64 => {
            let days = primitive!(dt::Date64Type).div_euclid(86_400_000);
            Value::Date(i32::try_from(days).map_err(|_| out_of_range("date"))?)
        }
        DataType::Time32(TimeUnit::Second) => {
            Value::Time(to_micros(primitive!(dt::Time32SecondType).into(), TimeUnit::Second)?)
        }
        DataType::Time32(_) => {
            Value::Time(to_micros(primitive!(dt::Time32MillisecondType).into(), TimeUnit::Millisecond)?)
        }
        DataType::Time64(TimeUnit::Nanosecond) => Value::Time(round_to_micros(primitive!(dt::Time64NanosecondType))),
        DataType::Time64(_) => Value::Time(primitive!(dt::Time64MicrosecondType)),
        DataType::Timestamp(unit, _) => {
            let value = match unit {
                TimeUnit::Second => primitive!(dt::TimestampSecondType),
                TimeUnit::Millisecond => primitive!(dt::TimestampMillisecondType),
                TimeUnit::Microsecond => primitive!(dt::TimestampMicrosecondType),
                TimeUnit::Nanosecond => primitive!(dt::TimestampNanosecondType),
            };
            Value::Timestamp(to_micros(value, *unit)?)
        }
        DataType::Interval(IntervalUnit::YearMonth) => Value::Duration(primitive!(dt::IntervalYearMonthType), 0, 0),
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = primitive!(dt::IntervalDayTimeType);
            Value::Duration(0, value.days, i64::from(value.milliseconds) * 1_000_000)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = primitive!(dt::IntervalMonthDayNanoType);
            Value::Duration(value.months, value.days, value.nanoseconds)
        }
        DataType::Duration(unit) => {
            let (value, factor) = match unit {
                TimeUnit::Second => (primitive!(dt::DurationSecondType), 1_000_000_000),
                TimeUnit::Millisecond => (primitive!(dt::DurationMillisecondType), 1_000_000),
                TimeUnit::Microsecond => (primitive!(dt::DurationMicrosecondType), 1000),
                TimeUnit::Nanosecond => (primitive!(dt::DurationNanosecondType), 1),
            };
            Value::Duration(0, 0, value.checked_mul(factor).ok_or_else(|| out_of_range("interval"))?)
        }
        other => return Err(Error::not_supported(format!("values of the Arrow type {other} are not supported"))),
    })
}

/// A time in `unit`s as microseconds; nanoseconds are rounded half up.
pub(crate) fn to_micros(value: i64, unit: TimeUnit) -> Result<i64> {
    let scaled = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(round_to_micros(value)),
    };
    scaled.ok_or_else(|| out_of_range("timestamp"))
}

fn out_of_range(what: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("{what} out of range"))
}
