//! What CREATE TABLE and ADVISE tell of tables.

use keyspan::text::{ArrayText, TextStyle};
use keyspan::{Database, Session};

fn open() -> (Database, Session) {
    let database = Database::in_memory().unwrap();
    let session = database.session();
    (database, session)
}

async fn run(session: &mut Session, sql: &str) {
    rows(session, sql).await;
}

/// The rows of a statement, their values joined by spaces.
async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let outcome = session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).pop().unwrap();
    let Some(rows) = outcome.rows else { return Vec::new() };
    let (schema, mut lines) = (rows.schema().clone(), Vec::new());
    for batch in rows.collect().await.unwrap() {
        let columns = schema.fields().iter().zip(batch.columns());
        let columns: Vec<ArrayText> =
            columns.map(|(field, column)| ArrayText::new(field, column, TextStyle::UTC).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let texts = columns.iter().map(|column| {
                let mut text = String::new();
                if !column.is_null(row) {
                    column.write(row, &mut text).unwrap();
                }
                text
            });
            lines.push(texts.collect::<Vec<_>>().join(" "));
        }
    }
    lines
}

/// The messages of the notices that a statement gives.
async fn notices(sql: &str) -> Vec<String> {
    let (_database, mut s) = open();
    run(&mut s, sql).await;
    s.take_notices().into_iter().map(|notice| notice.message).collect()
}

#[tokio::test]
async fn keys_that_will_hurt_are_told() {
    for (sql, told) in [
        ("CREATE TABLE t (at timestamp, sensor text, v int, PRIMARY KEY (at, sensor))", "begins with the time \"at\""),
        ("CREATE TABLE t (at timestamp PRIMARY KEY, v int)", "begins with the time \"at\""),
        ("CREATE TABLE t (id bigserial PRIMARY KEY, customer text)", "a number from a sequence, \"id\""),
        ("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)", "a number from a sequence, \"id\""),
        ("CREATE TABLE t (url_hash text, page text, PRIMARY KEY (url_hash, page))", "begins with the hash"),
        ("CREATE TABLE t (k text PRIMARY KEY, f family<timestamp, int>)", "times alone"),
        ("CREATE TABLE click_log (page text, at timestamp, PRIMARY KEY (page, at))", "kept for ever"),
    ] {
        let notices = notices(sql).await;
        assert!(notices.len() == 1 && notices[0].contains(told), "{sql}: {notices:?}");
    }
}

#[tokio::test]
async fn good_keys_are_not_talked_about() {
    for sql in [
        "CREATE TABLE t (sensor text, at timestamp, v int, PRIMARY KEY (sensor, at))",
        "CREATE TABLE events (hour timestamp, shard int, at timestamp, PRIMARY KEY ((hour, shard), at)) \
         WITH default_time_to_live = 60",
        "CREATE TABLE t (id uuid DEFAULT uuid() PRIMARY KEY, name text)",
        "CREATE TABLE t (id int PRIMARY KEY, hash text)",
        "CREATE TABLE t (k text PRIMARY KEY, f family<text, int>)",
        "CREATE TABLE clicks (page text, day date, n counter, PRIMARY KEY (page, day))",
        "CREATE TABLE click_log (page text, at timestamp, PRIMARY KEY (page, at)) WITH retention = '90d'",
    ] {
        assert_eq!(notices(sql).await, Vec::<String>::new(), "{sql}");
    }
}

#[tokio::test]
async fn advice_is_short_and_can_be_silenced() {
    let sql =
        "CREATE TABLE event_log (at timestamp, n timestamp, k text, f family<timestamp, int>, PRIMARY KEY (at, n))";
    assert_eq!(notices(sql).await.len(), 2);
    let (_database, mut s) = open();
    run(&mut s, "SET advice = 'off'").await;
    run(&mut s, sql).await;
    assert!(s.take_notices().is_empty());
}

#[tokio::test]
async fn what_the_data_tells_names_its_remedy() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE wide (k text, n bigint, colour text, f family<text, int>, PRIMARY KEY (k, n))").await;
    assert_eq!(rows(&mut s, "ADVISE wide").await, Vec::<String>::new());
    run(&mut s, "INSERT INTO wide (k, n, colour) SELECT 'a', n, 'red' FROM generate_series(1, 100000) AS g(n)").await;
    run(&mut s, "CREATE INDEX wide_colour ON wide (colour)").await;
    let told = rows(&mut s, "ADVISE TABLE wide").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("a partition has 100000 rows") && told[0].contains("PRIMARY KEY ((k, day), n)"),
        "{told:?}"
    );
    assert!(
        told[1].contains("1 values in 100000 rows") && told[1].contains("DROP INDEX public.wide_colour"),
        "{told:?}"
    );
    run(&mut s, "DROP INDEX public.wide_colour").await;
}

