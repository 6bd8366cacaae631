//! A join whose keys become spans, and an aggregate that is done before its join, answer what they answer where nothing can
//! be concluded from the join's keys: with an expression in the place of the key column, so that the whole table is read.
//! Random tables with overwrites, deletions and expiry, in memory and in segments.

use keyspan::Database;
use keyspan_tests::random::Random;

use crate::order::rows_with;

const STEPS: usize = 400;
const ROUNDS: usize = 8;
const SEED: u64 = 20_261_124;
const TEXTS: [&str; 6] = ["", "a", "ab", "b", "c", "é"];

/// Queries; `[x = y]` is an equality that is written in both ways. `@` is a small number.
const QUERIES: [&str; 55] = [
    "SELECT d.id, f.b, f.n, f.v FROM d JOIN f ON [f.a = d.a] WHERE d.flag",
    "SELECT d.id, f.b, f.n, f.v FROM d JOIN f ON [f.a = d.a] AND f.v > d.b WHERE d.b < @",
    "SELECT d.id, f.b, f.n, f.v FROM d LEFT JOIN f ON [f.a = d.a] AND f.v > @ WHERE d.flag",
    "SELECT d.id, f.b, f.n, f.v FROM d RIGHT JOIN f ON [f.a = d.a] AND d.flag",
    "SELECT d.id, f.b, f.n, f.v FROM d FULL JOIN f ON [f.a = d.a]",
    "SELECT d.id, f.n, f.v FROM d JOIN f ON [f.a = d.a] AND [f.b = d.b]",
    "SELECT d.id, f.n, f.v FROM d JOIN f ON [f.a = d.a] AND [f.b = d.b] AND f.n = d.big WHERE f.n BETWEEN @ AND 5",
    "SELECT d.id, g.n, g.v FROM d JOIN g ON [g.b = d.big] WHERE g.n > @",
    "SELECT d.id, f.n FROM d JOIN f ON [f.b = d.b] WHERE f.a = 'a'",
    "SELECT d.id, f.n FROM d JOIN f ON [f.b = d.b] WHERE f.a IN ('a', 'b', '')",
    "SELECT a, b, n, v FROM f WHERE EXISTS (SELECT 1 FROM d WHERE [f.a = d.a] AND d.flag)",
    "SELECT a, b, n, v FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE [f.a = d.a] AND d.flag)",
    "SELECT id FROM d WHERE NOT EXISTS (SELECT 1 FROM f WHERE [f.a = d.a] AND f.v = d.b)",
    "SELECT id FROM d WHERE EXISTS (SELECT 1 FROM f WHERE [f.a = d.a] AND f.v = d.b) OR id < @",
    "SELECT f.b, count(*), max(f.v) FROM f, d WHERE [f.a = d.a] AND d.id IN (1, 2, @) GROUP BY f.b",
    "SELECT d.id, x.m, x.c FROM d LEFT JOIN (SELECT a, max(v) m, count(*) c FROM f GROUP BY a) x ON [x.a = d.a]",
    "SELECT d.id, x.n FROM d JOIN (SELECT a, n, row_number() OVER (PARTITION BY a ORDER BY b, n) r FROM f) x \
     ON [x.a = d.a] WHERE x.r <= @",
    "SELECT d.id, x.s FROM d JOIN (SELECT a, sum(v) OVER (ORDER BY a, b, n) s FROM f) x ON [x.a = d.a]",
    "SELECT d.id, x.b FROM d JOIN (SELECT a, b, n FROM f ORDER BY a, b, n LIMIT @) x ON [x.a = d.a]",
    "SELECT d.id, x.v FROM d JOIN (SELECT b, v FROM f UNION ALL SELECT b, v FROM g WHERE v > 2) x ON [x.b = d.b]",
    "SELECT d.id, x.n, x.v FROM d JOIN LATERAL (SELECT n, v FROM g WHERE [g.b = d.b] ORDER BY n DESC LIMIT 2) x ON true",
    "SELECT d.id, x.n, x.v FROM d LEFT JOIN LATERAL (SELECT n, v FROM g WHERE [g.b = d.b] AND g.v > @ \
     ORDER BY n LIMIT 1) x ON true WHERE d.flag",
    "SELECT id, (SELECT v FROM g WHERE [g.b = d.b] ORDER BY n DESC LIMIT 1), \
     (SELECT count(*) FROM f WHERE [f.a = d.a] AND f.n > 2) FROM d",
    "SELECT id, (SELECT count(*) FROM f LEFT JOIN g ON g.b = f.b AND g.v > d.b WHERE [f.a = d.a] AND f.n <> d.id) FROM d",
    "SELECT d.id, e.id, f.n FROM d JOIN f ON [f.a = d.a] JOIN d e ON [f.b = e.b] WHERE d.flag AND e.id < 6",
    "SELECT d.flag, count(*), count(x), sum(x), avg(x), min(k), max(x), sum(k) FROM h JOIN d ON [h.a = d.a] GROUP BY 1",
    "SELECT d.flag, date_trunc('hour', ts), avg(x) + sum(x), count(*) FROM h JOIN d ON [h.a = d.a] GROUP BY 1, 2",
    "SELECT time_bucket('2 hours', ts), max(x) FROM h WHERE EXISTS (SELECT 1 FROM d WHERE [h.a = d.a] AND d.flag) GROUP BY 1",
    "SELECT count(*), count(x), avg(x), max(k) FROM h JOIN d ON [h.a = d.a] WHERE d.id = @",
    "SELECT d.id + 1, h.a, count(x) FROM h, d WHERE [h.a = d.a] AND k < 5 GROUP BY 1, 2 HAVING count(*) > 1",
    "SELECT d.big, ts::date, extract(hour FROM ts), min(ts), max(d.id) FROM d JOIN h ON [h.a = d.a] GROUP BY 1, 2, 3",
    "SELECT d.id, f.b, sum(f.v), max(f.n) FROM d JOIN f ON [f.a = d.a] GROUP BY d.id, f.b",
    "SELECT f.b, count(*), min(f.v) FROM f JOIN d ON [f.a = d.a] AND [f.b = d.b] GROUP BY f.b",
    "SELECT d.flag, sum(c) FROM d JOIN (SELECT a, count(*) c, sum(x) s FROM h GROUP BY a) q ON [q.a = d.a] GROUP BY 1",
    "SELECT d.flag, count(*), sum(x), max(ts) FROM h LEFT JOIN d ON [h.a = d.a] GROUP BY 1",
    "SELECT d.flag, count(*), sum(x), min(s.b), max(t), avg(x) FROM s JOIN d ON [s.a = d.a] GROUP BY 1",
    "SELECT d.big, s.b, count(x), sum(s.big) FROM d JOIN s ON [s.b = d.b] AND [s.a = d.a] WHERE s.id % 5 > 0 GROUP BY 1, 2",
    "SELECT d.id, date_trunc('day', t), count(*), sum(s.b) FROM s LEFT JOIN d ON [s.b = d.b] GROUP BY 1, 2",
    "SELECT count(*), sum(x), max(s.big) FROM d RIGHT JOIN s ON [s.a = d.a] AND d.flag",
    "SELECT s.a, count(*), sum(x) FROM s WHERE EXISTS (SELECT 1 FROM d WHERE [s.a = d.a] AND d.flag) GROUP BY 1",
    "SELECT d.id, count(*), count(s.b) FROM d LEFT JOIN s ON [s.b = d.b] GROUP BY 1",
    // A row that fails is one that the join leaves out.
    "SELECT d.id, sum(100 / s.b), count(*) FROM d JOIN s ON [s.b = d.b] WHERE d.b > 0 GROUP BY 1",
    "SELECT d.id, sum(s.a::int) FROM d JOIN s ON [s.b = d.b] WHERE d.b < 0 GROUP BY 1",
    "SELECT d.id, sum(x * 2 + s.b), count(CASE WHEN s.b > 2 THEN 1 END) FROM d JOIN s ON [s.a = d.a] GROUP BY 1",
    // Rows that are looked up in a table by its key.
    "SELECT d.a, count(*), sum(x), min(d.big), max(s.b + d.b) FROM s JOIN d ON [s.b = d.id] GROUP BY 1",
    "SELECT d.a, d.flag, count(*), count(d.b), sum(x) FROM s LEFT JOIN d ON [s.b = d.id] GROUP BY 1, 2",
    "SELECT s.a, d.a, e.a, count(*), sum(d.big + e.big) FROM s JOIN d ON [s.b = d.id] LEFT JOIN d e ON [s.big = e.id] \
     WHERE s.id % 3 < 2 GROUP BY 1, 2, 3",
    "SELECT s.a, count(*), count(DISTINCT s.b) FROM s WHERE EXISTS (SELECT 1 FROM d WHERE [s.b = d.id] AND d.flag) GROUP BY 1",
    "SELECT s.a, count(*), avg(x) FROM s WHERE NOT EXISTS (SELECT 1 FROM d WHERE [s.b = d.id] AND d.flag) GROUP BY 1",
    "SELECT count(*), sum(d.b), count(e.id), max(e.a) FROM s JOIN d ON [s.b = d.id] JOIN d e ON [d.b = e.id]",
    "SELECT d.flag, sum(s.b / nullif(d.b, 0)), sum(100 / (s.b - d.id + 1)) FROM s JOIN d ON [s.b = d.id] GROUP BY 1",
    "SELECT d.a, count(*) FILTER (WHERE d.big > s.b), max(s.a || d.a) FROM d JOIN s ON [s.b = d.id] WHERE s.b > @ GROUP BY ROLLUP (1)",
    "SELECT f.a, d.a, max(n), count(DISTINCT d.b) FROM f JOIN d ON [f.v = d.id] GROUP BY 1, 2",
    "SELECT q.c, sum(x) FROM s JOIN (SELECT b, count(*) c FROM f GROUP BY b) q ON [s.b = q.b] GROUP BY 1",
    "SELECT e.a, count(*) FROM s JOIN (SELECT a, min(id) m FROM d WHERE a <> 'b' GROUP BY a) e ON [s.a = e.a] GROUP BY 1",
];

