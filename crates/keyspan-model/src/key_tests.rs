//! Tests of key encoding: golden vectors (the on-disk contract), order, round trips, and bytes that are no key.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};

use arrow::array::Array;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::array::{array_of, value_at};
use crate::schema::ColumnId;
use crate::types::{ColumnType, Nested};

const MONEY: ColumnType = ColumnType::Decimal { precision: 10, scale: 2 };

fn encoder(columns: &[(ColumnType, bool)]) -> KeyEncoder {
    let column = |(ty, descending): &(ColumnType, bool)| KeyColumn {
        id: ColumnId(1),
        name: "k".into(),
        ty: *ty,
        descending: *descending,
    };
    KeyEncoder::new(&columns.iter().map(column).collect::<Vec<_>>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn uuid(text: &str) -> Value {
    Value::Uuid(text.parse().expect("a uuid"))
}

#[test]
fn golden_vectors_of_every_key_type() {
    let v1 = "13814000-1dd2-11b2-8000-0123456789ab";
    let cases: Vec<(ColumnType, Value, &str)> = vec![
        (ColumnType::Boolean, Value::Boolean(false), "00"),
        (ColumnType::Boolean, Value::Boolean(true), "01"),
        (ColumnType::TinyInt, Value::TinyInt(-1), "7f"),
        (ColumnType::SmallInt, Value::SmallInt(1), "8001"),
        (ColumnType::Int, Value::Int(i32::MIN), "00000000"),
        (ColumnType::Int, Value::Int(22), "80000016"),
        (ColumnType::BigInt, Value::BigInt(-2), "7ffffffffffffffe"),
        (ColumnType::VarInt, Value::Decimal(5, 0), "80000000000000000000000000000005"),
        (MONEY, Value::Decimal(-150, 2), "7fffffffffffffffffffffffffffff6a"),
        (MONEY, Value::Decimal(10, 1), "80000000000000000000000000000064"),
        (ColumnType::Real, Value::Real(1.5), "bfc00000"),
        (ColumnType::Real, Value::Real(-1.5), "403fffff"),
        (ColumnType::Double, Value::Double(-0.0), "8000000000000000"),
        (ColumnType::Double, Value::Double(-f64::NAN), "fff8000000000000"),
        (ColumnType::Double, Value::Double(f64::NEG_INFINITY), "000fffffffffffff"),
        (ColumnType::Text, text(""), "0000"),
        (ColumnType::Text, text("a\0é"), "6100ffc3a90000"),
        (ColumnType::Ascii, text("ab"), "61620000"),
        (ColumnType::Blob, Value::Blob(vec![0, 0xff, 0]), "00ffff00ff0000"),
        (ColumnType::Uuid, uuid("00010203-0405-0607-0809-0a0b0c0d0e0f"), "000102030405060708090a0b0c0d0e0f"),
        (ColumnType::TimeUuid, uuid(v1), "01b21dd213814000138140001dd211b280000123456789ab"),
        (ColumnType::Date, Value::Date(-1), "7fffffff"),
        (ColumnType::Time, Value::Time(1), "8000000000000001"),
        (ColumnType::Timestamp, Value::Timestamp(-1), "7fffffffffffffff"),
        (ColumnType::LocalTimestamp, Value::Timestamp(1_706_176_800_000_000), "80060fc23e168800"),
        (ColumnType::Inet, Value::Inet(Ipv4Addr::new(10, 0, 0, 1).into()), "040a000001"),
        (ColumnType::Inet, Value::Inet(Ipv6Addr::LOCALHOST.into()), "0600000000000000000000000000000001"),
    ];
    for (ty, value, expected) in cases {
        let ascending = encoder(&[(ty, false)]).encode(std::slice::from_ref(&value)).expect("a key");
        assert_eq!(hex(&ascending), expected, "{ty} {value:?}");
        let descending = encoder(&[(ty, true)]).encode(std::slice::from_ref(&value)).expect("a key");
        let inverted: Vec<u8> = ascending.iter().map(|byte| !byte).collect();
        assert_eq!(hex(&descending), hex(&inverted), "{ty} {value:?} DESC");
    }
    let readings = encoder(&[(ColumnType::Text, false), (ColumnType::Int, true), (ColumnType::Timestamp, true)]);
    let key = readings.encode(&[text("s1"), Value::Int(0), Value::Timestamp(255)]).expect("a key");
    assert_eq!(hex(&key), "733100007fffffff7fffffffffffff00");
}

#[test]
fn what_cannot_be_a_key_is_refused_by_name() {
    let keys = encoder(&[(ColumnType::Int, false), (MONEY, false)]);
    let kind = |values: &[Value]| keys.encode(values).expect_err("no key").kind;
    assert_eq!(kind(&[Value::Null]), ErrorKind::NotNull);
    assert_eq!(kind(&[Value::BigInt(1)]), ErrorKind::DatatypeMismatch);
    assert_eq!(kind(&[Value::Int(1), Value::Decimal(1234, 3)]), ErrorKind::NumericOverflow);
    assert_eq!(kind(&[Value::Int(1), Value::Decimal(10_000_000_000, 2)]), ErrorKind::NumericOverflow);
    assert_eq!(kind(&[Value::Int(1), Value::Decimal(1, 2), Value::Int(1)]), ErrorKind::InvalidArgument);
    let long = encoder(&[(ColumnType::Text, false)]).encode(&[text(&"x".repeat(MAX_KEY_BYTES))]).expect_err("too long");
    assert_eq!(long.kind, ErrorKind::LimitExceeded);
    assert!(long.message.contains("65538") && long.message.contains("65536"), "{}", long.message);
    let of_type = |ty, value| encoder(&[(ty, false)]).encode(&[value]).map_err(|error| error.kind);
    assert_eq!(of_type(ColumnType::Ascii, text("é")), Err(ErrorKind::DatatypeMismatch));
    let random = uuid("00010203-0405-4607-8809-0a0b0c0d0e0f");
    assert_eq!(of_type(ColumnType::TimeUuid, random), Err(ErrorKind::DatatypeMismatch));
}

#[test]
fn a_key_is_appended_and_its_own_length_counts() {
    let keys = encoder(&[(ColumnType::Text, false)]);
    let longest = text(&"x".repeat(MAX_KEY_BYTES - 2));
    let mut bytes = vec![1, 2, 3];
    keys.encode_into(&[longest], &mut bytes).expect("a key");
    assert_eq!((bytes.len(), &bytes[..4]), (MAX_KEY_BYTES + 3, &[1, 2, 3, b'x'][..]));
}

#[test]
fn spans_are_the_bytes_of_their_prefixes() {
    let keys = encoder(&[(ColumnType::Text, false), (ColumnType::Int, true)]);
    let bytes = |values: &[Value]| keys.encode(values).expect("a key");
    let a = vec![text("a")];
    assert_eq!(keys.span_bytes(&Span::all()), Ok((vec![], None)));
    assert_eq!(keys.span_bytes(&Span::prefix(a.clone())), Ok((bytes(&a), Some(b"a\0\x01".to_vec()))));
    let after = Span { start: Bound::Excluded(a.clone()), end: Bound::Excluded(vec![text("b"), Value::Int(7)]) };
    assert_eq!(keys.span_bytes(&after), Ok((b"a\0\x01".to_vec(), Some(bytes(&[text("b"), Value::Int(7)])))));
    let beyond_all = Span { start: Bound::Excluded(vec![]), end: Bound::Unbounded };
    let (start, end) = keys.span_bytes(&beyond_all).expect("bytes");
    assert_eq!(Some(start), end);
    assert_eq!(successor(&[1, 0xff, 0xff]), Some(vec![2]));
    assert_eq!(successor(&[0xff]), None);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::collection::vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('ÿ'), Just('\u{10ffff}')], 0..5)
            .prop_map(|characters| characters.into_iter().collect::<String>()),
        ".{0,12}",
    ]
}

