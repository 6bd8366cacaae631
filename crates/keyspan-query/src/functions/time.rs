//! Functions of dates, times, instants and intervals.
//!
//! The rule kept: an instant is taken apart and moved by days and months in the session's zone, as in Postgres.

use std::cmp::Ordering;

use chrono::{Datelike, Days, Months, NaiveDate};
use datafusion::logical_expr::Expr;
use keyspan_model::infinity::infinite_micros;
use keyspan_model::value::interval_length;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::math::number;
use super::overload::{Call, Code, OfInfinity, Overload, Parameter};
use super::text::text;
use crate::types::Zone;
use crate::types::cast::{Target, cast_value, cut};

use ColumnType as C;
use Parameter::Is;

/// Microseconds of a day.
pub const DAY: i64 = 86_400_000_000;
const SECOND: i64 = 1_000_000;
/// From 1970 to 2000.
const SECONDS_TO_2000: f64 = 946_684_800.0;

const T: Parameter = Is(C::Text);
const D: Parameter = Is(C::Date);
const TZ: Parameter = Is(C::Timestamp);
const TS: Parameter = Is(C::LocalTimestamp);
const IV: Parameter = Is(C::Duration);
const TM: Parameter = Is(C::Time);
const I: Parameter = Is(C::Int);
const F: Parameter = Is(C::Double);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = operators();
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("date_part", &[T, D], C::Double, part);
    add("date_part", &[T, TM], C::Double, part);
    add("date_part", &[T, IV], C::Double, part);
    add("date_part", &[T, TS], C::Double, part);
    add("extract", &[T, D], EXTRACTED, extract);
    add("extract", &[T, TM], EXTRACTED, extract);
    add("extract", &[T, IV], EXTRACTED, extract);
    add("extract", &[T, TS], EXTRACTED, extract);
    add("date_trunc", &[T, IV], C::Duration, trunc_interval);
    add("age", &[TS, TS], C::Duration, age);
    add("to_timestamp", &[F], C::Timestamp, from_epoch);
    add("to_timestamp", &[T, T], C::Timestamp, super::format::to_timestamp);
    add("to_date", &[T, T], C::Date, super::format::to_date);
    add("make_date", &[I, I, I], C::Date, make_date);
    add("make_time", &[I, I, F], C::Time, |_, v| {
        Ok(Value::Time(clock(int(&v[0]), int(&v[1]), number(&v[2])?, "time")?))
    });
    add("make_timestamp", &[I, I, I, I, I, F], C::LocalTimestamp, make_timestamp);
    add("make_timestamptz", &[I, I, I, I, I, F], C::Timestamp, |call, v| {
        let local = make_timestamp(call, v)?;
        Ok(Value::Timestamp(to_instant(micros(&local)?, call.zone)))
    });
    for parameters in INTERVAL_PARTS {
        add("make_interval", parameters, C::Duration, make_interval);
    }
    add("justify_hours", &[IV], C::Duration, |_, v| justify(&v[0], true, false));
    add("justify_days", &[IV], C::Duration, |_, v| justify(&v[0], false, true));
    add("justify_interval", &[IV], C::Duration, |_, v| justify(&v[0], true, true));
    add("isfinite", &[TZ], C::Boolean, |_, v| Ok(Value::Boolean(v[0].infinity().is_none())));
    add("isfinite", &[IV], C::Boolean, |_, _| Ok(Value::Boolean(true)));
    let mut moves = |name, parameters, returns, code: Code| {
        all.push(Overload::new(name, parameters, returns, code).of_infinity(OfInfinity::Same(1)));
    };
    moves("date_trunc", &[T, TS], C::LocalTimestamp, trunc);
    moves("timezone", &[T, TS], C::Timestamp, |_, v| {
        Ok(Value::Timestamp(to_instant(micros(&v[1])?, Zone::named(text(&v[0])?)?)))
    });
    moves("timezone", &[T, TZ], C::LocalTimestamp, |_, v| {
        Ok(Value::Timestamp(to_local(micros(&v[1])?, Zone::named(text(&v[0])?)?)))
    });
    moves("timezone", &[IV, TS], C::Timestamp, |_, v| {
        Ok(Value::Timestamp(to_instant(micros(&v[1])?, interval_zone(&v[0]))))
    });
    moves("timezone", &[IV, TZ], C::LocalTimestamp, |_, v| {
        Ok(Value::Timestamp(to_local(micros(&v[1])?, interval_zone(&v[0]))))
    });
    all.extend(with_zone());
    all
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`, the last of which may be left out.
const INTERVAL_PARTS: [&[Parameter]; 8] =
    [&[], &[I], &[I, I], &[I, I, I], &[I, I, I, I], &[I, I, I, I, I], &[I, I, I, I, I, I], &[I, I, I, I, I, I, F]];

fn make_interval(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    let part = |index: usize| v.get(index).map_or(0, |value| i128::from(int(value)));
    let seconds = v.get(6).map_or(Ok(0.0), number)?;
    let months = i32::try_from(part(0) * 12 + part(1)).ok();
    let days = i32::try_from(part(2) * 7 + part(3)).ok();
    let micros = (part(4) * 3600 + part(5) * 60) * i128::from(SECOND) + (seconds * 1e6).round() as i128;
    let nanos = i64::try_from(micros * 1000).ok();
    match (months, days, nanos) {
        (Some(months), Some(days), Some(nanos)) if seconds.is_finite() => Ok(Value::Duration(months, days, nanos)),
        _ => Err(overflow("interval out of range")),
    }
}

/// Results of `extract` are numeric, with the microseconds' six digits.
const EXTRACTED: C = C::Decimal { precision: 38, scale: 6 };

/// Those that the session's zone or the clock decides.
fn with_zone() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).stable());
    add("date_part", &[T, TZ], C::Double, part);
    add("extract", &[T, TZ], EXTRACTED, extract);
    add("age", &[TZ, TZ], C::Duration, age);
    for name in ["now", "current_timestamp", "currenttimestamp", "transaction_timestamp"] {
        add(name, &[], C::Timestamp, |call, _| Ok(Value::Timestamp(call.facts.now)));
    }
    add("statement_timestamp", &[], C::Timestamp, |call, _| Ok(Value::Timestamp(call.facts.statement_time)));
    add("current_timestamp", &[I], C::Timestamp, |call, v| to_digits(Value::Timestamp(call.facts.now), &v[0]));
    add("localtimestamp", &[I], C::LocalTimestamp, |call, v| {
        to_digits(Value::Timestamp(to_local(call.facts.now, call.zone)), &v[0])
    });
    add("localtimestamp", &[], C::LocalTimestamp, |call, _| Ok(Value::Timestamp(to_local(call.facts.now, call.zone))));
    for name in ["current_date", "currentdate", "today"] {
        add(name, &[], C::Date, |call, _| Value::Timestamp(to_local(call.facts.now, call.zone)).cast(C::Date));
    }
    for name in ["current_time", "currenttime", "localtime"] {
        add(name, &[], C::Time, |call, _| Value::Timestamp(to_local(call.facts.now, call.zone)).cast(C::Time));
    }
    add("day_offset", &[I], C::Date, |call, v| {
        let local = to_local(call.facts.now, call.zone) + int(&v[0]) * DAY;
        Value::Timestamp(local).cast(C::Date)
    });
    add("age", &[TZ], C::Duration, |call, v| {
        let today = to_local(call.facts.now, call.zone).div_euclid(DAY) * DAY;
        let then = to_local(micros(&v[0])?, call.zone);
        difference_in_parts(today, then)
    });
    let mut truncates = |parameters, code: Code| {
        let of_infinity = OfInfinity::Same(1);
        all.push(Overload::new("date_trunc", parameters, C::Timestamp, code).stable().of_infinity(of_infinity));
    };
    truncates(&[T, TZ], trunc);
    truncates(&[T, TZ, T], trunc);
    // A date is its midnight in the session's zone.
    truncates(&[T, D], |call, v| {
        let local = truncated(&text(&v[0])?.to_lowercase(), micros(&v[1])?, C::Timestamp)?;
        Ok(Value::Timestamp(to_instant(local, call.zone)))
    });
    all.push(Overload::new("clock_timestamp", &[], C::Timestamp, |_, _| Ok(Value::Timestamp(clock_now()))).volatile());
    all.push(
        Overload::new("timeofday", &[], C::Text, |_, _| Ok(Value::Text(chrono::Utc::now().to_rfc2822()))).volatile(),
    );
    all
}

/// A time with so many digits of its seconds.
fn to_digits(value: Value, digits: &Value) -> Result<Value> {
    let second_digits = u8::try_from(int(digits)).ok().filter(|digits| *digits < 6);
    Ok(cut(value, Target { second_digits, ..Target::of(C::Timestamp) }))
}

/// Behind the operators on times.
fn operators() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("time_add", &[TM, IV], C::Time, |_, v| turned(&v[0], &v[1], 1));
    add("time_subtract", &[TM, IV], C::Time, |_, v| turned(&v[0], &v[1], -1));
    add("time_difference", &[TM, TM], C::Duration, |_, v| match (&v[0], &v[1]) {
        (Value::Time(a), Value::Time(b)) => Ok(Value::Duration(0, 0, (a - b) * 1000)),
        _ => Ok(Value::Null),
    });
    add("interval_add", &[IV, IV], C::Duration, |_, v| summed(&v[0], &v[1], 1));
    add("interval_subtract", &[IV, IV], C::Duration, |_, v| summed(&v[0], &v[1], -1));
    add("interval_negate", &[IV], C::Duration, |_, v| summed(&Value::Duration(0, 0, 0), &v[0], -1));
    add("interval_multiply", &[IV, F], C::Duration, |_, v| scaled(&v[0], number(&v[1])?));
    add("interval_divide", &[IV, F], C::Duration, |_, v| match number(&v[1])? {
        0.0 => Err(crate::types::arithmetic::division_by_zero()),
        by => scaled(&v[0], 1.0 / by),
    });
    add("interval_length", &[IV], C::VarInt, |_, v| {
        let (months, days, nanos) = parts(&v[0]);
        Ok(Value::Decimal(interval_length(months, days, nanos), 0))
    });
    let mut moves = |name, parameters, returns, code: Code| {
        all.push(Overload::new(name, parameters, returns, code).of_infinity(OfInfinity::Same(0)));
    };
    moves("date_add", &[D, I], C::Date, |_, v| shifted_date(&v[0], int(&v[1])));
    moves("date_subtract", &[D, I], C::Date, |_, v| shifted_date(&v[0], -int(&v[1])));
    moves("local_add", &[TS, IV], C::LocalTimestamp, |_, v| Ok(Value::Timestamp(moved(micros(&v[0])?, &v[1], 1)?)));
    moves("local_subtract", &[TS, IV], C::LocalTimestamp, |_, v| {
        Ok(Value::Timestamp(moved(micros(&v[0])?, &v[1], -1)?))
    });
    moves("date_at_time", &[D, TM], C::LocalTimestamp, |_, v| match &v[1] {
        Value::Time(time) => Ok(Value::Timestamp(micros(&v[0])? + time)),
        _ => Ok(Value::Null),
    });
    let mut subtracts = |name, parameters, returns, code: Code, what| {
        all.push(Overload::new(name, parameters, returns, code).of_infinity(OfInfinity::Error(what)));
    };
    let timestamps = "cannot subtract infinite timestamps";
    subtracts("local_difference", &[TS, TS], C::Duration, difference, timestamps);
    subtracts("instant_difference", &[TZ, TZ], C::Duration, difference, timestamps);
    let dates = |_: &Call<'_>, v: &[Value]| match (&v[0], &v[1]) {
        (Value::Date(a), Value::Date(b)) => {
            a.checked_sub(*b).map(Value::Int).ok_or_else(|| overflow("date out of range"))
        }
        _ => Ok(Value::Null),
    };
    subtracts("date_difference", &[D, D], C::Int, dates, "cannot subtract infinite dates");
    for of in [&[TS, TS, TS, TS] as &'static [Parameter], &[TZ, TZ, TZ, TZ], &[TM, TM, TM, TM]] {
        all.push(Overload::new("overlaps", of, C::Boolean, |_, v| Ok(overlaps(v))).with_nulls());
    }
    let mut stable = |name, code: Code| {
        let own = Overload::new(name, &[TZ, IV], C::Timestamp, code).stable();
        all.push(own.of_infinity(OfInfinity::Same(0)));
    };
    stable("instant_add", |call, v| instant_moved(call, v, 1));
    stable("instant_subtract", |call, v| instant_moved(call, v, -1));
    all
}

/// Whether two spans of time have a moment in common: their first moments belong to them, their last ones do not, and a
/// span of one moment is that moment. Of what an unknown end decides nothing is known.
fn overlaps(ends: &[Value]) -> Value {
    let span = |a: &Value, b: &Value| match (a.is_null(), b.is_null()) {
        (true, _) => (b.clone(), Value::Null),
        (false, false) if a.compare(b).is_gt() => (b.clone(), a.clone()),
        _ => (a.clone(), b.clone()),
    };
    let (one, other) = (span(&ends[0], &ends[1]), span(&ends[2], &ends[3]));
    if one.0.is_null() || other.0.is_null() {
        return Value::Null;
    }
    let (earlier, later) = match one.0.compare(&other.0) {
        Ordering::Equal if one.1.is_null() || other.1.is_null() => return Value::Null,
        Ordering::Equal => return Value::Boolean(true),
        Ordering::Less => (one, other),
        Ordering::Greater => (other, one),
    };
    match (earlier.1.is_null(), later.1.is_null()) {
        (true, _) => Value::Null,
        (false, _) if later.0.compare(&earlier.1).is_lt() => Value::Boolean(true),
        (false, true) => Value::Null,
        (false, false) => Value::Boolean(false),
    }
}

/// `now()`.
pub fn now() -> Expr {
    call("now", Vec::new(), &[])
}

/// The day so many days from today, as a value of the type.
pub fn day(days: i32, ty: ColumnType) -> Expr {
    let offset = Expr::Literal(datafusion::common::ScalarValue::Int32(Some(days)), None);
    let date = call("day_offset", vec![offset], &[C::Int]);
    match ty {
        C::Date => date,
        ty => {
            let cast =
                datafusion::logical_expr::ScalarUDF::from(super::cast::CastFunction::new(C::Date, Target::of(ty)));
            cast.call(vec![date])
        }
    }
}

fn call(name: &str, args: Vec<Expr>, types: &[C]) -> Expr {
    super::value_call(name, args, types).expect("the function is in the table above")
}

fn clock_now() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

/// 22008.
pub fn overflow(message: &str) -> Error {
    Error::new(ErrorKind::DatetimeOverflow, message)
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => i64::from(*value),
        _ => 0,
    }
}

/// Microseconds of an instant or wall-clock time; a date's midnight.
pub fn micros(value: &Value) -> Result<i64> {
    match value {
        Value::Timestamp(micros) | Value::Time(micros) => Ok(*micros),
        Value::Date(_) => match value.clone().cast(C::LocalTimestamp)? {
            Value::Timestamp(micros) => Ok(micros),
            _ => Err(Error::internal("a date was expected")),
        },
        _ => Err(Error::internal("a time was expected")),
    }
}

/// Months, days, nanoseconds.
pub fn parts(value: &Value) -> (i32, i32, i64) {
    match value {
        Value::Duration(months, days, nanos) => (*months, *days, *nanos),
        _ => (0, 0, 0),
    }
}

/// The wall-clock time of an instant.
pub fn to_local(micros: i64, zone: Zone) -> i64 {
    if infinite_micros(micros).is_some() {
        return micros;
    }
    micros.saturating_add(i64::from(zone.offset_at(micros)) * SECOND)
}

/// The instant of a wall-clock time.
pub fn to_instant(micros: i64, zone: Zone) -> i64 {
    if infinite_micros(micros).is_some() {
        return micros;
    }
    micros.saturating_sub(i64::from(zone.offset_at_local(micros)) * SECOND)
}

fn interval_zone(value: &Value) -> Zone {
    Zone::Fixed(i32::try_from(parts(value).2 / 1_000_000_000).unwrap_or(0))
}

/// The date of a wall-clock time, and the microseconds since its midnight.
pub fn split(micros: i64) -> Result<(NaiveDate, i64)> {
    let days = micros.div_euclid(DAY);
    let date = NaiveDate::from_ymd_opt(1970, 1, 1).and_then(|epoch| match days >= 0 {
        true => epoch.checked_add_days(Days::new(days.unsigned_abs())),
        false => epoch.checked_sub_days(Days::new(days.unsigned_abs())),
    });
    Ok((date.ok_or_else(|| overflow("timestamp out of range"))?, micros.rem_euclid(DAY)))
}

/// Microseconds since 1970 of a date's midnight.
pub fn joined(date: NaiveDate) -> i64 {
    i64::from(date.num_days_from_ce() - 719_163) * DAY
}

fn shifted_date(date: &Value, days: i64) -> Result<Value> {
    let Value::Date(date) = date else { return Ok(Value::Null) };
    let shifted = i32::try_from(i64::from(*date) + days).ok();
    shifted.map(Value::Date).ok_or_else(|| overflow("date out of range"))
}

/// A wall-clock time moved by an interval: months first, then days, then the rest.
pub fn moved(at: i64, interval: &Value, sign: i64) -> Result<i64> {
    let (months, days, nanos) = parts(interval);
    let error = || overflow("timestamp out of range");
    let at = by_calendar(at, sign * i64::from(months), sign * i64::from(days))?;
    at.checked_add(sign * (nanos / 1000)).ok_or_else(error)
}

/// A wall-clock time so many months and days later; a day that the month lacks becomes its last.
pub fn by_calendar(at: i64, months: i64, days: i64) -> Result<i64> {
    let error = || overflow("timestamp out of range");
    let mut at = at;
    if months != 0 {
        let (date, clock) = split(at)?;
        let count = Months::new(u32::try_from(months.unsigned_abs()).map_err(|_| error())?);
        let date = if months > 0 { date.checked_add_months(count) } else { date.checked_sub_months(count) };
        at = joined(date.ok_or_else(error)?) + clock;
    }
    at.checked_add(days.checked_mul(DAY).ok_or_else(error)?).ok_or_else(error)
}

fn instant_moved(call: &Call<'_>, values: &[Value], sign: i64) -> Result<Value> {
    let (months, days, nanos) = parts(&values[1]);
    let mut at = micros(&values[0])?;
    if months != 0 || days != 0 {
        let local = to_local(at, call.zone);
        at = to_instant(by_calendar(local, sign * i64::from(months), sign * i64::from(days))?, call.zone);
    }
    at.checked_add(sign * (nanos / 1000)).map(Value::Timestamp).ok_or_else(|| overflow("timestamp out of range"))
}

/// Days and the rest, as Postgres subtracts.
fn difference(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let difference =
        micros(&values[0])?.checked_sub(micros(&values[1])?).ok_or_else(|| overflow("interval out of range"))?;
    let days = i32::try_from(difference / DAY).map_err(|_| overflow("interval out of range"))?;
    Ok(Value::Duration(0, days, difference % DAY * 1000))
}

fn turned(time: &Value, interval: &Value, sign: i64) -> Result<Value> {
    Ok(Value::Time((micros(time)? + sign * (parts(interval).2 / 1000)).rem_euclid(DAY)))
}

fn summed(a: &Value, b: &Value, sign: i32) -> Result<Value> {
    let ((m1, d1, n1), (m2, d2, n2)) = (parts(a), parts(b));
    let error = || overflow("interval out of range");
    let add = |a: i32, b: i32| b.checked_mul(sign).and_then(|b| a.checked_add(b)).ok_or_else(error);
    let nanos = n2.checked_mul(i64::from(sign)).and_then(|n2| n1.checked_add(n2)).ok_or_else(error)?;
    Ok(Value::Duration(add(m1, m2)?, add(d1, d2)?, nanos))
}

/// Fractions of months go to days, of days to the clock, as in Postgres.
fn scaled(interval: &Value, by: f64) -> Result<Value> {
    let (months, days, nanos) = parts(interval);
    let error = || overflow("interval out of range");
    let (m, d) = (f64::from(months) * by, f64::from(days) * by);
    let from_months = ((m - m.trunc()) * 30.0 * 1e6).round() / 1e6;
    let from_days = d - d.trunc() + (from_months - from_months.trunc());
    let whole_days =
        d.trunc() + from_months.trunc() + (from_days * 1e6).round().div_euclid(1e6).max(0.0).trunc().min(0.0);
    let clock = nanos as f64 * by + (from_days * 86_400.0 * 1e6).round() * 1000.0;
    if !m.is_finite() || m.abs() > f64::from(i32::MAX) || whole_days.abs() > f64::from(i32::MAX) || clock.abs() > 9.2e18
    {
        return Err(error());
    }
    Ok(Value::Duration(m.trunc() as i32, whole_days as i32, (clock / 1000.0).round() as i64 * 1000))
}

fn justify(interval: &Value, hours: bool, days: bool) -> Result<Value> {
    let (mut months, mut whole, mut nanos) = parts(interval);
    let day = DAY * 1000;
    let out_of_range = || overflow("interval out of range");
    if hours {
        whole = i32::try_from(nanos / day).ok().and_then(|more| whole.checked_add(more)).ok_or_else(out_of_range)?;
        nanos %= day;
    }
    if days {
        months = months.checked_add(whole / 30).ok_or_else(out_of_range)?;
        whole %= 30;
        // What is left has the sign of what is above it.
        if months > 0 && (whole < 0 || (whole == 0 && hours && nanos < 0)) {
            (months, whole) = (months - 1, whole + 30);
        } else if months < 0 && (whole > 0 || (whole == 0 && hours && nanos > 0)) {
            (months, whole) = (months + 1, whole - 30);
        }
    }
    if hours && whole > 0 && nanos < 0 {
        (whole, nanos) = (whole - 1, nanos + day);
    } else if hours && whole < 0 && nanos > 0 {
        (whole, nanos) = (whole + 1, nanos - day);
    }
    Ok(Value::Duration(months, whole, nanos))
}

const UNITS: &[&str] = &[
    "hour",
    "hours",
    "minute",
    "minutes",
    "second",
    "seconds",
    "millisecond",
    "milliseconds",
    "microsecond",
    "microseconds",
    "timezone",
    "timezone_hour",
    "timezone_minute",
    "year",
    "years",
    "isoyear",
    "decade",
    "century",
    "millennium",
    "quarter",
    "month",
    "months",
    "week",
    "day",
    "days",
    "dow",
    "isodow",
    "doy",
    "julian",
];

fn unknown_unit(unit: &str, ty: C) -> Error {
    if UNITS.contains(&unit) {
        return Error::not_supported(format!("unit \"{unit}\" not supported for type {}", ty.postgres_name()));
    }
    let message = format!("unit \"{unit}\" not recognized for type {}", ty.postgres_name());
    Error::new(ErrorKind::InvalidParameter, message)
}

fn part(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    if let Some(infinity) = values[1].infinity() {
        let number = if infinity.is_gt() { f64::INFINITY } else { f64::NEG_INFINITY };
        return Ok(if grows_for_ever(call, values)? { Value::Double(number) } else { Value::Null });
    }
    let (digits, scale) = field(call, values)?;
    Ok(Value::Double(digits as f64 / 10_f64.powi(i32::from(scale))))
}

fn extract(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    if values[1].infinity().is_some() {
        return match grows_for_ever(call, values)? {
            true => Err(Error::new(ErrorKind::NumericOverflow, "numeric cannot hold infinity")
                .with_hint("Use date_part('unit', time), which gives a double.")),
            false => Ok(Value::Null),
        };
    }
    let (digits, scale) = field(call, values)?;
    let C::Decimal { scale: wanted, .. } = call.result else { return Err(Error::internal("numeric was expected")) };
    let shown = crate::types::arithmetic::rescale(digits, scale, wanted);
    shown.map(|digits| Value::Decimal(digits, wanted)).ok_or_else(|| overflow("field out of range"))
}

/// Whether a field of an infinite time is infinite; a field that comes again and again has no value.
fn grows_for_ever(call: &Call<'_>, values: &[Value]) -> Result<bool> {
    // What is no field of the type is an error here too.
    let some_day = Value::Timestamp(0).cast(call.types[1])?;
    field(call, &[values[0].clone(), some_day])?;
    let unit = text(&values[0])?.to_lowercase();
    let growing = ["epoch", "year", "years", "isoyear", "decade", "century", "millennium", "julian"];
    Ok(growing.contains(&unit.as_str()))
}

/// A field's value, as digits and how many of them stand after the point.
fn field(call: &Call<'_>, values: &[Value]) -> Result<(i128, i8)> {
    let unit = text(&values[0])?.to_lowercase();
    let ty = call.types[1];
    let at = match (&values[1], ty) {
        (interval @ Value::Duration(..), _) => return interval_field(&unit, interval),
        (Value::Timestamp(at), C::Timestamp) => to_local(*at, call.zone),
        (value, _) => micros(value)?,
    };
    let date = split(at)?.0;
    let clock = at.rem_euclid(DAY);
    // `date_part` takes a date as its midnight.
    let only_date = ty == C::Date && call.name == "extract";
    let only_time = ty == C::Time;
    let whole = |value: i64| Ok((i128::from(value), 0));
    match unit.as_str() {
        "epoch" => {
            let instant = if ty == C::Timestamp { micros(&values[1])? } else { at };
            Ok((i128::from(instant), 6))
        }
        "hour" | "hours" if !only_date => whole(clock / 3_600_000_000),
        "minute" | "minutes" if !only_date => whole(clock / 60_000_000 % 60),
        "second" | "seconds" if !only_date => Ok((i128::from(clock % 60_000_000), 6)),
        "millisecond" | "milliseconds" if !only_date => Ok((i128::from(clock % 60_000_000), 3)),
        "microsecond" | "microseconds" if !only_date => whole(clock % 60_000_000),
        "timezone" if ty == C::Timestamp => whole(i64::from(call.zone.offset_at(micros(&values[1])?))),
        "timezone_hour" if ty == C::Timestamp => whole(i64::from(call.zone.offset_at(micros(&values[1])?)) / 3600),
        "timezone_minute" if ty == C::Timestamp => whole(i64::from(call.zone.offset_at(micros(&values[1])?)) / 60 % 60),
        _ if only_time => Err(unknown_unit(&unit, ty)),
        "year" | "years" => whole(i64::from(if date.year() > 0 { date.year() } else { date.year() - 1 })),
        "isoyear" => whole(i64::from(date.iso_week().year())),
        "decade" => whole(i64::from(date.year().div_euclid(10))),
        "century" => whole(count_of_years(date.year(), 100)),
        "millennium" => whole(count_of_years(date.year(), 1000)),
        "quarter" => whole(i64::from(date.month0() / 3 + 1)),
        "month" | "months" => whole(i64::from(date.month())),
        "week" => whole(i64::from(date.iso_week().week())),
        "day" | "days" => whole(i64::from(date.day())),
        "dow" => whole(i64::from(date.weekday().num_days_from_sunday())),
        "isodow" => whole(i64::from(date.weekday().number_from_monday())),
        "doy" => whole(i64::from(date.ordinal())),
        "julian" => Ok((
            i128::from(at.div_euclid(DAY) + 2_440_588) * 1_000_000 + i128::from(clock) * 1_000_000 / i128::from(DAY),
            6,
        )),
        _ => Err(unknown_unit(&unit, ty)),
    }
}

/// Centuries or millennia, of which none has the number 0. The year before year 1 is 0.
fn count_of_years(year: i32, length: i64) -> i64 {
    let year = i64::from(year);
    if year > 0 { (year + length - 1) / length } else { -((length - year) / length) }
}

fn interval_field(unit: &str, interval: &Value) -> Result<(i128, i8)> {
    let (months, days, nanos) = parts(interval);
    let clock = nanos / 1000;
    let whole = |value: i64| Ok((i128::from(value), 0));
    match unit {
        "epoch" => {
            let years = i128::from(months / 12) * 31_557_600 + i128::from(months % 12) * 30 * 86_400;
            Ok(((years + i128::from(days) * 86_400) * 1_000_000 + i128::from(clock), 6))
        }
        "year" | "years" => whole(i64::from(months / 12)),
        "decade" => whole(i64::from(months / 120)),
        "century" => whole(i64::from(months / 1200)),
        "quarter" => whole(i64::from(months % 12 / 3 + 1)),
        "month" | "months" => whole(i64::from(months % 12)),
        "day" | "days" => whole(i64::from(days)),
        "hour" | "hours" => whole(clock / 3_600_000_000),
        "minute" | "minutes" => whole(clock / 60_000_000 % 60),
        "second" | "seconds" => Ok((i128::from(clock % 60_000_000), 6)),
        "millisecond" | "milliseconds" => Ok((i128::from(clock % 60_000_000), 3)),
        "microsecond" | "microseconds" => whole(clock % 60_000_000),
        _ => Err(unknown_unit(unit, C::Duration)),
    }
}

fn trunc(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let unit = text(&values[0])?.to_lowercase();
    let at = micros(&values[1])?;
    if call.types[1] != C::Timestamp {
        return Ok(Value::Timestamp(truncated(&unit, at, call.types[1])?));
    }
    let zone = match values.get(2) {
        Some(name) => Zone::named(text(name)?)?,
        None => call.zone,
    };
    let local = to_local(at, zone);
    let start = truncated(&unit, local, C::Timestamp)?;
    // An hour that comes twice stays the one it is.
    Ok(Value::Timestamp(if is_within_day(&unit) { at - (local - start) } else { to_instant(start, zone) }))
}

/// Whether a unit is shorter than a day.
pub(super) fn is_within_day(unit: &str) -> bool {
    let unit = unit.strip_suffix('s').unwrap_or(unit);
    matches!(unit, "microsecond" | "millisecond" | "second" | "minute" | "hour")
}

fn truncated(unit: &str, at: i64, ty: C) -> Result<i64> {
    let step = match unit {
        "microsecond" | "microseconds" => 1,
        "millisecond" | "milliseconds" => 1000,
        "second" | "seconds" => SECOND,
        "minute" | "minutes" => 60 * SECOND,
        "hour" | "hours" => 3600 * SECOND,
        "day" | "days" => DAY,
        _ => 0,
    };
    if step > 0 {
        return Ok(at.div_euclid(step) * step);
    }
    let date = split(at)?.0;
    let year = date.year();
    let first = |year: i32, month: u32| NaiveDate::from_ymd_opt(year, month, 1);
    let start = match unit {
        "week" => date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_monday()))),
        "month" | "months" => first(year, date.month()),
        "quarter" => first(year, date.month0() / 3 * 3 + 1),
        "year" | "years" => first(year, 1),
        "decade" => first(year.div_euclid(10) * 10, 1),
        "century" => first((year - 1).div_euclid(100) * 100 + 1, 1),
        "millennium" => first((year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => return Err(unknown_unit(unit, ty)),
    };
    start.map(joined).ok_or_else(|| overflow("timestamp out of range"))
}

fn trunc_interval(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    interval_to(text(&values[0])?, &values[1])
}

/// An interval without what is smaller than this unit.
///
/// # Errors
/// 22023 for what is no unit.
pub fn interval_to(unit: &str, interval: &Value) -> Result<Value> {
    let unit = unit.to_lowercase();
    let (months, days, nanos) = parts(interval);
    let clock = |step: i64| Ok(Value::Duration(months, days, nanos / step * step));
    match unit.as_str() {
        "microsecond" | "microseconds" => clock(1000),
        "millisecond" | "milliseconds" => clock(1_000_000),
        "second" | "seconds" => clock(1_000_000_000),
        "minute" | "minutes" => clock(60_000_000_000),
        "hour" | "hours" => clock(3_600_000_000_000),
        "day" | "days" => Ok(Value::Duration(months, days, 0)),
        "month" | "months" => Ok(Value::Duration(months, 0, 0)),
        "quarter" => Ok(Value::Duration(months / 3 * 3, 0, 0)),
        "year" | "years" => Ok(Value::Duration(months / 12 * 12, 0, 0)),
        "decade" => Ok(Value::Duration(months / 120 * 120, 0, 0)),
        _ => Err(unknown_unit(&unit, C::Duration)),
    }
}

fn age(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let local = |value: &Value| {
        micros(value).map(|at| if call.types[0] == C::Timestamp { to_local(at, call.zone) } else { at })
    };
    difference_in_parts(local(&values[0])?, local(&values[1])?)
}

/// Years, months, days and the rest between two wall-clock times.
fn difference_in_parts(a: i64, b: i64) -> Result<Value> {
    let (later, earlier, sign) = if a >= b { (a, b, 1) } else { (b, a, -1) };
    let ((end, end_clock), (start, start_clock)) = (split(later)?, split(earlier)?);
    let mut clock = end_clock - start_clock;
    let mut days = i64::from(end.day()) - i64::from(start.day());
    let mut months =
        (i64::from(end.year()) - i64::from(start.year())) * 12 + i64::from(end.month()) - i64::from(start.month());
    if clock < 0 {
        clock += DAY;
        days -= 1;
    }
    if days < 0 {
        // Postgres borrows the length of the earlier month.
        days += i64::from(days_in(start));
        months -= 1;
    }
    let narrow = |value: i64| i32::try_from(value * sign).map_err(|_| overflow("interval out of range"));
    Ok(Value::Duration(narrow(months)?, narrow(days)?, clock * 1000 * sign))
}

fn days_in(date: NaiveDate) -> u32 {
    let next = date.with_day(1).and_then(|first| first.checked_add_months(Months::new(1)));
    next.and_then(|next| next.pred_opt()).map_or(30, |last| last.day())
}

fn from_epoch(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let seconds = number(&values[0])?;
    if seconds.is_infinite() {
        return Ok(Value::infinite_timestamp(seconds.total_cmp(&0.0)));
    }
    // As PostgreSQL rounds it: counted from the year 2000, from which on a double has more digits left.
    let micros = ((seconds - SECONDS_TO_2000) * 1e6).round_ties_even();
    if micros.is_nan() || micros.abs() > 9.2e18 {
        return Err(overflow("timestamp out of range"));
    }
    let micros = (micros as i64).checked_add(SECONDS_TO_2000 as i64 * SECOND);
    micros.map(Value::Timestamp).ok_or_else(|| overflow("timestamp out of range"))
}

fn civil(year: i64, month: i64, day: i64) -> Result<NaiveDate> {
    let date = match (i32::try_from(year), u32::try_from(month), u32::try_from(day)) {
        (Ok(year), Ok(month), Ok(day)) if year != 0 => {
            NaiveDate::from_ymd_opt(if year < 0 { year + 1 } else { year }, month, day)
        }
        _ => None,
    };
    date.ok_or_else(|| overflow(&format!("date field value out of range: {year}-{month:02}-{day:02}")))
}

fn make_date(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let date = civil(int(&values[0]), int(&values[1]), int(&values[2]))?;
    Value::Timestamp(joined(date)).cast(C::Date)
}

fn clock(hour: i64, minute: i64, second: f64, what: &str) -> Result<i64> {
    let valid = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    let micros = || hour * 3600 * SECOND + minute * 60 * SECOND + (second * 1e6).round() as i64;
    let out_of_range = || overflow(&format!("{what} field value out of range: {hour}:{minute:02}:{second:02}"));
    valid.then(micros).filter(|micros| *micros <= DAY).ok_or_else(out_of_range)
}

fn make_timestamp(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let date = civil(int(&values[0]), int(&values[1]), int(&values[2]))?;
    let clock = clock(int(&values[3]), int(&values[4]), number(&values[5])?, "time")?;
    Ok(Value::Timestamp(joined(date) + clock))
}

/// 2000-01-03, a Monday: where Timescale's buckets begin.
pub const MONDAY: i64 = 10_959 * DAY;

/// The value as a wall-clock time in the session's zone.
pub fn local_of(call: &Call<'_>, value: &Value, ty: C) -> Result<i64> {
    let local = cast_value(value.clone(), ty, C::LocalTimestamp, call.zone)?;
    micros(&local)
}
