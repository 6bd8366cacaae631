//! INSERT, UPDATE, DELETE.

use super::{error, open, rows, run, tag};

#[tokio::test]
async fn insert_is_an_upsert_and_leaves_other_columns_alone() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int, b text)").await;
    assert_eq!(tag(&mut s, "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')").await, "INSERT 0 2");
    run(&mut s, "INSERT INTO t (k, b) VALUES (1, 'z')").await;
    assert_eq!(rows(&mut s, "SELECT * FROM t ORDER BY k").await, ["1 10 z", "2 20 y"]);
}

#[tokio::test]
async fn of_one_key_twice_the_later_row_wins() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    run(&mut s, "INSERT INTO t VALUES (3, 1), (3, 0)").await;
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["3 0"]);
}

#[tokio::test]
async fn a_select_by_whole_key_needs_no_planner() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int, c text, v int, PRIMARY KEY (k, c))").await;
    run(&mut s, "INSERT INTO t VALUES (1, 'a', 7)").await;
    let before = database.counters();
    assert_eq!(rows(&mut s, "SELECT v, row_key FROM t WHERE c = 'a' AND k = 1").await, ["7 1#a"]);
    run(&mut s, "UPDATE t SET v = v + 1 WHERE k = 1 AND c = 'a'").await;
    run(&mut s, "DELETE FROM t WHERE k = 1 AND c = 'b'").await;
    assert_eq!(rows(&mut s, "SELECT v FROM t WHERE (c, k) IN (('a', 1), ('b', 1), ('a', 1))").await, ["8"]);
    assert_eq!(rows(&mut s, "SELECT k, v FROM t WHERE k IN (3, 1) AND c IN ('a', 'z')").await, ["1 8"]);
    let after = database.counters();
    assert_eq!(after.planned_statements, before.planned_statements);
    assert_eq!((after.point_reads, after.point_writes), (before.point_reads + 3, before.point_writes + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_come_in_key_order_each_once() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)").await;
    run(&mut s, "INSERT INTO t SELECT n / 10, n % 10, n FROM generate_series(0, 999) AS g(n)").await;
    let keys: Vec<String> = (0..1_500).rev().map(|n| format!("({}, {})", n % 10, n * 7 % 1_000 / 10)).collect();
    let found = rows(&mut s, &format!("SELECT k, c, v FROM t WHERE (c, k) IN ({})", keys.join(", "))).await;
    let mut expected: Vec<(i32, i32)> = (0..1_500).map(|n| (n * 7 % 1_000 / 10, -(n % 10))).collect();
    expected.sort();
    expected.dedup();
    let expected: Vec<String> = expected.iter().map(|(k, c)| format!("{k} {} {}", -c, k * 10 - c)).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn tags_count_what_happened() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (p text, c int, v int, PRIMARY KEY (p, c))").await;
    run(&mut s, "INSERT INTO t VALUES ('a', 1, 1), ('a', 2, 2), ('b', 1, 3)").await;
    assert_eq!(tag(&mut s, "UPDATE t SET v = 9 WHERE p = 'z' AND c = 1").await, "UPDATE 1");
    assert_eq!(tag(&mut s, "UPDATE t SET v = v + 1 WHERE p = 'none' AND c = 1").await, "UPDATE 0");
    assert_eq!(tag(&mut s, "UPDATE t SET v = v + 1 WHERE v > 2").await, "UPDATE 2");
    assert_eq!(tag(&mut s, "DELETE FROM t WHERE p = 'b' AND c = 1").await, "DELETE 1");
    assert_eq!(tag(&mut s, "DELETE FROM t WHERE p = 'b' AND c = 1").await, "DELETE 0");
    assert_eq!(tag(&mut s, "DELETE FROM t WHERE p = 'a' AND c > 0").await, "DELETE 2");
    assert_eq!(tag(&mut s, "DELETE FROM t").await, "DELETE 1");
}

#[tokio::test]
async fn if_answers_applied_and_all_columns() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    assert_eq!(rows(&mut s, "INSERT INTO t (k, a) VALUES (1, 10) IF NOT EXISTS").await, ["t NULL NULL"]);
    assert_eq!(rows(&mut s, "INSERT INTO t (k, a) VALUES (1, 99) IF NOT EXISTS").await, ["f 1 10"]);
    assert_eq!(rows(&mut s, "UPDATE t SET a = 11 WHERE k = 1 IF a = 10").await, ["t NULL NULL"]);
    assert_eq!(rows(&mut s, "UPDATE t SET a = 12 WHERE k = 1 IF a = 10").await, ["f 1 11"]);
    assert_eq!(rows(&mut s, "UPDATE t SET a = 5 WHERE k = 2 IF a = NULL").await, ["t NULL NULL"]);
    assert_eq!(rows(&mut s, "DELETE FROM t WHERE k = 9 IF EXISTS").await, ["f NULL NULL"]);
}

