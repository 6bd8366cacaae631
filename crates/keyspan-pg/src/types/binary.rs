//! The binary format: what Postgres' send functions write, network byte order throughout.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use keyspan_model::infinity::{days_to_postgres, micros_to_postgres};
use keyspan_model::{Error, ErrorKind, Result};

use super::column::{WireColumn, WireForm};
use super::numeric::put_numeric;
use super::pg_type::{PgType, oid};
use super::text::{put_decimal, put_sized, with_length};
use crate::encoding::Encoding;

/// The version that stands before the text of a binary jsonb.
pub(super) const JSONB_VERSION: u8 = 1;
/// The address families of a binary inet.
pub(super) const INET_V4: u8 = 2;
pub(super) const INET_V6: u8 = 3;

impl WireColumn {
    /// Writes a value as a field of a DataRow: its length, then its binary form; −1 for null.
    pub(crate) fn put_binary_field(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        match &self.form {
            WireForm::Boolean(values) => put_fixed([u8::from(values.value(row))], out),
            WireForm::Int16(values) => put_fixed(values.value(row).to_be_bytes(), out),
            WireForm::Int32(values) => put_fixed(values.value(row).to_be_bytes(), out),
            WireForm::Int64(values) => put_int64(values.value(row), self.ty, out)?,
            WireForm::Real(values) => put_fixed(values.value(row).to_be_bytes(), out),
            WireForm::Double(values) => put_fixed(values.value(row).to_be_bytes(), out),
            WireForm::Text(values) => put_string(values.value(row), self, out)?,
            WireForm::TextView(values) => put_string(values.value(row), self, out)?,
            WireForm::Bytes(values) => put_sized(values.value(row), out)?,
            WireForm::Uuid(values) => put_sized(values.value(row), out)?,
            WireForm::Date(values) => put_fixed(days_to_postgres(values.value(row))?.to_be_bytes(), out),
            WireForm::Time(values) => put_fixed(values.value(row).to_be_bytes(), out),
            WireForm::Timestamp(values, _) | WireForm::LocalTimestamp(values) => {
                put_fixed(micros_to_postgres(values.value(row))?.to_be_bytes(), out);
            }
            WireForm::Decimal(values) => with_length(out, |out| {
                let mut text = BytesMut::with_capacity(48);
                put_decimal(values.value(row), values.scale(), &mut text);
                put_numeric(std::str::from_utf8(&text).expect("digits are ASCII"), out);
                Ok(())
            })?,
            WireForm::Wide(values) => with_length(out, |out| {
                put_numeric(&values.value_as_string(row), out);
                Ok(())
            })?,
            WireForm::Duration(values, _) => with_length(out, |out| {
                let value = values.value(row);
                out.put_i64(value.nanoseconds / 1000);
                out.put_i32(value.days);
                out.put_i32(value.months);
                Ok(())
            })?,
            WireForm::List(..) if self.ty.oid != oid::JSONB => with_length(out, |out| self.put_binary_array(row, out))?,
            WireForm::List(..) | WireForm::Struct(_) | WireForm::Map(..) => with_length(out, |out| {
                out.put_u8(JSONB_VERSION);
                self.put_encoded(row, out)
            })?,
            WireForm::Null => out.put_i32(-1),
        }
        Ok(())
    }

    /// Dimensions, whether there are nulls, the element type; length and lower bound of each dimension; the elements.
    fn put_binary_array(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let mut items = self;
        let (mut start, mut end) = (row, row + 1);
        let mut lengths = Vec::new();
        while let WireForm::List(offsets, inner) = &items.form {
            let length = offsets[start + 1] - offsets[start];
            let even = (start..end).all(|list| !items.is_null(list) && offsets[list + 1] - offsets[list] == length);
            if !even {
                return Err(ragged());
            }
            lengths.push(length);
            (start, end) = (offsets[start], offsets[end]);
            items = inner;
            if start == end {
                lengths.clear();
                break;
            }
        }
        out.put_i32(lengths.len() as i32);
        out.put_i32(i32::from((start..end).any(|item| items.is_null(item))));
        out.put_u32(self.ty.element.unwrap_or(oid::TEXT));
        let vector = matches!(self.ty.oid, oid::INT2VECTOR | oid::OIDVECTOR);
        for length in lengths {
            out.put_i32(i32::try_from(length).map_err(|_| out_of_range("array length"))?);
            out.put_i32(i32::from(!vector));
        }
        (start..end).try_for_each(|item| items.put_binary_field(item, out))
    }
}

fn ragged() -> Error {
    Error::new(ErrorKind::InvalidArgument, "multidimensional arrays must have sub-arrays with matching dimensions")
        .with_hint("Select the inner lists one by one, or ask for the text format.")
}

/// A field of a few bytes, written at once.
#[inline]
fn put_fixed<const N: usize>(value: [u8; N], out: &mut BytesMut) {
    let mut field = [0; 12];
    field[..4].copy_from_slice(&(N as i32).to_be_bytes());
    field[4..4 + N].copy_from_slice(&value);
    out.extend_from_slice(&field[..4 + N]);
}

/// A number of the catalog (`oid`, `xid`) has four bytes, whatever holds it.
fn put_int64(value: i64, ty: PgType, out: &mut BytesMut) -> Result<()> {
    match ty.oid {
        oid::INT8 => put_fixed(value.to_be_bytes(), out),
        oid::INT2 => put_fixed(i16::try_from(value).map_err(|_| out_of_range("smallint"))?.to_be_bytes(), out),
        oid::INT4 => put_fixed(i32::try_from(value).map_err(|_| out_of_range("integer"))?.to_be_bytes(), out),
        _ => put_fixed(u32::try_from(value).map_err(|_| out_of_range("oid"))?.to_be_bytes(), out),
    }
    Ok(())
}

fn put_string(text: &str, column: &WireColumn, out: &mut BytesMut) -> Result<()> {
    match column.ty.oid {
        oid::JSONB => with_length(out, |out| {
            out.put_u8(JSONB_VERSION);
            put_encoded(text, column.encoding, out)
        }),
        oid::INET | oid::CIDR => with_length(out, |out| put_inet(text, column.ty, out)),
        _ if column.encoding.is_utf8() => put_sized(text.as_bytes(), out),
        _ => with_length(out, |out| put_encoded(text, column.encoding, out)),
    }
}

fn put_encoded(text: &str, encoding: Encoding, out: &mut BytesMut) -> Result<()> {
    let start = out.len();
    out.put_slice(text.as_bytes());
    encoding.encode_from(out, start)
}

/// Family, bits of the netmask, whether it is a cidr, bytes of the address, the address.
fn put_inet(text: &str, ty: PgType, out: &mut BytesMut) -> Result<()> {
    let address: IpAddr = text
        .parse()
        .map_err(|_| Error::new(ErrorKind::InvalidText, format!("invalid input syntax for type inet: \"{text}\"")))?;
    let is_cidr = u8::from(ty.oid == oid::CIDR);
    match address {
        IpAddr::V4(address) => {
            out.put_slice(&[INET_V4, 32, is_cidr, 4]);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_slice(&[INET_V6, 128, is_cidr, 16]);
            out.put_slice(&address.octets());
        }
    }
    Ok(())
}

fn out_of_range(what: &str) -> Error {
    Error::new(ErrorKind::NumericOverflow, format!("{what} out of range"))
}
