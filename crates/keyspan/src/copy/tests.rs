//! What PostgreSQL's COPY accepts, refuses and writes.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int32Type;
use keyspan_cql::{CopyFormat, CopyHeader, CopyOptions, CopyVerbosity};
use keyspan_model::{ColumnType, Error, Result, Value, value_at};

use super::{CopyEncoder, CopyParser, Reading};
use crate::text::TextStyle;

fn csv() -> CopyOptions {
    CopyOptions { format: CopyFormat::Csv, ..CopyOptions::default() }
}

fn columns(types: &[ColumnType]) -> Vec<(String, ColumnType)> {
    let names = "abcdefghijklmnopqrstuvwxyz".chars();
    types.iter().zip(names).map(|(ty, name)| (name.to_string(), *ty)).collect()
}

/// The input in pieces of every length give the same rows, read at once or on several threads.
fn parse(types: &[ColumnType], options: &CopyOptions, input: &[u8]) -> Result<Vec<Vec<Value>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let lengths = [1, 2, 7, input.len().max(1)];
    let cut = [None, Some(1), Some(5), Some(20)];
    let given = lengths.iter().flat_map(|length| cut.iter().map(move |cut| (*length, *cut)));
    let mut results = given.map(|(length, cut)| runtime.block_on(pieces(types, options, input, length, cut)));
    let first = results.next().expect("sixteen results");
    results.for_each(|other| assert_eq!(other, first));
    first
}

async fn pieces(
    types: &[ColumnType],
    options: &CopyOptions,
    input: &[u8],
    length: usize,
    cut: Option<usize>,
) -> Result<Vec<Vec<Value>>> {
    let mut parser = CopyParser::new("t", &columns(types), options, "UTC")?;
    if let Some(cut) = cut {
        parser = parser.with_pieces_of(cut);
    }
    let mut batches = Vec::new();
    for piece in input.chunks(length) {
        batches.extend(parser.push(piece).await?);
    }
    batches.extend(parser.finish().await?);
    let all = concat_batches(parser.schema(), &batches)?;
    let row = |row: usize| types.iter().zip(all.columns()).map(|(ty, array)| value_at(array, row, *ty)).collect();
    (0..all.num_rows()).map(row).collect()
}

fn texts(options: &CopyOptions, width: usize, input: &str) -> Vec<Vec<Option<String>>> {
    let rows = parse(&vec![ColumnType::Text; width], options, input.as_bytes()).expect("rows");
    let text = |value: Value| match value {
        Value::Text(text) => Some(text),
        _ => None,
    };
    rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

fn refused(types: &[ColumnType], options: &CopyOptions, input: &str) -> (String, String, String) {
    let Error { kind, message, detail, .. } = parse(types, options, input.as_bytes()).expect_err("an error");
    (kind.sqlstate().to_string(), message, detail.unwrap_or_default())
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some(text.to_string())).collect()
}

#[test]
fn text_resolves_escapes() {
    let input = "a\\tb\\\\\t\\N\nx\\\ny\t\\x41\\102\\q\n\\\\N\t\\.x\n";
    let error = refused(&[ColumnType::Text; 2], &CopyOptions::default(), input);
    assert_eq!((error.0.as_str(), error.1.as_str()), ("22P04", "end-of-copy marker is not alone on its line"));
    let input = "a\\tb\\\\\t\\N\nx\\\ny\t\\x41\\102\\q\n\\\\N\t\n\\.\nafter\n";
    let rows = texts(&CopyOptions::default(), 2, input);
    assert_eq!(rows[0], [Some("a\tb\\".to_string()), None]);
    assert_eq!(rows[1], some(&["x\ny", "ABq"]));
    assert_eq!(rows[2], some(&["\\N", ""]));
    assert_eq!(rows.len(), 3);
}

#[test]
fn csv_quotes_nulls_and_line_ends() {
    let rows = texts(&csv(), 2, "a,\"b \"\"c\"\"\nd\"\r\n,\"\"\r\n\"x\"y,z");
    assert_eq!(rows[0], some(&["a", "b \"c\"\nd"]));
    assert_eq!(rows[1], [None, Some(String::new())]);
    assert_eq!(rows[2], some(&["xy", "z"]));
    let options = CopyOptions { escape: Some('\\'), delimiter: Some('|'), null: Some("NULL".into()), ..csv() };
    assert_eq!(texts(&options, 2, "\"a\\\"b\\\\\"|NULL\n"), [[Some("a\"b\\".to_string()), None]]);
    let forced = CopyOptions { force_null: vec!["b".into()], force_not_null: vec!["a".into()], ..csv() };
    assert_eq!(texts(&forced, 2, ",\"\"\n"), [[Some(String::new()), None]]);
}

