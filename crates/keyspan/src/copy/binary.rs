//! Rows and values of PostgreSQL's binary COPY format, network byte order throughout.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use keyspan_model::infinity::{days_from_postgres, days_to_postgres, micros_from_postgres, micros_to_postgres};
use keyspan_model::types::DECIMAL_DIGITS;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::type_oid;
use uuid::Uuid;

use super::cells::text_of;

/// The version that stands before the text of a jsonb.
const JSONB_VERSION: u8 = 1;
/// The address families of an inet.
const INET_V4: u8 = 2;
const INET_V6: u8 = 3;
/// The decimal whose values are a varint's.
const WHOLE: ColumnType = ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: 0 };
/// Stands for a row's number of fields after the last row.
pub(super) const END_MARKER: i16 = -1;
/// The signs of a numeric.
const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;

/// Why something could not be read.
pub(super) enum BinaryError {
    /// The bytes end before it does: more may come.
    Short,
    /// It is wrong.
    Wrong(Error),
}

impl BinaryError {
    /// The error where all bytes are there.
    fn whole(self) -> Error {
        match self {
            BinaryError::Short => Error::new(ErrorKind::InvalidBinary, "incorrect binary data format"),
            BinaryError::Wrong(error) => error,
        }
    }
}

impl From<Error> for BinaryError {
    fn from(error: Error) -> BinaryError {
        BinaryError::Wrong(error)
    }
}

/// Reads rows out of bytes.
pub(super) struct BinaryReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// The fields of a row; none for null.
type BinaryRow<'a> = Vec<Option<&'a [u8]>>;

impl<'a> BinaryReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> BinaryReader<'a> {
        BinaryReader { bytes, position: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], BinaryError> {
        let rest = &self.bytes[self.position..];
        let taken = rest.get(..length).ok_or(BinaryError::Short)?;
        self.position += length;
        Ok(taken)
    }

    /// Passes the next row; false: it is the end marker, or none.
    pub(super) fn skip_row(&mut self) -> Result<bool, BinaryError> {
        let count = i16::from_be_bytes(fixed(self.take(2)?)?);
        for _ in 0..count {
            let length = i32::from_be_bytes(fixed(self.take(4)?)?);
            self.take(usize::try_from(length).unwrap_or(0))?;
        }
        Ok(count >= 0)
    }

    /// The next row and its number of fields; none, and [`END_MARKER`], at the end.
    pub(super) fn row(&mut self) -> Result<(BinaryRow<'a>, i16), BinaryError> {
        let count = i16::from_be_bytes(fixed(self.take(2)?)?);
        let mut row = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for _ in 0..count {
            let length = i32::from_be_bytes(fixed(self.take(4)?)?);
            row.push(match usize::try_from(length) {
                Ok(length) => Some(self.take(length)?),
                Err(_) if length == -1 => None,
                Err(_) => return Err(Error::new(ErrorKind::InvalidCopy, "invalid field size").into()),
            });
        }
        Ok((row, count))
    }
}

/// The value of type `ty` in these bytes.
pub(super) fn value(bytes: &[u8], ty: ColumnType) -> Result<Value> {
    Ok(match ty {
        ColumnType::Boolean => Value::Boolean(fixed::<1>(bytes)?[0] != 0),
        ColumnType::TinyInt | ColumnType::SmallInt => Value::SmallInt(i16::from_be_bytes(fixed(bytes)?)).cast(ty)?,
        ColumnType::Int => Value::Int(i32::from_be_bytes(fixed(bytes)?)),
        ColumnType::BigInt => Value::BigInt(i64::from_be_bytes(fixed(bytes)?)),
        ColumnType::Real => Value::Real(f32::from_be_bytes(fixed(bytes)?)).canonical(),
        ColumnType::Double => Value::Double(f64::from_be_bytes(fixed(bytes)?)).canonical(),
        ColumnType::VarInt => Value::parse(&numeric_text(bytes)?, WHOLE)?,
        ColumnType::Decimal { .. } => Value::parse(&numeric_text(bytes)?, ty)?,
        ColumnType::Text | ColumnType::Ascii => Value::Text(text_of(bytes)?.to_string()).cast(ty)?,
        ColumnType::Json => Value::Text(text_of(bytes)?.to_string()).cast(ty)?,
        ColumnType::Jsonb => jsonb(bytes)?,
        ColumnType::Blob => Value::Blob(bytes.to_vec()),
        ColumnType::Uuid | ColumnType::TimeUuid => Value::Uuid(Uuid::from_bytes(fixed(bytes)?)).cast(ty)?,
        ColumnType::Date => Value::Date(days_from_postgres(i32::from_be_bytes(fixed(bytes)?))?),
        ColumnType::Time => Value::Time(i64::from_be_bytes(fixed(bytes)?)),
        ColumnType::Timestamp | ColumnType::LocalTimestamp => {
            Value::Timestamp(micros_from_postgres(i64::from_be_bytes(fixed(bytes)?))?)
        }
        ColumnType::Duration => duration(&fixed(bytes)?)?,
        ColumnType::Inet => inet(bytes)?,
        ColumnType::List(_) | ColumnType::Nested(_) => match ty.element() {
            Some(element) => list(bytes, element)?.cast(ty)?,
            // Everything else nested is jsonb.
            None => jsonb(bytes)?.cast(ty)?,
        },
    })
}

