//! Time zones: IANA names in any case, `UTC`, and fixed offsets, which Postgres' names of the kind `+02` also are.
//!
//! The rule: a wall-clock time that the clocks show twice is standard time's, and one that they skip is read as if they
//! had not been changed, as Postgres reads both.

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;
use keyspan_model::{Error, ErrorKind, Result};

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Of the IANA database.
    Named(Tz),
    /// Seconds to the east of UTC.
    Fixed(i32),
}

/// Abbreviations in use, with their seconds to the east of UTC, as PostgreSQL's `Default` has them.
const ABBREVIATIONS: [(&str, i32); 42] = [
    ("ACDT", 37_800),
    ("ACST", 34_200),
    ("ADT", -10_800),
    ("AEDT", 39_600),
    ("AEST", 36_000),
    ("AKDT", -28_800),
    ("AKST", -32_400),
    ("AST", -14_400),
    ("AWST", 28_800),
    ("BRT", -10_800),
    ("BST", 3_600),
    ("CDT", -18_000),
    ("CEST", 7_200),
    ("CET", 3_600),
    ("CETDST", 7_200),
    ("CST", -21_600),
    ("EDT", -14_400),
    ("EEST", 10_800),
    ("EET", 7_200),
    ("EST", -18_000),
    ("HKT", 28_800),
    ("HST", -36_000),
    ("IST", 7_200),
    ("JST", 32_400),
    ("KST", 32_400),
    ("MDT", -21_600),
    ("MEST", 7_200),
    ("MESZ", 7_200),
    ("MET", 3_600),
    ("MEZ", 3_600),
    ("MSK", 10_800),
    ("MST", -25_200),
    ("NDT", -9_000),
    ("NST", -12_600),
    ("NZDT", 46_800),
    ("NZST", 43_200),
    ("PDT", -25_200),
    ("PHT", 28_800),
    ("PST", -28_800),
    ("SAST", 7_200),
    ("SGT", 28_800),
    ("WET", 0),
];

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Fixed(0);

    /// The zone of this name: of the time zone database, or as POSIX writes it (`+02:00`, `CET-1`, `<+05:30>-05:30`), whose
    /// offsets count to the **west**. So does PostgreSQL in `SET TIME ZONE` and `AT TIME ZONE`.
    ///
    /// # Errors
    /// 22023 when there is none.
    pub fn parse(name: &str) -> Result<Zone> {
        let trimmed = name.trim();
        if ["UTC", "Z", "GMT", "ZULU"].iter().any(|utc| trimmed.eq_ignore_ascii_case(utc)) {
            return Ok(Zone::UTC);
        }
        posix(trimmed)
            .map(Zone::Fixed)
            .or_else(|| iana(trimmed).map(Zone::Named))
            .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, format!("time zone \"{name}\" not recognized")))
    }

    /// The zone that a statement names in a time or behind AT TIME ZONE: abbreviations come first there, as in PostgreSQL,
    /// so that `CET` has no summer.
    ///
    /// # Errors
    /// As [`Zone::parse`].
    pub fn named(name: &str) -> Result<Zone> {
        let trimmed = name.trim();
        let known = ABBREVIATIONS.iter().find(|(abbreviation, _)| abbreviation.eq_ignore_ascii_case(trimmed));
        known.map_or_else(|| Zone::parse(name), |(_, offset)| Ok(Zone::Fixed(*offset)))
    }

    /// The zone of a setting's value, which was checked when it was set.
    pub fn of_setting(name: &str) -> Zone {
        Zone::parse(name).unwrap_or(Zone::UTC)
    }

    /// Whether it is UTC, so that texts need no zone.
    pub fn is_utc(self) -> bool {
        matches!(self, Zone::Fixed(0) | Zone::Named(Tz::UTC))
    }

    /// Seconds to the east of UTC at an instant, given in microseconds since 1970.
    pub fn offset_at(self, micros: i64) -> i32 {
        match self {
            Zone::Fixed(offset) => offset,
            Zone::Named(zone) => DateTime::from_timestamp_micros(micros)
                .map_or(0, |instant| zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()),
        }
    }

    /// Seconds to the east of UTC at a wall-clock time, given in microseconds since 1970-01-01.
    pub fn offset_at_local(self, micros: i64) -> i32 {
        let zone = match self {
            Zone::Fixed(offset) => return offset,
            Zone::Named(zone) => zone,
        };
        let Some(local) = DateTime::from_timestamp_micros(micros).map(|instant| instant.naive_utc()) else { return 0 };
        match zone.offset_from_local_datetime(&local) {
            LocalResult::Single(offset) => offset.fix().local_minus_utc(),
            LocalResult::Ambiguous(one, other) => one.fix().local_minus_utc().min(other.fix().local_minus_utc()),
            LocalResult::None => before_gap(zone, local),
        }
    }

    /// Answers what [`keyspan_model::Value::parse_zoned`] asks: the offset of this zone, or of one named in the text.
    ///
    /// # Errors
    /// 22023 for a name that is no zone's.
    pub fn resolve(self, name: Option<&str>, local_micros: i64) -> Result<i32> {
        let zone = name.map_or(Ok(self), Zone::named)?;
        Ok(zone.offset_at_local(local_micros))
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

fn before_gap(zone: Tz, local: NaiveDateTime) -> i32 {
    let earlier = local - chrono::Duration::hours(24);
    zone.offset_from_local_datetime(&earlier).earliest().map_or(0, |offset| offset.fix().local_minus_utc())
}

fn iana(name: &str) -> Option<Tz> {
    let exact = name.parse::<Tz>();
    exact.ok().or_else(|| chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name)).copied())
}

