//! Dates, times and instants read from text: ISO 8601, the forms of PostgreSQL's ISO style, and CQL's.
//!
//! Months may be named: `January 8, 1999`, `08-Jan-1999`, `Fri Jan 8 04:05:06 1999 UTC`.
//!
//! Rule: a text whose day and month could be swapped, or whose century is missing, is refused, not guessed.

use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::infinity::{infinite_micros, infinity_text};
use crate::input_error::{invalid, shown};
use crate::types::ColumnType;

/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;
/// 4714-11-24 BC, Postgres' first day.
const FIRST_DAY: i64 = -2_440_588;
/// 5874897-12-31, Postgres' last day.
const LAST_DAY: i64 = 2_145_042_905;

/// Says the offset from UTC, in seconds to the east, of a wall-clock time (microseconds since 1970-01-01) in a zone:
/// `None` is the session's own, a name is one that stood in the text.
pub type ZoneResolver<'a> = &'a dyn Fn(Option<&str>, i64) -> Result<i32>;

/// The resolver of sessions whose zone is UTC; it knows no names.
pub fn utc_only(zone: Option<&str>, _local_micros: i64) -> Result<i32> {
    match zone {
        None => Ok(0),
        Some(name) => Err(Error::new(ErrorKind::InvalidParameter, format!("time zone \"{name}\" not recognized"))),
    }
}

enum Fault {
    Syntax,
    Range,
}

enum Zone<'a> {
    Offset(i32),
    Name(&'a str),
}

#[derive(Default)]
struct Parts<'a> {
    days: Option<i64>,
    micros: Option<i64>,
    zone: Option<Zone<'a>>,
}

/// Reads a date, as days since 1970-01-01. A time and a zone after it are ignored, as in Postgres.
pub(crate) fn parse_date(text: &str, resolve: ZoneResolver) -> Result<i32> {
    if let Some(infinity) = infinity(text) {
        return Ok(if infinity.is_gt() { i32::MAX } else { i32::MIN });
    }
    let parts = read(text, ColumnType::Date)?;
    check_ignored_zone(&parts, resolve)?;
    let days = parts.days.ok_or_else(|| invalid(ColumnType::Date, text))?;
    i32::try_from(days).map_err(|_| out_of_range("date", text))
}

/// Reads a time of day, as microseconds since midnight. A zone after it is ignored, as in Postgres; a date may stand
/// before it. `24:00:00` is refused: Arrow's time of day has no such value.
pub(crate) fn parse_time(text: &str, resolve: ZoneResolver) -> Result<i64> {
    let parts = read(text, ColumnType::Time)?;
    check_ignored_zone(&parts, resolve)?;
    let micros = parts.micros.ok_or_else(|| invalid(ColumnType::Time, text))?;
    if micros >= DAY_MICROS {
        return Err(field_out_of_range(text));
    }
    Ok(micros)
}

/// Reads an instant (`Timestamp`) or a wall-clock time (`LocalTimestamp`), as microseconds since 1970-01-01.
///
/// A zone in the text of a wall-clock time is ignored, as in Postgres. An instant without one is in the session's.
pub(crate) fn parse_timestamp(text: &str, ty: ColumnType, resolve: ZoneResolver) -> Result<i64> {
    if let Some(infinity) = infinity(text) {
        return Ok(if infinity.is_gt() { i64::MAX } else { i64::MIN });
    }
    let parts = read(text, ty)?;
    let days = parts.days.ok_or_else(|| invalid(ty, text))?;
    let local = i128::from(days) * i128::from(DAY_MICROS) + i128::from(parts.micros.unwrap_or(0));
    let in_range = |micros: i128| match i64::try_from(micros) {
        Ok(micros) if micros >= FIRST_DAY * DAY_MICROS && infinite_micros(micros).is_none() => Ok(micros),
        _ => Err(out_of_range("timestamp", text)),
    };
    if ty == ColumnType::LocalTimestamp {
        check_ignored_zone(&parts, resolve)?;
        return in_range(local);
    }
    let offset = match parts.zone {
        Some(Zone::Offset(seconds)) => seconds,
        Some(Zone::Name(name)) => resolve(Some(name), in_range(local)?)?,
        None => resolve(None, in_range(local)?)?,
    };
    in_range(local - i128::from(offset) * 1_000_000)
}

