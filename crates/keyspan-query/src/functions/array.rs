//! Functions and operators over arrays, of elements of any type.
//!
//! Elements are equal where they compare as equal, and NULL is equal to NULL, but in [`COMPARE_ANY`] and [`COMPARE_ALL`],
//! whose result is unknown where a comparison is.

use std::cmp::Ordering;

use keyspan_model::{ColumnType as C, Error, ErrorKind, Result, Value};

use super::json::json_of;
use super::overload::{Call, Overload, Parameter};
use crate::types::cast::text_of;

/// `value op ANY (list)`, as a call with the operator's text, the list and the value.
pub const COMPARE_ANY: &str = "compare_any";
/// `percentile_disc`, of the values in their order.
pub const PERCENTILE: &str = "percentile_of";
/// The list in the order of its values, as a call with the list, whether it descends, and whether NULL comes first.
pub const SORTED: &str = "list_sorted";
/// The texts of a list with another between them, NULL of none; `array_to_string` gives an empty text then.
pub const JOINED: &str = "list_joined";
/// `mode`, of the values in their order.
pub const MODE: &str = "mode_of";
/// `value op ALL (list)`, likewise.
pub const COMPARE_ALL: &str = "compare_all";

/// Most elements that `array_fill` makes; PostgreSQL makes 134,217,727.
const MOST_ELEMENTS: usize = 1_000_000;

const LIST: Parameter = Parameter::Array;
const ELEMENT: Parameter = Parameter::Element;
const INT: Parameter = Parameter::Is(C::Int);
const BIGINT: Parameter = Parameter::Is(C::BigInt);
const TEXT: Parameter = Parameter::Is(C::Text);
const DOUBLE: Parameter = Parameter::Is(C::Double);
const BOOL: Parameter = Parameter::Is(C::Boolean);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let first: fn(&[C]) -> C = |types| types[0];
    let second: fn(&[C]) -> C = |types| types[1];
    let element: fn(&[C]) -> C = |types| types[0].element().unwrap_or(C::Text);
    let new = Overload::new;
    vec![
        new("array_length", &[LIST, INT], C::Int, |_, v| Ok(dimension(&v[0], &v[1]).map_or(Value::Null, length))),
        new("cardinality", &[LIST], C::Int, |_, v| Ok(length(list(&v[0])))),
        new("array_ndims", &[LIST], C::Int, |_, v| {
            Ok(if list(&v[0]).is_empty() { Value::Null } else { Value::Int(1) })
        }),
        new("array_dims", &[LIST], C::Text, |_, v| {
            let length = list(&v[0]).len();
            Ok(if length == 0 { Value::Null } else { Value::Text(format!("[1:{length}]")) })
        }),
        new("array_append", &[LIST, ELEMENT], C::Text, |_, v| Ok(joined(list(&v[0]), &v[1..])))
            .returning(first)
            .with_nulls(),
        new("array_prepend", &[ELEMENT, LIST], C::Text, |_, v| Ok(joined(&v[..1], list(&v[1]))))
            .returning(second)
            .with_nulls(),
        new("array_cat", &[LIST, LIST], C::Text, |_, v| {
            Ok(match (&v[0], &v[1]) {
                (Value::Null, only) | (only, Value::Null) => only.clone(),
                (a, b) => joined(list(a), list(b)),
            })
        })
        .returning(first)
        .with_nulls(),
        new("width_bucket", &[ELEMENT, LIST], C::Int, width_bucket),
        new(SORTED, &[LIST, BOOL, BOOL], C::Text, sorted).returning(first),
        new(JOINED, &[LIST, TEXT], C::Text, |call, v| {
            let none = list(&v[0]).iter().all(Value::is_null);
            let separator = if v[1].is_null() { Value::Text(String::new()) } else { v[1].clone() };
            Ok(if none { Value::Null } else { to_string(call, &[v[0].clone(), separator], None) })
        })
        .with_nulls(),
        new("array_remove", &[LIST, ELEMENT], C::Text, remove).returning(first).with_nulls(),
        new("array_replace", &[LIST, ELEMENT, ELEMENT], C::Text, replace).returning(first).with_nulls(),
        new("array_position", &[LIST, ELEMENT], C::Int, position).with_nulls(),
        new("array_position", &[LIST, ELEMENT, INT], C::Int, position).with_nulls(),
        new("array_positions", &[LIST, ELEMENT], C::Text, positions).returning(|_| C::list(C::Int)).with_nulls(),
        new("array_to_string", &[LIST, TEXT], C::Text, |call, v| Ok(to_string(call, v, None))).stable(),
        new("array_to_string", &[LIST, TEXT, TEXT], C::Text, to_string_with).with_nulls().stable(),
        new("trim_array", &[LIST, INT], C::Text, trim).returning(first),
        new("array_fill", &[ELEMENT, LIST], C::Text, fill).returning(|types| C::list(types[0])).with_nulls(),
        new("array_to_json", &[LIST], C::Json, |call, v| Ok(Value::Text(json_of(&v[0], call.types[0], call.zone))))
            .stable(),
        new(PERCENTILE, &[LIST, DOUBLE], C::Text, |_, v| percentile(list(&v[0]), &v[1])).returning(element),
        new(PERCENTILE, &[LIST, Parameter::Numeric], C::Text, |_, v| percentile(list(&v[0]), &v[1])).returning(element),
        new(PERCENTILE, &[LIST, INT], C::Text, |_, v| percentile(list(&v[0]), &v[1])).returning(element),
        // Of another array, whose elements need not have the type of the values.
        new(PERCENTILE, &[LIST, Parameter::Any], C::Text, |_, v| {
            let Value::List(fractions) = &v[1] else {
                return Err(Error::new(
                    ErrorKind::UndefinedFunction,
                    "percentile_disc takes a number or an array of them",
                ));
            };
            fractions.iter().map(|fraction| percentile(list(&v[0]), fraction)).collect::<Result<_>>().map(Value::List)
        })
        .returning(first),
        new(MODE, &[LIST], C::Text, mode).returning(element),
        new("list_contains", &[LIST, LIST], C::Boolean, |call, v| {
            // NULL is in no list.
            let contained = |part: &Value| !part.is_null() && find(call, &v[0], part).is_some();
            Ok(Value::Boolean(list(&v[1]).iter().all(contained)))
        }),
        new("list_overlaps", &[LIST, LIST], C::Boolean, |call, v| {
            let shared = |each: &Value| !each.is_null() && find(call, &v[0], each).is_some();
            Ok(Value::Boolean(list(&v[1]).iter().any(shared)))
        }),
        new("list_element", &[LIST, BIGINT], C::Text, |_, v| {
            let at = |index: &i64| usize::try_from(index.checked_sub(1)?).ok();
            let Value::BigInt(index) = &v[1] else { return Ok(Value::Null) };
            Ok(at(index).and_then(|at| list(&v[0]).get(at)).cloned().unwrap_or(Value::Null))
        })
        .returning(element),
        new("list_slice", &[LIST, BIGINT, BIGINT], C::Text, slice).returning(first),
        new("make_list", &[ELEMENT], C::Text, |_, v| Ok(Value::List(v.to_vec())))
            .returning(|types| C::frozen_list(types[0]))
            .variadic()
            .with_nulls(),
        new(COMPARE_ANY, &[TEXT, LIST, ELEMENT], C::Boolean, |call, v| Ok(compare_each(call, v, true))).with_nulls(),
        new(COMPARE_ALL, &[TEXT, LIST, ELEMENT], C::Boolean, |call, v| Ok(compare_each(call, v, false))).with_nulls(),
    ]
}

