//! Values in and out of Arrow arrays.
//!
//! Rule: an array made here has exactly the type [`ColumnType::arrow`] says; an array read here may be of any Arrow
//! type whose values mean the same.

mod cast;
mod cell;
mod list;
mod value;
mod vector;

use std::sync::Arc;

use arrow::array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder,
    StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, ListArray, RecordBatch, UInt8Array, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::compute::take;
use arrow::datatypes::{ByteViewType, DataType, Float32Type, Float64Type, IntervalMonthDayNano, UInt8Type, UInt32Type};

use crate::error::{Error, ErrorKind, Result};
use crate::types::ColumnType;
use crate::value::{Value, canonical_double, canonical_real};

pub use cast::coerce;
pub use cell::{cells_of_lists, lists_of_cells};
pub use value::value_at;

enum Builder {
    Boolean(BooleanBuilder),
    TinyInt(Int8Builder),
    SmallInt(Int16Builder),
    Int(Int32Builder),
    BigInt(Int64Builder),
    Decimal(Decimal128Builder, i8),
    Real(Float32Builder),
    Double(Float64Builder),
    Text(StringViewBuilder),
    Inet(StringViewBuilder),
    Blob(BinaryBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Duration(IntervalMonthDayNanoBuilder),
    List(Box<list::ListBuilder>),
    Packed(BinaryBuilder),
}

/// Runs the same expression on whatever Arrow builder this is.
macro_rules! each_builder {
    ($self:expr, $builder:ident => $body:expr) => {
        match $self {
            Builder::Boolean($builder) => $body,
            Builder::TinyInt($builder) => $body,
            Builder::SmallInt($builder) => $body,
            Builder::Int($builder) => $body,
            Builder::BigInt($builder) => $body,
            Builder::Decimal($builder, _) => $body,
            Builder::Real($builder) => $body,
            Builder::Double($builder) => $body,
            Builder::Text($builder) => $body,
            Builder::Inet($builder) => $body,
            Builder::Blob($builder) => $body,
            Builder::Uuid($builder) => $body,
            Builder::Date($builder) => $body,
            Builder::Time($builder) => $body,
            Builder::Timestamp($builder) => $body,
            Builder::Duration($builder) => $body,
            Builder::List($builder) => $body,
            Builder::Packed($builder) => $body,
        }
    };
}

/// Collects values of one column into an array of exactly its Arrow type.
pub struct ColumnBuilder {
    ty: ColumnType,
    builder: Builder,
}

impl ColumnBuilder {
    /// An empty builder.
    pub fn new(ty: ColumnType) -> ColumnBuilder {
        ColumnBuilder::with_capacity(ty, 0)
    }

    /// An empty builder with room for `rows` values.
    pub fn with_capacity(ty: ColumnType, rows: usize) -> ColumnBuilder {
        let builder = match ty {
            ColumnType::Boolean => Builder::Boolean(BooleanBuilder::with_capacity(rows)),
            ColumnType::TinyInt => Builder::TinyInt(Int8Builder::with_capacity(rows)),
            ColumnType::SmallInt => Builder::SmallInt(Int16Builder::with_capacity(rows)),
            ColumnType::Int => Builder::Int(Int32Builder::with_capacity(rows)),
            ColumnType::BigInt => Builder::BigInt(Int64Builder::with_capacity(rows)),
            ColumnType::VarInt => Builder::Decimal(decimals(ty, rows), 0),
            ColumnType::Decimal { scale, .. } => Builder::Decimal(decimals(ty, rows), scale),
            ColumnType::Real => Builder::Real(Float32Builder::with_capacity(rows)),
            ColumnType::Double => Builder::Double(Float64Builder::with_capacity(rows)),
            ColumnType::Text | ColumnType::Ascii | ColumnType::Json | ColumnType::Jsonb => {
                Builder::Text(StringViewBuilder::with_capacity(rows))
            }
            ColumnType::Inet => Builder::Inet(StringViewBuilder::with_capacity(rows)),
            ColumnType::Blob => Builder::Blob(BinaryBuilder::with_capacity(rows, 0)),
            ColumnType::Uuid | ColumnType::TimeUuid => Builder::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            ColumnType::Date => Builder::Date(Date32Builder::with_capacity(rows)),
            ColumnType::Time => Builder::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            ColumnType::Timestamp | ColumnType::LocalTimestamp => {
                Builder::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(ty.arrow()))
            }
            ColumnType::Duration => Builder::Duration(IntervalMonthDayNanoBuilder::with_capacity(rows)),
            ColumnType::List(_) | ColumnType::Nested(_) => match ty.element() {
                Some(element) => Builder::List(Box::new(list::ListBuilder::with_capacity(element, rows))),
                None => Builder::Packed(BinaryBuilder::with_capacity(rows, 0)),
            },
        };
        ColumnBuilder { ty, builder }
    }

