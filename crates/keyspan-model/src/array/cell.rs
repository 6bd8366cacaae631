//! Nested values as the bytes of one cell.
//!
//! ```text
//! list, set     count(i32)  part*              big endian; parts' bytes as `tie_bytes` writes them
//! map           count(i32)  { part part }*     key and value
//! tuple, user   part*                          nulls at the end are left out
//! variant       tag(u8)  bytes                of the type that the tag tells
//! vector        as a list; a cell of its own is f32*, big endian (`vector`)
//! part = length(i32; −1: null)  bytes
//! ```
//!
//! This is Cassandra's serialization, but for the nulls at a tuple's end: so a value that was written before its type
//! got more fields is the same as one with nulls there. The log and segments hold these bytes, they decide ties, and
//! equal values have equal bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrow::array::{Array, ArrayRef, BinaryArray, BinaryBuilder};
use uuid::Uuid;

use super::{ColumnBuilder, tie_bytes, value_at, vector};
use crate::error::Result;
use crate::types::{ColumnType, Nested};
use crate::value::Value;

/// The lists of an array, of the type `list`, each as the bytes of one cell.
pub fn cells_of_lists(array: &ArrayRef, list: ColumnType) -> Result<BinaryArray> {
    if list.dimension().is_some() {
        return vector::cells_of_vectors(array);
    }
    let mut cells = BinaryBuilder::with_capacity(array.len(), 0);
    for row in 0..array.len() {
        match value_at(array, row, list)? {
            Value::Null => cells.append_null(),
            value => cells.append_value(tie_bytes(&value)),
        }
    }
    Ok(cells.finish())
}

/// The lists of the type `list` that these cells hold; `None` if one is not what [`cells_of_lists`] writes.
pub fn lists_of_cells(cells: &BinaryArray, list: ColumnType) -> Option<ArrayRef> {
    if let Some(dimension) = list.dimension() {
        return vector::vectors_of_cells(cells, dimension);
    }
    let mut builder = ColumnBuilder::with_capacity(list, cells.len());
    for cell in cells {
        match cell {
            None => builder.append_null(),
            Some(bytes) => builder.append(&value_of_bytes(bytes, list)?).ok()?,
        }
    }
    Some(builder.finish())
}

/// The bytes of a list, map, tuple or variant.
pub(super) fn nested_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    match value {
        Value::List(elements) => {
            bytes.extend(length_bytes(elements.len()));
            elements.iter().for_each(|element| push_part(element, &mut bytes));
        }
        Value::Map(entries) => {
            bytes.extend(length_bytes(entries.len()));
            entries.iter().flat_map(|(key, value)| [key, value]).for_each(|part| push_part(part, &mut bytes));
        }
        Value::Tuple(fields) => {
            let given = fields.iter().rposition(|field| !field.is_null()).map_or(0, |last| last + 1);
            fields[..given].iter().for_each(|field| push_part(field, &mut bytes));
        }
        Value::Variant(held) => {
            bytes.extend(held.variant_tag().map(|(tag, _)| tag));
            bytes.extend(tie_bytes(held));
        }
        _ => {}
    }
    bytes
}

