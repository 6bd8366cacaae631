//! Files of users into tables: the types and keys of new tables, bad values, and what is left after a failure.

use std::fs;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeListBuilder, Float32Builder, Int32Array, Int64Builder, LargeListBuilder, RecordBatch,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel};
use parquet::file::properties::WriterProperties;

use crate::place::Place;
use crate::{Server, database, fails, keyspan, ok, text};

#[test]
fn times_with_a_zone_are_instants() {
    let zoned = ["2026-03-25T10:00:00+05:30", "2026-03-25T04:31:00Z"];
    for place in Place::both() {
        let csv = format!("at,local\n{},2026-03-25T10:00:00\n{},2026-03-25 10:01:00\n", zoned[0], zoned[1]);
        let line = |zoned: &str, local: &str| format!("{{\"at\": \"{zoned}\", \"local\": \"{local}\"}}\n");
        let ndjson = line(zoned[0], "2026-03-25T10:00:00") + &line(zoned[1], "2026-03-25 10:01:00");
        for (file, content) in [("x.csv", &csv), ("x.ndjson", &ndjson)] {
            place.create(file, content, &[]).unwrap();
            assert_eq!(place.types(), "at,timestamp with time zone;local,timestamp without time zone;", "{file}");
            let rows = "2026-03-25 04:30:00+00,2026-03-25 10:00:00\n2026-03-25 04:31:00+00,2026-03-25 10:01:00\n";
            assert_eq!(place.query("SELECT at, local FROM t ORDER BY at"), rows, "{file}");
            place.drop_table();
        }
        let (_, told) = place.create("mixed.csv", &format!("at\n{}\n2026-03-25 06:00:00\n", zoned[0]), &[]).unwrap();
        assert!(
            told.contains("line 3") && told.contains("2026-03-25 06:00:00") && told.contains("--type 'at=text'"),
            "{told}"
        );
        assert_eq!(place.query("SELECT at FROM t ORDER BY at"), "2026-03-25 04:30:00+00\n2026-03-25 06:00:00+00\n");
        place.drop_table();
        // Into a column of texts they go as they are.
        assert!(place.run(&["sql", "-c", "CREATE TABLE t (at text, local text, PRIMARY KEY (at))"]).status.success());
        place.import("x.ndjson", &ndjson, &[]).unwrap();
        assert_eq!(place.query("SELECT at FROM t ORDER BY at"), format!("{}\n{}\n", zoned[1], zoned[0]));
    }
}

#[test]
fn a_bad_value_is_told_and_nothing_is_left() {
    let rows = |bad: usize, value: &str| {
        let mut csv = "\"the key\",v\r\n".to_string();
        (0..100).for_each(|row| csv += &format!("{row},{}\r\n", if row == bad { value } else { "1.5" }));
        csv
    };
    for place in Place::both() {
        for bad in [0, 50, 99] {
            let error = place.create("x.csv", &rows(bad, "n/a"), &[]).unwrap_err();
            let line = format!("x.csv: line {}, column \"v\": \"n/a\" is not of type double precision", bad + 2);
            assert!(error.contains(&line) && error.contains("--type 'v=text'"), "{error}");
            assert_eq!(place.types(), "");
        }
        place.create("x.csv", &rows(50, "n/a"), &["--type", "v=text", "--key", "\"the key\""]).unwrap();
        assert_eq!(place.types(), "the key,bigint;v,text;");
        assert_eq!(place.query("SELECT v FROM t WHERE \"the key\" IN (50, 51) ORDER BY \"the key\""), "n/a\n1.5\n");
        let error = place.create("x.csv", &rows(50, ""), &[]).unwrap_err();
        assert!(error.contains("already exists"), "{error}");
        assert_eq!(place.query("SELECT count(*) FROM t"), "100\n", "a table that was there stays");
        place.drop_table();
        let ndjson = "{\"v\": 1}\n{\"v\": 2}\n\n{\"v\": \"x\"}\n{\"v\": 3}\n";
        let error = place.create("x.ndjson", ndjson, &[]).unwrap_err();
        assert!(error.contains("line 4, column \"v\": \"x\" is not of type bigint"), "{error}");
        let error = place.create("x.ndjson", ndjson, &["--type", "v=int"]).unwrap_err();
        assert!(error.contains("line 4, column \"v\": invalid input syntax for type integer: \"x\""), "{error}");
        assert!(place.create("x.ndjson", ndjson, &["--type", "w=int"]).unwrap_err().contains("no column \"w\""));
        assert!(
            place.create("x.ndjson", ndjson, &["--type", "v=foo"]).unwrap_err().contains("type \"foo\" does not exist")
        );
        assert!(place.create("x.ndjson", ndjson, &["--type", "v"]).unwrap_err().contains("COLUMN=TYPE"));
    }
}

