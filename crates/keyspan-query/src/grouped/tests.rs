//! Answers of grouped scans against DataFusion's own aggregate over the same rows.

use keyspan_model::{ColumnType, Value};

use crate::testing::{Bench, Rows};

const MINUTE: i64 = 60_000_000;

/// Three hosts, times a few seconds apart, nulls among the values.
fn readings(order: char) -> Bench {
    let mut rows = Vec::new();
    for n in 0..600i64 {
        let float = match n % 11 {
            0 => Value::Null,
            _ => Value::Double((n * 37 % 101) as f64 / 4.0 - 10.0),
        };
        let int = if n % 7 == 0 { Value::Null } else { Value::Int((n * 53 % 97 - 40) as i32) };
        let at = Value::Timestamp(n / 3 * 7_000_000 - 10 * MINUTE);
        rows.push(vec![Value::Text(format!("host {}", n % 3)), at, float, int, Value::Date((n % 5) as i32)]);
    }
    let mut bench = Rows::default();
    let columns = [
        ("host", ColumnType::Text, 'p'),
        ("at", ColumnType::Timestamp, order),
        ("v", ColumnType::Double, '-'),
        ("n", ColumnType::Int, '-'),
        ("d", ColumnType::Date, '-'),
    ];
    bench.create("readings", &columns, rows);
    Bench::new(bench)
}

/// The answer is the same, in whatever order, as where a limit keeps the aggregate from its scan.
async fn same(bench: &Bench, select: &str, rest: &str) {
    let runs = format!("SELECT {select} FROM readings {rest}");
    let plan = bench.explain(&runs, false).await.expect("a plan");
    assert!(plan.contains("GroupedScan"), "{runs}\n{plan}");
    let stock = match rest.split_once("GROUP") {
        Some((filter, groups)) => {
            format!("SELECT {select} FROM (SELECT * FROM readings {filter} LIMIT 1000000) r GROUP {groups}")
        }
        None => format!("SELECT {select} FROM (SELECT * FROM readings {rest} LIMIT 1000000) r"),
    };
    assert!(!bench.explain(&stock, false).await.expect("a plan").contains("GroupedScan"), "{stock}");
    let (mut found, mut expected) =
        (bench.query(&runs).await.expect("rows").1, bench.query(&stock).await.expect("rows").1);
    if !rest.contains("ORDER") {
        found.sort();
        expected.sort();
    }
    assert_eq!(found, expected, "{runs}");
}

const ALL: &str = "count(*), count(v), sum(v), avg(v), min(v), max(v), sum(n), min(n), max(n), min(d), max(d), max(at)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_those_of_the_stock_aggregate() {
    for order in ['a', 'd'] {
        let bench = readings(order);
        let by = |groups: &str| (format!("{groups}, {ALL}"), groups.to_owned());
        for (select, groups) in [
            by("host"),
            by("date_trunc('minute', at)"),
            by("time_bucket('90 seconds', at), host"),
            by("host, date_trunc('hour', at), date_bin('5 minutes', at, '2000-01-01'::timestamptz)"),
            by("floor(extract(epoch FROM at) / 300) * 300"),
            by("to_timestamp(floor(extract(epoch FROM at) / 70) * 70), host"),
            by("host, floor(extract(epoch FROM at) / 7)"),
            by("at::date"),
            by("(floor(extract(epoch FROM at) / 60) * 60)::bigint"),
        ] {
            for filter in [
                "",
                "WHERE host > 'host 0'",
                "WHERE v > 1.5",
                "WHERE at >= '1970-01-01' AND at < '1970-01-01 00:05:00'",
            ] {
                same(&bench, &select, &format!("{filter} GROUP BY {groups}")).await;
            }
        }
        same(&bench, "host, at, sum(n)", "GROUP BY host, at").await;
        same(&bench, ALL, "WHERE n > 0").await;
        same(&bench, ALL, "WHERE n > 1000").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_steps_come_first_in_both_directions() {
    for order in ['a', 'd'] {
        let bench = readings(order);
        for direction in ["", "DESC"] {
            for limit in [1, 3, 1000] {
                let rest = format!("WHERE at < '1970-01-01 00:08:00' GROUP BY 1 ORDER BY 1 {direction} LIMIT {limit}");
                same(&bench, "date_trunc('minute', at), max(v), count(*)", &rest).await;
                let rest = format!("GROUP BY 1, 2 ORDER BY 2 {direction}, 1 LIMIT {limit}");
                same(&bench, "host, date_trunc('minute', at), sum(n)", &rest).await;
                let rest = format!("GROUP BY 1 ORDER BY 1 {direction} LIMIT {limit}");
                same(&bench, "floor(extract(epoch FROM at) / 60) * 60, max(v)", &rest).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_a_number_is_the_greatest_as_in_postgres() {
    let row = |n: i64, v: f64| vec![Value::Text("a".into()), Value::Timestamp(n), Value::Double(v)];
    let mut rows = Rows::default();
    let columns = [("k", ColumnType::Text, 'p'), ("at", ColumnType::Timestamp, 'a'), ("v", ColumnType::Double, '-')];
    rows.create("t", &columns, vec![row(1, 5.0), row(2, f64::NAN), row(3, -1.0), row(4, 7.0)]);
    let bench = Bench::new(rows);
    // By runs; by DataFusion's hashing; and without groups.
    for (groups, from) in
        [("GROUP BY k", "t"), ("GROUP BY k", "(SELECT * FROM t LIMIT 9) t"), ("", "(SELECT * FROM t LIMIT 9) t")]
    {
        let found = bench.query(&format!("SELECT min(v), max(v), count(v) FROM {from} {groups}")).await;
        assert_eq!(found.expect("rows").1, [["-1", "NaN", "4"]], "{from} {groups}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_plain_is_left_alone() {
    let bench = readings('a');
    for sql in [
        "SELECT v, count(*) FROM readings GROUP BY v",
        "SELECT at, count(*) FROM readings GROUP BY at",
        "SELECT host, count(DISTINCT n) FROM readings GROUP BY host",
        "SELECT host, sum(n) FILTER (WHERE v > 1) FROM readings GROUP BY host",
        "SELECT host, sum(n) FROM readings GROUP BY ROLLUP (host)",
        "SELECT date_trunc('month', at), sum(n) FROM readings GROUP BY 1",
        "SELECT floor(extract(epoch FROM at) / 0.3) FROM readings GROUP BY 1",
        "SELECT floor(extract(minute FROM at) / 5) FROM readings GROUP BY 1",
        "SELECT d::date, count(*) FROM readings GROUP BY 1",
        "SELECT host, max(writetime(v)) FROM readings GROUP BY host, n",
    ] {
        let plan = bench.explain(sql, false).await.expect("a plan");
        assert!(!plan.contains("GroupedScan"), "{sql}\n{plan}");
    }
}
