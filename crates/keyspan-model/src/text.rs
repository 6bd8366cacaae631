//! Values read from text: the forms that PostgreSQL and CQL accept, with PostgreSQL's errors.
//!
//! Rule: a text that the two languages read differently is refused or documented here, never guessed.

pub mod array;

use std::net::IpAddr;

use uuid::Uuid;

use crate::datetime::{ZoneResolver, is_date, parse_date, parse_time, parse_timestamp, utc_only};
use crate::duration::parse_duration;
use crate::error::{Error, ErrorKind, Result};
use crate::input_error::{float_out_of_range, invalid, numeric_overflow, value_out_of_range};
use crate::json::{Json, checked_json};
use crate::number::{NumberFault, parse_decimal, parse_integer};
use crate::types::{ColumnType, DECIMAL_DIGITS};
use crate::value::{Value, canonical_double, canonical_real, is_timeuuid};
use crate::value_json::value_of_json;

impl Value {
    /// The value of type `ty` that `text` stands for; an instant without a zone is UTC.
    ///
    /// Errors: 22P02 for junk, 22003 for numbers out of range, 22007 and 22008 for dates and times.
    pub fn parse(text: &str, ty: ColumnType) -> Result<Value> {
        Value::parse_zoned(text, ty, &utc_only)
    }

    /// As [`Value::parse`], with the session's time zone: `resolve` gives the offset for an instant without a zone,
    /// and for zones given by name.
    pub fn parse_zoned(text: &str, ty: ColumnType, resolve: ZoneResolver) -> Result<Value> {
        Ok(match ty {
            ColumnType::Boolean => Value::Boolean(parse_boolean(text)?),
            ColumnType::TinyInt => Value::TinyInt(integer(text, ty)?),
            ColumnType::SmallInt => Value::SmallInt(integer(text, ty)?),
            ColumnType::Int => Value::Int(integer(text, ty)?),
            ColumnType::BigInt => Value::BigInt(integer(text, ty)?),
            ColumnType::VarInt => Value::Decimal(parse_varint(text)?, 0),
            ColumnType::Real => Value::Real(parse_real(text)?),
            ColumnType::Double => Value::Double(parse_double(text)?),
            ColumnType::Decimal { precision, scale } => Value::Decimal(parse_numeric(text, precision, scale)?, scale),
            ColumnType::Text => Value::Text(text.to_owned()),
            ColumnType::Ascii => Value::Text(checked_ascii(text)?.to_owned()),
            ColumnType::Blob => Value::Blob(parse_blob(text)?),
            ColumnType::Uuid => Value::Uuid(parse_uuid(text, ty)?),
            ColumnType::TimeUuid => Value::Uuid(checked_timeuuid(parse_uuid(text, ty)?)?),
            ColumnType::Date => Value::Date(parse_date(text, resolve)?),
            ColumnType::Time => Value::Time(parse_time(text, resolve)?),
            ColumnType::Timestamp | ColumnType::LocalTimestamp => Value::Timestamp(parse_timestamp(text, ty, resolve)?),
            ColumnType::Duration => {
                let (months, days, nanoseconds) = parse_duration(text)?;
                Value::Duration(months, days, nanoseconds)
            }
            ColumnType::Inet => Value::Inet(parse_inet(text)?),
            ColumnType::Json => Value::Text(checked_json(text)?.to_owned()),
            ColumnType::Jsonb => Value::Text(Json::parse(text)?.to_string()),
            ColumnType::List(element) => {
                let parse = |text: Option<String>| match text {
                    Some(text) => Value::parse_zoned(&text, element.get(), resolve),
                    None => Ok(Value::Null),
                };
                Value::List(array::elements(text)?.into_iter().map(parse).collect::<Result<_>>()?)
            }
            // As it stands: a text does not tell that it was a number.
            ty if ty.is_variant() => Value::Text(text.to_owned()).into_variant()?,
            ty if ty.dimension().is_some() => vector_of_text(text, ty)?,
            ColumnType::Nested(_) => match ty.element() {
                // A set of scalars is written as an array, or as JSON.
                Some(element) if !text.trim_start().starts_with('[') => {
                    match Value::parse_zoned(text, ColumnType::list(element), resolve)? {
                        Value::List(elements) => Value::set(elements, element)?,
                        other => other,
                    }
                }
                _ => Value::of_json(text, ty, resolve)?,
            },
        })
    }

