//! CREATE, ALTER, DROP.

use keyspan_model::Encoding;

use super::{error, open, rows, run, tag};
use crate::Session;

#[tokio::test]
async fn a_column_added_again_is_empty() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    run(&mut s, "INSERT INTO t VALUES (1, 10)").await;
    run(&mut s, "ALTER TABLE t DROP a").await;
    run(&mut s, "ALTER TABLE t ADD a int DEFAULT 7").await;
    run(&mut s, "INSERT INTO t (k) VALUES (2)").await;
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, ["1 NULL", "2 7"]);
    assert_eq!(error(&mut s, "ALTER TABLE t ADD a int").await.sqlstate(), "42701");
    assert_eq!(error(&mut s, "ALTER TABLE t DROP k").await.sqlstate(), "42P16");
    assert_eq!(error(&mut s, "ALTER TABLE t ADD b int NOT NULL").await.sqlstate(), "23502");
}

#[tokio::test]
async fn declaring_mistakes_have_their_codes() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    assert_eq!(error(&mut s, "CREATE TABLE t (a int PRIMARY KEY)").await.sqlstate(), "42P07");
    run(&mut s, "CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY)").await;
    assert_eq!(error(&mut s, "CREATE TABLE u (a int PRIMARY KEY, a text)").await.sqlstate(), "42701");
    assert_eq!(error(&mut s, "CREATE TABLE u (a int, PRIMARY KEY (b))").await.sqlstate(), "42703");
    assert_eq!(error(&mut s, "CREATE TABLE u (a duration PRIMARY KEY)").await.sqlstate(), "42P16");
    assert_eq!(error(&mut s, "CREATE TABLE nowhere.u (a int PRIMARY KEY)").await.sqlstate(), "3F000");
    assert_eq!(error(&mut s, "CREATE TABLE u (a int PRIMARY KEY CHECK (a + 1))").await.sqlstate(), "42804");
}

#[tokio::test]
async fn clustering_order_is_the_order_of_rows() {
    let (database, mut s) = open();
    run(
        &mut s,
        "CREATE TABLE r (site text, ts timestamp, v double, PRIMARY KEY (site, ts)) \
         WITH CLUSTERING ORDER BY (ts DESC) AND compaction = {'class': 'X'} AND default_time_to_live = 0",
    )
    .await;
    run(&mut s, "INSERT INTO r VALUES ('a', '2024-01-01', 1), ('a', '2024-01-02', 2)").await;
    assert_eq!(rows(&mut s, "SELECT v FROM r").await, ["2", "1"]);
    let catalog = database.catalog();
    let table = catalog.table("public", "r").expect("made");
    assert_eq!(table.window, Some(table.columns[1].id));
    assert_eq!(table.options["compaction"], "{'class': 'X'}");
}

#[tokio::test]
async fn an_encoding_is_named_or_cassandras_compression_chooses_it() {
    let (database, mut s) = open();
    let encoding = || database.catalog().table("public", "t").expect("made").rows_relation().encoding;
    for (options, expected) in [
        ("comment = 'plain'", Encoding::Fast),
        ("encoding = 'small'", Encoding::Small),
        ("encoding = fast", Encoding::Fast),
        ("compression = {'class': 'LZ4Compressor'}", Encoding::Fast),
        ("compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 16}", Encoding::Small),
        ("compression = {'class': 'org.apache.cassandra.io.compress.DeflateCompressor'}", Encoding::Small),
        ("compression = {'sstable_compression': 'DeflateCompressor'}", Encoding::Small),
        ("compression = {'class': 'ZstdCompressor', 'enabled': 'false'}", Encoding::Fast),
        ("encoding = 'fast' AND compression = {'class': 'ZstdCompressor'}", Encoding::Fast),
        ("compression = {'class': 'LZ4Compressor'} AND encoding = 'small'", Encoding::Small),
    ] {
        run(&mut s, &format!("CREATE TABLE t (k int PRIMARY KEY, v double) WITH {options}")).await;
        assert_eq!(encoding(), expected, "{options}");
        run(&mut s, "ALTER TABLE t WITH encoding = 'SMALL'").await;
        assert_eq!(encoding(), Encoding::Small);
        run(&mut s, "ALTER TABLE t WITH compression = {'enabled': false}").await;
        assert_eq!(encoding(), Encoding::Small, "it was named");
        run(&mut s, "DROP TABLE t").await;
    }
}

