//! Statements with more rows than are held in memory: COPY, INSERT … SELECT, CREATE TABLE AS.

use arrow::array::RecordBatch;
use keyspan_cql::Statement;
use keyspan_model::Result;
use keyspan_query::QueryOptions;
use keyspan_store::StoreOptions;

use super::{error, open, rows, run, tag, try_rows};
use crate::copy::CopyParser;
use crate::{Copy, CopyIn, Database, Options, Session};

/// Rows that are more than 16 MB, with a key that `{}` makes of their number.
const LARGE: &str = "SELECT {} AS k, a AS v, repeat('x', 500) AS t FROM generate_series(1, 50000) AS s(a)";

fn large(key: &str) -> String {
    LARGE.replace("{}", key)
}

/// A database whose memtables may hold less than one such statement has.
fn small() -> (Database, Session) {
    let store = StoreOptions { memory_budget: 8 << 20, ..StoreOptions::default() };
    let database = Database::in_memory_with(Options { store, ..Options::default() }).expect("a store in memory");
    let session = database.session();
    (database, session)
}

async fn segments(database: &Database) -> usize {
    database.flush().await.expect("flushes");
    database.stats().expect("an embedded store").relations.iter().map(|relation| relation.segments).sum()
}

fn copy_in(session: &mut Session, sql: &str) -> (CopyIn, Copy) {
    let Statement::Copy(copy) = session.parse(sql).expect("parses").remove(0).statement else { panic!("a COPY") };
    (session.copy_in(&copy).expect("begins"), *copy)
}

