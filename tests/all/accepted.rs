//! Answers do not depend on what a store keeps of a scan: the weak store, in all ways, against the embedded one.

use std::sync::Arc;

use keyspan::{Database, Options};
use keyspan_seam::{Accepted, Store};
use keyspan_tests::target::{State, Target};
use sqllogictest::{AsyncDB, DBOutput};

use crate::ordered_map::OrderedMap;

/// More rows than a batch has, with groups of many rows, in two orders of time.
const FILL: &[&str] = &[
    "CREATE TABLE m (site text, sensor int, ts timestamp, v double, n int, PRIMARY KEY ((site), sensor, ts)) \
     WITH CLUSTERING ORDER BY (sensor ASC, ts DESC)",
    "INSERT INTO m SELECT chr((97 + a % 3)::int), a % 7, '2024-01-01'::timestamp + a * INTERVAL '1 minute', a % 11, a \
     FROM generate_series(1, 2000) s(a)",
    "CREATE TABLE up (k int, ts timestamp, v int, PRIMARY KEY (k, ts))",
    "INSERT INTO up SELECT a % 5, '2024-01-01'::timestamp + a * INTERVAL '1 minute', a \
     FROM generate_series(1, 1000) s(a)",
    "CREATE MATERIALIZED VIEW hourly AS SELECT k, time_bucket('1 hour', ts) AS hour, sum(v) AS total FROM up \
     GROUP BY k, hour",
    "REFRESH MATERIALIZED VIEW hourly",
    "UPDATE m SET v = -1 WHERE site = 'a' AND sensor = 3 AND ts > '2024-01-01 20:00'",
    "DELETE FROM m WHERE site = 'b' AND sensor = 5",
    "DELETE FROM up WHERE v % 97 = 0",
    "INSERT INTO up (k, ts, v) VALUES (9, '2024-01-01 00:30', 1)",
];

const QUERIES: &[&str] = &[
    "SELECT count(*), min(ts), max(ts), min(sensor), sum(n) FROM m",
    "SELECT * FROM m ORDER BY site, sensor, ts DESC",
    "SELECT * FROM m ORDER BY site DESC, sensor DESC, ts LIMIT 7",
    "SELECT * FROM m WHERE site = 'a' AND sensor = 3 ORDER BY ts LIMIT 5",
    "SELECT * FROM m WHERE site = 'a' AND sensor = 3 ORDER BY ts DESC LIMIT 5 OFFSET 3",
    "SELECT n FROM m WHERE site = 'c' AND sensor IN (1, 4) AND ts < '2024-01-01 10:00' ORDER BY sensor, ts DESC",
    "SELECT n FROM m WHERE (site, sensor) > ('a', 5) ORDER BY site, sensor, ts DESC LIMIT 20",
    "SELECT count(*) FROM (SELECT n FROM m LIMIT 150) x",
    "SELECT count(*) FROM (SELECT n FROM m WHERE site = 'a' LIMIT 1500) x",
    "SELECT site, count(*), sum(v), max(n) FROM m GROUP BY site ORDER BY site",
    "SELECT site, sensor, count(*), sum(v), min(ts) FROM m GROUP BY site, sensor ORDER BY site, sensor",
    "SELECT site, sensor, time_bucket('2 hours', ts) AS b, count(*), sum(n) FROM m GROUP BY site, sensor, b \
     ORDER BY 1, 2, 3",
    "SELECT time_bucket('1 hour', ts) AS b, max(v) FROM m WHERE site = 'a' GROUP BY b ORDER BY b DESC LIMIT 3",
    "SELECT k, time_bucket('3 hours', ts) AS b, count(*), avg(v) FROM up WHERE ts >= '2024-01-01 02:00' \
     AND ts < '2024-01-01 11:30' GROUP BY k, b ORDER BY 1, 2",
    "SELECT site, sensor, last(n, ts), first(n, ts) FROM m GROUP BY site, sensor ORDER BY site, sensor",
    "SELECT DISTINCT ON (site, sensor) site, sensor, ts, n FROM m ORDER BY site, sensor, ts DESC",
    "SELECT DISTINCT site, sensor FROM m ORDER BY site, sensor",
    "SELECT * FROM (SELECT site, n, row_number() OVER (PARTITION BY site, sensor ORDER BY ts) AS r FROM m) x \
     WHERE r <= 2 ORDER BY site, n",
    "SELECT k, ts, v - lag(v) OVER (PARTITION BY k ORDER BY ts) AS d FROM up ORDER BY k, ts LIMIT 100",
    "SELECT a.n, b.v FROM m a JOIN up b ON a.ts = b.ts WHERE b.k = 2 ORDER BY a.n, b.v",
    "SELECT a.n, b.v FROM m a ASOF JOIN up b ON a.sensor = b.k AND a.ts >= b.ts WHERE a.site = 'a' ORDER BY a.n",
    "SELECT k, total FROM hourly ORDER BY k, hour",
    "SELECT time_bucket_gapfill('6 hours', ts) AS b, locf(avg(v)) FROM up WHERE k = 9 AND ts >= '2024-01-01' \
     AND ts < '2024-01-02' GROUP BY b ORDER BY b",
    "SELECT k FROM up u WHERE EXISTS (SELECT 1 FROM m WHERE m.sensor = u.k AND m.ts = u.ts) ORDER BY k, ts LIMIT 9",
    "scan 'm', {STARTROW => 'a', LIMIT => 1000000}",
    "SELECT site, n FROM m PER PARTITION LIMIT 1",
    "SELECT n FROM m WHERE site = 'b' AND sensor = 1 AND ts = '2024-01-01 07:01'",
    "SELECT count(*) FROM m WHERE v IS NULL OR site < 'b' AND sensor >= 4",
    "SELECT n, (SELECT max(v) FROM up WHERE k = m.sensor) FROM m WHERE site = 'c' ORDER BY n LIMIT 30",
    "SELECT v FROM up WHERE k = 1 UNION SELECT n FROM m WHERE sensor = 2 ORDER BY 1 DESC LIMIT 40",
    "SELECT site, histogram(v, 0, 10, 5) FROM m GROUP BY site ORDER BY site",
    "SELECT k, array_agg(v ORDER BY ts DESC) FROM up GROUP BY k ORDER BY k",
    "SELECT n, writetime(v) IS NULL, ttl(v) FROM m WHERE site = 'a' AND sensor = 3 ORDER BY ts",
];

