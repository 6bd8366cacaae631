//! Keys of whole batches: Arrow arrays to encoded keys and back, column by column.
//!
//! Encoding knows each key's length before it writes: one pass over the variable-length columns, then one pass per
//! column that writes its part at each row's cursor. No [`Value`] is made but of nested values.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes as dt;

use crate::array::{ColumnBuilder, value_at};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{KeyEncoder, check_key_len};
use crate::key_part::{
    KeyPart, bigint_bytes, corrupted, decimal_bytes, decode_part, double_bytes, encode_part, int_bytes, invert,
    null_in_key, part_len, push_inet, real_bytes, smallint_bytes, timeuuid_bytes, tinyint_bytes, unescape,
};
use crate::text::parse_inet;
use crate::types::ColumnType;

impl KeyEncoder {
    /// The bytes of every row's key. `columns`: one array per key column, in key order, of exactly its Arrow type.
    ///
    /// Errors as [`KeyEncoder::encode`]; 54000 also where all keys together exceed 2 GB.
    pub fn encode_batch(&self, columns: &[ArrayRef]) -> Result<BinaryArray> {
        let rows = self.check_columns(columns)?;
        let mut lengths = vec![0usize; rows];
        for (part, column) in self.parts.iter().zip(columns) {
            add_lengths(part, column, &mut lengths)?;
        }
        let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let mut total = 0usize;
        for len in &lengths {
            check_key_len(*len)?;
            total += *len;
            offsets.push(
                i32::try_from(total)
                    .map_err(|_| Error::new(ErrorKind::LimitExceeded, "the keys of one batch are larger than 2 GB"))?,
            );
        }
        // From here on each row's length is its cursor.
        let mut cursors = lengths;
        cursors.iter_mut().zip(&offsets).for_each(|(cursor, offset)| *cursor = *offset as usize);
        let mut bytes = vec![0u8; total];
        for (part, column) in self.parts.iter().zip(columns) {
            write_column(part, column, &mut bytes, &mut cursors)?;
        }
        Ok(BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes), None))
    }

    /// The key columns of encoded keys: one array per key column, of exactly its Arrow type.
    ///
    /// Bytes that no key encodes to are an XX001 error.
    pub fn decode_batch<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let keys = keys.into_iter();
        let rows = keys.size_hint().0;
        let mut builders: Vec<ColumnBuilder> =
            self.parts.iter().map(|part| ColumnBuilder::with_capacity(part.ty, rows)).collect();
        let mut content = Vec::new();
        for key in keys {
            let mut rest = key;
            for (part, builder) in self.parts.iter().zip(&mut builders) {
                rest = &rest[append_part(part, rest, builder, &mut content)?..];
            }
            if !rest.is_empty() {
                return Err(corrupted(&format!("{} bytes after its last column", rest.len())));
            }
        }
        Ok(builders.into_iter().map(ColumnBuilder::finish).collect())
    }

    fn check_columns(&self, columns: &[ArrayRef]) -> Result<usize> {
        if columns.len() != self.parts.len() {
            let message = format!("a key of {} columns cannot take {} arrays", self.parts.len(), columns.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let rows = columns.first().map_or(0, |column| column.len());
        for (part, column) in self.parts.iter().zip(columns) {
            if *column.data_type() != part.ty.arrow() {
                let message = format!(
                    "key column \"{}\" needs an array of {} but got {}",
                    part.name,
                    part.ty.arrow(),
                    column.data_type()
                );
                return Err(Error::new(ErrorKind::DatatypeMismatch, message));
            }
            if column.len() != rows {
                return Err(Error::new(ErrorKind::InvalidArgument, "the arrays of a key differ in length"));
            }
            if column.null_count() > 0 {
                return Err(null_in_key(part));
            }
        }
        Ok(rows)
    }
}

/// Appends the first part of `bytes` and says how long it was. `content` is room for texts, used again for each.
fn append_part(part: &KeyPart, bytes: &[u8], builder: &mut ColumnBuilder, content: &mut Vec<u8>) -> Result<usize> {
    if part.ty == ColumnType::Text {
        let len = part_len(part, bytes).ok_or_else(|| corrupted("a column does not end"))?;
        unescape(&bytes[..len], part.mask, content);
        builder.append_text(std::str::from_utf8(content).map_err(|_| corrupted("a text is not UTF-8"))?)?;
        return Ok(len);
    }
    let (value, len) = decode_part(part, bytes)?;
    builder.append(&value)?;
    Ok(len)
}

fn escaped_length(content: &[u8]) -> usize {
    content.len() + 2 + content.iter().filter(|byte| **byte == 0).count()
}

fn add_lengths(part: &KeyPart, column: &ArrayRef, lengths: &mut [usize]) -> Result<()> {
    let fixed = match part.ty {
        ColumnType::Text | ColumnType::Ascii => {
            let texts = column.as_string_view();
            for (row, len) in lengths.iter_mut().enumerate() {
                *len += escaped_length(texts.value(row).as_bytes());
            }
            return Ok(());
        }
        ColumnType::Blob => {
            let blobs = column.as_binary::<i32>();
            for (row, len) in lengths.iter_mut().enumerate() {
                *len += escaped_length(blobs.value(row));
            }
            return Ok(());
        }
        ColumnType::Inet => {
            let texts = column.as_string_view();
            for (row, len) in lengths.iter_mut().enumerate() {
                *len += if parse_inet(texts.value(row))?.is_ipv4() { 5 } else { 17 };
            }
            return Ok(());
        }
        ColumnType::Boolean | ColumnType::TinyInt => 1,
        ColumnType::SmallInt => 2,
        ColumnType::Int | ColumnType::Real | ColumnType::Date => 4,
        ColumnType::BigInt | ColumnType::Double => 8,
        ColumnType::Time | ColumnType::Timestamp | ColumnType::LocalTimestamp => 8,
        ColumnType::VarInt | ColumnType::Decimal { .. } | ColumnType::Uuid => 16,
        ColumnType::TimeUuid => 24,
        ColumnType::List(_) | ColumnType::Nested(_) => {
            for (row, len) in lengths.iter_mut().enumerate() {
                *len += nested_bytes(part, column, row)?.len();
            }
            return Ok(());
        }
        ColumnType::Duration | ColumnType::Json | ColumnType::Jsonb => {
            part.ty.allowed_in_key()?;
            0
        }
    };
    lengths.iter_mut().for_each(|len| *len += fixed);
    Ok(())
}

/// Writes parts of one width at each row's cursor and moves the cursors on.
fn write_fixed<const N: usize>(
    bytes: &mut [u8],
    cursors: &mut [usize],
    mask: u8,
    parts: impl Iterator<Item = [u8; N]>,
) {
    for (cursor, part) in cursors.iter_mut().zip(parts) {
        bytes[*cursor..*cursor + N].copy_from_slice(&part.map(|byte| byte ^ mask));
        *cursor += N;
    }
}

fn write_escaped<'a>(bytes: &mut [u8], cursors: &mut [usize], mask: u8, contents: impl Iterator<Item = &'a [u8]>) {
    for (cursor, content) in cursors.iter_mut().zip(contents) {
        let start = *cursor;
        let mut at = start;
        for piece in content.split_inclusive(|byte| *byte == 0) {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
            if piece.ends_with(&[0]) {
                bytes[at] = 0xff;
                at += 1;
            }
        }
        // The buffer was made of zeros: the terminator is there.
        at += 2;
        invert(&mut bytes[start..at], mask);
        *cursor = at;
    }
}