fn jsonb(bytes: &[u8]) -> Result<Value> {
    match bytes.split_first() {
        Some((&JSONB_VERSION, text)) => Value::Text(text_of(text)?.to_string()).cast(ColumnType::Jsonb),
        _ => Err(Error::new(ErrorKind::InvalidBinary, "unsupported jsonb version number")),
    }
}

fn word(reader: &mut BinaryReader<'_>) -> Result<i32> {
    Ok(i32::from_be_bytes(fixed(reader.take(4).map_err(BinaryError::whole)?)?))
}

/// An array as Postgres sends it: dimensions, whether there are nulls, element type; length and lower bound; elements.
fn list(bytes: &[u8], element: ColumnType) -> Result<Value> {
    let mut reader = BinaryReader::new(bytes);
    let dimensions = word(&mut reader)?;
    let (_has_nulls, _element) = (word(&mut reader)?, word(&mut reader)?);
    match dimensions {
        0 => return Ok(Value::List(Vec::new())),
        1 => {}
        _ => return Err(Error::not_supported("arrays of more than one dimension are not supported")),
    }
    let (count, _lower_bound) = (word(&mut reader)?, word(&mut reader)?);
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(match usize::try_from(word(&mut reader)?) {
            Ok(length) => value(reader.take(length).map_err(BinaryError::whole)?, element)?,
            Err(_) => Value::Null,
        });
    }
    Ok(Value::List(elements))
}

fn duration(bytes: &[u8; 16]) -> Result<Value> {
    let micros = i64::from_be_bytes(fixed(&bytes[..8])?);
    let days = i32::from_be_bytes(fixed(&bytes[8..12])?);
    let months = i32::from_be_bytes(fixed(&bytes[12..])?);
    Ok(Value::Duration(months, days, shifted(micros.checked_mul(1000))?))
}

fn inet(bytes: &[u8]) -> Result<Value> {
    let address = match bytes {
        [INET_V4, 32, _, 4, address @ ..] => IpAddr::from(fixed::<4>(address)?),
        [INET_V6, 128, _, 16, address @ ..] => IpAddr::from(fixed::<16>(address)?),
        _ => return Err(incorrect()),
    };
    Ok(Value::Inet(address))
}

/// A numeric (digits of base 10,000, the weight of the first, a sign, a scale) as a text.
fn numeric_text(bytes: &[u8]) -> Result<String> {
    let words: Vec<u16> = bytes.chunks(2).map(|pair| fixed(pair).map(u16::from_be_bytes)).collect::<Result<_>>()?;
    let [count, weight, sign, _scale, digits @ ..] = words.as_slice() else { return Err(incorrect()) };
    if digits.len() != usize::from(*count) || digits.iter().any(|digit| *digit > 9999) {
        return Err(incorrect());
    }
    let sign = match *sign {
        POSITIVE => "",
        NEGATIVE => "-",
        _ => return Err(Error::new(ErrorKind::NumericOverflow, "numeric cannot hold NaN or infinity")),
    };
    if digits.is_empty() {
        return Ok("0".into());
    }
    let text: String = digits.iter().map(|digit| format!("{digit:04}")).collect();
    let exponent = (i64::from(*weight as i16) + 1) * 4 - text.len() as i64;
    Ok(format!("{sign}{text}e{exponent}"))
}