#[tokio::test]
async fn a_small_encoding_holds_for_what_is_written_from_then_on() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a double, b double, c double, d double)").await;
    let mut sizes = Vec::new();
    for encoding in ["fast", "small", "fast"] {
        run(&mut s, &format!("ALTER TABLE t WITH encoding = '{encoding}'")).await;
        // Up or down by one, or neither.
        let walk = "sum(ascii(md5(n::text)) % 3 - 1) OVER (ORDER BY n) % 50";
        let walks = format!("SELECT n, {walk} AS v FROM generate_series(1, 50000) AS g(n)");
        run(&mut s, &format!("INSERT INTO t SELECT n, v, v, v, v FROM ({walks}) AS w")).await;
        run(&mut s, "FLUSH; COMPACT").await;
        let size = rows(&mut s, "SELECT pg_table_size('t')").await;
        sizes.push(size[0].parse::<usize>().expect("bytes"));
    }
    assert!(sizes[1] * 100 < sizes[0].min(sizes[2]) * 95, "{sizes:?}");
}

#[tokio::test]
async fn what_views_need_is_not_dropped() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE m (k int PRIMARY KEY, v int)").await;
    run(&mut s, "INSERT INTO m VALUES (1, 2)").await;
    run(&mut s, "CREATE VIEW w AS SELECT k, v * 2 AS d FROM m").await;
    assert_eq!(rows(&mut s, "SELECT * FROM w").await, ["1 4"]);
    let refused = error(&mut s, "DROP TABLE m").await;
    assert_eq!((refused.sqlstate(), refused.message.contains('w')), ("2BP01", true));
    assert_eq!(error(&mut s, "INSERT INTO w VALUES (1, 1)").await.sqlstate(), "42809");
    assert_eq!(error(&mut s, "CREATE OR REPLACE VIEW w AS SELECT * FROM w").await.sqlstate(), "42P16");
    run(&mut s, "DROP TABLE m CASCADE").await;
    assert_eq!(error(&mut s, "SELECT * FROM w").await.sqlstate(), "42P01");
}

#[tokio::test]
async fn create_table_as_types_its_columns_from_the_query() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE m (k int PRIMARY KEY, v double)").await;
    run(&mut s, "INSERT INTO m VALUES (1, 1.5), (2, 2.5)").await;
    assert_eq!(tag(&mut s, "CREATE TABLE c AS SELECT k, v * 2 AS d FROM m ORDER BY k DESC").await, "SELECT 2");
    assert_eq!(rows(&mut s, "SELECT * FROM c").await, ["2 5", "1 3"]);
}

#[tokio::test]
async fn truncate_leaves_nothing() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY)").await;
    run(&mut s, "INSERT INTO t VALUES (1)").await;
    run(&mut s, "TRUNCATE t").await;
    assert!(rows(&mut s, "SELECT * FROM t").await.is_empty());
}

#[tokio::test]
async fn keyspaces_are_schemas() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE KEYSPACE plant WITH replication = {'class': 'SimpleStrategy'}").await;
    assert_eq!(error(&mut s, "CREATE KEYSPACE plant").await.sqlstate(), "42P06");
    run(&mut s, "CREATE TABLE plant.r (k int PRIMARY KEY)").await;
    assert_eq!(error(&mut s, "SELECT * FROM r").await.sqlstate(), "42P01");
    run(&mut s, "USE plant").await;
    assert!(rows(&mut s, "SELECT * FROM r").await.is_empty());
    assert_eq!(error(&mut s, "DROP SCHEMA plant RESTRICT").await.sqlstate(), "2BP01");
    run(&mut s, "DROP KEYSPACE plant").await;
    assert_eq!(error(&mut s, "DROP KEYSPACE plant").await.sqlstate(), "3F000");
}

