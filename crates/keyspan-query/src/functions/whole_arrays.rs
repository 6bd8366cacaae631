//! Functions and casts over whole arrays: loops over numbers or texts, where these give what the code for one row gives.
//!
//! Rule: `None` wherever a row may be an error, an infinity of time, or a case that the code for one row knows better.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, Float64Array, Int32Array, PrimitiveArray, StringViewArray,
    StringViewBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano,
    TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use keyspan_model::value::canonical_double;
use keyspan_model::{ColumnType, civil_from_days, days_from_civil};

use super::format::times_as_texts;
use super::overload::Call;
use super::pattern;
use super::time::DAY;
use super::time::is_within_day;
use crate::types::Zone;
use crate::types::arithmetic::rescale;

use ColumnType as C;

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Times beyond, in microseconds, are left to the code for one row: there are dates of them that cannot be computed with.
const FAR: i64 = 8_000_000_000_000_000_000;
/// Days by which times that are not far can be moved.
const MOST_DAYS: i32 = 10_000_000;

/// The function's results.
pub fn call(call: &Call<'_>, args: &[ColumnarValue]) -> Option<ArrayRef> {
    match (call.name, args, call.types) {
        (name, [ColumnarValue::Array(numbers)], [C::Double]) => of_double(name, numbers.as_primitive_opt()?),
        ("length" | "char_length" | "character_length", [ColumnarValue::Array(texts)], [C::Text]) => {
            Some(Arc::new(lengths(texts.as_string_view_opt()?)))
        }
        ("lower", [ColumnarValue::Array(texts)], [C::Text]) => {
            mapped(texts.as_string_view_opt()?, str::make_ascii_lowercase, str::to_lowercase)
        }
        ("upper", [ColumnarValue::Array(texts)], [C::Text]) => {
            mapped(texts.as_string_view_opt()?, str::make_ascii_uppercase, str::to_uppercase)
        }
        ("regexp_replace", [ColumnarValue::Array(texts), pattern, with, flags @ ..], types) => {
            let flags = match (flags, types.get(3)) {
                ([], _) => "",
                ([flags], Some(C::Text)) => constant(flags)?,
                _ => return None,
            };
            pattern::replaced_texts(texts.as_string_view_opt()?, constant(pattern)?, constant(with)?, flags)
        }
        ("extract" | "date_part", [unit, ColumnarValue::Array(times)], [C::Text, ty]) => {
            field(call, constant(unit)?, &Times::new(times, *ty)?)
        }
        ("date_trunc", [unit, ColumnarValue::Array(times)], [C::Text, ty]) => {
            truncated(call, constant(unit)?, &Times::new(times, *ty)?)
        }
        ("to_char", [ColumnarValue::Array(times), template], [ty @ (C::Timestamp | C::LocalTimestamp), C::Text]) => {
            let times = Times::new(times, *ty)?;
            let texts = times_as_texts(constant(template)?, &times.local(call.zone), times.array.nulls())?;
            Some(Arc::new(texts))
        }
        ("timezone", [zone, ColumnarValue::Array(times)], [C::Text, ty]) => {
            in_zone(call, Zone::named(constant(zone)?).ok()?, &Times::new(times, *ty)?)
        }
        ("instant_add" | "local_add", [ColumnarValue::Array(times), by], [ty, C::Duration]) => {
            moved(call, interval(by)?, 1, &Times::new(times, *ty)?)
        }
        ("instant_subtract" | "local_subtract", [ColumnarValue::Array(times), by], [ty, C::Duration]) => {
            moved(call, interval(by)?, -1, &Times::new(times, *ty)?)
        }
        _ => None,
    }
}

fn interval(arg: &ColumnarValue) -> Option<IntervalMonthDayNano> {
    match arg {
        ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(interval)) => *interval,
        _ => None,
    }
}

fn constant(arg: &ColumnarValue) -> Option<&str> {
    match arg {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten(),
        ColumnarValue::Array(_) => None,
    }
}

fn of_double(name: &str, numbers: &Float64Array) -> Option<ArrayRef> {
    let function = match name {
        "floor" => floor,
        "ceil" | "ceiling" => |number: f64| -floor(-number),
        "trunc" => |number: f64| if number < 0.0 { -floor(-number) } else { floor(number) },
        "round" => f64::round_ties_even,
        "abs" => f64::abs,
        _ => return None,
    };
    Some(Arc::new(numbers.unary::<_, Float64Type>(|number| canonical_double(function(number)))))
}