#[test]
fn a_load_that_fails_later_leaves_no_table() {
    let (mut csv, filler) = ("k,v,filler\n".to_string(), "x".repeat(150));
    (0..100_500).for_each(|row| csv += &format!("{row},{},{filler}\n", if row == 100_400 { "late" } else { "1" }));
    for place in Place::both() {
        let error = place.create("x.csv", &csv, &["--key", "k"]).unwrap_err();
        assert!(error.contains("nothing was loaded") && error.contains("line 100402, column v: \"late\""), "{error}");
        assert!(error.contains("--type 'v=double' or --type 'v=text'") && !error.contains("NOTICE"), "{error}");
        assert_eq!(place.types(), "");
        place.create("x.csv", &csv, &["--key", "k", "--type", "v=text"]).unwrap();
        assert_eq!(place.query("SELECT count(*) FROM t"), "100500\n");
        place.drop_table();
        // In steps rows before stay; how many depends on the cores that parse.
        let error = place.create("x.csv", &csv, &["--key", "k", "--commit-rows", "1000"]).unwrap_err();
        match place.types().is_empty() {
            true => assert!(!error.contains("remain"), "{error}"),
            false => assert_ne!(place.query("SELECT count(*) FROM t"), "0\n", "{error}"),
        }
    }
}

#[test]
fn rows_that_overwrite_others_are_counted() {
    let mut csv = "Sensor ID,At,v\n".to_string();
    (0..1000).for_each(|row| csv += &format!("s{},T{},{row}\n", row % 50, row / 50));
    for place in Place::both() {
        let (out, told) = place.create("x.csv", &csv, &[]).unwrap();
        assert!(out.contains("1,000 rows") && !out.contains("overwrote"), "{out}");
        assert!(told.contains("--key '\"Sensor ID\", \"At\"'"), "{told}");
        place.drop_table();
        let (out, told) = place.create("x.csv", &csv, &["--key", "\"Sensor ID\""]).unwrap();
        assert!(out.contains("950 of them overwrote an earlier one with the same key, 50 remain"), "{out}");
        assert!(told.is_empty(), "{told}");
        let more = "Sensor ID,At,v\ns1,T99,1\nnew,T99,2\nnew,T99,3\n";
        let (out, _) = place.import("x.csv", more, &[]).unwrap();
        assert!(
            out.contains("2 of them overwrote one with the same key, of the table or of the file; 1 are new"),
            "{out}"
        );
        place.drop_table();
        let twice = "Sensor ID,At,v\ns1,T1,1\ns1,T1,1\n";
        assert!(place.create("x.csv", twice, &[]).unwrap().1.contains("No key is proposed"));
        place.drop_table();
    }
}

#[test]
fn files_as_programs_write_them() {
    for place in Place::both() {
        // A byte order mark, line ends of Windows, quotes around everything, a line end in a name and in a value.
        let csv = "\u{feff}\"the id\",\"a\r\nname\",\"v\",\"huge\"\r\n\
            \"1\",\"x\r\ny\",\"\",\"12345678901234567890\"\r\n\"2\",\"\",\"2.5\",\"\"\r\n";
        place.create("x.csv", csv, &["--key", "\"the id\""]).unwrap();
        assert_eq!(place.types(), "the id,bigint;\"a\r;name\",text;v,double precision;huge,numeric;");
        let rows = place.query("SELECT v, huge FROM t ORDER BY \"the id\"");
        assert_eq!(rows, ",12345678901234567890\n2.5,\n");
        let lost = place
            .create("bad.csv", &format!("{csv}\"3\",\"z\",\"?\",\"\"\r\n\"4\",\"z\",\"1\",\"\"\r\n"), &[])
            .unwrap_err();
        assert!(lost.contains("line 6, column \"v\": \"?\""), "{lost}");
        place.drop_table();
        let ndjson = "{\"id\": 18446744073709551615, \"j\": {\"a\": [1]}, \"m\": 1, \"n\": null}\n\
            {\"id\": 2, \"j\": [1, 2], \"m\": \"x\", \"z\": true}\n";
        place.create("x.ndjson", ndjson, &["--key", "id"]).unwrap();
        assert_eq!(place.types(), "id,numeric;j,json;m,text;n,text;z,boolean;");
        let rows = place.query("SELECT id, j, m, n, z FROM t ORDER BY id");
        assert_eq!(rows, "2,\"[1, 2]\",x,,t\n18446744073709551615,\"{\"\"a\"\": [1]}\",1,,\n");
        place.drop_table();
        place.create("x.csv", ",b\n0,x\n", &[]).unwrap();
        assert_eq!(place.types(), "column1,bigint;b,text;");
        place.drop_table();
        place.create("x.csv", "a,b\n", &[]).unwrap();
        assert_eq!(place.types(), "a,text;b,text;");
        place.drop_table();
        assert!(place.create("x.csv", "", &[]).unwrap_err().contains("the file has no columns"));
        assert!(place.create("x.ndjson", "\n", &[]).unwrap_err().contains("the file has no columns"));
        let error = place.create("x.ndjson", "{\"a\": 1}\n[1]\n", &[]).unwrap_err();
        assert!(error.contains("line 2 is not a JSON object"), "{error}");
        let error = place.create("x.csv", "a,b\n1,2\n3\n", &[]).unwrap_err();
        assert!(error.contains("line 3"), "{error}");
        assert_eq!(place.types(), "");
    }
}