#[tokio::test]
async fn a_description_runs_again() {
    let (_database, mut s) = open();
    run(
        &mut s,
        "CREATE TABLE t (a int, b text NOT NULL DEFAULT 'x', PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC)",
    )
    .await;
    let before = rows(&mut s, "SHOW CREATE TABLE t").await;
    run(&mut s, "DROP TABLE t").await;
    run(&mut s, &before[0]).await;
    assert_eq!(rows(&mut s, "SHOW CREATE TABLE t").await, before);
}

#[tokio::test]
async fn a_materialized_view_that_is_no_rollup_says_why() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE reading (sensor text, at timestamp, v int, m map<text, int>, PRIMARY KEY (sensor, at))")
        .await;
    run(&mut s, "CREATE TABLE r (sensor text, at timestamp, v int, PRIMARY KEY (sensor, at))").await;
    run(&mut s, "CREATE TABLE zoned (at timestamptz PRIMARY KEY, v int)").await;
    run(&mut s, "CREATE MATERIALIZED VIEW kept AS SELECT v FROM r").await;
    s.take_notices();
    run(
        &mut s,
        "CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', at) AS b, count(*) AS n FROM r GROUP BY 1",
    )
    .await;
    assert!(s.take_notices().is_empty(), "a rollup has nothing to say");
    let grouped = "SELECT time_bucket('1 hour', at) AS b, count(*) FROM";
    for (query, why) in [
        ("SELECT sensor, v FROM r".to_owned(), "it has no GROUP BY"),
        ("SELECT sensor, sum(v) FROM r GROUP BY sensor".into(), "its GROUP BY has no step of time"),
        ("SELECT time_bucket(5, v) AS b, count(*) FROM r GROUP BY b".into(), "\"v\" is not part of the primary key"),
        ("SELECT sum(v) FROM r GROUP BY time_bucket('1 hour', at)".into(), "is grouped by and not selected"),
        ("SELECT time_bucket('1 hour', r.at) AS b, count(*) FROM r, zoned GROUP BY b".into(), "it has a join"),
        (format!("{grouped} r GROUP BY b LIMIT 3"), "it has ORDER BY or LIMIT"),
        (format!("SELECT b, count(*) FROM ({grouped} r GROUP BY 1) q GROUP BY b"), "it groups twice"),
        ("SELECT time_bucket('1 day', b) AS d, sum(n) FROM hourly GROUP BY d".into(), "it reads a materialized view"),
        (format!("{grouped} r WHERE at < now() GROUP BY b"), "another value at another time"),
        (format!("{grouped} zoned WHERE at > '2024-01-01' GROUP BY b"), "another value at another time"),
        ("SELECT time_bucket('1 hour', at, 'Europe/Berlin') AS b FROM zoned GROUP BY b".into(), "follow a time zone"),
        ("SELECT time_bucket('1 hour', at) AS b, v FROM r GROUP BY b, v".into(), "may be null"),
        (
            "SELECT time_bucket_gapfill('1 hour', at) AS b FROM r \
             WHERE at >= '2024-01-01' AND at < '2024-01-02' GROUP BY b"
                .into(),
            "gapfill",
        ),
        (format!("{grouped} reading GROUP BY b"), "its table has families"),
        ("SELECT time_bucket(5::bigint, rowid) AS b FROM kept GROUP BY b".into(), "it reads a materialized view"),
    ] {
        run(&mut s, &format!("CREATE MATERIALIZED VIEW stored AS {query}")).await;
        let notices = s.take_notices();
        assert!(notices.len() == 1 && notices[0].message.contains(why), "{query}: {notices:?}");
        run(&mut s, "DROP MATERIALIZED VIEW stored").await;
    }
}