#[tokio::test]
async fn on_conflict_updates_with_excluded() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 11)").await;
    assert_eq!(tag(&mut s, "INSERT INTO t VALUES (1, 5) ON CONFLICT DO NOTHING").await, "INSERT 0 0");
    let sql = "INSERT INTO t VALUES (1, 5), (2, 6) ON CONFLICT (k) DO UPDATE SET a = t.a + excluded.a RETURNING k, a";
    assert_eq!(rows(&mut s, sql).await, ["1 16", "2 6"]);
    let sql = "INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET a = 0 WHERE t.a > 100";
    assert_eq!(tag(&mut s, sql).await, "INSERT 0 0");
    let wrong = error(&mut s, "INSERT INTO t VALUES (1, 5) ON CONFLICT (a) DO NOTHING").await;
    assert_eq!(wrong.sqlstate(), "42P10");
}

#[tokio::test]
async fn constraints_are_enforced() {
    let (_database, mut s) = open();
    run(
        &mut s,
        "CREATE TABLE t (id int PRIMARY KEY, owner text NOT NULL, n decimal(10,2) DEFAULT 0 CHECK (n >= 0), \
         code varchar(3), CONSTRAINT named CHECK (owner <> 'nobody'))",
    )
    .await;
    run(&mut s, "INSERT INTO t (id, owner) VALUES (1, 'ann')").await;
    assert_eq!(rows(&mut s, "SELECT n FROM t WHERE id = 1").await, ["0.00"]);
    assert_eq!(error(&mut s, "INSERT INTO t (id) VALUES (2)").await.sqlstate(), "23502");
    assert_eq!(error(&mut s, "INSERT INTO t (id, owner, n) VALUES (2, 'b', -1)").await.sqlstate(), "23514");
    assert!(error(&mut s, "INSERT INTO t (id, owner) VALUES (2, 'nobody')").await.message.contains("named"));
    assert_eq!(error(&mut s, "INSERT INTO t (id, owner, code) VALUES (2, 'b', 'abcd')").await.sqlstate(), "22001");
    assert_eq!(error(&mut s, "UPDATE t SET n = n - 5 WHERE id = 1").await.sqlstate(), "23514");
    assert_eq!(error(&mut s, "UPDATE t SET owner = NULL WHERE id = 1").await.sqlstate(), "23502");
    assert_eq!(tag(&mut s, "UPDATE t SET n = 5 WHERE id = 77").await, "UPDATE 0");
}

#[tokio::test]
async fn values_are_cast_or_refused() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int, ts timestamp, u uuid)").await;
    assert_eq!(error(&mut s, "INSERT INTO t (k, a) VALUES (1)").await.sqlstate(), "42601");
    assert_eq!(error(&mut s, "INSERT INTO t (k, a) VALUES (1, 'abc')").await.sqlstate(), "22P02");
    assert_eq!(error(&mut s, "INSERT INTO t (k, a) VALUES (1, 3000000000)").await.sqlstate(), "22003");
    assert_eq!(error(&mut s, "INSERT INTO t (k, nothing) VALUES (1, 2)").await.sqlstate(), "42703");
    run(&mut s, "INSERT INTO t VALUES (1, 3.7, '2024-01-02'::timestamptz, 11111111-2222-3333-4444-555555555555)").await;
    assert_eq!(
        rows(&mut s, "SELECT * FROM t WHERE k = 1").await,
        ["1 4 2024-01-02 00:00:00+00 11111111-2222-3333-4444-555555555555"]
    );
}

#[tokio::test]
async fn rows_without_a_key_keep_their_order() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE log (line text, level int)").await;
    let hint = s.take_notices()[0].hint.clone().expect("a hint");
    assert!(!hint.contains("PRIMARY KEY"), "nothing says that lines differ: {hint}");
    run(&mut s, "CREATE TABLE event (line text, at timestamp)").await;
    let hint = s.take_notices()[0].hint.clone().expect("a hint");
    assert!(hint.contains("PRIMARY KEY (line, at)") && hint.contains("overwrite each other"), "{hint}");
    run(&mut s, "INSERT INTO log VALUES ('b', 1), ('a', 2)").await;
    run(&mut s, "INSERT INTO log VALUES ('b', 1)").await;
    assert_eq!(rows(&mut s, "SELECT * FROM log").await, ["b 1", "a 2", "b 1"]);
    assert_eq!(tag(&mut s, "UPDATE log SET level = 5 WHERE line = 'b'").await, "UPDATE 2");
    assert_eq!(tag(&mut s, "DELETE FROM log WHERE level = 2").await, "DELETE 1");
    assert_eq!(rows(&mut s, "SELECT * FROM log").await, ["b 5", "b 5"]);
}

#[tokio::test]
async fn insert_select_and_returning() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
    assert_eq!(tag(&mut s, "INSERT INTO t SELECT k + 100, a FROM t").await, "INSERT 0 2");
    assert_eq!(rows(&mut s, "INSERT INTO t (k, a) VALUES (7, 70) RETURNING a + 1").await, ["71"]);
    assert_eq!(rows(&mut s, "DELETE FROM t WHERE a = 20 RETURNING k").await, ["2", "102"]);
    let sql = "INSERT INTO t SELECT p0::int, p1::int FROM (VALUES (8, 80, 0), (9, 90, 1)) AS v(p0, p1, n) ORDER BY n RETURNING k";
    assert_eq!(rows(&mut s, sql).await, ["8", "9"]);
}

