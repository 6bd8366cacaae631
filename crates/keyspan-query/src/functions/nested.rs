//! Nested values: their parts, what they contain, their order, and CQL's literals of them.
//!
//! A literal is JSON until its surroundings say of what type it is (`crate::types::is_nested_literal`).

use std::cmp::Ordering;

use keyspan_model::json::quoted;
use keyspan_model::value_json::cql_json;
use keyspan_model::{ColumnType as C, Error, ErrorKind, Nested, Result, Value, token, value_of_order, value_order};

use super::json::{TO_CQL_JSON, json_of};
use super::overload::{Call, Overload, Parameter};
use crate::types::cast::text_of;

const ANY: Parameter = Parameter::Any;
const BIGINT: Parameter = Parameter::Is(C::BigInt);

/// Bytes that sort as nested values do.
pub const VALUE_ORDER: &str = "value_order";
/// The value that such bytes are of.
pub const OF_ORDER: &str = "value_of_order";
/// A row as CQL's JSON: names and values.
pub const CQL_ROW: &str = "cql_row_json";
/// A field of a tuple or user type, by its place from 0.
pub const FIELD: &str = "nested_field";
/// The value of a map's key.
pub const ENTRY: &str = "nested_entry";
/// An element of a list, by its place from 1.
pub const ELEMENT: &str = "nested_element";
/// The keys of a map, as a set.
pub const KEYS: &str = "nested_keys";
/// The values of a map, as a list.
pub const VALUES: &str = "nested_values";
/// In a subscript: what stands from one value to another, both inclusive, NULL where there is no bound.
pub const SLICE: &str = "cql_slice";
/// The entries of a map, or elements of a set, from one key to another.
pub const BETWEEN: &str = "nested_between";
/// Whether a collection has a value, or an element, that is equal to this one.
pub const CONTAINS: &str = "nested_contains";

const SLICE_OUTSIDE: &str = "a slice (a..b) stands only where a map, a set or an array is read";

/// The functions.
pub fn functions() -> Vec<Overload> {
    let new = Overload::new;
    let literal = |name, code| [new(name, &[], C::Json, code), new(name, &[ANY], C::Json, code).variadic()];
    let literals = [
        literal("cql_map", map),
        literal("cql_set", list),
        literal("cql_list", list),
        literal("cql_tuple", list),
        literal("cql_user", map),
    ];
    let mut all = vec![
        // Cassandra's partitioner; the binder says of which columns.
        new("token", &[ANY], C::BigInt, |call, v| Ok(Value::BigInt(token(v, call.types)))).variadic(),
        new(VALUE_ORDER, &[ANY], C::Blob, |call, v| Ok(Value::Blob(value_order(&v[0], call.types[0])))),
        new(OF_ORDER, &[Parameter::Is(C::Blob)], C::Text, |call, v| match &v[0] {
            Value::Blob(bytes) => Ok(value_of_order(bytes, call.result).unwrap_or(Value::Null)),
            _ => Ok(Value::Null),
        }),
        // Its result's type is the field's, which the planner says.
        new(FIELD, &[ANY, BIGINT], C::Text, field),
        new(ENTRY, &[ANY, ANY], C::Text, entry).returning(|types| part(types, 1)),
        new(ELEMENT, &[ANY, BIGINT], C::Text, element).returning(|types| part(types, 0)),
        new(CONTAINS, &[ANY, ANY], C::Boolean, contains),
        new(SLICE, &[ANY, ANY], C::Text, |_, _| Err(Error::not_supported(SLICE_OUTSIDE))).with_nulls().stable(),
        new(BETWEEN, &[ANY, ANY, ANY], C::Text, between).returning(|types| types[0]).with_nulls(),
        new(CQL_ROW, &[ANY], C::Text, row_json).variadic().with_nulls(),
        // In Cassandra's forms; to_json is PostgreSQL's.
        new(TO_CQL_JSON, &[ANY], C::Text, |call, v| Ok(Value::Text(cql_json(&v[0], call.types[0])))).with_nulls(),
        new(KEYS, &[ANY], C::Text, keys).returning(|types| C::nested(Nested::Set(part(types, 0)))),
        new(VALUES, &[ANY], C::Text, values).returning(|types| C::frozen_list(part(types, 1))),
    ];
    all.extend(literals.into_iter().flatten().map(|literal| literal.with_nulls().stable()));
    all
}

