//! Every type out in both formats and back in.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DurationMillisecondArray, Int32Array, Int64Array, ListArray, MapBuilder, StringArray,
    StringBuilder, StructArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use bytes::BytesMut;
use keyspan_model::types::TYPE_KEY;
use keyspan_model::{ColumnType, Result, Value, array_of};

use super::parameter;
use super::{PgType, WireColumn};
use crate::encoding::Encoding;
use crate::engine::{TextStyle, Zone};

const UTC: Zone = Zone::Fixed(0);

fn read_text(bytes: &[u8], ty: ColumnType, zone: &Zone) -> Result<Value> {
    parameter::read_text(bytes, ty, zone, Encoding::UTF8)
}

fn read_binary(bytes: &[u8], declared: u32, ty: ColumnType, number: usize) -> Result<Value> {
    parameter::read_binary(bytes, declared, ty, number, Encoding::UTF8)
}

fn text(field: &Field, array: &ArrayRef, row: usize) -> String {
    let column = WireColumn::new(field, array, TextStyle::UTC).expect("a column");
    let mut out = BytesMut::new();
    column.put_text_field(row, &mut out).expect("text");
    match i32::from_be_bytes(out[..4].try_into().expect("a length")) {
        -1 => "NULL".into(),
        length => {
            assert_eq!(length as usize, out.len() - 4);
            String::from_utf8(out[4..].to_vec()).expect("UTF-8")
        }
    }
}

fn binary(field: &Field, array: &ArrayRef, row: usize) -> Vec<u8> {
    let column = WireColumn::new(field, array, TextStyle::UTC).expect("a column");
    let mut out = BytesMut::new();
    column.put_binary_field(row, &mut out).expect("binary");
    out[4..].to_vec()
}

fn values() -> Vec<(ColumnType, Vec<Value>)> {
    let uuid = |text: &str| Value::Uuid(text.parse().expect("a UUID"));
    let decimal = ColumnType::Decimal { precision: 20, scale: 4 };
    vec![
        (ColumnType::Boolean, vec![Value::Boolean(true), Value::Boolean(false)]),
        (ColumnType::TinyInt, vec![Value::TinyInt(i8::MIN), Value::TinyInt(0), Value::TinyInt(i8::MAX)]),
        (ColumnType::SmallInt, vec![Value::SmallInt(i16::MIN), Value::SmallInt(i16::MAX)]),
        (ColumnType::Int, vec![Value::Int(i32::MIN), Value::Int(-1), Value::Int(i32::MAX)]),
        (ColumnType::BigInt, vec![Value::BigInt(i64::MIN), Value::BigInt(0), Value::BigInt(i64::MAX)]),
        (ColumnType::VarInt, vec![Value::Decimal(10_i128.pow(38) - 1, 0), Value::Decimal(-70_000, 0)]),
        (decimal, vec![Value::Decimal(1_234_567, 4), Value::Decimal(-5, 4), Value::Decimal(0, 4)]),
        (ColumnType::Real, vec![Value::Real(0.1), Value::Real(-3.4e38), Value::Real(1e-40)]),
        (ColumnType::Double, vec![Value::Double(0.1), Value::Double(f64::INFINITY), Value::Double(1e300)]),
        (ColumnType::Text, vec![Value::Text(String::new()), Value::Text("naïve 😀\n\\".into())]),
        (ColumnType::Ascii, vec![Value::Text("plain".into())]),
        (ColumnType::Blob, vec![Value::Blob(vec![]), Value::Blob(vec![0, 255, 92])]),
        (ColumnType::Uuid, vec![uuid("550e8400-e29b-41d4-a716-446655440000")]),
        (ColumnType::TimeUuid, vec![uuid("b54adc00-67f9-11d9-9669-0800200c9a66")]),
        (
            ColumnType::Date,
            vec![
                Value::Date(0),
                Value::Date(-719_162),
                Value::Date(2_000_000),
                Value::Date(i32::MAX),
                Value::Date(i32::MIN),
            ],
        ),
        (ColumnType::Time, vec![Value::Time(0), Value::Time(86_399_999_999)]),
        (
            ColumnType::Timestamp,
            vec![Value::Timestamp(1_706_176_800_250_000), Value::Timestamp(-1), Value::Timestamp(i64::MIN)],
        ),
        (ColumnType::LocalTimestamp, vec![Value::Timestamp(1_706_176_800_000_001), Value::Timestamp(i64::MAX)]),
        (ColumnType::Duration, vec![Value::Duration(14, -3, 11_045_000_006_000), Value::Duration(0, 0, 0)]),
        (
            ColumnType::Inet,
            vec!["10.1.2.3", "::1"].into_iter().map(|a| Value::Inet(a.parse().expect("an address"))).collect(),
        ),
        (ColumnType::Json, vec![Value::Text("{\"a\":[1, null]}".into())]),
        (ColumnType::Jsonb, vec![Value::Text("{\"a\": [1, null]}".into())]),
    ]
}