async fn push(session: &mut Session, target: &mut CopyIn, batches: Result<Vec<RecordBatch>>) -> Result<()> {
    for batch in batches? {
        target.push(session, &batch).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_large_select_is_inserted_in_one_step_and_the_later_row_wins() {
    let (database, mut s) = small();
    run(&mut s, "CREATE TABLE t (k bigint PRIMARY KEY, v bigint CHECK (v > 0), t text)").await;
    run(&mut s, "INSERT INTO t VALUES (7, 1000000, 'old'), (-1, 1, 'kept')").await;
    assert_eq!(tag(&mut s, &format!("INSERT INTO t {} ORDER BY a", large("a % 30000"))).await, "INSERT 0 50000");
    assert!(segments(&database).await > 1);
    let sums = "SELECT count(*), sum(v), min(length(t)) FROM t WHERE k >= 0";
    let later: i64 = (20_001..=50_000).sum();
    assert_eq!(rows(&mut s, sums).await, [format!("30000 {later} 500")]);
    assert_eq!(rows(&mut s, "SELECT v, t FROM t WHERE k = -1").await, ["1 kept"]);
    let failed = error(&mut s, &format!("INSERT INTO t {}", large("a + 0 / (49999 - a)"))).await;
    assert_eq!(failed.sqlstate(), "22012", "at the 49,999th row");
    let failed =
        error(&mut s, &format!("INSERT INTO t (k, t, v) SELECT -a, t, v - 1 FROM ({}) AS x(k, a, t)", large("a")))
            .await;
    assert_eq!(failed.sqlstate(), "42703");
    let failed = error(&mut s, "INSERT INTO t SELECT -k - 10, v - 20001, t || t FROM t WHERE k >= 0").await;
    assert_eq!(failed.sqlstate(), "23514", "one row breaks the CHECK");
    assert_eq!(rows(&mut s, sums).await, [format!("30000 {later} 500")]);
    assert_eq!(rows(&mut s, "SELECT count(*) FROM t").await, ["30001"]);
}

#[tokio::test]
async fn a_transaction_takes_large_statements_as_any_other() {
    let (database, mut s) = small();
    run(&mut s, "CREATE TABLE t (k bigint PRIMARY KEY, v bigint, t text)").await;
    run(&mut s, "BEGIN; INSERT INTO t VALUES (1, 5, 'first')").await;
    run(&mut s, &format!("INSERT INTO t {}", large("a"))).await;
    run(&mut s, "UPDATE t SET v = 77 WHERE k = 1; SAVEPOINT a").await;
    run(&mut s, &format!("INSERT INTO t {}", large("-a"))).await;
    assert_eq!(rows(&mut s, "SELECT count(*), max(v) FILTER (WHERE k = 1) FROM t").await, ["100000 77"]);
    run(&mut s, "ROLLBACK TO SAVEPOINT a").await;
    assert_eq!(rows(&mut s, "SELECT count(*), min(k) FROM t").await, ["50000 1"]);
    let mut other = database.session();
    assert_eq!(rows(&mut other, "SELECT count(*) FROM t").await, ["0"]);
    run(&mut s, "COMMIT").await;
    assert_eq!(rows(&mut other, "SELECT count(*), max(v) FILTER (WHERE k = 1) FROM t").await, ["50000 77"]);
    run(&mut s, "BEGIN; DELETE FROM t WHERE k = 2").await;
    run(&mut s, &format!("INSERT INTO t {}", large("a"))).await;
    run(&mut s, "ROLLBACK").await;
    run(&mut s, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    run(&mut s, "SELECT count(*) FROM t").await;
    run(&mut s, &format!("INSERT INTO t {}", large("a"))).await;
    run(&mut other, "UPDATE t SET v = 1 WHERE k = 3").await;
    assert_eq!(error(&mut s, "COMMIT").await.sqlstate(), "40001");
    assert_eq!(rows(&mut s, "SELECT v FROM t WHERE k = 3").await, ["1"]);
}

#[tokio::test]
async fn a_large_table_is_made_with_its_rows_or_not_at_all() {
    let (database, mut s) = small();
    assert_eq!(tag(&mut s, &format!("CREATE TABLE t AS {}", large("a"))).await, "SELECT 50000");
    assert!(segments(&database).await > 0);
    assert_eq!(rows(&mut s, "SELECT count(*), sum(v), count(DISTINCT k) FROM t").await, ["50000 1250025000 50000"]);
    error(&mut s, &format!("CREATE TABLE u AS {}", large("a / (a - 49999)"))).await;
    assert_eq!(error(&mut s, "SELECT * FROM u").await.sqlstate(), "42P01");
    run(&mut s, &format!("BEGIN; CREATE TABLE u PRIMARY KEY (k) AS {}", large("a"))).await;
    run(&mut s, "DELETE FROM u WHERE k = 5; INSERT INTO u VALUES (0, 0, 'own')").await;
    assert_eq!(rows(&mut s, "SELECT count(*), min(t) FROM u").await[0][..9], *"50000 own");
    run(&mut s, "COMMIT").await;
    assert_eq!(rows(&mut s, "SELECT count(*), min(k) FROM u").await, ["50000 0"]);
    let before = segments(&database).await;
    run(&mut s, &format!("BEGIN; CREATE TABLE w AS {}; ROLLBACK", large("a"))).await;
    assert_eq!(segments(&database).await, before);
}

#[tokio::test]
async fn upkeep_ends_with_its_timeout_and_the_session_goes_on() {
    let (_database, mut s) = open();
    for statement in ["FLUSH", "COMPACT"] {
        run(&mut s, &format!("CREATE TABLE {statement}ed AS {}", large("a"))).await;
        // What goes on by itself may have left nothing to do, or it may be done in a millisecond: not ten times.
        let mut ended = false;
        for _ in 0..10 {
            run(&mut s, &format!("INSERT INTO {statement}ed SELECT * FROM {statement}ed WHERE k < 20000 LIMIT 19999"))
                .await;
            run(&mut s, "SET statement_timeout = 1").await;
            let outcome = try_rows(&mut s, statement).await;
            run(&mut s, "SET statement_timeout = 0").await;
            if let Err(error) = outcome {
                assert_eq!(error.sqlstate(), "57014", "{statement}");
                ended = true;
                break;
            }
        }
        assert!(ended, "{statement} is always done in a millisecond");
        assert_eq!(rows(&mut s, &format!("SELECT (count(*) >= 69999)::int FROM {statement}ed")).await, ["1"]);
    }
}

#[tokio::test]
async fn an_error_in_the_last_row_of_a_large_copy_leaves_nothing() {
    let (database, mut s) = small();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    for last in ["x\toops\n", "50000\tfine\n"] {
        let (mut target, copy) = copy_in(&mut s, "COPY t FROM STDIN");
        let columns =
            [("k".to_string(), keyspan_model::ColumnType::Int), ("v".into(), keyspan_model::ColumnType::Text)];
        let mut parser = CopyParser::new("t", &columns, &copy.options, "UTC").expect("a parser");
        for number in 0..50_000 {
            let line = format!("{number}\t{}\n", "y".repeat(500));
            let batches = parser.push(line.as_bytes()).await;
            push(&mut s, &mut target, batches).await.expect("rows");
        }
        let pushed = parser.push(last.as_bytes()).await;
        push(&mut s, &mut target, pushed).await.expect("rows");
        let batches = parser.finish().await;
        match push(&mut s, &mut target, batches).await {
            Ok(()) => assert_eq!(target.finish(&mut s).await.expect("commits"), 50_001),
            Err(error) => assert_eq!(error.sqlstate(), "22P02"),
        }
        let expected = if last.starts_with('x') { ["0"] } else { ["50001"] };
        assert_eq!(rows(&mut s, "SELECT count(*) FROM t").await, expected);
    }
    assert!(segments(&database).await > 0);
}

#[tokio::test]
async fn of_one_key_in_two_batches_of_a_small_copy_the_later_row_wins() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    let (mut target, _) = copy_in(&mut s, "COPY t FROM STDIN");
    for value in [9, 1] {
        let column = |value| std::sync::Arc::new(arrow::array::Int32Array::from(vec![value])) as arrow::array::ArrayRef;
        let batch = RecordBatch::try_new(target.schema().clone(), vec![column(3), column(value)]).expect("a batch");
        target.push(&mut s, &batch).await.expect("a row");
    }
    target.finish(&mut s).await.expect("commits");
    assert_eq!(rows(&mut s, "SELECT v FROM t").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_spill_beyond_the_memory_of_queries_and_what_cannot_fails() {
    let query = QueryOptions { memory_limit: 12 << 20, ..QueryOptions::default() };
    let database = Database::in_memory_with(Options { query, ..Options::default() }).expect("a store in memory");
    let mut s = database.session();
    run(&mut s, &format!("CREATE TABLE t AS {}", large("a"))).await;
    let sorted = "SELECT count(*), min(r - v) FROM (SELECT v, row_number() OVER (ORDER BY t, v) AS r FROM t) AS x";
    assert_eq!(rows(&mut s, sorted).await, ["50000 0"]);
    let failed = error(&mut s, "SELECT count(*) FROM t AS a JOIN t AS b ON a.t || a.v = b.t || b.v").await;
    assert_eq!(failed.sqlstate(), "53200", "{failed}");
    assert!(failed.hint.expect("a hint").contains("--memory"));
    assert_eq!(rows(&mut s, "SELECT count(*) FROM t").await, ["50000"]);
}

#[tokio::test]
async fn a_copy_into_a_partition_that_is_too_large_is_refused() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE p (k text, n int, PRIMARY KEY (k, n))").await;
    run(&mut s, "INSERT INTO p SELECT 'a', g FROM generate_series(1, 9000) AS s(g)").await;
    run(&mut s, "SET partition_size_fail = '64kB'").await;
    for (key, fits) in [("a", false), ("b", true)] {
        let (mut target, copy) = copy_in(&mut s, "COPY p FROM STDIN");
        let columns =
            [("k".to_string(), keyspan_model::ColumnType::Text), ("n".into(), keyspan_model::ColumnType::Int)];
        let mut parser = CopyParser::new("p", &columns, &copy.options, "UTC").expect("a parser");
        let mut batches = parser.push(format!("{key}\t-1\n").as_bytes()).await.expect("a row");
        batches.extend(parser.finish().await.expect("a row"));
        push(&mut s, &mut target, Ok(batches)).await.expect("taken");
        let done = target.finish(&mut s).await.map_err(|error| error.sqlstate());
        assert_eq!(done, if fits { Ok(1) } else { Err("54000") }, "{key}");
    }
}
