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
        let date = Value::Date((n % 5) as i32);
        // Sums of these have more than 64 bits.
        let large = if n % 5 == 1 { Value::Null } else { Value::BigInt(i64::MAX - n * 31 % 200) };
        rows.push(vec![Value::Text(format!("host {}", n % 3)), at, float, int, date, large]);
    }
    let mut bench = Rows::default();
    let columns = [
        ("host", ColumnType::Text, 'p'),
        ("at", ColumnType::Timestamp, order),
        ("v", ColumnType::Double, '-'),
        ("n", ColumnType::Int, '-'),
        ("d", ColumnType::Date, '-'),
        ("b", ColumnType::BigInt, '-'),
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

const ALL: &str = "count(*), count(v), sum(v), avg(v), min(v), max(v), sum(n), min(n), max(n), min(d), max(d), max(at), \
                   avg(n), sum(b), avg(b), count(b), sum(b) FILTER (WHERE n > 0)";

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
            by("host, at, date_trunc('hour', at)"),
            ("host, date_trunc('hour', at), at".into(), "1, 2, 3".into()),
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
async fn groups_by_values_are_those_of_the_stock_aggregate() {
    let bench = readings('a');
    for groups in [
        "v",
        "n",
        "at",
        "d",
        "n > 3",
        "host, n",
        "floor(v / 5), host",
        "CASE WHEN v < 0 THEN 'low' WHEN v < 8 THEN 'high' END",
        "extract(minute FROM at), v > 2, d",
        "date_trunc('month', at)",
        "CASE WHEN v > 0 THEN 0.0 ELSE -0.0 END",
        "upper(host), time_bucket('90 seconds', at)",
        "substring(host, abs(n))",
    ] {
        for filter in ["", "WHERE v > 1.5 AND n <> 7", "WHERE at < '1970-01-01 00:05:00'"] {
            same(&bench, &format!("{groups}, {ALL}"), &format!("{filter} GROUP BY {groups}")).await;
        }
    }
    for sets in ["ROLLUP (host, d)", "CUBE (d, n > 3)", "GROUPING SETS ((host), (d), (), (host))"] {
        let names = if sets.starts_with("CUBE") { "d, n > 3" } else { "host, d" };
        same(&bench, &format!("{names}, {ALL}, grouping(d)"), &format!("GROUP BY {sets}")).await;
        same(&bench, &format!("{names}, {ALL}"), &format!("WHERE n > 1000 GROUP BY {sets}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_and_other_aggregates_are_those_of_the_stock_aggregate() {
    let bench = readings('d');
    let all = "count(*) FILTER (WHERE v > 3), sum(v) FILTER (WHERE n > 0 AND v < 9), avg(v + 1), max(abs(n)), min(host), \
               count(v) FILTER (WHERE host LIKE '%1'), max(n) FILTER (WHERE false), sum(n::bigint), avg(n), \
               (stddev(v) * 1000000)::bigint, (corr(v, n) FILTER (WHERE d > '1970-01-02') * 1000000)::bigint, \
               bool_and(v > -5), bit_or(n), percentile_cont(0.5) WITHIN GROUP (ORDER BY v), var_pop(n), \
               (stddev_pop(v) FILTER (WHERE v > 3) * 1000000)::bigint, (var_pop(v + 1000000) * 1000)::bigint, \
               (variance(v) FILTER (WHERE n > 0) * 1000000)::bigint, stddev(v) FILTER (WHERE v > 1000), \
               count(*) FILTER (WHERE v > 3) * 2, count(DISTINCT v), count(DISTINCT host) FILTER (WHERE n > 0), \
               count(DISTINCT n), count(DISTINCT date_trunc('hour', at)), count(DISTINCT d), count(DISTINCT v > 3), \
               count(DISTINCT v::numeric)";
    for groups in
        ["GROUP BY host", "GROUP BY date_trunc('minute', at)", "GROUP BY d", "GROUP BY at", "", "WHERE n > 1000"]
    {
        same(&bench, all, groups).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_groups_are_many_the_stock_aggregate_answers() {
    let mut rows = Rows::default();
    let columns = [("k", ColumnType::Int, 'p'), ("t", ColumnType::Text, '-'), ("v", ColumnType::Double, '-')];
    let row = |n: i32| vec![Value::Int(n), Value::Text(format!("text {}", n / 2)), Value::Double(f64::from(n % 8))];
    rows.create("many", &columns, (0..100_000).map(row).collect());
    let bench = Bench::new(rows);
    for (sql, expected) in [
        (
            "SELECT count(*), sum(c), sum(s) FROM (SELECT t, count(*) AS c, sum(v) AS s FROM many GROUP BY t) g",
            ["50000", "100000", "350000"],
        ),
        (
            "SELECT count(*), sum(c), max(x) FROM (SELECT t, count(*) AS c, max(v) + 1 AS x FROM many GROUP BY ROLLUP (t)) g",
            ["50001", "200000", "8"],
        ),
        (
            "SELECT count(*), min(c), max(c) FROM (SELECT t, count(*) AS c FROM many GROUP BY t LIMIT 7) g",
            ["7", "2", "2"],
        ),
    ] {
        let plan = bench.explain(sql, true).await.expect("a plan");
        assert!(plan.contains("GroupedScan") && plan.contains("hash_aggregates=1"), "{sql}\n{plan}");
        assert_eq!(bench.query(sql).await.expect("rows").1, [expected], "{sql}");
    }
    // Not where they are found by their places, without hashing.
    let sql = "SELECT count(*), sum(c), max(c) FROM (SELECT k % 250 AS a, k / 250 % 160 AS b, count(*) AS c FROM many GROUP BY a, b) g";
    let plan = bench.explain(sql, true).await.expect("a plan");
    assert!(plan.contains("GroupedScan") && !plan.contains("hash_aggregates=1"), "{plan}");
    assert_eq!(bench.query(sql).await.expect("rows").1, [["40000", "100000", "3"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_plain_is_left_alone() {
    let bench = readings('a');
    for sql in [
        "SELECT host, sum(DISTINCT n), sum(DISTINCT v) FROM readings GROUP BY host",
        "SELECT host, string_agg(d::text, ',') FROM readings GROUP BY host",
        "SELECT n, array_agg(v ORDER BY at) FROM readings GROUP BY n",
        "SELECT x, sum(x) FROM (SELECT random() AS x FROM readings) r GROUP BY x",
        "SELECT a, b, c, d, e, f, g FROM (SELECT host AS a, n AS b, v AS c, d, n + 1 AS e, n + 2 AS f, n + 3 AS g FROM readings) r GROUP BY a, b, c, d, e, f, g",
    ] {
        let plan = bench.explain(sql, false).await.expect("a plan");
        assert!(!plan.contains("GroupedScan"), "{sql}\n{plan}");
    }
}
