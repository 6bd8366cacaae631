//! Texts to typed arrays.
//!
//! The rule: a fast path reads only forms that it reads exactly as [`Value::parse_zoned`] does; everything else goes
//! there, errors included.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::builder::{
    Float64Builder, Int32Builder, Int64Builder, StringViewBuilder, TimestampMicrosecondBuilder,
};
use chrono::NaiveDate;
use keyspan_model::{ColumnBuilder, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::Zone;

use super::binary;

/// Days from 0001-01-01, chrono's day 1, to 1970-01-01.
const EPOCH_DAY: i64 = 719_163;
/// Digits that every number of a 64-bit integer may have.
const SAFE_DIGITS: usize = 18;

/// A column as it is read.
pub(super) struct ParsedColumn {
    ty: ColumnType,
    builder: CellBuilder,
}

enum CellBuilder {
    Text(StringViewBuilder),
    Int(Int32Builder),
    BigInt(Int64Builder),
    Double(Float64Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Other(ColumnBuilder),
}

impl ParsedColumn {
    pub(super) fn new(ty: ColumnType) -> ParsedColumn {
        let builder = match ty {
            ColumnType::Text => CellBuilder::Text(StringViewBuilder::new()),
            ColumnType::Int => CellBuilder::Int(Int32Builder::new()),
            ColumnType::BigInt => CellBuilder::BigInt(Int64Builder::new()),
            ColumnType::Double => CellBuilder::Double(Float64Builder::new()),
            ColumnType::Timestamp => {
                CellBuilder::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(ty.arrow()))
            }
            ty => CellBuilder::Other(ColumnBuilder::new(ty)),
        };
        ParsedColumn { ty, builder }
    }

    /// Appends what a text stands for.
    pub(super) fn push_text(&mut self, text: &str, zone: &Zone) -> Result<()> {
        match &mut self.builder {
            CellBuilder::Text(builder) => builder.append_value(text),
            CellBuilder::Int(builder) => match small_integer(text).map(i32::try_from) {
                Some(Ok(value)) => builder.append_value(value),
                _ => return self.push_parsed(text, zone),
            },
            CellBuilder::BigInt(builder) => match small_integer(text) {
                Some(value) => builder.append_value(value),
                None => return self.push_parsed(text, zone),
            },
            CellBuilder::Timestamp(builder) => match plain_timestamp(text, zone) {
                Some(value) => builder.append_value(value),
                None => return self.push_parsed(text, zone),
            },
            CellBuilder::Double(builder) => match plain_double(text) {
                Some(value) => builder.append_value(value),
                None => return self.push_parsed(text, zone),
            },
            CellBuilder::Other(_) => return self.push_parsed(text, zone),
        }
        Ok(())
    }

    /// Appends what stands in a field of a binary row.
    pub(super) fn push_binary(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.builder {
            CellBuilder::Text(builder) => builder.append_value(text_of(bytes)?),
            _ => return self.push(&binary::value(bytes, self.ty)?),
        }
        Ok(())
    }

    fn push_parsed(&mut self, text: &str, zone: &Zone) -> Result<()> {
        let value = Value::parse_zoned(text, self.ty, &|name, micros| zone.resolve(name, micros))?;
        self.push(&value)
    }

    /// Appends a value of the column's type, or null.
    pub(super) fn push(&mut self, value: &Value) -> Result<()> {
        match (&mut self.builder, value) {
            (_, Value::Null) => self.push_null(),
            (CellBuilder::Text(builder), Value::Text(text)) => builder.append_value(text),
            (CellBuilder::Int(builder), Value::Int(value)) => builder.append_value(*value),
            (CellBuilder::BigInt(builder), Value::BigInt(value)) => builder.append_value(*value),
            (CellBuilder::Double(builder), Value::Double(value)) => builder.append_value(*value),
            (CellBuilder::Timestamp(builder), Value::Timestamp(micros)) => builder.append_value(*micros),
            (CellBuilder::Other(builder), value) => builder.append(value)?,
            (_, value) => return Err(Error::internal(format!("COPY read {value:?} as {}", self.ty))),
        }
        Ok(())
    }

    pub(super) fn push_null(&mut self) {
        match &mut self.builder {
            CellBuilder::Text(builder) => builder.append_null(),
            CellBuilder::Int(builder) => builder.append_null(),
            CellBuilder::BigInt(builder) => builder.append_null(),
            CellBuilder::Double(builder) => builder.append_null(),
            CellBuilder::Timestamp(builder) => builder.append_null(),
            CellBuilder::Other(builder) => builder.append_null(),
        }
    }

    /// What was appended since the last call.
    pub(super) fn take(&mut self) -> ArrayRef {
        match &mut self.builder {
            CellBuilder::Text(builder) => Arc::new(builder.finish()),
            CellBuilder::Int(builder) => Arc::new(builder.finish()),
            CellBuilder::BigInt(builder) => Arc::new(builder.finish()),
            CellBuilder::Double(builder) => Arc::new(builder.finish()),
            CellBuilder::Timestamp(builder) => Arc::new(builder.finish()),
            CellBuilder::Other(builder) => std::mem::replace(builder, ColumnBuilder::new(self.ty)).finish(),
        }
    }
}

/// The bytes as a text, as PostgreSQL takes them: UTF-8 without zeros.
pub(super) fn text_of(bytes: &[u8]) -> Result<&str> {
    let invalid = |byte: u8| {
        let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
        Error::new(ErrorKind::InvalidEncoding, message)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(bytes[error.valid_up_to()]))?;
    if bytes.contains(&0) {
        return Err(invalid(0));
    }
    Ok(text)
}

/// A decimal integer of few digits.
fn small_integer(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    if digits.is_empty() || digits.len() > SAFE_DIGITS {
        return None;
    }
    let value = number(digits)?;
    Some(if digits.len() < bytes.len() { -value } else { value })
}

/// A decimal number as most programs write it, neither zero nor too large or small.
fn plain_double(text: &str) -> Option<f64> {
    let first = *text.as_bytes().first()?;
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    if !(first.is_ascii_digit() || first == b'-') || !text.bytes().all(plain) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_normal())
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |value, byte| match byte {
        b'0'..=b'9' => Some(value * 10 + i64::from(byte - b'0')),
        _ => None,
    })
}

