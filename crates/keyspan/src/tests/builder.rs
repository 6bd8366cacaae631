//! Writes and reads that are built of values.

use super::*;
use crate::{Read, TransactionStatus, Write};

async fn planes() -> Session {
    let mut session = Database::in_memory().expect("opens").session();
    let tables = "CREATE TABLE planes (plane text PRIMARY KEY, model text, tags set<text>, meta family<text, bigint>, \
                  flight family<text, date> GC max_versions = 3); \
                  CREATE TABLE hits (page text, day date, n counter, PRIMARY KEY (page, day)); \
                  CREATE TABLE ticks (symbol text, n bigint, price double, PRIMARY KEY (symbol, n)) \
                  WITH CLUSTERING ORDER BY (n DESC)";
    session.execute(tables).await.expect("tables");
    session
}

/// The rows as texts, columns apart by a bar.
async fn rows(session: &mut Session, read: Read) -> Vec<String> {
    let rows = session.read(&read).await.expect("reads");
    let types: Vec<ColumnType> =
        rows.schema().fields().iter().map(|field| ColumnType::of_field(field).expect("a type")).collect();
    let mut texts = Vec::new();
    for batch in rows.collect().await.expect("rows") {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&types).map(|(array, ty)| {
                let value = keyspan_model::array::value_at(array, row, *ty).expect("a value");
                if value.is_null() { "NULL".to_owned() } else { value.to_text(*ty) }
            });
            texts.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    texts
}

