//! Durations read from text: CQL's `1h30m`, ISO 8601's `P1DT2H`, and Postgres' `1 day 02:03:04`.
//!
//! Months, days and nanoseconds are kept apart, since neither a month nor a day has a fixed length.

use crate::error::{Error, ErrorKind, Result};
use crate::input_error::{invalid, shown};
use crate::types::ColumnType;

const BILLION: i128 = 1_000_000_000;
const DAY_NANOS: i128 = 86_400 * BILLION;

enum Fault {
    Syntax,
    Range,
}

/// One of a unit: months, days, nanoseconds; two of them are 0.
type Unit = (i128, i128, i128);

const YEAR: Unit = (12, 0, 0);
const MONTH: Unit = (1, 0, 0);
const WEEK: Unit = (0, 7, 0);
const DAY: Unit = (0, 1, 0);
const HOUR: Unit = (0, 0, 3600 * BILLION);
const MINUTE: Unit = (0, 0, 60 * BILLION);
const SECOND: Unit = (0, 0, BILLION);

/// Reads a duration, as months, days and nanoseconds.
///
/// A minus before a text without blanks is CQL's and negates all of it; elsewhere a sign belongs to its number, as in
/// Postgres. Fractions go down as in Postgres: half a month is 15 days, half a day 12 hours.
pub(crate) fn parse_duration(text: &str) -> Result<(i32, i32, i64)> {
    let parsed = read(text.trim()).and_then(Sum::finish);
    parsed.map_err(|fault| match fault {
        Fault::Syntax => invalid(ColumnType::Duration, text),
        Fault::Range => {
            Error::new(ErrorKind::DatetimeOverflow, format!("interval field value out of range: \"{}\"", shown(text)))
        }
    })
}

/// Reads a duration of a fixed length, as microseconds, a day taken as 24 hours; `None` if it has months or is not
/// longer than nothing.
///
/// # Errors
/// What is no duration (22007), or out of range (22008).
pub fn parse_fixed_duration(text: &str) -> Result<Option<i64>> {
    let (months, days, nanoseconds) = parse_duration(text)?;
    let microseconds = i64::from(days) * 86_400_000_000 + nanoseconds / 1_000;
    Ok(Some(microseconds).filter(|microseconds| months == 0 && *microseconds > 0))
}

#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

/// A signed decimal number: whole part and billionths, both with the number's sign.
struct Quantity {
    whole: i128,
    billionths: i128,
    negative: bool,
}

impl Sum {
    fn add(&mut self, quantity: &Quantity, unit: Unit) {
        let (months, days, nanos) = unit;
        self.months += quantity.whole * months;
        self.days += quantity.whole * days;
        self.nanos += quantity.whole * nanos + quantity.billionths * nanos / BILLION;
        if months > 1 {
            let part = quantity.billionths * months;
            self.months += (part + part.signum() * BILLION / 2) / BILLION;
        } else {
            let part = quantity.billionths * (months * 30 + days) * 86_400;
            self.days += part / DAY_NANOS;
            self.nanos += part % DAY_NANOS;
        }
    }

    fn negate(self) -> Sum {
        Sum { months: -self.months, days: -self.days, nanos: -self.nanos }
    }

    fn finish(self) -> Result<(i32, i32, i64), Fault> {
        let months = i32::try_from(self.months).map_err(|_| Fault::Range)?;
        let days = i32::try_from(self.days).map_err(|_| Fault::Range)?;
        Ok((months, days, i64::try_from(self.nanos).map_err(|_| Fault::Range)?))
    }
}

fn read(text: &str) -> Result<Sum, Fault> {
    if let Some(iso) = text.strip_prefix(['P', 'p']) {
        return read_iso(iso);
    }
    if let Some(rest) = text.strip_prefix('-')
        && !text.contains(|c: char| c.is_whitespace() || c == ':')
        && rest.ends_with(char::is_alphabetic)
    {
        return read(rest).map(Sum::negate);
    }
    let text = text.strip_prefix('@').unwrap_or(text).trim_start();
    // As in PostgreSQL a sign may stand apart from its number.
    let parts: Vec<&str> = text.split_inclusive(['-', '+']).collect();
    match parts.iter().skip(1).any(|part| part.starts_with(' ')) {
        true => read_units(
            &parts
                .iter()
                .enumerate()
                .map(|(at, part)| if at > 0 { part.trim_start() } else { part })
                .collect::<String>(),
        ),
        false => read_units(text),
    }
}

