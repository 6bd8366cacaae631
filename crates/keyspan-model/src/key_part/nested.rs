//! Nested values in keys: bytes that sort as [`Value::compare_as`] says, and that end by themselves.
//!
//! ```text
//! list, set,    { 01 element | 02 }* 00         02: null, after all others
//! vector
//! map           { 01 key 01 value }* 00
//! tuple, user   { 01 | 02 value }* 00           01: null, before all others; nulls at the end are left out
//! variant       tag value
//! ```
//!
//! Parts are as in a key, so that they end by themselves, too. A field that is added to a user type is null in the keys
//! that were written before, and these stay what they are. Of a descending column every byte is inverted.

use super::{KeyPart, corrupted, decode_part, part_len};
use crate::error::Result;
use crate::types::{ColumnType, Nested};
use crate::value::Value;

/// Ends a value.
const END: u8 = 0;
/// A part of a collection follows.
const PART: u8 = 1;
/// A list's element that is null.
const LAST_NULL: u8 = 2;
/// A tuple's field that is null.
const FIRST_NULL: u8 = 1;
/// A tuple's field follows.
const FIELD: u8 = 2;

/// Writes a part that is not null.
pub(crate) type PushPart<'a> = &'a dyn Fn(&Value, ColumnType, &mut Vec<u8>) -> Result<()>;

/// What a part is of.
enum Shape {
    /// Elements of one type.
    Elements(ColumnType),
    /// Keys and values.
    Entries(ColumnType, ColumnType),
    /// One value of each type.
    Fields(Vec<ColumnType>),
}

fn shape(ty: ColumnType) -> Option<Shape> {
    match ty {
        ColumnType::List(element) => Some(Shape::Elements(element.get())),
        ColumnType::Nested(nested) => Some(match nested.get() {
            Nested::List(element) | Nested::Set(element) => Shape::Elements(*element),
            Nested::Vector(_) => Shape::Elements(ColumnType::Real),
            Nested::Map(key, value) => Shape::Entries(*key, *value),
            nested => Shape::Fields(nested.parts()),
        }),
        _ => None,
    }
}

/// Appends the bytes of a nested value.
pub(crate) fn push_nested(value: &Value, ty: ColumnType, bytes: &mut Vec<u8>, push: PushPart<'_>) -> Result<()> {
    let part = |mark: u8, value: &Value, ty: ColumnType, bytes: &mut Vec<u8>| {
        bytes.push(mark);
        push(value, ty, bytes)
    };
    if let Value::Variant(held) = value
        && let Some((tag, of_held)) = held.variant_tag().filter(|_| ty.is_variant())
    {
        return part(tag, held, of_held, bytes);
    }
    match (value, shape(ty)) {
        (Value::List(elements), Some(Shape::Elements(ty))) => {
            for element in elements {
                if element.is_null() { bytes.push(LAST_NULL) } else { part(PART, element, ty, bytes)? }
            }
        }
        (Value::Map(entries), Some(Shape::Entries(of_key, of_value))) => {
            for (key, value) in entries {
                part(PART, key, of_key, bytes)?;
                part(PART, value, of_value, bytes)?;
            }
        }
        (Value::Tuple(fields), Some(Shape::Fields(types))) => {
            let given = fields.iter().rposition(|field| !field.is_null()).map_or(0, |last| last + 1);
            for (field, ty) in fields[..given].iter().zip(types) {
                if field.is_null() { bytes.push(FIRST_NULL) } else { part(FIELD, field, ty, bytes)? }
            }
        }
        _ => return Err(corrupted("a value is not of its column's type")),
    }
    bytes.push(END);
    Ok(())
}

/// How many bytes the nested value at the beginning of `bytes` takes; `None` if it does not end.
pub(crate) fn nested_len(ty: ColumnType, bytes: &[u8], mask: u8) -> Option<usize> {
    if ty.is_variant() {
        let held = KeyPart { name: String::new(), ty: ColumnType::of_variant_tag(bytes.first()? ^ mask)?, mask };
        return Some(1 + part_len(&held, bytes.get(1..)?)?);
    }
    let shape = shape(ty)?;
    let (mut at, mut place) = (0, 0);
    loop {
        let mark = bytes.get(at)? ^ mask;
        at += 1;
        if mark == END {
            return Some(at);
        }
        if let Some(ty) = part_type(&shape, place, mark).ok()? {
            at += part_len(&KeyPart { name: String::new(), ty, mask }, bytes.get(at..)?)?;
        }
        place += 1;
    }
}

/// The type of the part at a place, which is marked so; none for a null. An error for a mark that cannot stand there.
fn part_type(shape: &Shape, place: usize, mark: u8) -> Result<Option<ColumnType>> {
    let wrong = || corrupted("a part of a nested value has no such mark");
    match (shape, mark) {
        (Shape::Elements(ty), PART) => Ok(Some(*ty)),
        (Shape::Elements(_), LAST_NULL) => Ok(None),
        (Shape::Entries(key, value), PART) => Ok(Some(if place.is_multiple_of(2) { *key } else { *value })),
        (Shape::Fields(types), FIELD | FIRST_NULL) => {
            let ty = types.get(place).ok_or_else(wrong)?;
            Ok((mark == FIELD).then_some(*ty))
        }
        _ => Err(wrong()),
    }
}

/// The nested value at the beginning of `bytes`, and how many bytes it took.
pub(crate) fn nested_of_key(ty: ColumnType, bytes: &[u8], mask: u8) -> Result<(Value, usize)> {
    let ends = || corrupted("a nested value does not end");
    if ty.is_variant() {
        let held = bytes.first().and_then(|tag| ColumnType::of_variant_tag(tag ^ mask)).ok_or_else(ends)?;
        let (held, len) = decode_part(&KeyPart { name: String::new(), ty: held, mask }, &bytes[1..])?;
        return Ok((Value::Variant(Box::new(held)), 1 + len));
    }
    let shape = shape(ty).ok_or_else(ends)?;
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        let mark = bytes.get(at).ok_or_else(ends)? ^ mask;
        at += 1;
        if mark == END {
            break;
        }
        match part_type(&shape, parts.len(), mark)? {
            None => parts.push(Value::Null),
            Some(ty) => {
                let part = KeyPart { name: String::new(), ty, mask };
                let (value, len) = decode_part(&part, bytes.get(at..).ok_or_else(ends)?)?;
                at += len;
                parts.push(value);
            }
        }
    }
    let value = assembled(&shape, parts)?;
    // A second form of one value would be a second key.
    if value.fits(ty) { Ok((value, at)) } else { Err(corrupted("a nested value is not in its one form")) }
}

fn assembled(shape: &Shape, mut parts: Vec<Value>) -> Result<Value> {
    Ok(match shape {
        Shape::Elements(_) => Value::List(parts),
        Shape::Entries(..) => {
            let mut entries = Vec::with_capacity(parts.len() / 2);
            let mut rest = parts.into_iter();
            while let Some(key) = rest.next() {
                entries.push((key, rest.next().ok_or_else(|| corrupted("a key of a map has no value"))?));
            }
            Value::Map(entries)
        }
        Shape::Fields(types) => {
            if parts.last().is_some_and(Value::is_null) {
                return Err(corrupted("a tuple ends in a null"));
            }
            parts.resize(types.len(), Value::Null);
            Value::Tuple(parts)
        }
    })
}
