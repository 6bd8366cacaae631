//! Queries end to end on the test store: answers, labels, plans, errors.

use keyspan_model::{ColumnType, Value};
use keyspan_seam::Accepted;

use crate::testing::{Bench, Rows, expression};

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// 3 sites × 4 sensors × 10 instants.
fn readings() -> Rows {
    let mut rows = Rows::default();
    let mut data = Vec::new();
    for site in ["a", "b", "c"] {
        for sensor in 0..4 {
            for hour in 0..10_i64 {
                let heat = if hour == 3 { Value::Null } else { Value::Double(hour as f64 * 1.5 + f64::from(sensor)) };
                data.push(vec![
                    text(site),
                    Value::Int(sensor),
                    Value::Timestamp(hour * 3_600_000_000),
                    heat,
                    text("x"),
                ]);
            }
        }
    }
    let columns = [
        ("site", ColumnType::Text, 'p'),
        ("sensor", ColumnType::Int, 'p'),
        ("ts", ColumnType::Timestamp, 'd'),
        ("heat", ColumnType::Double, '-'),
        ("note", ColumnType::Text, '-'),
    ];
    rows.create("readings", &columns, data);
    rows
}

fn first(rows: &[Vec<String>], column: usize) -> Vec<&str> {
    rows.iter().map(|row| row[column].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_key_order_even_from_many_splits() {
    let bench = Bench::new(Rows { claimed: Some(1_000_000), ..readings() });
    let (_, rows) = bench.query("SELECT ts FROM readings WHERE site = 'b' AND sensor = 2 LIMIT 3").await.expect("rows");
    assert_eq!(first(&rows, 0), ["1970-01-01 09:00:00+00", "1970-01-01 08:00:00+00", "1970-01-01 07:00:00+00"]);
    let (_, rows) = bench.query("SELECT site, sensor, ts FROM readings WHERE heat > 2").await.expect("rows");
    let mut sorted = rows.clone();
    sorted.sort_by(|a, b| (&a[0], &a[1]).cmp(&(&b[0], &b[1])).then(b[2].cmp(&a[2])));
    assert_eq!(rows, sorted);
    assert!(rows.len() > 50);
}

#[tokio::test]
async fn sorts_along_the_key_need_no_sort() {
    let bench = Bench::new(readings());
    for (sql, order) in [
        ("SELECT * FROM readings ORDER BY site, sensor, ts DESC", "order=forward"),
        ("SELECT * FROM readings ORDER BY site DESC, sensor DESC, ts", "order=reverse"),
        ("SELECT ts FROM readings WHERE site = 'a' AND sensor = 1 ORDER BY ts DESC LIMIT 5", "order=forward"),
        (
            "SELECT ts AS t FROM readings WHERE site = 'a' AND sensor = 1 AND heat > 1 ORDER BY t LIMIT 5",
            "order=reverse",
        ),
        ("SELECT ts FROM readings WHERE site = 'a' ORDER BY sensor, ts DESC", "order=forward"),
    ] {
        let plan = bench.explain(sql, false).await.expect("a plan");
        assert!(plan.contains(order) && !plan.contains("Sort"), "{sql}\n{plan}");
    }
    for sql in [
        "SELECT * FROM readings ORDER BY site, ts",
        "SELECT * FROM readings ORDER BY site, sensor DESC",
        "SELECT * FROM readings ORDER BY heat",
    ] {
        let plan = bench.explain(sql, false).await.expect("a plan");
        assert!(plan.contains("Sort:"), "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorted_answers_are_the_same_with_and_without_elimination() {
    for claimed in [None, Some(1_000_000)] {
        let bench = Bench::new(Rows { claimed, ..readings() });
        for (fast, slow) in [
            ("site, sensor, ts DESC", "site || '', sensor + 0, ts DESC"),
            ("site DESC, sensor DESC, ts", "site || '' DESC, sensor + 0 DESC, ts"),
        ] {
            for limit in ["", " LIMIT 17", " LIMIT 5 OFFSET 9"] {
                let with = |order: &str| {
                    format!("SELECT site, sensor, ts FROM readings WHERE heat <> 3 ORDER BY {order}{limit}")
                };
                let fast = bench.query(&with(fast)).await.expect("rows");
                assert_eq!(fast, bench.query(&with(slow)).await.expect("rows"), "{limit} {claimed:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_prefixes_are_merged_in_the_order_of_what_follows() {
    for claimed in [None, Some(1_000_000)] {
        let bench = Bench::new(Rows { claimed, ..readings() });
        let with = |order: &str| {
            format!("SELECT ts, sensor FROM readings WHERE site = 'a' AND sensor IN (0, 1, 3) ORDER BY {order} LIMIT 7")
        };
        let plan = bench.explain(&with("ts"), false).await.expect("a plan");
        assert!(plan.contains("merged_spans=3") && plan.contains("limit=7") && !plan.contains("Sort:"), "{plan}");
        let instants = |rows: Vec<Vec<String>>| rows.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>();
        for order in ["ts", "ts DESC"] {
            let merged = bench.query(&with(order)).await.expect("rows").1;
            let sorted = bench.query(&with(&order.replace("ts", "ts + INTERVAL '0 s'"))).await.expect("rows").1;
            assert_eq!(instants(merged), instants(sorted), "{order}");
        }
    }
}

#[tokio::test]
async fn explain_names_spans_filter_and_limit() {
    let bench = Bench::new(readings());
    let sql =
        "SELECT ts FROM readings WHERE site = 'a' AND sensor IN (1, 2) AND ts >= '1970-01-01 03:00:00Z' AND heat > 2";
    let plan = bench.explain(sql, false).await.expect("a plan");
    assert!(
        plan.contains("spans=[('a', 1, [1970-01-01 03:00:00+00 ..)), ('a', 2, [1970-01-01 03:00:00+00 ..))]"),
        "{plan}"
    );
    assert!(plan.contains("filter=heat > 2"), "{plan}");
    let plan = bench.explain(sql, true).await.expect("a plan");
    assert!(plan.contains("rows_read=14") && plan.contains("Execution Time"), "{plan}");
}

#[tokio::test]
async fn labels_are_postgres_and_may_repeat() {
    let bench = Bench::new(readings());
    for (sql, labels) in [
        ("SELECT site, site FROM readings LIMIT 1", vec!["site", "site"]),
        ("SELECT 1, 1", vec!["?column?", "?column?"]),
        ("SELECT *, site FROM readings LIMIT 1", vec!["site", "sensor", "ts", "heat", "note", "site"]),
        ("SELECT avg(heat), avg(heat), max(ts) AS m FROM readings", vec!["avg", "avg", "m"]),
        ("SELECT r.site, s.site FROM readings r, readings s LIMIT 1", vec!["site", "site"]),
        ("SELECT avg FROM (SELECT avg(heat) FROM readings) s", vec!["avg"]),
        ("SELECT count(*), sensor FROM readings GROUP BY sensor ORDER BY count, sensor", vec!["count", "sensor"]),
        ("SELECT * FROM (SELECT site, site FROM readings LIMIT 1) s", vec!["site", "site"]),
        ("SELECT site AS a, sensor AS a FROM readings ORDER BY 1 LIMIT 1", vec!["a", "a"]),
        ("SELECT 1 AS x UNION ALL SELECT 2 ORDER BY x", vec!["x"]),
        ("VALUES (1, 2) UNION ALL SELECT 3 AS x, 4 AS y ORDER BY column2", vec!["column1", "column2"]),
    ] {
        let answer = bench.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(answer.0, labels, "{sql}");
    }
}

#[tokio::test]
async fn pseudo_columns_exist_when_mentioned_and_hide_from_star() {
    let mut rows = readings();
    rows.create(
        "heap",
        &[("rowid", ColumnType::BigInt, 'r'), ("v", ColumnType::Int, '-')],
        vec![vec![Value::BigInt(2), Value::Int(7)], vec![Value::BigInt(1), Value::Int(8)]],
    );
    let bench = Bench::new(rows);
    let (labels, found) = bench
        .query("SELECT row_key, WRITETIME(heat), r.* FROM readings r WHERE row_key LIKE 'b#3#%' LIMIT 1")
        .await
        .expect("rows");
    assert_eq!(labels, ["row_key", "writetime(heat)", "site", "sensor", "ts", "heat", "note"]);
    assert_eq!(found[0][..3], ["b#3#1970-01-01 09:00:00+00", "1000", "b"]);
    let plan =
        bench.explain("SELECT heat FROM readings WHERE starts_with(row_key, 'b#3#')", false).await.expect("plan");
    assert!(plan.contains("spans=[('b', 3)]") && !plan.contains("filter"), "{plan}");
    let (labels, found) = bench.query("SELECT * FROM heap WHERE rowid > 0").await.expect("rows");
    assert_eq!((labels, found), (vec!["v".to_owned()], vec![vec!["8".to_owned()], vec!["7".to_owned()]]));
}

#[tokio::test]
async fn per_partition_limit_takes_the_first_rows_of_each() {
    use datafusion::sql::sqlparser::ast;
    let bench = Bench::new(readings());
    let mut query = crate::testing::parse("SELECT site, sensor, ts FROM readings WHERE heat < 10").expect("a query");
    query.settings = Some(vec![ast::Setting { key: ast::Ident::new("per_partition_limit"), value: expression("1") }]);
    let planned = bench.session.plan(&query, &bench.context).await.expect("a plan");
    let stream = bench.session.execute(&planned, &[], &bench.context).await.expect("a stream");
    let batches: Vec<_> = futures::TryStreamExt::try_collect(stream).await.expect("rows");
    assert_eq!(batches.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_rows_of_each_series_are_skipped_to() {
    let bench = Bench::new(readings());
    let numbered = |filter: &str| {
        format!(
            "SELECT site, sensor, ts FROM (SELECT *, row_number() OVER (PARTITION BY site, sensor ORDER BY ts DESC) AS n \
             FROM readings {filter}) r WHERE n <= 2"
        )
    };
    // Hours 9 and 8 are the newest of each series, hour 0 the oldest.
    for (sql, rows, instants) in [
        (
            "SELECT DISTINCT ON (site, sensor) site, sensor, ts FROM readings ORDER BY site, sensor, ts DESC"
                .to_owned(),
            12,
            vec!["09"],
        ),
        (
            "SELECT DISTINCT ON (site, sensor) site, sensor, ts FROM readings ORDER BY site, sensor, ts".to_owned(),
            12,
            vec!["00"],
        ),
        (
            "SELECT site, sensor, max(ts), last_value(heat ORDER BY ts) FROM readings GROUP BY site, sensor".to_owned(),
            12,
            vec!["09"],
        ),
        (numbered(""), 24, vec!["08", "09"]),
        (numbered("WHERE site = 'b'"), 8, vec!["08", "09"]),
    ] {
        let plan = bench.explain(&sql, false).await.expect("a plan");
        assert!(plan.contains("rows_per=[site, sensor]"), "{sql}\n{plan}");
        let found = bench.query(&sql).await.expect("rows").1;
        assert_eq!(found.len(), rows, "{sql}");
        let mut hours: Vec<&str> = first(&found, 2).into_iter().map(|instant| &instant[11..13]).collect();
        hours.sort_unstable();
        hours.dedup();
        assert_eq!(hours, instants, "{sql}");
    }
    // A filter that the spans do not answer would drop rows that were counted; two ends are two scans.
    for sql in [
        numbered("WHERE heat < 10"),
        "SELECT site, sensor, min(ts), max(ts) FROM readings GROUP BY site, sensor".to_owned(),
        "SELECT site, sensor, max(ts), count(*) FROM readings GROUP BY site, sensor".to_owned(),
        "SELECT sensor, max(ts) FROM readings GROUP BY sensor".to_owned(),
    ] {
        let plan = bench.explain(&sql, false).await.expect("a plan");
        assert!(!plan.contains("rows_per"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn parameters_are_typed_bound_and_pushed() {
    let bench = Bench::new(readings());
    let sql = "SELECT heat FROM readings WHERE site = $1 AND sensor = $2 AND ts < $3";
    let planned = bench.session.plan(&crate::testing::parse(sql).expect("sql"), &bench.context).await.expect("a plan");
    assert_eq!(planned.parameters, [ColumnType::Text, ColumnType::Int, ColumnType::Timestamp]);
    let values = [text("a"), Value::Int(1), Value::Timestamp(7_200_000_000)];
    let (_, rows) = bench.query_with(sql, &values).await.expect("rows");
    assert_eq!(rows, [["2.5"], ["1"]]);
    let lines = bench.session.explain(&planned, &values, &bench.context, crate::ExplainOptions::default()).await;
    let lines = lines.expect("lines").join("\n");
    assert!(lines.contains("('a', 1, (.. 1970-01-01 02:00:00+00))") && !lines.contains("filter"), "{lines}");
}

#[tokio::test]
async fn errors_have_postgres_states_and_hints() {
    let bench = Bench::new(readings());
    for (sql, state, hint) in [
        ("SELECT * FROM reading", "42P01", "Perhaps you meant \"readings\"."),
        ("SELECT heatt FROM readings", "42703", "Perhaps you meant to reference the column \"readings.heat\"."),
        ("SELECT x.heat FROM readings", "42P01", ""),
        ("SELECT lowr(site) FROM readings", "42883", "Perhaps you meant \"lower\"."),
        ("SELECT site, count(*) FROM readings", "42803", ""),
        ("SELECT site FROM readings r, readings s", "42702", ""),
        ("SELECT 1 / 0", "22012", ""),
        ("SELECT (SELECT sensor FROM readings)", "21000", ""),
        ("SELECT sensor / (sensor - sensor) FROM readings", "22012", ""),
        ("SELECT 'x'::int", "22P02", ""),
    ] {
        let error = bench.query(sql).await.expect_err(sql);
        assert_eq!(error.sqlstate(), state, "{sql}: {error:?}");
        if !hint.is_empty() {
            assert_eq!(error.hint.as_deref(), Some(hint), "{sql}");
        }
    }
    let error = bench.query("SELECT heatt FROM readings").await.expect_err("no such column");
    assert_eq!(error.position, Some(8));
}

#[tokio::test]
async fn expressions_compile_over_two_inputs() {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::Schema;
    use std::sync::Arc;
    let bench = Bench::new(readings());
    let schema = Arc::new(Schema::new(vec![ColumnType::BigInt.field("x", true)]));
    let (sum, test) = (expression("x.x + excluded.x * $1"), expression("x.x > 1 AND now() IS NOT NULL"));
    let input = [("x", schema.clone()), ("excluded", schema.clone())];
    let compiled = bench.session.expression(&[&sum, &test], &input, &bench.context).expect("compiled");
    assert_eq!(compiled.types(), [ColumnType::BigInt, ColumnType::Boolean]);
    let both = Arc::new(Schema::new(vec![ColumnType::BigInt.field("x", true), ColumnType::BigInt.field("x", true)]));
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values));
    let batch = RecordBatch::try_new(both, vec![column(vec![1, 2]), column(vec![10, 20])]).expect("a batch");
    let arrays = compiled.evaluate(&batch, &[Value::BigInt(3)]).expect("arrays");
    assert_eq!(format!("{:?}", arrays[0]), format!("{:?}", column(vec![31, 62])));
    let queried = expression("(SELECT 1)");
    assert_eq!(bench.session.expression(&[&queried], &input, &bench.context).expect_err("refused").sqlstate(), "0A000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_aggregates_windows_and_sets_run() {
    let bench = Bench::new(Rows { claimed: Some(1_000_000), ..readings() });
    for (sql, count) in [
        ("SELECT site, avg(heat) FROM readings GROUP BY site", 3),
        ("SELECT DISTINCT ON (site, sensor) * FROM readings ORDER BY site, sensor, ts DESC", 12),
        ("SELECT a.ts FROM readings a JOIN readings b ON a.site = b.site AND a.sensor = b.sensor AND a.ts = b.ts", 120),
        ("SELECT ts, lag(heat) OVER (PARTITION BY site, sensor ORDER BY ts) FROM readings", 120),
        ("SELECT site FROM readings UNION SELECT 'z'", 4),
        ("SELECT * FROM readings WHERE heat = (SELECT max(heat) FROM readings)", 3),
        ("SELECT * FROM readings r WHERE EXISTS (SELECT 1 FROM readings s WHERE s.site = r.site AND s.sensor = 9)", 0),
        ("WITH c AS (SELECT site, max(heat) AS m FROM readings GROUP BY site) SELECT * FROM c ORDER BY m", 3),
        ("SELECT count(*) FROM readings WHERE site > 'a'", 1),
    ] {
        let rows = bench.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).1;
        assert_eq!(rows.len(), count, "{sql}");
    }
    assert_eq!(bench.query("SELECT count(*) FROM readings WHERE site > 'a'").await.expect("a count").1, [["80"]]);
}

/// Queries that a store may help with: by spans, an order, a limit, or the first rows of each prefix.
const HELPED: [&str; 14] = [
    "SELECT count(*) FROM readings",
    "SELECT count(*), max(heat) FROM readings WHERE site = 'b'",
    "SELECT * FROM readings WHERE site = 'b' AND sensor = 2 AND ts > '1970-01-01 04:00' ORDER BY ts",
    "SELECT site, sensor, ts FROM readings WHERE site IN ('a', 'c') AND sensor = 1 ORDER BY ts, site LIMIT 5",
    "SELECT site, sensor, ts FROM readings ORDER BY site, sensor, ts DESC LIMIT 7",
    "SELECT site, sensor, ts FROM readings ORDER BY site DESC, sensor DESC, ts LIMIT 7 OFFSET 3",
    "SELECT count(*) FROM (SELECT * FROM readings WHERE site = 'a' LIMIT 5) r",
    "SELECT site, sensor, last_value(heat ORDER BY ts) FROM readings GROUP BY site, sensor ORDER BY site, sensor",
    "SELECT site, sensor, max(ts) FROM readings WHERE site > 'a' GROUP BY site, sensor ORDER BY site, sensor",
    "SELECT DISTINCT ON (site, sensor) site, sensor, ts, heat FROM readings ORDER BY site, sensor, ts DESC",
    "SELECT * FROM (SELECT site, sensor, ts, row_number() OVER (PARTITION BY site, sensor ORDER BY ts) AS n FROM readings) r \
     WHERE n <= 2 ORDER BY site, sensor, ts",
    "SELECT site, time_bucket('3 hours', ts) AS b, count(*), sum(heat) FROM readings WHERE sensor = 1 GROUP BY site, b ORDER BY 1, 2",
    "SELECT site, count(*) FROM readings WHERE ts BETWEEN '1970-01-01 02:00' AND '1970-01-01 05:00' GROUP BY site ORDER BY site",
    "SELECT a.site, a.ts FROM readings a JOIN readings b ON a.site = b.site AND a.sensor = b.sensor AND a.ts = b.ts \
     WHERE a.site = 'c' AND b.sensor = 3 ORDER BY a.ts",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_store_does_not_accept_is_done_above() {
    for claimed in [None, Some(1_000_000)] {
        let whole = Bench::new(Rows { claimed, ..readings() });
        for refused in 0..32 {
            let of = |bit: u8| refused & bit != 0;
            let refuses = Accepted { spans: of(1), order: of(2), limit: of(4), per_prefix: of(8), ranges: of(16) };
            let bench = Bench::new(Rows { claimed, refuses, ..readings() });
            for sql in HELPED {
                let expected = whole.query(sql).await.expect(sql).1;
                // The second time its plan comes from the cache.
                for _ in 0..2 {
                    assert_eq!(bench.query(sql).await.expect(sql).1, expected, "{refuses:?}: {sql}");
                }
            }
        }
    }
}
