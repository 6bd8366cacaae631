//! Gaps across batches of the input and of the answer.

use keyspan_model::{ColumnType, Value};

use crate::testing::{Bench, Rows};

const SECOND: i64 = 1_000_000;

/// A row every 100 seconds for three hosts, the value being the second.
fn bench() -> Bench {
    let mut rows = Vec::new();
    for host in 0..3 {
        for n in 0..100 {
            let at = n * 100 + host * 10;
            rows.push(vec![Value::BigInt(host), Value::Timestamp(at * SECOND), Value::Double(at as f64)]);
        }
    }
    let mut bench = Rows::default();
    let columns =
        [("host", ColumnType::BigInt, 'p'), ("at", ColumnType::Timestamp, 'a'), ("v", ColumnType::Double, '-')];
    bench.create("m", &columns, rows);
    Bench::new(bench)
}

const FILLED: &str = "SELECT time_bucket_gapfill('1 second', at) AS t, host, count(*) AS n, locf(max(v)) AS l, \
     interpolate(max(v)) AS i FROM m WHERE at >= '1970-01-01' AND at < '1970-01-01 02:46:40' GROUP BY 1, 2";

#[tokio::test(flavor = "multi_thread")]
async fn every_group_has_every_bucket_once() {
    let sql = format!(
        "SELECT count(*), count(DISTINCT t), sum(n), count(l), count(i), \
         count(*) FILTER (WHERE abs(i - extract(epoch FROM t)::double precision) > 0.001), \
         count(*) FILTER (WHERE l <> floor((extract(epoch FROM t)::double precision - host * 10) / 100) * 100 + host * 10) \
         FROM ({FILLED}) s"
    );
    let (_, rows) = bench().query(&sql).await.expect("an answer");
    // Host 1 begins 10 seconds late, host 2 20; lines end at their last rows, 9,900 seconds after the first.
    assert_eq!(rows, [["30000", "10000", "300", "29970", "29703", "0", "0"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_the_filling() {
    let sql = "SELECT time_bucket_gapfill('1 microsecond', at) AS t, count(*) FROM m \
         WHERE at >= '1970-01-01' AND at < '2024-01-01' GROUP BY 1 ORDER BY 1 LIMIT 3";
    let (_, rows) = bench().query(sql).await.expect("an answer");
    assert_eq!(rows.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_may_be_parameters() {
    let sql = "SELECT time_bucket_gapfill('1 hour', at) AS t, count(*) FROM m WHERE at >= $1 AND at < $2 GROUP BY 1";
    let bound = |hours: i64| Value::Timestamp(hours * 3600 * SECOND);
    let (_, rows) = bench().query_with(sql, &[bound(-2), bound(4)]).await.expect("an answer");
    let shown: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(shown, ["∅", "∅", "108", "108", "84", "∅"]);
}
