//! One part of a key: a value as bytes and back. The byte map stands in [`crate::key`].
//!
//! Rule: `decode_part` accepts exactly what `encode_part` writes; anything else is an error, never a panic.

mod nested;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::input_error::numeric_overflow;
use crate::number::{fits_precision, rescale};
use crate::types::{ColumnType, DECIMAL_DIGITS};
use crate::value::{Value, canonical_real, double_of_rank, double_rank, is_timeuuid, timeuuid_time};
use nested::{nested_len, nested_of_key};

pub(crate) use nested::push_nested;

/// First byte of an IPv4 address.
const INET_V4: u8 = 4;
/// First byte of an IPv6 address.
const INET_V6: u8 = 6;

/// One column of a key, as the encoding needs it.
#[derive(Clone, Debug)]
pub(crate) struct KeyPart {
    /// For error messages.
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    /// FF inverts the bytes of a DESC column, 00 leaves them.
    pub(crate) mask: u8,
}

impl KeyPart {
    /// A part of this part.
    pub(crate) fn inner(&self, ty: ColumnType, mask: u8) -> KeyPart {
        KeyPart { name: self.name.clone(), ty, mask }
    }
}

/// An 8-bit integer in key order.
pub(crate) fn tinyint_bytes(value: i8) -> [u8; 1] {
    [value as u8 ^ 0x80]
}

/// A 16-bit integer in key order.
pub(crate) fn smallint_bytes(value: i16) -> [u8; 2] {
    (value as u16 ^ 1 << 15).to_be_bytes()
}

/// A 32-bit integer in key order.
pub(crate) fn int_bytes(value: i32) -> [u8; 4] {
    (value as u32 ^ 1 << 31).to_be_bytes()
}

/// A 64-bit integer in key order.
pub(crate) fn bigint_bytes(value: i64) -> [u8; 8] {
    (value as u64 ^ 1 << 63).to_be_bytes()
}

/// A decimal's digits in key order.
pub(crate) fn decimal_bytes(digits: i128) -> [u8; 16] {
    (digits as u128 ^ 1 << 127).to_be_bytes()
}

/// A 4-byte float in key order.
pub(crate) fn real_bytes(value: f32) -> [u8; 4] {
    let bits = canonical_real(value).to_bits();
    (if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 }).to_be_bytes()
}

/// An 8-byte float in key order.
pub(crate) fn double_bytes(value: f64) -> [u8; 8] {
    double_rank(value).to_be_bytes()
}

/// A timeuuid in key order.
pub(crate) fn timeuuid_bytes(uuid: &[u8; 16]) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&timeuuid_time(&Uuid::from_bytes(*uuid)).to_be_bytes());
    bytes[8..].copy_from_slice(uuid);
    bytes
}

/// Appends an address in key order.
pub(crate) fn push_inet(address: &IpAddr, bytes: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            bytes.push(INET_V4);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(INET_V6);
            bytes.extend_from_slice(&address.octets());
        }
    }
}

fn push_escaped(content: &[u8], bytes: &mut Vec<u8>) {
    for piece in content.split_inclusive(|byte| *byte == 0) {
        bytes.extend_from_slice(piece);
        if piece.ends_with(&[0]) {
            bytes.push(0xff);
        }
    }
    bytes.extend_from_slice(&[0, 0]);
}

/// Appends the part's bytes.
pub(crate) fn encode_part(part: &KeyPart, value: &Value, bytes: &mut Vec<u8>) -> Result<()> {
    let start = bytes.len();
    match (part.ty, value) {
        (ColumnType::Boolean, Value::Boolean(value)) => bytes.push(u8::from(*value)),
        (ColumnType::TinyInt, Value::TinyInt(value)) => bytes.extend_from_slice(&tinyint_bytes(*value)),
        (ColumnType::SmallInt, Value::SmallInt(value)) => bytes.extend_from_slice(&smallint_bytes(*value)),
        (ColumnType::Int, Value::Int(value)) => bytes.extend_from_slice(&int_bytes(*value)),
        (ColumnType::BigInt, Value::BigInt(value)) => bytes.extend_from_slice(&bigint_bytes(*value)),
        (ColumnType::VarInt, Value::Decimal(digits, scale)) => {
            bytes.extend_from_slice(&decimal_bytes(exact_digits(part, *digits, *scale, DECIMAL_DIGITS, 0)?));
        }
        (ColumnType::Decimal { precision, scale: wanted }, Value::Decimal(digits, scale)) => {
            bytes.extend_from_slice(&decimal_bytes(exact_digits(part, *digits, *scale, precision, wanted)?));
        }
        (ColumnType::Real, Value::Real(value)) => bytes.extend_from_slice(&real_bytes(*value)),
        (ColumnType::Double, Value::Double(value)) => bytes.extend_from_slice(&double_bytes(*value)),
        (ColumnType::Ascii, Value::Text(text)) if !text.is_ascii() => return Err(mismatch(part, value)),
        (ColumnType::Text | ColumnType::Ascii, Value::Text(text)) => push_escaped(text.as_bytes(), bytes),
        (ColumnType::Blob, Value::Blob(content)) => push_escaped(content, bytes),
        (ColumnType::Uuid, Value::Uuid(uuid)) => bytes.extend_from_slice(uuid.as_bytes()),
        (ColumnType::TimeUuid, Value::Uuid(uuid)) if is_timeuuid(uuid) => {
            bytes.extend_from_slice(&timeuuid_bytes(uuid.as_bytes()));
        }
        (ColumnType::Date, Value::Date(days)) => bytes.extend_from_slice(&int_bytes(*days)),
        (ColumnType::Time, Value::Time(micros)) => bytes.extend_from_slice(&bigint_bytes(*micros)),
        (ColumnType::Timestamp | ColumnType::LocalTimestamp, Value::Timestamp(micros)) => {
            bytes.extend_from_slice(&bigint_bytes(*micros));
        }
        (ColumnType::Inet, Value::Inet(address)) => push_inet(address, bytes),
        (ColumnType::List(_) | ColumnType::Nested(_), value) if !value.is_null() => {
            push_nested(value, part.ty, bytes, &|value, ty, bytes| encode_part(&part.inner(ty, 0), value, bytes))?;
        }
        _ => return Err(mismatch(part, value)),
    }
    invert(&mut bytes[start..], part.mask);
    Ok(())
}

