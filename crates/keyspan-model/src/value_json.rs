//! Nested values as JSON and back: the text form of what PostgreSQL has no form for.
//!
//! ```text
//! list, set, tuple   [1, "x", null]              a tuple's nulls at the end may be left out
//! map                {"key": value}              the key as its text, a nested one as its JSON
//! user type          {"field": value}            fields that are not given are null
//! variant            the JSON of what it holds, a float with its point
//! vector             [1, 2.5]
//! ```
//!
//! Rule: [`value_of_json`] reads what [`json_of_value`] writes. What a scalar's JSON is, the caller says.

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, members, quoted};
use crate::types::{ColumnType, Nested};
use crate::value::Value;

/// How JSON is written: that of a scalar, the text of one that is a map's key, and blanks.
pub struct JsonForm<'a> {
    /// JSON of a value of this type, which is not null.
    pub json: &'a dyn Fn(&Value, ColumnType) -> String,
    /// The text that a key of this type has.
    pub key: &'a dyn Fn(&Value, ColumnType) -> String,
    /// Whether a blank stands behind each comma and colon.
    pub spaced: bool,
}

/// The value as JSON.
pub fn json_of_value(value: &Value, ty: ColumnType, form: &JsonForm<'_>) -> String {
    let of = |value: &Value, ty: ColumnType| json_of_value(value, ty, form);
    let (comma, colon) = if form.spaced { (", ", ": ") } else { (",", ":") };
    let array = |items: Vec<String>| format!("[{}]", items.join(comma));
    let object = |items: Vec<String>| format!("{{{}}}", items.join(comma));
    match (value, ty) {
        (Value::Null, _) => "null".into(),
        (Value::List(elements), ColumnType::List(element)) => {
            array(elements.iter().map(|each| of(each, element.get())).collect())
        }
        (value @ Value::Variant(_), _) => value.held().map_or_else(
            || "null".into(),
            |(held, ty)| match held {
                Value::Real(_) | Value::Double(_) => with_point(of(held, ty)),
                held => of(held, ty),
            },
        ),
        (value, ColumnType::Nested(nested)) => match (value, nested.get()) {
            (Value::List(elements), Nested::List(element) | Nested::Set(element)) => {
                array(elements.iter().map(|each| of(each, *element)).collect())
            }
            (Value::List(elements), Nested::Vector(_)) => {
                array(elements.iter().map(|each| of(each, ColumnType::Real)).collect())
            }
            (Value::Map(entries), Nested::Map(key, value)) => {
                let entry = |(own, each): &(Value, Value)| {
                    let text = if key.is_scalar() { (form.key)(own, *key) } else { of(own, *key) };
                    format!("{}{colon}{}", quoted(&text), of(each, *value))
                };
                object(entries.iter().map(entry).collect())
            }
            (Value::Tuple(fields), Nested::User(user)) => {
                let fields = user.fields.iter().zip(fields);
                object(
                    fields
                        .map(|(field, each)| format!("{}{colon}{}", quoted(&field.name), of(each, field.ty)))
                        .collect(),
                )
            }
            (Value::Tuple(fields), Nested::Tuple(types)) => {
                array(fields.iter().zip(types).map(|(each, ty)| of(each, *ty)).collect())
            }
            (value, _) => (form.json)(value, ty),
        },
        (value, ty) => (form.json)(value, ty),
    }
}

/// The JSON of a float, which as a variant reads back as one.
fn with_point(number: String) -> String {
    let whole = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    if whole { format!("{number}.0") } else { number }
}

/// The text of a nested value, as a client gets it; `instant` gives the text of an instant in the client's zone.
pub fn nested_text(value: &Value, ty: ColumnType, instant: &dyn Fn(i64) -> String) -> String {
    let text = |value: &Value, ty: ColumnType| match value {
        Value::Timestamp(micros) if ty == ColumnType::Timestamp => instant(*micros),
        value => value.to_text(ty),
    };
    json_of_value(value, ty, &JsonForm { json: &|value, ty| scalar_json(value, ty, &text), key: &text, spaced: true })
}

/// Numbers and booleans as such, JSON as it is, the rest as its text.
fn scalar_json(value: &Value, ty: ColumnType, text: &dyn Fn(&Value, ColumnType) -> String) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) | Value::Decimal(..) => {
            value.to_text(ty)
        }
        Value::Real(number) if number.is_finite() => value.to_text(ty),
        Value::Double(number) if number.is_finite() => value.to_text(ty),
        Value::Text(text) if matches!(ty, ColumnType::Json | ColumnType::Jsonb) => text.clone(),
        value => quoted(&text(value, ty)),
    }
}

