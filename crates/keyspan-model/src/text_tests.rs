//! Tests of reading values from text: PostgreSQL's and CQL's forms, their errors, and the way back from `to_text`.

use proptest::prelude::*;

use super::*;

fn parse(text: &str, ty: ColumnType) -> Value {
    Value::parse(text, ty).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str, ty: ColumnType) -> (&'static str, String) {
    let error = Value::parse(text, ty).expect_err(text);
    (error.sqlstate(), error.message)
}

/// Microseconds of an instant in UTC.
fn instant(text: &str) -> i64 {
    match parse(text, ColumnType::Timestamp) {
        Value::Timestamp(micros) => micros,
        other => panic!("{other:?}"),
    }
}

#[test]
fn booleans() {
    for text in ["t", "TRUE", "tr", " yes ", "y", "on", "1"] {
        assert_eq!(parse(text, ColumnType::Boolean), Value::Boolean(true), "{text}");
    }
    for text in ["f", "false", "n", "no", "off", "of", "0"] {
        assert_eq!(parse(text, ColumnType::Boolean), Value::Boolean(false), "{text}");
    }
    for text in ["", "o", "2", "truth"] {
        assert_eq!(error(text, ColumnType::Boolean).0, "22P02", "{text}");
    }
}

#[test]
fn numbers_and_their_errors() {
    assert_eq!(parse(" -128 ", ColumnType::TinyInt), Value::TinyInt(-128));
    assert_eq!(parse("0x7f", ColumnType::SmallInt), Value::SmallInt(127));
    let range = error("70000", ColumnType::SmallInt);
    assert_eq!(range, ("22003", "value \"70000\" is out of range for type smallint".into()));
    let junk = error("abc", ColumnType::Int);
    assert_eq!(junk, ("22P02", "invalid input syntax for type integer: \"abc\"".into()));
    assert_eq!(error("1.0", ColumnType::BigInt).0, "22P02");
    let digits = "9".repeat(38);
    assert_eq!(parse(&digits, ColumnType::VarInt), Value::Decimal(10i128.pow(38) - 1, 0));
    assert_eq!(error(&format!("{digits}0"), ColumnType::VarInt).0, "22003");
    let money = ColumnType::Decimal { precision: 5, scale: 2 };
    assert_eq!(parse("1.005", money), Value::Decimal(101, 2));
    assert_eq!(parse("-12e1", money), Value::Decimal(-12000, 2));
    let overflow = Value::parse("999.995", money).expect_err("too large");
    assert_eq!(overflow.message, "numeric field overflow");
    assert!(overflow.detail.is_some_and(|detail| detail.contains("less than 10^3")));
    assert_eq!(error("NaN", money).0, "22003");
    assert_eq!(parse("1e3", ColumnType::Double), Value::Double(1000.0));
    assert_eq!(parse("-Infinity", ColumnType::Double), Value::Double(f64::NEG_INFINITY));
    assert!(matches!(parse("nan", ColumnType::Real), Value::Real(value) if value.is_nan()));
    assert_eq!(error("1e400", ColumnType::Double).1, "\"1e400\" is out of range for type double precision");
    assert_eq!(error("1e-400", ColumnType::Double).0, "22003");
    assert_eq!(error("1e39", ColumnType::Real).0, "22003");
    assert_eq!(error("", ColumnType::Double).1, "invalid input syntax for type double precision: \"\"");
}