#[test]
fn arrays_go_out_as_lists_and_in_again() {
    for place in Place::both() {
        let table = "CREATE TABLE t (k int PRIMARY KEY, words text[], numbers numeric[], items jsonb[])";
        assert!(place.run(&["sql", "-c", table]).status.success());
        let row = r#"{"k":1,"words":["a b","x\"y\\z","",null,"NULL"],"numbers":[1.10,null],"items":["{\"a\": [1]}"]}"#;
        let ndjson = format!("{row}\n{{\"k\": 2, \"words\": []}}\n{{\"k\": 3, \"words\": \"{{c,d}}\"}}\n");
        place.import("x.ndjson", &ndjson, &[]).unwrap();
        let rows = place.query("SELECT words[1], words[2], words[3], words[4] IS NULL, words[5], numbers, items[1] ->> 'a' FROM t WHERE k = 1");
        assert_eq!(rows, "a b,\"x\"\"y\\z\",\"\",t,NULL,\"{1.1000000000,NULL}\",[1]\n");
        assert_eq!(place.query("SELECT words FROM t WHERE k > 1 ORDER BY k"), "{}\n\"{c,d}\"\n");
        let all = place.query("SELECT * FROM t ORDER BY k");
        let exported = place.run(&["export", "t", "--format", "ndjson", "--to", "-"]);
        assert!(exported.status.success());
        assert!(place.run(&["sql", "-c", "TRUNCATE t"]).status.success());
        for more in [&[][..], &["--null", "none"]] {
            place.import("y.ndjson", &String::from_utf8_lossy(&exported.stdout), more).unwrap();
            assert_eq!(place.query("SELECT * FROM t ORDER BY k"), all);
        }
    }
}

