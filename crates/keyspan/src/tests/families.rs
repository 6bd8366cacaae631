//! Families and collections through COPY: what COPY TO writes COPY FROM reads, in each format.

use bytes::BytesMut;
use keyspan_cql::Statement;
use keyspan_model::ColumnType;

use super::{error, open, rows, run};
use crate::copy::{CopyEncoder, CopyParser};
use crate::text::TextStyle;
use crate::{Copy, Session};

const COLUMNS: &str = "(k int PRIMARY KEY, v text, m map<text, int>, s set<text>, l list<int>, f family<text, bigint>)";

fn copy_of(session: &mut Session, sql: &str) -> Copy {
    let Statement::Copy(copy) = session.parse(sql).expect("parses").remove(0).statement else { panic!("a COPY") };
    *copy
}

/// What `COPY … TO STDOUT` answers.
async fn copied_out(session: &mut Session, sql: &str) -> Vec<u8> {
    let copy = copy_of(session, sql);
    let outcome = session.execute(sql).await.expect("runs").pop().expect("a statement");
    let rows = outcome.rows.expect("rows");
    let encoder = CopyEncoder::new(rows.schema().clone(), &copy.options, TextStyle::UTC).expect("an encoder");
    let mut out = BytesMut::new();
    encoder.begin(&mut out);
    for batch in rows.collect().await.expect("rows") {
        encoder.rows(&batch, &mut out).expect("encodes");
    }
    encoder.end(&mut out);
    out.to_vec()
}

async fn copy_in(session: &mut Session, sql: &str, data: &[u8]) -> crate::Result<u64> {
    let copy = copy_of(session, sql);
    let mut target = session.copy_in(&copy)?;
    let fields = target.schema().fields().clone();
    let column = |field: &arrow::datatypes::FieldRef| {
        (field.name().clone(), ColumnType::of_field(field).unwrap_or(ColumnType::Text))
    };
    let columns: Vec<_> = fields.iter().map(column).collect();
    let mut parser = CopyParser::new("t", &columns, &copy.options, "UTC")?;
    let mut batches = parser.push(data).await?;
    batches.extend(parser.finish().await?);
    for batch in batches {
        target.push(session, &batch).await?;
    }
    target.finish(session).await
}

#[tokio::test]
async fn families_come_back_from_a_copy_in_each_format() {
    let (_database, mut s) = open();
    run(&mut s, &format!("CREATE TABLE t {COLUMNS}")).await;
    run(&mut s, "INSERT INTO t VALUES (1, 'a', {'x': 1, 'y, \"z\"': 2}, {'p', 'q r'}, [3, 1], {'big': 7000000000})")
        .await;
    run(&mut s, "INSERT INTO t (k, f) VALUES (2, {'\\tab': 1})").await;
    run(&mut s, "UPDATE t SET m['only'] = 1 WHERE k = 3").await;
    let expected = rows(&mut s, "SELECT * FROM t ORDER BY k").await;
    for (place, format) in ["text", "csv", "binary"].iter().enumerate() {
        let options = format!("WITH (FORMAT {format})");
        let data = copied_out(&mut s, &format!("COPY t TO STDOUT {options}")).await;
        run(&mut s, &format!("CREATE TABLE u{place} {COLUMNS}")).await;
        let written = copy_in(&mut s, &format!("COPY u{place} FROM STDIN {options}"), &data).await;
        assert_eq!(written.expect(format), 3);
        assert_eq!(rows(&mut s, &format!("SELECT * FROM u{place} ORDER BY k")).await, expected, "{format}");
        // Again, over what is there.
        run(&mut s, &format!("UPDATE u{place} SET m['more'] = 1, f['more'] = 1, s = s + {{'more'}} WHERE k = 1")).await;
        copy_in(&mut s, &format!("COPY u{place} FROM STDIN {options}"), &data).await.expect(format);
        assert_eq!(rows(&mut s, &format!("SELECT * FROM u{place} ORDER BY k")).await, expected, "{format}");
    }
}

