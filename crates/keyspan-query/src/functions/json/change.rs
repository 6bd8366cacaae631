//! Values of `jsonb` made of others: joined, with members set, inserted and removed.

use keyspan_model::json::Json;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::super::overload::{Call, Code, Overload, Parameter};
use super::super::text::text;
use super::{B, I, J, T, invalid, place, steps, tree};

use ColumnType as C;

const BOOLEAN: Parameter = Parameter::Is(C::Boolean);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("json_concat", &[B, B], C::Jsonb, |_, v| printed(joined(tree(&v[0])?, tree(&v[1])?)));
    add("json_remove", &[B, T], C::Jsonb, remove);
    add("json_remove_each", &[B, T], C::Jsonb, remove_each);
    add("json_remove_at", &[B, I], C::Jsonb, remove_at);
    add("json_remove_path", &[B, T], C::Jsonb, remove_path);
    for parameters in [&[B, T, B] as &'static [Parameter], &[B, T, B, BOOLEAN]] {
        add("jsonb_set", parameters, C::Jsonb, |_, v| {
            let create = !matches!(v.get(3), Some(Value::Boolean(false)));
            changed(v, &Change::Set { value: tree(&v[2])?, create })
        });
        add("jsonb_insert", parameters, C::Jsonb, |_, v| {
            let after = matches!(v.get(3), Some(Value::Boolean(true)));
            changed(v, &Change::Insert { value: tree(&v[2])?, after })
        });
    }
    add("jsonb_strip_nulls", &[B], C::Jsonb, |_, v| printed(stripped(tree(&v[0])?)));
    add("json_strip_nulls", &[J], C::Json, |_, v| Ok(Value::Text(super::build::without_nulls(text(&v[0])?))));
    all
}

fn printed(value: Json) -> Result<Value> {
    Ok(Value::Text(value.to_string()))
}

/// What is done to the value at the end of a path.
enum Change {
    Set { value: Json, create: bool },
    Insert { value: Json, after: bool },
    Remove,
}

fn joined(a: Json, b: Json) -> Json {
    match (a, b) {
        (Json::Object(mut a), Json::Object(b)) => {
            a.extend(b);
            Json::object(a)
        }
        (a, b) => {
            let items = |value: Json| match value {
                Json::Array(items) => items,
                other => vec![other],
            };
            Json::Array(items(a).into_iter().chain(items(b)).collect())
        }
    }
}

fn without(mut value: Json, names: &[String]) -> Result<Json> {
    match &mut value {
        Json::Object(fields) => fields.retain(|(key, _)| !names.contains(key)),
        Json::Array(items) => items.retain(|item| !matches!(item, Json::Text(own) if names.contains(own))),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    Ok(value)
}

fn remove(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    printed(without(tree(&values[0])?, &[text(&values[1])?.to_owned()])?)
}

fn remove_each(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let names: Vec<String> = steps(&values[1])?.into_iter().flatten().collect();
    printed(without(tree(&values[0])?, &names)?)
}

fn remove_at(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (mut value, Value::Int(index)) = (tree(&values[0])?, &values[1]) else { return Ok(Value::Null) };
    match &mut value {
        Json::Array(items) => {
            if let Some(place) = place(i64::from(*index), items.len()) {
                items.remove(place);
            }
        }
        Json::Object(_) => return Err(invalid("cannot delete from object using integer index")),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    printed(value)
}

fn remove_path(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let value = tree(&values[0])?;
    if !matches!(value, Json::Array(_) | Json::Object(_)) {
        return Err(invalid("cannot delete path in scalar"));
    }
    changed(values, &Change::Remove)
}

fn changed(values: &[Value], change: &Change) -> Result<Value> {
    let (mut value, steps) = (tree(&values[0])?, steps(&values[1])?);
    if !matches!(value, Json::Array(_) | Json::Object(_)) {
        return Err(invalid("cannot set path in scalar"));
    }
    let named = (1..).zip(steps).map(|(position, step)| {
        let message = || format!("path element at position {position} is null");
        step.ok_or_else(|| Error::new(ErrorKind::NullValueNotAllowed, message()))
    });
    follow(&mut value, &named.collect::<Result<Vec<_>>>()?, 1, change)?;
    printed(value)
}

/// Follows the rest of a path; what is not there is left as it is.
fn follow(value: &mut Json, steps: &[String], depth: usize, change: &Change) -> Result<()> {
    let Some((step, rest)) = steps.split_first() else { return Ok(()) };
    match value {
        Json::Object(fields) => {
            let at = fields.iter().position(|(key, _)| key == step);
            if rest.is_empty() {
                return in_object(fields, at, step, change);
            }
            at.map_or(Ok(()), |at| follow(&mut fields[at].1, rest, depth + 1, change))
        }
        Json::Array(items) => {
            let index: i32 = step.trim().parse().map_err(|_| {
                let message = format!("path element at position {depth} is not an integer: \"{step}\"");
                Error::new(ErrorKind::InvalidText, message)
            })?;
            let at = place(i64::from(index), items.len());
            if rest.is_empty() {
                in_array(items, at, index, change);
                return Ok(());
            }
            at.map_or(Ok(()), |at| follow(&mut items[at], rest, depth + 1, change))
        }
        _ => Ok(()),
    }
}

fn in_object(fields: &mut Vec<(String, Json)>, at: Option<usize>, name: &str, change: &Change) -> Result<()> {
    let new = match (change, at) {
        (Change::Remove, Some(at)) => {
            fields.remove(at);
            return Ok(());
        }
        (Change::Set { value, .. }, Some(at)) => {
            fields[at].1 = value.clone();
            return Ok(());
        }
        (Change::Insert { .. }, Some(_)) => {
            let error = invalid("cannot replace existing key");
            return Err(error.with_hint("Try using the function jsonb_set to replace key value."));
        }
        (Change::Set { value, create: true } | Change::Insert { value, .. }, None) => value.clone(),
        (Change::Set { create: false, .. } | Change::Remove, None) => return Ok(()),
    };
    fields.push((name.to_owned(), new));
    fields.sort_by(|(a, _), (b, _)| keyspan_model::json::key_order(a, b));
    Ok(())
}

/// A subscript beyond an array stands for its end, or for its begin if it is negative.
fn in_array(items: &mut Vec<Json>, at: Option<usize>, index: i32, change: &Change) {
    let beyond = if index < 0 { 0 } else { items.len() };
    match (change, at) {
        (Change::Remove, Some(at)) => drop(items.remove(at)),
        (Change::Set { value, .. }, Some(at)) => items[at] = value.clone(),
        (Change::Insert { value, after }, Some(at)) => items.insert(at + usize::from(*after), value.clone()),
        (Change::Set { value, create: true } | Change::Insert { value, .. }, None) => {
            items.insert(beyond, value.clone());
        }
        (Change::Set { create: false, .. } | Change::Remove, None) => {}
    }
}

fn stripped(value: Json) -> Json {
    match value {
        Json::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key, stripped(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(stripped).collect()),
        other => other,
    }
}
