//! Nested values as bytes that sort as the values do: for queries that compare and sort them.
//!
//! The bytes are those that a key has (`key_part::nested`). Types that no key has: a duration is its length in 16
//! bytes, JSON the bytes of [`Json::order`].

use crate::error::Result;
use crate::json::Json;
use crate::key_part::{KeyPart, decimal_bytes, decode_part, encode_part, push_nested};
use crate::types::ColumnType;
use crate::value::{Value, interval_length};

/// The bytes of a value of this type that is not null.
pub fn value_order(value: &Value, ty: ColumnType) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Values of other types than this have no order among its own.
    let _ = push_order(value, ty, &mut bytes);
    bytes
}

/// The value that [`value_order`] made these bytes of; `None` for types that no key has.
pub fn value_of_order(bytes: &[u8], ty: ColumnType) -> Option<Value> {
    ty.allowed_in_key().ok()?;
    let (value, len) = decode_part(&KeyPart { name: String::new(), ty, mask: 0 }, bytes).ok()?;
    (len == bytes.len()).then_some(value)
}

fn push_order(value: &Value, ty: ColumnType, bytes: &mut Vec<u8>) -> Result<()> {
    let part = |ty| KeyPart { name: String::new(), ty, mask: 0 };
    match (value, ty) {
        (Value::Duration(months, days, nanoseconds), _) => {
            bytes.extend_from_slice(&decimal_bytes(interval_length(*months, *days, *nanoseconds)));
            Ok(())
        }
        (Value::Text(text), ColumnType::Json | ColumnType::Jsonb) => {
            let order = Json::parse(text).map(|json| json.order()).unwrap_or_default();
            encode_part(&part(ColumnType::Blob), &Value::Blob(order), bytes)
        }
        (value, ColumnType::List(_) | ColumnType::Nested(_)) => push_nested(value, ty, bytes, &push_order),
        (value, ty) => encode_part(&part(ty), value, bytes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compared(element: ColumnType, a: Vec<Option<Value>>, b: Vec<Option<Value>>) {
        let list = |values: Vec<Option<Value>>| -> Vec<Value> {
            values.into_iter().map(|value| value.unwrap_or(Value::Null)).collect()
        };
        let (a, b) = (Value::List(list(a)), Value::List(list(b)));
        let ty = ColumnType::list(element);
        assert_eq!(value_order(&a, ty).cmp(&value_order(&b, ty)), Value::compare_as(ty, &a, &b));
    }

    proptest! {
        #[test]
        fn bytes_sort_as_lists_of_numbers_do(a: Vec<Option<i32>>, b: Vec<Option<i32>>) {
            let values = |list: Vec<Option<i32>>| list.into_iter().map(|each| each.map(Value::Int)).collect();
            compared(ColumnType::Int, values(a), values(b));
        }

        #[test]
        fn bytes_sort_as_lists_of_texts_do(a: Vec<Option<String>>, b: Vec<Option<String>>) {
            let values = |list: Vec<Option<String>>| list.into_iter().map(|each| each.map(Value::Text)).collect();
            compared(ColumnType::Text, values(a), values(b));
        }

        #[test]
        fn bytes_sort_as_lists_of_durations_do(a: Vec<Option<(i32, i64)>>, b: Vec<Option<(i32, i64)>>) {
            let values = |list: Vec<Option<(i32, i64)>>| {
                list.into_iter().map(|each| each.map(|(days, nanos)| Value::Duration(1, days, nanos))).collect()
            };
            compared(ColumnType::Duration, values(a), values(b));
        }
    }
}
