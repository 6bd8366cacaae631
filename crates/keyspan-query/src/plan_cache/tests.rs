//! Kept plans answer what plans made for these very values answer; and which plans are kept.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use keyspan_model::{ColumnType, Result, Value};

use crate::testing::{Bench, Rows, parse};
use crate::{PlannedQuery, QueryContext, SessionInfo};

const HOUR: i64 = 3_600_000_000;

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// 3 sites × 3 sensors × 6 instants; and the sites' names and zones.
fn readings(claimed: Option<u64>) -> Bench {
    let mut rows = Rows { claimed, ..Rows::default() };
    let mut data = Vec::new();
    for (site, sensor, hour) in (0..54).map(|n| (["a", "b", "c"][n / 18], (n / 6 % 3) as i32, (n % 6) as i64)) {
        let heat = if hour == 3 { Value::Null } else { Value::Double(hour as f64 * 1.5 + f64::from(sensor)) };
        data.push(vec![text(site), Value::Int(sensor), Value::Timestamp(hour * HOUR / 2), heat]);
    }
    let columns = [
        ("site", ColumnType::Text, 'p'),
        ("sensor", ColumnType::Int, 'p'),
        ("ts", ColumnType::Timestamp, 'a'),
        ("heat", ColumnType::Double, '-'),
    ];
    rows.create("readings", &columns, data);
    let columns = [("id", ColumnType::Text, 'p'), ("zone", ColumnType::Int, '-'), ("name", ColumnType::Text, '-')];
    let site = |(id, zone): (&str, i32)| vec![text(id), Value::Int(zone), text(&format!("site {id}"))];
    rows.create("sites", &columns, [("a", 0), ("b", 2), ("d", 2)].map(site).into());
    Bench::new(rows)
}

async fn answer(bench: &Bench, planned: &PlannedQuery, parameters: &[Value], context: &QueryContext) -> String {
    let stream = match bench.session.ready(planned, parameters, context).await {
        Some(ready) => ready.start(),
        None => bench.session.execute(planned, parameters, context).await,
    };
    let batches: Vec<RecordBatch> = stream.expect("begins").try_collect().await.expect("rows");
    let whole = arrow::compute::concat_batches(&planned.schema, &batches).expect("one schema");
    pretty_format_batches(&[whole]).expect("a table").to_string()
}

/// Values for a parameter of each type, so that spans are empty, single, many, bounded and unbounded.
fn values_of(ty: ColumnType) -> Vec<Value> {
    match ty {
        ColumnType::Text => vec![text("a"), text("b"), text("zz"), Value::Null],
        ColumnType::Int => vec![Value::Int(0), Value::Int(2), Value::Int(-1)],
        ColumnType::Timestamp => vec![Value::Timestamp(0), Value::Timestamp(HOUR), Value::Timestamp(HOUR * 5 / 2)],
        _ => vec![Value::Double(1.5), Value::Double(-1.0), Value::Null],
    }
}

/// All combinations.
fn combinations(types: &[ColumnType]) -> Vec<Vec<Value>> {
    let start = vec![Vec::new()];
    types.iter().fold(start, |sets, ty| {
        let longer = |set: &Vec<Value>| {
            let set = set.clone();
            values_of(*ty).into_iter().map(move |value| set.iter().cloned().chain([value]).collect::<Vec<Value>>())
        };
        sets.iter().flat_map(longer).collect()
    })
}

