//! Statements prepared once and run again after everything around them has changed.

use super::{open, rows, rows_of, run};
use crate::{Session, Value};

async fn table(s: &mut Session) {
    run(s, "CREATE TABLE m (host text, ts timestamptz, v double, PRIMARY KEY (host, ts))").await;
    run(s, "INSERT INTO m VALUES ('a', '2024-01-01 00:00+00', 1), ('a', '2024-01-01 23:30+00', 2)").await;
    run(s, "INSERT INTO m VALUES ('b', '2024-01-02 00:00+00', 3)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_execution_sees_its_own_rows() {
    let (_database, mut s) = open();
    table(&mut s).await;
    run(&mut s, "PREPARE all_rows AS SELECT count(*) FROM m").await;
    run(&mut s, "PREPARE of_host AS SELECT count(*), max(v) FROM m WHERE host = $1").await;
    for round in 0..3 {
        assert_eq!(rows(&mut s, "EXECUTE all_rows").await, [(3 + round).to_string()]);
        assert_eq!(rows(&mut s, "EXECUTE of_host('a')").await, [format!("{} 2", 2 + round)]);
        assert_eq!(rows(&mut s, "EXECUTE of_host('none')").await, ["0 NULL"]);
        run(&mut s, &format!("INSERT INTO m VALUES ('a', '2024-02-0{}', 0)", round + 1)).await;
    }
    run(&mut s, "BEGIN").await;
    run(&mut s, "DELETE FROM m WHERE host = 'a'").await;
    assert_eq!(rows(&mut s, "EXECUTE of_host('a')").await, ["0 NULL"]);
    assert_eq!(rows(&mut s, "EXECUTE all_rows").await, ["1"]);
    run(&mut s, "ROLLBACK").await;
    assert_eq!(rows(&mut s, "EXECUTE of_host('a')").await, ["5 2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_tables_zones_and_paths_are_other_plans() {
    let (_database, mut s) = open();
    table(&mut s).await;
    run(&mut s, "PREPARE days AS SELECT date_trunc('day', ts) = ts, v FROM m WHERE host = $1 ORDER BY ts").await;
    run(&mut s, "PREPARE since AS SELECT v FROM m WHERE host = 'a' AND ts >= $1::text::timestamptz ORDER BY ts").await;
    for _ in 0..2 {
        assert_eq!(rows(&mut s, "EXECUTE days('a')").await, ["t 1", "f 2"]);
        assert_eq!(rows(&mut s, "EXECUTE since('2024-01-01 23:00')").await, ["2"]);
    }
    run(&mut s, "SET TIME ZONE 'Asia/Kolkata'").await;
    for _ in 0..2 {
        assert_eq!(rows(&mut s, "EXECUTE days('a')").await, ["f 1", "f 2"]);
        assert_eq!(rows(&mut s, "EXECUTE since('2024-01-02 05:00')").await, ["2"]);
        assert_eq!(rows(&mut s, "EXECUTE since('2024-01-02 05:01')").await, Vec::<String>::new());
    }
    run(&mut s, "ALTER TABLE m ADD w int; TRUNCATE m").await;
    assert_eq!(rows(&mut s, "EXECUTE days('a')").await, Vec::<String>::new());
    run(
        &mut s,
        "CREATE SCHEMA other; CREATE TABLE other.m (host text, ts timestamptz, v double, PRIMARY KEY (host, ts))",
    )
    .await;
    run(&mut s, "INSERT INTO other.m VALUES ('a', '2024-01-01 00:00+05:30', 9); SET search_path = other").await;
    assert_eq!(rows(&mut s, "EXECUTE days('a')").await, ["t 9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_s_own_table_is_not_taken_for_another() {
    let (_database, mut s) = open();
    table(&mut s).await;
    let sql = "SELECT max(v) FROM m WHERE host = 'b'";
    assert_eq!(rows(&mut s, sql).await, ["3"]);
    run(&mut s, "BEGIN; DROP TABLE m; CREATE TABLE m (host text, ts timestamptz, v double, PRIMARY KEY (host, ts))")
        .await;
    assert_eq!(rows(&mut s, sql).await, ["NULL"]);
    run(&mut s, "ROLLBACK").await;
    assert_eq!(rows(&mut s, sql).await, ["3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_of_other_types_are_cast_to_those_of_the_statement() {
    let (_database, mut s) = open();
    table(&mut s).await;
    let parsed = s.parse("SELECT count(*) FROM m WHERE v >= $1 AND host < $2").expect("parses").remove(0);
    let prepared = s.prepare(&parsed, &[]).await.expect("prepares");
    for (value, expected) in
        [(Value::Int(2), 1), (Value::Text("1.5".into()), 1), (Value::Double(0.0), 2), (Value::Null, 0)]
    {
        let outcome = s.run(&prepared, &[value, Value::Text("b".into())]).await.expect("runs");
        let batches = outcome.rows.expect("rows").collect().await.expect("rows");
        let count =
            keyspan_model::array::value_at(batches[0].column(0), 0, crate::ColumnType::BigInt).expect("a value");
        assert_eq!(count, Value::BigInt(expected));
    }
}

#[tokio::test]
async fn an_array_names_many_keys() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int, c text, v int, PRIMARY KEY (k, c))").await;
    run(&mut s, "INSERT INTO t SELECT n, 'a', n * 10 FROM generate_series(1, 500) AS g(n)").await;
    let select = s.parse("SELECT k FROM t WHERE k = ANY($1) AND c = 'a'").expect("parses").remove(0);
    let select = s.prepare(&select, &[]).await.expect("prepares");
    let delete = s.parse("DELETE FROM t WHERE c = 'a' AND k = ANY($1)").expect("parses").remove(0);
    let delete = s.prepare(&delete, &[]).await.expect("prepares");
    let array = |keys: &[i32]| Value::List(keys.iter().map(|key| Value::Int(*key)).collect());
    let before = database.counters().planned_statements;
    for (given, expected) in [
        (array(&[7, 400, -1, 7]), vec![7, 400]),
        (Value::List(vec![Value::Null, Value::Int(3)]), vec![3]),
        (array(&[]), vec![]),
        (Value::Null, vec![]),
        (array(&(1..=500).collect::<Vec<_>>()), (1..=500).collect()),
    ] {
        let found = rows_of(s.run(&select, &[given]).await.expect("runs")).await.expect("rows");
        assert_eq!(found, expected.iter().map(i32::to_string).collect::<Vec<_>>());
    }
    s.run(&delete, &[array(&[1, 2, 3, 999])]).await.expect("runs");
    assert_eq!(database.counters().planned_statements, before);
    assert_eq!(rows(&mut s, "SELECT count(*), min(k) FROM t").await, ["497 4"]);
    assert_eq!(rows(&mut s, "SELECT v FROM t WHERE k = ANY(ARRAY[5, 4]) AND c = ANY(ARRAY['a'])").await, ["40", "50"]);
    assert_eq!(rows(&mut s, "SELECT v FROM t WHERE k = ANY('{5,4}') AND c = 'a' ORDER BY v").await, ["40", "50"]);
}

#[tokio::test]
async fn parameters_are_parts_of_many_keys() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int, c text, v int, PRIMARY KEY (k, c))").await;
    run(&mut s, "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)").await;
    for sql in [
        "SELECT v FROM t WHERE k IN ($1, $2) AND c IN ('a', 'b')",
        "SELECT v FROM t WHERE (c, k) IN (('a', $1), ('b', $2))",
    ] {
        let parsed = s.parse(sql).expect("parses").remove(0);
        let prepared = s.prepare(&parsed, &[]).await.expect("prepares");
        for (one, other, expected) in [
            (Value::Int(1), Value::Int(2), vec!["1", "2"]),
            (Value::Int(3), Value::Int(2), vec!["2"]),
            (Value::Int(1), Value::Null, vec!["1"]),
            (Value::Null, Value::Null, vec![]),
        ] {
            let found = rows_of(s.run(&prepared, &[one, other]).await.expect("runs")).await.expect("rows");
            assert_eq!(found, expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn a_driver_s_statements_and_those_of_prepare_share_their_names() {
    let (_database, mut s) = open();
    table(&mut s).await;
    let parsed = s.parse("SELECT count(*) FROM m WHERE host = $1").expect("parses").remove(0);
    let prepared = s.prepare(&parsed, &[]).await.expect("prepares");
    s.share_statement("d", &parsed.text, &[25], Some(&prepared)).expect("a free name");
    assert_eq!(rows(&mut s, "EXECUTE d('a')").await, ["2"]);
    assert_eq!(s.execute("PREPARE d AS SELECT 1").await.expect_err("taken").sqlstate(), "42P05");
    run(&mut s, "PREPARE p AS SELECT max(v) FROM m WHERE host = $1").await;
    assert_eq!(s.share_statement("p", "SELECT 1", &[], None).expect_err("taken").sqlstate(), "42P05");
    let named = s.named_statement("p").expect("prepared").clone();
    assert_eq!(rows_of(s.run(&named, &[Value::Text("b".into())]).await.expect("runs")).await.expect("rows"), ["3"]);
    let shown = "SELECT name, from_sql FROM pg_prepared_statements ORDER BY name";
    assert_eq!(rows(&mut s, shown).await, ["d f", "p t"]);
    run(&mut s, "DEALLOCATE d").await;
    assert_eq!(s.execute("EXECUTE d('a')").await.expect_err("gone").sqlstate(), "26000");
    run(&mut s, "DEALLOCATE ALL").await;
    assert!(s.named_statement("p").is_none());
    assert_eq!(rows(&mut s, shown).await, Vec::<String>::new());
}
