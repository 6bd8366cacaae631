//! Temporary tables of several sessions: each has its own, and none outlives its session.

use std::time::{Duration, Instant};

use keyspan::{Database, Session};
use keyspan_model::schema::temporary::is_temporary;

async fn rows(session: &mut Session, sql: &str) -> usize {
    let batches = session.query(sql, &[]).await.unwrap().collect().await.unwrap();
    batches.iter().map(|batch| batch.num_rows()).sum()
}

fn keyspaces(database: &Database) -> usize {
    database.catalog().keyspaces.keys().filter(|keyspace| is_temporary(keyspace)).count()
}

#[tokio::test]
async fn each_session_has_its_own_and_they_go_with_it() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut two) = (database.session(), database.session());
    for (session, rows) in [(&mut one, 1), (&mut two, 2)] {
        session.execute("CREATE TEMP TABLE t (k int PRIMARY KEY)").await.unwrap();
        session.execute(&format!("INSERT INTO t SELECT n FROM generate_series(1, {rows}) AS s(n)")).await.unwrap();
    }
    assert_eq!((rows(&mut one, "SELECT * FROM t").await, rows(&mut two, "SELECT * FROM t").await), (1, 2));
    assert_eq!(keyspaces(&database), 2);
    // What belongs to another is not there, under no name.
    let listed = "SELECT relname FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'";
    assert_eq!(rows(&mut one, listed).await, 1);
    let all =
        database.catalog().keyspaces.keys().filter(|keyspace| is_temporary(keyspace)).cloned().collect::<Vec<_>>();
    assert_eq!(all.len(), 2);
    let mut readable = 0;
    for keyspace in &all {
        readable += usize::from(one.execute(&format!("SELECT * FROM {keyspace}.t")).await.is_ok());
        readable += usize::from(one.execute(&format!("INSERT INTO {keyspace}.t VALUES (9)")).await.is_ok());
        readable += usize::from(one.execute(&format!("DROP TABLE {keyspace}.t")).await.is_ok());
    }
    assert_eq!(readable, 3, "its own alone");
    assert_eq!(rows(&mut two, "SELECT * FROM t").await, 2);
    drop((one, two));
    let begun = Instant::now();
    while keyspaces(&database) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the tables of a session that is gone stay");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rows(&mut database.session(), listed).await, 0);
}

#[tokio::test]
async fn what_is_left_over_goes_when_the_database_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    let mut session = database.session();
    session.execute("CREATE TEMP TABLE t (k int PRIMARY KEY); CREATE TABLE stays (k int PRIMARY KEY)").await.unwrap();
    session.execute("INSERT INTO t VALUES (1); INSERT INTO stays VALUES (1)").await.unwrap();
    // As after kill -9: the session has not ended when the database is closed.
    database.close().unwrap();
    drop(session);
    drop(database);
    let database = Database::open(folder.path()).unwrap();
    assert_eq!(keyspaces(&database), 0);
    let mut session = database.session();
    assert_eq!(session.execute("SELECT * FROM t").await.unwrap_err().sqlstate(), "42P01");
    assert_eq!(rows(&mut session, "SELECT * FROM stays").await, 1);
    database.close().unwrap();
}
