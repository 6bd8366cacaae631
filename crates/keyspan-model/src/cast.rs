//! Assignment casts: what PostgreSQL does when a value of one type is written to a column of another.
//!
//! Rule: a cast gives the value Postgres would store, or an error. Nothing is truncated in silence.

use crate::datetime::DAY_MICROS;
use crate::error::{Error, ErrorKind, Result};
use crate::input_error::numeric_overflow;
use crate::json::checked_json;
use crate::number::{decimal_text, fits_precision, parse_decimal, rescale};
use crate::text::{checked_ascii, checked_timeuuid};
use crate::types::{ColumnType, DECIMAL_DIGITS, Nested};
use crate::value::Value;
use crate::value_json::check_count;

/// Microseconds from 1970 to 2000.
const YEAR_2000_MICROS: i64 = 946_684_800_000_000;

impl Value {
    /// The value as a column of type `to` stores it; null stays null.
    ///
    /// A text is read as a literal of `to` ([`Value::parse`]); a double rounds half to even, a decimal half away from
    /// zero, as in Postgres. Errors: 22003 out of range, 42804 where Postgres has no assignment cast, those of
    /// [`Value::parse`] for text.
    pub fn cast(self, to: ColumnType) -> Result<Value> {
        match (self, to) {
            (Value::Null, _) => Ok(Value::Null),
            (Value::Text(text), ColumnType::Text) => Ok(Value::Text(text)),
            (Value::Text(text), ColumnType::Ascii) => checked_ascii(&text).map(str::len).map(|_| Value::Text(text)),
            (Value::Text(text), ColumnType::Json) => checked_json(&text).map(str::len).map(|_| Value::Text(text)),
            (Value::Text(text), to) => Value::parse(&text, to),
            (Value::Uuid(uuid), ColumnType::TimeUuid) => checked_timeuuid(uuid).map(Value::Uuid),
            (value, to) if value.fits(to) => Ok(value.canonical()),
            (Value::Variant(held), to) => held.cast(to),
            (Value::List(elements), ColumnType::List(to)) => {
                elements.into_iter().map(|element| element.cast(to.get())).collect::<Result<_>>().map(Value::List)
            }
            (value, ColumnType::Nested(nested)) => value.cast_to_nested(to, nested.get()),
            (value, ColumnType::Text | ColumnType::Ascii) => Ok(Value::Text(value.into_text())),
            (value, to) if is_number(to) => value.cast_to_number(to),
            (value, to) => value.cast_to_time(to),
        }
    }

    /// [`Value::cast`] in a session whose time zone is given by `resolve`: only texts of instants, and of values that may
    /// hold them, differ.
    pub fn cast_zoned(self, to: ColumnType, resolve: crate::datetime::ZoneResolver) -> Result<Value> {
        match (self, to) {
            (Value::Text(text), ColumnType::Timestamp | ColumnType::List(_) | ColumnType::Nested(_)) => {
                Value::parse_zoned(&text, to, resolve)
            }
            (value, to) => value.cast(to),
        }
    }

    /// Part by part; a tuple of fewer values has nulls at its end.
    fn cast_to_nested(self, to: ColumnType, nested: &Nested) -> Result<Value> {
        let each = |values: Vec<Value>, ty: ColumnType| -> Result<Vec<Value>> {
            values.into_iter().map(|value| value.cast(ty)).collect()
        };
        match (self, nested) {
            (value, Nested::Variant) => value.into_variant(),
            (Value::List(elements), Nested::List(element)) => each(elements, *element).map(Value::List),
            (Value::List(elements), Nested::Set(element)) => Value::set(each(elements, *element)?, *element),
            (Value::List(elements), Nested::Vector(dimension)) => {
                Value::vector(each(elements, ColumnType::Real)?, usize::from(*dimension))
            }
            (Value::Map(entries), Nested::Map(key, value)) => {
                let entries = entries.into_iter().map(|(own, each)| Ok((own.cast(*key)?, each.cast(*value)?)));
                Value::map(entries.collect::<Result<_>>()?, *key)
            }
            (Value::Tuple(fields), Nested::Tuple(_) | Nested::User(_)) => {
                let types = nested.parts();
                check_count(to, types.len(), fields.len())?;
                let given = fields.into_iter().chain(std::iter::repeat(Value::Null));
                given.zip(types).map(|(field, ty)| field.cast(ty)).collect::<Result<_>>().map(Value::Tuple)
            }
            (other, _) => Err(mismatch(&other, to)),
        }
    }

