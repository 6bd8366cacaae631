//! ORDER BY gives the same rows whether the scan's own order answers it or a sort does, whatever was written before.

use keyspan::text::{ArrayText, TextStyle};
use keyspan::{Database, Session};
use keyspan_model::Value;
use keyspan_tests::random::Random;

const MUTATIONS: usize = 10_000;
const SEED: u64 = 20_240_229;

pub(crate) async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    rows_with(session, sql, &[]).await
}

pub(crate) async fn rows_with(session: &mut Session, sql: &str, parameters: &[Value]) -> Vec<String> {
    let rows = session.query(sql, parameters).await.unwrap_or_else(|error| panic!("{sql} {parameters:?}: {error}"));
    let schema = rows.schema().clone();
    let mut lines = Vec::new();
    for batch in rows.collect().await.unwrap() {
        let columns = schema.fields().iter().zip(batch.columns());
        let columns: Vec<_> =
            columns.map(|(field, array)| ArrayText::new(field, array, TextStyle::UTC).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            for column in &columns {
                match column.is_null(row) {
                    true => line.push_str("NULL"),
                    false => column.write(row, &mut line).unwrap(),
                }
                line.push('|');
            }
            lines.push(line);
        }
    }
    lines
}

fn key(random: &mut Random) -> (String, usize, usize) {
    (["a", "ab", "b", "é", "zz"][random.below(5)].to_string(), random.below(40), random.below(60))
}

/// One statement, and how many rows it is about.
fn mutation(random: &mut Random) -> (String, usize) {
    let (a, b, c) = key(random);
    match random.below(10) {
        0 => (format!("DELETE FROM t WHERE a = '{a}' AND b = {b} AND c = {c}"), 1),
        1 => (format!("DELETE FROM t WHERE a = '{a}' AND b = {b} AND c > {c}"), 1),
        2 => (format!("UPDATE t SET v = {c} WHERE a = '{a}' AND b = {b} AND c = {c}"), 1),
        _ => {
            let many = 1 + random.below(30);
            let each = (0..many).map(|n| {
                let (a, b, c) = key(random);
                format!("('{a}', {b}, {c}, {n})")
            });
            (format!("INSERT INTO t VALUES {}", each.collect::<Vec<_>>().join(", ")), many)
        }
    }
}

/// What is asked, once by columns and once by expressions, whose order no scan has.
const ORDERS: [(&str, &str, &str); 6] = [
    ("", "a, b DESC, c", "a || '', b + 0 DESC, c + 0"),
    ("", "a DESC, b, c DESC", "a || '' DESC, b + 0, c + 0 DESC"),
    ("WHERE a = 'ab'", "b, c DESC", "b + 0, c + 0 DESC"),
    ("WHERE a IN ('b', 'zz') AND b > 10", "a, b DESC, c", "a || '', b + 0 DESC, c + 0"),
    ("WHERE v % 3 = 0", "a DESC, b, c DESC", "a || '' DESC, b + 0, c + 0 DESC"),
    ("WHERE a = 'é' AND b = 7", "c DESC", "c + 0 DESC"),
];

async fn compare(session: &mut Session) {
    for (filter, by_key, by_value) in ORDERS {
        for limit in ["", "LIMIT 17", "LIMIT 9 OFFSET 5"] {
            let own = format!("SELECT * FROM t {filter} ORDER BY {by_key} {limit}");
            let sorted = format!("SELECT * FROM t {filter} ORDER BY {by_value} {limit}");
            assert_eq!(rows(session, &own).await, rows(session, &sorted).await, "{own}");
            let plans =
                [rows(session, &format!("EXPLAIN {own}")).await, rows(session, &format!("EXPLAIN {sorted}")).await];
            let [own_sorts, sorted_sorts] = plans.map(|plan| plan.iter().any(|line| line.contains("Sort:")));
            assert!(!own_sorts && sorted_sorts, "{own}: the scan's order and a sort are to be compared");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scans_order_is_the_sorts_order_after_random_mutations() {
    println!("seed {SEED}");
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    let create = "CREATE TABLE t (a text, b int, c int, v int, PRIMARY KEY ((a), b, c)) WITH CLUSTERING ORDER BY (b DESC, c ASC)";
    session.execute(create).await.unwrap();
    let (mut random, mut done, mut checks) = (Random::new(SEED), 0, 0);
    while done < MUTATIONS {
        let (sql, count) = mutation(&mut random);
        session.execute(&sql).await.unwrap();
        done += count;
        match random.below(100) {
            0..6 => database.flush().await.unwrap(),
            6 => database.compact().await.unwrap(),
            _ => {}
        }
        if done * 4 / MUTATIONS > checks {
            checks += 1;
            compare(&mut session).await;
        }
    }
    database.compact().await.unwrap();
    compare(&mut session).await;
}