async fn answers(database: &Database) -> Vec<Vec<Vec<String>>> {
    let mut target = Target::embedded(database, State::Memtable);
    for sql in FILL {
        target.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let mut answers = Vec::new();
    // The second time the plan comes from the cache; the third time rows of an open transaction lie on top.
    for round in 0..3 {
        if round == 2 {
            target.run("BEGIN").await.unwrap();
            target.run("INSERT INTO up (k, ts, v) VALUES (2, '2024-01-01 00:30', 1)").await.unwrap();
            target.run("DELETE FROM m WHERE site = 'a' AND sensor = 2 AND ts > '2024-01-02'").await.unwrap();
        }
        for sql in QUERIES {
            match target.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")) {
                DBOutput::Rows { mut rows, .. } => {
                    if !sql.contains("ORDER BY") {
                        rows.sort_unstable();
                    }
                    answers.push(rows);
                }
                DBOutput::StatementComplete(_) => panic!("no rows: {sql}"),
                _ => {}
            }
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_store_does_not_keep_is_done_above() {
    let expected = answers(&Database::in_memory().unwrap()).await;
    for kept in 0..32 {
        let of = |bit: u8| kept & bit != 0;
        let accepted = Accepted { spans: of(1), order: of(2), limit: of(4), per_prefix: of(8), ranges: of(16) };
        let database = Database::with_store(Arc::new(OrderedMap::new(accepted)), Options::default()).unwrap();
        for (at, (answer, expected)) in answers(&database).await.iter().zip(&expected).enumerate() {
            let (round, sql) = (at / QUERIES.len(), QUERIES[at % QUERIES.len()]);
            assert!(!expected.is_empty(), "nothing to compare: {sql}");
            assert_eq!(answer, expected, "{accepted:?}, round {round}: {sql}");
        }
    }
}

#[tokio::test]
async fn numbers_of_rows_go_on_where_no_order_tells_the_last() {
    let store: Arc<dyn Store> = Arc::new(OrderedMap::new(Accepted { limit: true, ..Accepted::default() }));
    for rows in [5, 10] {
        let database = Database::with_store(store.clone(), Options::default()).unwrap();
        let mut target = Target::embedded(&database, State::Memtable);
        target.run("CREATE TABLE IF NOT EXISTS t (v int)").await.unwrap();
        target.run("INSERT INTO t VALUES (1), (2), (3), (4), (5)").await.unwrap();
        let DBOutput::Rows { rows: counted, .. } = target.run("SELECT count(*) FROM t").await.unwrap() else {
            panic!()
        };
        assert_eq!(counted, [[rows.to_string()]]);
    }
}
