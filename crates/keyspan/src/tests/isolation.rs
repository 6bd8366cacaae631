//! Transactions and concurrent writers.

use super::{error, open, rows, run};
use crate::TransactionStatus;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_increments_make_two_hundred() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 0)").await;
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let mut session = database.session();
            tokio::spawn(async move {
                for _ in 0..50 {
                    run(&mut session, "UPDATE t SET n = n + 1 WHERE k = 1").await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert_eq!(rows(&mut s, "SELECT n FROM t WHERE k = 1").await, ["200"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn transfers_keep_their_total() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut s, "INSERT INTO t VALUES (0, 100), (1, 100), (2, 100)").await;
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let mut session = database.session();
            tokio::spawn(async move {
                for turn in 0..20 {
                    let (from, to) = ((writer + turn) % 3, (writer + turn + 1) % 3);
                    let sql = format!(
                        "BEGIN; UPDATE t SET n = n - 1 WHERE k = {from}; UPDATE t SET n = n + 1 WHERE k = {to}; COMMIT"
                    );
                    if let Err(error) = session.execute(&sql).await {
                        assert!(["40P01", "40001"].contains(&error.sqlstate()), "{error}");
                        run(&mut session, "ROLLBACK").await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert_eq!(rows(&mut s, "SELECT sum(n) FROM t").await, ["300"]);
}

#[tokio::test]
async fn read_committed_sees_own_writes_and_later_commits() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut a, "BEGIN").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1)").await;
    assert_eq!(rows(&mut a, "SELECT * FROM t").await, ["1 1"]);
    assert!(rows(&mut b, "SELECT * FROM t").await.is_empty());
    run(&mut b, "INSERT INTO t VALUES (2, 2)").await;
    assert_eq!(rows(&mut a, "SELECT count(*) FROM t").await, ["2"]);
    run(&mut a, "COMMIT").await;
    assert_eq!(rows(&mut b, "SELECT count(*) FROM t").await, ["2"]);
}

#[tokio::test]
async fn repeatable_read_keeps_its_snapshot_and_conflicts_at_commit() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 5)").await;
    run(&mut a, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(rows(&mut a, "SELECT n FROM t WHERE k = 1").await, ["5"]);
    run(&mut b, "UPDATE t SET n = 6 WHERE k = 1").await;
    assert_eq!(rows(&mut a, "SELECT n FROM t WHERE k = 1").await, ["5"]);
    run(&mut a, "UPDATE t SET n = 7 WHERE k = 1").await;
    assert_eq!(error(&mut a, "COMMIT").await.sqlstate(), "40001");
    assert_eq!(rows(&mut a, "SELECT n FROM t WHERE k = 1").await, ["6"]);
}

#[tokio::test]
async fn serializable_checks_what_it_read() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1), (2, 1)").await;
    run(&mut a, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    assert_eq!(rows(&mut a, "SELECT sum(n) FROM t").await, ["2"]);
    run(&mut b, "UPDATE t SET n = 0 WHERE k = 2").await;
    run(&mut a, "UPDATE t SET n = 0 WHERE k = 1").await;
    assert_eq!(error(&mut a, "COMMIT").await.sqlstate(), "40001");
}

#[tokio::test]
async fn delete_then_insert_of_one_key_keeps_the_row() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 1)").await;
    run(&mut s, "BEGIN; DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 5); COMMIT").await;
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1 5"]);
}

#[tokio::test]
async fn a_failed_transaction_takes_only_its_end() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    run(&mut s, "BEGIN").await;
    assert_eq!(error(&mut s, "SELECT * FROM nothing").await.sqlstate(), "42P01");
    assert_eq!(s.status(), TransactionStatus::Failed);
    assert_eq!(error(&mut s, "SELECT 1").await.sqlstate(), "25P02");
    run(&mut s, "ROLLBACK").await;
    assert_eq!(s.status(), TransactionStatus::Idle);
}

#[tokio::test]
async fn savepoints_undo_what_came_after() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    run(&mut s, "BEGIN").await;
    run(&mut s, "INSERT INTO t VALUES (1)").await;
    run(&mut s, "SAVEPOINT a").await;
    run(&mut s, "INSERT INTO t VALUES (2)").await;
    assert_eq!(error(&mut s, "INSERT INTO t VALUES ('x')").await.sqlstate(), "22P02");
    run(&mut s, "ROLLBACK TO a").await;
    run(&mut s, "COMMIT").await;
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1"]);
}

#[tokio::test]
async fn a_text_of_several_statements_is_one_transaction() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    assert_eq!(error(&mut s, "INSERT INTO t VALUES (1); INSERT INTO t VALUES ('x')").await.sqlstate(), "22P02");
    assert!(rows(&mut s, "SELECT * FROM t").await.is_empty());
    let begun = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SHOW transaction_isolation";
    assert_eq!(rows(&mut s, begun).await, ["repeatable read"]);
    run(&mut s, "COMMIT").await;
    let late = error(&mut s, "SELECT 1; BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(late.sqlstate(), "25001");
}

