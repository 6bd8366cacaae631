//! Functions and operators of JSON, which is kept as text and shown in jsonb's form: `{"a": 1}`, keys by length, then
//! by bytes.

use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use serde_json::Value as Json;

use super::overload::{Call, Code, Overload, Parameter};
use super::text::text;
use crate::types::Zone;
use crate::types::cast::text_of;

use ColumnType as C;
use Parameter::{Any, Is};

const J: Parameter = Is(C::Json);
const T: Parameter = Is(C::Text);
const I: Parameter = Is(C::Int);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("json_field", &[J, T], C::Json, |_, v| json(field(&parse(&v[0])?, text(&v[1])?)));
    add("json_field_text", &[J, T], C::Text, |_, v| plain(field(&parse(&v[0])?, text(&v[1])?)));
    add("json_element_at", &[J, I], C::Json, |_, v| json(element(&parse(&v[0])?, &v[1])));
    add("json_element_text_at", &[J, I], C::Text, |_, v| plain(element(&parse(&v[0])?, &v[1])));
    add("json_path", &[J, T], C::Json, |_, v| json(path(&parse(&v[0])?, &steps(text(&v[1])?))));
    add("json_path_text", &[J, T], C::Text, |_, v| plain(path(&parse(&v[0])?, &steps(text(&v[1])?))));
    add("json_contains", &[J, J], C::Boolean, |_, v| {
        Ok(Value::Boolean(contains(&parse(&v[0])?, &parse(&v[1])?, true)))
    });
    add("json_exists", &[J, T], C::Boolean, exists);
    add("json_concat", &[J, J], C::Json, concat);
    add("json_remove", &[J, T], C::Json, remove);
    add("json_remove_at", &[J, I], C::Json, remove_at);
    add("json_normal", &[J], C::Text, |_, v| Ok(Value::Text(printed(&parse(&v[0])?))));
    for prefix in ["json", "jsonb"] {
        let name = |suffix: &str| -> &'static str { names(prefix, suffix) };
        add(name("typeof"), &[J], C::Text, |_, v| Ok(Value::Text(kind(&parse(&v[0])?).into())));
        add(name("array_length"), &[J], C::Int, array_length);
        add(name("strip_nulls"), &[J], C::Json, |_, v| Ok(Value::Text(printed(&stripped(parse(&v[0])?)))));
        add(name("extract_path"), &[J, T], C::Json, |_, v| json(path(&parse(&v[0])?, &texts(&v[1..])?)));
        add(name("extract_path_text"), &[J, T], C::Text, |_, v| plain(path(&parse(&v[0])?, &texts(&v[1..])?)));
    }
    add("jsonb_pretty", &[J], C::Text, |_, v| Ok(Value::Text(pretty(&parse(&v[0])?, 0))));
    for overload in &mut all {
        overload.variadic = overload.name.contains("extract_path");
    }
    for prefix in ["json", "jsonb"] {
        all.push(Overload::new(names(prefix, "build_object"), &[], C::Json, build_object));
        all.push(
            Overload::new(names(prefix, "build_object"), &[Any], C::Json, build_object)
                .variadic()
                .with_nulls()
                .stable(),
        );
        all.push(Overload::new(names(prefix, "build_array"), &[], C::Json, build_array));
        all.push(
            Overload::new(names(prefix, "build_array"), &[Any], C::Json, build_array).variadic().with_nulls().stable(),
        );
    }
    for name in ["to_json", "to_jsonb"] {
        all.push(
            Overload::new(name, &[Any], C::Json, |call, v| Ok(Value::Text(printed(&of(call, 0, &v[0]))))).stable(),
        );
    }
    all.push(
        Overload::new("json_element", &[Any], C::Json, |call, v| Ok(Value::Text(printed(&of(call, 0, &v[0])))))
            .with_nulls()
            .stable(),
    );
    all
}

