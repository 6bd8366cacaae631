//! Casts, as `x::type` and as operators need them: which exist, and what they give.
//!
//! A cast of a literal is done while planning. A cast that Arrow's kernel does exactly as Postgres is DataFusion's own,
//! so that comparisons of columns stay visible to the optimizer; every other is a [`CastFunction`].

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ScalarUDF};
use keyspan_model::types::{DECIMAL_DIGITS, DECIMAL_SCALE};
use keyspan_model::{ColumnType, Error, ErrorKind, Value, timestamp_text};

use super::types::{Ty, fail, literal, literal_text, type_name, type_of, typed_parameter, value_of_literal};
use super::zone::Zone;
use crate::error::external;
use crate::functions::cast::CastFunction;

/// A type as a cast names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The type.
    pub ty: ColumnType,
    /// `varchar(n)`: longer texts are cut, as Postgres does in explicit casts.
    pub max_length: Option<u32>,
    /// `numeric` without digits: keeps the scale of what is cast.
    pub any_scale: bool,
}

impl Target {
    /// The type itself.
    pub fn of(ty: ColumnType) -> Target {
        Target { ty, max_length: None, any_scale: false }
    }

    /// Whether Arrow's cast from this type is exact and cannot fail.
    pub fn is_native_from(self, from: ColumnType) -> bool {
        is_native(from, self.ty) && self.max_length.is_none()
    }

    /// The type of this name, as it stands in a cast.
    pub fn parse(name: &str) -> keyspan_model::Result<Target> {
        // Drivers quote the parts: `"pg_catalog"."int4"`.
        let lower = name.to_lowercase().replace('"', "").replace("pg_catalog.", "");
        let (base, arguments) = match (lower.find('('), lower.find(')')) {
            (Some(open), Some(close)) if open < close => {
                let arguments: Vec<i64> =
                    lower[open + 1..close].split(',').filter_map(|a| a.trim().parse().ok()).collect();
                (format!("{}{}", &lower[..open], &lower[close + 1..]), arguments)
            }
            _ => (lower.to_owned(), Vec::new()),
        };
        let base = base.split_whitespace().collect::<Vec<_>>().join(" ");
        if let "regclass" | "regtype" | "regproc" | "regprocedure" | "regnamespace" | "regrole" | "cstring" | "xid" =
            base.as_str()
        {
            return Ok(Target::of(ColumnType::Text));
        }
        // In a cast, too, plain `timestamp` is the instant: it is the language's own type of that name.
        let ty = ColumnType::parse(&base, &arguments)?;
        let is_text = ty == ColumnType::Text;
        let one = matches!(base.as_str(), "char" | "character" | "bpchar") && arguments.is_empty();
        let length = arguments.first().copied().or(one.then_some(1)).and_then(|n| u32::try_from(n).ok());
        let decimal = matches!(ty, ColumnType::Decimal { .. });
        Ok(Target { ty, max_length: length.filter(|_| is_text), any_scale: decimal && arguments.is_empty() })
    }
}

/// `expr::target`.
pub fn explicit(expr: Expr, target: Target, schema: &DFSchema) -> Result<Expr> {
    let cast = written(expr, target, schema)?;
    // A bare literal would take another type from its surroundings; what is cast to text is text.
    let bare = target.ty == ColumnType::Text && literal_text(&cast).is_some();
    Ok(if bare { Expr::Cast(Cast::new(Box::new(cast), target.ty.arrow())) } else { cast })
}

fn written(expr: Expr, target: Target, schema: &DFSchema) -> Result<Expr> {
    let from = match type_of(&expr, schema)? {
        Ty::Unknown => return unknown_as(expr, target),
        Ty::Known(from) => from,
        Ty::Other(_) => return Ok(Expr::Cast(Cast::new(Box::new(expr), target.ty.arrow()))),
    };
    let target = scaled(target, from);
    if !exists(from, target.ty) {
        let message = format!("cannot cast type {} to {}", type_name(from), type_name(target.ty));
        return fail(Error::new(ErrorKind::CannotCoerce, message));
    }
    convert(expr, from, target, true)
}

/// An aggregate's argument as another type.
pub fn argument(expr: Expr, from: ColumnType, to: ColumnType) -> Result<Expr> {
    convert(expr, from, Target::of(to), true)
}