const SHAPES: [&str; 31] = [
    "SELECT * FROM readings WHERE site = $1 AND sensor = $2 AND ts >= $3 AND ts < $4",
    "SELECT heat, ts FROM readings WHERE site = $1 AND sensor = $2 ORDER BY ts DESC LIMIT 3",
    "SELECT site, ts FROM readings WHERE site IN ($1, $2, 'c') AND ts BETWEEN $3 AND $4 ORDER BY site, sensor, ts",
    "SELECT ts, site FROM readings WHERE site IN ($1, $2) AND sensor = 1 ORDER BY ts, site",
    "SELECT date_trunc('hour', ts), max(heat), count(*) FROM readings WHERE ts >= $1 AND ts < $2 GROUP BY 1 ORDER BY 1",
    "SELECT site, date_trunc('hour', ts), avg(heat) FROM readings WHERE heat > $1 AND ts > $2 GROUP BY 1, 2 ORDER BY 2, 1",
    "SELECT date_trunc('hour', ts), max(heat) FROM readings WHERE ts < $1 GROUP BY 1 ORDER BY 1 DESC LIMIT 1",
    "SELECT count(*), sum(heat) FROM readings WHERE site > $1",
    "SELECT ts, heat FROM readings WHERE heat > $1 OR site = $2 ORDER BY ts, heat, site",
    "SELECT DISTINCT ON (site, sensor) * FROM readings WHERE site = $1 ORDER BY site, sensor, ts DESC",
    "SELECT DISTINCT ON (site, sensor) * FROM readings WHERE site = $1 AND heat > $2 ORDER BY site, sensor, ts DESC",
    "SELECT site, max(ts) FROM readings WHERE sensor + 1 > $1 AND NOT site = $2 GROUP BY site HAVING max(ts) > $3 ORDER BY 1",
    "SELECT sensor, count(heat) FROM readings WHERE ts > $1 + interval '30 minutes' AND $2 < site GROUP BY sensor ORDER BY 1",
    "SELECT ts FROM readings WHERE (site = $1 OR $1 IS NULL) AND sensor = 1 ORDER BY ts, site LIMIT 4",
    "SELECT ts, site FROM readings WHERE site LIKE $1 AND sensor = $2 ORDER BY ts, site",
    "SELECT ts, site FROM readings WHERE (heat IS DISTINCT FROM $1) AND sensor + $2 > 1 AND site = $3 ORDER BY ts, sensor",
    "SELECT ts, site FROM readings WHERE site IN ($1, 'b') AND site NOT IN ($2, 'c') AND sensor = 1 ORDER BY ts, site",
    "SELECT site, ts FROM readings WHERE coalesce(heat, $1) > $2 AND upper(site) <> $3 ORDER BY site, ts, sensor",
    "SELECT r.ts, s.name FROM readings r JOIN sites s ON s.id = r.site WHERE s.zone = $1 AND r.ts >= $2 ORDER BY 1, 2",
    "SELECT s.name, max(heat) FROM readings r JOIN sites s ON s.id = r.site WHERE r.site = $1 GROUP BY 1 ORDER BY 1",
    "SELECT ts, heat FROM readings WHERE site IN (SELECT id FROM sites WHERE zone = $1) AND ts < $2 ORDER BY ts, site, sensor",
    "SELECT s.id, r.ts FROM sites s LEFT JOIN readings r ON r.site = s.id AND r.sensor = 1 WHERE s.id >= $1 ORDER BY 1, 2",
    "SELECT s.id, count(r.ts) FROM sites s LEFT JOIN readings r ON r.site = s.id WHERE r.ts > $1 OR s.zone = $2 GROUP BY 1 ORDER BY 1",
    "SELECT name FROM sites s WHERE EXISTS (SELECT 1 FROM readings r WHERE r.site = s.id AND r.heat > $1) ORDER BY name",
    "SELECT name FROM sites WHERE id NOT IN (SELECT site FROM readings WHERE sensor = $1 AND ts > $2) ORDER BY name",
    "SELECT s.name, r.heat FROM sites s, readings r WHERE r.site = s.id AND r.sensor = s.zone AND r.ts = $1 ORDER BY 1, 2",
    "SELECT a.ts, b.site FROM readings a JOIN readings b USING (sensor, ts) WHERE a.site = $1 AND b.site <> $2 AND a.sensor = $3 ORDER BY 1, 2",
    "SELECT ts FROM readings WHERE site = $1 UNION ALL SELECT ts FROM readings WHERE sensor = $2 AND site = 'c' ORDER BY 1",
    "SELECT zone, sum(n) FROM sites JOIN (SELECT site, count(*) AS n FROM readings WHERE ts <= $1 GROUP BY site) c ON c.site = id WHERE id > $2 GROUP BY 1 ORDER BY 1",
    "WITH z AS (SELECT id FROM sites WHERE zone = $1) SELECT r.ts FROM z JOIN readings r ON r.site = z.id WHERE r.sensor = 0 ORDER BY 1",
    "SELECT s.name, b.ts FROM sites s JOIN LATERAL (SELECT * FROM readings r WHERE r.site = s.id ORDER BY ts DESC LIMIT 1) b ON true WHERE s.zone = $1 ORDER BY 1",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_plans_answer_what_new_ones_do() {
    for claimed in [None, Some(10_000_000)] {
        let bench = readings(claimed);
        for sql in SHAPES {
            let planned = bench.session.plan(&parse(sql).expect("parses"), &bench.context).await.expect("plans");
            let mut new = planned.clone();
            new.cached = None;
            for parameters in combinations(&planned.parameters) {
                let expected = answer(&bench, &new, &parameters, &bench.context).await;
                assert_eq!(
                    answer(&bench, &planned, &parameters, &bench.context).await,
                    expected,
                    "{sql} {parameters:?}"
                );
            }
        }
    }
}

/// Whether the second execution of a text finds the plan of the first.
async fn is_kept(bench: &Bench, first: &str, second: &str) -> bool {
    let plan = async |sql: &str| bench.session.plan(&parse(sql).expect("parses"), &bench.context).await.expect("plans");
    let planned = plan(first).await;
    answer(bench, &planned, &[], &bench.context).await;
    bench.session.ready(&plan(second).await, &[], &bench.context).await.is_some()
}

#[tokio::test]
async fn a_text_of_other_constants_is_of_the_same_shape() {
    let bench = readings(None);
    let with = |site: &str, ts: &str| {
        format!("SELECT max(heat) FROM readings WHERE site = '{site}' AND ts > {ts} GROUP BY date_trunc('hour', ts)")
    };
    let old = "timestamptz '1970-01-01 00:00:00+00'";
    assert!(is_kept(&bench, &with("a", old), &with("b", "now() - interval '1 hour'")).await);
    for (first, second) in [
        ("SELECT now() FROM readings WHERE site = 'a'", "SELECT now() FROM readings WHERE site = 'a'"),
        ("SELECT random() FROM readings WHERE site = 'a'", "SELECT random() FROM readings WHERE site = 'a'"),
        ("SELECT ts FROM readings WHERE site = 'a' LIMIT 1", "SELECT ts FROM readings WHERE site = 'a' LIMIT 2"),
        ("SELECT 1 FROM readings WHERE site = 'a'", "SELECT 2 FROM readings WHERE site = 'a'"),
        ("SELECT ts FROM readings WHERE site = 'a'", "SELECT ts FROM readings WHERE site < 'a'"),
        (
            "SELECT r.ts, random() FROM readings r JOIN sites s ON s.id = r.site WHERE s.zone = 2",
            "SELECT r.ts, random() FROM readings r JOIN sites s ON s.id = r.site WHERE s.zone = 2",
        ),
        (
            "SELECT r.ts FROM readings r LEFT JOIN sites s ON s.id = r.site WHERE s.zone = 2 OR r.sensor = 1",
            "SELECT r.ts FROM readings r LEFT JOIN sites s ON s.id = r.site WHERE s.zone = 3 OR r.sensor = 1",
        ),
        (
            "SELECT ts FROM readings WHERE site = (SELECT max(site) FROM readings)",
            "SELECT ts FROM readings WHERE site = (SELECT max(site) FROM readings)",
        ),
    ] {
        assert!(!is_kept(&bench, first, second).await, "{first}; {second}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_joins_and_subqueries_serve_other_constants() {
    let bench = readings(None);
    for (with, first, second) in [
        (
            "SELECT r.ts FROM readings r JOIN sites s ON s.id = r.site WHERE s.name = {} AND r.sensor = 1",
            "'site a'",
            "'site b'",
        ),
        ("SELECT max(heat) FROM readings WHERE site IN (SELECT id FROM sites WHERE zone = {})", "0", "2"),
        (
            "SELECT max(heat) FROM readings WHERE site IN (SELECT id FROM sites WHERE name = {}) AND ts > '1970-01-01'",
            "'a'",
            "'site b'",
        ),
        ("SELECT ts FROM readings WHERE site = {} UNION ALL SELECT ts FROM readings WHERE sensor = 7", "'a'", "'c'"),
        (
            "SELECT s.name, b.ts FROM sites s JOIN LATERAL (SELECT * FROM readings r WHERE r.site = s.id ORDER BY ts DESC LIMIT 1) b ON true WHERE s.zone = {}",
            "0",
            "2",
        ),
        (
            "SELECT name FROM sites s WHERE EXISTS (SELECT 1 FROM readings r WHERE r.site = s.id AND r.heat > {})",
            "1.5",
            "7.5",
        ),
        (
            "WITH z AS (SELECT id FROM sites WHERE name = {}) SELECT r.ts FROM z JOIN readings r ON r.site = z.id",
            "'a'",
            "'site b'",
        ),
    ] {
        assert!(is_kept(&bench, &with.replace("{}", first), &with.replace("{}", second)).await, "{with}");
    }
}

#[tokio::test]
async fn what_reads_and_computes_little_is_brief() {
    for (sql, few, many) in [
        ("SELECT date_trunc('hour', ts), max(heat) FROM readings WHERE site = 'a' GROUP BY 1 ORDER BY 1", true, false),
        ("SELECT heat * 2, ts FROM readings WHERE site = 'a' AND heat > 1 ORDER BY heat LIMIT 3", true, false),
        ("SELECT site, count(*) FROM readings WHERE site LIKE 'a%' GROUP BY site", true, false),
        ("SELECT abs(heat) FROM readings WHERE site = 'a'", true, false),
        ("SELECT repeat(site, 1000000) FROM readings WHERE site = 'a'", false, false),
        ("SELECT max(heat) FROM readings WHERE site = 'a' AND length(site) = sensor", false, false),
        ("SELECT 1 + 1", true, true),
        ("SELECT repeat('a', 3)", true, true),
    ] {
        for (claimed, expected) in [(Some(1000), few), (Some(10_000_000), many)] {
            let bench = readings(claimed);
            let planned = bench.session.plan(&parse(sql).expect("parses"), &bench.context).await.expect("plans");
            answer(&bench, &planned, &[], &bench.context).await;
            let ready = bench.session.ready(&planned, &[], &bench.context).await.expect("kept");
            assert_eq!(ready.runs_inline(), expected, "{sql} {claimed:?}");
        }
    }
}

#[tokio::test]
async fn what_depends_on_more_than_its_text_is_planned_each_time() {
    let bench = readings(None);
    for sql in
        ["SELECT now()", "SELECT random()", "SELECT current_user", "SELECT $1::int", "SELECT unnest(ARRAY[1, 2])"]
    {
        let planned = bench.session.plan(&parse(sql).expect("parses"), &bench.context).await.expect("plans");
        assert!(planned.cached.is_none(), "{sql}");
    }
}

#[tokio::test]
async fn a_limit_that_is_a_parameter_is_part_of_the_shape() {
    let bench = readings(None);
    let plan = async |sql: &str| bench.session.plan(&parse(sql).expect("parses"), &bench.context).await.expect("plans");
    let planned = plan("SELECT ts, site FROM readings WHERE sensor = $1 ORDER BY ts, site LIMIT $2").await;
    let mut new = planned.clone();
    new.limited = None;
    for (sensor, limit) in [(1, 3), (2, 3), (1, 0), (1, 5), (2, 5), (0, 3)] {
        let parameters = [Value::Int(sensor), Value::BigInt(limit)];
        let expected = answer(&bench, &new, &parameters, &bench.context).await;
        assert_eq!(answer(&bench, &planned, &parameters, &bench.context).await, expected, "{parameters:?}");
        // No rows is a plan of its own, which is made at once.
        let ready = bench.session.ready(&planned, &parameters, &bench.context).await;
        assert_eq!(ready.is_some(), limit > 0, "{parameters:?}");
    }
    assert!(plan("SELECT ts FROM readings ORDER BY ts, site LIMIT 2 OFFSET $1").await.limited.is_none());
}

/// As it is planned with its literals in their places.
async fn written_out(bench: &Bench, sql: &str, context: &QueryContext) -> Result<PlannedQuery> {
    let typed = QueryContext { parameter_types: vec![Some(ColumnType::Text)], ..context.clone() };
    bench.session.plan(&parse(sql).expect("parses"), &typed).await
}

#[tokio::test]
async fn a_text_of_other_quoted_literals_is_not_analyzed_again() {
    let bench = readings(None);
    let elsewhere = QueryContext { time_zone: "America/New_York".into(), ..bench.context.clone() };
    for (with, first, others) in [
        ("SELECT * FROM readings WHERE site = {} ORDER BY ts, sensor", "'a'", ["'b'", "'it''s'"]),
        ("SELECT count(*) FROM readings WHERE 'a' < site AND NOT (site IN ({}))", "'a', 'b'", ["'b', 'c'", "'zz', ''"]),
        (
            "SELECT max(heat) FROM readings WHERE readings.ts >= {} OR sensor > 1",
            "'1970-01-01'",
            ["'1970-01-01 02:00'", "'1969-12-31T20:00:00-01:00'"],
        ),
        (
            "SELECT sum(heat), count(*) FROM readings WHERE ts BETWEEN {}",
            "'1970-01-01 00:30' AND '1970-01-01 01:30'",
            ["'1969-12-31 19:00' AND '1969-12-31 20:30'", "'1970-01-02 UTC' AND '1970-01-01'"],
        ),
        ("SELECT count(*) FROM readings WHERE ts > {}::timestamptz", "'1970-01-01'", ["'1969-12-31 20:00'", "'epoch'"]),
    ] {
        for context in [&bench.context, &elsewhere] {
            let first = bench.session.plan(&parse(&with.replace("{}", first)).expect("parses"), context).await;
            answer(&bench, &first.expect("plans"), &[], context).await;
            for other in others {
                let sql = with.replace("{}", other);
                let known = bench.session.cached(&parse(&sql).expect("parses"), context).expect("known");
                // NOT IN makes spans of another number for each list.
                let ready = bench.session.ready(&known, &[], context).await.is_some() || sql.contains("NOT");
                assert!(known.parameters.is_empty() && ready, "{sql}");
                let expected = written_out(&bench, &sql, context).await.expect("plans");
                let expected = answer(&bench, &expected, &[], context).await;
                assert_eq!(answer(&bench, &known, &[], context).await, expected, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn literals_that_say_more_than_a_value_stay_where_they_are() {
    let mut rows = Rows::default();
    let price = ColumnType::Decimal { precision: 10, scale: 2 };
    let data = (0..4).map(|day| vec![Value::Timestamp(day * 24 * HOUR), Value::Decimal(100 + i128::from(day), 2)]);
    rows.create("prices", &[("ts", ColumnType::Timestamp, 'p'), ("price", price, '-')], data.collect());
    let mut bench = Bench::new(rows);
    bench.context.now = 2 * 24 * HOUR + 5;
    for (with, count) in [
        ("price = '1.01'", "1"),
        ("price = '1.014'", "0"),
        ("price < '1.014'", "2"),
        ("ts > 'yesterday'", "2"),
        ("ts <= 'now'", "3"),
        ("ts <= 'today' AND price > '1'", "2"),
    ] {
        let query = parse(&format!("SELECT count(*) FROM prices WHERE {with}")).expect("parses");
        for _ in 0..2 {
            let planned = match bench.session.cached(&query, &bench.context) {
                Some(known) => known,
                None => bench.session.plan(&query, &bench.context).await.expect("plans"),
            };
            let answered = answer(&bench, &planned, &[], &bench.context).await;
            assert!(answered.contains(&format!("| {count} ")), "{with}: {answered}");
        }
    }
    for wrong in ["ts > 'soon'", "price = 'x'", "nothing = 'a'"] {
        let sql = format!("SELECT count(*) FROM prices WHERE {wrong}");
        let error = bench.session.plan(&parse(&sql).expect("parses"), &bench.context).await.expect_err(wrong);
        let expected = written_out(&bench, &sql, &bench.context).await.expect_err(wrong);
        assert_eq!(error.to_string(), expected.to_string());
    }
}

#[tokio::test]
async fn a_plan_serves_every_session_and_means_what_each_of_them_means() {
    let bench = readings(None);
    let query = parse("SELECT site, max(heat) FROM readings WHERE site = current_user GROUP BY site").expect("parses");
    let planned = bench.session.plan(&query, &bench.context).await.expect("plans");
    answer(&bench, &planned, &[], &bench.context).await;
    let other = Bench { session: bench.session.engine().session(), context: bench.context.clone() };
    for user in ["b", "c"] {
        let info = Arc::new(SessionInfo { user: user.into(), ..SessionInfo::default() });
        let context = QueryContext { info, ..other.context.clone() };
        let known = other.session.cached(&query, &context).expect("planned by the first");
        assert!(other.session.ready(&known, &[], &context).await.is_some());
        let answered = answer(&other, &known, &[], &context).await;
        assert!(answered.contains(&format!("| {user} ")) && answered.lines().count() == 5, "{answered}");
    }
}

#[tokio::test]
async fn a_plan_is_kept_for_one_time_zone_and_holds_no_snapshot() {
    let bench = readings(None);
    let sql = "SELECT date_trunc('day', ts), count(*) FROM readings WHERE ts >= $1 GROUP BY 1 ORDER BY 1";
    let planned = bench.session.plan(&parse(sql).expect("parses"), &bench.context).await.expect("plans");
    let all = [Value::Timestamp(0)];
    let in_utc = answer(&bench, &planned, &all, &bench.context).await;
    assert!(bench.session.ready(&planned, &all, &bench.context).await.is_some());
    let elsewhere = QueryContext { time_zone: "America/New_York".into(), ..bench.context.clone() };
    assert!(bench.session.ready(&planned, &all, &elsewhere).await.is_none());
    assert_ne!(answer(&bench, &planned, &all, &elsewhere).await, in_utc);
    let Bench { session, context } = bench;
    let snapshot = Arc::downgrade(&context.snapshot);
    drop((context, elsewhere));
    assert!(snapshot.upgrade().is_none());
    drop((session, planned));
}