fn length_bytes(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

fn push_part(part: &Value, bytes: &mut Vec<u8>) {
    if part.is_null() {
        return bytes.extend((-1_i32).to_be_bytes());
    }
    let own = tie_bytes(part);
    bytes.extend(length_bytes(own.len()));
    bytes.extend(own);
}

/// The next part, a value of this type or null.
fn take_part(bytes: &mut &[u8], ty: ColumnType) -> Option<Value> {
    let length = take_i32(bytes)?;
    match usize::try_from(length) {
        Err(_) => (length == -1).then_some(Value::Null),
        Ok(length) => {
            let (own, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            value_of_bytes(own, ty)
        }
    }
}

fn list_of_cell(mut bytes: &[u8], element: ColumnType) -> Option<Value> {
    let count = usize::try_from(take_i32(&mut bytes)?).ok()?;
    // Each element has at least its length, so a false count cannot ask for much memory.
    let mut elements = Vec::with_capacity(count.min(bytes.len() / 4));
    for _ in 0..count {
        elements.push(take_part(&mut bytes, element)?);
    }
    bytes.is_empty().then_some(Value::List(elements))
}

fn map_of_cell(mut bytes: &[u8], key: ColumnType, value: ColumnType) -> Option<Value> {
    let count = usize::try_from(take_i32(&mut bytes)?).ok()?;
    let mut entries = Vec::with_capacity(count.min(bytes.len() / 8));
    for _ in 0..count {
        entries.push((take_part(&mut bytes, key)?, take_part(&mut bytes, value)?));
    }
    bytes.is_empty().then_some(Value::Map(entries))
}

fn tuple_of_cell(mut bytes: &[u8], types: &[ColumnType]) -> Option<Value> {
    let field = |ty: &ColumnType| if bytes.is_empty() { Some(Value::Null) } else { take_part(&mut bytes, *ty) };
    let fields = types.iter().map(field).collect::<Option<_>>()?;
    bytes.is_empty().then_some(Value::Tuple(fields))
}

fn nested_of_cell(bytes: &[u8], ty: &Nested) -> Option<Value> {
    let value = match ty {
        Nested::List(element) | Nested::Set(element) => list_of_cell(bytes, *element)?,
        Nested::Map(key, value) => map_of_cell(bytes, *key, *value)?,
        Nested::Tuple(types) => tuple_of_cell(bytes, types)?,
        Nested::User(_) => tuple_of_cell(bytes, &ty.parts())?,
        Nested::Variant => {
            let (tag, own) = bytes.split_first()?;
            Value::Variant(Box::new(value_of_bytes(own, ColumnType::of_variant_tag(*tag)?)?))
        }
        Nested::Vector(_) => list_of_cell(bytes, ColumnType::Real)?,
        Nested::Named(_) => return None,
    };
    Some(value)
}

fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    let (own, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i32::from_be_bytes(*own))
}

/// The value that [`tie_bytes`] wrote so.
pub(super) fn value_of_bytes(bytes: &[u8], ty: ColumnType) -> Option<Value> {
    fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    Some(match ty {
        ColumnType::Boolean => Value::Boolean(u8::from_be_bytes(fixed(bytes)?) != 0),
        ColumnType::TinyInt => Value::TinyInt(i8::from_be_bytes(fixed(bytes)?)),
        ColumnType::SmallInt => Value::SmallInt(i16::from_be_bytes(fixed(bytes)?)),
        ColumnType::Int => Value::Int(i32::from_be_bytes(fixed(bytes)?)),
        ColumnType::BigInt => Value::BigInt(i64::from_be_bytes(fixed(bytes)?)),
        ColumnType::VarInt => Value::Decimal(i128::from_be_bytes(fixed(bytes)?), 0),
        ColumnType::Decimal { scale, .. } => Value::Decimal(i128::from_be_bytes(fixed(bytes)?), scale),
        ColumnType::Real => Value::Real(f32::from_be_bytes(fixed(bytes)?)),
        ColumnType::Double => Value::Double(f64::from_be_bytes(fixed(bytes)?)),
        ColumnType::Text | ColumnType::Ascii | ColumnType::Json | ColumnType::Jsonb => {
            Value::Text(std::str::from_utf8(bytes).ok()?.to_owned())
        }
        ColumnType::Blob => Value::Blob(bytes.to_vec()),
        ColumnType::Uuid | ColumnType::TimeUuid => Value::Uuid(Uuid::from_bytes(fixed(bytes)?)),
        ColumnType::Date => Value::Date((u32::from_be_bytes(fixed(bytes)?) ^ 1 << 31) as i32),
        ColumnType::Time => Value::Time(i64::from_be_bytes(fixed(bytes)?)),
        ColumnType::Timestamp | ColumnType::LocalTimestamp => Value::Timestamp(i64::from_be_bytes(fixed(bytes)?)),
        ColumnType::Duration => {
            let bytes: [u8; 16] = fixed(bytes)?;
            let (months, days) = (i32::from_be_bytes(fixed(&bytes[..4])?), i32::from_be_bytes(fixed(&bytes[4..8])?));
            Value::Duration(months, days, i64::from_be_bytes(fixed(&bytes[8..])?))
        }
        ColumnType::Inet => Value::Inet(match bytes.len() {
            4 => IpAddr::V4(Ipv4Addr::from(fixed::<4>(bytes)?)),
            _ => IpAddr::V6(Ipv6Addr::from(fixed::<16>(bytes)?)),
        }),
        ColumnType::List(element) => list_of_cell(bytes, element.get())?,
        ColumnType::Nested(nested) => nested_of_cell(bytes, nested.get())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_of;

    fn values(ty: ColumnType, texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| Value::parse(text, ty).expect("a value")).collect()
    }

    #[test]
    fn lists_of_every_type_are_read_back_from_their_cells() {
        use ColumnType as C;
        let cases = [
            (C::Boolean, "{t,NULL,f}"),
            (C::TinyInt, "{-1,2}"),
            (C::SmallInt, "{-1,NULL}"),
            (C::Int, "{NULL,7}"),
            (C::BigInt, "{-9000000000}"),
            (C::VarInt, "{-12345678901234567890}"),
            (C::Decimal { precision: 10, scale: 2 }, "{1.50,-2.25,NULL}"),
            (C::Real, "{0.5,NaN}"),
            (C::Double, "{-1e100}"),
            (C::Text, r#"{"a b","",NULL,"NULL"}"#),
            (C::Ascii, "{a}"),
            (C::Blob, r#"{"\\x00ff"}"#),
            (C::Uuid, "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"),
            (C::TimeUuid, "{ffffffff-0000-1000-8000-000000000000}"),
            (C::Date, "{0044-03-15 BC}"),
            (C::Time, "{10:00:00}"),
            (C::Timestamp, r#"{"2024-01-25 10:00:00+00"}"#),
            (C::LocalTimestamp, r#"{"2024-01-25 10:00:00"}"#),
            (C::Duration, r#"{"1 mon 2 days"}"#),
            (C::Inet, "{10.0.0.1,::1}"),
            (C::Json, r#"{"{\"a\": 1}"}"#),
        ];
        for (element, text) in cases {
            let list = C::list(element);
            let mut lists = values(list, &[text, "{}", "{NULL}"]);
            lists.push(Value::Null);
            let array = array_of(list, &lists).expect("an array");
            assert_eq!(array.data_type(), &list.arrow());
            let cells = cells_of_lists(&array, list).expect("cells");
            let read = lists_of_cells(&cells, list).expect("lists");
            assert_eq!(&read, &array, "{list}");
            for (row, value) in lists.iter().enumerate() {
                let read = value_at(&read, row, list).expect("a value");
                assert_eq!(read.to_text(list), value.to_text(list));
            }
        }
    }

    #[test]
    fn what_is_no_cell_of_a_list_is_not_read() {
        let good = nested_bytes(&Value::List(vec![Value::Int(1), Value::Null]));
        assert_eq!(list_of_cell(&good, ColumnType::Int), Some(Value::List(vec![Value::Int(1), Value::Null])));
        for length in 0..good.len() {
            assert_eq!(list_of_cell(&good[..length], ColumnType::Int), None, "{length}");
        }
        assert_eq!(list_of_cell(&[&good[..], &[0]].concat(), ColumnType::Int), None);
        assert_eq!(list_of_cell(&good, ColumnType::BigInt), None);
        assert_eq!(list_of_cell(&i32::MAX.to_be_bytes(), ColumnType::Int), None);
    }
}
