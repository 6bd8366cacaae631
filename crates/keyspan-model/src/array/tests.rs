//! Tests of values in and out of arrays, and that whole-array casts equal casts of single values.

use arrow::array::{
    Decimal256Array, DictionaryArray, Float64Array, Int64Array, LargeStringArray, StringArray, StringViewArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{Int32Type, i256};

use super::*;

const MONEY: ColumnType = ColumnType::Decimal { precision: 6, scale: 2 };

fn values(array: &ArrayRef, ty: ColumnType) -> Vec<Value> {
    (0..array.len()).map(|row| value_at(array.as_ref(), row, ty).expect("a value")).collect()
}

fn samples() -> Vec<(ColumnType, Vec<Value>)> {
    use ColumnType as T;
    let text = |text: &str| Value::Text(text.into());
    vec![
        (T::Boolean, vec![Value::Boolean(true), Value::Null]),
        (T::TinyInt, vec![Value::TinyInt(-1), Value::TinyInt(7)]),
        (T::SmallInt, vec![Value::SmallInt(-300), Value::Null]),
        (T::Int, vec![Value::Int(70_000), Value::Int(-1)]),
        (T::BigInt, vec![Value::BigInt(1 << 40), Value::BigInt(5)]),
        (T::VarInt, vec![Value::Decimal(10i128.pow(37), 0), Value::Decimal(-3, 0)]),
        (MONEY, vec![Value::Decimal(-12_345, 2), Value::Decimal(150, 2), Value::Decimal(250, 2), Value::Null]),
        (T::Decimal { precision: 20, scale: 5 }, vec![Value::Decimal(-1_500_000, 5), Value::Decimal(100_500, 5)]),
        (T::Real, vec![Value::Real(2.5), Value::Real(-0.5)]),
        (T::Double, vec![Value::Double(3.5), Value::Double(1e300), Value::Double(f64::INFINITY)]),
        (T::Text, vec![text("a text of more than twelve bytes"), text("42"), Value::Null]),
        (T::Ascii, vec![text("x")]),
        (T::Blob, vec![Value::Blob(vec![0, 255]), Value::Null]),
        (T::Uuid, vec![Value::Uuid(uuid::Uuid::from_u128(7))]),
        (T::Date, vec![Value::Date(-1), Value::Date(19_747)]),
        (T::Time, vec![Value::Time(1)]),
        (T::Timestamp, vec![Value::Timestamp(-1), Value::Null]),
        (T::LocalTimestamp, vec![Value::Timestamp(86_400_000_001)]),
        (T::Duration, vec![Value::Duration(1, 2, 3)]),
        (T::Inet, vec![Value::Inet("::1".parse().expect("an address"))]),
        (T::Json, vec![text("{\"a\":1}")]),
        (T::Jsonb, vec![text("{\"a\": 1}")]),
    ]
}

#[test]
fn values_survive_an_array_of_exactly_the_arrow_type() {
    for (ty, sample) in samples() {
        let array = array_of(ty, &sample).expect("an array");
        assert_eq!(*array.data_type(), ty.arrow());
        assert_eq!(values(&array, ty), sample);
        let repeated = constant(ty, &sample[0], 3).expect("an array");
        assert_eq!(*repeated.data_type(), ty.arrow());
        assert_eq!(values(&repeated, ty), vec![sample[0].clone(); 3]);
    }
}

#[test]
fn casting_an_array_equals_casting_its_values() {
    for (from, sample) in samples() {
        let array = array_of(from, &sample).expect("an array");
        for (to, _) in samples() {
            // An array of texts does not know its type, so that an inet's or a json's is read like any text.
            let text_only = matches!(from, ColumnType::Inet | ColumnType::Json | ColumnType::Jsonb | ColumnType::Ascii);
            let single: Result<Vec<Value>> = sample.iter().map(|value| value.clone().cast(to)).collect();
            match (coerce(&array, to), single) {
                (Ok(cast), Ok(single)) => {
                    assert_eq!(*cast.data_type(), to.arrow());
                    assert_eq!(values(&cast, to), single, "{from} to {to}");
                }
                (Err(a), Err(b)) if !text_only => {
                    assert_eq!(a.sqlstate(), b.sqlstate(), "{from} to {to}: {a} / {b}");
                }
                (Err(_), Err(_)) => {}
                (a, b) => assert!(text_only, "{from} to {to}: {a:?} / {b:?}"),
            }
        }
    }
}

#[test]
fn other_arrow_types_are_read() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("1.5"), None]));
    assert_eq!(values(&texts, MONEY), [Value::Decimal(150, 2), Value::Null]);
    assert_eq!(values(&coerce(&texts, MONEY).expect("decimals"), MONEY), [Value::Decimal(150, 2), Value::Null]);
    let dictionary: ArrayRef =
        Arc::new(vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect::<DictionaryArray<Int32Type>>());
    let plain = coerce(&dictionary, ColumnType::Text).expect("texts");
    assert_eq!(*plain.data_type(), ColumnType::Text.arrow());
    assert_eq!(values(&plain, ColumnType::Text), values(&dictionary, ColumnType::Text));
    assert_eq!(values(&plain, ColumnType::Text)[3], Value::Text("a".into()));
    let nanos: ArrayRef =
        Arc::new(TimestampNanosecondArray::from(vec![1_499, 1_500, -1_501]).with_timezone("Europe/Berlin"));
    let micros = coerce(&nanos, ColumnType::Timestamp).expect("timestamps");
    assert_eq!(values(&micros, ColumnType::Timestamp), [1, 2, -2].map(Value::Timestamp));
    let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    assert_eq!(coerce(&large, ColumnType::BigInt).expect_err("too large").sqlstate(), "22003");
    assert_eq!(values(&large, ColumnType::VarInt), [Value::Decimal(u64::MAX.into(), 0)]);
    let wide: ArrayRef = Arc::new(
        Decimal256Array::from(vec![i256::from_i128(12_345)]).with_precision_and_scale(76, 3).expect("decimals"),
    );
    assert_eq!(values(&coerce(&wide, MONEY).expect("decimals"), MONEY), [Value::Decimal(1235, 2)]);
    let json: ArrayRef = Arc::new(LargeStringArray::from(vec!["{"]));
    assert_eq!(coerce(&json, ColumnType::Json).expect_err("no json").sqlstate(), "22P02");
    assert!(value_at(&json, 1, ColumnType::Json).is_err());
}