#[test]
fn headers_are_skipped_or_matched() {
    let skip = CopyOptions { header: CopyHeader::Present, ..csv() };
    assert_eq!(texts(&skip, 1, "anything\nx\n"), [some(&["x"])]);
    let matched = CopyOptions { header: CopyHeader::Match, ..csv() };
    assert_eq!(texts(&matched, 2, "a,b\nx,y\n"), [some(&["x", "y"])]);
    let error = refused(&[ColumnType::Text; 2], &matched, "a,c\nx,y\n");
    assert_eq!(error.1, "column name mismatch in header line field 2: got \"c\", expected \"b\"");
}

#[test]
fn errors_say_where() {
    let types = [ColumnType::Int, ColumnType::Text];
    let error = refused(&types, &csv(), "1,x\n2,\"a\nb\"\nabc,y\n");
    assert_eq!(error.0, "22P02");
    assert_eq!(error.1, "invalid input syntax for type integer: \"abc\"");
    assert_eq!(error.2, "COPY t, line 4, column a: \"abc\"");
    let error = refused(&types, &csv(), "1\n");
    assert_eq!((error.1.as_str(), error.2.as_str()), ("missing data for column \"b\"", "COPY t, line 1: \"1\""));
    assert_eq!(refused(&types, &csv(), "1,2,3\n").1, "extra data after last expected column");
    assert_eq!(refused(&types, &csv(), "1,\"2\n").1, "unterminated CSV quoted field");
    assert_eq!(refused(&types, &csv(), "1,a\r\n2,b\n").1, "unquoted newline found in data");
    assert_eq!(refused(&types, &CopyOptions::default(), "1\ta\n2\tb\r").1, "literal carriage return found in data");
    assert_eq!(parse(&types, &csv(), b"1,\xff\n").expect_err("not UTF-8").sqlstate(), "22021");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let binary = CopyOptions { format: CopyFormat::Binary, ..CopyOptions::default() };
    let wrong = [
        (CopyOptions { header: CopyHeader::Present, ..binary }, "42601"),
        (CopyOptions { delimiter: Some('a'), ..CopyOptions::default() }, "22023"),
        (CopyOptions { delimiter: Some('"'), ..csv() }, "22023"),
        (CopyOptions { quote: Some('\''), ..CopyOptions::default() }, "0A000"),
        (CopyOptions { encoding: Some("latin1".into()), ..csv() }, "0A000"),
        (CopyOptions { force_null: vec!["z".into()], ..csv() }, "42P10"),
    ];
    for (options, state) in wrong {
        let error = CopyParser::new("t", &columns(&[ColumnType::Int]), &options, "UTC").expect_err("refused");
        assert_eq!(error.sqlstate(), state, "{error}");
    }
}

