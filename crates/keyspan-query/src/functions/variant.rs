//! What a variant holds: its type, and its value as one of a kind, NULL where it is of another.

use keyspan_model::types::{DECIMAL_DIGITS, DECIMAL_SCALE};
use keyspan_model::{ColumnType as C, Result, Value};

use super::overload::{Call, Overload, Parameter};

/// The number that a variant holds, of whatever type; NULL for one that no numeric is.
pub const NUMBER: &str = "variant_number";
/// The number that a variant holds, to be compared: beyond the numerics, the greatest or the least of them.
pub const COMPARED: &str = "variant_compared";
/// The number that a variant holds, as a double.
pub const DOUBLE: &str = "variant_double";
/// The text that a variant holds.
pub const TEXT: &str = "variant_text";
/// The boolean that a variant holds.
pub const BOOLEAN: &str = "variant_boolean";
/// The bytes that a variant holds.
pub const BLOB: &str = "variant_blob";

/// The type of [`NUMBER`].
pub const NUMERIC: C = C::Decimal { precision: DECIMAL_DIGITS, scale: DECIMAL_SCALE };

const ANY: Parameter = Parameter::Any;

/// The functions.
pub fn functions() -> Vec<Overload> {
    let new = Overload::new;
    vec![
        new("variant_type", &[ANY], C::Text, |_, v| Ok(held(v).map_or(Value::Null, |(_, ty)| Value::Text(ty.name())))),
        new(NUMBER, &[ANY], NUMERIC, number),
        new(COMPARED, &[ANY], NUMERIC, compared),
        new(DOUBLE, &[ANY], C::Double, number),
        new(TEXT, &[ANY], C::Text, |_, v| Ok(of(v, C::Text))),
        new(BOOLEAN, &[ANY], C::Boolean, |_, v| Ok(of(v, C::Boolean))),
        new(BLOB, &[ANY], C::Blob, |_, v| Ok(of(v, C::Blob))),
    ]
}

fn held(values: &[Value]) -> Option<(&Value, C)> {
    values.first().and_then(Value::held)
}

fn of(values: &[Value], wanted: C) -> Value {
    held(values).filter(|(_, ty)| *ty == wanted).map_or(Value::Null, |(value, _)| value.clone())
}

/// NULL for what is no number, and for numbers that have no such one: infinities as decimals.
fn number(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let Some((value, ty)) = held(values) else { return Ok(Value::Null) };
    if matches!(ty, C::Text | C::Boolean | C::Blob) {
        return Ok(Value::Null);
    }
    Ok(value.clone().cast(call.result).unwrap_or(Value::Null))
}

/// NaN is more than any number, as in PostgreSQL.
fn compared(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let greatest = Value::Decimal(10_i128.pow(u32::from(DECIMAL_DIGITS)) - 1, DECIMAL_SCALE);
    let least = Value::Decimal(1 - 10_i128.pow(u32::from(DECIMAL_DIGITS)), DECIMAL_SCALE);
    let beyond = |is_less: bool| if is_less { least } else { greatest };
    Ok(match (number(call, values)?, held(values)) {
        (Value::Null, Some((Value::Real(own), _))) => beyond(*own < 0.0),
        (Value::Null, Some((Value::Double(own), _))) => beyond(*own < 0.0),
        (number, _) => number,
    })
}
