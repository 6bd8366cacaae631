//! Dates, times and instants: their ISO text without an allocation for years 1 to 9999.
//!
//! The rule: the same text as `keyspan_model::display` gives, which is asked for everything rare.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use keyspan_model::display::{date_text, local_timestamp_text, timestamp_text};

use crate::engine::Zone;

const DAY_MICROS: i64 = 86_400_000_000;
/// 0001-01-01 and 10000-01-01 in days since 1970-01-01.
const PLAIN_DAYS: std::ops::Range<i64> = -719_162..2_932_897;

/// Writes a date.
pub(super) fn put_date(days: i32, out: &mut BytesMut) {
    if !put_plain_date(i64::from(days), out) {
        out.put_slice(date_text(days).as_bytes());
    }
}

/// Writes a time of day (microseconds since midnight).
pub(super) fn put_time(micros: i64, out: &mut BytesMut) {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    put_two(seconds / 3600, out);
    out.put_u8(b':');
    put_two(seconds / 60 % 60, out);
    out.put_u8(b':');
    put_two(seconds % 60, out);
    if fraction != 0 {
        let (mut digits, mut width) = (fraction, 6);
        while digits % 10 == 0 {
            digits /= 10;
            width -= 1;
        }
        write!(out, ".{digits:0width$}").expect("a buffer takes any text");
    }
}

/// Writes a wall-clock time (microseconds since 1970-01-01).
pub(super) fn put_local_timestamp(micros: i64, out: &mut BytesMut) {
    if !put_plain_timestamp(micros, out) {
        out.put_slice(local_timestamp_text(micros).as_bytes());
    }
}

/// Writes an instant (microseconds since 1970-01-01 UTC) as the zone's clocks show it.
pub(super) fn put_timestamp(micros: i64, zone: &Zone, out: &mut BytesMut) {
    let offset = zone.offset_at(micros);
    let local = micros.checked_add(i64::from(offset) * 1_000_000);
    match local {
        Some(local) if put_plain_timestamp(local, out) => put_offset(offset, out),
        _ => out.put_slice(timestamp_text(micros, offset).as_bytes()),
    }
}

/// Writes the date and clock of a year from 1 to 9999, or nothing for other years.
fn put_plain_timestamp(micros: i64, out: &mut BytesMut) -> bool {
    if !put_plain_date(micros.div_euclid(DAY_MICROS), out) {
        return false;
    }
    out.put_u8(b' ');
    put_time(micros.rem_euclid(DAY_MICROS), out);
    true
}

fn put_plain_date(days: i64, out: &mut BytesMut) -> bool {
    if !PLAIN_DAYS.contains(&days) {
        return false;
    }
    let (year, month, day) = civil(days);
    put_two(year / 100, out);
    put_two(year % 100, out);
    out.put_u8(b'-');
    put_two(month, out);
    out.put_u8(b'-');
    put_two(day, out);
    true
}

fn put_offset(offset: i32, out: &mut BytesMut) {
    out.put_u8(if offset < 0 { b'-' } else { b'+' });
    let seconds = i64::from(offset.unsigned_abs());
    put_two(seconds / 3600, out);
    if seconds % 3600 != 0 {
        out.put_u8(b':');
        put_two(seconds / 60 % 60, out);
    }
    if seconds % 60 != 0 {
        out.put_u8(b':');
        put_two(seconds % 60, out);
    }
}

/// Two digits of a number below 100.
fn put_two(number: i64, out: &mut BytesMut) {
    let number = u8::try_from(number).unwrap_or(99).min(99);
    out.put_u8(b'0' + number / 10);
    out.put_u8(b'0' + number % 10);
}

/// Year, month and day of days since 1970-01-01 in the Gregorian calendar (Howard Hinnant's `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).expect("ASCII")
    }

    #[test]
    fn dates_and_instants_print_as_the_model_prints_them() {
        let mut micros = vec![0, -1, 1, i64::MIN, i64::MAX, 946_684_800_000_000, 1_706_176_800_250_000];
        micros.extend((0..5000).map(|step| -62_200_000_000_000_000 + step * 63_113_904_031_250));
        for value in micros {
            assert_eq!(text(|out| put_local_timestamp(value, out)), local_timestamp_text(value));
            for zone in ["UTC", "+05:30", "-00:00:30", "Asia/Kolkata"] {
                let zone = Zone::parse(zone).expect("a zone");
                let offset = zone.offset_at(value);
                assert_eq!(text(|out| put_timestamp(value, &zone, out)), timestamp_text(value, offset), "{value}");
            }
        }
        for days in [i32::MIN, -719_163, -719_162, -1, 0, 2_932_896, 2_932_897, i32::MAX] {
            assert_eq!(text(|out| put_date(days, out)), date_text(days));
        }
        assert_eq!(text(|out| put_time(86_399_999_999, out)), "23:59:59.999999");
        assert_eq!(text(|out| put_time(36_000_250_000, out)), "10:00:00.25");
    }
}