/// A value of a known type as another, for operators and functions.
pub fn implicit(expr: Expr, from: &Ty, to: ColumnType) -> Result<Expr> {
    match from {
        Ty::Unknown => {
            unknown_as(expr, Target { any_scale: matches!(to, ColumnType::Decimal { .. }), ..Target::of(to) })
        }
        Ty::Known(from) => convert(expr, *from, Target::of(to), false),
        Ty::Other(_) => Ok(expr),
    }
}

/// `numeric` keeps the scale of its input, as far as 38 digits allow.
fn scaled(target: Target, from: ColumnType) -> Target {
    if !target.any_scale {
        return target;
    }
    let scale = match from {
        ColumnType::Decimal { scale, .. } => scale,
        ColumnType::Real | ColumnType::Double | ColumnType::Text | ColumnType::Ascii => DECIMAL_SCALE,
        _ => 0,
    };
    Target { ty: ColumnType::Decimal { precision: DECIMAL_DIGITS, scale }, ..target }
}

/// A bare literal or an untyped parameter takes the type.
fn unknown_as(expr: Expr, target: Target) -> Result<Expr> {
    if let Some(text) = literal_text(&expr) {
        return parsed(text, target);
    }
    match &expr {
        Expr::Literal(scalar, _) if scalar.is_null() => literal(&Value::Null, target.ty),
        Expr::Placeholder(placeholder) => {
            let ty = if target.any_scale { parameter_type(target.ty) } else { target.ty };
            Ok(typed_parameter(placeholder, ty))
        }
        Expr::Alias(alias) => unknown_as(alias.expr.as_ref().clone(), target),
        // NULL out of a subquery.
        _ => Ok(Expr::Cast(Cast::new(Box::new(expr), target.ty.arrow()))),
    }
}

/// What an untyped parameter beside a value of this type is: a numeric one has digits of its own, as a literal has, and is not
/// rounded to those of the other side.
pub fn parameter_type(beside: ColumnType) -> ColumnType {
    match beside {
        ColumnType::Decimal { scale, .. } => {
            ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: scale.max(DECIMAL_SCALE) }
        }
        ty => ty,
    }
}

/// A literal's text as a value; if the session's zone decides what it means, at execution.
fn parsed(text: &str, target: Target) -> Result<Expr> {
    if target.any_scale
        && let Some((value, ty)) = numeric_literal(text)
    {
        return literal(&value, ty);
    }
    let asked = Cell::new(false);
    let resolve = |name: Option<&str>, local: i64| match name {
        Some(name) => Ok(Zone::parse(name)?.offset_at_local(local)),
        None => {
            asked.set(true);
            Ok(0)
        }
    };
    let value = if target.ty == ColumnType::Text {
        Value::Text(text.to_owned())
    } else if let Some(now) = special_instant(text, target.ty) {
        return Ok(now);
    } else {
        Value::parse_zoned(text, target.ty, &resolve).map_err(external)?
    };
    let source = Target::of(ColumnType::Text);
    if asked.get() {
        let input = literal(&Value::Text(text.to_owned()), ColumnType::Text)?;
        return Ok(function(input, source.ty, target));
    }
    literal(&cut(value, target), target.ty)
}

/// `timestamp 'now'`, `date 'today'`.
fn special_instant(text: &str, ty: ColumnType) -> Option<Expr> {
    let days = match (text.trim().to_lowercase().as_str(), ty) {
        ("now", ColumnType::Timestamp) => return Some(crate::functions::now()),
        ("today", ColumnType::Date | ColumnType::Timestamp | ColumnType::LocalTimestamp) => 0,
        ("yesterday", ColumnType::Date | ColumnType::Timestamp | ColumnType::LocalTimestamp) => -1,
        ("tomorrow", ColumnType::Date | ColumnType::Timestamp | ColumnType::LocalTimestamp) => 1,
        _ => return None,
    };
    Some(crate::functions::day(days, ty))
}

/// A number with as many digits after the point as are written, if it fits; `1e3` too.
pub fn numeric_literal(text: &str) -> Option<(Value, ColumnType)> {
    let text = text.trim().replace('_', "");
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let mut value: i128 = digits.parse().ok()?;
    let mut scale = i32::try_from(fraction.len()).ok()? - exponent;
    while scale < 0 {
        value = value.checked_mul(10)?;
        scale += 1;
    }
    let fits = value.unsigned_abs() < 10_u128.pow(38) && scale <= 37;
    let scale = i8::try_from(scale).ok()?;
    fits.then_some((Value::Decimal(value, scale), ColumnType::Decimal { precision: DECIMAL_DIGITS, scale }))
}

