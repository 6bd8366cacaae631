//! Queries over more than their memory holds: they spill, or end with an error that says who took it.

use keyspan_query::QueryOptions;

use super::{error, rows, run};
use crate::{Database, Options, Session};

/// Rows of the table `wide`, of some 400 bytes each.
const ROWS: usize = 60_000;

fn session(memory_limit: usize, threads: usize) -> Session {
    let query = QueryOptions { memory_limit, threads, ..QueryOptions::default() };
    Database::in_memory_with(Options { query, ..Options::default() }).expect("a store in memory").session()
}

async fn wide() -> Session {
    let mut s = session(8 << 20, 2);
    run(&mut s, "CREATE TABLE wide (k bigint PRIMARY KEY, v text)").await;
    let value = "repeat(md5((a / 2)::text), 12) || (a / 2)";
    run(&mut s, &format!("INSERT INTO wide SELECT a, {value} FROM generate_series(1, {ROWS}) AS s(a)")).await;
    s
}

/// All rows of a query, a thousand at a time.
async fn fetched(s: &mut Session, query: &str) -> Vec<String> {
    run(s, &format!("BEGIN; DECLARE fetched CURSOR FOR {query}")).await;
    let mut all = Vec::new();
    loop {
        let some = rows(s, "FETCH 1000 FROM fetched").await;
        if some.is_empty() {
            run(s, "COMMIT").await;
            return all;
        }
        all.extend(some);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_has_a_limit_of_its_own() {
    let query = QueryOptions { statement_limit: Some(64 << 20), threads: 2, ..QueryOptions::default() };
    let database = Database::in_memory_with(Options { query, ..Options::default() }).expect("a store in memory");
    let (mut s, mut other) = (database.session(), database.session());
    run(&mut s, "CREATE TABLE wide (k bigint PRIMARY KEY, v text)").await;
    run(&mut s, "INSERT INTO wide SELECT a, repeat(md5(a::text), 12) FROM generate_series(1, 60000) AS s(a)").await;
    let joined = "SELECT count(*) FROM wide a JOIN wide b USING (v) WHERE a.v > '' AND b.v > ''";
    assert_eq!(rows(&mut s, joined).await, ["60000"]);
    run(&mut s, "SET statement_memory = '8 MB'").await;
    assert_eq!(rows(&mut s, "SHOW statement_memory").await, ["8 MB"]);
    let refused = error(&mut s, joined).await;
    assert_eq!((refused.sqlstate(), refused.message.contains("statement_memory")), ("53200", true), "{refused:?}");
    assert_eq!(rows(&mut other, joined).await, ["60000"], "others have theirs");
    let groups = "SELECT count(*), max(n) FROM (SELECT v, count(*) AS n FROM wide GROUP BY v) g";
    assert_eq!(rows(&mut s, groups).await, ["60000 1"], "what can go to disk does");
    assert_eq!(fetched(&mut s, "SELECT k FROM wide ORDER BY v, k").await.len(), 60_000, "sorts, too");
    assert_eq!(rows(&mut s, "SELECT count(*) FROM (SELECT DISTINCT v FROM wide) d").await, ["60000"]);
    assert_eq!(error(&mut s, "SET statement_memory = 4").await.sqlstate(), "22023");
    run(&mut s, "RESET statement_memory").await;
    assert_eq!(rows(&mut s, joined).await, ["60000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_and_groups_larger_than_memory_spill() {
    let mut s = wide().await;
    let groups = "SELECT count(*), max(n) FROM (SELECT v, count(*) AS n FROM wide GROUP BY v) g";
    assert_eq!(rows(&mut s, groups).await, [format!("{} 2", ROWS / 2 + 1)]);
    let last = rows(&mut s, "SELECT k, length(v) FROM wide ORDER BY v DESC, k LIMIT 3").await;
    let all = fetched(&mut s, "SELECT k, length(v) FROM wide ORDER BY v DESC, k").await;
    assert_eq!((all.len(), &all[..3]), (ROWS, last.as_slice()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_time_larger_than_memory_spill_and_keep_their_order() {
    let mut s = session(6 << 20, 2);
    run(&mut s, "CREATE TABLE m (host text, at timestamp, v double, n int, PRIMARY KEY (host, at))").await;
    // The rows of a second come in three statements.
    for part in 0..3 {
        let rows = format!(
            "INSERT INTO m SELECT 'host ' || a % 20, '2024-01-01'::timestamp + a / 20 * interval '1 s' \
             + {part} * interval '1 ms', CASE WHEN a % 5 > 0 THEN a % 977 END, a % 31 + {part} \
             FROM generate_series(0, 59999) AS s(a)"
        );
        run(&mut s, &rows).await;
    }
    let of = |from: &str| {
        format!(
            "SELECT host, date_trunc('second', at) AS t, count(*), count(v), sum(n), avg(v), min(v), max(at) \
             FROM {from} GROUP BY host, t"
        )
    };
    let (runs, stock) = (of("m"), of("(SELECT * FROM m LIMIT 1000000) m"));
    let plan = rows(&mut s, &format!("EXPLAIN ANALYZE {runs}")).await.join("\n");
    assert!(plan.contains("GroupedScan") && plan.contains("spill_count") && !plan.contains("spill_count=0"), "{plan}");
    for (order, limit) in [("host, t", 60_000), ("t DESC, host", 50_000)] {
        let found = fetched(&mut s, &format!("{runs} ORDER BY {order} LIMIT {limit}")).await;
        let all = fetched(&mut s, &format!("{stock} ORDER BY {order}")).await;
        assert!(found[..] == all[..limit], "{order}");
    }
    let groups = rows(&mut s, &format!("SELECT count(*) FROM ({runs}) g")).await;
    assert_eq!(groups, ["60000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_by_values_larger_than_memory_spill_with_their_sets_and_accumulators() {
    let table = "CREATE TABLE m (k int PRIMARY KEY, t text, u boolean, v double, n int)";
    let insert = "INSERT INTO m SELECT a, CASE WHEN a % 2000 > 0 THEN repeat(md5((a % 2000)::text), 60) END, a % 3 = 0, \
                  CASE WHEN a % 5 > 0 THEN a % 977 END, a % 31 FROM generate_series(1, 40000) AS s(a)";
    let sql = "SELECT md5(t), u, count(*), sum(v), max(n) FILTER (WHERE v > 500), round(avg(n), 6), \
               round(stddev(v)::numeric, 6), min(left(t, 3)) FROM m GROUP BY ROLLUP (t, u)";
    let mut found = Vec::new();
    for memory in [6 << 20, 256 << 20] {
        let mut s = session(memory, 2);
        run(&mut s, table).await;
        run(&mut s, insert).await;
        let plan = rows(&mut s, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
        let spilled = plan.contains("spill_count") && !plan.contains("spill_count=0");
        assert!(plan.contains("GroupedScan") && spilled == (memory == 6 << 20), "{plan}");
        let mut all = fetched(&mut s, sql).await;
        all.sort();
        found.push(all);
    }
    assert_eq!(found[0].len(), 4000 + 2000 + 1);
    assert_eq!(found[0], found[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_pass_numbers_on_and_count_what_they_hold() {
    let mut s = wide().await;
    let numbers = "SELECT count(*), max(r) FROM (SELECT row_number() OVER (ORDER BY k % 977) AS r FROM wide) w";
    assert_eq!(rows(&mut s, numbers).await, [format!("{ROWS} {ROWS}")]);
    let texts = "SELECT count(*), max(r) FROM (SELECT row_number() OVER (ORDER BY v) AS r FROM wide) w";
    let whole = "SELECT max(r) FROM (SELECT percent_rank() OVER (ORDER BY k % 977, v) AS r FROM wide) w";
    for sql in [texts, whole] {
        let refused = error(&mut s, sql).await;
        assert_eq!(refused.sqlstate(), "53200", "{refused}");
        assert!(refused.detail.as_ref().is_some_and(|detail| detail.contains("WindowInput")), "{refused:?}");
    }
    let few = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY v) AS r FROM wide WHERE k <= 2000) w";
    assert_eq!(rows(&mut s, few).await, ["2000"], "what was held is given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_spill_says_who_took_the_memory() {
    let mut s = wide().await;
    let refused = error(&mut s, "SELECT count(*), count(DISTINCT v) FROM wide").await;
    assert_eq!(refused.sqlstate(), "53200");
    assert!(refused.detail.is_some_and(|detail| detail.contains("GroupedScan")));
    assert_eq!(rows(&mut s, "SELECT count(*) FROM wide").await, [ROWS.to_string()], "the session goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_surely_fits_is_dealt_out_by_hash() {
    let sql = "EXPLAIN SELECT v, array_agg(k) FROM many GROUP BY v";
    // A limit of 128 MB has a quarter of 32 MB; a text counts 24 bytes.
    for (count, dealt) in [(200_000, true), (1_500_000, false)] {
        let mut s = session(128 << 20, 2);
        run(&mut s, "CREATE TABLE many (k bigint PRIMARY KEY, v text)").await;
        run(&mut s, &format!("INSERT INTO many SELECT a, a / 2 FROM generate_series(1, {count}) AS s(a)")).await;
        let plan = rows(&mut s, sql).await;
        assert_eq!(plan.iter().any(|line| line.contains("Repartition: by")), dealt, "{count} rows: {plan:#?}");
    }
}
