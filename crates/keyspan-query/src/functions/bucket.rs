//! Buckets of time: what `date_bin` and `time_bucket` put times into, and `time_bucket_gapfill` counts off.
//!
//! The rule, TimescaleDB's: buckets are counted from an origin, by default Monday 2000-01-03, or 2000-01-01 where they are
//! months. With a time zone both the origin and the buckets are of the zone's wall clock, so that a bucket of a day has
//! 23 hours when the clocks go forward; without one they are UTC's. Whole numbers have buckets too, from 0.

use chrono::{Datelike, NaiveDate};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::overload::{Call, Code, OfInfinity, Overload, Parameter};
use super::time::{DAY, MONDAY, by_calendar, joined, micros, moved, overflow, parts, split, to_instant, to_local};
use crate::types::Zone;

use ColumnType as C;
use Parameter::Is;

const T: Parameter = Is(C::Text);
const D: Parameter = Is(C::Date);
const TZ: Parameter = Is(C::Timestamp);
const TS: Parameter = Is(C::LocalTimestamp);
const IV: Parameter = Is(C::Duration);
const I: Parameter = Is(C::Int);
const B: Parameter = Is(C::BigInt);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add = |name, parameters, returns, code: Code, time| {
        all.push(Overload::new(name, parameters, returns, code).of_infinity(OfInfinity::Same(time)));
    };
    for name in ["date_bin", "time_bucket"] {
        add(name, &[IV, TZ], C::Timestamp, bin, 1);
        add(name, &[IV, TS], C::LocalTimestamp, bin, 1);
        add(name, &[IV, TZ, TZ], C::Timestamp, bin, 1);
        add(name, &[IV, TS, TS], C::LocalTimestamp, bin, 1);
    }
    add("time_bucket", &[IV, TZ, IV], C::Timestamp, bin, 1);
    add("time_bucket", &[IV, TS, IV], C::LocalTimestamp, bin, 1);
    add("time_bucket", &[IV, TZ, T], C::Timestamp, bin, 1);
    add("time_bucket", &[IV, TZ, T, TZ], C::Timestamp, bin, 1);
    add("time_bucket", &[IV, TZ, T, IV], C::Timestamp, bin, 1);
    add("time_bucket", &[IV, TZ, T, TZ, IV], C::Timestamp, bin, 1);
    add("time_bucket", &[IV, D], C::Date, bin, 1);
    add("time_bucket", &[IV, D, D], C::Date, bin, 1);
    add("time_bucket", &[IV, D, IV], C::Date, bin, 1);
    // CQL's; without a start they are counted from 1970.
    add("floor", &[TZ, IV], C::Timestamp, floor, 0);
    add("floor", &[TZ, IV, TZ], C::Timestamp, floor, 0);
    add("floor", &[TS, IV], C::LocalTimestamp, floor, 0);
    add("floor", &[TS, IV, TS], C::LocalTimestamp, floor, 0);
    add("floor", &[D, IV], C::Date, floor, 0);
    add("floor", &[D, IV, D], C::Date, floor, 0);
    add("floor", &[Is(C::Time), IV], C::Time, floor, 0);
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("time_bucket", &[I, I], C::Int, bin);
    add("time_bucket", &[I, I, I], C::Int, bin);
    add("time_bucket", &[B, B], C::BigInt, bin);
    add("time_bucket", &[B, B, B], C::BigInt, bin);
    all
}

/// Where buckets begin and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Length in months; 0 where it is counted in units.
    months: i64,
    /// Length in units: microseconds, or the numbers themselves.
    units: i64,
    /// A begin, on the wall clock of the zone.
    origin: i64,
    zone: Option<Zone>,
}

impl Bucket {
    /// The buckets of a call: the length, then whatever of zone, origin and offset it has.
    ///
    /// # Errors
    /// 22008 for a length that is not positive, 22023 for an unknown zone, 0A000 for months and days mixed.
    pub fn new(step: &Value, rest: &[(Value, C)]) -> Result<Bucket> {
        let mut bucket = Bucket { months: 0, units: 0, origin: 0, zone: None };
        let whole = match step {
            Value::Int(step) => Some(i64::from(*step)),
            Value::BigInt(step) => Some(*step),
            _ => None,
        };
        match whole {
            Some(units) => bucket.units = units,
            None => {
                let (months, days, nanos) = parts(step);
                if months != 0 && (days != 0 || nanos != 0) {
                    return Err(Error::not_supported("steps that mix months with days or times are not supported"));
                }
                let units = i64::from(days).checked_mul(DAY).and_then(|days| days.checked_add(nanos / 1000));
                bucket.months = i64::from(months);
                bucket.units = units.ok_or_else(|| overflow("interval out of range"))?;
                bucket.origin = if months == 0 { MONDAY } else { new_year() };
            }
        }
        if bucket.months < 0 || bucket.units < 0 || (bucket.months, bucket.units) == (0, 0) {
            return Err(Error::new(ErrorKind::DatetimeOverflow, "stride must be greater than zero"));
        }
        rest.iter().try_fold(bucket, |bucket, (value, ty)| bucket.with(value, *ty))
    }

