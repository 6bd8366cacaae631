//! The styles in which PostgreSQL prints durations (its setting `IntervalStyle`, its function `EncodeInterval`).

use std::fmt::Write;

use crate::display::duration_text;

/// A style of durations. [`crate::Value::parse`] reads all of them, but takes a sign of `sql_standard` that stands for
/// several parts for that of the first, as PostgreSQL does in its other styles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06.7`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs`.
    PostgresVerbose,
    /// `+1-2 -3 +4:05:06.7`.
    SqlStandard,
    /// `P1Y2M-3DT4H5M6.7S`.
    Iso8601,
}

/// The parts of a duration, each with its own sign.
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i64,
    nanoseconds: i64,
}

const SECOND: i64 = 1_000_000_000;

impl IntervalStyle {
    /// The styles' names, as the setting has them.
    pub const NAMES: [&str; 4] = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

    /// The style of this name; the first for a name that is none's.
    pub fn of_name(name: &str) -> IntervalStyle {
        match name {
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        }
    }

    /// A duration in this style.
    pub fn text(self, months: i32, days: i32, nanoseconds: i64) -> String {
        let parts = Parts {
            years: months / 12,
            months: months % 12,
            days,
            hours: nanoseconds / (3600 * SECOND),
            minutes: nanoseconds / (60 * SECOND) % 60,
            nanoseconds: nanoseconds % (60 * SECOND),
        };
        match self {
            IntervalStyle::Postgres => duration_text(months, days, nanoseconds),
            IntervalStyle::PostgresVerbose => parts.verbose(),
            IntervalStyle::SqlStandard => parts.sql_standard(),
            IntervalStyle::Iso8601 => parts.iso(),
        }
    }
}