/// The type of a part of the first argument.
fn part(types: &[C], place: usize) -> C {
    let parts = types.first().and_then(|ty| ty.as_nested()).map(Nested::parts).unwrap_or_default();
    parts.get(place).copied().unwrap_or(C::Text)
}

fn field(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (Value::Tuple(fields), Value::BigInt(place)) = (&v[0], &v[1]) else { return Ok(Value::Null) };
    Ok(usize::try_from(*place).ok().and_then(|place| fields.get(place)).cloned().unwrap_or(Value::Null))
}

fn entry(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (Value::Map(entries), key) = (&v[0], &v[1]) else { return Ok(Value::Null) };
    let ty = part(call.types, 0);
    let found = entries.binary_search_by(|(own, _)| Value::compare_as(ty, own, key));
    Ok(found.map_or(Value::Null, |at| entries[at].1.clone()))
}

fn element(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (Value::List(elements), Value::BigInt(place)) = (&v[0], &v[1]) else { return Ok(Value::Null) };
    let place = place.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    Ok(place.and_then(|place| elements.get(place)).cloned().unwrap_or(Value::Null))
}

fn contains(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let same = |value: &Value| !value.is_null() && Value::compare_as(call.types[1], value, &v[1]) == Ordering::Equal;
    Ok(Value::Boolean(match &v[0] {
        Value::List(elements) => elements.iter().any(same),
        Value::Map(entries) => entries.iter().any(|(_, value)| same(value)),
        _ => false,
    }))
}

fn between(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let element = call.types[0].element();
    let (ty, is_array) = (element.unwrap_or_else(|| part(call.types, 0)), element.is_some());
    let inside = |value: &Value| is_between(ty, value, &v[1], &v[2]);
    Ok(match &v[0] {
        Value::Map(entries) => Value::Map(entries.iter().filter(|(key, _)| inside(key)).cloned().collect()),
        // As arrays sets come, which are NULL where they are empty.
        Value::List(elements) if is_array && !elements.iter().any(inside) => Value::Null,
        Value::List(elements) => Value::List(elements.iter().filter(|value| inside(value)).cloned().collect()),
        _ => Value::Null,
    })
}

/// Whether a value is not below one bound nor above the other; a bound that is NULL is none, and NULL is nowhere.
pub fn is_between(ty: C, value: &Value, low: &Value, high: &Value) -> bool {
    let order = |bound: &Value| Value::compare_as(ty, value, bound);
    !value.is_null() && (low.is_null() || order(low).is_ge()) && (high.is_null() || order(high).is_le())
}

fn keys(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    match &v[0] {
        Value::Map(entries) => Ok(Value::List(entries.iter().map(|(key, _)| key.clone()).collect())),
        _ => Ok(Value::Null),
    }
}

fn values(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    match &v[0] {
        Value::Map(entries) => Ok(Value::List(entries.iter().map(|(_, value)| value.clone()).collect())),
        _ => Ok(Value::Null),
    }
}

fn row_json(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let entry = |(pair, types): (&[Value], &[C])| match &pair[0] {
        Value::Text(name) => format!("{}: {}", quoted(name), cql_json(&pair[1], types[1])),
        _ => String::new(),
    };
    let entries = v.chunks_exact(2).zip(call.types.chunks_exact(2)).map(entry);
    Ok(Value::Text(format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))))
}

fn list(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let items = v.iter().zip(call.types).map(|(value, ty)| json_of(value, *ty, call.zone));
    Ok(Value::Text(format!("[{}]", items.collect::<Vec<_>>().join(", "))))
}

fn map(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let entry = |(pair, types): (&[Value], &[C])| {
        if pair[0].is_null() {
            return Err(Error::new(ErrorKind::NotNull, "null is not supported inside collections"));
        }
        let key = text_of(&pair[0], types[0], call.zone);
        Ok(format!("{}: {}", quoted(&key), json_of(&pair[1], types[1], call.zone)))
    };
    let entries = v.chunks_exact(2).zip(call.types.chunks_exact(2)).map(entry);
    Ok(Value::Text(format!("{{{}}}", entries.collect::<Result<Vec<_>>>()?.join(", "))))
}