/// The whole number at or below a number. `f64::floor` is a call for each number where a program may have to run on
/// processors without an instruction for it, as ours may.
fn floor(number: f64) -> f64 {
    // Larger numbers are whole, or NaN.
    if number.abs() >= 4_503_599_627_370_496.0 || number.is_nan() {
        return number;
    }
    let whole = number as i64 as f64;
    if whole > number { whole - 1.0 } else { whole }
}

/// Characters of each text; a text has no more than an `int` can count.
fn lengths(texts: &StringViewArray) -> Int32Array {
    let values = texts.iter().map(|text| text.map_or(0, |text| text.chars().count() as i32));
    Int32Array::new(values.collect(), texts.nulls().cloned())
}

/// Each text in other letters. Most are ASCII, whose letters are changed in place.
fn mapped(texts: &StringViewArray, ascii: fn(&mut str), other: fn(&str) -> String) -> Option<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    let mut own = String::new();
    for text in texts {
        match text {
            None => builder.append_null(),
            Some(text) if text.is_ascii() => {
                own.clear();
                own.push_str(text);
                ascii(&mut own);
                builder.append_value(&own);
            }
            Some(text) => builder.append_value(other(text)),
        }
    }
    Some(Arc::new(builder.finish()))
}

/// Dates, instants or wall-clock times, none of them infinite or far.
struct Times<'a> {
    array: &'a ArrayRef,
    ty: C,
    /// Microseconds since 1970.
    micros: Vec<i64>,
}

impl<'a> Times<'a> {
    fn new(array: &'a ArrayRef, ty: C) -> Option<Times<'a>> {
        let micros: Vec<i64> = match ty {
            C::Timestamp | C::LocalTimestamp => array.as_primitive_opt::<TimestampMicrosecondType>()?.values().to_vec(),
            C::Date => {
                let days = array.as_primitive_opt::<Date32Type>()?.values();
                days.iter().map(|days| i64::from(*days).saturating_mul(DAY)).collect()
            }
            _ => return None,
        };
        // Without a branch for each the loop is one of wide instructions.
        let far = micros.iter().fold(false, |far, at| far | (*at > FAR) | (*at < -FAR));
        (!far).then_some(Times { array, ty, micros })
    }

    /// As clocks of the zone show them, if they are instants.
    fn local(&self, zone: Zone) -> Vec<i64> {
        match self.ty {
            C::Timestamp => to_local(&self.micros, zone),
            _ => self.micros.clone(),
        }
    }

    fn with_values<T: ArrowPrimitiveType>(&self, values: Vec<T::Native>, ty: C) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(values.into(), self.array.nulls().cloned());
        Arc::new(array.with_data_type(ty.arrow()))
    }
}

fn to_local(instants: &[i64], zone: Zone) -> Vec<i64> {
    let mut offsets = Offsets::new(zone, Zone::offset_at);
    instants.iter().map(|at| at + offsets.at(*at)).collect()
}

fn to_instants(local: Vec<i64>, zone: Zone) -> Vec<i64> {
    let mut offsets = Offsets::new(zone, Zone::offset_at_local);
    local.into_iter().map(|at| at - offsets.at(at)).collect()
}

/// A zone's offsets in microseconds. Where they are the same at both ends of an hour they do not change in it.
struct Offsets {
    zone: Zone,
    of: fn(Zone, i64) -> i32,
    /// The hour that was asked for last, if it has one offset.
    hour: Option<(i64, i64)>,
}

impl Offsets {
    fn new(zone: Zone, of: fn(Zone, i64) -> i32) -> Offsets {
        Offsets { zone, of, hour: None }
    }

    #[inline]
    fn at(&mut self, micros: i64) -> i64 {
        let start = micros.div_euclid(HOUR) * HOUR;
        match self.hour {
            Some((hour, offset)) if hour == start => offset,
            _ => self.look_up(micros, start),
        }
    }

    fn look_up(&mut self, micros: i64, start: i64) -> i64 {
        let of = |at| i64::from((self.of)(self.zone, at)) * SECOND;
        let (first, last) = (of(start), of(start + HOUR - 1));
        self.hour = (first == last).then_some((start, first));
        if first == last { first } else { of(micros) }
    }
}

