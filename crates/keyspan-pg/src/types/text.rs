//! The text format: what Postgres' output functions print, in the ISO date style.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use keyspan_model::{Error, ErrorKind, Result};

use super::column::{WireColumn, WireForm};
use super::pg_type::oid;
use super::{datetime, float, json};

impl WireColumn {
    /// Writes a value as a field of a DataRow: its length, then its text; −1 for null.
    pub(crate) fn put_text_field(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        match &self.form {
            WireForm::Text(values) if self.encoding.is_utf8() => put_sized(values.value(row).as_bytes(), out),
            WireForm::TextView(values) if self.encoding.is_utf8() => put_sized(values.value(row).as_bytes(), out),
            _ => with_length(out, |out| self.put_encoded(row, out)),
        }
    }

    /// Writes the text of a value that is not null, in the client's encoding.
    pub(super) fn put_encoded(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let start = out.len();
        self.put_text(row, out)?;
        self.encoding.encode_from(out, start)
    }

    /// Writes the text of a value that is not null, in UTF-8.
    pub(crate) fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        match &self.form {
            WireForm::Null => {}
            WireForm::Boolean(values) => out.put_u8(if values.value(row) { b't' } else { b'f' }),
            WireForm::Int16(values) => put_integer(i64::from(values.value(row)), out),
            WireForm::Int32(values) => put_integer(i64::from(values.value(row)), out),
            WireForm::Int64(values) => put_integer(values.value(row), out),
            WireForm::Real(values) => float::put_real(values.value(row), out),
            WireForm::Double(values) => float::put_double(values.value(row), out),
            WireForm::Decimal(values) => put_decimal(values.value(row), values.scale(), out),
            WireForm::Wide(values) => out.put_slice(values.value_as_string(row).as_bytes()),
            WireForm::Text(values) => out.put_slice(values.value(row).as_bytes()),
            WireForm::TextView(values) => out.put_slice(values.value(row).as_bytes()),
            WireForm::Bytes(values) => put_hex(values.value(row), out),
            WireForm::Uuid(values) => put_uuid(values.value(row), out),
            WireForm::Date(values) => datetime::put_date(values.value(row), out),
            WireForm::Time(values) => datetime::put_time(values.value(row), out),
            WireForm::Timestamp(values, zone) => datetime::put_timestamp(values.value(row), zone, out),
            WireForm::LocalTimestamp(values) => datetime::put_local_timestamp(values.value(row), out),
            WireForm::Duration(values, style) => {
                let value = values.value(row);
                out.put_slice(style.text(value.months, value.days, value.nanoseconds).as_bytes());
            }
            WireForm::List(..) if self.ty.oid == oid::JSONB => json::put_json(self, row, out)?,
            WireForm::List(offsets, items) => self.put_array(offsets[row], offsets[row + 1], items, out)?,
            WireForm::Struct(_) | WireForm::Map(..) => json::put_json(self, row, out)?,
        }
        Ok(())
    }

    /// `{1,NULL,"a b"}`, or `1 2` for the two vectors of the catalog.
    fn put_array(&self, start: usize, end: usize, items: &WireColumn, out: &mut BytesMut) -> Result<()> {
        let vector = matches!(self.ty.oid, oid::INT2VECTOR | oid::OIDVECTOR);
        if !vector {
            out.put_u8(b'{');
        }
        for item in start..end {
            if item > start {
                out.put_u8(if vector { b' ' } else { b',' });
            }
            match items.is_null(item) {
                true => out.put_slice(b"NULL"),
                false => items.put_element(item, out)?,
            }
        }
        if !vector {
            out.put_u8(b'}');
        }
        Ok(())
    }

    fn put_element(&self, item: usize, out: &mut BytesMut) -> Result<()> {
        let start = out.len();
        self.put_text(item, out)?;
        let is_array = matches!(self.form, WireForm::List(..)) && self.ty.oid != oid::JSONB;
        if !is_array && needs_quotes(&out[start..]) {
            // A buffer that is split is copied as a whole when it grows.
            let plain = out[start..].to_vec();
            out.truncate(start);
            out.put_u8(b'"');
            for byte in plain {
                if matches!(byte, b'"' | b'\\') {
                    out.put_u8(b'\\');
                }
                out.put_u8(byte);
            }
            out.put_u8(b'"');
        }
        Ok(())
    }
}

/// Postgres' rule for array elements (`array_out`).
fn needs_quotes(text: &[u8]) -> bool {
    let special =
        |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || byte.is_ascii_whitespace() || *byte == 0x0b;
    text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(special)
}

/// Runs `write` and puts the number of bytes that it wrote in front of them.
pub(super) fn with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.put_i32(0);
    write(out)?;
    let length = length_of(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&length);
    Ok(())
}

/// Writes these bytes with their number in front of them.
#[inline]
pub(super) fn put_sized(value: &[u8], out: &mut BytesMut) -> Result<()> {
    out.extend_from_slice(&length_of(value.len())?);
    out.extend_from_slice(value);
    Ok(())
}

#[inline]
fn length_of(length: usize) -> Result<[u8; 4]> {
    let length = i32::try_from(length)
        .map_err(|_| Error::new(ErrorKind::LimitExceeded, "a value is too long to be sent: the limit is 2 GB"))?;
    Ok(length.to_be_bytes())
}

/// Writes an integer.
pub(super) fn put_integer(value: i64, out: &mut BytesMut) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[start..]);
}

/// Writes a decimal with all the digits of its scale.
pub(super) fn put_decimal(digits: i128, scale: i8, out: &mut BytesMut) {
    let magnitude = digits.unsigned_abs();
    if digits < 0 {
        out.put_u8(b'-');
    }
    let places = usize::try_from(scale).unwrap_or(0);
    let power = 10_u128.checked_pow(places as u32).unwrap_or(u128::MAX);
    write!(out, "{}", magnitude / power).expect("a buffer takes any text");
    if places > 0 {
        write!(out, ".{:0places$}", magnitude % power).expect("a buffer takes any text");
    }
    if digits != 0 {
        out.put_bytes(b'0', usize::from(scale.min(0).unsigned_abs()));
    }
}

fn put_hex(bytes: &[u8], out: &mut BytesMut) {
    out.reserve(2 + bytes.len() * 2);
    out.put_slice(b"\\x");
    bytes.iter().for_each(|byte| put_hex_byte(*byte, out));
}

fn put_hex_byte(byte: u8, out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put_u8(DIGITS[usize::from(byte >> 4)]);
    out.put_u8(DIGITS[usize::from(byte & 15)]);
}

fn put_uuid(bytes: &[u8], out: &mut BytesMut) {
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.put_u8(b'-');
        }
        put_hex_byte(*byte, out);
    }
}