    /// Appends a value of exactly the column's type, or null; floats in their one form. Another type is 42804:
    /// [`Value::cast`] comes before.
    pub fn append(&mut self, value: &Value) -> Result<()> {
        match (&mut self.builder, value) {
            (_, Value::Null) => self.append_null(),
            (Builder::Boolean(builder), Value::Boolean(value)) => builder.append_value(*value),
            (Builder::TinyInt(builder), Value::TinyInt(value)) => builder.append_value(*value),
            (Builder::SmallInt(builder), Value::SmallInt(value)) => builder.append_value(*value),
            (Builder::Int(builder), Value::Int(value)) => builder.append_value(*value),
            (Builder::BigInt(builder), Value::BigInt(value)) => builder.append_value(*value),
            (Builder::Decimal(builder, scale), Value::Decimal(digits, own)) if own == scale => {
                builder.append_value(*digits);
            }
            (Builder::Real(builder), Value::Real(value)) => builder.append_value(canonical_real(*value)),
            (Builder::Double(builder), Value::Double(value)) => builder.append_value(canonical_double(*value)),
            (Builder::Text(builder), Value::Text(text)) => builder.append_value(text),
            (Builder::Inet(builder), Value::Inet(address)) => builder.append_value(address.to_string()),
            (Builder::Blob(builder), Value::Blob(bytes)) => builder.append_value(bytes),
            (Builder::Uuid(builder), Value::Uuid(uuid)) => builder.append_value(uuid.as_bytes())?,
            (Builder::Date(builder), Value::Date(days)) => builder.append_value(*days),
            (Builder::Time(builder), Value::Time(micros)) => builder.append_value(*micros),
            (Builder::Timestamp(builder), Value::Timestamp(micros)) => builder.append_value(*micros),
            (Builder::Duration(builder), Value::Duration(months, days, nanoseconds)) => {
                builder.append_value(IntervalMonthDayNano::new(*months, *days, *nanoseconds));
            }
            (Builder::List(builder), Value::List(elements)) if self.ty.dimension().is_none() || value.fits(self.ty) => {
                builder.append_value(elements)?;
            }
            (Builder::Packed(builder), value) if value.fits(self.ty) => builder.append_value(tie_bytes(value)),
            (_, value) => return Err(wrong_type(self.ty, value)),
        }
        Ok(())
    }

    /// Appends a text without making a [`Value`] of it; only to a column of texts.
    pub fn append_text(&mut self, text: &str) -> Result<()> {
        match &mut self.builder {
            Builder::Text(builder) => builder.append_value(text),
            _ => return Err(wrong_type(self.ty, &Value::Text(text.to_owned()))),
        }
        Ok(())
    }

    /// Appends a null.
    pub fn append_null(&mut self) {
        each_builder!(&mut self.builder, builder => builder.append_null());
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        use arrow::array::ArrayBuilder;
        each_builder!(&self.builder, builder => builder.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The array of all values.
    pub fn finish(mut self) -> ArrayRef {
        each_builder!(&mut self.builder, builder => Arc::new(builder.finish()))
    }
}

fn decimals(ty: ColumnType, rows: usize) -> Decimal128Builder {
    Decimal128Builder::with_capacity(rows).with_data_type(ty.arrow())
}

fn wrong_type(ty: ColumnType, value: &Value) -> Error {
    let from = value.natural_type().map_or_else(|| "null".to_string(), ColumnType::postgres_name);
    let message = format!("column is of type {} but the value is of type {from}", ty.postgres_name());
    Error::new(ErrorKind::DatatypeMismatch, message)
}

/// The array of these values, each of exactly the type `ty` or null.
pub fn array_of(ty: ColumnType, values: &[Value]) -> Result<ArrayRef> {
    let mut builder = ColumnBuilder::with_capacity(ty, values.len());
    for value in values {
        builder.append(value)?;
    }
    Ok(builder.finish())
}

/// An array of one value repeated `rows` times; a long text is stored once.
pub fn constant(ty: ColumnType, value: &Value, rows: usize) -> Result<ArrayRef> {
    let one = array_of(ty, std::slice::from_ref(value))?;
    Ok(take(&one, &UInt32Array::from(vec![0; rows]), None)?)
}

/// The array with every float in its one form (−0.0 as 0.0, one NaN); the same array where nothing changes.
pub fn canonical_floats(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            let changed = floats.values().iter().any(|v| canonical_real(*v).to_bits() != v.to_bits());
            if changed { Arc::new(floats.unary::<_, Float32Type>(canonical_real)) } else { array.clone() }
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            let changed = floats.values().iter().any(|v| canonical_double(*v).to_bits() != v.to_bits());
            if changed { Arc::new(floats.unary::<_, Float64Type>(canonical_double)) } else { array.clone() }
        }
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let items = canonical_floats(list.values());
            match Arc::ptr_eq(&items, list.values()) {
                true => array.clone(),
                false => Arc::new(ListArray::new(item.clone(), list.offsets().clone(), items, list.nulls().cloned())),
            }
        }
        _ => array.clone(),
    }
}