fn any_value(ty: ColumnType) -> BoxedStrategy<Value> {
    let bytes = prop::collection::vec(prop_oneof![Just(0u8), Just(0xffu8), any::<u8>()], 0..6);
    let special = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(-1.0),
        any::<f64>()
    ];
    match ty {
        ColumnType::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        ColumnType::TinyInt => any::<i8>().prop_map(Value::TinyInt).boxed(),
        ColumnType::SmallInt => any::<i16>().prop_map(Value::SmallInt).boxed(),
        ColumnType::Int => prop_oneof![-2i32..3, any::<i32>()].prop_map(Value::Int).boxed(),
        ColumnType::BigInt => prop_oneof![-2i64..3, any::<i64>()].prop_map(Value::BigInt).boxed(),
        ColumnType::VarInt => {
            let limit = 10i128.pow(38) - 1;
            prop_oneof![-2i128..3, -limit..=limit].prop_map(|digits| Value::Decimal(digits, 0)).boxed()
        }
        ColumnType::Decimal { scale, .. } => {
            (-9_999_999_999i128..=9_999_999_999).prop_map(move |digits| Value::Decimal(digits, scale)).boxed()
        }
        ColumnType::Real => special.prop_map(|value| Value::Real(value as f32).canonical()).boxed(),
        ColumnType::Double => special.prop_map(|value| Value::Double(value).canonical()).boxed(),
        ColumnType::Text => any_text().prop_map(Value::Text).boxed(),
        ColumnType::Ascii => "[\\x00-\\x7f]{0,6}".prop_map(Value::Text).boxed(),
        ColumnType::Blob => bytes.prop_map(Value::Blob).boxed(),
        ColumnType::Uuid => any::<u128>().prop_map(|bits| Value::Uuid(Uuid::from_u128(bits))).boxed(),
        ColumnType::TimeUuid => {
            any::<u128>().prop_map(|bits| Value::Uuid(Uuid::from_u128(bits & !(0xf << 76) | 1 << 76))).boxed()
        }
        ColumnType::Date => any::<i32>().prop_map(Value::Date).boxed(),
        ColumnType::Time => (0i64..86_400_000_000).prop_map(Value::Time).boxed(),
        ColumnType::Timestamp | ColumnType::LocalTimestamp => {
            prop_oneof![-2i64..3, any::<i64>()].prop_map(Value::Timestamp).boxed()
        }
        ColumnType::Inet => prop_oneof![
            any::<u32>().prop_map(|bits| Value::Inet(Ipv4Addr::from(bits).into())),
            any::<u128>().prop_map(|bits| Value::Inet(Ipv6Addr::from(bits).into())),
        ]
        .boxed(),
        ColumnType::List(element) => any_list(element.get()).prop_map(Value::List).boxed(),
        ColumnType::Nested(nested) => any_nested(nested.get()),
        ColumnType::Duration | ColumnType::Json | ColumnType::Jsonb => Just(Value::Null).boxed(),
    }
}

