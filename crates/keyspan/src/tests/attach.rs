//! Keyspaces of other databases: read beside the own ones, and never written.

use std::sync::Arc;

use keyspan_store::{EmbeddedStore, StoreOptions};

use super::{error, open, rows, run, tag, try_rows};
use crate::Database;

/// A directory with a database of two keyspaces, closed again.
async fn other() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path()).expect("a database");
    let mut s = database.session();
    run(&mut s, "CREATE TYPE place AS (lat double, lon double)").await;
    run(
        &mut s,
        "CREATE TABLE m (host text, ts timestamptz, v double DEFAULT 1, at place, tags set<text>, f family<text, int>,
           PRIMARY KEY (host, ts DESC))",
    )
    .await;
    run(&mut s, "CREATE INDEX by_v ON m (v)").await;
    run(
        &mut s,
        "INSERT INTO m (host, ts, v, tags) SELECT 'h' || g % 4, TIMESTAMPTZ '2024-01-01' + g * INTERVAL '1 minute', g,
           ARRAY['t' || g] FROM generate_series(1, 400) AS s(g)",
    )
    .await;
    run(&mut s, "UPDATE m SET f['q'] = 7, at = {lat: 1, lon: 2} WHERE host = 'h1' AND ts = '2024-01-01 00:01Z'").await;
    run(&mut s, "CREATE KEYSPACE plant; CREATE TABLE plant.line (id serial PRIMARY KEY, name text)").await;
    run(&mut s, "INSERT INTO plant.line (name) VALUES ('north'), ('south')").await;
    run(&mut s, "CREATE VIEW newest AS SELECT host, max(ts) FROM m GROUP BY host").await;
    database.close().expect("closed");
    directory
}

#[tokio::test]
async fn attached_tables_are_read_and_joined() {
    let directory = other().await;
    let path = directory.path().display();
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE m (host text PRIMARY KEY, v int); INSERT INTO m VALUES ('h1', 10), ('h2', 20)").await;
    assert_eq!(tag(&mut s, &format!("ATTACH '{path}' AS old")).await, "ATTACH");
    run(&mut s, &format!("ATTACH DATABASE '{path}' AS factory (KEYSPACE plant, READ_ONLY)")).await;
    assert_eq!(rows(&mut s, "SELECT count(*), sum(v) FROM old.m").await, ["400 80200"]);
    let joined = "SELECT m.host, m.v, max(o.v) FROM m JOIN old.m o USING (host) GROUP BY 1, 2 ORDER BY 1";
    assert_eq!(rows(&mut s, joined).await, ["h1 10 397", "h2 20 398"]);
    let one = "SELECT v, (at).lon, f['q'], tags FROM old.m WHERE host = 'h1' AND ts = '2024-01-01 00:01Z'";
    assert_eq!(rows(&mut s, one).await, ["1 2 7 {t1}"]);
    let newest = "SELECT v FROM old.m WHERE host = 'h3' AND ts > '2024-01-01 06:00Z' ORDER BY ts DESC LIMIT 2";
    assert_eq!(rows(&mut s, newest).await, ["399", "395"]);
    assert_eq!(rows(&mut s, "SELECT host FROM old.m WHERE v = 37").await, ["h1"]);
    assert_eq!(rows(&mut s, "SELECT * FROM factory.line ORDER BY id").await, ["1 north", "2 south"]);
    assert_eq!(rows(&mut s, "USE old; SELECT count(*) FROM m").await, ["400"]);
    run(&mut s, "USE public").await;
    // What a transaction reads stays what it was, and it writes its own tables.
    run(&mut s, "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO m SELECT 'x' || id, id FROM factory.line").await;
    assert_eq!(rows(&mut s, joined).await, ["h1 10 397", "h2 20 398"]);
    run(&mut s, "CREATE TABLE copied AS SELECT host, ts, v, tags FROM old.m WHERE host = 'h0'; COMMIT").await;
    assert_eq!(rows(&mut s, "SELECT count(*), sum(v) FROM copied").await, ["100 20200"]);
    assert_eq!(rows(&mut s, "SELECT count(*) FROM m").await, ["4"]);
}

