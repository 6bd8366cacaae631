//! Lists as bytes that sort as the lists do. No key holds lists; queries compare and sort them so.
//!
//! ```text
//! list    = element* 00
//! element = 01 bytes, as in a key | 02: null, after all others
//! ```
//!
//! Types that no key has: a duration is its length in 16 bytes, JSON the bytes of [`Json::order`].

use crate::json::Json;
use crate::key_part::{KeyPart, decimal_bytes, encode_part};
use crate::types::ColumnType;
use crate::value::{Value, interval_length};

/// The bytes of a list of these elements, all of the type `element` or null.
pub fn list_order(elements: &[Value], element: ColumnType) -> Vec<u8> {
    let json = matches!(element, ColumnType::Json | ColumnType::Jsonb);
    let ty = if json { ColumnType::Blob } else { element };
    let part = KeyPart { name: String::new(), ty, mask: 0 };
    let mut bytes = Vec::new();
    for value in elements {
        match value {
            Value::Null => bytes.push(2),
            Value::Duration(months, days, nanoseconds) => {
                bytes.push(1);
                bytes.extend_from_slice(&decimal_bytes(interval_length(*months, *days, *nanoseconds)));
            }
            Value::Text(text) if json => {
                bytes.push(1);
                let order = Json::parse(text).map(|json| json.order()).unwrap_or_default();
                let _ = encode_part(&part, &Value::Blob(order), &mut bytes);
            }
            value => {
                bytes.push(1);
                // Values of other types than the list's have no order among its own.
                let _ = encode_part(&part, value, &mut bytes);
            }
        }
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compared(element: ColumnType, a: Vec<Option<Value>>, b: Vec<Option<Value>>) {
        let list = |values: Vec<Option<Value>>| -> Vec<Value> {
            values.into_iter().map(|value| value.unwrap_or(Value::Null)).collect()
        };
        let (a, b) = (list(a), list(b));
        let bytes = list_order(&a, element).cmp(&list_order(&b, element));
        assert_eq!(bytes, Value::compare_as(ColumnType::list(element), &Value::List(a), &Value::List(b)));
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