fn infinity(text: &str) -> Option<Ordering> {
    let is = |word: &str| text.trim().eq_ignore_ascii_case(word);
    [Ordering::Less, Ordering::Greater].into_iter().find(|infinity| is(infinity_text(*infinity)))
}

/// A zone that has no effect must still be one, so that junk after a date is not ignored with it.
fn check_ignored_zone(parts: &Parts, resolve: ZoneResolver) -> Result<()> {
    match parts.zone {
        Some(Zone::Name(name)) => resolve(Some(name), 0).map(|_| ()),
        _ => Ok(()),
    }
}

fn read(text: &str, ty: ColumnType) -> Result<Parts<'_>> {
    let trimmed = text.trim();
    match trimmed.to_ascii_lowercase().as_str() {
        "epoch" => return Ok(Parts { days: Some(0), micros: Some(0), zone: Some(Zone::Offset(0)) }),
        "now" | "today" | "tomorrow" | "yesterday" => {
            return Err(Error::not_supported(format!("'{trimmed}' as the text of a date or time is not supported"))
                .with_hint("Write now() or current_date."));
        }
        _ => {}
    }
    parse_parts(trimmed).map_err(|fault| match fault {
        Fault::Syntax => invalid(ty, text),
        Fault::Range => field_out_of_range(text),
    })
}

fn field_out_of_range(text: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("date/time field value out of range: \"{}\"", shown(text)))
}

fn out_of_range(what: &str, text: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("{what} out of range: \"{}\"", shown(text)))
}

fn parse_parts(text: &str) -> Result<Parts<'_>, Fault> {
    let (text, before_christ) = strip_era(text);
    let mut parts = Parts::default();
    let mut rest = text;
    if let Some(named) = read_named_date(text, before_christ)? {
        (parts.days, parts.micros, rest) = (Some(named.days), named.micros, named.rest.trim_start());
    } else if looks_like_date(text) {
        let (days, after) = read_date(text, before_christ)?;
        parts.days = Some(days);
        rest = match after.strip_prefix(['T', 't']) {
            Some(time) if time.starts_with(|c: char| c.is_ascii_digit()) => time,
            _ => after.trim_start(),
        };
    } else if before_christ {
        return Err(Fault::Syntax);
    }
    if parts.micros.is_none() && rest.starts_with(|c: char| c.is_ascii_digit()) {
        let (micros, after) = read_time(rest)?;
        parts.micros = Some(micros);
        rest = after.trim_start();
    }
    if parts.days.is_none() && parts.micros.is_none() {
        return Err(Fault::Syntax);
    }
    if !rest.is_empty() {
        parts.zone = Some(read_zone(rest)?);
    }
    Ok(parts)
}

