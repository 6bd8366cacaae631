//! The answers of PostgreSQL in `queries/read/postgres.slt`, asked of this crate alone.

use keyspan_model::Value;

use crate::testing::{Bench, Rows};

/// A query and either its rows or its SQLSTATE.
struct Case {
    sql: String,
    expected: Result<Vec<String>, String>,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../queries/read/postgres.slt");
    let file = std::fs::read_to_string(path).expect("the file of answers");
    let mut found = Vec::new();
    for record in file.split("\n\n") {
        let mut lines = record.lines().skip_while(|line| line.is_empty() || line.starts_with('#'));
        let (Some(head), Some(sql)) = (lines.next(), lines.next()) else { continue };
        let expected = match head.strip_prefix("statement error (") {
            Some(state) => Err(state.trim_end_matches(')').to_owned()),
            None => Ok(lines.skip(1).map(str::to_owned).collect()),
        };
        found.push(Case { sql: sql.to_owned(), expected });
    }
    found
}

async fn answer(bench: &Bench, sql: &str) -> Result<Vec<String>, String> {
    let rows = bench.query(sql).await.map_err(|error| error.sqlstate().to_owned() + " " + &error.message)?.1;
    let shown = |text: String| match text.as_str() {
        "∅" => "NULL".to_owned(),
        "" => "(empty)".to_owned(),
        _ => text,
    };
    Ok(rows.into_iter().map(|row| row.into_iter().map(shown).collect::<Vec<_>>().join(" ")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_postgres() {
    let bench = Bench::new(Rows::default());
    let mut wrong = Vec::new();
    for Case { sql, expected } in cases() {
        let got = answer(&bench, &sql).await;
        let right = match (&got, &expected) {
            (Ok(got), Ok(expected)) => got == expected,
            (Err(got), Err(expected)) => got.starts_with(expected.as_str()),
            _ => false,
        };
        if !right {
            wrong.push(format!("{sql}\n  Postgres: {expected:?}\n  here:     {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_take_the_type_of_their_surroundings() {
    let bench = Bench::new(Rows::default());
    let query = "SELECT $1::int + 1, $2 || 'x', 'a' = $3 FROM (VALUES (1)) AS v(x) WHERE x > $4 + 1 LIMIT $5";
    let planned = bench.session.plan(&crate::testing::parse(query).expect("a query"), &bench.context).await;
    let types: Vec<String> = planned.expect("a plan").parameters.iter().map(|ty| ty.name()).collect();
    assert_eq!(types, ["int", "text", "text", "int", "bigint"]);
    let rows = bench.query_with("SELECT $1 + 1", &[Value::Int(41)]).await;
    assert_eq!(rows.expect("rows").1, [["42"]]);
}

async fn only(bench: &Bench, sql: &str) -> String {
    answer(bench, sql).await.map_or_else(|error| error, |rows| rows.join("|"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_has_not() {
    let bench = Bench::new(Rows::default());
    let table = "(VALUES (1, '2024-01-01'::timestamptz), (3, '2024-01-03'), (2, '2024-01-02')) AS t(v, at)";
    let answers = [
        ("SELECT time_bucket('15 minutes', '2024-02-29 12:34:56'::timestamptz)".to_owned(), "2024-02-29 12:30:00+00"),
        ("SELECT time_bucket('1 month', '2024-02-29 12:34:56'::timestamptz)".to_owned(), "2024-02-01 00:00:00+00"),
        (format!("SELECT first(v, at), last(v, at) FROM {table}"), "1 3"),
        ("SELECT blob_as_bigint(bigint_as_blob(7))".to_owned(), "7"),
        ("SELECT to_unix_timestamp(min_timeuuid('2024-01-01 00:00:01'))".to_owned(), "1704067201000"),
        ("SELECT min_timeuuid('2013-01-01 00:05+0000')".to_owned(), "e23f1e00-53a6-11e2-8080-808080808080"),
        (
            "SELECT max(u) FROM (VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid), (NULL)) AS t(u)".to_owned(),
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("SELECT j ->> 'a' FROM (VALUES ('{\"a\": 1}'::json), (NULL)) AS t(j)".to_owned(), "1|NULL"),
        (
            "SELECT CASE WHEN true THEN uuid '50554d6e-29bb-11e5-b345-feff819cdc9f' END".to_owned(),
            "50554d6e-29bb-11e5-b345-feff819cdc9f",
        ),
        (format!("SELECT date_trunc('day', at) FROM {table} WHERE v = 2"), "2024-01-02 00:00:00+00"),
        (
            format!("SELECT time_bucket('2 days', at), count(*) FROM {table} GROUP BY 1 ORDER BY 1"),
            "2024-01-01 00:00:00+00 2|2024-01-03 00:00:00+00 1",
        ),
        (format!("SELECT date_trunc('week', at), count(*) FROM {table} GROUP BY 1"), "2024-01-01 00:00:00+00 3"),
        ("SELECT 1::tinyint + 1::tinyint".to_owned(), "2"),
        ("SELECT 100::tinyint * 2::tinyint".to_owned(), "22003 tinyint out of range"),
        ("SELECT 12345678901234567890123456789012345678 * 10.0".to_owned(), "22003 value overflows numeric format"),
    ];
    for (sql, wanted) in answers {
        assert_eq!(only(&bench, &sql).await, wanted, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_zone_decides_what_wall_clocks_mean() {
    let mut bench = Bench::new(Rows::default());
    bench.context.time_zone = "Europe/Berlin".into();
    let answers = [
        ("SELECT '2024-07-01 14:00'::timestamptz = '2024-07-01 12:00Z'::timestamptz", "t"),
        ("SELECT extract(hour from '2024-07-01 12:00Z'::timestamptz)", "14"),
        ("SELECT date_trunc('day', '2024-07-01 23:30Z'::timestamptz)", "2024-07-01 22:00:00+00"),
        ("SELECT '2024-07-01 23:30Z'::timestamptz::date", "2024-07-02"),
        ("SELECT '2024-03-30 12:00Z'::timestamptz + interval '1 day'", "2024-03-31 11:00:00+00"),
        ("SELECT to_char('2024-07-01 12:00Z'::timestamptz, 'HH24:MI TZ')", "14:00 CEST"),
        (
            "SELECT x FROM (VALUES ('2024-07-01 12:00Z'::timestamptz)) AS t(x) WHERE x >= '2024-07-01 14:00'",
            "2024-07-01 12:00:00+00",
        ),
        ("SELECT x FROM (VALUES ('2024-07-01 12:00Z'::timestamptz)) AS t(x) WHERE x > '2024-07-01 14:00'", ""),
    ];
    for (sql, wanted) in answers {
        assert_eq!(only(&bench, sql).await, wanted, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_types_and_the_nearest_name() {
    let bench = Bench::new(Rows::default());
    let error = async |sql: &str| bench.query(sql).await.expect_err(sql);
    let text = error("SELECT 'a'::text = 1").await;
    assert_eq!(text.message, "operator does not exist: text = integer");
    assert!(text.hint.is_some_and(|hint| hint.contains("explicit type casts")));
    let function = error("SELECT uper(1)").await;
    assert_eq!(function.message, "function uper(integer) does not exist");
    assert_eq!(function.hint.as_deref(), Some("Perhaps you meant \"upper\"."));
    assert_eq!(error("SELECT 'x'::int").await.message, "invalid input syntax for type integer: \"x\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn instants_beside_parameters_make_instants() {
    let bench = Bench::new(Rows::default());
    let sql = "SELECT x FROM (VALUES ('2024-07-01 12:00Z'::timestamptz, 1.5::double precision)) AS t(x, y) \
               WHERE x > $1 - interval '1 hour' AND y < $2 + 1 AND x BETWEEN $3 AND $4 AND y IN ($5, 1.5)";
    let planned = bench.session.plan(&crate::testing::parse(sql).expect("a query"), &bench.context).await;
    let types: Vec<String> = planned.expect("a plan").parameters.iter().map(|ty| ty.name()).collect();
    assert_eq!(types, ["timestamp", "int", "timestamp", "timestamp", "double"]);
}