/// Inverts the bytes if `mask` is FF.
pub(crate) fn invert(bytes: &mut [u8], mask: u8) {
    if mask != 0 {
        bytes.iter_mut().for_each(|byte| *byte ^= mask);
    }
}

/// The digits at the column's scale; an error if they would have to be rounded, which would make it another key.
fn exact_digits(part: &KeyPart, digits: i128, scale: i8, precision: u8, wanted: i8) -> Result<i128> {
    let rescaled = rescale(digits, scale, wanted).filter(|digits| fits_precision(*digits, precision));
    let rescaled = rescaled.ok_or_else(|| numeric_overflow(precision, wanted))?;
    if rescale(rescaled, wanted, scale) != Some(digits) {
        let message =
            format!("key column \"{}\" of type {} cannot hold {} digits after the point", part.name, part.ty, scale);
        return Err(Error::new(ErrorKind::NumericOverflow, message));
    }
    Ok(rescaled)
}

/// 23502: a null in a key.
pub(crate) fn null_in_key(part: &KeyPart) -> Error {
    Error::new(ErrorKind::NotNull, format!("null value in column \"{}\" violates not-null constraint", part.name))
        .with_detail("Key columns are never null.")
}

fn mismatch(part: &KeyPart, value: &Value) -> Error {
    match value.natural_type() {
        None => null_in_key(part),
        Some(ty) => Error::new(
            ErrorKind::DatatypeMismatch,
            format!(
                "key column \"{}\" is of type {} but the value is of type {}",
                part.name,
                part.ty.postgres_name(),
                ty.postgres_name()
            ),
        ),
    }
}

/// How many bytes the first part of `bytes` takes; `None` if it does not end.
pub(crate) fn part_len(part: &KeyPart, bytes: &[u8]) -> Option<usize> {
    let len = match part.ty {
        ColumnType::Boolean | ColumnType::TinyInt => 1,
        ColumnType::SmallInt => 2,
        ColumnType::Int | ColumnType::Real | ColumnType::Date => 4,
        ColumnType::BigInt | ColumnType::Double => 8,
        ColumnType::Time | ColumnType::Timestamp | ColumnType::LocalTimestamp => 8,
        ColumnType::VarInt | ColumnType::Decimal { .. } | ColumnType::Uuid => 16,
        ColumnType::TimeUuid => 24,
        ColumnType::Inet => match bytes.first()? ^ part.mask {
            INET_V4 => 5,
            INET_V6 => 17,
            _ => return None,
        },
        ColumnType::Text | ColumnType::Ascii | ColumnType::Blob => escaped_len(bytes, part.mask)?,
        ColumnType::List(_) | ColumnType::Nested(_) => nested_len(part.ty, bytes, part.mask)?,
        ColumnType::Duration | ColumnType::Json | ColumnType::Jsonb => return None,
    };
    (len <= bytes.len()).then_some(len)
}

fn escaped_len(bytes: &[u8], mask: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|byte| *byte == mask)?;
        match bytes.get(at + 1)? ^ mask {
            0 => return Some(at + 2),
            0xff => at += 2,
            _ => return None,
        }
    }
}