#[tokio::test]
async fn a_copy_of_named_families_takes_the_last_row_of_each_key() {
    let (_database, mut s) = open();
    run(&mut s, &format!("CREATE TABLE t {COLUMNS}")).await;
    let data = b"1\t{\"a\": 1}\t{x}\n2\t\\N\t\\N\n1\t{\"b\": 2}\t{y,z}\n";
    assert_eq!(copy_in(&mut s, "COPY t (k, f, s) FROM STDIN", data).await.expect("rows"), 3);
    assert_eq!(rows(&mut s, "SELECT k, f, s FROM t ORDER BY k").await, ["1 {\"b\": 2} {y,z}", "2 NULL NULL"]);
    run(&mut s, "SET copy_commit_rows = 1").await;
    assert_eq!(copy_in(&mut s, "COPY t (k, f) FROM STDIN", b"1\t{\"c\": 3}\n").await.expect("rows"), 1);
    run(&mut s, "BEGIN").await;
    assert_eq!(copy_in(&mut s, "COPY t (k, m) FROM STDIN", b"1\t{\"in\": 1}\n").await.expect("rows"), 1);
    assert_eq!(rows(&mut s, "SELECT f, m FROM t WHERE k = 1").await, ["{\"c\": 3} {\"in\": 1}"]);
    run(&mut s, "COMMIT").await;
    assert_eq!(rows(&mut s, "SELECT f, m FROM t WHERE k = 1").await, ["{\"c\": 3} {\"in\": 1}"]);
    let failed = copy_in(&mut s, "COPY t (k, f) FROM STDIN", b"5\t{\"c\": \"x\"}\n").await.expect_err("no number");
    assert_eq!(failed.sqlstate(), "22P02");
    assert_eq!(error(&mut s, "SELECT f FROM t WHERE k = 5 / 0").await.sqlstate(), "22012");
    assert_eq!(rows(&mut s, "SELECT count(*) FROM t").await, ["2"]);
}

#[tokio::test]
async fn a_copy_of_families_is_refused_for_what_must_be_unique() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, email text UNIQUE, s set<text>)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 'a', {'x'})").await;
    for around in [["", ""], ["BEGIN", "ROLLBACK"], ["SET copy_commit_rows = 1", "RESET copy_commit_rows"]] {
        for data in [&b"2\ta\t{y}\n"[..], b"2\tb\t{y}\n3\tb\t{z}\n"] {
            run(&mut s, around[0]).await;
            let failed = copy_in(&mut s, "COPY t FROM STDIN", data).await.expect_err("refused");
            assert_eq!(failed.sqlstate(), "23505", "{around:?}");
            run(&mut s, around[1]).await;
            assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1 a {x}"], "{around:?}");
        }
    }
    assert_eq!(copy_in(&mut s, "COPY t FROM STDIN", b"1\ta\t{z}\n2\tb\t{y}\n").await.expect("rows"), 2);
    assert_eq!(rows(&mut s, "SELECT * FROM t ORDER BY k").await, ["1 a {z}", "2 b {y}"]);
    assert_eq!(error(&mut s, "INSERT INTO t (k, email) VALUES (3, 'b')").await.sqlstate(), "23505");
}

/// A load empties the families of the rows that had cells, and of no others, however the keys lie: a deletion for each of
/// those rows and families is left, none for a row that is new.
#[tokio::test]
async fn rows_that_had_cells_are_emptied_by_a_load() {
    let (database, mut session) = open();
    let deletions = || -> usize {
        let stats = database.stats().expect("stats");
        stats.relations.iter().map(|relation| relation.span_tombstones).sum()
    };
    let table = "CREATE TABLE t (a text, b int, f family<text, int> GC max_versions = 2, s set<text>, PRIMARY KEY (a, b)) \
                 WITH CLUSTERING ORDER BY (b DESC)";
    run(&mut session, table).await;
    let of = |value: &str, ids: &str| {
        format!(
            "INSERT INTO t (a, b, f, s) SELECT 'k' || i % 3, i, jsonb_build_object('{value}', i), array['{value}'] \
             FROM generate_series({ids}) AS g(i)"
        )
    };
    run(&mut session, &of("old", "0, 20000, 2")).await;
    assert_eq!(deletions(), 0);
    // Few keys among many, all keys of a range, keys behind all others; how many of them are even.
    for (ids, had) in [("101, 19000, 999", 9), ("300, 400", 51), ("20001, 20100", 0)] {
        let before = deletions();
        run(&mut session, &of("new", ids)).await;
        assert_eq!(deletions() - before, 2 * had, "{ids}");
        let left = format!(
            "SELECT count(*), count(f['old']), count(f['new']), bool_or('old' = ANY (s)), bool_and('new' = ANY (s)) \
             FROM t JOIN generate_series({ids}) AS g(i) ON b = i"
        );
        let all = rows(&mut session, &format!("SELECT count(*) FROM generate_series({ids})")).await.remove(0);
        assert_eq!(rows(&mut session, &left).await, [format!("{all} 0 {all} f t")], "{ids}");
    }
    let others = "SELECT count(*), count(f['old']) FROM t WHERE f['new'] IS NULL";
    let counts = rows(&mut session, others).await.remove(0);
    assert_eq!(counts.split(' ').collect::<std::collections::BTreeSet<_>>().len(), 1, "{counts}");
    // In a transaction, what it has written itself.
    run(&mut session, "BEGIN").await;
    run(&mut session, &of("own", "30000, 30010")).await;
    run(&mut session, &of("new", "30005, 30020")).await;
    run(&mut session, "COMMIT").await;
    let own = "SELECT count(f['own']), count(f['new']) FROM t WHERE b >= 30000";
    assert_eq!(rows(&mut session, own).await, ["5 16"]);
}