#[test]
fn every_type_survives_both_formats() {
    for (ty, values) in values() {
        let field = ty.field("c", true);
        let mut with_null = values.clone();
        with_null.push(Value::Null);
        let array = array_of(ty, &with_null).expect("an array");
        for (row, value) in values.iter().enumerate() {
            let shown = text(&field, &array, row);
            assert_eq!(shown, value.to_text(ty), "{ty} as text");
            assert_eq!(&read_text(shown.as_bytes(), ty, &UTC).expect("text"), value, "{ty} from text");
            let bytes = binary(&field, &array, row);
            let oid = PgType::of_field(&field).oid;
            assert_eq!(&read_binary(&bytes, oid, ty, 1).expect("binary"), value, "{ty} from binary");
        }
        assert_eq!(text(&field, &array, values.len()), "NULL");
        assert!(binary(&field, &array, values.len()).is_empty());
    }
}

#[test]
fn cut_and_lengthened_binary_parameters_are_errors_or_values() {
    for (ty, values) in values() {
        let field = ty.field("c", true);
        let array = array_of(ty, &values).expect("an array");
        let oid = PgType::of_field(&field).oid;
        for row in 0..values.len() {
            let whole = binary(&field, &array, row);
            let fixed = PgType::of_oid(oid).size > 0;
            for length in 0..whole.len() {
                let read = read_binary(&whole[..length], oid, ty, 1);
                assert!(!fixed || read.is_err(), "{ty} cut at {length}");
            }
            let longer = [whole.as_slice(), &[0]].concat();
            assert!(!fixed || read_binary(&longer, oid, ty, 1).is_err(), "{ty} lengthened");
        }
    }
}

#[test]
fn wrong_parameters_have_postgres_sqlstates() {
    let state = |result: keyspan_model::Result<Value>| result.expect_err("no value").sqlstate();
    assert_eq!(state(read_text(b"x", ColumnType::Int, &UTC)), "22P02");
    assert_eq!(state(read_text(b"\xff", ColumnType::Text, &UTC)), "22021");
    assert_eq!(state(read_text(b"a\0b", ColumnType::Text, &UTC)), "22021");
    assert_eq!(state(read_text(b"99999999999", ColumnType::Int, &UTC)), "22003");
    assert_eq!(state(read_binary(&[1, 2], 23, ColumnType::Int, 1)), "22P03");
    assert_eq!(state(read_binary(&(i64::MAX - 1).to_be_bytes(), 1184, ColumnType::Timestamp, 1)), "22008");
    assert_eq!(state(read_binary(&[9], 3802, ColumnType::Jsonb, 1)), "22P03");
    assert_eq!(state(read_binary(b"\x01{", 3802, ColumnType::Jsonb, 1)), "22P02");
    assert_eq!(state(read_binary(&[0; 8], 600, ColumnType::Text, 1)), "0A000");
}

#[test]
fn a_declared_type_is_cast_to_the_wanted_one() {
    assert_eq!(read_binary(&7_i64.to_be_bytes(), 20, ColumnType::Int, 1), Ok(Value::Int(7)));
    assert_eq!(read_binary(&7_i16.to_be_bytes(), 21, ColumnType::TinyInt, 1), Ok(Value::TinyInt(7)));
    let large = read_binary(&i64::MAX.to_be_bytes(), 20, ColumnType::Int, 1).expect_err("too large");
    assert_eq!(large.sqlstate(), "22003");
}

#[test]
fn instants_are_shown_in_the_sessions_zone() {
    let zone = Zone::parse("Asia/Kolkata").expect("a zone");
    let array = array_of(ColumnType::Timestamp, &[Value::Timestamp(1_706_176_800_000_000)]).expect("an array");
    let column = WireColumn::new(&ColumnType::Timestamp.field("c", true), &array, TextStyle { zone, ..TextStyle::UTC })
        .expect("a column");
    let mut out = BytesMut::new();
    column.put_text(0, &mut out).expect("text");
    assert_eq!(&out[..], b"2024-01-25 15:30:00+05:30");
    let read = read_text(b"2024-01-25 15:30", ColumnType::Timestamp, &zone);
    assert_eq!(read, Ok(Value::Timestamp(1_706_176_800_000_000)));
}

#[test]
fn arrow_types_beyond_ours_are_widened() {
    let show = |array: ArrayRef| text(&Field::new("c", array.data_type().clone(), true), &array, 0);
    assert_eq!(show(Arc::new(UInt64Array::from(vec![u64::MAX]))), "18446744073709551615");
    assert_eq!(show(Arc::new(TimestampNanosecondArray::from(vec![-1]))), "1969-12-31 23:59:59.999999");
    assert_eq!(show(Arc::new(DurationMillisecondArray::from(vec![3_600_500]))), "01:00:00.5");
    let words: arrow::array::DictionaryArray<Int32Type> = vec!["a", "b"].into_iter().collect();
    assert_eq!(show(Arc::new(words)), "a");
    assert_eq!(show(arrow::array::new_null_array(&DataType::Null, 1)), "NULL");
}