#[tokio::test]
async fn what_would_change_an_attached_keyspace_is_refused() {
    let directory = other().await;
    let path = directory.path().display();
    let (_database, mut s) = open();
    run(&mut s, &format!("CREATE TABLE own (k int PRIMARY KEY); CREATE ROLE reader; ATTACH '{path}' AS old")).await;
    run(&mut s, &format!("ATTACH '{path}' AS factory (KEYSPACE plant)")).await;
    let mut missed = Vec::new();
    for statement in [
        "INSERT INTO factory.line VALUES (3, 'east')",
        "INSERT INTO factory.line (id, name) SELECT 3, 'east'",
        "UPDATE factory.line SET name = 'x' WHERE id = 1",
        "UPDATE factory.line SET name = 'x'",
        "DELETE FROM factory.line WHERE id = 1",
        "DELETE FROM factory.line",
        "UPDATE old.m SET f['q'] = 8 WHERE host = 'h1' AND ts = '2024-01-01 00:01Z'",
        "MERGE INTO factory.line USING own ON id = k WHEN MATCHED THEN DELETE",
        "TRUNCATE factory.line",
        "DROP TABLE factory.line",
        "ALTER TABLE factory.line ADD size int",
        "ALTER TABLE factory.line RENAME TO lines",
        "CREATE INDEX ON factory.line (name)",
        "DROP INDEX old.by_v",
        "CREATE TABLE old.x (k int PRIMARY KEY)",
        "CREATE TABLE old.x AS SELECT 1 AS k",
        "CREATE SEQUENCE old.numbers",
        "CREATE TYPE old.pair AS (a int, b int)",
        "ALTER TYPE old.place RENAME lat TO latitude",
        "ALTER TYPE old.place ADD height double",
        "ALTER TABLE factory.line OWNER TO reader",
        "ALTER SCHEMA old OWNER TO reader",
        "GRANT SELECT ON factory.line TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA factory TO reader",
        "GRANT USAGE ON SCHEMA old TO reader",
        "COMMENT ON SCHEMA old IS 'x'",
        "COMMENT ON TABLE factory.line IS 'lines'",
        "ALTER SCHEMA old RENAME TO older",
        "DROP SCHEMA old CASCADE",
        "BEGIN; INSERT INTO factory.line VALUES (3, 'east'); COMMIT",
    ] {
        match try_rows(&mut s, statement).await {
            Err(refused) if refused.sqlstate() == "25006" => {}
            other => missed.push(format!("{statement}: {other:?}")),
        }
        let _ = s.execute("ROLLBACK").await;
    }
    assert!(missed.is_empty(), "{missed:#?}");
    for (statement, code) in [
        ("CREATE VIEW v AS SELECT * FROM factory.line", "0A000"),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM factory.line", "0A000"),
        ("CREATE TABLE places AS SELECT host, ts, at FROM old.m", "42P16"),
        ("CREATE TABLE places (k int PRIMARY KEY, at old.place)", "42P16"),
    ] {
        assert_eq!(error(&mut s, statement).await.sqlstate(), code, "{statement}");
    }
    assert_eq!(rows(&mut s, "SELECT count(*) FROM factory.line").await, ["2"]);
    assert_eq!(rows(&mut s, "SELECT count(*) FROM own").await, ["0"]);
    run(&mut s, "CREATE TABLE more (k int PRIMARY KEY); INSERT INTO more VALUES (1)").await;
    assert_eq!(rows(&mut s, "SELECT k FROM more").await, ["1"]);
}