#[tokio::test]
async fn qualifiers_that_all_rows_have_are_columns() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE t (k bigint PRIMARY KEY, f family<text, int>)").await;
    for n in 0..1_000 {
        run(&mut s, &format!("INSERT INTO t (k, f['size']) VALUES ({n}, 1)")).await;
    }
    let told = rows(&mut s, "ADVISE t").await;
    assert!(told.len() == 1 && told[0].ends_with("ALTER TABLE public.t ADD size integer"), "{told:?}");
    run(&mut s, "ALTER TABLE public.t ADD size integer").await;
}

#[tokio::test]
async fn how_a_table_is_read_names_indexes_and_keys() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE r (k bigint, n int, tag text, kind text, v int, PRIMARY KEY (k, n))").await;
    run(&mut s, "INSERT INTO r SELECT g, 1, 't' || g, 'kind' || g % 5, g FROM generate_series(1, 2000) AS s(g)").await;
    assert_eq!(rows(&mut s, "ADVISE r").await, Vec::<String>::new(), "nobody has read it");
    for n in 0..10 {
        run(&mut s, &format!("SELECT v FROM r WHERE tag = 't{n}'")).await;
    }
    let told = rows(&mut s, "ADVISE r").await;
    assert!(told.len() == 1 && told[0].contains("10 statements since the start have read the whole table"), "{told:?}");
    assert!(told[0].ends_with("CREATE INDEX ON public.r (tag)"), "{told:?}");
    run(&mut s, "CREATE INDEX ON public.r (tag)").await;
    assert_eq!(rows(&mut s, "ADVISE r").await, Vec::<String>::new(), "{told:?}");
    for n in 0..200 {
        run(&mut s, &format!("SELECT sum(v) FROM r WHERE kind = 'kind{}'", n % 5)).await;
    }
    let told = rows(&mut s, "ADVISE r").await;
    let copy = "CREATE TABLE public.r_by_kind (PRIMARY KEY (kind, k, n)) AS SELECT * FROM public.r";
    assert!(told.len() == 1 && told[0].contains("first into the key") && told[0].ends_with(copy), "{told:?}");
    run(&mut s, copy).await;
    assert_eq!(rows(&mut s, "SELECT count(*) FROM r_by_kind").await, ["2000"]);
}

#[tokio::test]
async fn scans_of_whole_tables_and_families_that_nobody_reads_are_told() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE u (k bigint PRIMARY KEY, v int, f family<text, int>, g family<text, int>)").await;
    run(&mut s, "INSERT INTO u (k, v) SELECT g, g FROM generate_series(1, 2000) AS s(g)").await;
    run(&mut s, "INSERT INTO u (k, f['a'], g['a']) VALUES (1, 1, 1)").await;
    run(&mut s, "SELECT f['a'] FROM u WHERE k = 1").await;
    for n in 0..100 {
        run(&mut s, &format!("SELECT sum(v) FROM u WHERE v > {n}")).await;
    }
    let told = rows(&mut s, "ADVISE u").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("scans since the start have read the whole table"), "{told:?}");
    assert!(told[1].contains("nobody has read family \"g\"") && told[1].contains("SET GC max_age = '30d'"), "{told:?}");
    run(&mut s, "ALTER TABLE public.u ALTER g SET GC max_age = '30d'").await;
    let again = rows(&mut s, "ADVISE u").await;
    assert_eq!(again, told, "ADVISE itself is no reader");
}

#[tokio::test]
async fn hot_keys_are_told() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE h (k bigint PRIMARY KEY, v int)").await;
    run(&mut s, "INSERT INTO h SELECT g, g FROM generate_series(1, 2000) AS s(g)").await;
    for _ in 0..3_000 {
        run(&mut s, "INSERT INTO h VALUES (7, 1)").await;
    }
    let told = rows(&mut s, "ADVISE h").await;
    assert!(told.len() == 1 && told[0].contains("key 7 got about"), "{told:?}");
}
