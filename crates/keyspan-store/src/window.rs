//! Time windows: which stretch of time a row belongs to, by its window column.
//!
//! Windows are dyadic: a window of level `k` is 2^k minutes long and begins at a multiple of its length, so a finer
//! grid always divides a coarser one, and a table may change its grid as it grows without any segment standing across
//! two windows of the coarser grid. Level [`WHOLE`] is one window for everything.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
use keyspan_model::value::timeuuid_time;
use keyspan_model::{ColumnType, Error, KeyColumn, Result, Value};

/// The level at which everything is one window.
pub const WHOLE: u32 = 64;

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 86_400_000_000;
/// Microseconds from 1582-10-15, where a timeuuid's time begins, to 1970.
const GREGORIAN: i64 = 12_219_292_800_000_000;

/// A window: its level, and its number on that level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Length: 2^level minutes.
    pub level: u32,
    /// Start: number × length.
    pub number: i64,
}

impl Window {
    /// The window of this level that holds an instant, in microseconds since 1970.
    pub fn of(time: i64, level: u32) -> Window {
        let number = if level >= 63 { 0 } else { time.div_euclid(MINUTE) >> level };
        Window { level, number }
    }

    /// The smallest window of at least this level that holds both instants.
    pub fn around(first: i64, last: i64, level: u32) -> Window {
        let level = (level..63).find(|level| Window::of(first, *level) == Window::of(last, *level)).unwrap_or(WHOLE);
        Window::of(first, level)
    }

    /// Whether this window lies inside the other, or is the same.
    pub fn inside(&self, other: &Window) -> bool {
        other.level >= self.level && (other.level >= 63 || self.number >> (other.level - self.level) == other.number)
    }
}

/// The instant of one value of a window column, in microseconds since 1970.
pub fn time_of(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(time) => Some(*time),
        Value::Date(days) => Some(i64::from(*days).saturating_mul(DAY)),
        Value::Uuid(uuid) => Some((timeuuid_time(uuid) / 10) as i64 - GREGORIAN),
        _ => None,
    }
}

/// First and last instant of a window column's encoded bounds.
pub fn times_of(column: &KeyColumn, bounds: (&[u8], &[u8])) -> Option<(i64, i64)> {
    let (least, greatest) = column.decoded_bounds(bounds).ok()?;
    Some((time_of(&least)?, time_of(&greatest)?))
}

/// The instant of every row of a window column, in microseconds since 1970.
pub fn times(array: &ArrayRef) -> Result<Vec<i64>> {
    if let Some(stamps) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        return Ok(stamps.values().to_vec());
    }
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        return Ok(days.values().iter().map(|days| i64::from(*days).saturating_mul(DAY)).collect());
    }
    let time = |row| Ok(keyspan_model::value_at(array, row, ColumnType::TimeUuid).ok().as_ref().and_then(time_of));
    let times: Result<Option<Vec<i64>>> = (0..array.len()).map(time).collect();
    times?.ok_or_else(|| Error::internal(format!("a window column of type {}", array.data_type())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finer_window_lies_inside_one_coarser() {
        for time in [i64::MIN, -DAY - 1, -1, 0, 1, DAY, 1_700_000_000_000_000, i64::MAX] {
            for level in 0..30 {
                let fine = Window::of(time, level);
                assert!(fine.inside(&Window::of(time, level + 3)) && fine.inside(&Window::of(time, WHOLE)));
                assert!(!fine.inside(&Window::of(time.wrapping_add(1 << 62), level)));
            }
        }
        assert_eq!(Window::around(0, 61_000_000, 0), Window { level: 1, number: 0 });
        assert_eq!(Window::around(-1, 1, 0), Window { level: WHOLE, number: 0 });
    }

    #[test]
    fn every_window_type_has_a_time() {
        assert_eq!(time_of(&Value::Date(1)), Some(DAY));
        let uuid = Value::Uuid("13814000-1dd2-11b2-8000-000000000000".parse().expect("a uuid"));
        assert_eq!(time_of(&uuid), Some(0), "the timeuuid of 1970");
        assert_eq!(time_of(&Value::Int(1)), None);
    }
}
