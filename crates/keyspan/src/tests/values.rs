//! INSERT … VALUES whose values are expressions: each shape is compiled once, however many rows there are.

use super::{open, rows, run, tag};
use crate::{Database, Session, Value};

const ROW: [&str; 4] = ["::bigint + 1", "::text", "::timestamptz", "::numeric"];

/// An INSERT of as many rows as there are lists, each parameter cast.
fn insert(lists: usize, tail: &str) -> String {
    let row = |row: usize| {
        let cell = |(at, cast): (usize, &&str)| match at {
            1 => format!("lower(${}{cast})", row * 4 + at + 1),
            3 => format!("CAST(CAST(${}{cast} AS numeric(10,1)) AS numeric)", row * 4 + at + 1),
            _ => format!("${}{cast}", row * 4 + at + 1),
        };
        format!("({})", ROW.iter().enumerate().map(cell).collect::<Vec<_>>().join(", "))
    };
    let values = (0..lists).map(row).collect::<Vec<_>>().join(", ");
    format!("INSERT INTO t (k, name, at, n) VALUES {values}{tail}")
}

fn parameters(lists: usize) -> Vec<Value> {
    let row = |row: usize| {
        let name = if row.is_multiple_of(7) { Value::Null } else { Value::Text(format!("Name {row}")) };
        let at = Value::Timestamp(1_700_000_000_000_000 + row as i64);
        [Value::BigInt(row as i64), name, at, Value::Decimal(10 * row as i128 + 4, 2)]
    };
    (0..lists).flat_map(row).collect()
}

async fn table(s: &mut Session) {
    run(s, "CREATE TABLE t (k bigint PRIMARY KEY, name text, at timestamptz, n numeric(10,2))").await;
}

/// How many expressions a statement of so many rows compiles.
async fn compilations(database: &Database, s: &mut Session, lists: usize, tail: &str) -> u64 {
    let before = database.counters().compilations;
    s.query(&insert(lists, tail), &parameters(lists)).await.expect("inserts");
    database.counters().compilations - before
}

#[tokio::test]
async fn rows_of_one_shape_are_compiled_once() {
    let (database, mut s) = open();
    table(&mut s).await;
    let few = compilations(&database, &mut s, 10, "").await;
    assert_eq!(compilations(&database, &mut s, 500, "").await, few);
    let sql = "SELECT count(*), count(name), min(k), max(k), count(DISTINCT at) FROM t";
    assert_eq!(rows(&mut s, sql).await, ["500 428 1 500 500"]);
    assert_eq!(
        rows(&mut s, "SELECT k, name, at, n FROM t WHERE k IN (1, 3) ORDER BY k").await,
        ["1 NULL 2023-11-14 22:13:20+00 0.00", "3 name 2 2023-11-14 22:13:20.000002+00 0.20"]
    );
}

#[tokio::test]
async fn rows_that_are_there_are_updated_together() {
    let (database, mut s) = open();
    table(&mut s).await;
    let parameter = parameters(500).len() + 1;
    let tail = format!(" ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n + ${parameter}::int WHERE t.k > 2");
    let upsert = insert(500, &tail);
    let mut values = parameters(500);
    values.push(Value::Int(1000));
    s.query(&insert(400, ""), &parameters(400)).await.expect("inserts");
    let before = database.counters().compilations;
    s.query(&upsert, &values).await.expect("upserts");
    let once = database.counters().compilations - before;
    assert!(once < 30, "{once}");
    assert_eq!(
        rows(&mut s, "SELECT k, n FROM t WHERE k IN (2, 3, 400, 401) ORDER BY k").await,
        ["2 0.10", "3 1000.40", "400 1079.80", "401 40.00"]
    );
    assert_eq!(rows(&mut s, "SELECT count(*) FROM t WHERE n >= 1000").await, ["398"]);
}

#[tokio::test]
async fn literals_in_expressions_are_compiled_together() {
    let (database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, name text, n numeric(10,2), r double, d numeric)").await;
    let row = |k: usize| format!("({k}, upper('n{k}'), CAST('{k}.456' AS numeric(10,2)), random(), {k} * 1.5)");
    let sql = |n: usize| format!("INSERT INTO t VALUES {}", (0..n).map(row).collect::<Vec<_>>().join(", "));
    let mut counted = Vec::new();
    for n in [10, 300] {
        let before = database.counters().compilations;
        assert_eq!(tag(&mut s, &sql(n)).await, format!("INSERT 0 {n}"));
        counted.push(database.counters().compilations - before);
    }
    assert_eq!(counted[0], counted[1]);
    assert_eq!(rows(&mut s, "SELECT k, name, n, d FROM t WHERE k = 299").await, ["299 N299 299.46 448.5000000000"]);
    assert_eq!(rows(&mut s, "SELECT count(DISTINCT r) > 250 FROM t").await, ["t"]);
}

#[tokio::test]
async fn of_several_wrong_values_the_first_row_s_is_named() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a int)").await;
    let sql = "INSERT INTO t VALUES ($1::int, $2::text::int), ($3::int, $4::text::int), ($5::int, $6::text::int)";
    let text = |text: &str| Value::Text(text.into());
    let values = [Value::Int(1), text("7"), Value::Int(2), text("no"), Value::Int(3), text("nor this")];
    let wrong = s.query(sql, &values).await.expect_err("a wrong value");
    assert_eq!(wrong.message, "invalid input syntax for type integer: \"no\"");
    assert_eq!(rows(&mut s, "SELECT * FROM t").await, Vec::<String>::new());
}

#[tokio::test]
async fn one_parameter_in_several_rows_has_one_type() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k int PRIMARY KEY, a text, at timestamptz)").await;
    let sql = "INSERT INTO t VALUES ($1, $2 || 'x', $3::timestamptz), ($1 + 1, $2 || $2, $3 + $4::interval)";
    let parsed = s.parse(sql).expect("parses").remove(0);
    let prepared = s.prepare(&parsed, &[]).await.expect("prepares");
    let names: Vec<_> = prepared.parameters.iter().map(|ty| ty.name()).collect();
    assert_eq!(names, ["int", "text", "timestamp", "duration"]);
    let values = ["5", "a", "2024-01-01 00:00+00", "1 hour"].map(|text| Value::Text(text.into()));
    s.run(&prepared, &values).await.expect("runs");
    assert_eq!(
        rows(&mut s, "SELECT * FROM t ORDER BY k").await,
        ["5 ax 2024-01-01 00:00:00+00", "6 aa 2024-01-01 01:00:00+00"]
    );
}
