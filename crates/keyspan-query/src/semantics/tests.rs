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
    let planned = bench.session.plan(&*crate::testing::parse(query).expect("a query"), &bench.context).await;
    let types: Vec<String> = planned.expect("a plan").parameters.iter().map(|ty| ty.name()).collect();
    assert_eq!(types, ["int", "text", "text", "int", "bigint"]);
    let rows = bench.query_with("SELECT $1 + 1", &[Value::Int(41)]).await;
    assert_eq!(rows.expect("rows").1, [["42"]]);
}
