//! Values as text: PostgreSQL's output in its ISO style, the form that the wire, the shell and `row_key` show.
//!
//! Rule: [`Value::parse`] reads back what [`Value::to_text`] writes.

use crate::datetime::civil_from_days;
use crate::infinity::{infinite_days, infinite_micros, infinity_text};
use crate::number::decimal_text;
use crate::text::array::array_text;
use crate::types::ColumnType;
use crate::value::Value;
use crate::value_json::nested_text;

impl ColumnType {
    /// The type's name in PostgreSQL, as `format_type` and error messages show it; types that Postgres has not
    /// (tinyint, varint, ascii, timeuuid) keep their own.
    pub fn postgres_name(self) -> String {
        match self {
            ColumnType::Int => "integer".into(),
            ColumnType::Double => "double precision".into(),
            ColumnType::Decimal { .. } => self.name().replacen("decimal", "numeric", 1),
            ColumnType::Blob => "bytea".into(),
            ColumnType::Time => "time without time zone".into(),
            ColumnType::Timestamp => "timestamp with time zone".into(),
            ColumnType::Duration => "interval".into(),
            ColumnType::List(element) => format!("{}[]", element.get().postgres_name()),
            other => other.name(),
        }
    }
}

impl Value {
    /// The text that PostgreSQL would print for this value of a column of type `ty`; instants in UTC
    /// ([`timestamp_text`] is for other zones). Null gives the empty text: each format has its own word for it.
    pub fn to_text(&self, ty: ColumnType) -> String {
        match self {
            Value::Null => String::new(),
            Value::Boolean(value) => if *value { "t" } else { "f" }.into(),
            Value::TinyInt(value) => value.to_string(),
            Value::SmallInt(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::BigInt(value) => value.to_string(),
            Value::Decimal(digits, scale) => decimal_text(*digits, *scale),
            Value::Real(value) => real_text(*value),
            Value::Double(value) => double_text(*value),
            Value::Text(text) => text.clone(),
            Value::Blob(bytes) => blob_text(bytes),
            Value::Uuid(uuid) => uuid.hyphenated().to_string(),
            Value::Date(days) => date_text(*days),
            Value::Time(micros) => time_text(*micros),
            Value::Timestamp(micros) if ty == ColumnType::LocalTimestamp => local_timestamp_text(*micros),
            Value::Timestamp(micros) => timestamp_text(*micros, 0),
            Value::Duration(months, days, nanoseconds) => duration_text(*months, *days, *nanoseconds),
            Value::Inet(address) => address.to_string(),
            Value::List(_) | Value::Map(_) | Value::Tuple(_) | Value::Variant(_) if ty.is_packed() => {
                nested_text(self, ty, &|at| timestamp_text(at, 0))
            }
            Value::List(_) if ty.dimension().is_some() => nested_text(self, ty, &|at| timestamp_text(at, 0)),
            // Without a type of its own, as an error shows it.
            Value::Map(_) | Value::Tuple(_) | Value::Variant(_) => {
                nested_text(self, self.natural_type().unwrap_or(ty), &|at| timestamp_text(at, 0))
            }
            Value::List(elements) => {
                let element = ty.element().unwrap_or(ty);
                array_text(elements.iter().map(|value| (!value.is_null()).then(|| value.to_text(element))))
            }
        }
    }
}

/// A 4-byte float as Postgres 12 and later print it: the shortest digits that read back as the same float.
pub fn real_text(value: f32) -> String {
    float_text(f64::from(value), &format!("{value:e}"), 6)
}

/// An 8-byte float as Postgres 12 and later print it: the shortest digits that read back as the same float.
pub fn double_text(value: f64) -> String {
    float_text(value, &format!("{value:e}"), 15)
}

/// `scientific` is Rust's shortest form, `d.ddde-n`; Postgres writes an exponent below -4 and from `limit` up.
fn float_text(value: f64, scientific: &str, limit: i32) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..limit).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let (sign, unsigned) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = unsigned.replace('.', "");
    let point = exponent + 1;
    if point <= 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    }
    let point = point.unsigned_abs() as usize;
    if digits.len() <= point {
        return format!("{sign}{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..point], &digits[point..])
}

fn blob_text(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("\\x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A date: `2024-01-25`, `0044-03-15 BC`, `infinity`.
pub fn date_text(days: i32) -> String {
    if let Some(infinity) = infinite_days(days) {
        return infinity_text(infinity).into();
    }
    let (date, era) = date_and_era(i64::from(days));
    date + era
}

/// A time of day without trailing zeros after the point: `10:00:00`, `10:00:00.25`.
pub fn time_text(micros: i64) -> String {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    clock_text(i128::from(seconds), fraction, 6)
}

/// An instant (microseconds since 1970-01-01 UTC) in a zone `offset_seconds` east of UTC: `2024-01-25 10:00:00+05:30`.
pub fn timestamp_text(micros: i64, offset_seconds: i32) -> String {
    if let Some(infinity) = infinite_micros(micros) {
        return infinity_text(infinity).into();
    }
    let (text, era) = date_and_clock(i128::from(micros) + i128::from(offset_seconds) * 1_000_000);
    text + &offset_text(offset_seconds) + era
}

/// A wall-clock time (microseconds since 1970-01-01): `2024-01-25 10:00:00`.
pub fn local_timestamp_text(micros: i64) -> String {
    if let Some(infinity) = infinite_micros(micros) {
        return infinity_text(infinity).into();
    }
    let (text, era) = date_and_clock(i128::from(micros));
    text + era
}

fn date_and_clock(micros: i128) -> (String, &'static str) {
    let day = 86_400_000_000;
    let days = i64::try_from(micros.div_euclid(day)).expect("64 bits of microseconds are fewer days");
    let rest = i64::try_from(micros.rem_euclid(day)).expect("a day's microseconds fit 64 bits");
    let (date, era) = date_and_era(days);
    (format!("{date} {}", time_text(rest)), era)
}

fn date_and_era(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year <= 0 { (1 - year, " BC") } else { (year, "") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

fn offset_text(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// `hh:mm:ss` and, where it is not 0, the fraction of `width` digits without its trailing zeros.
fn clock_text(seconds: i128, fraction: i64, width: usize) -> String {
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 {
        return clock;
    }
    let digits = format!("{fraction:0width$}");
    format!("{clock}.{}", digits.trim_end_matches('0'))
}

/// A duration in Postgres' style: `1 year 2 mons -3 days +04:05:06.000007`.
pub fn duration_text(months: i32, days: i32, nanoseconds: i64) -> String {
    let mut text = String::new();
    let mut after_negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let plural = if count == 1 { "" } else { "s" };
            let blank = if text.is_empty() { "" } else { " " };
            let sign = if after_negative && count > 0 { "+" } else { "" };
            text.push_str(&format!("{blank}{sign}{count} {unit}{plural}"));
            after_negative = count < 0;
        }
    }
    if nanoseconds != 0 || text.is_empty() {
        let blank = if text.is_empty() { "" } else { " " };
        let sign = match (nanoseconds < 0, after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let nanos = i128::from(nanoseconds).abs();
        let fraction = i64::try_from(nanos % 1_000_000_000).expect("less than a second");
        text.push_str(&format!("{blank}{sign}{}", clock_text(nanos / 1_000_000_000, fraction, 9)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_postgres_prints_them() {
        let doubles = [
            (0.1, "0.1"),
            (1e20, "1e+20"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (100_000_000_000_000.0, "100000000000000"),
            (1.5, "1.5"),
            (-0.0001, "-0.0001"),
            (0.00001, "1e-05"),
            (1.2345678901234566e-7, "1.2345678901234566e-07"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "5e-324"),
        ];
        for (value, text) in doubles {
            assert_eq!(double_text(value), text);
        }
        assert_eq!(real_text(0.1), "0.1");
        assert_eq!(real_text(1e6), "1e+06");
        assert_eq!(real_text(123_456.0), "123456");
    }

    #[test]
    fn instants_print_in_their_zone() {
        assert_eq!(timestamp_text(1_706_176_800_000_000, 0), "2024-01-25 10:00:00+00");
        assert_eq!(timestamp_text(1_706_176_800_250_000, 19_800), "2024-01-25 15:30:00.25+05:30");
        assert_eq!(timestamp_text(0, -28_800), "1969-12-31 16:00:00-08");
        assert_eq!(local_timestamp_text(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(date_text(-735_160), "0044-03-15 BC");
        assert!(timestamp_text(i64::MIN + 1, -50_000).ends_with("BC"));
        assert!(timestamp_text(i64::MAX - 1, 50_000).starts_with("294247-01-10"));
        assert!(date_text(i32::MIN + 1).ends_with("BC"));
    }

    #[test]
    fn durations_print_in_postgres_style() {
        assert_eq!(duration_text(1, 2, 11_045_000_006_000), "1 mon 2 days 03:04:05.000006");
        assert_eq!(duration_text(0, 0, 0), "00:00:00");
        assert_eq!(duration_text(-14, 3, -1_000_000_000), "-1 years -2 mons +3 days -00:00:01");
        assert_eq!(duration_text(0, -1, 1), "-1 days +00:00:00.000000001");
        assert!(duration_text(i32::MIN, i32::MIN, i64::MIN).ends_with("-2562047:47:16.854775808"));
    }
}