    /// The value of type `ty` that a JSON text stands for; scalars in it are read as [`Value::parse_zoned`] does.
    ///
    /// # Errors
    /// 22P02 for what is no such JSON, and those of [`Value::parse_zoned`].
    pub fn of_json(text: &str, ty: ColumnType, resolve: ZoneResolver) -> Result<Value> {
        value_of_json(text, ty, &|text, ty| Value::parse_zoned(text, ty, resolve))
    }

    /// The date so many days after 1970-01-01.
    ///
    /// # Errors
    /// 22008 for a day before PostgreSQL's first or after its last.
    pub fn date_from_days(days: i32) -> Result<Value> {
        if is_date(i64::from(days)) {
            return Ok(Value::Date(days));
        }
        let message = format!("date out of range: {days} days after 1970-01-01");
        Err(Error::new(ErrorKind::DatetimeOverflow, message))
    }

    /// CQL's integer literal for a timestamp: milliseconds since 1970-01-01 UTC. SQL has no such cast, so
    /// [`Value::cast`] does not do it; 22008 beyond the range of microseconds.
    pub fn timestamp_from_millis(millis: i64) -> Result<Value> {
        millis.checked_mul(1000).map(Value::Timestamp).ok_or_else(|| {
            Error::new(ErrorKind::DatetimeOverflow, format!("timestamp out of range: \"{millis}\""))
                .with_hint("An integer for a timestamp counts milliseconds since 1970-01-01 UTC.")
        })
    }
}

/// `[1, 2.5]`, or `{1,2.5}` as an array.
fn vector_of_text(text: &str, ty: ColumnType) -> Result<Value> {
    let read = match text.trim_start().starts_with('[') {
        true => Value::of_json(text, ty, &utc_only),
        false => Value::parse(text, ColumnType::list(ColumnType::Real)).and_then(|list| list.cast(ty)),
    };
    read.map_err(|error| match error.kind {
        ErrorKind::InvalidText => invalid(ty, text).with_hint("A vector is written [number, …], in a text, too."),
        _ => error,
    })
}

fn parse_boolean(text: &str) -> Result<bool> {
    let lower = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| lower.len() >= least && word.starts_with(lower.as_str());
    if lower == "1" || begins("true", 1) || begins("yes", 1) || lower == "on" {
        Ok(true)
    } else if lower == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Ok(false)
    } else {
        Err(invalid(ColumnType::Boolean, text))
    }
}

fn integer<T: TryFrom<i128>>(text: &str, ty: ColumnType) -> Result<T> {
    let value = parse_integer(text).map_err(|fault| number_error(fault, text, ty))?;
    T::try_from(value).map_err(|_| value_out_of_range(text, ty))
}

fn parse_varint(text: &str) -> Result<i128> {
    let value = parse_integer(text).map_err(|fault| number_error(fault, text, ColumnType::VarInt))?;
    if !crate::number::fits_precision(value, DECIMAL_DIGITS) {
        return Err(value_out_of_range(text, ColumnType::VarInt));
    }
    Ok(value)
}

fn number_error(fault: NumberFault, text: &str, ty: ColumnType) -> Error {
    match fault {
        NumberFault::Syntax => invalid(ty, text),
        NumberFault::Overflow => value_out_of_range(text, ty),
    }
}

fn parse_numeric(text: &str, precision: u8, scale: i8) -> Result<i128> {
    let trimmed = text.trim().trim_start_matches(['+', '-']).to_ascii_lowercase();
    if matches!(trimmed.as_str(), "nan" | "inf" | "infinity") {
        return Err(Error::new(ErrorKind::NumericOverflow, format!("numeric cannot hold {}", text.trim()))
            .with_hint("Use double for values that may be NaN or infinite."));
    }
    parse_decimal(text, precision, scale).map_err(|fault| match fault {
        NumberFault::Syntax => invalid(ColumnType::Decimal { precision, scale }, text),
        NumberFault::Overflow => numeric_overflow(precision, scale),
    })
}

fn is_float_syntax(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
}

fn has_significant_digit(text: &str) -> bool {
    text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| (b'1'..=b'9').contains(&b))
}