/// A number as it stands in SQL: `int`, `bigint`, `numeric`, and `double` where those end.
pub fn number(digits: &str) -> Result<Expr> {
    let plain = digits.replace('_', "");
    if let Ok(value) = plain.parse::<i32>() {
        return literal(&Value::Int(value), ColumnType::Int);
    }
    if let Ok(value) = plain.parse::<i64>() {
        return literal(&Value::BigInt(value), ColumnType::BigInt);
    }
    if let Some(value) = radix(&plain) {
        return number(&value.to_string());
    }
    if let Some((value, ty)) = numeric_literal(&plain) {
        return literal(&value, ty);
    }
    match plain.parse::<f64>() {
        Ok(value) if value.is_finite() => literal(&Value::Double(value), ColumnType::Double),
        _ => fail(Error::new(ErrorKind::NumericOverflow, format!("number {digits} is out of range"))),
    }
}

fn radix(text: &str) -> Option<i64> {
    let lower = text.to_lowercase();
    let parse = |prefix: &str, radix| lower.strip_prefix(prefix).and_then(|rest| i64::from_str_radix(rest, radix).ok());
    parse("0x", 16).or_else(|| parse("0o", 8)).or_else(|| parse("0b", 2))
}

/// `named` gives the cast a name of its own: DataFusion names its casts as what they cast, so that `sum(x)` and
/// `sum(x::bigint)` would be one.
fn convert(expr: Expr, from: ColumnType, target: Target, named: bool) -> Result<Expr> {
    let same = from == target.ty && target.max_length.is_none();
    if same {
        let plain = matches!(&expr, Expr::Literal(scalar, None) if matches!(scalar, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_)));
        return if plain { unknown_as(expr, target) } else { Ok(expr) };
    }
    if let Expr::Placeholder(placeholder) = &expr
        && from == ColumnType::Text
        && target.ty == ColumnType::Ascii
    {
        return Ok(typed_parameter(placeholder, target.ty));
    }
    if !needs_zone(from, target.ty)
        && let Some(value) = value_of_literal(&expr, from)
    {
        let value = cast_value(value, from, target, Zone::Fixed(0)).map_err(external)?;
        return literal(&value, target.ty);
    }
    if !named && target.is_native_from(from) {
        return Ok(Expr::Cast(Cast::new(Box::new(expr), target.ty.arrow())));
    }
    Ok(function(expr, from, target))
}

fn function(expr: Expr, from: ColumnType, target: Target) -> Expr {
    let udf = Arc::new(ScalarUDF::from(CastFunction::new(from, target)));
    Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![expr]))
}

/// Whether the session's zone decides the result.
pub fn needs_zone(from: ColumnType, to: ColumnType) -> bool {
    from != to && (from == ColumnType::Timestamp || to == ColumnType::Timestamp)
}

fn width(ty: ColumnType) -> Option<u8> {
    Some(match ty {
        ColumnType::TinyInt => 1,
        ColumnType::SmallInt => 2,
        ColumnType::Int => 4,
        ColumnType::BigInt => 8,
        _ => return None,
    })
}

/// Whether Arrow's cast is exact and cannot fail.
fn is_native(from: ColumnType, to: ColumnType) -> bool {
    if let (Some(from), Some(to)) = (width(from), width(to)) {
        return from <= to;
    }
    match (from, to) {
        (from, ColumnType::Decimal { precision, scale }) if width(from).is_some() => {
            precision - scale.unsigned_abs() >= 19
        }
        (ColumnType::Decimal { precision: p, scale: s }, ColumnType::Decimal { precision, scale }) => {
            scale >= s && precision - scale.unsigned_abs() >= p - s.unsigned_abs()
        }
        (from, ColumnType::Double) => width(from).is_some() || from == ColumnType::Real,
        (ColumnType::Ascii, ColumnType::Text) | (ColumnType::TimeUuid, ColumnType::Uuid) => true,
        _ => false,
    }
}

