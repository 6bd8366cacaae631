//! SELECT, scan, EXPLAIN, cursors.

use std::sync::Arc;

use super::{error, open, rows, run};
use crate::Value;

#[tokio::test]
async fn a_prefix_scan_is_the_same_as_a_span() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE v (plate text, n int, x int, PRIMARY KEY (plate, n))").await;
    run(&mut s, "INSERT INTO v VALUES ('STC', 22, 1), ('STC', 23, 2), ('T', 22, 3)").await;
    let sql = rows(&mut s, "EXPLAIN SELECT * FROM v WHERE plate = 'STC' AND n = 22 ORDER BY plate, n").await;
    let scan = rows(&mut s, "EXPLAIN SELECT * FROM v WHERE starts_with(row_key, 'STC#22#') ORDER BY plate, n").await;
    let spans = |plan: &[String]| {
        plan.iter().filter_map(|line| line.split("spans=").nth(1).map(str::to_string)).collect::<Vec<_>>()
    };
    assert_eq!(spans(&sql), spans(&scan), "{sql:?} {scan:?}");
    assert_eq!(rows(&mut s, "scan 'v', {ROWPREFIXFILTER => 'STC#'}").await, ["STC 22 1", "STC 23 2"]);
    assert_eq!(rows(&mut s, "scan 'v', {LIMIT => 1, REVERSED => true}").await, ["T 22 3"]);
}

#[tokio::test]
async fn parameters_are_described_and_cast() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v double)").await;
    let parsed = s.parse("INSERT INTO t (k, v) VALUES ($1, $2)").expect("parses").remove(0);
    let prepared = s.prepare(&parsed, &[]).await.expect("prepares");
    assert_eq!(prepared.parameters, [crate::ColumnType::Int, crate::ColumnType::Double]);
    s.run(&prepared, &[Value::BigInt(1), Value::Int(2)]).await.expect("runs");
    let found = s.query("SELECT v FROM t WHERE k = $1", &[Value::BigInt(1)]).await.expect("runs");
    assert_eq!(found.collect().await.expect("rows")[0].num_rows(), 1);
}

#[tokio::test]
async fn a_prepared_select_sees_later_rows_and_changed_tables() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut s, "PREPARE one AS SELECT v FROM t WHERE k = $1").await;
    run(&mut s, "INSERT INTO t VALUES (1, 7)").await;
    assert_eq!(rows(&mut s, "EXECUTE one(1)").await, ["7"]);
    run(&mut s, "ALTER TABLE t ADD w int").await;
    assert_eq!(rows(&mut s, "EXECUTE one(1)").await, ["7"]);
    assert_eq!(error(&mut s, "PREPARE one AS SELECT 1").await.sqlstate(), "42P05");
    run(&mut s, "DEALLOCATE one").await;
    assert_eq!(error(&mut s, "EXECUTE one(1)").await.sqlstate(), "26000");
}

#[tokio::test]
async fn a_prepared_statement_tells_that_its_columns_have_changed() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    let parsed = s.parse("SELECT * FROM t").expect("parses").remove(0);
    let prepared = s.prepare(&parsed, &[]).await.expect("prepares");
    s.check_columns(&prepared).await.expect("nothing has changed");
    run(&mut s, "CREATE TABLE other (k int PRIMARY KEY)").await;
    s.check_columns(&prepared).await.expect("its columns have not changed");
    run(&mut s, "ALTER TABLE t ADD v int").await;
    assert_eq!(s.check_columns(&prepared).await.expect_err("another column").sqlstate(), "0A000");
}

#[tokio::test]
async fn cursors_go_forward_and_with_scroll_back() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    run(&mut s, "INSERT INTO t VALUES (1), (2), (3), (4)").await;
    run(&mut s, "BEGIN").await;
    run(&mut s, "DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k").await;
    run(&mut s, "DECLARE d SCROLL CURSOR FOR SELECT k FROM t ORDER BY k").await;
    assert_eq!(rows(&mut s, "FETCH 2 FROM c").await, ["1", "2"]);
    assert_eq!(rows(&mut s, "FETCH ALL FROM c").await, ["3", "4"]);
    assert!(rows(&mut s, "FETCH NEXT FROM c").await.is_empty());
    assert_eq!(rows(&mut s, "FETCH LAST FROM d").await, ["4"]);
    assert_eq!(rows(&mut s, "FETCH PRIOR FROM d").await, ["3"]);
    assert_eq!(rows(&mut s, "FETCH BACKWARD ALL FROM d").await, ["2", "1"]);
    assert_eq!(rows(&mut s, "FETCH ALL FROM d").await, ["1", "2", "3", "4"]);
    assert_eq!(rows(&mut s, "FETCH PRIOR FROM d").await, ["4"]);
    // Past the end it stays behind the last row, however often it is asked for more.
    for past in ["FETCH ALL FROM d", "FETCH NEXT FROM d", "FETCH 5 FROM d"] {
        assert!(rows(&mut s, past).await.is_empty(), "{past}");
    }
    assert_eq!(rows(&mut s, "FETCH PRIOR FROM d").await, ["4"]);
    run(&mut s, "COMMIT").await;
    assert_eq!(error(&mut s, "FETCH 1 FROM c").await.sqlstate(), "34000");
}

