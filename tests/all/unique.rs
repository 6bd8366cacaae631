//! Unique values under concurrency: of several sessions that write one value, one has it, and every other is told.

use keyspan::{Database, Error, Options, Session, StoreOptions};
use keyspan_model::ErrorKind;
use keyspan_tests::random::Random;

use crate::isolation::number;

/// Rows that share their value with another.
const SHARED: &str = "SELECT (count(email) - count(DISTINCT email))::bigint FROM people";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sessions_that_insert_one_value_at_once_exactly_one_wins() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE people (id int PRIMARY KEY, email text UNIQUE)").await.unwrap();
    for round in 0..40 {
        let mut tasks = Vec::new();
        for number in 0..6 {
            let mut session = database.session();
            tasks.push(tokio::spawn(async move {
                let id = round * 10 + number;
                session.execute(&format!("INSERT INTO people VALUES ({id}, 'e{round}')")).await.map(drop)
            }));
        }
        let mut won = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) => won += 1,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Unique, "{error}");
                    assert_eq!(error.detail.as_deref(), Some(&*format!("Key (email)=(e{round}) already exists.")));
                }
            }
        }
        assert_eq!(won, 1);
    }
    assert_eq!(number(&mut session, "SELECT count(*) FROM people").await, 40);
}

/// One random statement about few rows and values.
async fn step(session: &mut Session, random: &mut Random) -> Result<(), Error> {
    let (id, email) = (random.below(12), random.below(8));
    let sql = match random.below(9) {
        0 => format!("DELETE FROM people WHERE id = {id}"),
        1 => format!("DELETE email FROM people WHERE id = {id}"),
        2 => format!("UPDATE people SET email = 'e{email}' WHERE id = {id}"),
        3 => format!("UPDATE people SET email = 'e{email}' WHERE email = 'e{}'", random.below(8)),
        4 => format!("INSERT INTO people (id, email) SELECT {id}, 'e{email}'"),
        5 => format!("INSERT INTO people (id, email) VALUES ({id}, 'e{email}') ON CONFLICT DO NOTHING"),
        6 => format!(
            "INSERT INTO people (id, email) VALUES ({id}, 'e{email}') ON CONFLICT (email) DO UPDATE SET note = 'again'"
        ),
        7 => format!("INSERT INTO people (id, email) VALUES ({id}, 'e{email}') USING TTL 1"),
        _ => format!("INSERT INTO people (id, email) VALUES ({id}, 'e{email}')"),
    };
    session.execute(&sql).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_rows_have_one_value_whatever_writes_them() {
    let database = Database::in_memory().unwrap();
    let mut reader = database.session();
    reader.execute("CREATE TABLE people (id int PRIMARY KEY, email text UNIQUE, note text)").await.unwrap();
    let mut tasks = Vec::new();
    for seed in 0..4 {
        let mut session = database.session();
        tasks.push(tokio::spawn(async move {
            let mut random = Random::new(seed);
            for _ in 0..150 {
                let block = random.below(4) == 0;
                if block {
                    session.execute("BEGIN").await.unwrap();
                }
                let mut failed = Ok(());
                for _ in 0..if block { 3 } else { 1 } {
                    failed = step(&mut session, &mut random).await;
                    if failed.is_err() {
                        break;
                    }
                }
                if block {
                    let end = if failed.is_ok() && random.below(5) > 0 { "COMMIT" } else { "ROLLBACK" };
                    failed = failed.and(session.execute(end).await.map(drop));
                    if failed.is_err() {
                        session.execute("ROLLBACK").await.unwrap();
                    }
                }
                if let Err(error) = failed {
                    use ErrorKind::{Deadlock, Serialization, Unique};
                    assert!(matches!(error.kind, Unique | Serialization | Deadlock), "{error}");
                }
            }
        }));
    }
    while !tasks.iter().all(|task| task.is_finished()) {
        assert_eq!(number(&mut reader, SHARED).await, 0);
        database.flush().await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&mut reader, SHARED).await, 0);
    // What is there is taken, and what is not there is free.
    for email in 0..8 {
        let there = number(&mut reader, &format!("SELECT count(*) FROM people WHERE email = 'e{email}'")).await;
        let id = 100 + email;
        let inserted = reader.execute(&format!("INSERT INTO people (id, email) VALUES ({id}, 'e{email}')")).await;
        assert_eq!(inserted.is_ok(), there == 0, "e{email}");
    }
}