/// The places of the queries whose joins make no spans, of those that are grouped below their join, and of those whose rows
/// are looked up while they are grouped.
const NEVER_NARROWED: [usize; 25] =
    [3, 4, 11, 17, 18, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 50, 51, 52, 53, 54];
const LOOKED_UP: [usize; 23] =
    [25, 26, 29, 30, 33, 35, 37, 38, 39, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54];
const GROUPED_FIRST: [usize; 19] = [13, 14, 15, 22, 23, 25, 26, 27, 28, 29, 31, 32, 33, 34, 35, 36, 37, 38, 39];

/// The query with its equalities as they are, or each as two, with an expression of the same value on their left: no key of
/// a table, and no single one, so that DataFusion's hash join does it.
fn with(query: &str, number: usize, plain: bool) -> String {
    let mut text = String::new();
    for part in query.replace('@', &number.to_string()).split(['[', ']']).enumerate() {
        match part {
            (at, equality) if at % 2 == 1 && !plain => {
                let (left, right) = equality.split_once(" = ").unwrap();
                let nothing = if left.ends_with(".a") { "|| ''" } else { "+ 0" };
                text += &format!("{left} {nothing} = {right} AND {left} {nothing} = {right} {nothing}");
            }
            (_, part) => text += part,
        }
    }
    text
}

