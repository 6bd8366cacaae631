//! Casts, as `x::type` and as operators need them: which exist, and what they give.
//!
//! A cast of a literal is done while planning. A cast that Arrow's kernel does exactly as Postgres is DataFusion's own,
//! so that comparisons of columns stay visible to the optimizer; every other is a [`CastFunction`].

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_nested::expr_fn::array_to_string;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use keyspan_model::json::quoted;
use keyspan_model::types::{DECIMAL_DIGITS, DECIMAL_SCALE};
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Value};

use super::nested::without_maps;
use crate::error::external;
use crate::functions::cast::CastFunction;
use crate::functions::list_function;
use crate::functions::row_text::ROW_TEXT;
use crate::types::cast::{
    Target, cast_to_target, cut, exists, json_of, needs_zone, numeric_list, numeric_literal, text_of,
};
use crate::types::{
    Ty, Zone, fail, is_nested_literal, literal, literal_text, type_name, type_of, typed_parameter, value_of_literal,
};

/// `expr::target`.
pub fn explicit(expr: Expr, target: Target, schema: &DFSchema) -> Result<Expr> {
    let cast = written(expr, target, schema)?;
    // A bare literal would take another type from its surroundings; what is cast to text is text.
    let bare = || matches!(cast, Expr::Literal(..)) && type_of(&cast, schema).is_ok_and(|ty| ty == Ty::Unknown);
    Ok(if target.ty == ColumnType::Text && bare() {
        Expr::Cast(Cast::new(Box::new(cast), target.ty.arrow()))
    } else {
        cast
    })
}

fn written(expr: Expr, target: Target, schema: &DFSchema) -> Result<Expr> {
    if target.ty.element().is_some() && is_empty_array(&expr) {
        return literal(&Value::List(Vec::new()), target.ty);
    }
    let (expr, from) = without_maps(expr, schema)?;
    let from = match from {
        Ty::Unknown => return unknown_as(expr, target),
        Ty::Known(from) => from,
        Ty::Other(DataType::Struct(_)) => return record_as(expr, target),
        Ty::Other(DataType::List(item)) if matches!(item.data_type(), DataType::Struct(_)) => {
            return record_as(expr, target);
        }
        // `int2vector` and its like, which only system tables have.
        Ty::Other(DataType::List(_)) if target.ty == ColumnType::Text => {
            return Ok(array_to_string(expr, lit(" ")));
        }
        Ty::Other(_) => return Ok(Expr::Cast(Cast::new(Box::new(expr), target.ty.arrow()))),
    };
    let target = scaled(target, from);
    if !exists(from, target.ty) {
        let message = format!("cannot cast type {} to {}", type_name(from), type_name(target.ty));
        return fail(Error::new(ErrorKind::CannotCoerce, message));
    }
    convert(expr, from, target, true)
}

/// A row, or an array of rows, as text; 42846 for any other type.
fn record_as(row: Expr, target: Target) -> Result<Expr> {
    match target.ty {
        ColumnType::Text => {
            let text = ScalarFunction::new_udf(list_function(ROW_TEXT), vec![row]);
            convert(Expr::ScalarFunction(text), ColumnType::Text, target, true)
        }
        ty => {
            let message = format!("cannot cast type record to {}", type_name(ty));
            fail(Error::new(ErrorKind::CannotCoerce, message))
        }
    }
}

/// `ARRAY[]`, which takes its type from a cast.
fn is_empty_array(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.name() == "make_array" && function.args.is_empty())
}

/// An aggregate's argument as another type.
pub fn argument(expr: Expr, from: ColumnType, to: ColumnType) -> Result<Expr> {
    convert(expr, from, Target::of(to), true)
}