#[tokio::test]
async fn a_transaction_waits_for_the_value_of_another() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut two) = (database.session(), database.session());
    one.execute("CREATE TABLE people (id int PRIMARY KEY, email text UNIQUE)").await.unwrap();
    for (end, expected) in [("ROLLBACK", true), ("COMMIT", false)] {
        one.execute("BEGIN; INSERT INTO people VALUES (1, 'a')").await.unwrap();
        let waiting = tokio::spawn(async move {
            let result = two.execute("INSERT INTO people VALUES (2, 'a')").await.map(drop);
            (two, result)
        });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        one.execute(end).await.unwrap();
        let (session, result) = waiting.await.unwrap();
        two = session;
        assert_eq!(result.is_ok(), expected, "{result:?}");
        two.execute("DELETE FROM people WHERE id > 0").await.unwrap();
    }
}

#[tokio::test]
async fn a_snapshot_that_cannot_see_the_value_fails_at_its_commit() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut two) = (database.session(), database.session());
    one.execute("CREATE TABLE people (id int PRIMARY KEY, email text UNIQUE)").await.unwrap();
    one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM people").await.unwrap();
    two.execute("INSERT INTO people VALUES (2, 'a')").await.unwrap();
    one.execute("INSERT INTO people VALUES (1, 'a')").await.unwrap();
    assert_eq!(one.execute("COMMIT").await.unwrap_err().sqlstate(), "40001");
}

#[tokio::test]
async fn a_transaction_that_began_before_the_constraint_fails_at_its_commit() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut two) = (database.session(), database.session());
    one.execute("CREATE TABLE people (id int PRIMARY KEY, email text); INSERT INTO people VALUES (1, 'a')")
        .await
        .unwrap();
    one.execute("BEGIN; INSERT INTO people VALUES (2, 'a')").await.unwrap();
    two.execute("ALTER TABLE people ADD UNIQUE (email)").await.unwrap();
    assert_eq!(one.execute("COMMIT").await.unwrap_err().sqlstate(), "40001");
    assert_eq!(number(&mut one, "SELECT count(*) FROM people").await, 1);
    // What it writes after the change has entries, what it has written before has none.
    one.execute("BEGIN; INSERT INTO people VALUES (2, 'z')").await.unwrap();
    two.execute("ALTER TABLE people ADD CONSTRAINT again UNIQUE (email)").await.unwrap();
    one.execute("INSERT INTO people VALUES (3, 'c')").await.unwrap();
    assert_eq!(one.execute("COMMIT").await.unwrap_err().sqlstate(), "40001");
    assert_eq!(number(&mut one, "SELECT count(*) FROM people").await, 1);
}

#[tokio::test]
async fn a_directory_that_is_opened_again_knows_what_is_unique() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { store: StoreOptions::default(), ..Options::default() };
    for round in 0..3 {
        let database = Database::open_with(directory.path(), options()).unwrap();
        let mut session = database.session();
        if round == 0 {
            session.execute("CREATE TABLE people (id int PRIMARY KEY, email text UNIQUE)").await.unwrap();
            session.execute("INSERT INTO people VALUES (1, 'a'), (2, 'b')").await.unwrap();
        }
        let error = session.execute("INSERT INTO people VALUES (3, 'b')").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unique);
        database.flush().await.unwrap();
        drop(session);
        database.close().unwrap();
    }
}