/// The date of a wall-clock time.
fn civil(local: i64) -> (i64, i64, i64) {
    civil_from_days(local.div_euclid(DAY))
}

/// `extract` and `date_part`.
fn field(call: &Call<'_>, unit: &str, times: &Times<'_>) -> Option<ArrayRef> {
    let unit = unit.to_lowercase();
    let of_clock = matches!(unit.as_str(), "hour" | "minute" | "second" | "hours" | "minutes" | "seconds");
    if of_clock && times.ty == C::Date {
        return None;
    }
    // The field of a wall-clock time, and how many of its digits stand after the point.
    let (of, scale): (fn(i64) -> i64, i8) = match unit.as_str() {
        "epoch" => (|at| at, 6),
        "hour" | "hours" => (|at| at.rem_euclid(DAY) / HOUR, 0),
        "minute" | "minutes" => (|at| at.rem_euclid(HOUR) / MINUTE, 0),
        "second" | "seconds" => (|at| at.rem_euclid(MINUTE), 6),
        "day" | "days" => (|at| civil(at).2, 0),
        "month" | "months" => (|at| civil(at).1, 0),
        "quarter" => (|at| (civil(at).1 - 1) / 3 + 1, 0),
        "year" | "years" => (|at| if civil(at).0 > 0 { civil(at).0 } else { civil(at).0 - 1 }, 0),
        // 1970-01-01 was a Thursday.
        "dow" => (|at| (at.div_euclid(DAY) + 4).rem_euclid(7), 0),
        "isodow" => (|at| (at.div_euclid(DAY) + 3).rem_euclid(7) + 1, 0),
        _ => return None,
    };
    let local = if unit == "epoch" { times.micros.clone() } else { times.local(call.zone) };
    let digits = local.into_iter().map(of);
    match call.result {
        C::Double => {
            let unit = 10_f64.powi(i32::from(scale));
            Some(times.with_values::<Float64Type>(digits.map(|digits| digits as f64 / unit).collect(), C::Double))
        }
        C::Decimal { scale: wanted, .. } if wanted >= scale => {
            let unit = 10_i128.pow(u32::from((wanted - scale).unsigned_abs()));
            let digits = digits.map(|digits| i128::from(digits) * unit).collect();
            Some(times.with_values::<Decimal128Type>(digits, call.result))
        }
        _ => None,
    }
}

fn truncated(call: &Call<'_>, unit: &str, times: &Times<'_>) -> Option<ArrayRef> {
    let first_of = |year: i64, month: i64| days_from_civil(year, month, 1) * DAY;
    let start = |at: i64| -> Option<i64> {
        Some(match unit {
            "second" | "seconds" => at.div_euclid(SECOND) * SECOND,
            "minute" | "minutes" => at.div_euclid(MINUTE) * MINUTE,
            "hour" | "hours" => at.div_euclid(HOUR) * HOUR,
            "day" | "days" => at.div_euclid(DAY) * DAY,
            "week" => {
                let days = at.div_euclid(DAY);
                (days - (days + 3).rem_euclid(7)) * DAY
            }
            "month" | "months" => first_of(civil(at).0, civil(at).1),
            "quarter" => first_of(civil(at).0, (civil(at).1 - 1) / 3 * 3 + 1),
            "year" | "years" => first_of(civil(at).0, 1),
            _ => return None,
        })
    };
    if times.ty == C::Date {
        return None;
    }
    let local = times.local(call.zone);
    let starts = local.iter().map(|at| start(*at)).collect::<Option<Vec<_>>>()?;
    let micros = match times.ty {
        C::Timestamp if is_within_day(unit) => {
            let since = local.iter().zip(&starts).map(|(at, start)| at - start);
            times.micros.iter().zip(since).map(|(at, since)| at - since).collect()
        }
        C::Timestamp => to_instants(starts, call.zone),
        _ => starts,
    };
    Some(times.with_values::<TimestampMicrosecondType>(micros, call.result))
}

