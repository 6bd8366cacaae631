//! Static columns against a model: random writes and deletions of rows, static values and partitions, with random
//! timestamps, flushes, compactions and reopens; then what each kind of query shows of rows and of partitions without
//! rows.
//!
//! `KEYSPAN_SEED` repeats a run, `KEYSPAN_STEPS` makes it longer.

use std::collections::{BTreeMap, BTreeSet};

use keyspan::{Database, Options};
use keyspan_tests::random::Random;

use super::order::rows;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A cell: partition, clustering column or none for a static one, column.
type Place = (&'static str, Option<i64>, &'static str);

/// A deletion: of a partition or all, of the rows from the least to the greatest, of static cells too, of a column or
/// all; and when.
#[derive(Clone, Copy)]
struct Deletion {
    key: Option<&'static str>,
    rows: (i64, i64),
    statics: bool,
    column: Option<&'static str>,
    ts: i64,
}

/// No rows.
const NONE: (i64, i64) = (1, 0);

#[derive(Default)]
struct Model {
    /// Of each cell the timestamps of its writes; what is written says the timestamp. The marker is the cell `+`.
    written: BTreeMap<Place, BTreeSet<i64>>,
    deleted: Vec<Deletion>,
}

impl Model {
    fn write(&mut self, key: &'static str, c: Option<i64>, column: &'static str, ts: i64) {
        self.written.entry((key, c, column)).or_default().insert(ts);
    }

    fn delete(
        &mut self,
        key: Option<&'static str>,
        rows: (i64, i64),
        statics: bool,
        column: Option<&'static str>,
        ts: i64,
    ) {
        self.deleted.push(Deletion { key, rows, statics, column, ts });
    }

    fn live(&self, place: &Place) -> Option<i64> {
        let (key, c, column) = *place;
        let covers = |each: &&Deletion| {
            let here = c.map_or(each.statics, |c| (each.rows.0..=each.rows.1).contains(&c));
            each.key.is_none_or(|of| of == key) && here && each.column.is_none_or(|only| only == column)
        };
        let gone = self.deleted.iter().filter(covers).map(|each| each.ts).max().unwrap_or(0);
        self.written.get(place)?.last().copied().filter(|ts| *ts > gone)
    }

    /// `k|c|v|s|m` of each row, partitions without rows among them.
    fn rows(&self) -> Vec<String> {
        let shown = |place: Place| self.live(&place).map_or("NULL".to_owned(), |ts| ts.to_string());
        let mut all = Vec::new();
        for key in KEYS {
            let own = self.written.keys().filter(|place| place.0 == key && self.live(place).is_some());
            let found: BTreeSet<Option<i64>> = own.map(|(_, c, _)| *c).collect();
            let (s, m) = (shown((key, None, "s")), shown((key, None, "m")));
            let alone = found.len() == 1;
            for c in found.into_iter().filter(|c| c.is_some() || alone) {
                let name = c.map_or("NULL".to_owned(), |c| c.to_string());
                let v = c.map_or("NULL".to_owned(), |c| shown((key, Some(c), "v")));
                all.push(format!("{key}|{name}|{v}|{s}|{m}|"));
            }
        }
        all
    }
}

/// A step of the run: what it says in SQL, and does to the model.
fn step(random: &mut Random, model: &mut Model) -> String {
    let key = KEYS[random.below(KEYS.len())];
    let c = random.below(4) as i64;
    let ts = 1 + random.below(80) as i64;
    let using = format!("USING TIMESTAMP {ts}");
    let column = ["s", "m"][random.below(2)];
    let all = (i64::MIN, i64::MAX);
    match random.below(20) {
        0..=3 => {
            model.write(key, Some(c), "+", ts);
            model.write(key, Some(c), "v", ts);
            format!("INSERT INTO t (k, c, v) VALUES ('{key}', {c}, {ts}) {using}")
        }
        4 | 5 => {
            model.write(key, Some(c), "v", ts);
            format!("UPDATE t {using} SET v = {ts} WHERE k = '{key}' AND c = {c}")
        }
        6..=8 => {
            model.write(key, None, column, ts);
            format!("UPDATE t {using} SET {column} = {ts} WHERE k = '{key}'")
        }
        9 => {
            model.write(key, None, column, ts);
            format!("INSERT INTO t (k, {column}) VALUES ('{key}', {ts}) {using}")
        }
        10 => {
            model.write(key, Some(c), "+", ts);
            model.write(key, None, column, ts);
            format!("INSERT INTO t (k, c, {column}) VALUES ('{key}', {c}, {ts}) {using}")
        }
        11 => {
            model.write(key, Some(c), "v", ts);
            model.write(key, None, column, ts);
            format!("UPDATE t {using} SET v = {ts}, {column} = {ts} WHERE k = '{key}' AND c = {c}")
        }
        12 | 13 => {
            model.delete(Some(key), NONE, true, Some(column), ts);
            format!("DELETE {column} FROM t {using} WHERE k = '{key}'")
        }
        14 | 15 => {
            model.delete(Some(key), (c, c), false, None, ts);
            format!("DELETE FROM t {using} WHERE k = '{key}' AND c = {c}")
        }
        16 | 17 => {
            model.delete(Some(key), (c, i64::MAX), false, None, ts);
            format!("DELETE FROM t {using} WHERE k = '{key}' AND c >= {c}")
        }
        18 => {
            model.delete(Some(key), all, true, None, ts);
            format!("DELETE FROM t {using} WHERE k = '{key}'")
        }
        _ => {
            let ts = ts / 4;
            model.delete(None, all, true, None, ts);
            format!("DELETE FROM t USING TIMESTAMP {ts}")
        }
    }
}

