//! Parts of a JSON text, as they are written.

use keyspan_model::json::{Json, members, unquoted};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::super::overload::{Call, Code, Overload, Parameter};
use super::super::text::text;
use super::{B, I, J, T, invalid, place, steps, tree};

use ColumnType as C;

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    for (own, of) in [(C::Json, Of { one: &[J], text: &[J, T], int: &[J, I] }), (C::Jsonb, OF_JSONB)] {
        let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
        add("json_field", of.text, own, |_, v| Ok(some(field(text(&v[0])?, text(&v[1])?))));
        add("json_field_text", of.text, C::Text, |_, v| plain(field(text(&v[0])?, text(&v[1])?)));
        let (at, text_at): (Code, Code) = match own {
            C::Json => {
                (|_, v| Ok(some(element(text(&v[0])?, int(&v[1])))), |_, v| plain(element(text(&v[0])?, int(&v[1]))))
            }
            _ => (
                |_, v| Ok(some(element_or_scalar(text(&v[0])?, int(&v[1])))),
                |_, v| plain(element_or_scalar(text(&v[0])?, int(&v[1]))),
            ),
        };
        add("json_element_at", of.int, own, at);
        add("json_subscript", of.int, own, |_, v| Ok(some(element(text(&v[0])?, int(&v[1])))));
        add("json_element_text_at", of.int, C::Text, text_at);
        add("json_path", of.text, own, |_, v| Ok(some(path(text(&v[0])?, &steps(&v[1])?))));
        add("json_path_text", of.text, C::Text, |_, v| plain(path(text(&v[0])?, &steps(&v[1])?)));
        let name = |json, jsonb| if own == C::Json { json } else { jsonb };
        add(name("json_typeof", "jsonb_typeof"), of.one, C::Text, |_, v| Ok(Value::Text(kind(text(&v[0])?).into())));
        add(name("json_array_length", "jsonb_array_length"), of.one, C::Int, array_length);
        let parts = [
            name("json_extract_path", "jsonb_extract_path"),
            name("json_extract_path_text", "jsonb_extract_path_text"),
        ];
        all.push(
            Overload::new(parts[0], of.text, own, |_, v| Ok(some(path(text(&v[0])?, &texts(&v[1..])?)))).variadic(),
        );
        all.push(
            Overload::new(parts[1], of.text, C::Text, |_, v| plain(path(text(&v[0])?, &texts(&v[1..])?))).variadic(),
        );
    }
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("json_contains", &[B, B], C::Boolean, |_, v| Ok(Value::Boolean(contains(&tree(&v[0])?, &tree(&v[1])?, true))));
    add("json_exists", &[B, T], C::Boolean, |_, v| Ok(Value::Boolean(exists(&tree(&v[0])?, text(&v[1])?))));
    add("json_exists_any", &[B, T], C::Boolean, |_, v| {
        let value = tree(&v[0])?;
        Ok(Value::Boolean(steps(&v[1])?.iter().flatten().any(|name| exists(&value, name))))
    });
    add("json_exists_all", &[B, T], C::Boolean, |_, v| {
        let value = tree(&v[0])?;
        Ok(Value::Boolean(steps(&v[1])?.iter().flatten().all(|name| exists(&value, name))))
    });
    add("jsonb_order", &[B], C::Blob, |_, v| Ok(Value::Blob(tree(&v[0])?.order())));
    add("jsonb_canonical", &[B], C::Jsonb, |_, v| Ok(Value::Text(tree(&v[0])?.canonical().to_string())));
    add("jsonb_pretty", &[B], C::Text, |_, v| Ok(Value::Text(pretty(&tree(&v[0])?, 0))));
    all
}

/// Parameters of functions that both types have.
struct Of {
    one: &'static [Parameter],
    text: &'static [Parameter],
    int: &'static [Parameter],
}

const OF_JSONB: Of = Of { one: &[B], text: &[B, T], int: &[B, I] };