#[tokio::test]
async fn what_describe_says_makes_the_same_keyspace_again() {
    let (_database, mut s) = open();
    for statement in [
        "CREATE KEYSPACE shop",
        "USE shop",
        "CREATE TYPE place AS (street text, zip int)",
        "CREATE SEQUENCE numbers START WITH 10 INCREMENT BY 5 CYCLE",
        "CREATE SEQUENCE down AS int INCREMENT BY -1",
        "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 5) PRIMARY KEY, \
         n bigint DEFAULT nextval('numbers'), s serial, v int CONSTRAINT positive CHECK (v > 0), at frozen<place>, \
         f family<text, int> GC max_versions = 3 AND max_age = '30d')",
        "COMMENT ON COLUMN orders.v IS 'it''s a value'",
        "COMMENT ON CONSTRAINT positive ON orders IS 'not less'",
        "COMMENT ON TABLE orders IS 'what was ordered'",
        "ALTER SEQUENCE orders_s_seq INCREMENT BY 3",
        "ALTER SEQUENCE down OWNED BY orders.v",
        "CREATE INDEX by_v ON orders (v)",
        "CREATE VIEW first AS SELECT id, v FROM orders",
        "CREATE VIEW second AS WITH orders AS (SELECT id FROM first) SELECT orders.id, t.v FROM orders \
         JOIN shop.orders t ON t.id = orders.id",
        "CREATE OR REPLACE VIEW first AS SELECT id, v FROM orders WHERE v > 1",
        "CREATE VIEW a_third AS SELECT count(*) FROM second",
        "CREATE OR REPLACE VIEW second AS SELECT first.id, v FROM first",
        "CREATE MATERIALIZED VIEW sums AS SELECT v, count(*) AS n FROM orders GROUP BY v WITH NO DATA",
    ] {
        run(&mut s, statement).await;
    }
    let described = rows(&mut s, "DESCRIBE KEYSPACE shop").await;
    let (_other, mut again) = open();
    for row in &described {
        let statement = row.splitn(4, ' ').nth(3).expect("a statement");
        run(&mut again, statement).await;
    }
    assert_eq!(rows(&mut again, "DESCRIBE KEYSPACE shop").await, described);
    let kind = |kind: &str| described.iter().filter(|row| row.split(' ').nth(1) == Some(kind)).count();
    let kinds = ["keyspace", "type", "sequence", "table", "index", "comment", "view", "materialized_view"];
    assert_eq!(kinds.map(kind), [1, 1, 4, 1, 1, 2, 3, 1], "{described:#?}");
    for (session, numbers) in [(&mut s, "100"), (&mut again, "100")] {
        run(session, "INSERT INTO shop.orders (v) VALUES (2)").await;
        assert_eq!(
            rows(session, "SELECT id, n, s, v FROM shop.second JOIN shop.orders USING (id, v)").await,
            [format!("{numbers} 10 1 2")]
        );
    }
}

#[tokio::test]
async fn options_that_no_program_has_are_told() {
    let (_database, mut s) = open();
    let told = |s: &mut Session| s.take_notices().into_iter().map(|notice| (notice.message, notice.hint)).collect();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY) WITH retentoin = '30d' AND caching = {'keys': 'ALL'}").await;
    let notices: Vec<(String, Option<String>)> = told(&mut s);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0].0, "option \"retentoin\" is stored, but means nothing");
    assert_eq!(notices[0].1.as_deref(), Some("Perhaps you meant \"retention\"."));
    run(&mut s, "ALTER TABLE t WITH shards = 3 AND gc_grace_seconds = 5").await;
    let notices: Vec<(String, Option<String>)> = told(&mut s);
    assert_eq!(notices, [("option \"shards\" is stored, but means nothing".to_owned(), None)]);
}