/// Times so many days and nanoseconds later, or earlier; months are left to the code for one row.
fn moved(call: &Call<'_>, by: IntervalMonthDayNano, sign: i64, times: &Times<'_>) -> Option<ArrayRef> {
    if by.months != 0 || by.days.saturating_abs() > MOST_DAYS || !matches!(times.ty, C::Timestamp | C::LocalTimestamp) {
        return None;
    }
    let days = i64::from(by.days) * DAY;
    let rest = sign * (by.nanoseconds / 1000);
    let micros = match times.ty {
        // A day of the zone may have 23 hours.
        C::Timestamp if days != 0 => {
            let local = times.local(call.zone).into_iter().map(|at| at + sign * days).collect();
            to_instants(local, call.zone).into_iter().map(|at| at + rest).collect()
        }
        _ => times.micros.iter().map(|at| at + sign * days + rest).collect(),
    };
    Some(times.with_values::<TimestampMicrosecondType>(micros, call.result))
}

/// `AT TIME ZONE`.
fn in_zone(call: &Call<'_>, zone: Zone, times: &Times<'_>) -> Option<ArrayRef> {
    let micros = match times.ty {
        C::Timestamp => to_local(&times.micros, zone),
        C::LocalTimestamp => to_instants(times.micros.clone(), zone),
        _ => return None,
    };
    Some(times.with_values::<TimestampMicrosecondType>(micros, call.result))
}

/// The values cast; `zone` is the session's.
pub fn cast(array: &ArrayRef, from: C, to: C, zone: Zone) -> Option<ArrayRef> {
    match (from, to) {
        (C::Decimal { scale, .. }, C::Int | C::BigInt) => {
            let digits: &Decimal128Array = array.as_primitive_opt()?;
            // A null's digits are any.
            let whole = |digits| if scale <= 18 { i64::try_from(rescale(digits, scale, 0)?).ok() } else { None };
            integers(array, digits.values().iter().map(|digits| whole(*digits)), to)
        }
        (C::Double, C::Int | C::BigInt) => {
            let numbers: &Float64Array = array.as_primitive_opt()?;
            let whole = |number: f64| (number.abs() < 9e18).then(|| number.round_ties_even() as i64);
            integers(array, numbers.values().iter().map(|number| whole(*number)), to)
        }
        (C::Timestamp, C::LocalTimestamp) => {
            let times = Times::new(array, from)?;
            Some(times.with_values::<TimestampMicrosecondType>(times.local(zone), to))
        }
        (C::LocalTimestamp, C::Timestamp) => {
            let times = Times::new(array, from)?;
            Some(times.with_values::<TimestampMicrosecondType>(to_instants(times.micros.clone(), zone), to))
        }
        (C::Timestamp | C::LocalTimestamp, C::Date) => {
            let times = Times::new(array, from)?;
            let days = times.local(zone).into_iter().map(|at| i32::try_from(at.div_euclid(DAY)).ok());
            let days = days.collect::<Option<Vec<i32>>>()?;
            Some(Arc::new(Date32Array::new(days.into(), array.nulls().cloned())))
        }
        _ => None,
    }
}

fn integers(array: &ArrayRef, whole: impl Iterator<Item = Option<i64>>, to: C) -> Option<ArrayRef> {
    let nulls = array.nulls().cloned();
    Some(match to {
        C::Int => {
            let narrow = |whole: Option<i64>| i32::try_from(whole?).ok();
            let values = whole.map(narrow).collect::<Option<Vec<i32>>>()?;
            Arc::new(PrimitiveArray::<Int32Type>::new(values.into(), nulls))
        }
        _ => Arc::new(PrimitiveArray::<Int64Type>::new(whole.collect::<Option<Vec<i64>>>()?.into(), nulls)),
    })
}

#[cfg(test)]
mod tests {
    use keyspan_model::{ColumnBuilder, Value, array_of, value_at};

    use super::super::overload::{Overload, Parameter};
    use super::super::{format, math, text, time};
    use super::*;
    use crate::context::Facts;
    use crate::types::cast::cast_value;

    /// Around changes of the clocks, the beginnings of days, months and years, before 1970 and before year 1, with parts
    /// of seconds.
    fn moments() -> Vec<i64> {
        let changes = [1_711_846_800, 1_729_990_800, 1_710_054_000, 1_730_613_600, -1_693_706_400, 0, 951_782_400];
        let near = [-7200, -3601, -3600, -1, 0, 1, 1800, 3599, 3600, 7200];
        let around = changes.iter().flat_map(|at| near.map(|by| at + by));
        let far = [-62_135_596_800, -62_135_596_801, -99_999_999_999, 253_402_300_800, 4_102_444_799];
        around.chain(far).flat_map(|second| [0, 1, 999_999].map(|micros| second * SECOND + micros)).collect()
    }