fn samples() -> (Vec<ColumnType>, Vec<&'static str>) {
    let pairs = [
        (ColumnType::Boolean, "t"),
        (ColumnType::TinyInt, "-7"),
        (ColumnType::SmallInt, "300"),
        (ColumnType::Int, "-70000"),
        (ColumnType::BigInt, "9223372036854775807"),
        (ColumnType::VarInt, "-123456789012345678901234567890"),
        (ColumnType::Real, "1.5"),
        (ColumnType::Double, "-1e-300"),
        (ColumnType::Decimal { precision: 12, scale: 3 }, "-10000.050"),
        (ColumnType::Decimal { precision: 12, scale: 6 }, "0.000012"),
        (ColumnType::Text, "a\tb\"c\\,ö"),
        (ColumnType::Blob, "\\x00ff"),
        (ColumnType::Uuid, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        (ColumnType::TimeUuid, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        (ColumnType::Date, "1999-12-31"),
        (ColumnType::Time, "10:00:00.25"),
        (ColumnType::Timestamp, "2024-01-25 10:00:00.000001+00"),
        (ColumnType::LocalTimestamp, "2024-01-25 10:00:00"),
        (ColumnType::Date, "infinity"),
        (ColumnType::Timestamp, "-infinity"),
        (ColumnType::LocalTimestamp, "infinity"),
        (ColumnType::Duration, "1 year 2 days 03:04:05"),
        (ColumnType::Inet, "2001:db8::1"),
        (ColumnType::Json, "{\"a\":  [1]}"),
        (ColumnType::Jsonb, "{\"a\": [1]}"),
    ];
    pairs.into_iter().unzip()
}

#[test]
fn what_is_written_is_read_back_in_every_format() {
    let (types, samples) = samples();
    let values: Vec<Value> =
        types.iter().zip(&samples).map(|(ty, text)| Value::parse(text, *ty).expect("a value")).collect();
    let names = columns(&types);
    let fields: Vec<_> = names.iter().map(|(name, ty)| ty.field(name, true)).collect();
    let schema = std::sync::Arc::new(arrow::datatypes::Schema::new(fields));
    let array = |(ty, value): (&ColumnType, &Value)| {
        keyspan_model::array_of(*ty, &[value.clone(), Value::Null]).expect("an array")
    };
    let batch = RecordBatch::try_new(schema.clone(), types.iter().zip(&values).map(array).collect()).expect("a batch");
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        let header = if format == CopyFormat::Binary { CopyHeader::None } else { CopyHeader::Present };
        let options = CopyOptions { format, header, ..CopyOptions::default() };
        let encoder =
            CopyEncoder::new(schema.clone(), &options, TextStyle::in_zone("Asia/Kolkata")).expect("an encoder");
        let mut bytes = bytes::BytesMut::new();
        encoder.begin(&mut bytes);
        encoder.rows(&batch, &mut bytes).expect("rows");
        encoder.end(&mut bytes);
        let rows = parse(&types, &options, &bytes).expect("rows");
        assert_eq!(rows, [values.clone(), vec![Value::Null; types.len()]], "{format:?}");
    }
}

#[tokio::test]
async fn batches_are_bounded_and_rows_in_order() {
    let input: String = (0..1_000_000).map(|n| format!("{n}\n")).collect();
    for cut in [1 << 16, 2 << 20, usize::MAX] {
        let parser = CopyParser::new("t", &columns(&[ColumnType::Int]), &csv(), "UTC").expect("a parser");
        let mut parser = parser.with_pieces_of(cut);
        let mut batches = parser.push(input.as_bytes()).await.expect("batches");
        batches.extend(parser.finish().await.expect("the rest"));
        assert!(batches.len() >= 3 && batches.iter().all(|batch| batch.num_rows() <= 65_536));
        let numbers = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values().to_vec());
        assert!(numbers.eq(0..1_000_000));
    }
}

#[tokio::test]
async fn of_errors_in_several_pieces_the_first_is_told() {
    let input: String = (0..1000).map(|n| format!("{n}\n")).collect();
    for wrong in ["x\n", "\"open\n", "1,2\n"] {
        let mut data = input.clone();
        data.push_str(wrong);
        data.extend((0..1000).map(|n| format!("{n}\ny\n")));
        let parser = CopyParser::new("t", &columns(&[ColumnType::Int]), &csv(), "UTC").expect("a parser");
        let mut parser = parser.with_pieces_of(64);
        let mut failed = None;
        for piece in data.as_bytes().chunks(100) {
            failed = failed.or(parser.push(piece).await.err());
        }
        let failed = failed.or(parser.finish().await.err()).expect("an error");
        let detail = failed.detail.expect("where");
        assert!(detail.starts_with("COPY t, line 1001"), "{wrong}: {detail}");
    }
}

#[test]
fn what_follows_the_end_marker_is_no_data() {
    let input: String = (0..100).map(|n| format!("{n}\n")).collect::<String>() + "\\.\nnot data\n";
    assert_eq!(parse(&[ColumnType::Int], &csv(), input.as_bytes()).expect("rows").len(), 100);
}