/// The offset to the east of a zone as POSIX writes it, with or without a name.
fn posix(text: &str) -> Option<i32> {
    let offset = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let name = text.len() - offset.len();
    // A name has three letters at least; behind it a sign may be missing.
    match name {
        0 => signed(offset).map(|west| -west),
        1..=2 => None,
        _ => signed(offset).or_else(|| signed(&format!("+{offset}"))).map(|west| -west),
    }
}

/// `+02`, `-8`, `-05:30`, `+0530`, `+053015`, in seconds.
fn signed(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits = match digits.split(':').collect::<Vec<_>>().as_slice() {
        [hours] => hours.to_string(),
        parts => parts.iter().map(|part| format!("{part:0>2}")).collect(),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.len() > 6 {
        return None;
    }
    let digits = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits };
    let at = |index: usize| digits.get(index..index + 2).map_or(Some(0), |part| part.parse::<i32>().ok());
    let (hours, minutes, seconds) = (at(0)?, at(2)?, at(4)?);
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JULY: i64 = 1_719_835_200_000_000;
    const JANUARY: i64 = 1_704_110_400_000_000;

    #[test]
    fn zones_are_found_by_name_and_offset() {
        assert_eq!(Zone::parse("utc"), Ok(Zone::UTC));
        // To the west.
        let offsets = [("+05:30", -19_800), ("-08", 28_800), ("-8", 28_800), ("+530", -19_800), ("+0530", -19_800)];
        let more =
            [("+053015", -19_815), ("-5:30", 19_800), ("CET-1", 3_600), ("GMT+02:00", -7_200), ("PST8", -28_800)];
        for (text, offset) in offsets.into_iter().chain(more).chain([("<+05:30>-05:30", 19_800)]) {
            assert_eq!(Zone::parse(text), Ok(Zone::Fixed(offset)), "{text}");
        }
        assert_eq!(Zone::parse("europe/berlin"), Ok(Zone::Named(Tz::Europe__Berlin)));
        for unknown in ["Mars/Olympus", "+99", "+", "+1:2:3:4", "+12345678", "-05:3x"] {
            assert_eq!(Zone::parse(unknown).expect_err("none").sqlstate(), "22023", "{unknown}");
        }
    }

    #[test]
    fn offsets_follow_the_season() {
        let (berlin, new_york) = (Zone::Named(Tz::Europe__Berlin), Zone::Named(Tz::America__New_York));
        assert_eq!((berlin.offset_at(JULY), berlin.offset_at(JANUARY)), (7200, 3600));
        assert_eq!(berlin.resolve(None, JULY), Ok(7200));
        assert_eq!(berlin.resolve(Some("america/new_york"), JULY), Ok(-14_400));
        // 2024-03-10 02:30 does not exist there, nor 2024-10-06 02:30 in Sydney; 2024-11-03 01:30 comes twice.
        assert_eq!(new_york.offset_at_local(1_710_037_800_000_000), -18_000);
        assert_eq!(Zone::Named(Tz::Australia__Sydney).offset_at_local(1_728_181_800_000_000), 36_000);
        assert_eq!(new_york.offset_at_local(1_730_597_400_000_000), -18_000);
    }
}