fn write_column(part: &KeyPart, column: &ArrayRef, bytes: &mut [u8], cursors: &mut [usize]) -> Result<()> {
    macro_rules! primitive {
        ($arrow:ty, $convert:expr) => {
            write_fixed(
                bytes,
                cursors,
                part.mask,
                column.as_primitive::<$arrow>().values().iter().map(|v| $convert(*v)),
            )
        };
    }
    match part.ty {
        ColumnType::Boolean => {
            write_fixed(bytes, cursors, part.mask, column.as_boolean().values().iter().map(|v| [u8::from(v)]));
        }
        ColumnType::TinyInt => primitive!(dt::Int8Type, tinyint_bytes),
        ColumnType::SmallInt => primitive!(dt::Int16Type, smallint_bytes),
        ColumnType::Int => primitive!(dt::Int32Type, int_bytes),
        ColumnType::BigInt => primitive!(dt::Int64Type, bigint_bytes),
        ColumnType::VarInt | ColumnType::Decimal { .. } => primitive!(dt::Decimal128Type, decimal_bytes),
        ColumnType::Real => primitive!(dt::Float32Type, real_bytes),
        ColumnType::Double => primitive!(dt::Float64Type, double_bytes),
        ColumnType::Date => primitive!(dt::Date32Type, int_bytes),
        ColumnType::Time => primitive!(dt::Time64MicrosecondType, bigint_bytes),
        ColumnType::Timestamp | ColumnType::LocalTimestamp => primitive!(dt::TimestampMicrosecondType, bigint_bytes),
        ColumnType::Text | ColumnType::Ascii => {
            let texts = column.as_string_view();
            write_escaped(bytes, cursors, part.mask, (0..texts.len()).map(|row| texts.value(row).as_bytes()));
        }
        ColumnType::Blob => {
            let blobs = column.as_binary::<i32>();
            write_escaped(bytes, cursors, part.mask, (0..blobs.len()).map(|row| blobs.value(row)));
        }
        ColumnType::Uuid | ColumnType::TimeUuid => write_uuids(part, column, bytes, cursors),
        ColumnType::Inet => write_addresses(part, column, bytes, cursors)?,
        ColumnType::List(_) | ColumnType::Nested(_) => {
            for (row, cursor) in cursors.iter_mut().enumerate() {
                let encoded = nested_bytes(part, column, row)?;
                bytes[*cursor..*cursor + encoded.len()].copy_from_slice(&encoded);
                *cursor += encoded.len();
            }
        }
        ColumnType::Duration | ColumnType::Json | ColumnType::Jsonb => part.ty.allowed_in_key()?,
    }
    Ok(())
}