/// A value of a known type as another, for operators and functions.
pub fn implicit(expr: Expr, from: &Ty, to: ColumnType) -> Result<Expr> {
    match from {
        Ty::Unknown => {
            let any_scale = matches!(to.element().unwrap_or(to), ColumnType::Decimal { .. });
            unknown_as(expr, Target { any_scale, ..Target::of(to) })
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
    let scale = match from.element().unwrap_or(from) {
        ColumnType::Decimal { scale, .. } => scale,
        ColumnType::Real | ColumnType::Double | ColumnType::Text | ColumnType::Ascii => DECIMAL_SCALE,
        ColumnType::Json | ColumnType::Jsonb => DECIMAL_SCALE,
        _ => 0,
    };
    let number = ColumnType::Decimal { precision: DECIMAL_DIGITS, scale };
    let ty = if target.ty.element().is_some() { ColumnType::list(number) } else { number };
    Target { ty, any_scale: false, ..target }
}

/// A bare literal or an untyped parameter takes the type.
fn unknown_as(expr: Expr, target: Target) -> Result<Expr> {
    if let Some(text) = literal_text(&expr) {
        return parsed(text, target);
    }
    match &expr {
        Expr::ScalarFunction(call) if is_nested_literal(call.func.name()) => nested_as(expr, target),
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

/// One of CQL's literals takes the type; at once, where all of it is written out.
fn nested_as(expr: Expr, target: Target) -> Result<Expr> {
    let from = ColumnType::Json;
    if target.ty.is_scalar() && !matches!(target.ty, ColumnType::Text | ColumnType::Json | ColumnType::Jsonb) {
        let message = format!("a literal of a collection, tuple or user type is no {}", type_name(target.ty));
        return fail(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    // Beside an array, as which sets are read, a set has its elements in their order, each once.
    let is_set = matches!(&expr, Expr::ScalarFunction(call) if call.func.name() == "cql_set");
    let of_set = target.ty.element().filter(|_| is_set && matches!(target.ty, ColumnType::List(_)));
    let assembled = of_set.map_or(target, |element| Target { ty: ColumnType::nested(Nested::Set(element)), ..target });
    match nested_json(&expr) {
        Some(json) if !needs_zone(from, target.ty) => {
            let value = cast_to_target(Value::Text(json), from, assembled, Zone::Fixed(0)).map_err(external)?;
            literal(&value, target.ty)
        }
        _ if of_set.is_some() => Ok(function(function(expr, from, assembled), assembled.ty, target)),
        _ => Ok(function(expr, from, target)),
    }
}

/// The JSON of one of CQL's literals, if all of its parts are written out.
fn nested_json(expr: &Expr) -> Option<String> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let json = |part: &Expr| match known_literal(part) {
        Some((value, ty)) => Some(json_of(&value, ty, Zone::Fixed(0))),
        None => nested_json(part),
    };
    let key = |part: &Expr| match known_literal(part) {
        Some((value, ty)) => (!value.is_null()).then(|| text_of(&value, ty, Zone::Fixed(0))),
        None => nested_json(part),
    };
    match call.func.name() {
        name if !is_nested_literal(name) => None,
        "cql_map" | "cql_user" => {
            let entry = |pair: &[Expr]| Some(format!("{}: {}", quoted(&key(&pair[0])?), json(&pair[1])?));
            Some(format!("{{{}}}", call.args.chunks_exact(2).map(entry).collect::<Option<Vec<_>>>()?.join(", ")))
        }
        _ => Some(format!("[{}]", call.args.iter().map(json).collect::<Option<Vec<_>>>()?.join(", "))),
    }
}

/// The value of a literal and its type; a bare one is a text.
fn known_literal(expr: &Expr) -> Option<(Value, ColumnType)> {
    let Expr::Literal(..) = expr else { return None };
    let ty = type_of(expr, &DFSchema::empty()).ok()?.known().unwrap_or(ColumnType::Text);
    Some((value_of_literal(expr, ty)?, ty))
}

/// What an untyped parameter beside a value of this type is: a numeric one has digits of its own, as a literal has, and is not
/// rounded to those of the other side.
pub fn parameter_type(beside: ColumnType) -> ColumnType {
    match beside {
        ColumnType::Decimal { scale, .. } => {
            ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: scale.max(DECIMAL_SCALE) }
        }
        ColumnType::List(element) => ColumnType::list(parameter_type(element.get())),
        ty => ty,
    }
}

/// A literal's text as a value; if the session's zone decides what it means, at execution.
fn parsed(text: &str, target: Target) -> Result<Expr> {
    if target.any_scale
        && let Some((value, ty)) = match target.ty.element() {
            Some(_) => numeric_list(text),
            None => numeric_literal(text),
        }
    {
        return literal(&value, ty);
    }
    let asked = Cell::new(false);
    let resolve = |name: Option<&str>, local: i64| match name {
        Some(name) => Ok(Zone::named(name)?.offset_at_local(local)),
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
    let same = from == target.ty && !target.changes_values();
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
        let value = cast_to_target(value, from, target, Zone::Fixed(0)).map_err(external)?;
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
