//! `infinity` and `-infinity`: dates and timestamps after and before all others.
//!
//! As in Postgres' binary form, and in DuckDB's and Parquet's columns, they are the greatest and the least number of days
//! or microseconds.

use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::value::Value;

/// Days from 1970-01-01 to 2000-01-01, where Postgres' binary form begins to count.
const POSTGRES_DAYS: i32 = 10_957;
/// The same in microseconds.
const POSTGRES_MICROS: i64 = 946_684_800_000_000;

/// `Greater` of `infinity`, `Less` of `-infinity`, in microseconds; `None` of all other times.
#[inline]
pub fn infinite_micros(micros: i64) -> Option<Ordering> {
    match micros {
        i64::MAX => Some(Ordering::Greater),
        i64::MIN => Some(Ordering::Less),
        _ => None,
    }
}

/// [`infinite_micros`] in days.
#[inline]
pub fn infinite_days(days: i32) -> Option<Ordering> {
    match days {
        i32::MAX => Some(Ordering::Greater),
        i32::MIN => Some(Ordering::Less),
        _ => None,
    }
}

/// Days since 2000, as Postgres' binary form has them, of days since 1970. 22008 if there are no such.
pub fn days_to_postgres(days: i32) -> Result<i32> {
    let shifted = infinite_days(days).map_or(days.checked_sub(POSTGRES_DAYS), |_| Some(days));
    shifted.ok_or_else(|| out_of_range("date"))
}

/// Days since 1970 of days in Postgres' binary form. 22008 if there are no such.
pub fn days_from_postgres(days: i32) -> Result<i32> {
    let shifted = infinite_days(days).map_or(days.checked_add(POSTGRES_DAYS), |_| Some(days));
    shifted.ok_or_else(|| out_of_range("date"))
}

/// [`days_to_postgres`] of microseconds.
pub fn micros_to_postgres(micros: i64) -> Result<i64> {
    let shifted = infinite_micros(micros).map_or(micros.checked_sub(POSTGRES_MICROS), |_| Some(micros));
    shifted.ok_or_else(|| out_of_range("timestamp"))
}

/// [`days_from_postgres`] of microseconds.
pub fn micros_from_postgres(micros: i64) -> Result<i64> {
    let shifted = infinite_micros(micros).map_or(micros.checked_add(POSTGRES_MICROS), |_| Some(micros));
    shifted.ok_or_else(|| out_of_range("timestamp"))
}

/// As texts have it.
pub(crate) fn infinity_text(infinity: Ordering) -> &'static str {
    if infinity.is_gt() { "infinity" } else { "-infinity" }
}

fn out_of_range(what: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, format!("{what} out of range"))
}

impl Value {
    /// Which infinity a date or timestamp is; `None` of all other values.
    pub fn infinity(&self) -> Option<Ordering> {
        match self {
            Value::Date(days) => infinite_days(*days),
            Value::Timestamp(micros) => infinite_micros(*micros),
            _ => None,
        }
    }

    /// The timestamp that is this infinity.
    pub fn infinite_timestamp(infinity: Ordering) -> Value {
        Value::Timestamp(if infinity.is_gt() { i64::MAX } else { i64::MIN })
    }

    /// The date that is this infinity.
    pub fn infinite_date(infinity: Ordering) -> Value {
        Value::Date(if infinity.is_gt() { i32::MAX } else { i32::MIN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ColumnType as C;

    #[test]
    fn infinities_are_read_written_and_cast() {
        for (text, infinity) in [("infinity", Ordering::Greater), ("-infinity", Ordering::Less)] {
            for ty in [C::Date, C::Timestamp, C::LocalTimestamp] {
                let value = Value::parse(&format!(" {} ", text.to_uppercase()), ty).expect("a time");
                assert_eq!(value.infinity(), Some(infinity));
                assert_eq!(value.to_text(ty), text);
                for to in [C::Date, C::Timestamp, C::LocalTimestamp] {
                    assert_eq!(value.clone().cast(to).expect("casts").infinity(), Some(infinity), "{ty} {to}");
                }
                assert_eq!(value.clone().cast(C::Time).expect("casts"), Value::Null, "no time of day");
                assert_eq!(value.clone().with_second_digits(0), value);
            }
            assert_eq!(Value::parse(text, C::Time).expect_err("no time of day").sqlstate(), "22007");
        }
    }

    #[test]
    fn postgres_counts_from_another_year_but_infinities() {
        for (own, other) in [(0, -POSTGRES_DAYS), (i32::MAX, i32::MAX), (i32::MIN, i32::MIN)] {
            assert_eq!((days_to_postgres(own), days_from_postgres(other)), (Ok(other), Ok(own)));
        }
        for (own, other) in [(0, -POSTGRES_MICROS), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN)] {
            assert_eq!((micros_to_postgres(own), micros_from_postgres(other)), (Ok(other), Ok(own)));
        }
        assert!(days_to_postgres(i32::MIN + 1).is_err() && micros_from_postgres(i64::MAX - 1).is_err());
    }
}