fn names(prefix: &str, suffix: &str) -> &'static str {
    let all = [
        "json_typeof",
        "jsonb_typeof",
        "json_array_length",
        "jsonb_array_length",
        "json_strip_nulls",
        "jsonb_strip_nulls",
        "json_extract_path",
        "jsonb_extract_path",
        "json_extract_path_text",
        "jsonb_extract_path_text",
        "json_build_object",
        "jsonb_build_object",
        "json_build_array",
        "jsonb_build_array",
    ];
    let wanted = format!("{prefix}_{suffix}");
    all.into_iter().find(|name| *name == wanted).expect("every pair of prefix and suffix is in the list")
}

fn parse(value: &Value) -> Result<Json> {
    let text = text(value)?;
    serde_json::from_str(text).map_err(|_| Error::new(ErrorKind::InvalidText, "invalid input syntax for type json"))
}

/// jsonb's text.
pub fn printed(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(", ")),
        Json::Object(fields) => {
            let each = sorted(fields).into_iter().map(|(key, value)| format!("{}: {}", quoted(key), printed(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
        }
        Json::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn sorted(fields: &serde_json::Map<String, Json>) -> Vec<(&String, &Json)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes())));
    fields
}

fn quoted(text: &str) -> String {
    Json::String(text.to_owned()).to_string()
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
            let each = sorted(fields).into_iter();
            lines('{', each.map(|(key, value)| format!("{}: {}", quoted(key), pretty(value, depth + 1))).collect(), '}')
        }
        other => printed(other),
    }
}

fn json(value: Option<&Json>) -> Result<Value> {
    Ok(value.map_or(Value::Null, |value| Value::Text(printed(value))))
}

fn plain(value: Option<&Json>) -> Result<Value> {
    Ok(match value {
        None | Some(Json::Null) => Value::Null,
        Some(Json::String(text)) => Value::Text(text.clone()),
        Some(value) => Value::Text(printed(value)),
    })
}

fn field<'a>(value: &'a Json, name: &str) -> Option<&'a Json> {
    value.as_object()?.get(name)
}

fn element<'a>(value: &'a Json, index: &Value) -> Option<&'a Json> {
    let Value::Int(index) = index else { return None };
    at(value.as_array()?, i64::from(*index))
}

fn at(items: &[Json], index: i64) -> Option<&Json> {
    let place = if index < 0 { i64::try_from(items.len()).ok()? + index } else { index };
    items.get(usize::try_from(place).ok()?)
}

/// The steps of a path as Postgres writes an array: `{a,0,"b c"}`.
fn steps(text: &str) -> Vec<String> {
    let inner = text.trim().trim_start_matches('{').trim_end_matches('}');
    if inner.is_empty() {
        return Vec::new();
    }
    inner.split(',').map(|step| step.trim().trim_matches('"').to_owned()).collect()
}

fn texts(values: &[Value]) -> Result<Vec<String>> {
    values.iter().map(|value| text(value).map(str::to_owned)).collect()
}

fn path<'a>(value: &'a Json, steps: &[String]) -> Option<&'a Json> {
    steps.iter().try_fold(value, |value, step| match value {
        Json::Object(fields) => fields.get(step),
        Json::Array(items) => at(items, step.parse().ok()?),
        _ => None,
    })
}

fn contains(whole: &Json, part: &Json, top: bool) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|own| contains(own, value, false)))
        }
        (Json::Array(whole), Json::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|own| contains(own, value, false)))
        }
        // At the top, an array contains a bare member.
        (Json::Array(whole), part) if top && !part.is_object() => whole.iter().any(|own| equal(own, part)),
        (whole, part) => equal(whole, part),
    }
}

fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn exists(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let name = text(&values[1])?;
    Ok(Value::Boolean(match parse(&values[0])? {
        Json::Object(fields) => fields.contains_key(name),
        Json::Array(items) => items.iter().any(|item| item.as_str() == Some(name)),
        Json::String(own) => own == name,
        _ => false,
    }))
}

