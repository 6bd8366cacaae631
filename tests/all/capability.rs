//! What a store cannot promise is refused by name, and everything else goes on.

use std::sync::Arc;

use keyspan::{Database, Error, Options, Session};
use keyspan_seam::{Accepted, Caps};

use crate::ordered_map::OrderedMap;

fn open(change: impl FnOnce(&mut Caps)) -> (Database, Session) {
    let store = OrderedMap::new(Accepted::default()).with_caps(change);
    let database = Database::with_store(Arc::new(store), Options::default()).unwrap();
    let session = database.session();
    (database, session)
}

async fn refused(session: &mut Session, sql: &str) -> Error {
    let error = session.execute(sql).await.unwrap_err();
    assert_eq!(error.sqlstate(), "0A000", "{sql}: {error}");
    error
}

#[tokio::test]
async fn a_transaction_names_the_capability_that_it_misses() {
    let cases: [(bool, bool, &str); 3] = [
        (false, true, "transactions need snapshots,"),
        (true, false, "transactions need atomic batches,"),
        (false, false, "transactions need snapshots and atomic batches,"),
    ];
    for (snapshots, atomic_batches, expected) in cases {
        let (_database, mut session) = open(|caps| (caps.snapshots, caps.atomic_batches) = (snapshots, atomic_batches));
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        for sql in ["BEGIN", "START TRANSACTION READ ONLY", "INSERT INTO t VALUES (1, 1); BEGIN"] {
            let error = refused(&mut session, sql).await;
            assert!(error.message.starts_with(expected), "{sql}: {error}");
        }
        // No transaction is left behind, and statements of their own go on.
        let outcomes = session.execute("INSERT INTO t VALUES (2, 2), (3, 3); SELECT count(*) FROM t").await.unwrap();
        assert_eq!(outcomes.len(), 2);
    }
}

#[tokio::test]
async fn a_store_with_both_has_transactions() {
    let (_database, mut session) = open(|_| {});
    session.execute("CREATE TABLE t (k int PRIMARY KEY)").await.unwrap();
    session.execute("BEGIN; INSERT INTO t VALUES (1); ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn what_only_the_embedded_store_has_is_refused_by_name() {
    let (database, mut session) = open(|_| {});
    let error = refused(&mut session, "BACKUP DATABASE TO '/a/directory'").await;
    assert_eq!(error.message, "the store of this database has no backups");
    assert_eq!(database.stats().unwrap_err().sqlstate(), "0A000");
    database.flush().await.unwrap();
    database.compact().await.unwrap();
    database.close().unwrap();
}