    fn zones() -> impl Iterator<Item = Zone> {
        let names = ["UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "+02:30"];
        names.into_iter().map(|name| Zone::parse(name).expect("a zone"))
    }

    fn times(ty: C) -> Vec<Value> {
        let value = |at: i64| if ty == C::Date { Value::Date(at.div_euclid(DAY) as i32) } else { Value::Timestamp(at) };
        moments().into_iter().map(value).chain([Value::Null]).collect()
    }

    /// What the code for one row gives, if it gives something of all.
    fn row_by_row(overload: &Overload, call: &Call<'_>, first: Option<&str>, values: &[Value]) -> Option<ArrayRef> {
        let mut builder = ColumnBuilder::with_capacity(call.result, values.len());
        for value in values {
            let text = first.map(|text| Value::Text(text.into()));
            let args: Vec<Value> = text.into_iter().chain([value.clone()]).collect();
            let result = if value.is_null() { Ok(Value::Null) } else { (overload.code)(call, &args) };
            builder.append(&result.ok()?).expect("fits");
        }
        Some(builder.finish())
    }

    #[test]
    fn times_give_what_each_of_them_gives() {
        let units = "epoch hour minutes second day month quarter year dow isodow week doy century millisecond julian x";
        let units: Vec<&str> = units.split(' ').chain(["days", "weeks", "Hour", "Europe/Paris", "-03"]).collect();
        let mut compared = 0;
        for overload in time::functions() {
            let [Parameter::Is(C::Text), Parameter::Is(ty)] = overload.parameters else { continue };
            if !matches!(ty, C::Timestamp | C::LocalTimestamp | C::Date) {
                continue;
            }
            let super::super::overload::Returns::Is(result) = overload.returns else { continue };
            let (types, values) = ([C::Text, *ty], times(*ty));
            let array = array_of(*ty, &values).expect("an array");
            for (zone, unit) in zones().flat_map(|zone| units.iter().map(move |unit| (zone, *unit))) {
                let call = Call { name: overload.name, zone, types: &types, result, facts: Facts::default() };
                let unit_arg = ColumnarValue::Scalar(ScalarValue::Utf8View(Some(unit.into())));
                let whole = super::call(&call, &[unit_arg, ColumnarValue::Array(array.clone())]);
                if let Some(whole) = whole {
                    let expected = row_by_row(&overload, &call, Some(unit), &values);
                    assert_eq!(Some(&whole), expected.as_ref(), "{} {unit} {ty} {zone:?}", overload.name);
                    compared += 1;
                }
            }
        }
        assert!(compared > 300, "{compared}");
    }

    #[test]
    fn templates_show_what_they_show_of_each_time() {
        let templates = [
            "YYYY-MM-DD",
            "HH24:MI",
            "Dy, DD Mon YYYY HH12 am",
            "YYYY-MM-DD\"T\"HH24:MI:SS.US",
            "IYYY-IW-ID",
            "FMDDDth",
            "J Q CC BC W",
            "FMMonth D",
            "SSSS MS",
            "",
            "plain",
            "HH24 TZ",
        ];
        for overload in format::functions().into_iter().filter(|overload| overload.name == "to_char") {
            let &[Parameter::Is(ty), _] = overload.parameters else { continue };
            if !matches!(ty, C::Timestamp | C::LocalTimestamp) {
                continue;
            }
            let (types, values) = ([ty, C::Text], times(ty));
            let array = array_of(ty, &values).expect("an array");
            for (zone, template) in zones().flat_map(|zone| templates.map(move |template| (zone, template))) {
                let call = Call { name: "to_char", zone, types: &types, result: C::Text, facts: Facts::default() };
                let template_arg = ColumnarValue::Scalar(ScalarValue::Utf8View(Some(template.into())));
                let whole = super::call(&call, &[ColumnarValue::Array(array.clone()), template_arg]);
                assert_eq!(whole.is_some(), !template.contains("TZ"), "{template}");
                let Some(whole) = whole else { continue };
                for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_null()) {
                    let expected = (overload.code)(&call, &[value.clone(), Value::Text(template.into())]);
                    let shown = value_at(whole.as_ref(), row, C::Text).expect("a text");
                    assert_eq!(
                        Ok(shown),
                        expected.map_err(|error| error.message),
                        "{template} {ty} {zone:?} {value:?}"
                    );
                }
                assert!(whole.is_null(values.len() - 1), "the last one is null");
            }
        }
    }

