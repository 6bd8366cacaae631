//! Settings, cancel, bulk insert.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::{error, open, rows, run};

#[tokio::test]
async fn set_ends_with_rollback_and_set_local_with_commit() {
    let (_database, mut s) = open();
    run(&mut s, "BEGIN").await;
    run(&mut s, "SET statement_timeout = '5s'").await;
    run(&mut s, "ROLLBACK").await;
    assert_eq!(rows(&mut s, "SHOW statement_timeout").await, ["0"]);
    run(&mut s, "BEGIN").await;
    run(&mut s, "SET LOCAL statement_timeout = '5s'").await;
    assert_eq!(rows(&mut s, "SHOW statement_timeout").await, ["5s"]);
    run(&mut s, "COMMIT").await;
    assert_eq!(rows(&mut s, "SHOW statement_timeout").await, ["0"]);
    assert_eq!(error(&mut s, "SHOW no_such_setting").await.sqlstate(), "42704");
}

#[tokio::test]
async fn the_time_zone_reads_texts_of_instants() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE z (k int PRIMARY KEY, ts timestamp)").await;
    run(&mut s, "SET TIME ZONE 'Europe/Berlin'").await;
    run(&mut s, "INSERT INTO z VALUES (1, '2024-07-01 14:00:00'), (2, '2024-07-01 12:00:00Z')").await;
    run(&mut s, "RESET TimeZone").await;
    assert_eq!(rows(&mut s, "SELECT DISTINCT ts FROM z").await, ["2024-07-01 12:00:00+00"]);
}

#[tokio::test]
async fn notices_below_the_least_severity_are_not_told() {
    let (_database, mut s) = open();
    for (least, told) in [("notice", true), ("debug1", true), ("warning", false), ("error", false)] {
        run(&mut s, &format!("SET client_min_messages = {least}")).await;
        run(&mut s, "DROP TABLE IF EXISTS nothing").await;
        assert_eq!(!s.take_notices().is_empty(), told, "{least}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_ends_the_rows_of_a_running_query() {
    let (_database, mut s) = open();
    let handle = s.cancel_handle();
    let mut found = s.query("SELECT * FROM generate_series(1, 40000000)", &[]).await.expect("runs");
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        handle.cancel();
    });
    let ended = loop {
        match found.next_batch().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("not cancelled"),
            Err(error) => break error,
        }
    };
    assert_eq!(ended.sqlstate(), "57014");
}

#[tokio::test]
async fn bulk_insert_is_all_or_nothing() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v text NOT NULL, d int DEFAULT 3)").await;
    let name = crate::ObjectName { database: None, keyspace: None, name: "t".into(), position: 1 };
    let columns = ["k".to_string(), "v".to_string()];
    let schema =
        Arc::new(Schema::new(vec![Field::new("k", DataType::Int32, true), Field::new("v", DataType::Utf8, true)]));
    let batch = |k: Vec<i32>, v: Vec<Option<&str>>| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int32Array::from(k)), Arc::new(StringArray::from(v))])
            .expect("fits")
    };
    let mut bulk = s.bulk_insert(&name, &columns).expect("begins");
    bulk.push(&mut s, &batch(vec![1, 2], vec![Some("a"), Some("b")])).await.expect("takes");
    assert_eq!(bulk.push(&mut s, &batch(vec![3], vec![None])).await.expect_err("a null").sqlstate(), "23502");
    drop(bulk);
    assert!(rows(&mut s, "SELECT * FROM t").await.is_empty());
    let mut bulk = s.bulk_insert(&name, &columns).expect("begins");
    bulk.push(&mut s, &batch(vec![1, 2], vec![Some("a"), Some("b")])).await.expect("takes");
    assert_eq!(bulk.finish(&mut s).await, Ok(2));
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1 a 3", "2 b 3"]);
}

#[tokio::test]
async fn a_session_has_so_many_cursors() {
    let (_database, mut s) = open();
    run(&mut s, "BEGIN").await;
    for number in 0..256 {
        run(&mut s, &format!("DECLARE c{number} CURSOR FOR SELECT 1")).await;
    }
    run(&mut s, "CLOSE c7").await;
    run(&mut s, "DECLARE c7 CURSOR FOR SELECT 1").await;
    let refused = error(&mut s, "DECLARE c256 CURSOR FOR SELECT 1").await;
    assert_eq!((refused.sqlstate(), refused.hint.is_some()), ("54000", true));
}

