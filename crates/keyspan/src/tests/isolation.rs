//! Transactions and concurrent writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{error, open, rows, run};
use crate::{Database, Session, TransactionStatus};

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
async fn a_row_that_changed_while_a_select_waited_for_it_is_checked_again() {
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
async fn a_row_that_changed_while_a_merge_waited_for_it_is_taken_by_another_clause() {
    for around in [false, true] {
        let (database, mut a) = open();
        let mut b = database.session();
        run(&mut a, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut a, "CREATE TABLE o (id int PRIMARY KEY, v int)").await;
        run(&mut a, "INSERT INTO t VALUES (1, 10), (2, 20), (9, 90)").await;
        run(&mut a, "INSERT INTO o VALUES (1, 100), (2, 200), (3, 300)").await;
        run(&mut a, "BEGIN").await;
        run(&mut a, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        let waiting = tokio::spawn(async move {
            if around {
                run(&mut b, "BEGIN").await;
                run(&mut b, "UPDATE t SET v = 91 WHERE id = 9").await;
            }
            let merge = "MERGE INTO t USING o ON o.id = t.id WHEN MATCHED AND t.v = 10 THEN UPDATE SET v = -10 \
                         WHEN MATCHED THEN UPDATE SET v = t.v + o.v WHEN NOT MATCHED THEN INSERT VALUES (o.id, o.v)";
            run(&mut b, merge).await;
            if around {
                run(&mut b, "COMMIT").await;
            }
            rows(&mut b, "SELECT id, v FROM t ORDER BY id").await
        });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        run(&mut a, "COMMIT").await;
        let last = if around { "9 91" } else { "9 90" };
        assert_eq!(waiting.await.expect("no panic"), ["1 111", "2 220", "3 300", last]);
    }
}

#[tokio::test]
async fn a_transaction_that_was_checked_against_an_older_definition_does_not_commit() {
    let (database, mut a) = open();
    let mut b = database.session();
    for (at, (write, alter)) in [
        ("UPDATE t0 SET v = NULL WHERE k = 1", "ALTER TABLE t0 ALTER COLUMN v SET NOT NULL"),
        ("INSERT INTO t1 VALUES (2, -2)", "ALTER TABLE t1 ADD CONSTRAINT pos CHECK (v > 0)"),
        ("INSERT INTO t2 VALUES (2, 1)", "CREATE UNIQUE INDEX u ON t2 (v)"),
        ("INSERT INTO t3 VALUES (2, 1)", "TRUNCATE t3"),
        ("INSERT INTO t4 (k, w) VALUES (2, '12345678')", "ALTER TABLE t4 ALTER COLUMN w TYPE varchar(5)"),
        ("INSERT INTO t5 VALUES (2, 1)", "ALTER TABLE t5 ADD COLUMN x int DEFAULT 5"),
    ]
    .into_iter()
    .enumerate()
    {
        run(&mut a, &format!("CREATE TABLE t{at} (k int PRIMARY KEY, v int, w varchar(8))")).await;
        run(&mut a, &format!("INSERT INTO t{at} VALUES (1, 1)")).await;
        run(&mut a, "BEGIN").await;
        run(&mut a, write).await;
        run(&mut b, alter).await;
        // What a transaction does to the catalog comes after what others have done.
        run(&mut a, &format!("CREATE TABLE made{at} (k int PRIMARY KEY)")).await;
        let refused = error(&mut a, "COMMIT").await;
        assert_eq!(refused.sqlstate(), "40001");
        assert_eq!(
            refused.message,
            format!("could not serialize access: table \"t{at}\" was changed by another session")
        );
    }
    run(&mut a, "BEGIN; INSERT INTO t1 VALUES (5, 5)").await;
    run(&mut b, "COMMENT ON TABLE t1 IS 'has no more constraints'; CREATE INDEX plain ON t1 (v)").await;
    run(&mut b, "ALTER TABLE t1 ADD x int; ALTER TABLE t1 DROP CONSTRAINT pos").await;
    run(&mut b, "ALTER TABLE t1 ALTER w TYPE varchar(9); ALTER TABLE t1 ALTER v SET DEFAULT 3").await;
    run(&mut a, "COMMIT").await;
    run(&mut a, "BEGIN; ALTER TABLE t1 DROP x; ALTER TABLE t1 DROP w").await;
    run(&mut a, "INSERT INTO t1 VALUES (6, 6); ALTER TABLE t1 ADD CHECK (v > 0); COMMIT").await;
    assert_eq!(rows(&mut a, "SELECT * FROM t1").await, ["1 1", "5 5", "6 6"]);
}

/// Sessions that write until they are told to stop.
fn writers(
    database: &Database,
    stop: &Arc<AtomicBool>,
    write: impl Fn(i32) -> String + Clone + Send + 'static,
    refused: &'static str,
) -> Vec<tokio::task::JoinHandle<()>> {
    let writer = |first: i32| {
        let (mut session, stop, write) = (database.session(), stop.clone(), write.clone());
        tokio::spawn(async move {
            for turn in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let sql = write(first + 3 * turn);
                if let Err(error) = session.execute(&sql).await {
                    assert_eq!(error.sqlstate(), refused, "{sql}: {error}");
                }
                tokio::task::yield_now().await;
            }
        })
    };
    (0..3).map(writer).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_written_while_a_constraint_is_added_satisfy_it() {
    // Now and then a row that breaks the constraint to be.
    fn row(turn: i32, broken: &str) -> String {
        let k = turn % 50;
        match turn % 200 {
            0 => format!("INSERT INTO t VALUES ({k}, {broken})"),
            _ => format!("INSERT INTO t VALUES ({k}, {})", k + 1000),
        }
    }
    type Write = fn(i32) -> String;
    let cases: [(&str, Write, &str, &str); 3] = [
        (
            "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
            |turn| row(turn, "NULL"),
            "23502",
            "SELECT k FROM t WHERE v IS NULL",
        ),
        ("ALTER TABLE t ADD CHECK (v > 0)", |turn| row(turn, "-1"), "23514", "SELECT k FROM t WHERE v < 0"),
        (
            "CREATE UNIQUE INDEX ON t (v)",
            |turn| row(turn, "7"),
            "23505",
            "SELECT v FROM t GROUP BY v HAVING count(*) > 1",
        ),
    ];
    for (alter, write, refused, broken) in cases {
        let (database, mut s) = open();
        run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        let stop = Arc::new(AtomicBool::new(false));
        let writers = writers(&database, &stop, write, refused);
        let mut added = false;
        for _ in 0..2_000 {
            run(&mut s, "UPDATE t SET v = k + 1000").await;
            match s.execute(alter).await {
                Ok(_) => added = true,
                Err(error) => assert_eq!(error.sqlstate(), refused, "{alter}: {error}"),
            }
            if added {
                break;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.expect("no panic");
        }
        assert!(added, "{alter}");
        assert!(rows(&mut s, broken).await.is_empty(), "{alter}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_constraint_is_added_while_others_keep_writing() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut s, "SET write_semantics = 'postgres'").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers = writers(&database, &stop, |turn| format!("INSERT INTO t VALUES ({turn}, {turn})"), "none");
    for alter in [
        "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
        "ALTER TABLE t ADD CHECK (v >= 0)",
        "CREATE UNIQUE INDEX ON t (v)",
        "ALTER TABLE t ADD UNIQUE (v, k)",
        "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 7",
        "ALTER TABLE t ADD COLUMN x int DEFAULT 8 CHECK (x < 9), ADD COLUMN y text DEFAULT upper('y')",
    ] {
        run(&mut s, alter).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("no panic");
    }
    let unfilled =
        "SELECT count(*) FROM t WHERE w IS DISTINCT FROM 7 OR x IS DISTINCT FROM 8 OR y IS DISTINCT FROM 'Y'";
    assert_eq!(rows(&mut s, unfilled).await, ["0"]);
}

#[tokio::test]
async fn a_transaction_that_wrote_to_an_index_which_is_dropped_does_not_commit() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, v int UNIQUE)").await;
    run(&mut a, "BEGIN; INSERT INTO t VALUES (1, 1)").await;
    run(&mut b, "ALTER TABLE t DROP CONSTRAINT t_v_key").await;
    let refused = error(&mut a, "COMMIT").await;
    assert_eq!(refused.sqlstate(), "40001");
    let message = "could not serialize access: a table or an index was dropped or emptied by another session";
    assert_eq!(refused.message, message);
    run(&mut a, "BEGIN; INSERT INTO t VALUES (1, 1); COMMIT").await;
}

#[tokio::test]
async fn a_column_with_a_default_is_filled_within_a_transaction() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (2, 2) USING TTL 1000").await;
    run(&mut a, "SET write_semantics = 'postgres'").await;
    let told =
        |session: &mut Session| session.take_notices().into_iter().map(|notice| notice.message).collect::<Vec<_>>();
    told(&mut a);
    run(&mut a, "BEGIN; INSERT INTO t VALUES (3, 3)").await;
    run(&mut a, "ALTER TABLE t ADD COLUMN w int DEFAULT 7").await;
    assert_eq!(told(&mut a), ["1 row of table \"t\" expires: it does not get the default"]);
    assert_eq!(rows(&mut a, "SELECT k, w FROM t").await, ["1 7", "2 NULL", "3 7"]);
    // Nobody may have written to the table meanwhile, be it another row.
    run(&mut b, "INSERT INTO t VALUES (4, 4)").await;
    assert_eq!(error(&mut a, "COMMIT").await.sqlstate(), "40001");
    run(&mut a, "BEGIN; ALTER TABLE t ADD COLUMN w int DEFAULT 7; COMMIT").await;
    assert_eq!(rows(&mut a, "SELECT k, w FROM t").await, ["1 7", "2 NULL", "4 7"]);
    let refused = error(&mut a, "ALTER TABLE t ADD COLUMN x int NOT NULL DEFAULT 7").await;
    assert_eq!(refused.sqlstate(), "23502");
    assert_eq!(
        refused.hint.as_deref(),
        Some("Rows that expire do not get the default. Add the column without NOT NULL.")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_run_again_while_columns_that_they_do_not_name_come_and_go() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int DEFAULT 0)").await;
    let stop = Arc::new(AtomicBool::new(false));
    let write = |turn: i32| match turn / 3 % 4 {
        0 => format!("INSERT INTO t (k) VALUES ({}) ON CONFLICT (k) DO UPDATE SET v = t.v + 1", turn % 20),
        1 => format!("UPDATE t SET v = v + 1 WHERE v >= {}", turn % 3),
        2 => format!("DELETE FROM t WHERE v > 3 AND k <> {}", turn % 20),
        _ => format!("UPDATE t SET v = 1 WHERE k = {} RETURNING k", turn % 20),
    };
    let writers = writers(&database, &stop, write, "none");
    for turn in 0..60 {
        run(&mut s, &format!("ALTER TABLE t ADD z{turn} int")).await;
        run(&mut s, &format!("ALTER TABLE t DROP z{turn}")).await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_transaction_holds_no_locks() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
    run(&mut b, "SET lock_timeout = '20ms'").await;
    run(&mut a, "BEGIN").await;
    run(&mut a, "UPDATE t SET v = 9 WHERE k = 1").await;
    rows(&mut a, "SELECT pg_advisory_xact_lock(1)").await;
    assert_eq!(error(&mut a, "INSERT INTO t VALUES (3, 1/0)").await.sqlstate(), "22012");
    run(&mut b, "UPDATE t SET v = 5 WHERE k = 1").await;
    rows(&mut b, "SELECT pg_advisory_xact_lock(1)").await;
    run(&mut a, "ROLLBACK").await;
    assert_eq!(rows(&mut a, "SELECT * FROM t").await, ["1 5", "2 2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_taken_since_a_savepoint_go_with_an_error_and_with_a_rollback_to_it() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
    run(&mut b, "SET lock_timeout = '20ms'").await;
    for end in ["INSERT INTO t VALUES (3, 1/0)", "ROLLBACK TO s"] {
        run(&mut a, "BEGIN").await;
        run(&mut a, "UPDATE t SET v = v + 1 WHERE k = 1").await;
        rows(&mut a, "SELECT pg_advisory_xact_lock(1)").await;
        run(&mut a, "SAVEPOINT s").await;
        rows(&mut a, "SELECT * FROM t WHERE k = 2 FOR UPDATE").await;
        rows(&mut a, "SELECT pg_advisory_xact_lock(2), pg_advisory_xact_lock(1)").await;
        assert_eq!(error(&mut b, "UPDATE t SET v = 5 WHERE k = 2").await.sqlstate(), "55P03");
        assert_eq!(rows(&mut b, "SELECT pg_try_advisory_xact_lock(2)").await, ["f"]);
        let _ = a.execute(end).await;
        run(&mut b, "UPDATE t SET v = 5 WHERE k = 2").await;
        assert_eq!(rows(&mut b, "SELECT pg_try_advisory_xact_lock(2)").await, ["t"], "{end}");
        assert_eq!(rows(&mut b, "SELECT pg_try_advisory_xact_lock(1)").await, ["f"], "{end}");
        assert_eq!(error(&mut b, "UPDATE t SET v = 5 WHERE k = 1").await.sqlstate(), "55P03");
        run(&mut a, "ROLLBACK TO s").await;
        run(&mut a, "COMMIT").await;
    }
    assert_eq!(rows(&mut a, "SELECT * FROM t").await, ["1 3", "2 5"]);
}

#[tokio::test]
async fn rows_that_changed_after_the_one_snapshot_are_not_locked() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1, [1]), (2, 2, [2]), (3, 3, [3]), (4, 4, [4])").await;
    for lock in [
        "SELECT v FROM t WHERE k = 1 FOR UPDATE",
        "SELECT v FROM t WHERE k = 2 FOR SHARE",
        "SELECT k FROM t WHERE v = 1 FOR UPDATE",
        "SELECT k FROM t ORDER BY k DESC LIMIT 2 FOR NO KEY UPDATE SKIP LOCKED",
    ] {
        for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
            run(&mut a, "INSERT INTO t VALUES (1, 1, [1]), (2, 2, [2]), (3, 3, [3])").await;
            run(&mut a, &format!("BEGIN ISOLATION LEVEL {isolation}")).await;
            assert_eq!(rows(&mut a, "SELECT k FROM t").await.len(), 4);
            run(&mut b, "UPDATE t SET v = 10 WHERE k = 1").await;
            run(&mut b, "DELETE FROM t WHERE k = 2").await;
            run(&mut b, "UPDATE t SET l = l + [7] WHERE k = 3").await;
            assert_eq!(rows(&mut a, "SELECT v FROM t WHERE k = 4 FOR UPDATE").await, ["4"]);
            let refused = error(&mut a, lock).await;
            assert_eq!(refused.sqlstate(), "40001", "{lock}");
            assert_eq!(refused.message, "could not serialize access due to concurrent update");
            run(&mut a, "ROLLBACK").await;
        }
    }
}

#[tokio::test]
async fn rows_of_tables_made_in_the_transaction_are_locked() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE old (k int PRIMARY KEY, v int); INSERT INTO old VALUES (1, 1)").await;
    run(&mut s, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(rows(&mut s, "SELECT v FROM old").await, ["1"]);
    run(&mut s, "CREATE TABLE made (k int PRIMARY KEY, v int, l list<int>)").await;
    run(&mut s, "INSERT INTO made VALUES (1, 2, [3])").await;
    assert_eq!(rows(&mut s, "SELECT v FROM made WHERE k = 1 FOR UPDATE").await, ["2"]);
    run(&mut s, "TRUNCATE old").await;
    run(&mut s, "INSERT INTO old VALUES (1, 5)").await;
    assert_eq!(rows(&mut s, "SELECT v FROM old WHERE v > 1 FOR UPDATE").await, ["5"]);
    run(&mut s, "COMMIT").await;
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
async fn a_table_that_others_empty_stays_as_the_one_snapshot_has_it() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut a, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
    run(&mut a, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(rows(&mut a, "SELECT * FROM t").await, ["1 1", "2 2"]);
    run(&mut b, "TRUNCATE t").await;
    assert_eq!(rows(&mut a, "SELECT * FROM t").await, ["1 1", "2 2"]);
    assert_eq!(rows(&mut a, "SELECT * FROM t WHERE k = 1").await, ["1 1"]);
    assert_eq!(rows(&mut a, "SELECT * FROM t WHERE k IN (1, 2)").await, ["1 1", "2 2"]);
    run(&mut a, "UPDATE t SET v = 7 WHERE k = 1").await;
    let refused = error(&mut a, "COMMIT").await;
    assert_eq!(refused.sqlstate(), "40001");
    assert_eq!(refused.message, "could not serialize access: table \"t\" was changed by another session");
    assert!(rows(&mut a, "SELECT * FROM t").await.is_empty());
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

/// A transaction that creates a table gave it the number of a table that another session created meanwhile, and read that
/// one's rows.
#[tokio::test]
async fn tables_of_open_transactions_share_nothing_with_those_of_others() {
    let (database, mut a) = open();
    let mut b = database.session();
    for kind in ["TABLE", "TEMP TABLE"] {
        run(&mut a, "BEGIN").await;
        run(&mut a, &format!("CREATE {kind} of_a (a int PRIMARY KEY, b text UNIQUE, c serial)")).await;
        run(&mut b, &format!("CREATE {kind} of_b (a int PRIMARY KEY, b text UNIQUE, c serial)")).await;
        run(&mut b, "INSERT INTO of_b (a, b) VALUES (7, 'b')").await;
        assert_eq!(rows(&mut a, "SELECT * FROM of_a").await, [""; 0], "{kind}");
        run(&mut a, "INSERT INTO of_a (a, b) VALUES (7, 'a')").await;
        assert_eq!(rows(&mut a, "SELECT * FROM of_a").await, ["7 a 1"], "{kind}");
        assert_eq!(rows(&mut b, "SELECT * FROM of_b").await, ["7 b 1"], "{kind}");
        run(&mut a, "ROLLBACK").await;
        run(&mut b, "DROP TABLE of_b").await;
    }
    // What is created in the open goes on from there, too.
    run(&mut a, "BEGIN").await;
    run(&mut a, "CREATE TABLE first AS SELECT 1 AS a").await;
    run(&mut b, "CREATE TABLE second AS SELECT 2 AS a").await;
    run(&mut b, "BEGIN").await;
    run(&mut b, "CREATE TABLE third (a int PRIMARY KEY)").await;
    assert_eq!(rows(&mut b, "SELECT * FROM third").await, [""; 0]);
    assert_eq!(rows(&mut a, "SELECT * FROM first").await, ["1"]);
    run(&mut b, "COMMIT").await;
    run(&mut a, "COMMIT").await;
    assert_eq!(rows(&mut b, "SELECT * FROM first, second").await, ["1 2"]);
}

/// A transaction that had changed any definition failed when others had changed any other (dbt with several threads).
#[tokio::test]
async fn definitions_of_several_sessions_are_put_together() {
    let (database, mut a) = open();
    let mut b = database.session();
    let text = "CREATE TABLE old (k int PRIMARY KEY); INSERT INTO old VALUES (1); CREATE TABLE t (k int PRIMARY KEY)";
    run(&mut a, text).await;
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        run(&mut a, &format!("BEGIN ISOLATION LEVEL {isolation}")).await;
        run(&mut a, "CREATE TABLE new AS SELECT k + 1 AS k FROM old").await;
        run(&mut a, "ALTER TABLE old RENAME TO former; ALTER TABLE new RENAME TO old").await;
        run(&mut a, "INSERT INTO t VALUES (1); CREATE TEMP TABLE mine (k serial PRIMARY KEY) ON COMMIT DROP").await;
        run(&mut b, "BEGIN; CREATE TABLE of_b (k serial PRIMARY KEY, v text UNIQUE)").await;
        run(&mut b, "CREATE VIEW over AS SELECT * FROM of_b; COMMENT ON VIEW over IS 'b'; INSERT INTO t VALUES (2)")
            .await;
        run(&mut b, "INSERT INTO of_b (v) VALUES ('x'); COMMIT").await;
        run(&mut a, "COMMIT").await;
        for s in [&mut a, &mut b] {
            assert_eq!(rows(s, "SELECT * FROM old, former, over, t ORDER BY t").await, ["2 1 1 x 1", "2 1 1 x 2"]);
            assert_eq!(error(s, "SELECT * FROM mine").await.sqlstate(), "42P01");
        }
        let text = "DROP TABLE old; ALTER TABLE former RENAME TO old; DELETE FROM t; DROP TABLE of_b CASCADE";
        run(&mut b, text).await;
    }
}

/// What both have changed, or one has changed and the other refers to, is not put together.
#[tokio::test]
async fn definitions_that_touch_the_same_are_not_put_together() {
    let (database, mut a) = open();
    let mut b = database.session();
    let tables =
        "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1); CREATE VIEW w AS SELECT k FROM t";
    let types = "CREATE SCHEMA s; CREATE SEQUENCE n; CREATE TYPE u AS (a int)";
    let refused = [
        // What A does, what B does meanwhile, of what A is told.
        ("ALTER TABLE t ADD COLUMN x int", "ALTER TABLE t ADD COLUMN y int", "table \"t\""),
        ("ALTER TABLE t ADD COLUMN x int", "TRUNCATE t", "table \"t\""),
        ("DROP TABLE t CASCADE", "ALTER TABLE t ADD COLUMN y int", "table \"t\""),
        ("CREATE VIEW seen AS SELECT v FROM t", "ALTER TABLE t DROP COLUMN v", "table \"t\""),
        (
            "CREATE VIEW seen AS SELECT k FROM w",
            "CREATE OR REPLACE VIEW w AS SELECT k FROM t WHERE k > 1",
            "view \"w\"",
        ),
        ("ALTER TABLE t DROP COLUMN v", "CREATE VIEW seen AS SELECT v FROM t", "table \"t\""),
        ("CREATE TABLE new (k int PRIMARY KEY)", "CREATE TABLE new (k int PRIMARY KEY)", "\"new\""),
        ("CREATE TABLE new (k int PRIMARY KEY)", "CREATE INDEX new ON t (v)", "\"new\""),
        ("CREATE INDEX t_idx ON t (v)", "ALTER TABLE t ALTER COLUMN v SET NOT NULL", "table \"t\""),
        ("CREATE TABLE s.new (k int PRIMARY KEY)", "DROP SCHEMA s", "schema \"s\""),
        ("CREATE TABLE new (k int PRIMARY KEY REFERENCES t NOT ENFORCED)", "DROP TABLE t CASCADE", "table \"t\""),
        ("CREATE TABLE new (k int PRIMARY KEY DEFAULT nextval('n'))", "DROP SEQUENCE n", "sequence \"n\""),
        ("CREATE TABLE new (k int PRIMARY KEY, x u)", "ALTER TYPE u ADD b int", "type \"u\""),
        ("COMMENT ON VIEW w IS 'a'", "COMMENT ON VIEW w IS 'b'", "view \"w\""),
        ("CREATE TABLE new (k int PRIMARY KEY); INSERT INTO t VALUES (2, 2)", "TRUNCATE t", "table \"t\""),
        ("CREATE TABLE new (k int PRIMARY KEY); INSERT INTO t VALUES (2, 2)", "DROP TABLE t CASCADE", "table \"t\""),
        (
            "CREATE TABLE new (k int PRIMARY KEY); INSERT INTO t VALUES (2, -2)",
            "ALTER TABLE t ADD CHECK (v > 0)",
            "table \"t\"",
        ),
        ("ALTER TABLE t RENAME TO new", "ALTER TABLE t RENAME TO other", "table \"new\""),
        ("CREATE ROLE new", "CREATE ROLE other", "the rights of roles"),
    ];
    for (of_a, of_b, what) in refused {
        run(&mut a, tables).await;
        run(&mut a, types).await;
        run(&mut a, "BEGIN").await;
        run(&mut a, of_a).await;
        run(&mut b, of_b).await;
        let before = database.catalog();
        let refused = error(&mut a, "COMMIT").await;
        let message = format!("could not serialize access: {what} was changed by another session");
        assert_eq!((refused.sqlstate(), refused.message), ("40001", message), "{of_a} | {of_b}");
        assert_eq!(*database.catalog(), *before, "{of_a} | {of_b}");
        let gone = "DROP TABLE IF EXISTS new, other, t CASCADE; DROP SCHEMA IF EXISTS s; DROP SEQUENCE IF EXISTS n; DROP TYPE u";
        run(&mut a, gone).await;
    }
}

/// Others may drop what a transaction with own definitions has only read.
#[tokio::test]
async fn a_table_that_was_read_and_is_gone_is_40001_beside_own_definitions() {
    let (database, mut a) = open();
    let mut b = database.session();
    run(&mut a, "CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    run(&mut a, "BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE new (k int PRIMARY KEY)").await;
    assert_eq!(rows(&mut a, "SELECT * FROM t WHERE k = 1").await, ["1"]);
    run(&mut b, "DROP TABLE t").await;
    assert_eq!(error(&mut a, "COMMIT").await.sqlstate(), "40001");
    assert_eq!(error(&mut a, "SELECT * FROM new").await.sqlstate(), "42P01");
}