fn step(random: &mut Random) -> String {
    let (a, b, n) = (TEXTS[random.below(TEXTS.len())], random.below(6), random.below(8));
    let v = if random.below(8) == 0 { "NULL".to_owned() } else { random.below(6).to_string() };
    match random.below(27) {
        0..=6 => format!("INSERT INTO f (a, b, n, v) VALUES ('{a}', {b}, {n}, {v})"),
        7 => format!("INSERT INTO f (a, b, n, v) VALUES ('{a}', {b}, {n}, {v}) USING TTL 1"),
        8..=12 => format!("INSERT INTO g (b, n, v) VALUES ({b}, {n}, {v})"),
        13 => format!("DELETE FROM f WHERE a = '{a}' AND b = {b}"),
        14 => format!("DELETE FROM g WHERE b = {b} AND n > {n}"),
        15 => format!("DELETE FROM d WHERE id = {}", random.below(9)),
        16 => "FLUSH".to_owned(),
        23..=26 => format!(
            "INSERT INTO s SELECT i, CASE WHEN i % 9 > 0 THEN (ARRAY['', 'a', 'ab', 'b', 'c', 'é'])[i % 6 + 1] END, i % 7, i * 1000000000::bigint, \
             i % 5, timestamptz '2026-01-01' + i * interval '1 hour' FROM generate_series({n} * 50, {n} * 50 + 49) g(i)"
        ),
        20..=22 => {
            format!("INSERT INTO h VALUES ('{a}', timestamptz '2026-01-01' + {n} * interval '25 minutes', {v}, {b})")
        }
        _ => {
            let (a, b) = match random.below(6) {
                0 => ("NULL".to_owned(), "NULL".to_owned()),
                _ => (format!("'{a}'"), b.to_string()),
            };
            let big = [n as i64, 5_000_000_000][usize::from(random.below(5) == 0)];
            format!("INSERT INTO d VALUES ({}, {a}, {b}, {big}, {})", random.below(9), random.below(2) == 0)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_spans_answer_what_joins_of_whole_tables_answer() {
    println!("seed {SEED}");
    let mut random = Random::new(SEED);
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    for table in [
        "CREATE TABLE d (id int PRIMARY KEY, a text, b int, big bigint, flag boolean)",
        "CREATE TABLE f (a text, b int, n bigint, v int, PRIMARY KEY (a, b, n))",
        "CREATE TABLE h (a text, ts timestamp, x double, k int, PRIMARY KEY (a, ts))",
        "CREATE TABLE s (id int PRIMARY KEY, a text, b int, big bigint, x double, t timestamp)",
        "CREATE TABLE g (b int, n bigint, v int, PRIMARY KEY (b, n)) WITH CLUSTERING ORDER BY (n DESC)",
    ] {
        session.execute(table).await.unwrap();
    }
    let [mut narrowed, mut grouped_first, mut looked_up] = [(); 3].map(|()| vec![false; QUERIES.len()]);
    for round in 0..ROUNDS {
        for _ in 0..STEPS / ROUNDS {
            session.execute(&step(&mut random)).await.unwrap();
        }
        if round % 3 == 2 {
            session.execute("COMPACT").await.unwrap();
        }
        // One snapshot, so that nothing expires between two of them.
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        for (place, query) in QUERIES.iter().enumerate() {
            let number = 1 + random.below(4);
            let (plain, other) = (with(query, number, true), with(query, number, false));
            let explained = rows_with(&mut session, &format!("EXPLAIN {plain}"), &[]).await;
            narrowed[place] |= explained.iter().any(|line| line.contains("join_keys="));
            grouped_first[place] |= is_grouped_below_join(&explained);
            looked_up[place] |= explained.iter().any(|line| line.contains("joins=["));
            let otherwise = rows_with(&mut session, &format!("EXPLAIN {other}"), &[]).await;
            assert!(!otherwise.iter().any(|line| line.contains("joins=[")), "{otherwise:#?}");
            if query.contains("ORDER BY n DESC LIMIT 2") {
                assert!(explained.iter().any(|line| line.contains("rows_per=[b]: 2")), "{explained:#?}");
            }
            let mut found = rows_with(&mut session, &plain, &[]).await;
            let mut expected = rows_with(&mut session, &other, &[]).await;
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{plain}\nand\n{other}");
        }
        session.execute("COMMIT").await.unwrap();
    }
    let places = |seen: &[bool], wanted: bool| -> Vec<usize> {
        seen.iter().enumerate().filter(|(_, seen)| **seen == wanted).map(|(place, _)| place).collect()
    };
    // The sides that are kept, and what looks at all rows.
    assert_eq!(places(&narrowed, false), NEVER_NARROWED);
    assert_eq!(places(&grouped_first, true), GROUPED_FIRST);
    assert_eq!(places(&looked_up, true), LOOKED_UP);
}

/// Whether a scan is grouped under a join.
fn is_grouped_below_join(plan: &[String]) -> bool {
    let join = plan.iter().position(|line| line.contains("HashJoin"));
    join.is_some_and(|join| plan[join..].iter().any(|line| line.contains("GroupedScan")))
}