#[tokio::test]
async fn a_role_is_not_another_one_of_its_name() {
    let (database, mut root) = open();
    let mut early = database.session();
    early.connect_as("guest", "keyspan").expect("there are no roles");
    run(&mut root, "CREATE TABLE t (k int PRIMARY KEY); CREATE ROLE team; CREATE ROLE fred LOGIN IN ROLE team").await;
    // Who came before the first role is the role of the name, which there is none of.
    assert_eq!(error(&mut early, "SELECT * FROM t").await.sqlstate(), "42501");
    let mut fred = database.session();
    fred.connect_as("fred", "keyspan").expect("fred may");
    run(&mut fred, "SET ROLE team").await;
    run(&mut root, "ALTER ROLE team RENAME TO old_team; CREATE ROLE team SUPERUSER").await;
    run(&mut fred, "SET application_name = 'x'").await;
    assert_eq!(error(&mut fred, "SELECT * FROM t").await.sqlstate(), "42501");
    run(&mut fred, "RESET ROLE").await;
    assert_eq!(error(&mut fred, "SET ROLE team").await.sqlstate(), "42501");
    run(&mut root, "ALTER ROLE fred RENAME TO old_fred; CREATE ROLE fred SUPERUSER LOGIN").await;
    assert_eq!(error(&mut fred, "SET ROLE fred").await.sqlstate(), "42501");
    assert_eq!(error(&mut fred, "SELECT * FROM t").await.sqlstate(), "42501");
}

#[test]
fn what_nests_deeply_is_answered_or_refused() {
    let unary = |count: usize| format!("SELECT {}1", "- ".repeat(count));
    let nested = (0..150).fold("SELECT 1 AS a".to_owned(), |query, _| format!("SELECT * FROM ({query}) x"));
    let case = format!("SELECT {}1{}", "CASE WHEN false THEN 0 ELSE ".repeat(150), " END".repeat(150));
    let array = format!("SELECT {}1{}", "ARRAY[".repeat(60), "]".repeat(60));
    let sum = format!("SELECT 1{}", "+1".repeat(490));
    // Statements are parsed and prepared on the thread of who asks.
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let runtime = threads.enable_all().thread_stack_size(16 << 20).build().expect("threads");
    let done = runtime.spawn(async move {
        let (_database, mut s) = open();
        for statement in [unary(480), nested, case, array, sum] {
            rows(&mut s, &statement).await;
        }
        run(&mut s, "CREATE VIEW v0 AS SELECT 1 AS x").await;
        for view in 1..=31 {
            run(&mut s, &format!("CREATE VIEW v{view} AS SELECT * FROM v{}", view - 1)).await;
        }
        assert_eq!(rows(&mut s, "SELECT * FROM v31").await, ["1"]);
        rows(&mut s, "SELECT count(*) FROM pg_attribute").await;
    });
    runtime.block_on(done).expect("no panic");
}

#[tokio::test]
async fn a_right_that_is_revoked_is_gone_within_transactions_too() {
    let (database, mut root) = open();
    run(&mut root, "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await;
    run(&mut root, "CREATE ROLE bob LOGIN; GRANT SELECT, INSERT ON t TO bob").await;
    for begin in ["BEGIN; CREATE TEMP TABLE z (k int PRIMARY KEY)", "BEGIN ISOLATION LEVEL REPEATABLE READ"] {
        let mut bob = database.session();
        bob.connect_as("bob", "keyspan").expect("bob may");
        run(&mut bob, begin).await;
        assert_eq!(rows(&mut bob, "SELECT count(*) FROM t WHERE v > 0").await, ["1"]);
        run(&mut root, "REVOKE ALL ON t FROM bob").await;
        for statement in
            ["SELECT count(*) FROM t WHERE v > 0", "SELECT v FROM t WHERE k = 1", "INSERT INTO t VALUES (2, 2)"]
        {
            run(&mut bob, "SAVEPOINT s").await;
            assert_eq!(error(&mut bob, statement).await.sqlstate(), "42501", "{begin}: {statement}");
            run(&mut bob, "ROLLBACK TO s").await;
        }
        run(&mut root, "GRANT SELECT, INSERT ON t TO bob").await;
    }
    run(&mut root, "CREATE ROLE boss SUPERUSER; CREATE ROLE dba IN ROLE boss; CREATE ROLE mgr LOGIN CREATEROLE").await;
    let mut mgr = database.session();
    mgr.connect_as("mgr", "keyspan").expect("mgr may");
    for statement in ["GRANT dba TO mgr", "GRANT boss TO mgr", "ALTER ROLE dba PASSWORD 'x'"] {
        assert_eq!(error(&mut mgr, statement).await.sqlstate(), "42501", "{statement}");
    }
}