/// The elements; a NULL array has none.
fn list(value: &Value) -> &[Value] {
    match value {
        Value::List(elements) => elements,
        _ => &[],
    }
}

fn joined(first: &[Value], second: &[Value]) -> Value {
    Value::List([first, second].concat())
}

fn length(elements: &[Value]) -> Value {
    Value::Int(i32::try_from(elements.len()).unwrap_or(i32::MAX))
}

/// The elements, if they are of this dimension: an array has one, and an empty array none.
fn dimension<'a>(value: &'a Value, dimension: &Value) -> Option<&'a [Value]> {
    let elements = list(value);
    (*dimension == Value::Int(1) && !elements.is_empty()).then_some(elements)
}

fn same(ty: C, a: &Value, b: &Value) -> bool {
    a.is_null() == b.is_null() && Value::compare_as(ty, a, b) == Ordering::Equal
}

/// The type of the elements of the first argument.
fn element_type(call: &Call<'_>) -> C {
    call.types[0].element().unwrap_or(C::Text)
}

fn find(call: &Call<'_>, elements: &Value, wanted: &Value) -> Option<usize> {
    list(elements).iter().position(|element| same(element_type(call), element, wanted))
}

/// How many of the thresholds, which ascend, are not above a value.
fn width_bucket(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let thresholds = list(&v[1]);
    if thresholds.iter().any(Value::is_null) {
        let message = "thresholds array must not contain NULLs";
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    let below = thresholds.partition_point(|each| Value::compare_as(call.types[0], each, &v[0]).is_le());
    i32::try_from(below).map(Value::Int).map_err(|_| Error::new(ErrorKind::NumericOverflow, "integer out of range"))
}

fn sorted(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (descending, nulls_first) = (v[1] == Value::Boolean(true), v[2] == Value::Boolean(true));
    let ty = element_type(call);
    let mut elements = list(&v[0]).to_vec();
    elements.sort_by(|a, b| {
        let nulls = if nulls_first { b.is_null().cmp(&a.is_null()) } else { a.is_null().cmp(&b.is_null()) };
        let values = || match a.is_null() {
            true => Ordering::Equal,
            false if descending => Value::compare_as(ty, b, a),
            false => Value::compare_as(ty, a, b),
        };
        nulls.then_with(values)
    });
    Ok(Value::List(elements))
}

fn remove(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() {
        return Ok(Value::Null);
    }
    let left = list(&v[0]).iter().filter(|element| !same(element_type(call), element, &v[1]));
    Ok(Value::List(left.cloned().collect()))
}

fn replace(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() {
        return Ok(Value::Null);
    }
    let replaced =
        |element: &Value| if same(element_type(call), element, &v[1]) { v[2].clone() } else { element.clone() };
    Ok(Value::List(list(&v[0]).iter().map(replaced).collect()))
}

fn places<'a>(call: &'a Call<'_>, v: &'a [Value]) -> impl Iterator<Item = i32> + 'a {
    let elements = list(&v[0]).iter().zip(1..);
    elements.filter(|(element, _)| same(element_type(call), element, &v[1])).map(|(_, place)| place)
}