/// Bytes of texts and blobs that are longer than twelve bytes, which stand outside of the array's views.
pub fn long_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => shown(array.as_string_view()),
        DataType::BinaryView => shown(array.as_binary_view()),
        DataType::List(_) => long_bytes(&items_of(array.as_list())),
        _ => 0,
    }
}

/// The items of an array's lists, without those that it does not show.
fn items_of(lists: &ListArray) -> ArrayRef {
    let offsets = lists.value_offsets();
    let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    lists.values().slice(start, end - start)
}

fn shown<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    if array.data_buffers().is_empty() { 0 } else { array.total_buffer_bytes_used() }
}

/// Bytes of an array's own values: of texts and blobs those that it shows, not the buffers that it may share with
/// others.
pub fn own_bytes(array: &ArrayRef) -> usize {
    // Arrow counts only the views.
    long_bytes(array) + array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// Bytes of a batch's own values.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(own_bytes).sum()
}

/// The same values without bytes that it does not show: a text or blob array may be a slice of a far larger one, or
/// share buffers with others, and then holds all of them. An array that shows at least half of what it holds is
/// returned unchanged.
pub fn compacted(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View if is_wasteful(array.as_string_view()) => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView if is_wasteful(array.as_binary_view()) => Arc::new(array.as_binary_view().gc()),
        _ => Arc::clone(array),
    }
}

fn is_wasteful<T: ByteViewType>(array: &GenericByteViewArray<T>) -> bool {
    let held: usize = array.data_buffers().iter().map(Buffer::len).sum();
    held > COMPACT_FROM && held > 2 * shown(array) + COMPACT_FROM
}

/// Bytes below which nothing is worth copying.
const COMPACT_FROM: usize = 64 << 10;

/// The array of a column's own type: codes into a few values (`Dictionary(UInt8, T)`, see [`crate::Scan::coded`], or
/// `Dictionary(UInt32, T)`) are looked up, any other array is passed on.
pub fn decoded(array: &ArrayRef) -> Result<ArrayRef> {
    match (array.as_dictionary_opt::<UInt8Type>(), array.as_dictionary_opt::<UInt32Type>()) {
        (Some(codes), _) => Ok(take(codes.values(), codes.keys(), None)?),
        (_, Some(codes)) => Ok(take(codes.values(), codes.keys(), None)?),
        (None, None) => Ok(Arc::clone(array)),
    }
}

/// Rows whose code is one of those that are `true` here; a row without a value has none.
pub fn rows_of_codes(codes: &UInt8Array, wanted: &[bool; 256]) -> BooleanBuffer {
    let values = codes.values();
    let found = BooleanBuffer::collect_bool(codes.len(), |row| wanted[usize::from(values[row])]);
    match codes.nulls() {
        Some(valid) => &found & valid.inner(),
        None => found,
    }
}

/// The bytes that decide a tie between two cells of one write timestamp: the larger, compared as unsigned bytes, wins.
///
/// They follow Cassandra's serialization, whose rule this is: big endian two's complement for integers (so −1 beats
/// 1), IEEE bits for floats, the bytes of text, blob and UUID, the octets of an address, days with the sign bit
/// flipped for a date; nested values as their cells have them. A decimal is its 16 bytes of digits at the column's
/// scale; a duration is months, days and nanoseconds. Null, which is no cell, gives no bytes.
pub fn tie_bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Null => Vec::new(),
        Value::Boolean(value) => vec![u8::from(*value)],
        Value::TinyInt(value) => value.to_be_bytes().to_vec(),
        Value::SmallInt(value) => value.to_be_bytes().to_vec(),
        Value::Int(value) => value.to_be_bytes().to_vec(),
        Value::BigInt(value) | Value::Time(value) | Value::Timestamp(value) => value.to_be_bytes().to_vec(),
        Value::Decimal(digits, _) => digits.to_be_bytes().to_vec(),
        Value::Real(value) => canonical_real(*value).to_bits().to_be_bytes().to_vec(),
        Value::Double(value) => canonical_double(*value).to_bits().to_be_bytes().to_vec(),
        Value::Text(text) => text.as_bytes().to_vec(),
        Value::Blob(bytes) => bytes.clone(),
        Value::Uuid(uuid) => uuid.as_bytes().to_vec(),
        Value::Date(days) => (*days as u32 ^ 1 << 31).to_be_bytes().to_vec(),
        Value::Duration(months, days, nanoseconds) => {
            [&months.to_be_bytes()[..], &days.to_be_bytes(), &nanoseconds.to_be_bytes()].concat()
        }
        Value::Inet(std::net::IpAddr::V4(address)) => address.octets().to_vec(),
        Value::Inet(std::net::IpAddr::V6(address)) => address.octets().to_vec(),
        Value::List(_) | Value::Map(_) | Value::Tuple(_) | Value::Variant(_) => cell::nested_bytes(value),
    }
}

#[cfg(test)]
mod tests;