/// A value as JSON in the forms that Cassandra documents: blobs as `0x…`, instants in UTC with milliseconds, floats
/// that JSON has no number for as null.
pub fn cql_json(value: &Value, ty: ColumnType) -> String {
    json_of_value(value, ty, &JsonForm { json: &cql_scalar, key: &cql_text, spaced: true })
}

/// The text that a key of a map has in [`cql_json`].
pub fn cql_key(value: &Value, ty: ColumnType) -> String {
    if ty.is_scalar() { cql_text(value, ty) } else { cql_json(value, ty) }
}

fn cql_scalar(value: &Value, ty: ColumnType) -> String {
    match value {
        Value::Real(number) if !number.is_finite() => "null".into(),
        Value::Double(number) if !number.is_finite() => "null".into(),
        Value::Blob(_) | Value::Timestamp(_) | Value::Time(_) | Value::Duration(..) => quoted(&cql_text(value, ty)),
        value => scalar_json(value, ty, &|value, ty| value.to_text(ty)),
    }
}

fn cql_text(value: &Value, ty: ColumnType) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::Blob(_) => value.to_text(ty).replacen("\\x", "0x", 1),
        Value::Timestamp(micros) => {
            let text = Value::Timestamp(micros.div_euclid(1_000_000) * 1_000_000).to_text(ColumnType::LocalTimestamp);
            let zone = if ty == ColumnType::Timestamp { "Z" } else { "" };
            format!("{text}.{:03}{zone}", micros.div_euclid(1000).rem_euclid(1000))
        }
        Value::Time(micros) => {
            let text = Value::Time(micros / 1_000_000 * 1_000_000).to_text(ty);
            format!("{text}.{:06}000", micros % 1_000_000)
        }
        Value::Duration(months, days, nanoseconds) => {
            cql_duration(*months, *days, *nanoseconds).unwrap_or_else(|| value.to_text(ty))
        }
        value => value.to_text(ty),
    }
}

/// A duration as Cassandra's `Duration.toString` has it: `1y2mo3d4h5m6s`, with one sign before all. `None` for what Cassandra
/// has not: parts of different signs.
fn cql_duration(months: i32, days: i32, nanoseconds: i64) -> Option<String> {
    let signs = [i64::from(months).signum(), i64::from(days).signum(), nanoseconds.signum()];
    if signs.contains(&1) && signs.contains(&-1) {
        return None;
    }
    if signs == [0; 3] {
        return Some("0s".to_owned());
    }
    let mut text = String::from(if signs.contains(&-1) { "-" } else { "" });
    let mut add = |number: u64, unit: &str| {
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    };
    let months = u64::from(months.unsigned_abs());
    add(months / 12, "y");
    add(months % 12, "mo");
    add(u64::from(days.unsigned_abs()), "d");
    let mut left = nanoseconds.unsigned_abs();
    for (length, unit) in [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ] {
        add(left / length, unit);
        left %= length;
    }
    Some(text)
}

/// Reads the text of a scalar of this type.
pub type ScalarText<'a> = &'a dyn Fn(&str, ColumnType) -> Result<Value>;

/// The value of this type that a JSON text is.
///
/// # Errors
/// 22P02 for what is no JSON or no such value, and those of `scalar`.
pub fn value_of_json(text: &str, ty: ColumnType, scalar: ScalarText<'_>) -> Result<Value> {
    let checked = crate::json::checked_json(text)?;
    read(checked.trim(), ty, scalar)
}

fn read(text: &str, ty: ColumnType, scalar: ScalarText<'_>) -> Result<Value> {
    let null = text == "null";
    match ty {
        ColumnType::Json | ColumnType::Jsonb if !null => scalar(text, ty),
        _ if null => Ok(Value::Null),
        ColumnType::List(element) => Ok(Value::List(items(text, ty, element.get(), scalar)?)),
        ColumnType::Nested(nested) => read_nested(text, ty, nested.get(), scalar),
        ty => match text.as_bytes().first() {
            Some(b'"') => scalar(&string(text)?, ty),
            Some(b'[' | b'{') => Err(not_a(ty, text)),
            // As CQL's literal of an instant: milliseconds.
            Some(b'-' | b'0'..=b'9') if ty == ColumnType::Timestamp && text.parse::<i64>().is_ok() => {
                Value::timestamp_from_millis(text.parse().unwrap_or_default())
            }
            _ => scalar(text, ty),
        },
    }
}