/// What follows a number and its unit: blanks and commas stand between them.
fn next_of(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == ',')
}

fn read_units(text: &str) -> Result<Sum, Fault> {
    let mut sum = Sum::default();
    let mut rest = text;
    if rest.is_empty() {
        return Err(Fault::Syntax);
    }
    while !rest.is_empty() {
        if rest.eq_ignore_ascii_case("ago") && rest.len() < text.len() {
            return Ok(sum.negate());
        }
        let (quantity, after) = read_quantity(rest)?;
        if after.starts_with(':') {
            rest = next_of(read_clock(&mut sum, &quantity, after)?);
            continue;
        }
        // `1-2` is a year and two months.
        if after.as_bytes().first() == Some(&b'-') && after.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
            let (months, next) = read_quantity(&after[1..])?;
            let ends = next.is_empty() || next.starts_with(char::is_whitespace);
            if quantity.billionths != 0 || months.billionths != 0 || !ends {
                return Err(Fault::Syntax);
            }
            if months.whole > 11 {
                return Err(Fault::Range);
            }
            sum.add(&quantity, YEAR);
            sum.months += if quantity.negative { -months.whole } else { months.whole };
            rest = next_of(next);
            continue;
        }
        let after = after.trim_start();
        let (name, next) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        let unit = match name {
            "" if next.is_empty() => SECOND,
            // Postgres: `1 02:03:04` is a day and a time.
            "" if next.contains(':') => DAY,
            name => unit_of(name).ok_or(Fault::Syntax)?,
        };
        sum.add(&quantity, unit);
        rest = next_of(next);
    }
    Ok(sum)
}

/// Reads `:mm[:ss[.fraction]]` after the hours.
fn read_clock<'a>(sum: &mut Sum, hours: &Quantity, text: &'a str) -> Result<&'a str, Fault> {
    let signed = |quantity: Quantity| match hours.negative {
        true => Quantity { whole: -quantity.whole, billionths: -quantity.billionths, negative: true },
        false => quantity,
    };
    let (minutes, mut rest) = read_quantity(&text[1..])?;
    if hours.billionths != 0 || minutes.billionths != 0 || minutes.negative || minutes.whole > 59 {
        return Err(Fault::Range);
    }
    sum.add(hours, HOUR);
    sum.add(&signed(minutes), MINUTE);
    if let Some(after) = rest.strip_prefix(':') {
        let (seconds, after) = read_quantity(after)?;
        if seconds.negative || seconds.whole > 60 {
            return Err(Fault::Range);
        }
        sum.add(&signed(seconds), SECOND);
        rest = after;
    }
    Ok(rest)
}

fn read_iso(text: &str) -> Result<Sum, Fault> {
    let mut sum = Sum::default();
    let mut rest = text;
    let mut in_time = false;
    if rest.is_empty() {
        return Err(Fault::Syntax);
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            if in_time || after.is_empty() {
                return Err(Fault::Syntax);
            }
            (in_time, rest) = (true, after);
        }
        let (quantity, after) = read_quantity(rest)?;
        let designator = after.chars().next().ok_or(Fault::Syntax)?;
        let unit = match (in_time, designator.to_ascii_uppercase()) {
            (false, 'Y') => YEAR,
            (false, 'M') => MONTH,
            (false, 'W') => WEEK,
            (false, 'D') => DAY,
            (true, 'H') => HOUR,
            (true, 'M') => MINUTE,
            (true, 'S') => SECOND,
            _ => return Err(Fault::Syntax),
        };
        sum.add(&quantity, unit);
        rest = &after[1..];
    }
    Ok(sum)
}