fn concat(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let joined = match (parse(&values[0])?, parse(&values[1])?) {
        (Json::Object(mut a), Json::Object(b)) => {
            a.extend(b);
            Json::Object(a)
        }
        (a, b) => {
            let items = |value: Json| match value {
                Json::Array(items) => items,
                other => vec![other],
            };
            Json::Array(items(a).into_iter().chain(items(b)).collect())
        }
    };
    Ok(Value::Text(printed(&joined)))
}

fn remove(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (mut value, name) = (parse(&values[0])?, text(&values[1])?);
    match &mut value {
        Json::Object(fields) => drop(fields.remove(name)),
        Json::Array(items) => items.retain(|item| item.as_str() != Some(name)),
        _ => return Err(Error::new(ErrorKind::InvalidParameter, "cannot delete from scalar")),
    }
    Ok(Value::Text(printed(&value)))
}

fn remove_at(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (mut value, Value::Int(index)) = (parse(&values[0])?, &values[1]) else { return Ok(Value::Null) };
    let Json::Array(items) = &mut value else {
        return Err(Error::new(ErrorKind::InvalidParameter, "cannot delete from object using integer index"));
    };
    let place =
        if *index < 0 { i64::try_from(items.len()).unwrap_or(0) + i64::from(*index) } else { i64::from(*index) };
    if let Some(place) = usize::try_from(place).ok().filter(|place| *place < items.len()) {
        items.remove(place);
    }
    Ok(Value::Text(printed(&value)))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn array_length(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    match parse(&values[0])? {
        Json::Array(items) => Ok(Value::Int(i32::try_from(items.len()).unwrap_or(i32::MAX))),
        Json::Object(_) => Err(Error::new(ErrorKind::InvalidParameter, "cannot get array length of a non-array")),
        _ => Err(Error::new(ErrorKind::InvalidParameter, "cannot get array length of a scalar")),
    }
}

fn stripped(value: Json) -> Json {
    match value {
        Json::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Json::Object(kept.map(|(key, value)| (key, stripped(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(stripped).collect()),
        other => other,
    }
}

/// A value as JSON: numbers and booleans as such, instants in ISO 8601, the rest as its text.
fn of(call: &Call<'_>, index: usize, value: &Value) -> Json {
    let ty = call.types.get(index).copied().unwrap_or(C::Text);
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => Json::Bool(*value),
        Value::TinyInt(value) => Json::from(*value),
        Value::SmallInt(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::BigInt(value) => Json::from(*value),
        Value::Real(_) | Value::Double(_) | Value::Decimal(..) => {
            let text = text_of(value, ty, Zone::Fixed(0));
            serde_json::from_str(&text).unwrap_or(Json::String(text))
        }
        Value::Text(text) if ty == C::Json => serde_json::from_str(text).unwrap_or(Json::Null),
        Value::Timestamp(_) => {
            let text = text_of(value, ty, call.zone).replacen(' ', "T", 1);
            let short = ty == C::Timestamp && text.rfind(['+', '-']).is_some_and(|at| text.len() - at == 3);
            Json::String(if short { text + ":00" } else { text })
        }
        value => Json::String(text_of(value, ty, call.zone)),
    }
}

fn build_object(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    if !values.len().is_multiple_of(2) {
        let error = Error::new(ErrorKind::InvalidParameter, "argument list must have even number of elements");
        return Err(
            error.with_hint("The arguments of jsonb_build_object() must consist of alternating keys and values.")
        );
    }
    let mut fields = serde_json::Map::new();
    for (index, pair) in values.chunks(2).enumerate() {
        if pair[0].is_null() {
            let message = format!("argument {}: key must not be null", 2 * index + 1);
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        let ty = call.types.get(2 * index).copied().unwrap_or(C::Text);
        fields.insert(text_of(&pair[0], ty, call.zone), of(call, 2 * index + 1, &pair[1]));
    }
    Ok(Value::Text(printed(&Json::Object(fields))))
}

fn build_array(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let items = values.iter().enumerate().map(|(index, value)| of(call, index, value)).collect();
    Ok(Value::Text(printed(&Json::Array(items))))
}