#[test]
fn floats_are_copied_only_when_they_change() {
    let same: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
    assert!(Arc::ptr_eq(&same, &canonical_floats(&same)));
    let zero: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN]));
    let canonical = canonical_floats(&zero);
    let bits: Vec<u64> = canonical.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()).collect();
    assert_eq!(bits, [0, f64::NAN.to_bits()]);
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(Arc::ptr_eq(&longs, &canonical_floats(&longs)));
}

#[test]
fn a_slice_of_much_text_comes_without_the_rest() {
    let long = |n: usize| format!("{n:0>400}");
    let texts: ArrayRef = Arc::new((0..4000).map(|n| Some(long(n))).collect::<StringViewArray>());
    let held = |array: &ArrayRef| -> usize { array.as_string_view().data_buffers().iter().map(Buffer::len).sum() };
    assert!(Arc::ptr_eq(&texts, &compacted(&texts)));
    let few = texts.slice(2000, 10);
    assert!(held(&few) > 1 << 20);
    let own = compacted(&few);
    assert_eq!((&own, held(&own)), (&few, 4000));
    assert_eq!(own_bytes(&few), 10 * (16 + 400));
    let none = texts.slice(0, 0);
    assert_eq!(held(&compacted(&none)), 0);
}

#[test]
fn a_builder_takes_only_its_type() {
    let mut builder = ColumnBuilder::new(MONEY);
    assert_eq!(builder.append(&Value::Decimal(1, 3)).expect_err("another scale").sqlstate(), "42804");
    assert_eq!(builder.append(&Value::Int(1)).expect_err("an int").sqlstate(), "42804");
    assert!(builder.is_empty());
}

#[test]
fn ties_are_decided_by_cassandras_bytes() {
    let larger = |a: Value, b: Value| assert!(tie_bytes(&a) > tie_bytes(&b));
    larger(Value::Int(-1), Value::Int(1));
    larger(Value::Text("b".into()), Value::Text("aa".into()));
    larger(Value::Date(1), Value::Date(-1));
}