    #[test]
    fn times_are_moved_as_each_of_them_is() {
        let mut compared = 0;
        for overload in time::functions() {
            let &[Parameter::Is(ty), Parameter::Is(C::Duration)] = overload.parameters else { continue };
            if !matches!(ty, C::Timestamp | C::LocalTimestamp) {
                continue;
            }
            let (types, values) = ([ty, C::Duration], times(ty));
            let array = array_of(ty, &values).expect("an array");
            for (zone, (months, days, nanos)) in zones().flat_map(|zone| {
                let intervals =
                    [(0, 0, 3_600_000_000_000), (0, 1, 0), (0, -3, 1_999), (0, 0, -1), (1, 0, 0), (0, i32::MAX, 0)];
                intervals.map(|interval| (zone, interval))
            }) {
                let call = Call { name: overload.name, zone, types: &types, result: ty, facts: Facts::default() };
                let by = IntervalMonthDayNano::new(months, days, nanos);
                let by = ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(by)));
                let Some(whole) = super::call(&call, &[ColumnarValue::Array(array.clone()), by]) else { continue };
                let interval = Value::Duration(months, days, nanos);
                let mut expected = ColumnBuilder::with_capacity(ty, values.len());
                for value in &values {
                    let one = [value.clone(), interval.clone()];
                    let moved =
                        if value.is_null() { Value::Null } else { (overload.code)(&call, &one).expect("moves") };
                    expected.append(&moved).expect("fits");
                }
                assert_eq!(&whole, &expected.finish(), "{} {interval:?} {zone:?}", overload.name);
                compared += 1;
            }
        }
        assert_eq!(compared, 4 * 6 * 4);
    }

    #[test]
    fn infinite_and_far_times_are_left_to_the_code_for_one_row() {
        for at in [i64::MAX, i64::MIN, FAR + 1, -FAR - 1] {
            let array = array_of(C::Timestamp, &[Value::Timestamp(0), Value::Timestamp(at)]).expect("an array");
            assert!(Times::new(&array, C::Timestamp).is_none());
            assert!(cast(&array, C::Timestamp, C::Date, Zone::Fixed(0)).is_none());
        }
    }

    #[test]
    fn numbers_give_what_each_of_them_gives() {
        let large = 4_503_599_627_370_496.0;
        let positive =
            [0.0, 0.49, 0.5, 1.0, 1.5, 2.5, 3e9, large - 0.5, large, large + 1.0, 1e19, 1e300, f64::INFINITY];
        let numbers = positive.into_iter().flat_map(|number| [number, -number]).chain([f64::NAN]);
        let values: Vec<Value> = numbers.map(Value::Double).chain([Value::Null]).collect();
        let array = array_of(C::Double, &values).expect("an array");
        let mut compared = 0;
        for overload in math::functions() {
            if overload.parameters != [Parameter::Is(C::Double)] {
                continue;
            }
            let (zone, facts) = (Zone::Fixed(0), Facts::default());
            let call = Call { name: overload.name, zone, types: &[C::Double], result: C::Double, facts };
            if let Some(whole) = super::call(&call, &[ColumnarValue::Array(array.clone())]) {
                let bits = |array: &ArrayRef| {
                    let each = array.as_primitive::<Float64Type>().iter();
                    each.map(|number| number.map(f64::to_bits)).collect::<Vec<_>>()
                };
                let expected = row_by_row(&overload, &call, None, &values).expect("no errors");
                assert_eq!(bits(&whole), bits(&expected), "{}", overload.name);
                compared += 1;
            }
        }
        assert_eq!(compared, 6);
    }

    #[test]
    fn texts_are_replaced_as_each_of_them_is() {
        let texts = ["", "a1b22", "http://www.example.com/x", "no digits", "é9 \u{1F600}8", "aaaa"];
        let texts = texts.map(|text| Value::Text(text.into()));
        let values: Vec<Value> = texts.into_iter().chain([Value::Null]).collect();
        let array = array_of(C::Text, &values).expect("an array");
        let text = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.into())));
        let mut compared = 0;
        for overload in pattern::functions().iter().filter(|overload| overload.name == "regexp_replace") {
            let count = overload.parameters.len();
            if overload.parameters.contains(&Parameter::Is(C::Int)) {
                continue;
            }
            let (zone, facts, types) = (Zone::Fixed(0), Facts::default(), vec![C::Text; count]);
            let call = Call { name: overload.name, zone, types: &types, result: C::Text, facts };
            let patterns = ["[0-9]+", "^https?://(?:www\\.)?([^/]+)/.*$", "(a)(a)?", "", "(", "(.)\\1"];
            for (pattern, flags) in patterns.into_iter().flat_map(|one| ["", "g", "gi", "1", "q"].map(|f| (one, f))) {
                let constants = [pattern, "<\\1\\&>", flags];
                let constants = &constants[..count - 1];
                let args: Vec<ColumnarValue> = std::iter::once(ColumnarValue::Array(array.clone()))
                    .chain(constants.iter().map(|c| text(c)))
                    .collect();
                let mut expected = Some(ColumnBuilder::with_capacity(C::Text, values.len()));
                for value in &values {
                    let one: Vec<Value> = std::iter::once(value.clone())
                        .chain(constants.iter().map(|c| Value::Text((*c).into())))
                        .collect();
                    let result = if value.is_null() { Ok(Value::Null) } else { (overload.code)(&call, &one) };
                    expected = expected.zip(result.ok()).map(|(mut builder, result)| {
                        builder.append(&result).expect("fits");
                        builder
                    });
                }
                assert_eq!(super::call(&call, &args), expected.map(ColumnBuilder::finish), "{pattern} {flags}");
                compared += 1;
            }
        }
        assert_eq!(compared, 60);
    }

    #[test]
    fn texts_give_what_each_of_them_gives() {
        let texts =
            ["", "a", "Ab Z@[`{", "a text that is no longer short", "Ünïcode ÀÉ", "ß", "ΑΣ", "日本語", "\u{1F600}x"];
        let texts = texts.map(|text| Value::Text(text.into()));
        let values: Vec<Value> = texts.into_iter().chain([Value::Null]).collect();
        let array = array_of(C::Text, &values).expect("an array");
        let mut compared = 0;
        for overload in text::functions() {
            if overload.parameters != [Parameter::Is(C::Text)] {
                continue;
            }
            let super::super::overload::Returns::Is(result) = overload.returns else { continue };
            let (zone, facts) = (Zone::Fixed(0), Facts::default());
            let call = Call { name: overload.name, zone, types: &[C::Text], result, facts };
            if let Some(whole) = super::call(&call, &[ColumnarValue::Array(array.clone())]) {
                assert_eq!(Some(&whole), row_by_row(&overload, &call, None, &values).as_ref(), "{}", overload.name);
                compared += 1;
            }
        }
        assert_eq!(compared, 5);
    }

    #[test]
    fn casts_give_what_each_of_them_gives() {
        let money = C::Decimal { precision: 38, scale: 6 };
        let numerics = [0, 499_999, 500_000, -500_000, 1_500_000, -2_500_001, 2_147_483_647_499_999];
        let numerics: Vec<Value> = numerics.into_iter().map(|digits| Value::Decimal(digits, 6)).collect();
        let doubles: Vec<Value> = [0.0, 0.5, 1.5, -2.5, 2e9].into_iter().map(Value::Double).collect();
        let pairs = [
            (money, C::Int, numerics.clone()),
            (money, C::BigInt, numerics),
            (C::Double, C::Int, doubles.clone()),
            (C::Double, C::BigInt, doubles),
            (C::Timestamp, C::LocalTimestamp, times(C::Timestamp)),
            (C::LocalTimestamp, C::Timestamp, times(C::Timestamp)),
            (C::Timestamp, C::Date, times(C::Timestamp)),
            (C::LocalTimestamp, C::Date, times(C::Timestamp)),
        ];
        for (from, to, mut values) in pairs {
            values.push(Value::Null);
            let array = array_of(from, &values).expect("an array");
            for zone in zones() {
                let whole = cast(&array, from, to, zone).expect("is cast whole");
                for (row, value) in values.iter().enumerate() {
                    let expected = cast_value(value.clone(), from, to, zone).expect("casts");
                    assert_eq!(value_at(whole.as_ref(), row, to), Ok(expected), "{value:?} {from} {to} {zone:?}");
                }
            }
        }
        let large = array_of(C::Double, &[Value::Double(3e9)]).expect("an array");
        assert!(cast(&large, C::Double, C::Int, Zone::Fixed(0)).is_none());
    }
}