/// Binary data: the header, and what follows it.
fn binary(rest: &[u8]) -> Vec<u8> {
    [b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", rest].concat()
}

/// As PostgreSQL 15 answers to the same bytes.
#[test]
fn binary_data_ends_with_its_last_row_or_with_the_end_marker() {
    let options = CopyOptions { format: CopyFormat::Binary, ..CopyOptions::default() };
    let seven = [0, 1, 0, 0, 0, 4, 0, 0, 0, 7];
    for end in [&[][..], &[0xff, 0xff], &[0], &[0xff]] {
        let rows = parse(&[ColumnType::Int], &options, &binary(&[&seven[..], end].concat())).expect("rows");
        assert_eq!(rows, [[Value::Int(7)]], "{end:?}");
    }
    assert!(parse(&[ColumnType::Int], &options, &binary(&[])).expect("no rows").is_empty());
    let wrong: &[(Vec<u8>, &str)] = &[
        (binary(&seven[..9]), "unexpected EOF in COPY data"),
        (binary(&seven[..3]), "unexpected EOF in COPY data"),
        (binary(&[&seven[..], &[0xff, 0xff, 0]].concat()), "received copy data after EOF marker"),
        (binary(&[0xff, 0xfe]), "row field count is -2, expected 1"),
        (Vec::new(), "COPY file signature not recognized"),
        (binary(&[])[..10].to_vec(), "COPY file signature not recognized"),
        (binary(&[])[..14].to_vec(), "invalid COPY file header (missing flags)"),
        (binary(&[])[..18].to_vec(), "invalid COPY file header (missing length)"),
    ];
    for (bytes, message) in wrong {
        let error = parse(&[ColumnType::Int], &options, bytes).expect_err(message);
        assert_eq!((error.sqlstate(), error.message.as_str()), ("22P04", *message));
    }
}

/// The texts of column a that are kept, and what is said.
fn kept(options: &CopyOptions, input: &str, cut: Option<usize>) -> Result<(Vec<Value>, Vec<String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let types = columns(&[ColumnType::Int, ColumnType::Text]);
    runtime.block_on(async {
        let mut parser = CopyParser::new("t", &types, options, "UTC")?;
        if let Some(cut) = cut {
            parser = parser.with_pieces_of(cut);
        }
        let mut batches = parser.push(input.as_bytes()).await?;
        batches.extend(parser.finish().await?);
        let all = concat_batches(parser.schema(), &batches)?;
        let rows = (0..all.num_rows()).map(|row| value_at(all.column(0), row, ColumnType::Int));
        Ok((rows.collect::<Result<_>>()?, parser.take_notices().into_iter().map(|notice| notice.message).collect()))
    })
}

#[test]
fn rows_with_wrong_values_are_left_out_if_so_said() {
    let input = "1,a\nx,b\n3,\"c\nd\"\n99999999999,e\n5,f\n";
    for cut in [None, Some(1), Some(10)] {
        let ignore = CopyOptions { ignore_errors: true, ..csv() };
        let (rows, notices) = kept(&ignore, input, cut).expect("rows");
        assert_eq!(rows, [1, 3, 5].map(Value::Int));
        assert_eq!(notices, ["2 rows were skipped due to data type incompatibility"]);
        let verbose = CopyOptions { verbosity: CopyVerbosity::Verbose, ..ignore.clone() };
        let (_, notices) = kept(&verbose, input, cut).expect("rows");
        assert_eq!(notices[0], "skipping row due to data type incompatibility at line 2 for column \"a\": \"x\"");
        let limited = CopyOptions { reject_limit: Some(1), ..ignore.clone() };
        assert_eq!(kept(&limited, input, cut).expect_err("too many").sqlstate(), "22P02");
        // As in PostgreSQL the number of fields must be right.
        assert_eq!(kept(&ignore, "1,a\n2\n", cut).expect_err("a line").sqlstate(), "22P04");
    }
}

#[test]
fn an_import_gets_the_rows_that_are_left_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let types = columns(&[ColumnType::Int, ColumnType::Double]);
    let rejected = runtime.block_on(async {
        let reading = Reading { nulls: vec!["n/a".into()], decimal_comma: true, ..Reading::default() };
        let options = CopyOptions { delimiter: Some(';'), ..csv() };
        let parser = CopyParser::new("t", &types, &options, "UTC").expect("a parser");
        let mut parser = parser.read_as(reading).leave_out(&["a".to_string()]);
        let mut batches = parser.push(b"1;2,5\n2\nn/a;3\n3;n/a\n4;1.5\n").await.expect("batches");
        batches.extend(parser.finish().await.expect("batches"));
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 2);
        parser.take_rejected()
    });
    let told: Vec<(u64, &str, &[u8])> =
        rejected.iter().map(|row| (row.line, row.reason.as_str(), row.content.as_slice())).collect();
    assert_eq!(
        told,
        [
            (2, "missing data for column \"b\"", b"2".as_slice()),
            (3, "null value in column \"a\" violates not-null constraint", b"n/a;3"),
            (5, "\"1.5\" is not a number with a decimal comma", b"4;1.5"),
        ]
    );
}