    /// The value as a column of `varchar(n)`, `time(n)` or `timestamp(n)` keeps it: a time is rounded, of a text blanks
    /// beyond its length go, and other characters beyond it are 22001.
    pub fn of_length(self, length: u32) -> Result<Value> {
        match self {
            // Bytes are at least as many as characters, so most texts need no counting.
            Value::Text(text) if text.len() > length as usize && text.chars().count() > length as usize => {
                let end = text.char_indices().nth(length as usize).map_or(text.len(), |(end, _)| end);
                if text[end..].bytes().all(|byte| byte == b' ') {
                    return Ok(Value::Text(text[..end].to_owned()));
                }
                let message = format!("value too long for type character varying({length})");
                Err(Error::new(ErrorKind::StringTooLong, message))
            }
            Value::List(elements) => {
                elements.into_iter().map(|element| element.of_length(length)).collect::<Result<_>>().map(Value::List)
            }
            value => Ok(value.with_second_digits(length)),
        }
    }

    /// The value as a column of `char(n)` keeps it: without blanks at its end, which mean nothing there.
    pub fn without_blanks(self) -> Value {
        match self {
            Value::Text(mut text) => {
                text.truncate(text.trim_end_matches(' ').len());
                Value::Text(text)
            }
            Value::List(elements) => Value::List(elements.into_iter().map(Value::without_blanks).collect()),
            value => value,
        }
    }

    /// A time or an interval with so many digits after the point of its seconds, up to six; halves go away from zero, which
    /// for a timestamp is the year 2000, as in Postgres.
    pub fn with_second_digits(self, digits: u32) -> Value {
        if self.infinity().is_some() {
            return self;
        }
        let unit = 10_i64.pow(6_u32.saturating_sub(digits));
        let nearest = |micros: i64| {
            let half = if micros < 0 { -(unit / 2) } else { unit / 2 };
            micros.checked_add(half).map_or(micros, |micros| micros / unit * unit)
        };
        match self {
            Value::Time(micros) => Value::Time(nearest(micros)),
            Value::Timestamp(micros) => {
                let since = micros.checked_sub(YEAR_2000_MICROS).map(|since| nearest(since) + YEAR_2000_MICROS);
                Value::Timestamp(since.unwrap_or(micros))
            }
            Value::Duration(months, days, nanos) => Value::Duration(months, days, nearest(nanos / 1000) * 1000),
            value => value,
        }
    }

    /// Postgres prints a boolean as `t`, but casts it to `true`.
    fn into_text(self) -> String {
        match (&self, self.natural_type()) {
            (Value::Boolean(value), _) => value.to_string(),
            (value, ty) => value.to_text(ty.unwrap_or(ColumnType::Text)),
        }
    }

    fn cast_to_number(self, to: ColumnType) -> Result<Value> {
        match self {
            Value::TinyInt(value) => from_exact(i128::from(value), 0, to),
            Value::SmallInt(value) => from_exact(i128::from(value), 0, to),
            Value::Int(value) => from_exact(i128::from(value), 0, to),
            Value::BigInt(value) => from_exact(i128::from(value), 0, to),
            Value::Decimal(digits, scale) => from_exact(digits, scale, to),
            Value::Real(value) => from_float(f64::from(value), &format!("{value:.5e}"), to),
            Value::Double(value) => from_float(value, &format!("{value:.14e}"), to),
            other => Err(mismatch(&other, to)),
        }
    }

    fn cast_to_time(self, to: ColumnType) -> Result<Value> {
        if let Some(infinity) = self.infinity() {
            return Ok(match to {
                ColumnType::Timestamp | ColumnType::LocalTimestamp => Value::infinite_timestamp(infinity),
                ColumnType::Date => Value::infinite_date(infinity),
                // It has no time of day.
                ColumnType::Time => Value::Null,
                to => return Err(mismatch(&self, to)),
            });
        }
        Ok(match (self, to) {
            (Value::Date(days), ColumnType::Timestamp | ColumnType::LocalTimestamp) => {
                let micros = i64::from(days).checked_mul(DAY_MICROS);
                Value::Timestamp(
                    micros.ok_or_else(|| Error::new(ErrorKind::DatetimeOverflow, "date out of range for timestamp"))?,
                )
            }
            (Value::Timestamp(micros), ColumnType::Date) => {
                let days = i32::try_from(micros.div_euclid(DAY_MICROS));
                Value::Date(days.expect("64 bits of microseconds are fewer than 2^31 days"))
            }
            (Value::Timestamp(micros), ColumnType::Time) => Value::Time(micros.rem_euclid(DAY_MICROS)),
            (Value::Time(micros), ColumnType::Duration) => match micros.checked_mul(1000) {
                Some(nanoseconds) => Value::Duration(0, 0, nanoseconds),
                None => return Err(Error::new(ErrorKind::DatetimeOverflow, "interval out of range")),
            },
            (Value::Duration(_, _, nanoseconds), ColumnType::Time) => {
                Value::Time(round_to_micros(nanoseconds).rem_euclid(DAY_MICROS))
            }
            (other, to) => return Err(mismatch(&other, to)),
        })
    }
}