fn position(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let from = match v.get(2) {
        None => 1,
        Some(Value::Int(from)) => *from,
        Some(_) => {
            let message = "initial position must not be null";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
    };
    Ok(places(call, v).find(|place| *place >= from).map_or(Value::Null, Value::Int))
}

fn positions(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() {
        return Ok(Value::Null);
    }
    Ok(Value::List(places(call, v).map(Value::Int).collect()))
}

fn to_string(call: &Call<'_>, v: &[Value], null: Option<&str>) -> Value {
    let Value::Text(separator) = &v[1] else { return Value::Null };
    let text = |element: &Value| match element {
        Value::Null => null.map(str::to_owned),
        // As in an array's own text.
        Value::Boolean(_) => Some(element.to_text(C::Boolean)),
        element => Some(text_of(element, element_type(call), call.zone)),
    };
    Value::Text(list(&v[0]).iter().filter_map(text).collect::<Vec<_>>().join(separator))
}

fn to_string_with(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() || v[1].is_null() {
        return Ok(Value::Null);
    }
    let null = match &v[2] {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    };
    Ok(to_string(call, v, null))
}

/// So many times this element, for an array of one dimension.
fn fill(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    if v[1].is_null() {
        return Err(Error::new(ErrorKind::InvalidParameter, "dimension array or low bound array cannot be null"));
    }
    let count = match list(&v[1]) {
        [] => 0,
        [Value::Int(count)] => usize::try_from(*count).unwrap_or(0),
        [Value::BigInt(count)] => usize::try_from(*count).unwrap_or(0),
        _ => return Err(Error::not_supported("arrays of more than one dimension are not supported")),
    };
    if count > MOST_ELEMENTS {
        let message = format!("array size exceeds the maximum allowed ({MOST_ELEMENTS})");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(Value::List(vec![v[0].clone(); count]))
}

fn trim(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (elements, Value::Int(count)) = (list(&v[0]), &v[1]) else { return Ok(Value::Null) };
    let left = usize::try_from(*count).ok().and_then(|count| elements.len().checked_sub(count));
    match left {
        Some(left) => Ok(Value::List(elements[..left].to_vec())),
        None => {
            let message = format!("number of elements to trim must be between 0 and {}", elements.len());
            Err(Error::new(ErrorKind::ArraySubscript, message))
        }
    }
}

/// From and to these subscripts; what is beyond the list is left out.
fn slice(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (elements, Value::BigInt(from), Value::BigInt(to)) = (list(&v[0]), &v[1], &v[2]) else {
        return Ok(Value::Null);
    };
    let within = |subscript: i64| usize::try_from(subscript).unwrap_or(0).min(elements.len());
    let (start, end) = (within(from.saturating_sub(1)), within(*to));
    Ok(Value::List(elements.get(start..end).unwrap_or_default().to_vec()))
}

/// The first of the sorted elements whose place is at or beyond the fraction of them all.
fn percentile(elements: &[Value], fraction: &Value) -> Result<Value> {
    let Value::Double(fraction) = fraction.clone().cast(C::Double)? else { return Ok(Value::Null) };
    if !(0.0..=1.0).contains(&fraction) {
        let message = format!("percentile value {fraction} is not between 0 and 1");
        return Err(Error::new(ErrorKind::NumericOverflow, message));
    }
    let place = (fraction * elements.len() as f64).ceil() as usize;
    Ok(elements.get(place.saturating_sub(1)).cloned().unwrap_or(Value::Null))
}

/// The element that comes most often among sorted ones; the first of several.
fn mode(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let ty = element_type(call);
    let groups = list(&v[0]).chunk_by(|a, b| same(ty, a, b));
    let best = groups.reduce(|best, group| if group.len() > best.len() { group } else { best });
    Ok(best.and_then(|group| group.first()).cloned().unwrap_or(Value::Null))
}

/// The comparison with each element, joined by OR (`any`) or by AND.
fn compare_each(call: &Call<'_>, v: &[Value], any: bool) -> Value {
    let (Value::Text(op), Value::List(elements), value) = (&v[0], &v[1], &v[2]) else { return Value::Null };
    let ty = call.types[1].element().unwrap_or(C::Text);
    let mut unknown = false;
    for element in elements {
        if element.is_null() || value.is_null() {
            unknown = true;
            continue;
        }
        let order = Value::compare_as(ty, value, element);
        let holds = match op.as_str() {
            "=" => order.is_eq(),
            "<>" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        };
        if holds == any {
            return Value::Boolean(any);
        }
    }
    if unknown { Value::Null } else { Value::Boolean(!any) }
}