/// Whether Postgres has a cast between the types, written out.
fn exists(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as C;
    let texts = |ty| matches!(ty, C::Text | C::Ascii);
    let numbers = |ty| width(ty).is_some() || matches!(ty, C::VarInt | C::Decimal { .. } | C::Real | C::Double);
    let instants = |ty| matches!(ty, C::Date | C::Timestamp | C::LocalTimestamp);
    from == to
        || texts(from)
        || texts(to)
        || (numbers(from) && numbers(to))
        || (instants(from) && instants(to))
        || matches!(
            (from, to),
            (C::Boolean, C::Int)
                | (C::Int, C::Boolean)
                | (C::Timestamp | C::LocalTimestamp, C::Time)
                | (C::Time, C::Duration)
                | (C::Duration, C::Time)
                | (C::Uuid, C::TimeUuid)
                | (C::TimeUuid, C::Uuid)
                | (C::Json, C::Boolean)
        )
        || (from == C::Json && numbers(to))
}

/// The value cast; `zone` is the session's.
pub fn cast_value(value: Value, from: ColumnType, target: Target, zone: Zone) -> keyspan_model::Result<Value> {
    use ColumnType as C;
    let to = target.ty;
    let east = |micros: i64| i64::from(zone.offset_at(micros)) * 1_000_000;
    let east_of_local = |micros: i64| i64::from(zone.offset_at_local(micros)) * 1_000_000;
    let cast = match (value, to) {
        (Value::Null, _) => return Ok(Value::Null),
        (Value::Boolean(value), C::Int) => Value::Int(i32::from(value)),
        (Value::Int(value), C::Boolean) => Value::Boolean(value != 0),
        (value, C::Text | C::Ascii) => Value::Text(text_of(&value, from, zone)).cast(to)?,
        (Value::Text(text), _) if from == C::Json => json_scalar(&text, to)?,
        (Value::Text(text), C::Timestamp) => Value::parse_zoned(&text, to, &|name, local| match name {
            Some(name) => Ok(Zone::parse(name)?.offset_at_local(local)),
            None => Ok(zone.offset_at_local(local)),
        })?,
        (Value::Timestamp(at), C::LocalTimestamp) if from == C::Timestamp => Value::Timestamp(at + east(at)),
        (Value::Timestamp(at), C::Timestamp) if from == C::LocalTimestamp => Value::Timestamp(at - east_of_local(at)),
        (Value::Timestamp(at), C::Date | C::Time) if from == C::Timestamp => {
            Value::Timestamp(at + east(at)).cast(to)?
        }
        (value @ Value::Date(_), C::Timestamp) => match value.cast(C::LocalTimestamp)? {
            Value::Timestamp(at) => Value::Timestamp(at - east_of_local(at)),
            other => other,
        },
        (value, to) => value.cast(to)?,
    };
    Ok(cut(cast, target))
}

/// The text of a value as a cast to text gives it.
pub fn text_of(value: &Value, ty: ColumnType, zone: Zone) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::Timestamp(micros) if ty == ColumnType::Timestamp => timestamp_text(*micros, zone.offset_at(*micros)),
        value => value.to_text(ty),
    }
}

fn json_scalar(text: &str, to: ColumnType) -> keyspan_model::Result<Value> {
    let error = |kind: &str| {
        let message = format!("cannot cast jsonb {kind} to type {}", type_name(to));
        Error::new(ErrorKind::InvalidParameter, message)
    };
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Bool(value)) if to == ColumnType::Boolean => Ok(Value::Boolean(value)),
        Ok(serde_json::Value::Number(number)) if to != ColumnType::Boolean => {
            let text = number.to_string();
            match numeric_literal(&text) {
                Some((value, _)) => value.cast(to),
                None => Value::parse(&text, to),
            }
        }
        Ok(serde_json::Value::Null) => Err(error("null")),
        Ok(serde_json::Value::String(_)) => Err(error("string")),
        Ok(serde_json::Value::Array(_)) => Err(error("array")),
        Ok(serde_json::Value::Object(_)) => Err(error("object")),
        Ok(serde_json::Value::Bool(_)) => Err(error("boolean")),
        Ok(serde_json::Value::Number(_)) => Err(error("numeric")),
        Err(_) => Value::parse(text, ColumnType::Json),
    }
}

fn cut(value: Value, target: Target) -> Value {
    match (value, target.max_length) {
        (Value::Text(text), Some(length)) if text.len() > length as usize => {
            Value::Text(text.chars().take(length as usize).collect())
        }
        (value, _) => value,
    }
}