fn list() -> ArrayRef {
    let rows = vec![Some(vec![Some(1), None, Some(3)]), Some(vec![]), None];
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

#[test]
fn lists_are_arrays() {
    let array = list();
    let field = Field::new("c", array.data_type().clone(), true);
    assert_eq!(PgType::of_field(&field).oid, 1007);
    assert_eq!(text(&field, &array, 0), "{1,NULL,3}");
    assert_eq!(text(&field, &array, 1), "{}");
    assert_eq!(text(&field, &array, 2), "NULL");
    let expected: Vec<i32> = vec![1, 1, 23, 3, 1, 4, 1, -1, 4, 3];
    let expected: Vec<u8> = expected.into_iter().flat_map(i32::to_be_bytes).collect();
    assert_eq!(binary(&field, &array, 0), expected);
    assert_eq!(binary(&field, &array, 1), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23]);
}

#[test]
fn array_elements_are_quoted_as_postgres_quotes_them() {
    let items = StringArray::from(vec!["plain", "", "NULL", "a b", "c\"d\\e", "{x}"]);
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([6]);
    let array: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(items), None));
    let field = Field::new("c", array.data_type().clone(), true);
    assert_eq!(text(&field, &array, 0), r#"{plain,"","NULL","a b","c\"d\\e","{x}"}"#);
}

#[test]
fn lists_of_lists_are_arrays_of_two_dimensions() {
    let nested = |lengths: [usize; 2]| -> ArrayRef {
        let numbers = Int32Array::from_iter_values(1..=lengths.iter().sum::<usize>() as i32);
        let number = Arc::new(Field::new("item", DataType::Int32, true));
        let inner = ListArray::new(number, arrow::buffer::OffsetBuffer::from_lengths(lengths), Arc::new(numbers), None);
        let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
        Arc::new(ListArray::new(item, arrow::buffer::OffsetBuffer::from_lengths([2]), Arc::new(inner), None))
    };
    let even = nested([2, 2]);
    let field = Field::new("c", even.data_type().clone(), true);
    assert_eq!(PgType::of_field(&field).oid, 1007);
    assert_eq!(text(&field, &even, 0), "{{1,2},{3,4}}");
    let expected: Vec<i32> = vec![2, 0, 23, 2, 1, 2, 1, 4, 1, 4, 2, 4, 3, 4, 4];
    assert_eq!(binary(&field, &even, 0), expected.into_iter().flat_map(i32::to_be_bytes).collect::<Vec<u8>>());
    let ragged = WireColumn::new(&field, &nested([1, 2]), TextStyle::UTC).expect("a column");
    assert!(ragged.put_binary_field(0, &mut BytesMut::new()).is_err());
}

#[test]
fn structs_and_maps_are_jsonb() {
    let number: ArrayRef = Arc::new(Int32Array::from(vec![Some(1)]));
    let word: ArrayRef = Arc::new(StringArray::from(vec![Some("say \"hi\"\n")]));
    let array: ArrayRef = Arc::new(StructArray::from(vec![
        (Arc::new(Field::new("n", DataType::Int32, true)), number),
        (Arc::new(Field::new("w", DataType::Utf8, true)), word),
    ]));
    let field = Field::new("c", array.data_type().clone(), true);
    assert_eq!(PgType::of_field(&field).oid, 3802);
    assert_eq!(text(&field, &array, 0), r#"{"n": 1, "w": "say \"hi\"\n"}"#);
    assert_eq!(binary(&field, &array, 0)[..2], [1, b'{']);

    let mut builder = MapBuilder::new(None, StringBuilder::new(), arrow::array::Float64Builder::new());
    builder.keys().append_value("a");
    builder.values().append_value(1.5);
    builder.keys().append_value("b");
    builder.values().append_null();
    builder.append(true).expect("an entry");
    let map: ArrayRef = Arc::new(builder.finish());
    let field = Field::new("c", map.data_type().clone(), true);
    assert_eq!(text(&field, &map, 0), r#"{"a": 1.5, "b": null}"#);
}

#[test]
fn catalog_types_have_their_own_oids() {
    let named =
        |name: &str, ty: DataType| Field::new("c", ty, true).with_metadata([(TYPE_KEY.into(), name.into())].into());
    let oid = named("oid", DataType::Int64);
    let array: ArrayRef = Arc::new(Int64Array::from(vec![4_294_967_295]));
    assert_eq!(PgType::of_field(&oid).oid, 26);
    assert_eq!(binary(&oid, &array, 0), [255; 4]);
    let vector = named("int2vector", list().data_type().clone());
    assert_eq!(PgType::of_field(&vector).oid, 22);
    assert_eq!(text(&vector, &list(), 0), "1 NULL 3");
    let decimal = ColumnType::Decimal { precision: 10, scale: 2 }.field("c", true);
    assert_eq!(PgType::of_field(&decimal).modifier, ((10 << 16) | 2) + 4);
}