    fn with(mut self, value: &Value, ty: C) -> Result<Bucket> {
        match (value, ty) {
            (Value::Text(text), _) => match Zone::parse(text) {
                Ok(zone) => self.zone = Some(zone),
                // A bare literal may be an origin as well.
                Err(error) => match Value::parse(text, C::Timestamp) {
                    Ok(origin) => self.origin = micros(&origin)?,
                    Err(_) => return Err(error),
                },
            },
            (Value::Duration(..), _) => self.origin = moved(self.origin, value, 1)?,
            (Value::Int(offset), _) => self.origin = i64::from(*offset),
            (Value::BigInt(offset), _) => self.origin = *offset,
            (origin, _) if origin.infinity().is_some() => return Err(overflow("origin out of range")),
            (origin, _) => self.origin = self.local(micros(origin)?),
        }
        Ok(self)
    }

    fn local(&self, at: i64) -> i64 {
        self.zone.map_or(at, |zone| to_local(at, zone))
    }

    fn instant(&self, local: i64) -> i64 {
        self.zone.map_or(local, |zone| to_instant(local, zone))
    }

    /// The begin of the bucket that holds a time.
    ///
    /// # Errors
    /// 22008 where there is no such time.
    pub fn start(&self, at: i64) -> Result<i64> {
        Ok(self.instant(self.local_start(self.local(at), 0)?))
    }

    /// The begin of the bucket after the one that begins here.
    ///
    /// # Errors
    /// 22008 where there is no such time.
    pub fn next(&self, start: i64) -> Result<i64> {
        let local = self.local(start);
        // A begin that the clocks skip is the same instant as the next one.
        let mut later = 1;
        loop {
            let next = self.instant(self.local_start(local, later)?);
            if next > start {
                return Ok(next);
            }
            later += 1;
        }
    }

    /// The begin of the bucket so many after the one that holds a wall-clock time.
    fn local_start(&self, at: i64, later: i64) -> Result<i64> {
        let error = || overflow("timestamp out of range");
        if self.months == 0 {
            let since = at.checked_sub(self.origin).ok_or_else(error)?;
            let start = since.div_euclid(self.units).checked_add(later).and_then(|steps| steps.checked_mul(self.units));
            return start.and_then(|start| start.checked_add(self.origin)).ok_or_else(error);
        }
        let count = |at: i64| split(at).map(|(date, _)| i64::from(date.year()) * 12 + i64::from(date.month0()));
        let steps = (count(at)? - count(self.origin)?).div_euclid(self.months);
        let back = i64::from(by_calendar(self.origin, steps * self.months, 0)? > at);
        by_calendar(self.origin, (steps - back + later) * self.months, 0)
    }
}

fn new_year() -> i64 {
    NaiveDate::from_ymd_opt(2000, 1, 1).map_or(0, joined)
}

/// The number behind a value that has buckets: microseconds since 1970, or the number itself.
pub fn units_of(value: &Value) -> Result<i64> {
    match value {
        Value::Int(value) => Ok(i64::from(*value)),
        Value::BigInt(value) => Ok(*value),
        value => micros(value),
    }
}

/// The value of a type with this number behind it.
pub fn value_of_units(units: i64, ty: C) -> Result<Value> {
    match ty {
        C::Date => i32::try_from(units.div_euclid(DAY)).map(Value::Date).map_err(|_| overflow("date out of range")),
        C::Timestamp | C::LocalTimestamp => Ok(Value::Timestamp(units)),
        ty => Value::BigInt(units).cast(ty),
    }
}

/// CQL's `floor(time, duration, start)`. The texts of its errors are Cassandra's.
fn floor(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let mut bucket = Bucket { origin: 0, ..Bucket::new(&values[1], &[])? };
    if let Some(start) = values.get(2) {
        bucket = bucket.with(start, call.types[2])?;
    }
    let refused = |message: &str| Err(Error::new(ErrorKind::InvalidParameter, message));
    match &values[0] {
        Value::Date(_) if bucket.units % DAY != 0 => {
            refused("The floor on date values cannot be computed for the duration, as precision is below 1 day")
        }
        Value::Time(_) if bucket.months != 0 || bucket.units > DAY => {
            refused("For time values, the floor can only be computed for durations smaller that a day")
        }
        Value::Time(at) => Ok(Value::Time(at - at % bucket.units)),
        at => value_of_units(bucket.start(micros(at)?)?, call.result),
    }
}

/// The begin of the bucket that holds a value.
fn bin(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let rest: Vec<(Value, C)> = values[2..].iter().cloned().zip(call.types[2..].iter().copied()).collect();
    let start = Bucket::new(&values[0], &rest)?.start(units_of(&values[1])?)?;
    value_of_units(start, call.result)
}