fn any_list(element: ColumnType) -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(prop_oneof![1 => Just(Value::Null), 4 => any_value(element)], 0..4)
}

fn any_nested(ty: &'static Nested) -> BoxedStrategy<Value> {
    match ty {
        Nested::List(element) => any_list(*element).prop_map(Value::List).boxed(),
        Nested::Set(element) => {
            let elements = prop::collection::vec(any_value(*element), 0..4);
            elements.prop_map(|elements| Value::set(elements, *element).expect("a set")).boxed()
        }
        Nested::Map(key, value) => {
            let entries = prop::collection::vec((any_value(*key), any_value(*value)), 0..4);
            entries.prop_map(|entries| Value::map(entries, *key).expect("a map")).boxed()
        }
        ty => {
            let field = |ty: ColumnType| prop_oneof![1 => Just(Value::Null), 3 => any_value(ty)];
            ty.parts().into_iter().map(field).collect::<Vec<_>>().prop_map(Value::Tuple).boxed()
        }
    }
}

/// The scalar types, and nested ones of them.
fn key_types() -> Vec<ColumnType> {
    let tuple = ColumnType::nested(Nested::Tuple(vec![ColumnType::Int, ColumnType::Text, ColumnType::TimeUuid]));
    let set = ColumnType::nested(Nested::Set(ColumnType::Text));
    let nested = [
        ColumnType::list(ColumnType::Text),
        tuple,
        set,
        ColumnType::nested(Nested::Map(ColumnType::Double, tuple)),
        ColumnType::frozen_list(set),
        ColumnType::nested(Nested::Tuple(vec![set, ColumnType::Blob])),
    ];
    KEY_TYPES.into_iter().chain(nested).collect()
}

const KEY_TYPES: [ColumnType; 19] = [
    ColumnType::Boolean,
    ColumnType::TinyInt,
    ColumnType::SmallInt,
    ColumnType::Int,
    ColumnType::BigInt,
    ColumnType::VarInt,
    MONEY,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Text,
    ColumnType::Ascii,
    ColumnType::Blob,
    ColumnType::Uuid,
    ColumnType::TimeUuid,
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::LocalTimestamp,
    ColumnType::Inet,
];

type Shape = Vec<(ColumnType, bool)>;

fn any_shape() -> impl Strategy<Value = Shape> {
    prop::collection::vec((prop::sample::select(key_types()), any::<bool>()), 1..4)
}

/// A key's shape and rows; each row begins with some of the first row's values, so that later columns decide too.
fn shape_and_rows() -> impl Strategy<Value = (Shape, Vec<Vec<Value>>)> {
    any_shape().prop_flat_map(|shape| {
        let row: Vec<_> = shape.iter().map(|(ty, _)| any_value(*ty)).collect();
        let rows = prop::collection::vec((row, 0..4usize), 2..5).prop_map(|rows| {
            let first = rows[0].0.clone();
            let share = |(row, shared): (Vec<Value>, usize)| -> Vec<Value> {
                row.into_iter().enumerate().map(|(i, v)| if i < shared { first[i].clone() } else { v }).collect()
            };
            rows.into_iter().map(share).collect::<Vec<_>>()
        });
        (Just(shape), rows)
    })
}

