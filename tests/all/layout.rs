//! What a query reads, as EXPLAIN ANALYZE tells it: no comparison of rows where runs are disjoint, and few pages and bytes
//! for one hour of one series. CI reads a small table; `KEYSPAN_LAYOUT_ROWS=4000000` the size that the bounds are for.

use keyspan::Database;
use keyspan_model::{ColumnType, Value, array};

/// Rows of the table: 60 series of one row every 10 seconds.
fn table_rows() -> u64 {
    std::env::var("KEYSPAN_LAYOUT_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(120_000)
}

const SERIES: u64 = 60;
/// Rows of one series in an hour.
const HOUR_ROWS: u64 = 360;

async fn explained(database: &Database, sql: &str) -> String {
    let rows = database.session().query(&format!("EXPLAIN ANALYZE {sql}"), &[]).await.unwrap();
    let mut lines = Vec::new();
    for batch in rows.collect().await.unwrap() {
        for row in 0..batch.num_rows() {
            match array::value_at(batch.column(0), row, ColumnType::Text).unwrap() {
                Value::Text(line) => lines.push(line),
                other => panic!("{other:?}"),
            }
        }
    }
    lines.join("\n")
}

/// The number after `name=` in the line of the scan.
fn metric(plan: &str, name: &str) -> f64 {
    let scan = plan.lines().find(|line| line.contains("SpanScan")).unwrap_or_else(|| panic!("no scan in\n{plan}"));
    let (_, after) = scan.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name} in\n{plan}"));
    let end = after.find([',', ']']).unwrap_or(after.len());
    let (digits, unit) = match after[..end].trim().split_once(' ') {
        Some((digits, unit)) => (digits, unit),
        None => (after[..end].trim(), ""),
    };
    let factor = match unit {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        other => panic!("the unit {other} in\n{plan}"),
    };
    digits.parse::<f64>().unwrap() * factor
}

/// Loads time slices of all series one after another, each flushed: runs disjoint in time, not in the leading key column.
async fn load(database: &Database) {
    let mut session = database.session();
    session
        .execute("CREATE TABLE m (host int, ts timestamp, a double, b double, PRIMARY KEY (host, ts))")
        .await
        .unwrap();
    let steps = table_rows() / SERIES;
    let slices = 4;
    for slice in 0..slices {
        let (from, to) = (steps * slice / slices, steps * (slice + 1) / slices - 1);
        let sql = format!(
            "INSERT INTO m SELECT h, '2024-01-01 00:00:00+00'::timestamptz + s * interval '10 seconds', h + s, h * s
             FROM generate_series(1, {SERIES}) AS x(h), generate_series({from}, {to}) AS y(s)"
        );
        session.execute(&sql).await.unwrap();
        database.flush().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disjoint_runs_are_not_compared_and_an_hour_of_a_series_is_little_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    load(&database).await;

    let all = explained(&database, "SELECT * FROM m ORDER BY host, ts").await;
    assert!(all.contains("form=interleave") || all.contains("form=concatenate"), "{all}");
    assert_eq!(metric(&all, "rows_merged"), 0.0, "{all}");
    // Large numbers are shown with three digits.
    let rows = (table_rows() / SERIES * SERIES) as f64;
    assert!((metric(&all, "output_rows") - rows).abs() <= rows * 0.005, "{all}");

    let hour = "SELECT * FROM m WHERE host = 33 AND ts >= '2024-01-01 01:00:00+00' AND ts < '2024-01-01 02:00:00+00'";
    let one = explained(&database, hour).await;
    assert_eq!(metric(&one, "output_rows"), HOUR_ROWS as f64, "{one}");
    assert_eq!(metric(&one, "rows_merged"), 0.0, "{one}");
    // Four columns of 360 rows: one or two pages of each in each of the two runs that the hour may touch, and their index.
    assert!(metric(&one, "pages_read") <= 40.0, "{one}");
    assert!(metric(&one, "bytes_read") <= 600_000.0, "{one}");

    // The same rows again in one run: now runs meet, and versions are compared.
    let mut session = database.session();
    session.execute("INSERT INTO m SELECT * FROM m WHERE host = 33").await.unwrap();
    let met = explained(&database, "SELECT * FROM m WHERE host = 33 ORDER BY ts").await;
    assert!(met.contains("form=merge"), "{met}");
    assert!(metric(&met, "rows_merged") > 0.0, "{met}");
}