fn some(part: Option<&str>) -> Value {
    part.map_or(Value::Null, |part| Value::Text(part.to_owned()))
}

/// A part as text: a string without its quotes.
pub fn plain(part: Option<&str>) -> Result<Value> {
    Ok(match part {
        None | Some("null") => Value::Null,
        Some(part) if part.starts_with('"') => Value::Text(unquoted(part)?),
        Some(part) => Value::Text(part.to_owned()),
    })
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => i64::from(*value),
        _ => 0,
    }
}

fn texts(values: &[Value]) -> Result<Vec<Option<String>>> {
    values.iter().map(|value| text(value).map(|text| Some(text.to_owned()))).collect()
}

/// Of equal keys, which only `json` keeps, the last.
fn field<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let found = members(value).into_iter().rev().find(|member| member.key.as_deref() == Some(name));
    found.map(|member| member.text)
}

fn element(value: &str, index: i64) -> Option<&str> {
    if kind(value) != "array" {
        return None;
    }
    let items = members(value);
    Some(items[place(index, items.len())?].text)
}

/// To PostgreSQL's `->` a `jsonb` that is no array and no object is an array of itself.
fn element_or_scalar(value: &str, index: i64) -> Option<&str> {
    match kind(value) {
        "array" | "object" => element(value, index),
        _ => place(index, 1).map(|_| value),
    }
}

/// Nothing is at a path with a NULL in it.
fn path<'a>(value: &'a str, steps: &[Option<String>]) -> Option<&'a str> {
    steps.iter().try_fold(value.trim(), |value, step| match kind(value) {
        "object" => field(value, step.as_deref()?),
        "array" => element(value, step.as_deref()?.trim().parse().ok()?),
        _ => None,
    })
}

/// What a JSON text is.
pub fn kind(value: &str) -> &'static str {
    match value.trim_start().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "boolean",
        Some(b'"') => "string",
        Some(b'[') => "array",
        Some(b'{') => "object",
        _ => "number",
    }
}

fn array_length(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let value = text(&values[0])?;
    match kind(value) {
        "array" => i32::try_from(members(value).len())
            .map(Value::Int)
            .map_err(|_| Error::new(ErrorKind::NumericOverflow, "integer out of range")),
        "object" => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }
}

fn contains(whole: &Json, part: &Json, top: bool) -> bool {
    match (whole, part) {
        (Json::Object(_), Json::Object(part)) => {
            part.iter().all(|(key, value)| whole.field(key).is_some_and(|own| contains(own, value, false)))
        }
        (Json::Array(whole), Json::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|own| contains(own, value, false)))
        }
        // At the top, an array contains a bare member.
        (Json::Array(whole), part) if top && !matches!(part, Json::Object(_)) => {
            whole.iter().any(|own| own.order() == part.order())
        }
        (whole, part) => whole.order() == part.order(),
    }
}

fn exists(value: &Json, name: &str) -> bool {
    let is_name = |item: &Json| matches!(item, Json::Text(own) if own == name);
    match value {
        Json::Object(_) => value.field(name).is_some(),
        Json::Array(items) => items.iter().any(is_name),
        other => is_name(other),
    }
}

fn pretty(value: &Json, depth: usize) -> String {
    let (inner, outer) = ("    ".repeat(depth + 1), "    ".repeat(depth));
    let lines = |open: char, lines: Vec<String>, close: char| match lines.is_empty() {
        true => format!("{open}\n{outer}{close}"),
        false => format!("{open}\n{inner}{}\n{outer}{close}", lines.join(&format!(",\n{inner}"))),
    };
    match value {
        Json::Array(items) => lines('[', items.iter().map(|item| pretty(item, depth + 1)).collect(), ']'),
        Json::Object(fields) => {
            let named = |(key, value): &(String, Json)| {
                format!("{}: {}", keyspan_model::json::quoted(key), pretty(value, depth + 1))
            };
            lines('{', fields.iter().map(named).collect(), '}')
        }
        other => other.to_string(),
    }
}