fn strip_era(text: &str) -> (&str, bool) {
    let split = text.len().saturating_sub(3);
    match text.get(split..).map(str::to_ascii_uppercase).as_deref() {
        Some(" BC") => (text[..split].trim_end(), true),
        Some(" AD") => (text[..split].trim_end(), false),
        _ => (text, false),
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn number(text: &str) -> Result<i64, Fault> {
    text.parse().map_err(|_| if text.is_empty() { Fault::Syntax } else { Fault::Range })
}

fn looks_like_date(text: &str) -> bool {
    let (first, rest) = digits(text);
    let dotted = || rest.strip_prefix('.').is_some_and(|rest| digits(rest).1.starts_with('.'));
    first.len() == 8 || (!first.is_empty() && rest.starts_with(['-', '/'])) || (first.len() == 4 && dotted())
}

/// A date with the name of its month, and a time that stood among its parts.
struct NamedDate<'a> {
    days: i64,
    micros: Option<i64>,
    rest: &'a str,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Short names of other lengths than three letters.
const SHORT: [(&str, &str); 5] =
    [("sept", "september"), ("tues", "tuesday"), ("weds", "wednesday"), ("thur", "thursday"), ("thurs", "thursday")];

/// The place of a name in a list, which may be written with its first three letters.
fn named_in(list: &[&str], word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    let word = SHORT.iter().find(|(short, _)| *short == word).map_or(word.as_str(), |(_, name)| name);
    let place = list.iter().position(|name| *name == word || (word.len() == 3 && name.starts_with(word)))?;
    i64::try_from(place).ok()
}

/// The date that a text begins with, if its month is named; of the two numbers beside it the one of three digits and more
/// is the year.
fn read_named_date(text: &str, before_christ: bool) -> Result<Option<NamedDate<'_>>, Fault> {
    let (mut month, mut numbers, mut micros, mut rest) = (None, Vec::new(), None, text);
    while month.is_none() || numbers.len() < 2 {
        let begin = rest.trim_start_matches([' ', ',', '-', '/']);
        let (word, after_word) = begin.split_at(begin.bytes().take_while(u8::is_ascii_alphabetic).count());
        let (number, after_number) = digits(begin);
        rest = if !word.is_empty() {
            match (named_in(&MONTHS, word), named_in(&WEEKDAYS, word)) {
                (Some(place), _) if month.is_none() => month = Some(place + 1),
                (None, Some(_)) if month.is_none() && numbers.is_empty() => {}
                _ => return Ok(None),
            }
            after_word
        } else if number.is_empty() || number.len() > 7 {
            return Ok(None);
        } else if after_number.starts_with(':') && month.is_some() && micros.is_none() {
            let (time, after) = read_time(begin)?;
            micros = Some(time);
            after
        } else {
            numbers.push(number);
            after_number
        };
    }
    let (Some(month), [first, second]) = (month, numbers.as_slice()) else { return Ok(None) };
    let (year, day) = match (first.len() >= 3, second.len() >= 3) {
        (true, false) => (number(first)?, number(second)?),
        (false, true) => (number(second)?, number(first)?),
        _ => return Err(Fault::Syntax),
    };
    Ok(Some(NamedDate { days: civil(year, month, day, before_christ)?, micros, rest }))
}

/// Days since 1970-01-01, if there is such a day.
fn civil(year: i64, month: i64, day: i64, before_christ: bool) -> Result<i64, Fault> {
    if year == 0 || year > 9_999_999 {
        return Err(Fault::Range);
    }
    let year = if before_christ { 1 - year } else { year };
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(Fault::Range);
    }
    let days = days_from_civil(year, month, day);
    if is_date(days) { Ok(days) } else { Err(Fault::Range) }
}

/// Whether there is a date so many days after 1970-01-01.
pub(crate) fn is_date(days: i64) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&days)
}

fn read_date(text: &str, before_christ: bool) -> Result<(i64, &str), Fault> {
    let (year, rest) = digits(text);
    let (year, month, day, rest) = match rest.chars().next() {
        Some(separator @ ('-' | '/' | '.')) => {
            // Fewer digits could be a day or a month as well as a year.
            if year.len() < 4 {
                return Err(Fault::Syntax);
            }
            let (month, rest) = digits(&rest[1..]);
            let (day, rest) = digits(rest.strip_prefix(separator).ok_or(Fault::Syntax)?);
            if month.len() > 2 || day.len() > 2 {
                return Err(Fault::Syntax);
            }
            (number(year)?, number(month)?, number(day)?, rest)
        }
        _ => (number(&year[..4])?, number(&year[4..6])?, number(&year[6..8])?, rest),
    };
    Ok((civil(year, month, day, before_christ)?, rest))
}