fn parse_double(text: &str) -> Result<f64> {
    let trimmed = text.trim();
    let value: f64 = trimmed.parse().map_err(|_| invalid(ColumnType::Double, text))?;
    if is_float_syntax(trimmed) && (value.is_infinite() || (value == 0.0 && has_significant_digit(trimmed))) {
        return Err(float_out_of_range(trimmed, ColumnType::Double));
    }
    Ok(canonical_double(value))
}

fn parse_real(text: &str) -> Result<f32> {
    let trimmed = text.trim();
    let value: f32 = trimmed.parse().map_err(|_| invalid(ColumnType::Real, text))?;
    if is_float_syntax(trimmed) && (value.is_infinite() || (value == 0.0 && has_significant_digit(trimmed))) {
        return Err(float_out_of_range(trimmed, ColumnType::Real));
    }
    Ok(canonical_real(value))
}

/// The text, if it is ASCII; else 22P02.
pub(crate) fn checked_ascii(text: &str) -> Result<&str> {
    match text.chars().find(|c| !c.is_ascii()) {
        None => Ok(text),
        Some(c) => Err(invalid(ColumnType::Ascii, text).with_detail(format!("'{c}' is not an ASCII character."))),
    }
}

/// The UUID, if it is of version 1; else 22P02.
pub(crate) fn checked_timeuuid(uuid: Uuid) -> Result<Uuid> {
    if is_timeuuid(&uuid) {
        return Ok(uuid);
    }
    Err(invalid(ColumnType::TimeUuid, &uuid.to_string())
        .with_detail(format!("A timeuuid is of version 1; this one is of version {}.", uuid.get_version_num())))
}

/// Postgres' forms: 32 hexadecimal digits, a hyphen after any group of four, perhaps in braces.
fn parse_uuid(text: &str, ty: ColumnType) -> Result<Uuid> {
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed);
    let mut value: u128 = 0;
    let mut count = 0;
    let mut after_hyphen = true;
    for character in inner.chars() {
        if character == '-' && count % 4 == 0 && !after_hyphen {
            after_hyphen = true;
            continue;
        }
        let digit = character.to_digit(16).filter(|_| count < 32).ok_or_else(|| invalid(ty, text))?;
        value = value << 4 | u128::from(digit);
        count += 1;
        after_hyphen = false;
    }
    if count != 32 || after_hyphen {
        return Err(invalid(ty, text));
    }
    Ok(Uuid::from_u128(value))
}

/// Bytes from `\x` and hexadecimal digits (Postgres), `0x` and hexadecimal digits (CQL), or Postgres' escape format.
///
/// A text that begins with `0x` is always CQL's form: Postgres would take it as the bytes of the text.
fn parse_blob(text: &str) -> Result<Vec<u8>> {
    match text.get(..2) {
        Some("\\x" | "\\X" | "0x" | "0X") => parse_hex(&text[2..]),
        _ => parse_escaped(text),
    }
}

fn parse_hex(digits: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut high: Option<u32> = None;
    for character in digits.chars().filter(|c| !c.is_whitespace()) {
        let digit = character.to_digit(16).ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameter, format!("invalid hexadecimal digit: \"{character}\""))
        })?;
        high = match high {
            None => Some(digit),
            Some(first) => {
                bytes.push((first * 16 + digit) as u8);
                None
            }
        };
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err(Error::new(ErrorKind::InvalidParameter, "invalid hexadecimal data: odd number of digits")),
    }
}

fn parse_escaped(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                rest = after;
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            (b'\\', _) => return Err(Error::new(ErrorKind::InvalidText, "invalid input syntax for type bytea")),
            (byte, after) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    Ok(bytes)
}

/// An address; a netmask is accepted only if it is that of a single host.
pub(crate) fn parse_inet(text: &str) -> Result<IpAddr> {
    let trimmed = text.trim();
    let (address, mask) = match trimmed.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (trimmed, None),
    };
    let address: IpAddr = address.parse().map_err(|_| invalid(ColumnType::Inet, text))?;
    match mask {
        None => Ok(address),
        Some("32") if address.is_ipv4() => Ok(address),
        Some("128") if address.is_ipv6() => Ok(address),
        Some(_) => Err(invalid(ColumnType::Inet, text).with_hint("inet holds one address, not a network.")),
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
