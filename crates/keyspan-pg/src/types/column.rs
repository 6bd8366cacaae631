//! An Arrow array made ready to be written row by row: one of a few forms, whatever the array's type.
//!
//! The rule: types that Postgres lacks are widened when the batch arrives, not per value, so that writing a value is
//! one match and no conversion.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    MapArray, StringArray, StringViewArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use keyspan_model::value_json::nested_text;
use keyspan_model::{ColumnType, Error, ErrorKind, IntervalStyle, Result, Value, timestamp_text, value_at};

use super::pg_type::{PgType, oid};
use crate::encoding::Encoding;
use crate::engine::{TextStyle, Zone};

/// A column of a batch, and the Postgres type to write it as.
#[derive(Debug)]
pub(crate) struct WireColumn {
    pub(super) ty: PgType,
    pub(super) nulls: Option<NullBuffer>,
    pub(super) form: WireForm,
    /// In which its texts are written.
    pub(super) encoding: Encoding,
}

/// The arrays as which values are written.
#[derive(Debug)]
pub(super) enum WireForm {
    /// Every value is null.
    Null,
    Boolean(BooleanArray),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    Real(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array),
    Wide(Decimal256Array),
    Text(StringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    Uuid(FixedSizeBinaryArray),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    /// An instant, shown by the clocks of the session's zone.
    Timestamp(TimestampMicrosecondArray, Zone),
    /// A wall-clock time.
    LocalTimestamp(TimestampMicrosecondArray),
    Duration(IntervalMonthDayNanoArray, IntervalStyle),
    /// Lists: row `i` has the items from `offsets[i]` to `offsets[i + 1]`.
    List(Vec<usize>, Box<WireColumn>),
    /// Structs: names and columns of the fields.
    Struct(Vec<(String, WireColumn)>),
    /// Maps: row `i` has the entries from `offsets[i]` to `offsets[i + 1]`.
    Map(Vec<usize>, Box<WireColumn>, Box<WireColumn>),
}

impl WireColumn {
    /// Prepares an array of the type that `field` describes.
    ///
    /// # Errors
    /// A value that its Postgres type cannot hold: 22003, 22008.
    pub(crate) fn new(field: &Field, array: &ArrayRef, style: TextStyle) -> Result<WireColumn> {
        match ColumnType::of_field(field).filter(|ty| ty.is_packed()) {
            Some(ty) => WireColumn::of_type(PgType::of_field(field), &texts_of_nested(array, ty, style.zone)?, style),
            None => WireColumn::of_type(PgType::of_field(field), array, style),
        }
    }

    fn of_type(ty: PgType, array: &ArrayRef, style: TextStyle) -> Result<WireColumn> {
        let array = widened(array)?;
        let form = form(ty, &array, style)?;
        Ok(WireColumn { ty, nulls: array.logical_nulls(), form, encoding: Encoding::UTF8 })
    }

    /// The column with its texts in this encoding, and with those of its lists.
    pub(crate) fn in_encoding(self, encoding: Encoding) -> WireColumn {
        let form = match self.form {
            WireForm::List(offsets, items) => WireForm::List(offsets, Box::new(items.in_encoding(encoding))),
            form => form,
        };
        WireColumn { form, encoding, ..self }
    }