/// `2024-01-25 10:00:00[.25][Z|+00]`, with a `T` too; microseconds since 1970-01-01 UTC.
fn plain_timestamp(text: &str, zone: &Zone) -> Option<i64> {
    let bytes = text.as_bytes();
    let (clock, rest) = bytes.split_at_checked(19)?;
    let separators = [clock[4], clock[7], clock[13], clock[16]];
    if separators != *b"--::" || !matches!(clock[10], b' ' | b'T') {
        return None;
    }
    let at = |from: usize, to: usize| number(&clock[from..to]);
    let (hour, minute, second) = (at(11, 13)?, at(14, 16)?, at(17, 19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(
        i32::try_from(at(0, 4)?).ok().filter(|year| *year > 0)?,
        u32::try_from(at(5, 7)?).ok()?,
        u32::try_from(at(8, 10)?).ok()?,
    )?;
    let days = i64::from(chrono::Datelike::num_days_from_ce(&date)) - EPOCH_DAY;
    let (fraction, rest) = fraction(rest)?;
    let local = (days * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000 + fraction;
    match rest {
        b"Z" | b"+00" | b"+00:00" => Some(local),
        b"" => Some(local - i64::from(zone.resolve(None, local).ok()?) * 1_000_000),
        _ => None,
    }
}

/// A point and up to six digits, as microseconds, and what follows.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=6).contains(&length) {
        return None;
    }
    let (digits, rest) = digits.split_at(length);
    Some((number(digits)? * 10_i64.pow(6 - length as u32), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_paths_read_what_the_model_reads() {
        let zone = Zone::of_setting("America/New_York");
        let texts = [
            "2024-01-25 10:00:00",
            "2024-07-25T10:00:00.25",
            "2024-02-29 23:59:59.999999Z",
            "0001-01-01 00:00:00+00",
            "1969-12-31 23:59:59.000001+00:00",
            "9999-12-31 00:00:00",
        ];
        for text in texts {
            let slow = Value::parse_zoned(text, ColumnType::Timestamp, &|name, micros| zone.resolve(name, micros));
            assert_eq!(plain_timestamp(text, &zone).map(Value::Timestamp), slow.ok(), "{text}");
        }
        for text in [
            "2023-02-29 00:00:00",
            "2024-01-25 24:00:00",
            "2024-01-25 10:00:00.1234567",
            "2024-01-25",
            "0000-01-01 00:00:00",
        ] {
            assert_eq!(plain_timestamp(text, &zone), None, "{text}");
        }
        for text in ["1", "-2.5", "58.1317132304976170", "1e-300", "-1.5E+30", "123456789012345678901234567890"] {
            let slow = Value::parse(text, ColumnType::Double).expect("a number");
            assert_eq!(plain_double(text).map(Value::Double), Some(slow), "{text}");
        }
        for text in ["", "-", "0", "-0", "1e999", "1e-320", "nan", "inf", " 1", "1 ", "1_000", ".5", "+1", "0x10", "1e"]
        {
            assert_eq!(plain_double(text), None, "{text}");
        }
        assert_eq!(small_integer("-42"), Some(-42));
        assert_eq!([small_integer(""), small_integer("-"), small_integer("1e3"), small_integer("+1")], [None; 4]);
    }
}