#[tokio::test]
async fn a_read_only_transaction_refuses_writes() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    run(&mut s, "PREPARE add AS INSERT INTO t VALUES (9)").await;
    for write in ["INSERT INTO t VALUES (9)", "EXECUTE add", "EXPLAIN ANALYZE INSERT INTO t VALUES (9)"] {
        run(&mut s, "BEGIN READ ONLY").await;
        assert_eq!(error(&mut s, write).await.sqlstate(), "25006", "{write}");
        run(&mut s, "COMMIT").await;
    }
    assert_eq!(rows(&mut s, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test]
async fn tables_made_inside_a_transaction_can_be_used_and_undone() {
    let (database, mut s) = open();
    run(&mut s, "BEGIN").await;
    run(&mut s, "CREATE TABLE made (line text)").await;
    run(&mut s, "CREATE INDEX made_line ON made (line)").await;
    run(&mut s, "INSERT INTO made VALUES ('a'), ('b')").await;
    assert_eq!(rows(&mut s, "SELECT * FROM made").await, ["a", "b"]);
    assert_eq!(error(&mut database.session(), "SELECT * FROM made").await.sqlstate(), "42P01");
    run(&mut s, "ROLLBACK").await;
    assert_eq!(error(&mut s, "SELECT * FROM made").await.sqlstate(), "42P01");
    run(&mut s, "BEGIN; CREATE TABLE made (line text); INSERT INTO made VALUES ('c'); COMMIT").await;
    assert_eq!(rows(&mut s, "SELECT * FROM made").await, ["c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_timeout_is_55p03() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, n int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1)").await;
    run(&mut a, "BEGIN").await;
    run(&mut a, "UPDATE t SET n = n + 1 WHERE k = 1").await;
    run(&mut b, "SET lock_timeout = '20ms'").await;
    assert_eq!(error(&mut b, "UPDATE t SET n = n + 1 WHERE k = 1").await.sqlstate(), "55P03");
    run(&mut a, "COMMIT").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_a_queue_take_different_rows() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE jobs (id int PRIMARY KEY, state text)").await;
    run(&mut a, "INSERT INTO jobs VALUES (1, 'new'), (2, 'new'), (3, 'new')").await;
    let next = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    run(&mut a, "BEGIN").await;
    run(&mut b, "BEGIN").await;
    assert_eq!(rows(&mut a, next).await, ["1"]);
    assert_eq!(rows(&mut b, next).await, ["2"]);
    assert_eq!(rows(&mut b, "SELECT id FROM jobs ORDER BY id FOR SHARE SKIP LOCKED").await, ["2", "3"]);
    let one = "SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT";
    assert_eq!(error(&mut b, one).await.sqlstate(), "55P03");
    run(&mut b, "ROLLBACK").await;
    assert_eq!(rows(&mut a, "SELECT id FROM jobs ORDER BY id LIMIT 1 OFFSET 1 FOR UPDATE NOWAIT").await, ["2"]);
    run(&mut a, "COMMIT").await;
    assert_eq!(rows(&mut b, one).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_changed_while_a_select_waited_for_it_is_judged_anew() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE jobs (id int PRIMARY KEY, state text, n int)").await;
    run(&mut a, "INSERT INTO jobs VALUES (1, 'new', 0), (2, 'new', 0)").await;
    run(&mut a, "BEGIN").await;
    run(&mut a, "UPDATE jobs SET state = 'done' WHERE id = 1").await;
    run(&mut a, "UPDATE jobs SET n = 7 WHERE id = 2").await;
    let waiting = tokio::spawn(async move {
        run(&mut b, "BEGIN").await;
        rows(&mut b, "SELECT id, n FROM jobs WHERE state = 'new' ORDER BY id FOR UPDATE").await
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    run(&mut a, "COMMIT").await;
    assert_eq!(waiting.await.expect("no panic"), ["2 7"]);
}

#[tokio::test]
async fn what_follows_a_commit_in_a_text_is_a_transaction_of_its_own() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    let text =
        "INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2); COMMIT; INSERT INTO t VALUES (3); SELECT 1/0";
    assert_eq!(error(&mut s, text).await.sqlstate(), "22012");
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1", "2"]);
    let text = "BEGIN; INSERT INTO t VALUES (4); ROLLBACK; INSERT INTO t VALUES (5); INSERT INTO t VALUES (6)";
    run(&mut s, text).await;
    assert_eq!(s.status(), TransactionStatus::Idle);
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1", "2", "5", "6"]);
}

#[tokio::test]
async fn statement_timestamp_is_the_time_of_the_statement() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, at timestamptz, began timestamptz)").await;
    run(&mut s, "BEGIN").await;
    for k in 0..2 {
        run(&mut s, &format!("INSERT INTO t VALUES ({k}, statement_timestamp(), now())")).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    run(&mut s, "COMMIT").await;
    let times = "SELECT min(at) < max(at), min(began) = max(began), min(at) >= min(began) FROM t";
    assert_eq!(rows(&mut s, times).await, ["t t t"]);
}