#[tokio::test]
async fn many_rows_go_as_one_batch() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a text)").await;
    let values: Vec<String> = (0..3_000).map(|k| format!("({k}, 'v{k}')")).collect();
    assert_eq!(tag(&mut s, &format!("INSERT INTO t VALUES {}", values.join(", "))).await, "INSERT 0 3000");
    assert_eq!(rows(&mut s, "SELECT count(*), max(k) FROM t").await, ["3000 2999"]);
}

#[tokio::test]
async fn a_wrong_ttl_is_refused_as_in_cassandra() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    let message = error(&mut s, "INSERT INTO t (k, a) VALUES (1, 1) USING TTL 700000000").await.message;
    assert_eq!(message, "ttl is too large. requested (700000000) maximum (630720000)");
    run(&mut s, "INSERT INTO t (k, a) VALUES (1, 1) USING TIMESTAMP 2000").await;
    run(&mut s, "INSERT INTO t (k, a) VALUES (1, 2) USING TIMESTAMP 1000").await;
    assert_eq!(rows(&mut s, "SELECT a FROM t WHERE k = 1").await, ["1"]);
}

#[tokio::test]
async fn errors_show_no_values_that_one_may_not_read() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (id int PRIMARY KEY, secret text DEFAULT 'hidden', pub text NOT NULL)").await;
    run(&mut s, "CREATE ROLE writer").await;
    run(&mut s, "GRANT INSERT ON t TO writer").await;
    let insert = "INSERT INTO t (id) VALUES (1)";
    assert!(error(&mut s, insert).await.detail.is_some_and(|detail| detail.contains("hidden")));
    run(&mut s, "SET ROLE writer").await;
    assert_eq!(error(&mut s, insert).await.detail, None);
}

#[tokio::test]
async fn explain_of_a_write_needs_its_rights() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    run(&mut s, "CREATE ROLE reader").await;
    run(&mut s, "GRANT SELECT (id) ON t TO reader").await;
    run(&mut s, "SET ROLE reader").await;
    for write in ["INSERT INTO t VALUES (1, 1)", "UPDATE t SET v = 1 WHERE id = 1", "DELETE FROM t WHERE id = 1"] {
        assert_eq!(error(&mut s, &format!("EXPLAIN {write}")).await.sqlstate(), "42501", "{write}");
    }
    assert!(!rows(&mut s, "EXPLAIN SELECT id FROM t").await.is_empty());
}

#[tokio::test]
async fn a_batch_of_one_text_that_fails_leaves_nothing_open() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    let failing = "INSERT INTO t (k, v) VALUES (1, 1 / 0);";
    let batch = format!("BEGIN BATCH INSERT INTO t VALUES (2, 2); {failing} APPLY BATCH;");
    assert_eq!(error(&mut s, &batch).await.sqlstate(), "22012");
    assert_eq!(rows(&mut s, "SELECT k FROM t").await, Vec::<String>::new());
    // Sent statement by statement, its end is still to come.
    run(&mut s, "BEGIN BATCH").await;
    assert_eq!(error(&mut s, failing).await.sqlstate(), "22012");
    assert_eq!(error(&mut s, "SELECT k FROM t").await.sqlstate(), "25P02");
    assert_eq!(tag(&mut s, "APPLY BATCH").await, "ROLLBACK");
    run(&mut s, "INSERT INTO t VALUES (3, 3)").await;
}

#[tokio::test]
async fn a_batch_whose_first_text_fails_stays_open_and_has_failed() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    // What psql sends up to the first semicolon.
    for (first, state) in [
        ("BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 1 / 0);", "22012"),
        ("BEGIN BATCH INSERT INTO u (k, v) VALUES (1, 1);", "42P01"),
        ("BEGIN UNLOGGED BATCH INSRT INTO t (k, v) VALUES (1, 1);", "42601"),
        ("BEGIN COUNTER BATCH USING TIMESTAMP 1 UPDATE t SET v = 1 WHERE k = 1;", "22023"),
    ] {
        assert_eq!(error(&mut s, first).await.sqlstate(), state, "{first}");
        assert_eq!(error(&mut s, "INSERT INTO t (k, v) VALUES (2, 2)").await.sqlstate(), "25P02", "{first}");
        assert_eq!(tag(&mut s, "APPLY BATCH").await, "ROLLBACK");
        assert_eq!(rows(&mut s, "SELECT k FROM t").await, Vec::<String>::new());
    }
    // In a transaction it is that one which has failed.
    run(&mut s, "BEGIN").await;
    assert_eq!(error(&mut s, "BEGIN BATCH INSERT INTO u (k) VALUES (1);").await.sqlstate(), "42P01");
    assert_eq!(error(&mut s, "INSERT INTO t (k, v) VALUES (2, 2)").await.sqlstate(), "25P02");
    run(&mut s, "ROLLBACK").await;
    run(&mut s, "INSERT INTO t VALUES (3, 3)").await;
}