/// Nanoseconds as microseconds, rounded half up: the rule for every time that comes with nanoseconds.
pub(crate) fn round_to_micros(nanoseconds: i64) -> i64 {
    nanoseconds.div_euclid(1000) + i64::from(nanoseconds.rem_euclid(1000) >= 500)
}

fn is_number(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::TinyInt
            | ColumnType::SmallInt
            | ColumnType::Int
            | ColumnType::BigInt
            | ColumnType::VarInt
            | ColumnType::Real
            | ColumnType::Double
            | ColumnType::Decimal { .. }
    )
}

fn mismatch(value: &Value, to: ColumnType) -> Error {
    let from = value.natural_type().map_or_else(|| "null".to_string(), ColumnType::postgres_name);
    let message = format!("a value of type {from} cannot be assigned to type {}", to.postgres_name());
    Error::new(ErrorKind::DatatypeMismatch, message).with_hint("You will need to rewrite or cast the expression.")
}

fn out_of_range(to: ColumnType) -> Error {
    Error::new(ErrorKind::NumericOverflow, format!("{} out of range", to.postgres_name()))
}

fn from_exact(digits: i128, scale: i8, to: ColumnType) -> Result<Value> {
    match to {
        ColumnType::Decimal { precision, scale: wanted } => {
            let rescaled = rescale(digits, scale, wanted).filter(|digits| fits_precision(*digits, precision));
            rescaled.map(|digits| Value::Decimal(digits, wanted)).ok_or_else(|| numeric_overflow(precision, wanted))
        }
        ColumnType::Real => {
            let value: f32 = decimal_text(digits, scale).parse().expect("a decimal's text is a float's");
            // 38 digits are less than the largest float, so this is never infinite.
            Ok(Value::Real(value).canonical())
        }
        ColumnType::Double => {
            let value: f64 = decimal_text(digits, scale).parse().expect("a decimal's text is a float's");
            Ok(Value::Double(value).canonical())
        }
        to => from_whole(rescale(digits, scale, 0).ok_or_else(|| out_of_range(to))?, to),
    }
}

fn from_whole(whole: i128, to: ColumnType) -> Result<Value> {
    let error = || out_of_range(to);
    Ok(match to {
        ColumnType::TinyInt => Value::TinyInt(whole.try_into().map_err(|_| error())?),
        ColumnType::SmallInt => Value::SmallInt(whole.try_into().map_err(|_| error())?),
        ColumnType::Int => Value::Int(whole.try_into().map_err(|_| error())?),
        ColumnType::BigInt => Value::BigInt(whole.try_into().map_err(|_| error())?),
        ColumnType::VarInt if fits_precision(whole, DECIMAL_DIGITS) => Value::Decimal(whole, 0),
        _ => return Err(error()),
    })
}