impl Parts {
    fn units(&self) -> [(i64, &'static str, char); 5] {
        [
            (self.years.into(), "year", 'Y'),
            (self.months.into(), "mon", 'M'),
            (self.days.into(), "day", 'D'),
            (self.hours, "hour", 'H'),
            (self.minutes, "min", 'M'),
        ]
    }

    /// `6.7`: without its sign.
    fn seconds(&self) -> String {
        let (seconds, fraction) = (self.nanoseconds.abs() / SECOND, self.nanoseconds.abs() % SECOND);
        match fraction {
            0 => seconds.to_string(),
            _ => format!("{seconds}.{}", format!("{fraction:09}").trim_end_matches('0')),
        }
    }

    /// `4:05:06.7`: without its sign.
    fn clock(&self) -> String {
        let zero = if self.nanoseconds.abs() < 10 * SECOND { "0" } else { "" };
        format!("{}:{:02}:{zero}{}", self.hours.abs(), self.minutes.abs(), self.seconds())
    }

    /// The first part that is not 0 says whether all of it is `ago`; the others have a sign where theirs is another.
    fn verbose(&self) -> String {
        let mut text = String::from("@");
        let mut ago = None;
        for (count, unit, _) in self.units() {
            if count != 0 {
                let negative = *ago.get_or_insert(count < 0);
                let count = if negative { -count } else { count };
                let plural = if count == 1 { "" } else { "s" };
                text.push_str(&format!(" {count} {unit}{plural}"));
            }
        }
        if self.nanoseconds != 0 {
            let negative = *ago.get_or_insert(self.nanoseconds < 0);
            let sign = if negative == (self.nanoseconds < 0) { "" } else { "-" };
            let plural = if self.nanoseconds.abs() == SECOND { "" } else { "s" };
            text.push_str(&format!(" {sign}{} sec{plural}", self.seconds()));
        }
        match ago {
            None => text.push_str(" 0"),
            Some(true) => text.push_str(" ago"),
            Some(false) => {}
        }
        text
    }

    fn sql_standard(&self) -> String {
        let counts = || self.units().into_iter().map(|(count, ..)| count).chain([self.nanoseconds]);
        let (negative, positive) = (counts().any(|count| count < 0), counts().any(|count| count > 0));
        let of_months = self.years != 0 || self.months != 0;
        let of_days = self.days != 0;
        let of_clock = self.hours != 0 || self.minutes != 0 || self.nanoseconds != 0;
        let (years, months, days) = (self.years.unsigned_abs(), self.months.unsigned_abs(), self.days.unsigned_abs());
        let clock = self.clock();
        if negative && positive || of_months && (of_days || of_clock) {
            let sign = |negative| if negative { '-' } else { '+' };
            let of_year = sign(self.years < 0 || self.months < 0);
            let of_day = sign(self.days < 0);
            let of_clock = sign(self.hours < 0 || self.minutes < 0 || self.nanoseconds < 0);
            return format!("{of_year}{years}-{months} {of_day}{days} {of_clock}{clock}");
        }
        let sign = if negative { "-" } else { "" };
        match (of_months, of_days, of_clock) {
            (false, false, false) => "0".into(),
            (true, ..) => format!("{sign}{years}-{months}"),
            (_, true, _) => format!("{sign}{days} {clock}"),
            _ => format!("{sign}{clock}"),
        }
    }

    fn iso(&self) -> String {
        let mut text = String::from("P");
        let [date @ .., hours, minutes] = self.units();
        let push = |text: &mut String, (count, _, letter): (i64, _, char)| {
            if count != 0 {
                // A String takes all that is written to it.
                _ = write!(text, "{count}{letter}");
            }
        };
        date.into_iter().for_each(|part: (i64, &str, char)| push(&mut text, part));
        if hours.0 != 0 || minutes.0 != 0 || self.nanoseconds != 0 || text == "P" {
            text.push('T');
            push(&mut text, hours);
            push(&mut text, minutes);
        }
        if self.nanoseconds != 0 || text == "PT" {
            let sign = if self.nanoseconds < 0 { "-" } else { "" };
            text.push_str(&format!("{sign}{}S", self.seconds()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnType, Value};

    const NANOS: i64 = 14_706_700_000_000;

    /// What PostgreSQL 15 prints in `postgres_verbose`, `sql_standard` and `iso_8601`.
    #[test]
    fn durations_print_in_every_style_of_postgres() {
        let printed: [(i32, i32, i64, [&str; 3]); 12] = [
            (0, 0, 0, ["@ 0", "0", "PT0S"]),
            (14, 0, 0, ["@ 1 year 2 mons", "1-2", "P1Y2M"]),
            (-14, 0, 0, ["@ 1 year 2 mons ago", "-1-2", "P-1Y-2M"]),
            (0, 3, 0, ["@ 3 days", "3 0:00:00", "P3D"]),
            (0, 0, NANOS, ["@ 4 hours 5 mins 6.7 secs", "4:05:06.7", "PT4H5M6.7S"]),
            (0, 0, -NANOS, ["@ 4 hours 5 mins 6.7 secs ago", "-4:05:06.7", "PT-4H-5M-6.7S"]),
            (0, 3, NANOS, ["@ 3 days 4 hours 5 mins 6.7 secs", "3 4:05:06.7", "P3DT4H5M6.7S"]),
            (0, -3, -NANOS, ["@ 3 days 4 hours 5 mins 6.7 secs ago", "-3 4:05:06.7", "P-3DT-4H-5M-6.7S"]),
            (
                14,
                -3,
                NANOS,
                ["@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs", "+1-2 -3 +4:05:06.7", "P1Y2M-3DT4H5M6.7S"],
            ),
            (
                -14,
                3,
                -NANOS,
                ["@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs ago", "-1-2 +3 -4:05:06.7", "P-1Y-2M3DT-4H-5M-6.7S"],
            ),
            (12, 0, SECOND, ["@ 1 year 1 sec", "+1-0 +0 +0:00:01", "P1YT1S"]),
            (1, 0, -SECOND / 2, ["@ 1 mon -0.5 secs", "+0-1 +0 -0:00:00.5", "P1MT-0.5S"]),
        ];
        for (months, days, nanoseconds, texts) in printed {
            for (name, text) in IntervalStyle::NAMES[1..].iter().zip(texts) {
                assert_eq!(IntervalStyle::of_name(name).text(months, days, nanoseconds), text);
                // One sign for two parts.
                if text.starts_with("-3 ") {
                    continue;
                }
                let read = Value::parse(text, ColumnType::Duration).expect("a duration");
                assert_eq!(read, Value::Duration(months, days, nanoseconds), "{text}");
            }
        }
        for style in IntervalStyle::NAMES.map(IntervalStyle::of_name) {
            assert!(!style.text(i32::MIN, i32::MIN, i64::MIN).is_empty());
        }
    }
}