fn read_quantity(text: &str) -> Result<(Quantity, &str), Fault> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = unsigned.split_at(digits(unsigned));
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = after.split_at(digits(after));
    }
    if whole.len() + fraction.len() == 0 {
        return Err(Fault::Syntax);
    }
    if whole.len() > 20 {
        return Err(Fault::Range);
    }
    let number = |digits: &mut dyn Iterator<Item = u8>| digits.fold(0i128, |sum, b| sum * 10 + i128::from(b - b'0'));
    let whole = number(&mut whole.bytes());
    let billionths = number(&mut fraction.bytes().chain(std::iter::repeat(b'0')).take(9));
    let sign = if negative { -1 } else { 1 };
    Ok((Quantity { whole: sign * whole, billionths: sign * billionths, negative }, rest))
}

fn unit_of(name: &str) -> Option<Unit> {
    Some(match name.to_lowercase().as_str() {
        "millennium" | "millennia" | "mil" | "mils" => (12_000, 0, 0),
        "century" | "centuries" | "cent" | "c" => (1200, 0, 0),
        "decade" | "decades" | "dec" | "decs" => (120, 0, 0),
        "year" | "years" | "yr" | "yrs" | "y" => YEAR,
        "month" | "months" | "mon" | "mons" | "mo" => MONTH,
        "week" | "weeks" | "w" => WEEK,
        "day" | "days" | "d" => DAY,
        "hour" | "hours" | "hr" | "hrs" | "h" => HOUR,
        "minute" | "minutes" | "min" | "mins" | "m" => MINUTE,
        "second" | "seconds" | "sec" | "secs" | "s" => SECOND,
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => (0, 0, 1_000_000),
        "microsecond" | "microseconds" | "usec" | "usecs" | "us" | "µs" | "μs" => (0, 0, 1000),
        "nanosecond" | "nanoseconds" | "ns" => (0, 0, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NANOS: i64 = 3_600_000_000_000;

    #[test]
    fn the_three_languages_of_durations() {
        let cases = [
            ("1h30m", (0, 0, HOUR_NANOS * 3 / 2)),
            ("1y2mo3d4h5m6s7ms8us9ns", (14, 3, 4 * HOUR_NANOS + 306_007_008_009)),
            ("-1h30m", (0, 0, -HOUR_NANOS * 3 / 2)),
            ("2w", (0, 14, 0)),
            ("P1DT2H", (0, 1, 2 * HOUR_NANOS)),
            ("P1Y2M3W4DT5.5S", (14, 25, 5_500_000_000)),
            ("1 day 02:03:04", (0, 1, 7_384_000_000_000)),
            ("01:30:00", (0, 0, HOUR_NANOS * 3 / 2)),
            ("2 hours", (0, 0, 2 * HOUR_NANOS)),
            ("1 mon -2 days +03:00:00", (1, -2, 3 * HOUR_NANOS)),
            ("-1 days -00:30", (0, -1, -HOUR_NANOS / 2)),
            ("1.5 months", (1, 15, 0)),
            ("1.5 days", (0, 1, 12 * HOUR_NANOS)),
            ("1.5 years", (18, 0, 0)),
            ("3 days ago", (0, -3, 0)),
            ("30", (0, 0, 30_000_000_000)),
            ("1 02:00:00", (0, 1, 2 * HOUR_NANOS)),
            ("1-2", (14, 0, 0)),
            ("-1-2 3 4:00", (-14, 3, 4 * HOUR_NANOS)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn junk_is_refused_and_so_is_what_does_not_fit() {
        for text in [
            "",
            "P",
            "PT",
            "P1H",
            "1 fortnight",
            "h",
            "1h junk",
            "ago",
            "1:99",
            "1-12",
            "1-",
            "1-2-3",
            "2024-01-01",
            "1.5-2",
            "é",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let error = parse_duration("9999999999 years").expect_err("too long");
        assert_eq!(error.kind, ErrorKind::DatetimeOverflow);
        assert!(parse_duration("99999999999999999999999999999999999999999999 days").is_err());
    }
}