fn string(text: &str) -> Result<String> {
    match Json::parse(text)? {
        Json::Text(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

fn read_nested(text: &str, ty: ColumnType, nested: &Nested, scalar: ScalarText<'_>) -> Result<Value> {
    match nested {
        Nested::List(element) => Ok(Value::List(items(text, ty, *element, scalar)?)),
        Nested::Set(_) if is_empty_object(text) => Ok(Value::List(Vec::new())),
        Nested::Set(element) => Value::set(items(text, ty, *element, scalar)?, *element),
        Nested::Vector(dimension) => Value::vector(items(text, ty, ColumnType::Real, scalar)?, usize::from(*dimension)),
        Nested::Map(key, value) => {
            let entries = object(text, ty)?.into_iter().map(|(name, each)| {
                let own = if key.is_scalar() { scalar(&name, *key)? } else { value_of_json(&name, *key, scalar)? };
                Ok((own, read(each, *value, scalar)?))
            });
            Value::map(entries.collect::<Result<_>>()?, *key)
        }
        Nested::Tuple(types) => {
            expect(text, '[', ty)?;
            let given = members(text);
            check_count(ty, types.len(), given.len())?;
            let mut fields = vec![Value::Null; types.len()];
            for ((field, member), ty) in fields.iter_mut().zip(given).zip(types) {
                *field = read(member.text, *ty, scalar)?;
            }
            Ok(Value::Tuple(fields))
        }
        Nested::User(user) => {
            let mut fields = vec![Value::Null; user.fields.len()];
            for (name, each) in object(text, ty)? {
                let (place, ty) = nested.field(&name).ok_or_else(|| unknown_field(&name, &user.name))?;
                fields[place] = read(each, ty, scalar)?;
            }
            Ok(Value::Tuple(fields))
        }
        Nested::Variant => match text.as_bytes().first() {
            Some(b'"') => Value::Text(string(text)?).into_variant(),
            Some(b'[' | b'{') => Err(not_a(ty, text)),
            Some(b't' | b'f') => Value::Boolean(text == "true").into_variant(),
            _ => Value::variant_of_number(text),
        },
        Nested::Named(name) => Err(Error::internal(format!("type {} has no definition", name.name))),
    }
}

fn is_empty_object(text: &str) -> bool {
    text.starts_with('{') && members(text).is_empty()
}

fn items(text: &str, ty: ColumnType, element: ColumnType, scalar: ScalarText<'_>) -> Result<Vec<Value>> {
    expect(text, '[', ty)?;
    members(text).into_iter().map(|member| read(member.text, element, scalar)).collect()
}

fn object(text: &str, ty: ColumnType) -> Result<Vec<(String, &str)>> {
    expect(text, '{', ty)?;
    Ok(members(text).into_iter().map(|member| (member.key.unwrap_or_default(), member.text)).collect())
}

fn expect(text: &str, bracket: char, ty: ColumnType) -> Result<()> {
    if text.starts_with(bracket) { Ok(()) } else { Err(not_a(ty, text)) }
}

fn not_a(ty: ColumnType, text: &str) -> Error {
    let hint = match ty.as_nested() {
        Some(Nested::Map(..)) => "A map is written {key: value, …}, or in a text as JSON: {\"key\": value, …}.",
        Some(Nested::User(_)) => "It is written {field: value, …}, or in a text as JSON: {\"field\": value, …}.",
        Some(Nested::Tuple(_)) => "A tuple is written (value, …), or in a text as JSON: [value, …].",
        Some(Nested::Variant) => "A variant is a text, a number or a boolean; cast JSON to text.",
        Some(Nested::Vector(_)) => "A vector is written [number, …], in a text, too.",
        Some(Nested::Set(_)) => "A set is written {element, …}, or in a text as JSON: [element, …].",
        _ => "A list is written [element, …], in a text, too.",
    };
    let error = crate::input_error::invalid(ty, text);
    if ty.is_scalar() { error } else { error.with_hint(hint) }
}

/// 42804 for a tuple of more values than its type has. The text is Cassandra's.
pub(crate) fn check_count(ty: ColumnType, expected: usize, given: usize) -> Result<()> {
    if given <= expected {
        return Ok(());
    }
    let message = format!("Invalid tuple literal: too many elements. Type {ty} expects {expected} but got {given}");
    Err(Error::new(ErrorKind::DatatypeMismatch, message))
}

fn unknown_field(name: &str, ty: &str) -> Error {
    Error::new(ErrorKind::UndefinedColumn, format!("Unknown field '{name}' in value of user defined type {ty}"))
}

/// 22004-like refusal of NULL in a collection. The text is Cassandra's.
fn null_inside() -> Error {
    Error::new(ErrorKind::NotNull, "null is not supported inside collections")
}

impl Value {
    /// The set of these elements: sorted, each once.
    ///
    /// # Errors
    /// 23502 for a null.
    pub fn set(mut elements: Vec<Value>, element: ColumnType) -> Result<Value> {
        if elements.iter().any(Value::is_null) {
            return Err(null_inside());
        }
        elements.sort_by(|a, b| Value::compare_as(element, a, b));
        elements.dedup_by(|a, b| Value::compare_as(element, a, b).is_eq());
        Ok(Value::List(elements))
    }

    /// The vector of these elements, which are 4-byte floats.
    ///
    /// # Errors
    /// 22000 for another number of elements and for what is not finite, 22004 for a null. The texts are pgvector's.
    pub fn vector(elements: Vec<Value>, dimension: usize) -> Result<Value> {
        if elements.len() != dimension {
            let message = format!("expected {dimension} dimensions, not {}", elements.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let odd = elements.iter().find_map(|element| match element {
            Value::Real(value) if value.is_finite() => None,
            Value::Real(value) if value.is_nan() => Some((ErrorKind::InvalidArgument, "NaN not allowed in vector")),
            Value::Real(_) => Some((ErrorKind::InvalidArgument, "infinite value not allowed in vector")),
            Value::Null => Some((ErrorKind::NullValueNotAllowed, "null is not supported inside vectors")),
            _ => Some((ErrorKind::DatatypeMismatch, "a vector has elements of type float")),
        });
        match odd {
            Some((kind, message)) => Err(Error::new(kind, message)),
            None => Ok(Value::List(elements).canonical()),
        }
    }

    /// The map of these entries: sorted by key, of each key the last.
    ///
    /// # Errors
    /// 23502 for a null.
    pub fn map(mut entries: Vec<(Value, Value)>, key: ColumnType) -> Result<Value> {
        if entries.iter().any(|(key, value)| key.is_null() || value.is_null()) {
            return Err(null_inside());
        }
        entries.reverse();
        entries.sort_by(|(a, _), (b, _)| Value::compare_as(key, a, b));
        entries.dedup_by(|(a, _), (b, _)| Value::compare_as(key, a, b).is_eq());
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::tie_bytes;
    use crate::types::TypeId;
    use crate::types::{TypeField, UserType};

    use ColumnType as C;

    fn user() -> ColumnType {
        let field = |name: &str, ty| TypeField { name: name.into(), ty };
        let fields = vec![field("street", C::Text), field("zip", C::Int)];
        C::nested(Nested::User(UserType { id: TypeId(1), keyspace: "k".into(), name: "address".into(), fields }))
    }

    #[test]
    fn values_read_back_from_their_texts() {
        let tuple = C::nested(Nested::Tuple(vec![C::Int, C::Text, C::Timestamp]));
        let map = C::nested(Nested::Map(tuple, C::frozen_list(user())));
        let cases = [
            (C::nested(Nested::Set(C::Text)), r#"["b", "a", "b"]"#, r#"{a,b}"#),
            (C::nested(Nested::Set(C::Text)), "{}", "{}"),
            (C::nested(Nested::Set(tuple)), r#"[[2, "b"], [1]]"#, r#"[[1, null, null], [2, "b", null]]"#),
            (
                C::nested(Nested::Map(C::Int, C::Blob)),
                r#"{"2": "0xff", "1": "\\x00"}"#,
                r#"{"1": "\\x00", "2": "\\xff"}"#,
            ),
            (tuple, r#"[7, "x", "2024-01-25 10:00"]"#, r#"[7, "x", "2024-01-25 10:00:00+00"]"#),
            (user(), r#"{"zip": 1}"#, r#"{"street": null, "zip": 1}"#),
            (map, r#"{"[1, \"x\"]": [{"street": "s"}]}"#, r#"{"[1, \"x\", null]": [{"street": "s", "zip": null}]}"#),
            (C::frozen_list(C::list(C::Double)), r#"[[1.5, "NaN"], null, []]"#, r#"[[1.5, "NaN"], null, []]"#),
            (C::nested(Nested::Tuple(vec![C::Jsonb, C::Json])), r#"[{"b":1}, [ 1]]"#, r#"[{"b": 1}, [ 1]]"#),
        ];
        for (ty, written, printed) in cases {
            let value = Value::parse(written, ty).expect(written);
            assert!(value.fits(ty), "{value:?} {ty}");
            assert_eq!(value.to_text(ty), printed);
            let again = Value::parse(printed, ty).expect(printed);
            assert_eq!(tie_bytes(&again), tie_bytes(&value), "{printed}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let state = |text: &str, ty| Value::parse(text, ty).expect_err(text).sqlstate();
        let tuple = C::nested(Nested::Tuple(vec![C::Int]));
        assert_eq!(state("[1, 2]", tuple), "42804");
        assert_eq!(state("{}", tuple), "22P02");
        assert_eq!(state("[[1]]", tuple), "22P02");
        assert_eq!(state("[1", tuple), "22P02");
        assert_eq!(state(r#"{"town": 1}"#, user()), "42703");
        assert_eq!(state("[null]", C::nested(Nested::Set(C::Int))), "23502");
        assert_eq!(state(r#"{"1": null}"#, C::nested(Nested::Map(C::Int, C::Int))), "23502");
    }
}
