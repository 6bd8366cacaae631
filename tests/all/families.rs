//! Families against a model: random cells, maps, deletions of cells, families, rows and spans, with random timestamps,
//! flushes, compactions and reopens; then rows, maps, cells and versions are compared.
//!
//! The model keeps every version and every deletion. A version lives that no deletion covers (its path begins with the
//! deletion's, and it was written at or before it); of these a cell has the newest so many. `KEYSPAN_SEED` repeats a run,
//! `KEYSPAN_STEPS` makes it longer.

use std::collections::{BTreeMap, BTreeSet};

use keyspan::{Database, Options};
use keyspan_tests::random::Random;

use super::order::rows;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const QUALIFIERS: [&str; 4] = ["p", "q", "qq", "r"];
/// Versions that the rule keeps.
const VERSIONS: usize = 2;

/// Key, qualifier, timestamp.
type Version = (&'static str, &'static str, i64);

#[derive(Default)]
struct Model {
    versions: BTreeMap<Version, i64>,
    /// Row markers: key and timestamp.
    markers: BTreeSet<(&'static str, i64)>,
    /// A key or none for all, a qualifier or none for all, whether the row goes too, and the timestamp.
    deletions: Vec<(Option<&'static str>, Option<&'static str>, bool, i64)>,
}

impl Model {
    fn is_covered(&self, key: &str, qualifier: &str, ts: i64) -> bool {
        let covers = |(k, q, _, at): &(Option<&str>, Option<&str>, bool, i64)| {
            k.is_none_or(|k| k == key) && q.is_none_or(|q| q == qualifier) && ts <= *at
        };
        self.deletions.iter().any(covers)
    }

    /// The versions that are read, newest first in each cell.
    fn read(&self) -> Vec<(Version, i64)> {
        let mut live: Vec<(Version, i64)> = self
            .versions
            .iter()
            .filter(|((key, qualifier, ts), _)| !self.is_covered(key, qualifier, *ts))
            .map(|(version, value)| (*version, *value))
            .collect();
        live.sort_by_key(|((key, qualifier, ts), _)| (*key, *qualifier, -ts));
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        live.retain(|((key, qualifier, _), _)| {
            let count = counts.entry((key, qualifier)).or_default();
            *count += 1;
            *count <= VERSIONS
        });
        live
    }