#[test]
fn uuids_blobs_and_addresses() {
    let expected = Value::Uuid(Uuid::from_u128(0xa0eebc99_9c0b_4ef8_bb6d_6bb9bd380a11));
    for text in [
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
    ] {
        assert_eq!(parse(text, ColumnType::Uuid), expected, "{text}");
    }
    for text in ["", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0e-ebc999c0b4ef8bb6d6bb9bd380a11", "{a0eebc99"] {
        assert_eq!(error(text, ColumnType::Uuid).0, "22P02", "{text}");
    }
    assert_eq!(error("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", ColumnType::TimeUuid).0, "22P02");
    assert_eq!(parse("\\xDE ad", ColumnType::Blob), Value::Blob(vec![0xde, 0xad]));
    assert_eq!(parse("0xdead", ColumnType::Blob), Value::Blob(vec![0xde, 0xad]));
    assert_eq!(parse("a\\\\\\000é", ColumnType::Blob), Value::Blob(b"a\\\0\xc3\xa9".to_vec()));
    assert_eq!(error("\\xabc", ColumnType::Blob).1, "invalid hexadecimal data: odd number of digits");
    assert_eq!(error("0xzz", ColumnType::Blob).0, "22023");
    assert_eq!(error("a\\9", ColumnType::Blob).0, "22P02");
    assert_eq!(parse("10.0.0.1/32", ColumnType::Inet), parse("10.0.0.1", ColumnType::Inet));
    assert_eq!(parse("::1", ColumnType::Inet).to_text(ColumnType::Inet), "::1");
    assert_eq!(error("10.0.0.0/8", ColumnType::Inet).0, "22P02");
    assert_eq!(error("{\"a\":", ColumnType::Json).0, "22P02");
    assert_eq!(error("é", ColumnType::Ascii).0, "22P02");
}

#[test]
fn dates_and_times() {
    assert_eq!(parse("1970-01-02", ColumnType::Date), Value::Date(1));
    assert_eq!(parse("20240229", ColumnType::Date), parse("2024-02-29 23:59:59+14", ColumnType::Date));
    assert_eq!(parse("epoch", ColumnType::Date), Value::Date(0));
    for text in ["12024-01-25", "0044-03-15 BC", "0001-01-01", "4714-11-24 BC", "5874897-12-31"] {
        assert_eq!(parse(text, ColumnType::Date).to_text(ColumnType::Date), text);
    }
    for text in ["2023-02-29", "2024-13-01", "2024-00-01", "0000-01-01", "4715-01-01 BC", "99999999999999999999-01-01"]
    {
        assert_eq!(error(text, ColumnType::Date).0, "22008", "{text}");
    }
    for text in ["", "abc", "24-01-25", "25/01/2024", "2024-1", "2024-01-25 10:00 é", "é024-01-01"] {
        assert_eq!(error(text, ColumnType::Date).0, "22007", "{text}");
    }
    assert_eq!(error("2024-01-25 BCE", ColumnType::Date).0, "22023");
    assert_eq!(error("+infinity", ColumnType::Date).0, "22007");
    assert_eq!(parse("04:05", ColumnType::Time), Value::Time(14_700_000_000));
    assert_eq!(parse("04:05:06.7891239 PM", ColumnType::Time), Value::Time(57_906_789_124));
    assert_eq!(parse("040506", ColumnType::Time), parse("04:05:06+02", ColumnType::Time));
    assert_eq!(error("24:00:00", ColumnType::Time).0, "22008");
    assert_eq!(error("13:05 PM", ColumnType::Time).0, "22008");
    assert_eq!(error("4", ColumnType::Time).0, "22007");
}

#[test]
fn instants_in_all_their_forms() {
    let ten = 1_706_176_800_000_000;
    for text in [
        "2024-01-25 10:00:00",
        "2024-01-25T10:00:00Z",
        "2024-01-25 10:00",
        "2024-01-25 10:00:00+00",
        "2024-01-25 15:30:00+05:30",
        "2024-01-25 15:30:00 +0530",
        "2024-01-25T02:00:00.000-0800",
        "2024-01-25 10:00:00 UTC",
        "20240125T100000Z",
        "2024-01-25 10:00:00.0000004",
    ] {
        assert_eq!(instant(text), ten, "{text}");
    }
    assert_eq!(instant("2024-01-25 09:59:59.9999999"), ten);
    assert_eq!(instant("2024-01-25 24:00:00"), instant("2024-01-26"));
    assert_eq!(instant("2024-01-25+0000"), instant("2024-01-25"));
    let local = parse("2024-01-25 10:00:00+05:30", ColumnType::LocalTimestamp);
    assert_eq!(local, Value::Timestamp(ten));
    assert_eq!(error("2024-01-25 10:00 Mars/Olympus", ColumnType::Timestamp).0, "22023");
    assert_eq!(error("2024-01-25 25:00", ColumnType::Timestamp).0, "22008");
    assert_eq!(error("294248-01-01", ColumnType::Timestamp).0, "22008");
    let junk = error("abc", ColumnType::Timestamp);
    assert_eq!(junk, ("22007", "invalid input syntax for type timestamp with time zone: \"abc\"".into()));
    let berlin = |zone: Option<&str>, _: i64| Ok(if zone.is_none() { 3600 } else { 7200 });
    let zoned = |text| Value::parse_zoned(text, ColumnType::Timestamp, &berlin);
    assert_eq!(zoned("2024-01-25 11:00"), Ok(Value::Timestamp(ten)));
    assert_eq!(zoned("2024-01-25 12:00 Europe/Helsinki"), Ok(Value::Timestamp(ten)));
    assert_eq!(zoned("2024-01-25 10:00Z"), Ok(Value::Timestamp(ten)));
    assert_eq!(Value::timestamp_from_millis(1), Ok(Value::Timestamp(1000)));
    assert!(Value::timestamp_from_millis(i64::MAX).is_err());
}

#[test]
fn long_junk_is_cut_in_messages() {
    assert!(error(&"é".repeat(100_000), ColumnType::Int).1.len() < 1000);
}

fn types() -> Vec<ColumnType> {
    use ColumnType as T;
    vec![
        T::Boolean,
        T::TinyInt,
        T::SmallInt,
        T::Int,
        T::BigInt,
        T::VarInt,
        T::Real,
        T::Double,
        T::Text,
        T::Ascii,
        T::Blob,
        T::Uuid,
        T::TimeUuid,
        T::Date,
        T::Time,
        T::Timestamp,
        T::LocalTimestamp,
        T::Duration,
        T::Inet,
        T::Json,
        T::Decimal { precision: 10, scale: 2 },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_value_or_an_error(text in "[-+ 0-9.:/TtZzeEPpxBCymdhsago\\\\{}µé\"]{0,24}") {
        for ty in types() {
            if let Ok(value) = Value::parse(&text, ty) {
                let again = Value::parse(&value.to_text(ty), ty);
                prop_assert!(again.as_ref().is_ok_and(|again| again.compare(&value).is_eq()), "{} {:?} {:?}", ty, value, again);
            }
        }
    }

    #[test]
    fn printed_values_read_back(double in any::<f64>(), real in any::<f32>(), micros in -210_866_803_200_000_000i64..i64::MAX, duration in any::<(i32, i32, i64)>()) {
        let values = [
            (ColumnType::Double, Value::Double(double).canonical()),
            (ColumnType::Real, Value::Real(real).canonical()),
            (ColumnType::Timestamp, Value::Timestamp(micros)),
            (ColumnType::LocalTimestamp, Value::Timestamp(micros)),
            (ColumnType::Duration, Value::Duration(duration.0, duration.1, duration.2)),
        ];
        for (ty, value) in values {
            let text = value.to_text(ty);
            prop_assert_eq!(Value::parse(&text, ty).expect(&text).compare(&value), std::cmp::Ordering::Equal, "{}", text);
        }
    }
}