fn key_order(shape: &Shape, a: &[Value], b: &[Value]) -> Ordering {
    let parts = shape.iter().zip(a.iter().zip(b)).map(|((ty, descending), (a, b))| {
        let order = Value::compare_as(*ty, a, b);
        if *descending { order.reverse() } else { order }
    });
    parts.fold(Ordering::Equal, Ordering::then)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn byte_order_is_value_order((shape, rows) in shape_and_rows()) {
        let keys = encoder(&shape);
        for a in &rows {
            for b in &rows {
                let (x, y) = (keys.encode(a).expect("a key"), keys.encode(b).expect("a key"));
                prop_assert_eq!(x.cmp(&y), key_order(&shape, a, b), "{:?} {:?}", a, b);
            }
        }
    }

    #[test]
    fn prefixes_of_keys_are_prefixes_of_bytes((shape, rows) in shape_and_rows(), columns in 0..4usize) {
        let keys = encoder(&shape);
        let columns = columns.min(shape.len());
        let prefix = rows[0][..columns].to_vec();
        let prefix_bytes = keys.encode(&prefix).expect("a prefix");
        let (start, end) = keys.span_bytes(&Span::prefix(prefix.clone())).expect("a span");
        for row in &rows {
            let bytes = keys.encode(row).expect("a key");
            let begins = key_order(&shape, &row[..columns], &prefix) == Ordering::Equal;
            prop_assert_eq!(bytes.starts_with(&prefix_bytes), begins);
            prop_assert_eq!(bytes >= start && end.as_ref().is_none_or(|end| bytes < *end), begins);
        }
        let first = keys.encode(&rows[0]).expect("a key");
        prop_assert_eq!(keys.prefix_len(&first, columns), prefix_bytes.len());
    }

    #[test]
    fn keys_and_batches_decode_to_what_was_encoded((shape, rows) in shape_and_rows()) {
        let keys = encoder(&shape);
        let column = |(index, (ty, _)): (usize, &(ColumnType, bool))| {
            array_of(*ty, &rows.iter().map(|row| row[index].clone()).collect::<Vec<_>>()).expect("an array")
        };
        let columns: Vec<_> = shape.iter().enumerate().map(column).collect();
        let batch = keys.encode_batch(&columns).expect("keys");
        for (index, row) in rows.iter().enumerate() {
            let bytes = keys.encode(row).expect("a key");
            prop_assert_eq!(batch.value(index), &bytes[..]);
            let decoded = keys.decode(&bytes).expect("a row");
            prop_assert_eq!(key_order(&shape, &decoded, row), Ordering::Equal);
            prop_assert_eq!(decoded.len(), row.len());
        }
        let decoded = keys.decode_batch((0..batch.len()).map(|row| batch.value(row))).expect("columns");
        prop_assert_eq!(decoded.len(), columns.len());
        for ((decoded, column), (ty, _)) in decoded.iter().zip(&columns).zip(&shape) {
            prop_assert_eq!(decoded.data_type(), &ty.arrow());
            for row in 0..rows.len() {
                let (a, b) = (value_at(decoded, row, *ty).expect("a"), value_at(column, row, *ty).expect("b"));
                prop_assert_eq!(Value::compare_as(*ty, &a, &b), Ordering::Equal);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_an_error(shape in any_shape(), bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), Just(4), any::<u8>()], 0..40)) {
        let keys = encoder(&shape);
        prop_assert!(keys.prefix_len(&bytes, 9) <= bytes.len());
        match keys.decode(&bytes) {
            Ok(values) => prop_assert_eq!(keys.encode(&values).expect("a key"), bytes),
            Err(error) => prop_assert_eq!(error.kind, ErrorKind::Corrupted),
        }
    }

    #[test]
    fn a_damaged_key_is_another_key_or_an_error((shape, rows) in shape_and_rows(), at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let keys = encoder(&shape);
        let mut bytes = keys.encode(&rows[0]).expect("a key");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(values) = keys.decode(&bytes) {
            prop_assert_eq!(keys.encode(&values).expect("a key"), bytes);
        }
    }
}

#[test]
fn a_batch_with_a_null_or_another_type_is_refused() {
    let keys = encoder(&[(ColumnType::Int, false)]);
    let nulls = array_of(ColumnType::Int, &[Value::Int(1), Value::Null]).expect("an array");
    assert_eq!(keys.encode_batch(&[nulls]).expect_err("a null").kind, ErrorKind::NotNull);
    let longs = array_of(ColumnType::BigInt, &[Value::BigInt(1)]).expect("an array");
    assert_eq!(keys.encode_batch(&[longs]).expect_err("a bigint").kind, ErrorKind::DatatypeMismatch);
    let texts = array_of(ColumnType::Text, &[text(&"x".repeat(MAX_KEY_BYTES))]).expect("an array");
    let keys = encoder(&[(ColumnType::Text, false)]);
    assert_eq!(keys.encode_batch(&[texts]).expect_err("too long").kind, ErrorKind::LimitExceeded);
}