#[tokio::test]
async fn a_detached_keyspace_is_gone_and_its_directory_free() {
    let directory = other().await;
    let path = directory.path().display();
    let (database, mut s) = open();
    let mut second = database.session();
    run(&mut s, "CREATE TABLE m (host text PRIMARY KEY)").await;
    for _ in 0..3 {
        run(&mut s, &format!("ATTACH '{path}' AS old")).await;
        assert_eq!(rows(&mut second, "SELECT count(*) FROM old.m WHERE host = 'h2'").await, ["100"]);
        assert_eq!(tag(&mut s, "DETACH old").await, "DETACH");
        assert_eq!(error(&mut second, "SELECT count(*) FROM old.m WHERE host = 'h2'").await.sqlstate(), "42P01");
        let opened = Database::open(directory.path()).expect("the directory is free");
        let mut direct = opened.session();
        run(&mut direct, "INSERT INTO m (host, ts) VALUES ('h2', '2025-01-01'); DELETE FROM m WHERE host = 'h2' AND ts = '2025-01-01'").await;
        opened.close().expect("closed");
    }
    run(&mut s, &format!("ATTACH '{path}' AS old; ATTACH IF NOT EXISTS '{path}' AS old")).await;
    assert_eq!(error(&mut s, &format!("ATTACH '{path}' AS old")).await.sqlstate(), "42P06");
    assert_eq!(error(&mut s, &format!("ATTACH '{path}' AS public")).await.sqlstate(), "42P06");
    assert_eq!(error(&mut s, &format!("ATTACH '{path}' AS pg_old")).await.sqlstate(), "42939");
    assert_eq!(error(&mut s, &format!("ATTACH '{path}' AS x (KEYSPACE nowhere)")).await.sqlstate(), "3F000");
    assert_eq!(error(&mut s, "ATTACH '/nowhere' AS x").await.sqlstate(), "58030");
    assert_eq!(error(&mut s, "ATTACH 'nowhere' AS x").await.sqlstate(), "42602");
    assert_eq!(error(&mut s, "CREATE SCHEMA old").await.sqlstate(), "42P06");
    assert_eq!(error(&mut s, &format!("BEGIN; ATTACH '{path}' AS x")).await.sqlstate(), "25001");
    run(&mut s, "ROLLBACK; DETACH old; DETACH IF EXISTS old").await;
    assert_eq!(error(&mut s, "DETACH old").await.sqlstate(), "3F000");
    assert_eq!(error(&mut s, "DETACH public").await.sqlstate(), "3F000");
    assert_eq!(rows(&mut s, "SELECT count(*) FROM m").await, ["0"]);
}

/// A transaction goes on reading what was attached when it began; a store may be any.
#[tokio::test]
async fn readers_of_a_detached_keyspace_go_on() {
    let store = EmbeddedStore::in_memory(StoreOptions::default()).expect("a store");
    let theirs = Database::with_store(store.clone(), crate::Options::default()).expect("a database");
    let mut their_session = theirs.session();
    run(&mut their_session, "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await;
    let (database, mut s) = open();
    let attached: Arc<dyn keyspan_seam::Store> = store;
    database.attach_store("live", attached, "public").expect("attached");
    let mut reader = database.session();
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(rows(&mut reader, "SELECT v FROM live.t").await, ["1"]);
    run(&mut their_session, "UPDATE t SET v = 2 WHERE k = 1; ALTER TABLE t ADD w text").await;
    assert_eq!(rows(&mut s, "SELECT * FROM live.t").await, ["1 2 NULL"]);
    assert_eq!(rows(&mut s, "SELECT v FROM live.t WHERE k = 1").await, ["2"]);
    run(&mut s, "DETACH live").await;
    assert_eq!(rows(&mut reader, "SELECT * FROM live.t").await, ["1 1"]);
    run(&mut reader, "COMMIT").await;
    assert_eq!(error(&mut reader, "SELECT * FROM live.t").await.sqlstate(), "42P01");
    // Nothing is left of a keyspace that is dropped where it belongs.
    run(&mut their_session, "DROP TABLE t; CREATE SCHEMA short; CREATE TABLE short.t (k int PRIMARY KEY)").await;
    database.attach_store("live", theirs.store().clone(), "short").expect("attached");
    assert_eq!(rows(&mut s, "SELECT count(*) FROM live.t").await, ["0"]);
    run(&mut their_session, "DROP SCHEMA short CASCADE").await;
    assert_eq!(error(&mut s, "SELECT count(*) FROM live.t").await.sqlstate(), "42P01");
    assert_eq!(rows(&mut s, "SELECT 1").await, ["1"]);
    run(&mut s, "DETACH live").await;
}