/// Appends a value of a column of type `ty` as a field: its length and its bytes.
pub(super) fn put_field(value: &Value, ty: ColumnType, out: &mut BytesMut) -> Result<()> {
    if value.is_null() {
        out.put_slice(&(-1_i32).to_be_bytes());
        return Ok(());
    }
    let start = out.len();
    out.put_i32(0);
    put_value(value, ty, out)?;
    let length = i32::try_from(out.len() - start - 4)
        .map_err(|_| Error::new(ErrorKind::LimitExceeded, "a value is too long for COPY: the limit is 2 GB"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put_value(value: &Value, ty: ColumnType, out: &mut BytesMut) -> Result<()> {
    match value {
        Value::Null => {}
        Value::Boolean(value) => out.put_u8(u8::from(*value)),
        Value::TinyInt(value) => out.put_slice(&i16::from(*value).to_be_bytes()),
        Value::SmallInt(value) => out.put_slice(&value.to_be_bytes()),
        Value::Int(value) => out.put_slice(&value.to_be_bytes()),
        Value::BigInt(value) | Value::Time(value) => out.put_slice(&value.to_be_bytes()),
        Value::Decimal(..) => put_numeric(&value.to_text(ty), out),
        Value::Real(value) => out.put_slice(&value.to_be_bytes()),
        Value::Double(value) => out.put_slice(&value.to_be_bytes()),
        Value::Text(text) => {
            if ty == ColumnType::Jsonb {
                out.put_u8(JSONB_VERSION);
            }
            out.put_slice(text.as_bytes());
        }
        Value::Blob(bytes) => out.put_slice(bytes),
        Value::Uuid(uuid) => out.put_slice(uuid.as_bytes()),
        Value::Date(days) => out.put_slice(&days_to_postgres(*days)?.to_be_bytes()),
        Value::Timestamp(micros) => out.put_slice(&micros_to_postgres(*micros)?.to_be_bytes()),
        Value::Duration(months, days, nanoseconds) => {
            out.put_slice(&(nanoseconds / 1000).to_be_bytes());
            out.put_slice(&days.to_be_bytes());
            out.put_slice(&months.to_be_bytes());
        }
        Value::Inet(IpAddr::V4(address)) => {
            out.put_slice(&[INET_V4, 32, 0, 4]);
            out.put_slice(&address.octets());
        }
        Value::Inet(IpAddr::V6(address)) => {
            out.put_slice(&[INET_V6, 128, 0, 16]);
            out.put_slice(&address.octets());
        }
        Value::List(_) | Value::Map(_) | Value::Tuple(_) | Value::Variant(_) if ty.is_packed() => {
            out.put_u8(JSONB_VERSION);
            out.put_slice(value.to_text(ty).as_bytes());
        }
        Value::List(elements) => put_list(elements, ty.element().unwrap_or(ty), out)?,
        Value::Map(_) | Value::Tuple(_) | Value::Variant(_) => return Err(incorrect()),
    }
    Ok(())
}

fn put_list(elements: &[Value], element: ColumnType, out: &mut BytesMut) -> Result<()> {
    out.put_i32(i32::from(!elements.is_empty()));
    out.put_i32(i32::from(elements.iter().any(Value::is_null)));
    out.put_u32(type_oid(element));
    if !elements.is_empty() {
        let count = i32::try_from(elements.len());
        out.put_i32(count.map_err(|_| Error::new(ErrorKind::LimitExceeded, "an array is too long for COPY"))?);
        out.put_i32(1);
    }
    elements.iter().try_for_each(|value| put_field(value, element, out))
}

/// Writes the text of a decimal as a numeric.
fn put_numeric(text: &str, out: &mut BytesMut) {
    let (sign, unsigned) = text.strip_prefix('-').map_or((POSITIVE, text), |rest| (NEGATIVE, rest));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    let padded_whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let padded = format!("{padded_whole}{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let mut digits: Vec<u16> = padded.as_bytes().chunks(4).map(of_four).collect();
    let mut weight = padded_whole.len() as i16 / 4 - 1;
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    weight = if digits.is_empty() { 0 } else { weight - leading as i16 };
    out.put_slice(&(digits.len() as u16).to_be_bytes());
    out.put_slice(&weight.to_be_bytes());
    out.put_slice(&sign.to_be_bytes());
    out.put_slice(&(fraction.len() as u16).to_be_bytes());
    digits.iter().for_each(|digit| out.put_slice(&digit.to_be_bytes()));
}

fn of_four(digits: &[u8]) -> u16 {
    digits.iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| incorrect())
}

fn shifted<T>(value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::new(ErrorKind::DatetimeOverflow, "date/time field value out of range"))
}

fn incorrect() -> Error {
    Error::new(ErrorKind::InvalidBinary, "incorrect binary data format")
}
