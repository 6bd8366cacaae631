//! Transactions under concurrency: totals are kept, snapshots stand still, increments are not lost.

use keyspan::{Database, Session};
use keyspan_model::{ColumnType, ErrorKind, Value, array};
use keyspan_tests::random::Random;

pub(crate) async fn number(session: &mut Session, sql: &str) -> i64 {
    let batches = session.query(sql, &[]).await.unwrap().collect().await.unwrap();
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
    match array::value_at(batch.column(0), 0, ColumnType::BigInt).unwrap() {
        Value::BigInt(number) => number,
        other => panic!("{other:?}"),
    }
}

async fn accounts(database: &Database) {
    let mut session = database.session();
    session.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint)").await.unwrap();
    for id in 0..10 {
        session.execute(&format!("INSERT INTO account VALUES ({id}, 100)")).await.unwrap();
    }
}

async fn transfer(session: &mut Session, from: usize, to: usize, amount: usize) -> Result<(), keyspan_model::Error> {
    session.execute("BEGIN").await?;
    session.execute(&format!("UPDATE account SET balance = balance - {amount} WHERE id = {from}")).await?;
    session.execute(&format!("UPDATE account SET balance = balance + {amount} WHERE id = {to}")).await?;
    session.execute("COMMIT").await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_transfers_keep_their_total_while_flushes_run() {
    let database = Database::in_memory().unwrap();
    accounts(&database).await;
    let mut tasks = Vec::new();
    for seed in 0..4 {
        let mut session = database.session();
        tasks.push(tokio::spawn(async move {
            let mut random = Random::new(seed);
            let mut done = 0;
            while done < 40 {
                let (from, to) = (random.below(10), random.below(10));
                match transfer(&mut session, from, to, random.below(30)).await {
                    Ok(()) => done += 1,
                    Err(error) => {
                        assert!(matches!(error.kind, ErrorKind::Deadlock | ErrorKind::Serialization), "{error}");
                        session.execute("ROLLBACK").await.unwrap();
                    }
                }
            }
        }));
    }
    let mut reader = database.session();
    while !tasks.iter().all(|task| task.is_finished()) {
        assert_eq!(number(&mut reader, "SELECT sum(balance)::bigint FROM account").await, 1000);
        database.flush().await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&mut reader, "SELECT sum(balance)::bigint FROM account").await, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_sessions_of_fifty_increments_make_two_hundred() {
    let database = Database::in_memory().unwrap();
    accounts(&database).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let mut session = database.session();
        tasks.push(tokio::spawn(async move {
            for _ in 0..50 {
                session.execute("UPDATE account SET balance = balance + 1 WHERE id = 3").await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&mut database.session(), "SELECT balance FROM account WHERE id = 3").await, 300);
}

/// Counters, cells of families and elements of lists: what reads its cell under the row's lock, and what only adds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_and_no_element_is_lost() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE counted (id int PRIMARY KEY, n counter)").await.unwrap();
    let columns = "f family<text, bigint>, l list<int>, s set<int>, m map<text, int>";
    session.execute(&format!("CREATE TABLE wide (id int PRIMARY KEY, {columns})")).await.unwrap();
    session.execute("INSERT INTO wide (id, l) VALUES (1, [-1])").await.unwrap();
    let mut tasks = Vec::new();
    for writer in 0..4 {
        let mut session = database.session();
        tasks.push(tokio::spawn(async move {
            for turn in 0..25 {
                let element = writer * 25 + turn;
                for sql in [
                    "UPDATE counted SET n = n + 1 WHERE id = 1".to_owned(),
                    "UPDATE wide SET f['n'] = coalesce(f['n'], 0) + 1, m['n'] = coalesce(m['n'], 0) + 1 WHERE id = 1"
                        .to_owned(),
                    format!("UPDATE wide SET l = l + [{element}], s = s + {{{element}}} WHERE id = 1"),
                    "BEGIN COUNTER BATCH; UPDATE counted SET n = n + 1 WHERE id = 1; APPLY BATCH".to_owned(),
                ] {
                    session.execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut session = database.session();
    for (sql, wanted) in [
        ("SELECT n FROM counted", 200),
        ("SELECT f['n'] FROM wide", 100),
        ("SELECT m['n']::bigint FROM wide", 100),
        ("SELECT cardinality(l)::bigint FROM wide", 101),
        ("SELECT cardinality(s)::bigint FROM wide", 100),
        ("SELECT sum(e)::bigint FROM (SELECT unnest(l) AS e FROM wide) AS x", 99 * 100 / 2 - 1),
    ] {
        assert_eq!(number(&mut session, sql).await, wanted, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_snapshot_does_not_move() {
    let database = Database::in_memory().unwrap();
    accounts(&database).await;
    let (mut holder, mut writer) = (database.session(), database.session());
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let query = "SELECT sum(balance)::bigint FROM account";
    assert_eq!(number(&mut holder, query).await, 1000);
    writer.execute("UPDATE account SET balance = 0 WHERE id = 1; DELETE FROM account WHERE id = 2").await.unwrap();
    writer.execute("TRUNCATE account").await.unwrap();
    database.compact().await.unwrap();
    assert_eq!(number(&mut holder, query).await, 1000);
    holder.execute("COMMIT").await.unwrap();
    assert_eq!(number(&mut holder, "SELECT count(*) FROM account").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_broken_and_named() {
    let database = Database::in_memory().unwrap();
    accounts(&database).await;
    let (mut one, mut two) = (database.session(), database.session());
    one.execute("BEGIN; UPDATE account SET balance = balance + 1 WHERE id = 1").await.unwrap();
    two.execute("BEGIN; UPDATE account SET balance = balance + 1 WHERE id = 2").await.unwrap();
    let second = tokio::spawn(async move {
        let answer = two.execute("UPDATE account SET balance = balance + 1 WHERE id = 1").await.map(|_| ());
        two.execute("ROLLBACK").await.unwrap();
        answer
    });
    let first = one.execute("UPDATE account SET balance = balance + 1 WHERE id = 2").await.map(|_| ());
    one.execute("ROLLBACK").await.unwrap();
    let failures: Vec<_> = [first, second.await.unwrap()].into_iter().filter_map(Result::err).collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].kind, ErrorKind::Deadlock);
}

/// On a disk, where a change of the catalog waits for its sync while others are made from the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_change_the_catalog_at_once_all_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let mut session = database.session();
            tokio::spawn(async move {
                for round in 0..5 {
                    session.execute(&format!("CREATE TABLE t{task}_{round} (k int PRIMARY KEY, v int)")).await?;
                    session.execute(&format!("CREATE INDEX ON t{task}_{round} (v)")).await?;
                    session.execute(&format!("DROP TABLE t{task}_{round}")).await?;
                }
                Ok::<(), keyspan::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(database.catalog().tables.is_empty());
}
