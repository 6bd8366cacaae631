//! The session's time zone: the offset from UTC at an instant, and at a wall-clock time.
//!
//! The rule: a wall-clock time that the clocks skip or show twice is read with the offset before the change, as
//! Postgres reads it.

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;
use keyspan_model::{Error, ErrorKind, Result};

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Always so many seconds east of UTC.
    Fixed(i32),
    /// A zone of the IANA database.
    Named(Tz),
}

impl Zone {
    /// The zone of this name: one of the IANA database in any case, or an offset such as `+05:30`.
    pub(crate) fn named(name: &str) -> Option<Zone> {
        let name = name.trim();
        if matches!(name.to_ascii_uppercase().as_str(), "UTC" | "Z" | "GMT" | "ZULU") {
            return Some(Zone::Fixed(0));
        }
        fixed(name).map(Zone::Fixed).or_else(|| iana(name).map(Zone::Named))
    }

    /// Seconds east of UTC at an instant (microseconds since 1970-01-01 UTC).
    pub(crate) fn offset_at(&self, micros: i64) -> i32 {
        match self {
            Zone::Fixed(seconds) => *seconds,
            Zone::Named(zone) => DateTime::from_timestamp_micros(micros)
                .map_or(0, |instant| zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()),
        }
    }

    /// Seconds east of UTC when the zone's clocks show a time (microseconds since 1970-01-01).
    fn offset_of_local(&self, micros: i64) -> i32 {
        let Zone::Named(zone) = self else { return self.offset_at(micros) };
        let Some(local) = DateTime::from_timestamp_micros(micros).map(|instant| instant.naive_utc()) else { return 0 };
        match zone.offset_from_local_datetime(&local) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset.fix().local_minus_utc(),
            LocalResult::None => before_gap(zone, local),
        }
    }

    /// Answers what [`keyspan_model::Value::parse_zoned`] asks: the session's own zone, or one named in the text.
    pub(crate) fn resolve(&self, name: Option<&str>, local_micros: i64) -> Result<i32> {
        match name {
            None => Ok(self.offset_of_local(local_micros)),
            Some(name) => Zone::named(name)
                .map(|zone| zone.offset_of_local(local_micros))
                .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, format!("time zone \"{name}\" not recognized"))),
        }
    }
}

fn before_gap(zone: &Tz, local: NaiveDateTime) -> i32 {
    let earlier = local - chrono::Duration::hours(24);
    zone.offset_from_local_datetime(&earlier).earliest().map_or(0, |offset| offset.fix().local_minus_utc())
}

fn iana(name: &str) -> Option<Tz> {
    let exact = name.parse::<Tz>();
    exact.ok().or_else(|| chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name)).copied())
}

/// `+05:30`, `-8`, `+053015`: seconds east of UTC.
fn fixed(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let parts: Vec<i32> = if digits.contains(':') {
        digits.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?
    } else {
        let number: i32 = digits.parse().ok().filter(|number| *number >= 0)?;
        match digits.len() {
            1 | 2 => vec![number],
            4 => vec![number / 100, number % 100],
            6 => vec![number / 10_000, number / 100 % 100, number % 100],
            _ => return None,
        }
    };
    let at = |index: usize| parts.get(index).copied().unwrap_or(0);
    let valid = parts.len() <= 3 && (0..16).contains(&at(0)) && (0..60).contains(&at(1)) && (0..60).contains(&at(2));
    valid.then(|| sign * (at(0) * 3600 + at(1) * 60 + at(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_name_and_offset() {
        assert_eq!(Zone::named("utc"), Some(Zone::Fixed(0)));
        assert_eq!(Zone::named("+05:30"), Some(Zone::Fixed(19_800)));
        assert_eq!(Zone::named("-08"), Some(Zone::Fixed(-28_800)));
        assert_eq!(Zone::named("europe/berlin"), Some(Zone::Named(Tz::Europe__Berlin)));
        assert_eq!(Zone::named("Mars/Olympus"), None);
        assert_eq!(Zone::named("+99"), None);
    }

    #[test]
    fn offsets_follow_the_season() {
        let zone = Zone::named("America/New_York").expect("a zone");
        assert_eq!(zone.offset_at(1_706_176_800_000_000), -18_000);
        assert_eq!(zone.offset_at(1_720_000_000_000_000), -14_400);
        // 2024-03-10 02:30 does not exist there; Postgres reads it as standard time.
        assert_eq!(zone.offset_of_local(1_710_037_800_000_000), -18_000);
    }
}
