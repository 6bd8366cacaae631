//! ASOF joins against a search through all pairs.

use keyspan_model::{ColumnType, Value};

use crate::testing::{Bench, Rows};

/// (symbol, time, value)
type Sample = (i64, i64, i64);

/// Times of few symbols, more than an answer's held batches hold; both sides share some times.
fn samples(seed: i64, count: i64) -> Vec<Sample> {
    let mut found: Vec<Sample> = (0..count)
        .map(|n| {
            let mixed = (n * 7919 + seed * 104_729) % 10_007;
            (mixed % 5 + seed % 2, mixed / 5, n)
        })
        .collect();
    found.sort();
    found.dedup_by_key(|sample| (sample.0, sample.1));
    found
}

fn bench(left: &[Sample], right: &[Sample]) -> Bench {
    let mut rows = Rows::default();
    for (name, samples) in [("l", left), ("r", right)] {
        let columns = [("s", ColumnType::BigInt, 'p'), ("t", ColumnType::BigInt, 'a'), ("v", ColumnType::BigInt, '-')];
        let row = |(s, t, v): &Sample| vec![Value::BigInt(*s), Value::BigInt(*t), Value::BigInt(*v)];
        rows.create(name, &columns, samples.iter().map(row).collect());
    }
    Bench::new(rows)
}

fn searched(left: &[Sample], right: &[Sample], op: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (symbol, time, value) in left {
        let same = right.iter().filter(|other| other.0 == *symbol);
        let found = match op {
            ">=" => same.filter(|other| *time >= other.1).max_by_key(|other| other.1),
            ">" => same.filter(|other| *time > other.1).max_by_key(|other| other.1),
            "<=" => same.filter(|other| *time <= other.1).min_by_key(|other| other.1),
            _ => same.filter(|other| *time < other.1).min_by_key(|other| other.1),
        };
        rows.push(vec![value.to_string(), found.map_or("∅".to_owned(), |other| other.2.to_string())]);
    }
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_row_is_found_whatever_the_batches() {
    for (seed, left, right) in [(1, 400, 900), (2, 900, 400), (3, 50, 2000), (4, 0, 30), (5, 30, 0)] {
        let (left, right) = (samples(seed, left), samples(seed + 10, right));
        let bench = bench(&left, &right);
        for op in [">=", ">", "<=", "<"] {
            // The crate above writes GLOBAL for ASOF.
            let sql = format!("SELECT l.v, r.v AS w FROM l GLOBAL LEFT JOIN r ON l.s = r.s AND l.t {op} r.t");
            let (_, mut rows) = bench.query(&sql).await.expect("an answer");
            rows.sort();
            let wanted = searched(&left, &right, op);
            assert_eq!(rows, wanted, "{sql}, seed {seed}");
            let inner = sql.replace("LEFT JOIN", "JOIN");
            let count = wanted.iter().filter(|row| row[1] != "∅").count();
            assert_eq!(bench.run(&inner).await.expect("an answer"), count, "{inner}, seed {seed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_on_the_left_side_reads_less_of_both() {
    let (left, right) = (samples(1, 100), samples(11, 100));
    let bench = bench(&left, &right);
    let sql = "SELECT l.v, r.v AS w FROM l GLOBAL JOIN r ON l.s = r.s AND l.t >= r.t WHERE l.s = 2 AND l.t < 900";
    let plan = bench.explain(sql, false).await.expect("a plan");
    assert_eq!(plan.matches("spans=[(2, (.. 900))]").count(), 2, "{plan}");
    assert!(!plan.contains("Sort:"), "{plan}");
}
