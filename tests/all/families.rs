//! Families, maps and sets against a model: random cells, maps, deletions of cells, families, rows and spans, with random
//! timestamps, flushes, compactions and reopens; then rows, maps, cells, versions and what indexes of elements find are
//! compared.
//!
//! The model keeps every version and every deletion. A version lives that no deletion covers (its path begins with the
//! deletion's, and it was written at or before it); of these a cell has the newest so many, but for those that were deleted
//! one by one, which count. To the model a set is a map of values that nobody sees. `KEYSPAN_SEED` repeats a run,
//! `KEYSPAN_STEPS` makes it longer.

use std::collections::{BTreeMap, BTreeSet};

use keyspan::{Database, Options};
use keyspan_tests::random::Random;

use super::order::rows;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const QUALIFIERS: [&str; 4] = ["p", "q", "qq", "r"];
/// A family, a map and a set, with the versions that each keeps of a cell.
const FAMILIES: [(&str, usize); 3] = [("f", 2), ("m", 1), ("s", 1)];

/// Family, key, qualifier, timestamp.
type Version = (&'static str, &'static str, &'static str, i64);

/// What a deletion covers: a family or all of them and the row, a key or all, a qualifier or all; and its timestamp.
type Deletion = (Option<&'static str>, Option<&'static str>, Option<&'static str>, i64);

/// The newest versions of a row's cells, by their qualifiers in the order of `jsonb`.
type Cells = BTreeMap<(usize, &'static str), i64>;

#[derive(Default)]
struct Model {
    versions: BTreeMap<Version, i64>,
    /// Row markers: key and timestamp.
    markers: BTreeSet<(&'static str, i64)>,
    deletions: Vec<Deletion>,
    /// Versions that were deleted one by one.
    deleted: BTreeSet<Version>,
}

impl Model {
    fn is_covered(&self, (family, key, qualifier, ts): Version) -> bool {
        let is = |of: &Option<&str>, name: &str| of.is_none_or(|of| of == name);
        let mut deletions = self.deletions.iter();
        deletions.any(|(f, k, q, at)| is(f, family) && is(k, key) && is(q, qualifier) && ts <= *at)
    }

    /// The versions that are read, newest first in each cell.
    fn read(&self) -> Vec<(Version, i64)> {
        let live = self.versions.iter().filter(|(version, _)| !self.is_covered(**version));
        let mut live: Vec<(Version, i64)> = live.map(|(version, value)| (*version, *value)).collect();
        live.sort_by_key(|((family, key, qualifier, ts), _)| (*family, *key, *qualifier, -ts));
        let mut counts: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        live.retain(|((family, key, qualifier, _), _)| {
            let count = counts.entry((family, key, qualifier)).or_default();
            *count += 1;
            FAMILIES.iter().any(|(name, versions)| name == family && *count <= *versions)
        });
        live.retain(|(version, _)| !self.deleted.contains(version));
        live
    }

    /// `key {qualifier: value, …} {…} {element,…}` of each row that lives, qualifiers in the order of `jsonb`.
    fn rows(&self) -> Vec<String> {
        let mut rows: BTreeMap<&str, [Cells; 3]> = BTreeMap::new();
        for (key, ts) in &self.markers {
            let mut of_rows = self.deletions.iter().filter(|(family, ..)| family.is_none());
            if !of_rows.any(|(_, k, _, at)| k.is_none_or(|k| k == *key) && ts <= at) {
                rows.entry(key).or_default();
            }
        }
        for ((family, key, qualifier, _), value) in self.read() {
            let place = FAMILIES.iter().position(|(name, _)| *name == family).unwrap();
            rows.entry(key).or_default()[place].entry((qualifier.len(), qualifier)).or_insert(value);
        }
        let map = |cells: &Cells| {
            cells.iter().map(|((_, qualifier), value)| format!("{qualifier}: {value}")).collect::<Vec<_>>().join(", ")
        };
        let set = |cells: &Cells| {
            let elements: BTreeSet<&str> = cells.keys().map(|(_, element)| *element).collect();
            elements.into_iter().collect::<Vec<_>>().join(",")
        };
        rows.iter().map(|(key, [f, m, s])| format!("{key} {{{}}} {{{}}} {{{}}}", map(f), map(m), set(s))).collect()
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
    let family = FAMILIES[random.below(3)].0;
    let is_set = family == "s";
    match random.below(22) {
        0..=8 => {
            model.versions.insert((family, key, qualifier, ts), value(qualifier, ts));
            let value = value(qualifier, ts);
            match is_set {
                true => format!("UPDATE t {using} SET s = s + {{'{qualifier}'}} WHERE k = '{key}'"),
                false => format!("UPDATE t {using} SET {family}['{qualifier}'] = {value} WHERE k = '{key}'"),
            }
        }
        9..=11 => {
            model.markers.insert((key, ts));
            let family = FAMILIES[random.below(2)].0;
            model.versions.insert((family, key, qualifier, ts), value(qualifier, ts));
            let value = value(qualifier, ts);
            format!("INSERT INTO t (k, {family}['{qualifier}']) VALUES ('{key}', {value}) {using}")
        }
        12 | 13 => {
            // The whole family: what was there goes a microsecond earlier.
            model.deletions.push((Some(family), Some(key), None, ts - 1));
            let mut map = Vec::new();
            for qualifier in QUALIFIERS.iter().take(random.below(3)) {
                model.versions.insert((family, key, qualifier, ts), value(qualifier, ts));
                let value = if is_set { String::new() } else { format!(": {}", value(qualifier, ts)) };
                map.push(format!("'{qualifier}'{value}"));
            }
            format!("UPDATE t {using} SET {family} = {{{}}} WHERE k = '{key}'", map.join(", "))
        }
        14 | 15 => {
            model.deletions.push((Some(family), Some(key), Some(qualifier), ts));
            match is_set {
                true => format!("UPDATE t {using} SET s = s - {{'{qualifier}'}} WHERE k = '{key}'"),
                false => format!("DELETE {family}['{qualifier}'] FROM t {using} WHERE k = '{key}'"),
            }
        }
        16 => {
            model.deletions.push((Some(family), Some(key), None, ts));
            format!("DELETE {family} FROM t {using} WHERE k = '{key}'")
        }
        17 => {
            model.deletions.push((None, Some(key), None, ts));
            format!("DELETE FROM t {using} WHERE k = '{key}'")
        }
        18 | 19 => {
            let read = model.read();
            let of_family: Vec<&Version> = read.iter().map(|(version, _)| version).filter(|v| v.0 == "f").collect();
            let Some((_, key, qualifier, ts)) = of_family.get(random.below(of_family.len().max(1))) else {
                return "SELECT 1".to_owned();
            };
            model.deleted.insert(("f", key, qualifier, *ts));
            format!(
                "DELETE FROM cells('t', 'f') WHERE k = '{key}' AND qualifier = '{qualifier}' AND written_at = to_timestamp({ts} / 1000000.0)"
            )
        }
        20 => {
            model.markers.insert((key, ts));
            format!("INSERT INTO t (k) VALUES ('{key}') {using}")
        }
        _ => {
            let ts = ts / 4;
            model.deletions.push((None, None, None, ts));
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
    let map = |family: &str| format!("coalesce(replace(to_jsonb({family})::text, '\"', ''), '{{}}')");
    let maps =
        format!("SELECT concat_ws(' ', k, {}, {}, coalesce(s::text, '{{}}')) FROM t ORDER BY k", map("f"), map("m"));
    assert_eq!(texts(database, &maps).await, model.rows(), "rows and maps");
    let count = texts(database, "SELECT count(*)::text FROM t").await;
    assert_eq!(count, [model.rows().len().to_string()], "rows counted without their families");
    let all = model.read();
    for family in ["f", "m"] {
        let written = match family {
            "f" => "written_at",
            _ => "to_timestamp(WRITETIME(value) / 1000000.0)",
        };
        let versions = format!(
            "SELECT k || qualifier || (extract(epoch FROM {written}) * 1000000)::bigint || '=' || value FROM cells('t', '{family}')"
        );
        let of_family = all.iter().filter(|((f, ..), _)| *f == family);
        let mut expected: Vec<String> =
            of_family.map(|((_, key, qualifier, ts), value)| format!("{key}{qualifier}{ts}={value}")).collect();
        let mut found = texts(database, &versions).await;
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "versions of {family}");
        let (key, qualifier) = (KEYS[random.below(KEYS.len())], QUALIFIERS[random.below(QUALIFIERS.len())]);
        let newest = all.iter().find(|((f, k, q, _), _)| (*f, *k, *q) == (family, key, qualifier));
        let expected: Vec<String> = newest.iter().map(|(_, value)| value.to_string()).collect();
        let cell = format!("{family}['{qualifier}']");
        let one = format!("SELECT {cell}::text FROM t WHERE k = '{key}' AND {cell} IS NOT NULL");
        assert_eq!(texts(database, &one).await, expected, "one cell of {family}");
    }
    compare_found(database, &all, random).await;
    let (key, qualifier) = (KEYS[random.below(KEYS.len())], QUALIFIERS[random.below(QUALIFIERS.len())]);
    let older = format!(
        "SELECT value::text FROM cells('t', 'f') WHERE k = '{key}' AND qualifier = '{qualifier}' AND written_at <= '1970-01-01 00:00:00.000030+00' ORDER BY written_at"
    );
    let older_of = |(f, k, q, ts): &Version| (*f, *k, *q) == ("f", key, qualifier) && *ts <= 30;
    let mut expected: Vec<(i64, i64)> =
        all.iter().filter(|(version, _)| older_of(version)).map(|((.., ts), value)| (*ts, *value)).collect();
    expected.sort_unstable();
    let expected: Vec<String> = expected.into_iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(texts(database, &older).await, expected, "versions up to a time");
}

/// What indexes of elements find.
async fn compare_found(database: &Database, all: &[(Version, i64)], random: &mut Random) {
    let qualifier = QUALIFIERS[random.below(QUALIFIERS.len())];
    let keys = |family: &str, value: Option<i64>| -> Vec<String> {
        let is = |((f, _, q, _), own): &&(Version, i64)| {
            *f == family && *q == qualifier && value.is_none_or(|value| value == *own)
        };
        let keys: BTreeSet<String> = all.iter().filter(is).map(|((_, key, ..), _)| (*key).to_owned()).collect();
        keys.into_iter().collect()
    };
    let sql = format!("SELECT k FROM t WHERE s CONTAINS '{qualifier}' ORDER BY k");
    assert_eq!(texts(database, &sql).await, keys("s", None), "{sql}");
    let sql = format!("SELECT k FROM t WHERE m CONTAINS KEY '{qualifier}' ORDER BY k");
    assert_eq!(texts(database, &sql).await, keys("m", None), "{sql}");
    let value = all.iter().find(|((f, _, q, _), _)| *f == "m" && *q == qualifier).map_or(0, |(_, value)| *value);
    let sql = format!("SELECT k FROM t WHERE m['{qualifier}'] = {value} ORDER BY k");
    assert_eq!(texts(database, &sql).await, keys("m", Some(value)), "{sql}");
    let sql = format!("SELECT k FROM t WHERE f CONTAINS KEY '{qualifier}' ORDER BY k");
    assert_eq!(texts(database, &sql).await, keys("f", None), "{sql}");
    // Of a family the newest version of a cell is its value; `cells()` finds older ones, too.
    let value = all.iter().find(|((f, _, q, _), _)| *f == "f" && *q == qualifier).map_or(0, |(_, value)| *value);
    let of_cells =
        format!("SELECT DISTINCT k FROM cells('t', 'f') WHERE qualifier = '{qualifier}' AND value = {value}");
    let sql = format!("{of_cells} ORDER BY k");
    assert_eq!(texts(database, &sql).await, keys("f", Some(value)), "{sql}");
    let mut seen = BTreeSet::new();
    let newest = all.iter().filter(|((f, k, q, _), _)| *f == "f" && *q == qualifier && seen.insert(*k));
    let newest: Vec<String> =
        newest.filter(|(_, own)| *own == value).map(|((_, key, ..), _)| (*key).to_owned()).collect();
    let sql = format!("SELECT k FROM t WHERE f['{qualifier}'] = {value} ORDER BY k");
    assert_eq!(texts(database, &sql).await, newest, "{sql}");
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
    let columns = "f family<text, bigint> GC max_versions = 2, m map<text, bigint>, s set<text>";
    database.session().execute(&format!("CREATE TABLE t (k text PRIMARY KEY, v int, {columns})")).await.unwrap();
    let indexes = "CREATE INDEX ON t (s); CREATE INDEX ON t (ENTRIES(m)); CREATE INDEX ON t (ENTRIES(f))";
    database.session().execute(indexes).await.unwrap();
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