#[tokio::test]
async fn one_row_is_written_in_every_way() {
    let mut session = planes().await;
    let new = Write::insert("planes", ["a"]).set("model", "B757").set_cell("meta", "seats", 183);
    assert!(session.write(&new).await.expect("inserts"));
    let more = Write::update("public.planes", ["a"])
        .set("tags", Value::List(vec!["old".into()]))
        .set_cell("meta", "miles", 51_000_000_i64)
        .set_cell("flight", "FI318", "2024-01-25")
        .ttl(1000);
    session.write(&more).await.expect("updates");
    session.write(&Write::update("planes", ["a"]).add("tags", Value::List(vec!["wide".into()]))).await.expect("adds");
    let all = Read::rows("planes").columns(["plane", "model", "tags", "meta"]);
    assert_eq!(rows(&mut session, all.clone()).await, [r#"a|B757|{old,wide}|{"miles": 51000000, "seats": 183}"#]);
    let less = Write::delete("planes", ["a"]).remove("model").remove_cell("meta", "miles").remove("tags");
    session.write(&less).await.expect("deletes");
    assert_eq!(rows(&mut session, all.clone()).await, [r#"a|NULL|NULL|{"seats": 183}"#]);
    let none: Option<&str> = None;
    session.write(&Write::update("planes", ["a"]).set("model", none).remove_cell("meta", "seats")).await.expect("ok");
    assert_eq!(rows(&mut session, all.clone()).await, ["a|NULL|NULL|NULL"]);
    session.write(&Write::delete("planes", ["a"])).await.expect("deletes");
    assert!(rows(&mut session, all).await.is_empty());
}

#[tokio::test]
async fn conditions_answer_whether_they_held() {
    let mut session = planes().await;
    let insert = Write::insert("planes", ["a"]).set("model", "B757").if_not_exists();
    assert!(session.write(&insert).await.expect("inserts"));
    assert!(!session.write(&insert).await.expect("is there"));
    let seats = |from: i64, to: i64| {
        Write::update("planes", ["a"]).set_cell("meta", "seats", to).if_cell_equal("meta", "seats", from)
    };
    session.write(&Write::update("planes", ["a"]).set_cell("meta", "seats", 183_i64)).await.expect("updates");
    assert!(session.write(&seats(183, 187).if_equal("model", "B757")).await.expect("holds"));
    assert!(!session.write(&seats(183, 190)).await.expect("does not hold"));
    assert!(!session.write(&Write::delete("planes", ["b"]).if_exists()).await.expect("is not there"));
}

#[tokio::test]
async fn several_rows_are_one_batch() {
    let mut session = planes().await;
    let of = |plane: &str, model: &str| Write::insert("planes", [plane]).set("model", model);
    assert!(session.write_all(&[of("a", "B757"), of("b", "A320")]).await.expect("writes"));
    let models = Read::rows("planes").columns(["plane", "model"]);
    assert_eq!(rows(&mut session, models.clone()).await, ["a|B757", "b|A320"]);
    // All or none: a condition that does not hold, and an error.
    assert!(!session.write_all(&[of("c", "x"), of("a", "y").if_not_exists()]).await.expect("decides"));
    let error = session.write_all(&[of("c", "x"), Write::insert("planes", ["d"]).set("nothing", 1)]).await;
    assert_eq!(error.expect_err("no such column").sqlstate(), "42703");
    assert_eq!(session.status(), TransactionStatus::Idle);
    assert_eq!(rows(&mut session, models).await, ["a|B757", "b|A320"]);
    let hit = |page: &str, n: i64| Write::update("hits", [page, "2024-01-01"]).add("n", n);
    session.write_all(&[hit("x", 1), hit("x", 2), hit("y", 5)]).await.expect("counts");
    assert_eq!(rows(&mut session, Read::rows("hits")).await, ["x|2024-01-01|3", "y|2024-01-01|5"]);
    assert!(session.write_all(&[]).await.expect("nothing to do"));
}

#[tokio::test]
async fn spans_of_rows_are_read_in_both_orders() {
    let mut session = planes().await;
    let tick =
        |symbol: &str, n: i64| Write::insert("ticks", [Value::from(symbol), n.into()]).set("price", n as f64 / 2.0);
    let ticks: Vec<Write> = (1..=5).flat_map(|n| [tick("ABC", n), tick("XYZ", n)]).collect();
    session.write_all(&ticks).await.expect("writes");
    let numbers = |read: Read| read.columns(["symbol", "n"]);
    let read = numbers(Read::rows("ticks").prefix(["ABC"]).range(2..5));
    assert_eq!(rows(&mut session, read.clone()).await, ["ABC|4", "ABC|3", "ABC|2"]);
    assert_eq!(rows(&mut session, read.reversed().limit(2)).await, ["ABC|2", "ABC|3"]);
    let symbols = numbers(Read::rows("ticks").range("X"..).limit(2));
    assert_eq!(rows(&mut session, symbols).await, ["XYZ|5", "XYZ|4"]);
    let whole = Read::rows("ticks").prefix([Value::from("XYZ"), 3.into()]);
    assert_eq!(rows(&mut session, whole).await, ["XYZ|3|1.5"]);
    assert_eq!(rows(&mut session, Read::rows("ticks")).await.len(), 10);
    session.execute("CREATE VIEW last AS SELECT symbol, max(n) AS n FROM ticks GROUP BY symbol").await.expect("a view");
    assert_eq!(rows(&mut session, Read::rows("last").limit(1)).await.len(), 1);
}

#[tokio::test]
async fn cells_are_read_by_qualifiers_versions_and_number() {
    let mut session = planes().await;
    for (at, plane) in ["a", "b"].iter().enumerate() {
        for version in 1..=4_i64 {
            let date = format!("2024-01-0{version}");
            let write = Write::update("planes", [*plane]).timestamp(version * 10 + at as i64);
            let write = write.set_cell("flight", "p", date.as_str()).set_cell("flight", "q", date.as_str());
            session.write(&write).await.expect("writes");
        }
    }
    let of = |read: Read| read.columns(["plane", "qualifier", "value"]);
    let newest = of(Read::cells("planes", "flight").versions(1));
    assert_eq!(
        rows(&mut session, newest).await,
        ["a|p|2024-01-04", "a|q|2024-01-04", "b|p|2024-01-04", "b|q|2024-01-04"]
    );
    let one = of(Read::cells("planes", "flight").prefix(["a", "q"]).versions(2));
    assert_eq!(rows(&mut session, one).await, ["a|q|2024-01-04", "a|q|2024-01-03"]);
    let few = of(Read::cells("planes", "flight").cells_per_row(1));
    assert_eq!(rows(&mut session, few).await, ["a|p|2024-01-04", "b|p|2024-01-04"]);
    let span = of(Read::cells("planes", "flight").prefix(["b"]).range("q"..="z").limit(2));
    assert_eq!(rows(&mut session, span).await, ["b|q|2024-01-04", "b|q|2024-01-03"]);
    let backwards = of(Read::cells("planes", "flight").reversed().limit(1));
    assert_eq!(rows(&mut session, backwards).await, ["b|q|2024-01-02"]);
}

#[tokio::test]
async fn qualifiers_of_several_parts_are_tuples() {
    let mut session = planes().await;
    let table = "CREATE TABLE census (year int PRIMARY KEY, people family<(state text, zip int DESC), bigint>)";
    session.execute(table).await.expect("a table");
    let of = |state: &str, zip: i32| Value::Tuple(vec![state.into(), zip.into()]);
    let write = Write::insert("census", [2020]).set_cell("people", of("NY", 1), 21).set_cell("people", of("NY", 2), 8);
    session.write(&write.set_cell("people", of("CA", 9), 57)).await.expect("writes");
    session.write(&Write::delete("census", [2020]).remove_cell("people", of("NY", 1))).await.expect("deletes");
    let read = Read::cells("census", "people").prefix([2020]).columns(["state", "zip", "value"]);
    assert_eq!(rows(&mut session, read).await, ["CA|9|57", "NY|2|8"]);
    let one = Read::cells("census", "people").prefix([Value::from(2020), "NY".into()]).range(..3).columns(["zip"]);
    assert_eq!(rows(&mut session, one).await, ["2"]);
}

#[tokio::test]
async fn what_does_not_fit_is_said() {
    let mut session = planes().await;
    let sqlstate = |result: Result<bool>| result.expect_err("an error").sqlstate().to_owned();
    assert_eq!(sqlstate(session.write(&Write::insert("nothing", ["a"])).await), "42P01");
    assert_eq!(sqlstate(session.write(&Write::insert("planes", ["a", "b"])).await), "22023");
    let (insert, update) = (Write::insert("planes", ["a"]), Write::update("planes", ["a"]));
    let delete = Write::delete("planes", ["a"]);
    let unfit = [
        insert.clone().remove("model"),
        insert.clone().if_exists(),
        insert.if_equal("model", "x"),
        update.clone(),
        update.set("model", "x").if_not_exists(),
        delete.clone().set("model", "x"),
        delete.ttl(5),
    ];
    for write in unfit {
        let error = session.write(&write).await.expect_err("it does not fit");
        assert!(error.sqlstate() == "22023" && error.hint.is_some(), "{write:?}: {error}");
    }
    for read in [Read::rows("planes").versions(1), Read::rows("planes").cells_per_row(1)] {
        assert_eq!(session.read(&read).await.expect_err("of cells").sqlstate(), "22023");
    }
    let no_key: [&str; 0] = [];
    assert_eq!(sqlstate(session.write(&Write::delete("planes", no_key)).await), "22023");
    assert_eq!(sqlstate(session.write(&Write::insert("ticks", ["a"])).await), "23502");
    let read = session.read(&Read::rows("planes").prefix(["a"]).range("b"..)).await;
    assert_eq!(read.expect_err("one key column").sqlstate(), "22023");
    let read = session.read(&Read::cells("planes", "model")).await;
    assert_eq!(read.expect_err("no family").sqlstate(), "42703");
    // A name is data, whatever stands in it.
    let odd = Write::insert("planes", ["'; DROP TABLE planes; --"]).set_cell("meta", "a\"b'", 1);
    session.write(&odd).await.expect("writes");
    assert_eq!(rows(&mut session, Read::cells("planes", "meta").columns(["qualifier"])).await, ["a\"b'"]);
}