async fn compare(database: &Database, model: &Model, random: &mut Random) {
    let mut session = database.session();
    let all = model.rows();
    let key = KEYS[random.below(KEYS.len())];
    let field = |row: &String, at: usize| row.split('|').nth(at).unwrap_or_default().to_owned();
    let of_key: Vec<String> = all.iter().filter(|row| row.starts_with(key)).cloned().collect();
    let with_rows: Vec<String> = all.iter().filter(|row| field(row, 1) != "NULL").cloned().collect();
    let mut reversed = all.clone();
    reversed.reverse();
    let mut partitions: Vec<String> = all.iter().map(|row| format!("{}|{}|", field(row, 0), field(row, 3))).collect();
    partitions.dedup();
    let counted = vec![format!("{}|{}|", all.len(), with_rows.len())];
    for (sql, expected) in [
        ("SELECT * FROM t".to_owned(), &all),
        ("SELECT * FROM t ORDER BY k, c".to_owned(), &all),
        ("SELECT * FROM t ORDER BY k DESC, c DESC".to_owned(), &reversed),
        (format!("SELECT * FROM t WHERE k = '{key}'"), &of_key),
        ("SELECT * FROM t WHERE c >= 0".to_owned(), &with_rows),
        ("SELECT count(*), count(c) FROM t".to_owned(), &counted),
        ("SELECT DISTINCT k, s FROM t ORDER BY k".to_owned(), &partitions),
    ] {
        assert_eq!(&rows(&mut session, &sql).await, expected, "{sql}");
    }
    let by_key = format!("SELECT * FROM t WHERE k = '{key}' AND c = 1");
    let expected: Vec<String> = of_key.iter().filter(|row| field(row, 1) == "1").cloned().collect();
    assert_eq!(rows(&mut session, &by_key).await, expected, "{by_key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn static_columns_answer_what_a_model_answers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("KEYSPAN_SEED").unwrap_or_else(|| std::process::id().into());
    let steps = number("KEYSPAN_STEPS").unwrap_or(400);
    println!("KEYSPAN_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.store.background = false;
    let mut database = Database::open_with(folder.path(), options.clone()).unwrap();
    let columns = "k text, c int, v int, s int STATIC, m int STATIC";
    database.session().execute(&format!("CREATE TABLE t ({columns}, PRIMARY KEY (k, c))")).await.unwrap();
    let mut model = Model::default();
    for _ in 0..steps {
        let sql = step(&mut random, &mut model);
        database.session().execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        match random.below(40) {
            0 | 1 => database.flush().await.unwrap(),
            2 => database.compact().await.unwrap(),
            3 => {
                database.close().unwrap();
                database = Database::open_with(folder.path(), options.clone()).unwrap();
            }
            4..=11 => compare(&database, &model, &mut random).await,
            _ => {}
        }
    }
    compare(&database, &model, &mut random).await;
    database.close().unwrap();
}

/// Statements that read what they write lose nothing, whether they write rows or static values.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_increments_of_static_values_all_count() {
    let database = Database::in_memory().unwrap();
    let table = "CREATE TABLE t (k int, c int, v int, s int STATIC, PRIMARY KEY (k, c))";
    database.session().execute(table).await.unwrap();
    database.session().execute("INSERT INTO t VALUES (1, 1, 0, 0)").await.unwrap();
    let add = |sql: &'static str| {
        let database = database.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                database.session().execute(sql).await.unwrap();
            }
        })
    };
    let tasks = [
        add("UPDATE t SET s = s + 1 WHERE k = 1"),
        add("UPDATE t SET s = s + 1, v = v + 1 WHERE k = 1 AND c = 1"),
        add("UPDATE t SET v = v + 1 WHERE k = 1 AND c = 1"),
    ];
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(rows(&mut database.session(), "SELECT v, s FROM t").await, ["100|100|"]);
}