/// The content of an escaped part of `len` bytes, as [`part_len`] found it, put in the place of `content`.
pub(crate) fn unescape(bytes: &[u8], mask: u8, content: &mut Vec<u8>) {
    content.clear();
    let escaped = &bytes[..bytes.len() - 2];
    let mut rest = escaped;
    while let Some(at) = rest.iter().position(|byte| *byte == mask) {
        content.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    content.extend_from_slice(rest);
    invert(content, mask);
}

/// The first part of `bytes` as a fixed number of bytes, no longer inverted.
pub(crate) fn fixed<const N: usize>(bytes: &[u8], mask: u8) -> Result<[u8; N]> {
    let (head, _) = bytes.split_first_chunk::<N>().ok_or_else(|| corrupted("it ends inside a column"))?;
    Ok(head.map(|byte| byte ^ mask))
}

/// The inverse of [`bigint_bytes`].
pub(crate) fn bigint_of(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
}

/// The inverse of [`int_bytes`].
pub(crate) fn int_of(bytes: [u8; 4]) -> i32 {
    (u32::from_be_bytes(bytes) ^ 1 << 31) as i32
}

fn double_of(bytes: [u8; 8]) -> Result<f64> {
    let value = double_of_rank(u64::from_be_bytes(bytes));
    // A second form of zero or NaN would be a second key for one value.
    if double_bytes(value) == bytes { Ok(value) } else { Err(corrupted("a float is not in its one form")) }
}

fn real_of(bytes: [u8; 4]) -> Result<f32> {
    let bits = u32::from_be_bytes(bytes);
    let value = f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits });
    if real_bytes(value) == bytes { Ok(value) } else { Err(corrupted("a float is not in its one form")) }
}

fn decimal_of(bytes: [u8; 16], precision: u8) -> Result<i128> {
    let digits = (u128::from_be_bytes(bytes) ^ 1 << 127) as i128;
    if !fits_precision(digits, precision) {
        return Err(corrupted("a decimal has too many digits"));
    }
    Ok(digits)
}

fn inet_of(bytes: &[u8], mask: u8) -> Result<IpAddr> {
    Ok(match bytes.len() {
        5 => IpAddr::V4(Ipv4Addr::from(fixed::<4>(&bytes[1..], mask)?)),
        _ => IpAddr::V6(Ipv6Addr::from(fixed::<16>(&bytes[1..], mask)?)),
    })
}

fn timeuuid_of(bytes: [u8; 24]) -> Result<Uuid> {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[8..]);
    if timeuuid_bytes(&uuid) != bytes || !is_timeuuid(&Uuid::from_bytes(uuid)) {
        return Err(corrupted("a timeuuid does not have its time"));
    }
    Ok(Uuid::from_bytes(uuid))
}

/// The value of the first part of `bytes`, and how many bytes it took.
pub(crate) fn decode_part(part: &KeyPart, bytes: &[u8]) -> Result<(Value, usize)> {
    let mask = part.mask;
    let len = part_len(part, bytes).ok_or_else(|| corrupted("a column does not end"))?;
    let bytes = &bytes[..len];
    let mut content = Vec::new();
    let value = match part.ty {
        ColumnType::Boolean => match bytes[0] ^ mask {
            0 => Value::Boolean(false),
            1 => Value::Boolean(true),
            _ => return Err(corrupted("a boolean is neither false nor true")),
        },
        ColumnType::TinyInt => Value::TinyInt((bytes[0] ^ mask ^ 0x80) as i8),
        ColumnType::SmallInt => Value::SmallInt((u16::from_be_bytes(fixed(bytes, mask)?) ^ 1 << 15) as i16),
        ColumnType::Int => Value::Int(int_of(fixed(bytes, mask)?)),
        ColumnType::BigInt => Value::BigInt(bigint_of(fixed(bytes, mask)?)),
        ColumnType::VarInt => Value::Decimal(decimal_of(fixed(bytes, mask)?, DECIMAL_DIGITS)?, 0),
        ColumnType::Decimal { precision, scale } => Value::Decimal(decimal_of(fixed(bytes, mask)?, precision)?, scale),
        ColumnType::Real => Value::Real(real_of(fixed(bytes, mask)?)?),
        ColumnType::Double => Value::Double(double_of(fixed(bytes, mask)?)?),
        ColumnType::Text | ColumnType::Ascii => {
            unescape(bytes, mask, &mut content);
            let text = String::from_utf8(content).map_err(|_| corrupted("a text is not UTF-8"))?;
            if part.ty == ColumnType::Ascii && !text.is_ascii() {
                return Err(corrupted("a text is not ASCII"));
            }
            Value::Text(text)
        }
        ColumnType::Blob => {
            unescape(bytes, mask, &mut content);
            Value::Blob(content)
        }
        ColumnType::Uuid => Value::Uuid(Uuid::from_bytes(fixed(bytes, mask)?)),
        ColumnType::TimeUuid => Value::Uuid(timeuuid_of(fixed(bytes, mask)?)?),
        ColumnType::Date => Value::Date(int_of(fixed(bytes, mask)?)),
        ColumnType::Time => Value::Time(bigint_of(fixed(bytes, mask)?)),
        ColumnType::Timestamp | ColumnType::LocalTimestamp => Value::Timestamp(bigint_of(fixed(bytes, mask)?)),
        ColumnType::Inet => Value::Inet(inet_of(bytes, mask)?),
        ColumnType::List(_) | ColumnType::Nested(_) => nested_of_key(part.ty, bytes, mask)?.0,
        ColumnType::Duration | ColumnType::Json | ColumnType::Jsonb => {
            return Err(corrupted("its column cannot be in a key"));
        }
    };
    Ok((value, len))
}

/// XX001: bytes that no key encodes to.
pub(crate) fn corrupted(what: &str) -> Error {
    Error::new(ErrorKind::Corrupted, format!("malformed key: {what}"))
}