/// `scientific` has the digits that Postgres keeps when it makes a numeric of a float: 15, or 6 of a real.
fn from_float(value: f64, scientific: &str, to: ColumnType) -> Result<Value> {
    match to {
        ColumnType::Double => Ok(Value::Double(value).canonical()),
        ColumnType::Real => {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(Error::new(ErrorKind::NumericOverflow, "value out of range: overflow"));
            }
            if narrow == 0.0 && value != 0.0 {
                return Err(Error::new(ErrorKind::NumericOverflow, "value out of range: underflow"));
            }
            Ok(Value::Real(narrow).canonical())
        }
        ColumnType::Decimal { precision, scale } if value.is_finite() => parse_decimal(scientific, precision, scale)
            .map(|digits| Value::Decimal(digits, scale))
            .map_err(|_| numeric_overflow(precision, scale)),
        ColumnType::VarInt if value.is_finite() => parse_decimal(scientific, DECIMAL_DIGITS, 0)
            .map(|digits| Value::Decimal(digits, 0))
            .map_err(|_| out_of_range(to)),
        to if value.is_finite() && value.abs() < 1e30 => from_whole(value.round_ties_even() as i128, to),
        to => Err(out_of_range(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(result: Result<Value>) -> &'static str {
        result.expect_err("an error").sqlstate()
    }

    #[test]
    fn floats_round_to_even_and_decimals_away_from_zero() {
        assert_eq!(Value::Double(2.5).cast(ColumnType::Int), Ok(Value::Int(2)));
        assert_eq!(Value::Double(-3.5).cast(ColumnType::Int), Ok(Value::Int(-4)));
        assert_eq!(Value::Decimal(25, 1).cast(ColumnType::Int), Ok(Value::Int(3)));
        assert_eq!(Value::Decimal(-25, 1).cast(ColumnType::Int), Ok(Value::Int(-3)));
        let money = ColumnType::Decimal { precision: 10, scale: 2 };
        assert_eq!(Value::Double(0.1 + 0.2).cast(money), Ok(Value::Decimal(30, 2)));
        assert_eq!(
            Value::Real(0.1).cast(ColumnType::Decimal { precision: 38, scale: 10 }),
            Ok(Value::Decimal(1_000_000_000, 10))
        );
        assert_eq!(Value::Decimal(1005, 3).cast(money), Ok(Value::Decimal(101, 2)));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let error = Value::BigInt(1 << 40).cast(ColumnType::Int).expect_err("too large");
        assert_eq!((error.sqlstate(), error.message.as_str()), ("22003", "integer out of range"));
        assert_eq!(state(Value::Double(f64::NAN).cast(ColumnType::BigInt)), "22003");
        assert_eq!(state(Value::Double(1e39).cast(ColumnType::Real)), "22003");
        assert_eq!(state(Value::Int(1000).cast(ColumnType::Decimal { precision: 4, scale: 2 })), "22003");
        assert_eq!(state(Value::Int(1).cast(ColumnType::Boolean)), "42804");
        assert_eq!(state(Value::Int(1).cast(ColumnType::Timestamp)), "42804");
        assert_eq!(state(Value::Blob(vec![]).cast(ColumnType::Uuid)), "42804");
        assert_eq!(state(Value::Text("é".into()).cast(ColumnType::Ascii)), "22P02");
        assert_eq!(state(Value::Text("{".into()).cast(ColumnType::Json)), "22P02");
    }

    #[test]
    fn other_assignment_casts() {
        assert_eq!(Value::Null.cast(ColumnType::Int), Ok(Value::Null));
        assert_eq!(Value::Boolean(true).cast(ColumnType::Text), Ok(Value::Text("true".into())));
        assert_eq!(Value::Date(-1).cast(ColumnType::Timestamp), Ok(Value::Timestamp(-DAY_MICROS)));
        assert_eq!(Value::Timestamp(-1).cast(ColumnType::Date), Ok(Value::Date(-1)));
        assert_eq!(Value::Timestamp(-1).cast(ColumnType::Time), Ok(Value::Time(DAY_MICROS - 1)));
        assert_eq!(Value::Text("42".into()).cast(ColumnType::SmallInt), Ok(Value::SmallInt(42)));
        assert_eq!(Value::BigInt(i64::MIN).cast(ColumnType::Double), Ok(Value::Double(i64::MIN as f64)));
    }

    #[test]
    fn lists_are_cast_element_by_element() {
        let (ints, texts) = (ColumnType::list(ColumnType::Int), ColumnType::list(ColumnType::Text));
        let list = Value::List(vec![Value::Text("1".into()), Value::Null]);
        assert_eq!(list.clone().cast(texts), Ok(list.clone()));
        assert_eq!(list.clone().cast(ints), Ok(Value::List(vec![Value::Int(1), Value::Null])));
        assert_eq!(list.clone().cast(ColumnType::Text), Ok(Value::Text("{1,NULL}".into())));
        assert_eq!(Value::Text("{1,NULL}".into()).cast(texts), Ok(list.clone()));
        assert_eq!(state(list.cast(ColumnType::Int)), "42804");
        assert_eq!(state(Value::Text("{x}".into()).cast(ints)), "22P02");
        assert_eq!(state(Value::Int(1).cast(ints)), "42804");
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        assert!(Value::Text("ééé".into()).of_length(3).is_ok());
        assert_eq!(state(Value::Text("éééé".into()).of_length(3)), "22001");
    }
}