#[tokio::test]
async fn cursors_are_shown_and_end_with_their_savepoint() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    run(&mut s, "INSERT INTO t VALUES (1), (2), (3)").await;
    run(&mut s, "BEGIN; DECLARE a SCROLL CURSOR FOR SELECT k FROM t ORDER BY k; SAVEPOINT s").await;
    run(&mut s, "DECLARE b CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k").await;
    let shown = "SELECT name, is_holdable, is_scrollable, statement LIKE 'DECLARE%' FROM pg_cursors ORDER BY name";
    assert_eq!(rows(&mut s, shown).await, ["a f t t", "b t f t"]);
    assert_eq!(rows(&mut s, "FETCH 2 FROM a").await, ["1", "2"]);
    run(&mut s, "ROLLBACK TO s").await;
    assert_eq!(rows(&mut s, shown).await, ["a f t t"]);
    assert_eq!(rows(&mut s, "FETCH 2 FROM a").await, ["3"], "it stands where it stood");
    run(&mut s, "DECLARE b CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k; RELEASE s; COMMIT").await;
    assert_eq!(rows(&mut s, shown).await, ["b t f t"]);
    assert_eq!(rows(&mut s, "FETCH 1 FROM b").await, ["1"]);
    run(&mut s, "CLOSE b").await;
    assert_eq!(rows(&mut s, shown).await, Vec::<String>::new());
}

#[tokio::test]
async fn explain_tells_of_writes_too() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    assert_eq!(rows(&mut s, "EXPLAIN SELECT v FROM t WHERE k = 1").await[0], "Point Read on t");
    let explained = rows(&mut s, "EXPLAIN SELECT v FROM t WHERE k IN (1, 2, 1)").await;
    assert_eq!(explained, ["Point Read on t", "  Keys: 2, no planner"]);
    assert_eq!(
        rows(&mut s, "EXPLAIN DELETE FROM t WHERE k = 1").await,
        ["Delete on t", "  Key: whole key, no planner"]
    );
    assert_eq!(rows(&mut s, "EXPLAIN UPDATE t SET v = 1 WHERE v = 2").await[1], "  Rows found by:");
}

#[tokio::test]
async fn the_guard_against_full_scans_is_cqls() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 2)").await;
    run(&mut s, "SET full_scan = 'error'").await;
    assert!(error(&mut s, "SELECT * FROM t WHERE v = 2").await.message.contains("use ALLOW FILTERING"));
    assert_eq!(rows(&mut s, "SELECT * FROM t WHERE v = 2 ALLOW FILTERING").await, ["1 2"]);
    assert_eq!(rows(&mut s, "SELECT * FROM t WHERE k = 1").await, ["1 2"]);
}

#[tokio::test]
async fn a_statement_has_one_snapshot_and_the_next_one_its_own() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE one (k int PRIMARY KEY)").await;
    let first = s.context.snapshot().expect("a snapshot");
    assert!(Arc::ptr_eq(&first, &s.context.snapshot().expect("the same")));
    run(&mut s, "INSERT INTO one VALUES (1)").await;
    let next = s.context.snapshot().expect("a snapshot");
    assert!(next.seq() > first.seq());
    run(&mut s, "CREATE TABLE other (k int PRIMARY KEY)").await;
    assert_eq!(rows(&mut s, "SELECT count(*) FROM other").await, ["0"]);
}

#[tokio::test]
async fn what_is_planned_and_run_at_once_tells_its_columns() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
    let before = database.counters().planned_statements;
    run(&mut s, "UPDATE t SET v = v + 1 WHERE v > 10").await;
    assert_eq!(database.counters().planned_statements, before + 1);
    let outcome = s.execute("COPY (SELECT v AS value FROM t WHERE v > 10) TO STDOUT").await.expect("COPY").remove(0);
    let rows_of_copy = outcome.rows.expect("rows");
    assert_eq!(rows_of_copy.schema().field(0).name(), "value");
    assert_eq!(error(&mut s, "COPY (SELECT nothing FROM t) TO STDOUT").await.sqlstate(), "42703");
    run(&mut s, "BEGIN").await;
    run(&mut s, "DECLARE c CURSOR FOR SELECT v FROM t ORDER BY v").await;
    assert_eq!(rows(&mut s, "FETCH ALL FROM c").await, ["10", "21"]);
}
