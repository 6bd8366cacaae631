//! `has_table_privilege` and its kin. There is one user, who may do everything; but what is asked about must exist, and
//! the privilege must be one that such a thing has.

use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::functions::{number, text};
use super::source::{Class, DATABASE, Source};
use crate::functions::{Call, Code, Overload, Parameter};

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const N: Parameter = Parameter::Is(C::BigInt);
const I: Parameter = Parameter::Is(C::Int);

const TABLE: &[&str] = &["select", "insert", "update", "delete", "truncate", "references", "trigger", "maintain"];
const COLUMN: &[&str] = &["select", "insert", "update", "references"];
const SCHEMA: &[&str] = &["create", "usage"];
const DATABASES: &[&str] = &["create", "connect", "temporary", "temp"];
const ROLE: &[&str] = &["usage", "member", "set"];

/// The functions: `name([user,] thing, privilege)`.
pub fn add(all: &mut Vec<Overload>) {
    let mut add = |name, parameters, code: Code| all.push(Overload::new(name, parameters, C::Boolean, code).stable());
    let things: [(&str, Code); 4] = [
        ("has_table_privilege", |call, v| on_table(call, v, TABLE)),
        ("has_any_column_privilege", |call, v| on_table(call, v, COLUMN)),
        ("has_schema_privilege", on_schema),
        ("has_database_privilege", on_database),
    ];
    for (name, code) in things {
        for parameters in [&[T, T][..], &[N, T], &[T, T, T], &[T, N, T], &[N, T, T], &[N, N, T]] {
            add(name, parameters, code);
        }
    }
    for parameters in [&[T, T, T][..], &[N, T, T], &[T, I, T], &[N, I, T], &[T, T, T, T], &[T, N, T, T], &[T, N, I, T]]
    {
        add("has_column_privilege", parameters, on_column);
    }
    for parameters in [&[T, T][..], &[N, T], &[T, T, T], &[T, N, T], &[N, N, T]] {
        add("pg_has_role", parameters, on_role);
    }
    for parameters in [&[T, T][..], &[N, T], &[T, T, T], &[T, N, T]] {
        add("has_function_privilege", parameters, |_, v| privilege(v, &["execute"]));
        add("has_type_privilege", parameters, |_, v| privilege(v, &["usage"]));
    }
}

/// True, if the last argument is a list of such privileges.
fn privilege(values: &[Value], known: &[&str]) -> Result<Value> {
    let asked = values.last().and_then(text).unwrap_or_default();
    for each in asked.split(',') {
        let word = each.trim().to_lowercase();
        let bare = word.trim_end_matches(" with grant option").trim_end_matches(" with admin option");
        if !known.contains(&bare) {
            let message = format!("unrecognized privilege type: \"{}\"", each.trim());
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
    }
    Ok(Value::Boolean(true))
}

/// The table asked about; none for an OID that is nobody's.
fn class(source: &Source, value: &Value) -> Result<Option<Class>> {
    match text(value) {
        Some(name) => source
            .class_of_name(name)
            .map(Some)
            .ok_or_else(|| Error::new(ErrorKind::UndefinedTable, format!("relation \"{name}\" does not exist"))),
        None => Ok(number(value).and_then(|oid| source.class_of_oid(oid))),
    }
}

/// The user, where three arguments name one first.
fn check_user<'a>(source: &Source, values: &'a [Value], things: usize) -> Result<&'a [Value]> {
    if values.len() <= things {
        return Ok(values);
    }
    match text(&values[0]) {
        Some(name) if name != source.user() && name != "public" => {
            Err(Error::new(ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist")))
        }
        _ => Ok(&values[1..]),
    }
}

fn on_table(call: &Call<'_>, values: &[Value], known: &[&str]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let values = check_user(&source, values, 2)?;
    match class(&source, &values[0])? {
        Some(_) => privilege(values, known),
        None => Ok(Value::Null),
    }
}

fn on_column(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let values = check_user(&source, values, 3)?;
    let Some(class) = class(&source, &values[0])? else { return Ok(Value::Null) };
    let table = source.catalog.table(&class.schema, &class.name);
    if let (Some(table), Some(column)) = (table, text(&values[1]))
        && table.column(column).is_none_or(|column| column.hidden)
    {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", class.name);
        return Err(Error::new(ErrorKind::UndefinedColumn, message));
    }
    privilege(values, COLUMN)
}

fn on_schema(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let values = check_user(&source, values, 2)?;
    let schemas = source.namespaces();
    match (text(&values[0]), number(&values[0])) {
        (Some(name), _) if !schemas.contains_key(name) => {
            Err(Error::new(ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist")))
        }
        (None, Some(oid)) if !schemas.values().any(|each| *each == oid) => Ok(Value::Null),
        _ => privilege(values, SCHEMA),
    }
}

fn on_database(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let values = check_user(&source, values, 2)?;
    match (text(&values[0]), number(&values[0])) {
        (Some(name), _) if name != source.database() => {
            Err(Error::new(ErrorKind::UndefinedDatabase, format!("database \"{name}\" does not exist")))
        }
        (None, Some(oid)) if oid != DATABASE => Ok(Value::Null),
        _ => privilege(values, DATABASES),
    }
}

fn on_role(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let values = check_user(&source, values, 2)?;
    match text(&values[0]) {
        Some(name) if name != source.user() => {
            Err(Error::new(ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist")))
        }
        _ => privilege(values, ROLE),
    }
}
