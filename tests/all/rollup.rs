//! A materialized view answers what its query answers, whatever was written, deleted, flushed, merged, refreshed or opened
//! again in between, and inside transactions too.

use std::sync::Arc;

use keyspan::{Database, Options};
use keyspan_store::clock::ManualClock;
use keyspan_tests::random::Random;

use super::order::rows;

const STEPS: usize = 400;

/// Two views of one table, and their queries.
const VIEWS: [(&str, &str); 2] = [
    (
        "by_host",
        "SELECT host, time_bucket('1 hour', ts) AS hour, count(*) AS n, sum(v) AS total, min(v) AS least, max(w) AS most, avg(v) AS mean \
         FROM m GROUP BY host, hour",
    ),
    (
        "busy",
        "SELECT date_bin('15 minutes', ts) AS quarter, sum(v) AS total FROM m WHERE v > 3 GROUP BY 1 HAVING count(*) > 1",
    ),
];

/// Nothing is kept longer than it must: so a deletion that is forgotten before the views have seen it would show.
const TABLE: &str =
    "CREATE TABLE m (host int, ts timestamp, v int, w bigint, PRIMARY KEY (host, ts)) WITH gc_grace_seconds = 0";

fn time(random: &mut Random) -> String {
    format!("'2024-01-01 00:00:00+00'::timestamptz + {} * interval '1 minute'", random.below(8 * 60))
}

fn mutation(random: &mut Random) -> String {
    let host = random.below(4);
    match random.below(20) {
        0 => format!("DELETE FROM m WHERE host = {host}"),
        1 => format!("DELETE FROM m WHERE host = {host} AND ts > {} AND v < 50", time(random)),
        2 | 3 => format!("DELETE FROM m WHERE host = {host} AND ts >= {} AND ts < {}", time(random), time(random)),
        4..=7 => format!("DELETE FROM m WHERE host = {host} AND ts = {}", time(random)),
        8 => format!("UPDATE m SET v = v + 1 WHERE host = {host} AND ts < {}", time(random)),
        9 => "TRUNCATE m".to_owned(),
        10 => format!(
            "INSERT INTO m SELECT h, {} + n * interval '1 minute', n % 90, n FROM generate_series(0, 3) AS a(h), generate_series(1, 300) AS b(n)",
            time(random)
        ),
        _ => {
            let row =
                |random: &mut Random| format!("({}, {}, {}, NULL)", random.below(4), time(random), random.below(100));
            let many = 1 + random.below(10);
            format!("INSERT INTO m VALUES {}", (0..many).map(|_| row(random)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// What happens besides statements on the table.
async fn upkeep(database: &Database, random: &mut Random) {
    let mut session = database.session();
    match random.below(8) {
        0 => database.flush().await.unwrap(),
        1 => database.compact().await.unwrap(),
        2 | 3 => {
            let (view, _) = VIEWS[random.below(2)];
            session.execute(&format!("REFRESH MATERIALIZED VIEW {view}")).await.unwrap();
        }
        _ => {}
    }
}

async fn check(session: &mut keyspan::Session, step: usize) {
    for (view, query) in VIEWS {
        let mut kept = rows(session, &format!("SELECT * FROM {view}")).await;
        let mut computed = rows(session, query).await;
        kept.sort();
        computed.sort();
        assert_eq!(kept, computed, "{view} after step {step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_answers_what_its_query_answers() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.store.background = false;
    let mut database = Database::open_with(folder.path(), options.clone()).unwrap();
    database.session().execute(TABLE).await.unwrap();
    for (view, query) in VIEWS {
        database.session().execute(&format!("CREATE MATERIALIZED VIEW {view} AS {query}")).await.unwrap();
    }
    let mut random = Random::new(7);
    for step in 0..STEPS {
        let mut session = database.session();
        if random.below(10) == 0 {
            session.execute("BEGIN").await.unwrap();
            session.execute(&mutation(&mut random)).await.unwrap();
            session.execute(&mutation(&mut random)).await.unwrap();
            check(&mut session, step).await;
            let end = ["COMMIT", "ROLLBACK"][random.below(2)];
            session.execute(end).await.unwrap();
        } else {
            session.execute(&mutation(&mut random)).await.unwrap();
        }
        upkeep(&database, &mut random).await;
        check(&mut session, step).await;
        if step % 50 == 49 {
            drop(session);
            database.close().unwrap();
            database = Database::open_with(folder.path(), options.clone()).unwrap();
            check(&mut database.session(), step).await;
        }
    }
}

/// Rows that expire leave the view's rows behind: what they are for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_outlives_its_rows() {
    for life in ["default_time_to_live = 86400", "retention = '1d'"] {
        outlives_its_rows(life).await;
    }
}

async fn outlives_its_rows(life: &str) {
    const HOUR: i64 = 3_600_000_000;
    let clock = Arc::new(ManualClock::new(1_704_844_800_000_000));
    let mut options = Options::default();
    options.store.clock = clock.clone();
    options.store.background = false;
    let database = Database::in_memory_with(options).unwrap();
    let mut session = database.session();
    let table = format!("CREATE TABLE m (host int, ts timestamp, v int, PRIMARY KEY (host, ts)) WITH {life}");
    session.execute(&table).await.unwrap();
    session.execute("INSERT INTO m VALUES (1, '2024-01-10 00:30+00', 1)").await.unwrap();
    let view = "CREATE MATERIALIZED VIEW hourly AS SELECT host, time_bucket('1 hour', ts) AS hour, sum(v) AS v FROM m GROUP BY 1, 2";
    session.execute(view).await.unwrap();
    clock.advance(23 * HOUR);
    session.execute("INSERT INTO m VALUES (1, '2024-01-10 00:40+00', 2)").await.unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM hourly").await, ["1|2024-01-10 00:00:00+00|3|"]);
    session.execute("REFRESH MATERIALIZED VIEW hourly").await.unwrap();
    clock.advance(25 * HOUR);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM m").await, ["0|"]);
    // The bucket is final: what is written to it now counts no longer.
    session.execute("INSERT INTO m VALUES (1, '2024-01-10 00:50+00', 4), (1, '2024-01-11 23:50+00', 8)").await.unwrap();
    for _ in 0..2 {
        let expected = ["1|2024-01-10 00:00:00+00|3|", "1|2024-01-11 23:00:00+00|8|"];
        assert_eq!(rows(&mut session, "SELECT * FROM hourly ORDER BY hour").await, expected);
        session.execute("REFRESH MATERIALIZED VIEW hourly").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_refreshed_without_being_asked() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute(TABLE).await.unwrap();
    let (view, query) = VIEWS[0];
    session.execute(&format!("CREATE MATERIALIZED VIEW {view} AS {query}")).await.unwrap();
    session.execute("INSERT INTO m VALUES (1, '2024-01-01', 1, 1)").await.unwrap();
    // Once its rows are kept, a read computes nothing.
    for _ in 0..600 {
        let plan = rows(&mut session, &format!("EXPLAIN SELECT * FROM {view}")).await.join("\n");
        if !plan.contains("public.m,") {
            assert!(plan.contains(view), "{plan}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("nothing was refreshed within a minute");
}
