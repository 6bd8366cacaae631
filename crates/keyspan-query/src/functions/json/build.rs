//! JSON made of other values, as PostgreSQL writes it: `json` in the spacing of each function, `jsonb` in its own form.

use keyspan_model::json::{Json, members, quoted};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::super::overload::{Call, Overload, Parameter};
use super::invalid;
use super::read::kind;
use crate::types::cast::{json_of as of, text_of};

use ColumnType as C;

const ANY: Parameter = Parameter::Any;

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = vec![
        Overload::new("to_json", &[ANY], C::Json, one).stable(),
        Overload::new("to_jsonb", &[ANY], C::Jsonb, one).stable(),
        Overload::new("json_element", &[ANY], C::Json, one).with_nulls().stable(),
        Overload::new("json_pair", &[ANY, ANY], C::Text, pair).with_nulls().stable(),
        Overload::new("row_to_json", &[Parameter::Is(C::Json)], C::Json, |_, v| Ok(v[0].clone())),
        // An array of rows is JSON already.
        Overload::new("array_to_json", &[Parameter::Is(C::Json)], C::Json, |_, v| Ok(v[0].clone())),
    ];
    for (name, result) in [("json_object", C::Json), ("jsonb_object", C::Jsonb)] {
        all.push(Overload::new(name, &[Parameter::Array], result, object_of_pairs));
        all.push(Overload::new(name, &[Parameter::Array, Parameter::Array], result, object_of_lists));
    }
    for (name, list, result) in
        [("json_build_object", "json_build_array", C::Json), ("jsonb_build_object", "jsonb_build_array", C::Jsonb)]
    {
        for parameters in [&[] as &'static [Parameter], &[ANY]] {
            let (object, array) =
                (Overload::new(name, parameters, result, object), Overload::new(list, parameters, result, array));
            all.extend([object, array].map(|built| {
                let built = built.with_nulls().stable();
                if parameters.is_empty() { built } else { built.variadic() }
            }));
        }
    }
    all
}

/// The text as a value of the type that a function gives.
fn finished(call: &Call<'_>, text: String) -> Result<Value> {
    Ok(Value::Text(if call.result == C::Jsonb { Json::parse(&text)?.to_string() } else { text }))
}

fn one(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    finished(call, of(&values[0], type_at(call, 0), call.zone))
}

fn type_at(call: &Call<'_>, index: usize) -> ColumnType {
    call.types.get(index).copied().unwrap_or(C::Text)
}

fn member(call: &Call<'_>, values: &[Value], index: usize) -> String {
    let key = text_of(&values[index], type_at(call, index), call.zone);
    format!("{} : {}", quoted(&key), of(&values[index + 1], type_at(call, index + 1), call.zone))
}

/// A member for `json_object_agg`.
fn pair(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    match values[0].is_null() {
        true => Err(invalid("field name must not be null")),
        false => Ok(Value::Text(member(call, values, 0))),
    }
}

fn object(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    if !values.len().is_multiple_of(2) {
        let hint = "The arguments of jsonb_build_object() must consist of alternating keys and values.";
        return Err(invalid("argument list must have even number of elements").with_hint(hint));
    }
    let places = (0..values.len()).step_by(2);
    if let Some(index) = places.clone().find(|index| values[*index].is_null()) {
        let message = format!("argument {}: key must not be null", index + 1);
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    let members: Vec<String> = places.map(|index| member(call, values, index)).collect();
    finished(call, format!("{{{}}}", members.join(", ")))
}

/// Of a list of keys and values in turn.
fn object_of_pairs(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let Value::List(all) = &values[0] else { return Ok(Value::Null) };
    if !all.len().is_multiple_of(2) {
        return Err(Error::new(ErrorKind::ArraySubscript, "array must have even number of elements"));
    }
    of_texts(call, all.chunks_exact(2).map(|pair| (&pair[0], &pair[1])))
}

/// Of a list of keys and one of values.
fn object_of_lists(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let [Value::List(keys), Value::List(values)] = values else { return Ok(Value::Null) };
    if keys.len() != values.len() {
        return Err(Error::new(ErrorKind::ArraySubscript, "mismatched array dimensions"));
    }
    of_texts(call, keys.iter().zip(values))
}

fn of_texts<'a>(call: &Call<'_>, pairs: impl Iterator<Item = (&'a Value, &'a Value)>) -> Result<Value> {
    let element = |index: usize| type_at(call, index).element().unwrap_or(C::Text);
    let text = |value: &Value, index: usize| text_of(value, element(index), call.zone);
    let last = call.types.len().saturating_sub(1);
    let members = pairs.map(|(key, value)| {
        if key.is_null() {
            return Err(Error::new(ErrorKind::NullValueNotAllowed, "null value not allowed for object key"));
        }
        let value = if value.is_null() { "null".to_owned() } else { quoted(&text(value, last)) };
        Ok(format!("{} : {value}", quoted(&text(key, 0))))
    });
    finished(call, format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(", ")))
}

fn array(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let items = values.iter().enumerate().map(|(index, value)| of(value, type_at(call, index), call.zone));
    finished(call, format!("[{}]", items.collect::<Vec<_>>().join(", ")))
}

/// A JSON text without members that are null, and without blanks.
pub fn without_nulls(text: &str) -> String {
    let parts = members(text).into_iter();
    match kind(text) {
        "array" => format!("[{}]", parts.map(|part| without_nulls(part.text)).collect::<Vec<_>>().join(",")),
        "object" => {
            let kept = parts.filter(|part| part.text != "null");
            let named =
                kept.map(|part| format!("{}:{}", quoted(&part.key.unwrap_or_default()), without_nulls(part.text)));
            format!("{{{}}}", named.collect::<Vec<_>>().join(","))
        }
        _ => text.trim().to_owned(),
    }
}