    /// Whether the value of this row is null.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        matches!(self.form, WireForm::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

/// Nested values as their texts, which are JSON.
fn texts_of_nested(array: &ArrayRef, ty: ColumnType, zone: Zone) -> Result<ArrayRef> {
    let text = |row| match value_at(array, row, ty)? {
        Value::Null => Ok(None),
        value => Ok(Some(nested_text(&value, ty, &|at| timestamp_text(at, zone.offset_at(at))))),
    };
    let texts: StringViewArray = (0..array.len()).map(text).collect::<Result<_>>()?;
    Ok(Arc::new(texts))
}

fn form(ty: PgType, array: &ArrayRef, style: TextStyle) -> Result<WireForm> {
    use arrow::datatypes as t;
    Ok(match array.data_type() {
        DataType::Null => WireForm::Null,
        DataType::Boolean => WireForm::Boolean(array.as_boolean().clone()),
        DataType::Int16 => WireForm::Int16(array.as_primitive::<t::Int16Type>().clone()),
        DataType::Int32 => WireForm::Int32(array.as_primitive::<t::Int32Type>().clone()),
        DataType::Int64 => WireForm::Int64(array.as_primitive::<t::Int64Type>().clone()),
        DataType::Float32 => WireForm::Real(array.as_primitive::<t::Float32Type>().clone()),
        DataType::Float64 => WireForm::Double(array.as_primitive::<t::Float64Type>().clone()),
        DataType::Decimal128(..) => WireForm::Decimal(array.as_primitive::<t::Decimal128Type>().clone()),
        DataType::Decimal256(..) => WireForm::Wide(array.as_primitive::<t::Decimal256Type>().clone()),
        DataType::Utf8 => WireForm::Text(array.as_string::<i32>().clone()),
        DataType::Utf8View => WireForm::TextView(array.as_string_view().clone()),
        DataType::Binary => WireForm::Bytes(array.as_binary::<i32>().clone()),
        DataType::FixedSizeBinary(_) => WireForm::Uuid(array.as_fixed_size_binary().clone()),
        DataType::Date32 => WireForm::Date(array.as_primitive::<t::Date32Type>().clone()),
        DataType::Time64(_) => WireForm::Time(array.as_primitive::<t::Time64MicrosecondType>().clone()),
        DataType::Timestamp(_, at) => {
            let micros = array.as_primitive::<t::TimestampMicrosecondType>().clone();
            if at.is_some() { WireForm::Timestamp(micros, style.zone) } else { WireForm::LocalTimestamp(micros) }
        }
        DataType::Interval(_) => {
            WireForm::Duration(array.as_primitive::<t::IntervalMonthDayNanoType>().clone(), style.intervals)
        }
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let items = match ty.element {
                // The column's type says more than the item's field.
                Some(element) if !item.data_type().is_nested() => {
                    WireColumn::of_type(PgType::of_oid(element), list.values(), style)?
                }
                _ => WireColumn::new(item, list.values(), style)?,
            };
            WireForm::List(usizes(list.offsets()), Box::new(items))
        }
        DataType::Struct(_) => WireForm::Struct(fields(array.as_struct(), style)?),
        DataType::Map(..) => map(array.as_map(), style)?,
        other => return Err(Error::not_supported(format!("values of type {other} cannot be sent to a client"))),
    })
}

fn usizes(offsets: &[i32]) -> Vec<usize> {
    offsets.iter().map(|offset| usize::try_from(*offset).unwrap_or(0)).collect()
}

fn fields(array: &StructArray, style: TextStyle) -> Result<Vec<(String, WireColumn)>> {
    let pairs = array.fields().iter().zip(array.columns());
    pairs.map(|(field, values)| Ok((field.name().clone(), WireColumn::new(field, values, style)?))).collect()
}

fn map(array: &MapArray, style: TextStyle) -> Result<WireForm> {
    let entries = array.entries();
    let [key, value] = [0, 1].map(|index| WireColumn::new(&entries.fields()[index], entries.column(index), style));
    Ok(WireForm::Map(usizes(array.offsets()), Box::new(key?), Box::new(value?)))
}

/// The array as one of the types that [`form`] knows.
fn widened(array: &ArrayRef) -> Result<ArrayRef> {
    let to = match array.data_type() {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::LargeUtf8 => DataType::Utf8View,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::FixedSizeBinary(size) if *size != 16 => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => return Ok(whole_micros(array, zone.clone())),
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime) | DataType::Duration(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::Dictionary(_, value) => return widened(&cast(array, value)?),
        DataType::RunEndEncoded(_, value) => return widened(&cast(array, value.data_type())?),
        DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => DataType::List(item.clone()),
        _ => return Ok(array.clone()),
    };
    cast(array, &to)
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &strict).map_err(|error| {
        let kind = match to {
            DataType::Timestamp(..) | DataType::Date32 | DataType::Interval(_) => ErrorKind::DatetimeOverflow,
            _ => ErrorKind::NumericOverflow,
        };
        Error::new(kind, format!("a value is out of the range that can be sent: {error}"))
    })
}

/// Nanoseconds rounded down to microseconds, also before 1970.
fn whole_micros(array: &ArrayRef, zone: Option<Arc<str>>) -> ArrayRef {
    let nanos: &TimestampNanosecondArray = array.as_primitive();
    let micros: TimestampMicrosecondArray = nanos.unary(|value| value.div_euclid(1000));
    Arc::new(micros.with_timezone_opt(zone))
}

/// Whether values of this type are numbers or truth values that JSON writes without quotes.
pub(super) fn is_json_bare(ty: PgType) -> bool {
    matches!(
        ty.oid,
        oid::INT2
            | oid::INT4
            | oid::INT8
            | oid::FLOAT4
            | oid::FLOAT8
            | oid::NUMERIC
            | oid::OID
            | oid::JSON
            | oid::JSONB
    )
}