fn read_time(text: &str) -> Result<(i64, &str), Fault> {
    let (first, mut rest) = digits(text);
    let (hour, minute, mut second) = match first.len() {
        4 if !rest.starts_with(':') => (number(&first[..2])?, number(&first[2..])?, 0),
        6 if !rest.starts_with(':') => (number(&first[..2])?, number(&first[2..4])?, number(&first[4..])?),
        1 | 2 => {
            let (minute, after) = digits(rest.strip_prefix(':').ok_or(Fault::Syntax)?);
            if minute.len() != 2 {
                return Err(Fault::Syntax);
            }
            rest = after;
            (number(first)?, number(minute)?, 0)
        }
        _ => return Err(Fault::Syntax),
    };
    if let Some(after) = rest.strip_prefix(':') {
        let (seconds, after) = digits(after);
        if seconds.is_empty() || seconds.len() > 2 {
            return Err(Fault::Syntax);
        }
        (second, rest) = (number(seconds)?, after);
    }
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let (text, after) = digits(after);
        (fraction, rest) = (round_fraction(text), after);
    }
    let (hour, rest) = twelve_hour_clock(hour, rest)?;
    if hour > 24 || minute > 59 || second > 60 || (hour == 24 && minute + second + fraction > 0) {
        return Err(Fault::Range);
    }
    Ok((((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction, rest))
}

/// Digits after the point of a second, as microseconds; halves to the even one, as PostgreSQL rounds.
fn round_fraction(digits: &str) -> i64 {
    let micros = digits.bytes().chain(std::iter::repeat(b'0')).take(6).fold(0, |sum, b| sum * 10 + i64::from(b - b'0'));
    let up = match digits.as_bytes().get(6..) {
        None | Some([]) => false,
        Some([b'5', rest @ ..]) => micros % 2 == 1 || rest.iter().any(|digit| *digit != b'0'),
        Some([digit, ..]) => *digit > b'5',
    };
    micros + i64::from(up)
}

fn twelve_hour_clock(hour: i64, rest: &str) -> Result<(i64, &str), Fault> {
    let trimmed = rest.trim_start();
    // `12:30 America/New_York` names a zone.
    let word = trimmed.bytes().take_while(u8::is_ascii_alphabetic).count();
    let afternoon = match trimmed[..word].to_ascii_lowercase().as_str() {
        "am" => false,
        "pm" => true,
        _ => return Ok((hour, rest)),
    };
    if !(1..=12).contains(&hour) {
        return Err(Fault::Range);
    }
    Ok((hour % 12 + if afternoon { 12 } else { 0 }, &trimmed[2..]))
}

fn read_zone(text: &str) -> Result<Zone<'_>, Fault> {
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return zone_name(text),
    };
    let (first, mut rest) = digits(&text[1..]);
    let (hours, mut minutes, mut seconds) = match first.len() {
        1 | 2 => (number(first)?, 0, 0),
        3 | 4 => (number(&first[..first.len() - 2])?, number(&first[first.len() - 2..])?, 0),
        _ => return Err(Fault::Syntax),
    };
    for field in [&mut minutes, &mut seconds] {
        if let Some(after) = rest.strip_prefix(':') {
            let (text, after) = digits(after);
            (*field, rest) = (number(text)?, after);
        }
    }
    if !rest.is_empty() {
        return Err(Fault::Syntax);
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Fault::Range);
    }
    let total = i32::try_from(hours * 3600 + minutes * 60 + seconds).map_err(|_| Fault::Range)?;
    Ok(Zone::Offset(sign * total))
}

fn zone_name(text: &str) -> Result<Zone<'_>, Fault> {
    if ["z", "utc", "gmt", "uct", "zulu"].contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(Zone::Offset(0));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(allowed) && text.len() <= 64 {
        return Ok(Zone::Name(text));
    }
    Err(Fault::Syntax)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a day in the proleptic Gregorian calendar; year 0 is 1 BC.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is a year's last (Howard Hinnant, "chrono-compatible dates").
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}