#[test]
fn files_of_other_dialects_are_read() {
    let csv = "Sensor ID;at;v\nä;25.01.2024 10:00;1.234,5\n\"b;c\";26.01.2024 10:00;n/a\n";
    let more = [
        "--map",
        "Sensor ID=sensor",
        "--decimal-comma",
        "--null",
        "n/a",
        "--timestamp-format",
        "%d.%m.%Y %H:%M",
        "--key",
        "sensor, at",
    ];
    for place in Place::both() {
        place.create("x.csv", csv, &more).unwrap();
        assert_eq!(place.types(), "sensor,text;at,timestamp without time zone;v,double precision;");
        let rows = "ä,2024-01-25 10:00:00,1234.5\nb;c,2024-01-26 10:00:00,\n";
        assert_eq!(place.query("SELECT sensor, at, v FROM t ORDER BY at"), rows);
        place.drop_table();
        // Without a header columns are found by their places.
        assert!(place.run(&["sql", "-c", "CREATE TABLE t (a int PRIMARY KEY, b date, c text)"]).status.success());
        let bare = "1|03/04/2024|'x|''y'\n2||\n";
        let dialect = ["--delimiter", "|", "--quote", "'", "--header", "no", "--date-format", "%d/%m/%Y"];
        place.import("y.csv", bare, &dialect).unwrap();
        assert_eq!(place.query("SELECT * FROM t ORDER BY a"), "1,2024-04-03,x|'y\n2,,\n");
        let error = place.import("y.csv", "1|2024-04-03|x\n", &dialect).unwrap_err();
        assert!(error.contains("is not of the format \"%d/%m/%Y\"") && error.contains("line 1, column b"), "{error}");
        for (wrong, told) in [
            (["--map", "x=y"], "no column \"x\""),
            (["--date-format", "%Q"], "not a format of dates"),
            (["--timestamp-format", "%d.%m.%Y %I:%M"], "does not tell all of a date or a time"),
            (["--on-error", "maybe"], "stop, skip or reject FILE"),
        ] {
            assert!(place.import("z.csv", "a\n1\n", &wrong).unwrap_err().contains(told), "{wrong:?}");
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_skipped_or_rejected() {
    let csv = "k,v,at\n1,1.5,2024-01-25\n2,x,2024-01-25\n,3,2024-01-25\n4,4\n5,5,never\n6,6,2024-01-26\n";
    let ndjson = "{\"k\": 1, \"v\": 1.5}\n\nnonsense\n{\"k\": \"x\", \"v\": 2}\n{\"k\": 6, \"at\": \"2024-01-26\"}\n";
    for place in Place::both() {
        let table = "CREATE TABLE t (k int PRIMARY KEY, v double, at date)";
        assert!(place.run(&["sql", "-c", table]).status.success());
        assert!(place.import("x.csv", csv, &[]).is_err());
        assert_eq!(place.query("SELECT count(*) FROM t"), "0\n");
        let rejects = place.folder.path().join("rejects.csv");
        let (out, told) = place.import("x.csv", csv, &["--on-error", "reject", rejects.to_str().unwrap()]).unwrap();
        assert!(out.contains("2 rows") && out.contains("4 rows were left out, see "), "{out}");
        assert!(told.contains("x.csv, line 3, column v: invalid input syntax"), "{told}");
        assert_eq!(place.query("SELECT k, at FROM t ORDER BY k"), "1,2024-01-25\n6,2024-01-26\n");
        let written = fs::read_to_string(&rejects).unwrap();
        assert_eq!(written.lines().count(), 5, "{written}");
        for line in [",3,v,", ",4,k,", ",5,,", ",6,at,"] {
            assert!(written.contains(line), "{written}");
        }
        assert!(place.run(&["sql", "-c", "TRUNCATE t"]).status.success());
        let (out, told) = place.import("x.ndjson", ndjson, &["--on-error", "skip"]).unwrap();
        assert!(out.contains("2 rows") && told.contains("line 3: not a JSON object"), "{out}{told}");
        assert!(told.contains("line 4, column k"), "{told}");
        assert_eq!(place.query("SELECT k, v FROM t ORDER BY k"), "1,1.5\n6,\n");
        place.drop_table();
        let (out, _) = place.create("x.csv", csv, &["--on-error", "skip", "--key", "k"]).unwrap();
        assert!(out.contains("2 rows") && out.contains("4 rows were left out"), "{out}");
        assert_eq!(place.types(), "k,bigint;v,double precision;at,date;");
        place.drop_table();
        // What is there of earlier rejects goes only when an import begins.
        let written = fs::read(&rejects).unwrap();
        let reject = ["--on-error", "reject", rejects.to_str().unwrap()];
        place.create("x.csv", csv, &[&["--dry-run"], reject.as_slice()].concat()).unwrap();
        let file = place.folder.path().join("x.csv");
        let elsewhere = ["import", file.to_str().unwrap(), "--into", "t", "--url", "postgres://127.0.0.1:1"];
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_keyspan"));
        assert!(!program.args(elsewhere).args(reject).output().unwrap().status.success());
        assert_eq!(fs::read(&rejects).unwrap(), written);
        let itself = ["--on-error", "reject", file.to_str().unwrap()];
        assert!(place.create("x.csv", csv, &itself).unwrap_err().contains("is one of the files to import"));
        assert_eq!(fs::read_to_string(&file).unwrap(), csv);
    }
}

#[test]
fn several_and_compressed_files_are_one_import() {
    for place in Place::both() {
        let path = |name: &str| place.folder.path().join(name);
        let mut gzip = flate2::write::GzEncoder::new(fs::File::create(path("p1.csv.gz")).unwrap(), Default::default());
        gzip.write_all(b"k,v\n1,a\n").unwrap();
        gzip.finish().unwrap();
        fs::write(path("p2.csv.zst"), zstd::encode_all(b"k,v\n2,b\n".as_slice(), 0).unwrap()).unwrap();
        fs::write(path("p3.csv"), "k,v\n3,c").unwrap();
        let pattern = path("p*.csv*");
        let import = ["import", pattern.to_str().unwrap(), "--into", "t", "--create", "--key", "k"];
        let output = place.run(&import);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(place.query("SELECT * FROM t ORDER BY k"), "1,a\n2,b\n3,c\n");
        fs::write(path("p4.csv"), "k,w\n4,d\n").unwrap();
        let output = place.run(&["import", pattern.to_str().unwrap(), "--into", "t"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("p4.csv has other columns than"), "{error}");
        fs::write(path("p4.csv"), "k,v\nx,d\n").unwrap();
        let output = place.run(&["import", pattern.to_str().unwrap(), "--into", "t"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("p4.csv") && error.contains("line 2, column k"), "{error}");
        let piped = place.piped(&["import", "-", "--format", "csv", "--into", "t"], b"v,k\ne,5\n");
        assert!(piped.status.success(), "{}", String::from_utf8_lossy(&piped.stderr));
        assert_eq!(place.query("SELECT v FROM t WHERE k = 5"), "e\n");
        // Out again, in every format, and in once more.
        for file in ["t.csv.gz", "t.ndjson.zst", "t.parquet", "t.arrow", "t.tsv"] {
            let file = path(file);
            let output = place.run(&["export", "t", "--to", file.to_str().unwrap()]);
            assert!(output.status.success(), "{file:?} {}", String::from_utf8_lossy(&output.stderr));
            assert!(String::from_utf8_lossy(&output.stdout).contains(": 4 rows, "), "{file:?}");
            let import = ["import", file.to_str().unwrap(), "--into", "again", "--create", "--key", "k"];
            let output = place.run(&import);
            assert!(output.status.success(), "{file:?} {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(place.query("SELECT * FROM again ORDER BY k"), "1,a\n2,b\n3,c\n5,e\n", "{file:?}");
            assert!(place.run(&["sql", "-c", "DROP TABLE again"]).status.success());
        }
    }
}

#[test]
fn a_proposal_makes_nothing() {
    let place = Place::embedded();
    let csv = "sensor,at,v\ns1,2024-01-25 10:00:00,1\ns1,2024-01-25 10:01:00,2\ns2,2024-01-25 10:00:00,1\n";
    let (out, told) = place.create("x.csv", csv, &["--dry-run"]).unwrap();
    assert_eq!(out, "CREATE TABLE t (sensor text, at timestamp without time zone, v bigint);\n");
    assert!(told.contains("--key 'sensor, at'"), "{told}");
    assert_eq!(place.types(), "");
}

#[test]
fn numbers_of_json_keep_their_digits() {
    let ndjson = "{\"k\": 1, \"t\": 1.10, \"d\": 12345678901234567.89, \"j\": [1.0, 1e400]}\n\
        {\"k\": 2, \"t\": 2.50, \"d\": 0.10, \"j\": {}}\n";
    for place in Place::both() {
        let table = "CREATE TABLE t (k int PRIMARY KEY, t text, d decimal(20,2), j json)";
        for more in [["--on-error", "skip"].as_slice(), &[]] {
            assert!(place.run(&["sql", "-c", table]).status.success());
            place.import("x.ndjson", ndjson, more).unwrap();
            let rows = "1,1.10,12345678901234567.89,\"[1.0, 1e400]\"\n2,2.50,0.10,{}\n";
            assert_eq!(place.query("SELECT * FROM t ORDER BY k"), rows, "{more:?}");
            place.drop_table();
        }
        let huge = "{\"k\": 123456789012345678901234567890, \"v\": 1.50}\n{\"k\": 2, \"v\": 2}\n";
        place.create("x.ndjson", huge, &["--type", "v=text"]).unwrap();
        assert_eq!(place.types(), "k,numeric;v,text;");
        assert_eq!(place.query("SELECT * FROM t ORDER BY k DESC"), "123456789012345678901234567890,1.50\n2,2\n");
        place.drop_table();
    }
}

#[test]
fn times_without_a_zone_are_in_the_sessions() {
    let mut place = Place::served();
    place.arguments[1] += "?options=-c%20timezone%3DAsia/Kolkata";
    let more = ["--type", "at=timestamptz", "--key", "at"];
    let ways: [&[&str]; 3] = [&[], &["--on-error", "skip"], &["--timestamp-format", "%d.%m.%Y %H:%M"]];
    for (way, text) in ways.into_iter().zip(["2024-01-25 10:00", "2024-01-25 10:00", "25.01.2024 10:00"]) {
        place.create("x.csv", &format!("at\n{text}\n"), &[more.as_slice(), way].concat()).unwrap();
        assert_eq!(place.query("SELECT at FROM t"), "2024-01-25 10:00:00+05:30\n", "{way:?}");
        place.drop_table();
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let place = Place::embedded();
    let path = |name: &str| place.folder.path().join(name).display().to_string();
    let error = |arguments: &[&str]| {
        let output = place.run(&[&["import", "--into", "t"], arguments].concat());
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    fs::write(path("a.csv"), "k\n1\n").unwrap();
    let told = error(&[&path("a.csv"), &path("b.csv")]);
    assert!(told.starts_with(&format!("ERROR:  {}: No such file", path("b.csv"))), "{told}");
    let told = error(&[]);
    assert!(told.contains("no file is named") && told.contains("HINT:"), "{told}");
    fs::write(path("a.ndjson"), "{\"k\": 1}\n").unwrap();
    let told = error(&[&path("a.ndjson"), "--delimiter", ";"]);
    assert!(told.contains("are for CSV"), "{told}");
}

#[test]
fn an_export_that_ends_early_leaves_nothing() {
    for place in Place::both() {
        let path = |name: &str| place.folder.path().join(name).display().to_string();
        fs::create_dir_all(path("x.csv/full")).unwrap();
        assert!(!place.run(&["export", "--query", "SELECT 1 AS a", "--to", &path("x.csv")]).status.success());
        assert!(!place.folder.path().join("x.csv.partial").exists());
        for (file, more) in [("x.parquet", ["--null", "NA"]), ("x.ndjson", ["--delimiter", ";"])] {
            let output =
                place.run(&[["export", "--query", "SELECT 1 AS a", "--to", &path(file)].as_slice(), &more].concat());
            assert!(String::from_utf8_lossy(&output.stderr).contains("for CSV"), "{file}");
        }
        let query = "SELECT a.x FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y)";
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_keyspan"));
        program.args(["export", "--query", query, "--to", &path("long.csv")]).args(&place.arguments);
        let mut child = program.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let partial = place.folder.path().join("long.csv.partial");
        while fs::metadata(&partial).map_or(0, |file| file.len()) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert!(!partial.exists() && !place.folder.path().join("long.csv").exists());
    }
}

/// Writes a Parquet file as pandas, Polars and the like do: lists with ends of 64 bits, lists of one length.
fn parquet_of_lists(file: &str, compression: Compression) {
    let keys = Int32Array::from(vec![1, 2]);
    let mut lists = LargeListBuilder::new(Int64Builder::new());
    lists.append_value([Some(1), Some(2)]);
    lists.append_null();
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for pair in [[0.5, 1.0], [2.0, 4.0]] {
        vectors.values().append_slice(&pair);
        vectors.append(true);
    }
    let columns: [(&str, ArrayRef); 3] =
        [("k", Arc::new(keys)), ("l", Arc::new(lists.finish())), ("v", Arc::new(vectors.finish()))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(fs::File::create(file).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_of_other_programs_is_read() {
    let (_folder, root, data) = database();
    let compressions = [
        ("gzip", Compression::GZIP(GzipLevel::default())),
        ("brotli", Compression::BROTLI(BrotliLevel::default())),
        ("plain", Compression::UNCOMPRESSED),
    ];
    for (name, compression) in compressions {
        let file = format!("{root}/{name}.parquet");
        parquet_of_lists(&file, compression);
        ok(&["import", &file, "--data", &data, "--into", name, "--create", "--key", "k"]);
        ok(&[
            "sql",
            "--data",
            &data,
            "-c",
            &format!("CREATE TABLE own_{name} (k int PRIMARY KEY, l int[], v vector<float, 2>)"),
        ]);
        ok(&["import", &file, "--data", &data, "--into", &format!("own_{name}")]);
        for table in [name.to_owned(), format!("own_{name}")] {
            let query = format!("SELECT k, l, v::text AS v FROM {table} ORDER BY k");
            let told = ok(&["sql", "--data", &data, "--format", "csv", "-c", &query]);
            assert_eq!(told, "k,l,v\n1,\"{1,2}\",\"[0.5, 1]\"\n2,,\"[2, 4]\"\n", "{table}");
        }
    }
}

#[test]
fn what_gives_no_rows_is_not_exported() {
    let (_folder, root, data) = database();
    let file = format!("{root}/out.csv");
    let error = fails(&["export", "--query", "DELETE FROM t", "--data", &data, "--to", &file]);
    assert!(error.contains("--query gives no rows"), "{error}");
    assert_eq!(ok(&["sql", "--data", &data, "--format", "csv", "-c", "SELECT count(*) AS n FROM t"]), "n\n2\n");
    ok(&["export", "--query", "DELETE FROM t WHERE k = 2 RETURNING k", "--data", &data, "--to", &file]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "k\n2\n");
}

#[test]
fn a_copy_that_fails_leaves_the_connection_whole() {
    let (_folder, root, data) = database();
    let file = format!("{root}/one.csv");
    fs::write(&file, "7,x\n").unwrap();
    let (_server, url) = Server::start(&data);
    let script = format!(
        "\\set ON_ERROR_STOP off\n\\copy missing from '{file}' csv\n\\copy t (k, nothing) from '{file}' csv\nCREATE ROLE writer;\nGRANT INSERT ON t TO writer;\nSET ROLE writer;\n\\copy t (k, v) from '{file}' csv\nRESET ROLE;\nSELECT v FROM t WHERE k = 7;\n"
    );
    let path = format!("{root}/script.sql");
    fs::write(&path, script).unwrap();
    let output = keyspan(&["sql", "--url", &url, "--format", "csv", "-f", &path]);
    let told = text(&output.stdout);
    assert!(told.contains("v\nx\n"), "{told}{}", text(&output.stderr));
}

#[test]
fn texts_that_are_too_long_for_their_columns_do_not_fit() {
    let csv = "k,v,c\n1,abc,xy\n2,abcd,xy\n3,ab  ,x \n4,a,xyz\n";
    for place in Place::both() {
        let table = "CREATE TABLE t (k int PRIMARY KEY, v varchar(3), c char(2))";
        assert!(place.run(&["sql", "-c", table]).status.success());
        let error = place.import("x.csv", csv, &[]).unwrap_err();
        assert!(error.contains("line 3") && error.contains("value too long for type"), "{error}");
        let (out, told) = place.import("x.csv", csv, &["--on-error", "skip"]).unwrap();
        assert!(out.contains("2 rows") && told.contains("line 3, column v: value too long for type"), "{out}{told}");
        assert_eq!(place.query("SELECT k, v FROM t ORDER BY k"), "1,abc\n3,ab \n");
        assert!(place.run(&["sql", "-c", "TRUNCATE t"]).status.success());
        let copy = format!("COPY t FROM STDIN WITH (FORMAT csv, HEADER, ON_ERROR ignore);\n{csv}\\.\n");
        assert!(place.piped(&["sql"], copy.as_bytes()).status.success());
        assert_eq!(place.query("SELECT k, v FROM t ORDER BY k"), "1,abc\n3,ab \n");
    }
}

#[test]
fn a_check_of_a_column_that_a_file_lacks_holds_for_new_rows() {
    for place in Place::both() {
        let table = "CREATE TABLE t (a int, b int CHECK (b > 0), CHECK (a + coalesce(b, 0) < 10))";
        assert!(place.run(&["sql", "-c", table]).status.success());
        place.import("x.csv", "a\n1\n2\n", &[]).unwrap();
        assert!(place.import("x.csv", "a\n1\n20\n", &[]).unwrap_err().contains("violates check constraint"));
        assert_eq!(place.query("SELECT a, b FROM t ORDER BY a"), "1,\n2,\n");
        place.drop_table();
        // Of a row that is there the other column would have to be read.
        let table = "CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b > 0))";
        assert!(place.run(&["sql", "-c", table]).status.success());
        let error = place.import("x.csv", "a\n1\n", &[]).unwrap_err();
        assert!(error.contains("is not written") && error.contains("write_semantics = 'postgres'"), "{error}");
        place.drop_table();
    }
}

/// A pipe, a device and a link stay what they are, and what comes out of a pipe is read once.
#[test]
fn what_is_no_file_on_a_disk_is_read_and_written_too() {
    let (folder, data, _) = database();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |command: &str| {
        let program = env!("CARGO_BIN_EXE_keyspan");
        let output = std::process::Command::new("bash").args(["-c", &command.replace("KEYSPAN", program)]).output();
        let output = output.expect("bash");
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let rows = "(echo a,b; seq 1 60000 | sed 's/$/,x/')";
    run(&format!("KEYSPAN import <({rows}) --data {data} --into piped --create --format csv --key a"));
    run(&format!("KEYSPAN import <({rows} | gzip) --data {data} --into piped --format csv"));
    run(&format!(
        "printf '{{\"a\":0,\"b\":\"y\"}}' | KEYSPAN import /dev/stdin --data {data} --into piped --format ndjson"
    ));
    let count = ok(&["sql", "--data", &data, "-At", "-c", "SELECT count(*), max(a) FROM piped"]);
    assert_eq!(count.trim(), "60001|60000");
    fs::write(path("real.csv"), "old").expect("written");
    std::os::unix::fs::symlink(path("real.csv"), path("link.csv")).expect("a link");
    ok(&["export", "piped", "--data", &data, "--to", &path("link.csv")]);
    assert!(fs::symlink_metadata(path("link.csv")).expect("is there").is_symlink());
    assert!(fs::read_to_string(path("real.csv")).expect("is there").starts_with("a,b\n0,y\n"));
    let lines = run(&format!(
        "mkfifo {0} && (wc -l < {0} & KEYSPAN export piped --data {data} --to {0} --format csv; wait)",
        path("pipe")
    ));
    assert_eq!(lines.trim(), "60002");
    // What nobody reads is no failure of the work that it tells of.
    run(&format!("set -o pipefail; KEYSPAN check --data {data} > /dev/full"));
}

#[test]
fn values_of_files_keep_what_they_are() {
    let (folder, data, _) = database();
    let file = folder.path().join("x.parquet").display().to_string();
    let mut hashes = arrow::array::FixedSizeBinaryBuilder::new(2);
    hashes.append_value(b"ab").expect("two bytes");
    hashes.append_null();
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int32Array::from(vec![1, 2]))), ("hash", Arc::new(hashes.finish()))];
    write_parquet(&file, RecordBatch::try_from_iter(columns).expect("a batch"));
    ok(&["import", &file, "--data", &data, "--into", "hashes", "--create", "--key", "id"]);
    let rows = ok(&["sql", "--data", &data, "-At", "-c", "SELECT id, hash, pg_typeof(hash) FROM hashes"]);
    assert_eq!(rows, "1|\\x6162|bytea\n2||bytea\n");
    let days = arrow::array::IntervalDayTimeArray::from(vec![arrow::datatypes::IntervalDayTime::new(1, 2)]);
    write_parquet(&file, RecordBatch::try_from_iter([("span", Arc::new(days) as ArrayRef)]).expect("a batch"));
    let error = fails(&["import", &file, "--data", &data, "--into", "spans", "--create"]);
    assert!(error.contains("\"span\" is an INTERVAL"), "{error}");
    // JSON keeps its text, on one line.
    ok(&["sql", "--data", &data, "-c", "CREATE TABLE j (k int PRIMARY KEY, v json)"]);
    ok(&["sql", "--data", &data, "-c", "INSERT INTO j VALUES (1, E'{\\n\"a\":\\r\\n1}')"]);
    let file = folder.path().join("j.ndjson").display().to_string();
    ok(&["export", "j", "--data", &data, "--to", &file]);
    assert_eq!(fs::read_to_string(&file).expect("is there").lines().count(), 1);
    ok(&["import", &file, "--data", &data, "--into", "j"]);
    fs::write(&file, "\u{feff}{\"k\":2,\"v\":\"a\\u0000b\"}\n").expect("written");
    let error = fails(&["import", &file, "--data", &data, "--into", "zero", "--create"]);
    assert!(error.contains("0x00") && error.contains("\"v\""), "{error}");
    for (arguments, told) in [
        (["--key", "k)); DROP TABLE j; --"], "is no list of columns"),
        (["--timestamp-format", "%d.%m.%Y %H:%M %Z"], "names of zones are not read"),
    ] {
        let error =
            fails(&[&["import", &file, "--data", &data, "--into", "n", "--create"][..], &arguments[..]].concat());
        assert!(error.contains(told), "{error}");
    }
    let rejects = folder.path().join("rejects.csv");
    fs::write(&rejects, "precious").expect("written");
    let rejects = rejects.display().to_string();
    fails(&["import", &file, "--data", &data, "--into", "nowhere", "--on-error", "reject", &rejects]);
    assert_eq!(fs::read_to_string(&rejects).expect("is there"), "precious");
    let error = fails(&["sql", "--data", &data, "-c", "SELECT 1; /* open"]);
    assert!(error.contains("unterminated /* comment"), "{error}");
    let error = fails(&["demo", "--fresh", "--no-serve", "--data", &data]);
    assert!(error.contains("not those of the demo"), "{error}");
    assert_eq!(ok(&["sql", "--data", &data, "-At", "-c", "SELECT count(*) FROM hashes"]).trim(), "2");
}

fn write_parquet(path: &str, batch: RecordBatch) {
    let file = fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
}