/// The bytes of a nested value, which are made one by one: for their length, and to be written.
fn nested_bytes(part: &KeyPart, column: &ArrayRef, row: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    encode_part(part, &value_at(column, row, part.ty)?, &mut bytes)?;
    Ok(bytes)
}

fn write_uuids(part: &KeyPart, column: &ArrayRef, bytes: &mut [u8], cursors: &mut [usize]) {
    let uuids = column.as_fixed_size_binary();
    let content = |row: usize| -> [u8; 16] { uuids.value(row).try_into().expect("the array's width is 16") };
    let rows = 0..uuids.len();
    if part.ty == ColumnType::TimeUuid {
        write_fixed(bytes, cursors, part.mask, rows.map(|row| timeuuid_bytes(&content(row))));
    } else {
        write_fixed(bytes, cursors, part.mask, rows.map(content));
    }
}

fn write_addresses(part: &KeyPart, column: &ArrayRef, bytes: &mut [u8], cursors: &mut [usize]) -> Result<()> {
    let texts = column.as_string_view();
    let mut encoded = Vec::with_capacity(17);
    for (row, cursor) in cursors.iter_mut().enumerate() {
        encoded.clear();
        push_inet(&parse_inet(texts.value(row))?, &mut encoded);
        invert(&mut encoded, part.mask);
        bytes[*cursor..*cursor + encoded.len()].copy_from_slice(&encoded);
        *cursor += encoded.len();
    }
    Ok(())
}
