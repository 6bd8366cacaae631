//! Time zones: IANA names, `UTC`, and fixed offsets, which Postgres' names of the kind `+02` also are.

use chrono::{DateTime, Offset, TimeZone};
use keyspan_model::{Error, ErrorKind, Result};

/// A time zone.
#[derive(Clone, Copy, Debug)]
pub enum Zone {
    /// Of the IANA database.
    Named(chrono_tz::Tz),
    /// Seconds to the east of UTC.
    Fixed(i32),
}

impl Zone {
    /// The zone of this name.
    ///
    /// # Errors
    /// 22023 when there is none.
    pub fn parse(name: &str) -> Result<Zone> {
        let trimmed = name.trim();
        if trimmed.eq_ignore_ascii_case("utc") || trimmed.eq_ignore_ascii_case("z") {
            return Ok(Zone::Fixed(0));
        }
        if let Some(offset) = fixed(trimmed) {
            return Ok(Zone::Fixed(offset));
        }
        let known = chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(trimmed));
        known
            .map(|zone| Zone::Named(*zone))
            .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, format!("time zone \"{name}\" not recognized")))
    }

    /// Seconds to the east of UTC at an instant, given in microseconds since 1970.
    pub fn offset_at(self, micros: i64) -> i32 {
        match self {
            Zone::Fixed(offset) => offset,
            Zone::Named(zone) => match DateTime::from_timestamp_micros(micros) {
                Some(instant) => zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc(),
                None => 0,
            },
        }
    }

    /// Seconds to the east of UTC at a wall-clock time. Of two, the first is taken after the clock went back, as
    /// Postgres takes standard time; a time that the clock skipped is read as if it had not.
    pub fn offset_at_local(self, micros: i64) -> i32 {
        let zone = match self {
            Zone::Fixed(offset) => return offset,
            Zone::Named(zone) => zone,
        };
        let Some(local) = DateTime::from_timestamp_micros(micros) else { return 0 };
        match zone.offset_from_local_datetime(&local.naive_utc()) {
            chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
            chrono::LocalResult::Ambiguous(_, later) => later.fix().local_minus_utc(),
            chrono::LocalResult::None => self.offset_at(micros.saturating_sub(10_800_000_000)),
        }
    }

    /// The zone's short name at an instant: `CEST`.
    pub fn abbreviation_at(self, micros: i64) -> String {
        match self {
            Zone::Fixed(0) => "UTC".into(),
            Zone::Fixed(offset) => format!("{:+03}", offset / 3600),
            Zone::Named(zone) => match DateTime::from_timestamp_micros(micros) {
                Some(instant) => instant.with_timezone(&zone).format("%Z").to_string(),
                None => String::new(),
            },
        }
    }
}

/// `+02`, `-05:30`, `+0530`: to the east.
fn fixed(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i32, i32) = match digits.len() {
        1 | 2 => (digits.parse().ok()?, 0),
        3 | 4 => (digits[..digits.len() - 2].parse().ok()?, digits[digits.len() - 2..].parse().ok()?),
        _ => return None,
    };
    (hours <= 15 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}
