//! Families and collections that are written as a whole: a value of the whole's type to the elements that it has.

use keyspan_model::json::{Json, Member, members, unquoted};
use keyspan_model::{ColumnType, Error, ErrorKind, FamilyDef, FamilyKind, Result, Value, utc_only};

/// A key with its value; the key of an element that is added to a list is its value, and a set's has none.
pub(crate) type Entry = (Value, Option<Value>);

/// What to call a family in a message.
pub(crate) fn named(family: &FamilyDef) -> String {
    let kind = match family.kind {
        FamilyKind::Family => "family",
        FamilyKind::Map => "map",
        FamilyKind::Set => "set",
        FamilyKind::List => "list",
    };
    format!("{kind} \"{}\"", family.name)
}

/// 23502 for a null among the elements. The text is Cassandra's.
pub(crate) fn null_inside(family: &FamilyDef) -> Error {
    let message = format!("null is not supported inside collections: {}", named(family));
    Error::new(ErrorKind::NotNull, message)
}

/// The entries of a value of [`FamilyDef::whole_type`]; `None` where it is neither an array nor JSON.
pub(crate) fn entries(family: &FamilyDef, whole: Value) -> Result<Option<Vec<Entry>>> {
    let single = |value: &Value| if value.is_null() { Err(null_inside(family)) } else { Ok((value.clone(), None)) };
    Ok(Some(match whole {
        Value::Null => Vec::new(),
        Value::List(elements) => elements.iter().map(single).collect::<Result<_>>()?,
        Value::Text(json) => members_of(family, &json)?,
        _ => return Ok(None),
    }))
}

/// The qualifiers and values of a value that replaces what a row had in the family, each qualifier once.
pub(crate) fn cells(family: &FamilyDef, whole: Value) -> Result<Vec<(Value, Value)>> {
    let entries = entries(family, whole)?.ok_or_else(|| Error::internal("a family's whole of another type"))?;
    let mut cells: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
    for (place, (key, value)) in entries.into_iter().enumerate() {
        cells.push(match (family.kind, value) {
            (FamilyKind::Set, _) => (key, Value::Boolean(true)),
            (FamilyKind::List, _) => (Value::BigInt(place as i64), key),
            (FamilyKind::Family | FamilyKind::Map, Some(value)) => {
                let value = family.kept_value(&key, value)?;
                (key, value)
            }
            (FamilyKind::Family | FamilyKind::Map, None) => return Err(null_inside(family)),
        });
    }
    Ok(cells)
}

/// The members of a JSON object, each as a value of the family's type.
fn members_of(family: &FamilyDef, json: &str) -> Result<Vec<Entry>> {
    if !matches!(Json::parse(json)?, Json::Object(_)) {
        let message = format!("a value for {} must be a JSON object", named(family));
        return Err(Error::new(ErrorKind::InvalidText, message));
    }
    let entry = |member: Member<'_>| {
        let key = Value::parse(&member.key.unwrap_or_default(), family.qualifier_type())?;
        let value = match (member.text, family.value.ty) {
            ("null", _) => return Err(null_inside(family)),
            (text, ColumnType::Json | ColumnType::Jsonb) => Value::Text(text.to_owned()),
            (text, ty) if ty.is_variant() => Value::of_json(text, ty, &utc_only)?,
            // A list as JSON has it, not as PostgreSQL writes arrays.
            (text, ty) if text.starts_with('[') && !ty.is_scalar() => Value::of_json(text, ty, &utc_only)?,
            (text, ty) if text.starts_with('"') => Value::parse(&unquoted(text)?, ty)?,
            (text, ty) => Value::parse(text, ty)?,
        };
        Ok((key, Some(value)))
    };
    members(json).into_iter().map(entry).collect()
}
