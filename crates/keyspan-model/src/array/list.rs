//! Lists: collected into an Arrow array, and as the bytes of one cell.
//!
//! ```text
//! list = count(i32)  { length(i32; −1: null)  bytes }*        big endian; bytes of an element as `tie_bytes` writes them
//! ```
//!
//! This is Cassandra's serialization of a frozen list. The log and segments hold it, and it decides ties.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrow::array::{Array, ArrayRef, BinaryArray, BinaryBuilder, ListArray, NullBufferBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;
use uuid::Uuid;

use super::{ColumnBuilder, tie_bytes, value_at};
use crate::error::{Error, ErrorKind, Result};
use crate::types::ColumnType;
use crate::value::Value;

/// Collects lists.
pub(super) struct ListBuilder {
    element: ColumnType,
    items: ColumnBuilder,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl ListBuilder {
    pub(super) fn with_capacity(element: ColumnType, rows: usize) -> ListBuilder {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        ListBuilder { element, items: ColumnBuilder::new(element), offsets, nulls: NullBufferBuilder::new(rows) }
    }

    pub(super) fn append_value(&mut self, elements: &[Value]) -> Result<()> {
        for element in elements {
            self.items.append(element)?;
        }
        let end = i32::try_from(self.items.len());
        let end =
            end.map_err(|_| Error::new(ErrorKind::LimitExceeded, "the lists of a batch have too many elements"))?;
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    pub(super) fn append_null(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or(0));
        self.nulls.append_null();
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn finish(&mut self) -> ListArray {
        let items = std::mem::replace(&mut self.items, ColumnBuilder::new(self.element)).finish();
        let offsets = OffsetBuffer::new(std::mem::replace(&mut self.offsets, vec![0]).into());
        let field = Field::new_list_field(self.element.arrow(), true);
        ListArray::new(field.into(), offsets, items, self.nulls.finish())
    }
}

/// The lists of an array, of the type `list`, each as the bytes of one cell.
pub fn cells_of_lists(array: &ArrayRef, list: ColumnType) -> Result<BinaryArray> {
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
    let mut builder = ColumnBuilder::with_capacity(list, cells.len());
    for cell in cells {
        match cell {
            None => builder.append_null(),
            Some(bytes) => builder.append(&list_of_cell(bytes, list.element()?)?).ok()?,
        }
    }
    Some(builder.finish())
}

pub(super) fn list_bytes(elements: &[Value]) -> Vec<u8> {
    let count = |length: usize| i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes();
    let mut bytes = count(elements.len()).to_vec();
    for element in elements {
        if element.is_null() {
            bytes.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        let element = tie_bytes(element);
        bytes.extend_from_slice(&count(element.len()));
        bytes.extend_from_slice(&element);
    }
    bytes
}

fn list_of_cell(mut bytes: &[u8], element: ColumnType) -> Option<Value> {
    let count = usize::try_from(take_i32(&mut bytes)?).ok()?;
    // Each element has at least its length, so a false count cannot ask for much memory.
    let mut elements = Vec::with_capacity(count.min(bytes.len() / 4));
    for _ in 0..count {
        let length = take_i32(&mut bytes)?;
        elements.push(match usize::try_from(length) {
            Err(_) if length == -1 => Value::Null,
            Err(_) => return None,
            Ok(length) => {
                let (own, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                value_of_bytes(own, element)?
            }
        });
    }
    bytes.is_empty().then_some(Value::List(elements))
}

fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    let (own, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i32::from_be_bytes(*own))
}

/// The value that [`tie_bytes`] wrote so.
fn value_of_bytes(bytes: &[u8], ty: ColumnType) -> Option<Value> {
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
        let good = list_bytes(&[Value::Int(1), Value::Null]);
        assert_eq!(list_of_cell(&good, ColumnType::Int), Some(Value::List(vec![Value::Int(1), Value::Null])));
        for length in 0..good.len() {
            assert_eq!(list_of_cell(&good[..length], ColumnType::Int), None, "{length}");
        }
        assert_eq!(list_of_cell(&[&good[..], &[0]].concat(), ColumnType::Int), None);
        assert_eq!(list_of_cell(&good, ColumnType::BigInt), None);
        assert_eq!(list_of_cell(&i32::MAX.to_be_bytes(), ColumnType::Int), None);
    }
}