    /// `key: {qualifier: value, …}` of each row that lives, qualifiers in the order of `jsonb`.
    fn rows(&self) -> Vec<String> {
        let mut rows: BTreeMap<&str, BTreeMap<(usize, &str), i64>> = BTreeMap::new();
        for (key, ts) in &self.markers {
            let row_gone = |(k, _, row, at): &(Option<&str>, Option<&str>, bool, i64)| {
                *row && k.is_none_or(|k| k == *key) && ts <= at
            };
            if !self.deletions.iter().any(row_gone) {
                rows.entry(key).or_default();
            }
        }
        for ((key, qualifier, _), value) in self.read() {
            rows.entry(key).or_default().entry((qualifier.len(), qualifier)).or_insert(value);
        }
        let shown = |cells: &BTreeMap<(usize, &str), i64>| {
            cells.iter().map(|((_, qualifier), value)| format!("{qualifier}: {value}")).collect::<Vec<_>>().join(", ")
        };
        rows.iter().map(|(key, cells)| format!("{key}: {{{}}}", shown(cells))).collect()
    }
}

/// A step of the run: what it says in SQL, and does to the model.
fn step(random: &mut Random, model: &mut Model) -> String {
    let key = KEYS[random.below(KEYS.len())];
    let qualifier = QUALIFIERS[random.below(QUALIFIERS.len())];
    let ts = 1 + random.below(60) as i64;
    // The same for the same version, so that no tie decides.
    let value =
        |qualifier: &str, ts: i64| ts * 100 + qualifier.len() as i64 * 10 + i64::from(qualifier.as_bytes()[0] % 10);
    let using = format!("USING TIMESTAMP {ts}");
    match random.below(20) {
        0..=8 => {
            model.versions.insert((key, qualifier, ts), value(qualifier, ts));
            format!("UPDATE t {using} SET f['{qualifier}'] = {} WHERE k = '{key}'", value(qualifier, ts))
        }
        9..=11 => {
            model.markers.insert((key, ts));
            model.versions.insert((key, qualifier, ts), value(qualifier, ts));
            let value = value(qualifier, ts);
            format!("INSERT INTO t (k, f['{qualifier}']) VALUES ('{key}', {value}) {using}")
        }
        12 | 13 => {
            // The whole family: what was there goes a microsecond earlier.
            model.deletions.push((Some(key), None, false, ts - 1));
            let mut map = Vec::new();
            for qualifier in QUALIFIERS.iter().take(random.below(3)) {
                model.versions.insert((key, qualifier, ts), value(qualifier, ts));
                map.push(format!("'{qualifier}': {}", value(qualifier, ts)));
            }
            format!("UPDATE t {using} SET f = {{{}}} WHERE k = '{key}'", map.join(", "))
        }
        14 | 15 => {
            model.deletions.push((Some(key), Some(qualifier), false, ts));
            format!("DELETE f['{qualifier}'] FROM t {using} WHERE k = '{key}'")
        }
        16 => {
            model.deletions.push((Some(key), None, false, ts));
            format!("DELETE f FROM t {using} WHERE k = '{key}'")
        }
        17 => {
            model.deletions.push((Some(key), None, true, ts));
            format!("DELETE FROM t {using} WHERE k = '{key}'")
        }
        18 => {
            model.markers.insert((key, ts));
            format!("INSERT INTO t (k) VALUES ('{key}') {using}")
        }
        _ => {
            let ts = ts / 4;
            model.deletions.push((None, None, true, ts));
            format!("DELETE FROM t USING TIMESTAMP {ts}")
        }
    }
}

/// The rows of a query of one column.
async fn texts(database: &Database, sql: &str) -> Vec<String> {
    let rows = rows(&mut database.session(), sql).await;
    rows.into_iter().map(|row| row.trim_end_matches('|').to_owned()).collect()
}

async fn compare(database: &Database, model: &Model, random: &mut Random) {
    let maps = "SELECT k || ': ' || coalesce(replace(to_jsonb(f)::text, '\"', ''), '{}') FROM t ORDER BY k";
    assert_eq!(texts(database, maps).await, model.rows(), "rows and maps");
    let count = texts(database, "SELECT count(*)::text FROM t").await;
    assert_eq!(count, [model.rows().len().to_string()], "rows counted without their families");
    let versions = "SELECT k || qualifier || (extract(epoch FROM written_at) * 1000000)::bigint || '=' || value FROM cells('t', 'f')";
    let mut expected: Vec<String> =
        model.read().iter().map(|((key, qualifier, ts), value)| format!("{key}{qualifier}{ts}={value}")).collect();
    let mut found = texts(database, versions).await;
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "versions");
    let (key, qualifier) = (KEYS[random.below(KEYS.len())], QUALIFIERS[random.below(QUALIFIERS.len())]);
    let newest = model.read().into_iter().find(|((k, q, _), _)| (*k, *q) == (key, qualifier));
    let one = format!("SELECT f['{qualifier}']::text FROM t WHERE k = '{key}' AND f['{qualifier}'] IS NOT NULL");
    let expected: Vec<String> = newest.iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(texts(database, &one).await, expected, "one cell");
    let older = format!(
        "SELECT value::text FROM cells('t', 'f') WHERE k = '{key}' AND qualifier = '{qualifier}' AND written_at <= '1970-01-01 00:00:00.000030+00' ORDER BY written_at"
    );
    let mut expected: Vec<(i64, i64)> = model
        .read()
        .into_iter()
        .filter(|((k, q, ts), _)| (*k, *q) == (key, qualifier) && *ts <= 30)
        .map(|((.., ts), value)| (ts, value))
        .collect();
    expected.sort_unstable();
    let expected: Vec<String> = expected.into_iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(texts(database, &older).await, expected, "versions up to a time");
}

#[tokio::test(flavor = "multi_thread")]
async fn families_answer_what_a_model_answers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("KEYSPAN_SEED").unwrap_or_else(|| std::process::id().into());
    let steps = number("KEYSPAN_STEPS").unwrap_or(400);
    println!("KEYSPAN_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.store.background = false;
    let mut database = Database::open_with(folder.path(), options.clone()).unwrap();
    let create =
        format!("CREATE TABLE t (k text PRIMARY KEY, v int, f family<text, bigint> GC max_versions = {VERSIONS})");
    database.session().execute(&create).await.unwrap();
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

/// Cells of one statement have one write timestamp, which a segment holds as a code.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_many_cells_is_read_from_a_segment() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_with(folder.path(), Options::default()).unwrap();
    database.session().execute("CREATE TABLE t (k text PRIMARY KEY, f family<int, int>)").await.unwrap();
    let cells: Vec<String> = (0..5_000).map(|at| format!("f[{at}] = {}", at * 2)).collect();
    database.session().execute(&format!("UPDATE t SET {} WHERE k = 'a'", cells.join(", "))).await.unwrap();
    for _ in 0..2 {
        assert_eq!(texts(&database, "SELECT sum(value)::text FROM cells('t', 'f')").await, ["24995000"]);
        assert_eq!(texts(&database, "SELECT f[4999]::text FROM t").await, ["9998"]);
        assert_eq!(texts(&database, "SELECT f[4999] FROM t WHERE k = 'a'").await, ["9998"]);
        assert_eq!(texts(&database, "SELECT count(*) FROM t").await, ["1"]);
        database.flush().await.unwrap();
    }
    database.session().execute("DELETE f FROM t WHERE k = 'a'").await.unwrap();
    assert_eq!(texts(&database, "SELECT count(*) FROM t").await, ["0"]);
    database.close().unwrap();
}
