//! Which key to give a table that was made from a file: columns that tell its rows apart.
//!
//! The rule: a key is proposed only if no two of the rows looked at share it: rows with one key overwrite each other.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use keyspan::{ColumnType, quoted};

/// Rows that are looked at.
const SAMPLE: usize = 100_000;
/// Columns besides the time that are tried together at most.
const MOST_TOGETHER: usize = 3;
/// Columns that are tried.
const MOST_LABELS: usize = 8;

/// The values of the first rows, as hashes.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    rows: usize,
    /// Those of each column; one that is shorter than the sample has nulls.
    columns: Vec<Vec<u64>>,
}

impl Sample {
    /// How many rows it still takes.
    pub fn room(&self) -> usize {
        SAMPLE - self.rows.min(SAMPLE)
    }

    /// Begins the next row.
    pub fn begin_row(&mut self) {
        self.rows += 1;
    }

    /// A value of the row that was begun, which is not null.
    pub fn add(&mut self, column: usize, text: &str) {
        if self.columns.len() <= column {
            self.columns.resize_with(column + 1, Vec::new);
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        self.columns[column].push(hasher.finish());
    }

    fn has_nulls(&self, column: usize) -> bool {
        self.columns.get(column).map_or(0, Vec::len) < self.rows
    }

    /// Whether no two rows have the same values in these columns; ends at the first that do.
    fn is_key(&self, columns: &[usize]) -> bool {
        let row = |row: usize| {
            let mut hasher = DefaultHasher::new();
            columns.iter().for_each(|column| self.columns[*column][row].hash(&mut hasher));
            hasher.finish()
        };
        let mut seen = HashSet::new();
        (0..self.rows).map(row).all(|row| seen.insert(row))
    }

    /// Columns that make a key: what identifies a series, and the time if there is one.
    fn key(&self, names: &[String], types: &[ColumnType]) -> Option<Vec<usize>> {
        let of = |kind: fn(ColumnType) -> bool| -> Vec<usize> {
            (0..types.len()).filter(|at| kind(types[*at]) && !self.has_nulls(*at)).collect()
        };
        let (texts, numbers, times) = (of(is_text), of(is_number), of(is_time));
        let labels: Vec<usize> = texts.into_iter().chain(numbers).take(MOST_LABELS).collect();
        // What tells all rows apart by itself names no series. A number that does so is a counter, if it is no id.
        let (alone, series): (Vec<usize>, Vec<usize>) = labels.into_iter().partition(|at| self.is_key(&[*at]));
        let (ids, counters): (Vec<usize>, Vec<usize>) =
            alone.into_iter().partition(|at| is_text(types[*at]) || is_id(&names[*at]));
        let single = |columns: Vec<usize>| columns.into_iter().map(|at| vec![at]);
        let with_time = times.iter().flat_map(|time| {
            let of_series = combinations(&series, MOST_TOGETHER).into_iter();
            of_series.map(move |key| key.into_iter().chain([*time]).collect::<Vec<usize>>())
        });
        let without = combinations(&series, MOST_TOGETHER).into_iter();
        let mut all = with_time.chain(single(ids)).chain(single(times.clone())).chain(without).chain(single(counters));
        all.find(|key| self.is_key(key))
    }

    /// What to do about a table without a key; one row tells nothing.
    pub fn hint(&self, names: &[String], types: &[ColumnType]) -> Option<String> {
        if self.rows < 2 {
            return None;
        }
        let rows = crate::progress::grouped(self.rows as u64);
        Some(match self.key(names, types) {
            Some(key) => {
                let key: Vec<String> = key.into_iter().map(|at| quoted(&names[at])).collect();
                let key = key.join(", ");
                format!(
                    "Queries read only what they need with a key: --key '{key}' \
                     tells the first {rows} rows apart. Rows with the same key overwrite each other."
                )
            }
            None => format!("No key is proposed: no few columns were found that tell the first {rows} rows apart."),
        })
    }
}

fn is_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Ascii | ColumnType::Uuid | ColumnType::TimeUuid | ColumnType::Inet)
}

fn is_number(ty: ColumnType) -> bool {
    use ColumnType as T;
    matches!(ty, T::TinyInt | T::SmallInt | T::Int | T::BigInt | T::VarInt)
}

fn is_id(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "id" || name.ends_with("_id") || name.ends_with(" id")
}

fn is_time(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date)
}

/// One to `most` of the items together, few of them first.
fn combinations(items: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut longest: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..most {
        let next = longest.iter().flat_map(|key| {
            let behind =
                items.iter().filter(|item| key.last().is_none_or(|last| place(items, *last) < place(items, **item)));
            behind.map(|item| key.iter().copied().chain([*item]).collect::<Vec<usize>>())
        });
        longest = next.collect();
        all.extend(longest.iter().cloned());
    }
    all
}

fn place(items: &[usize], item: usize) -> Option<usize> {
    items.iter().position(|other| *other == item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ColumnType as T;

    fn sample(rows: &[&[&str]]) -> Sample {
        let mut sample = Sample::default();
        for row in rows {
            sample.begin_row();
            row.iter().enumerate().filter(|(_, text)| !text.is_empty()).for_each(|(at, text)| sample.add(at, text));
        }
        sample
    }

    fn key(names: &[&str], types: &[ColumnType], rows: &[&[&str]]) -> Option<Vec<usize>> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        sample(rows).key(&names, types)
    }

    #[test]
    fn a_key_tells_all_rows_apart_and_has_the_time() {
        let rows: [&[&str]; 4] = [
            &["s1", "10:00", "a", "1"],
            &["s1", "10:01", "a", "2"],
            &["s2", "10:00", "a", "1"],
            &["s2", "10:01", "a", "3"],
        ];
        let (names, types) = (["Sensor ID", "t", "r", "v"], [T::Text, T::Timestamp, T::Text, T::Double]);
        assert_eq!(key(&names, &types, &rows), Some(vec![0, 1]));
        // Times as texts: one column is not enough.
        assert_eq!(key(&names, &[T::Text, T::Text, T::Text, T::Double], &rows), Some(vec![0, 1]));
        let hint = sample(&rows).hint(&names.map(str::to_string), &types).expect("rows");
        assert!(hint.contains("--key '\"Sensor ID\", t'"), "{hint}");
    }

    #[test]
    fn what_is_called_an_id_is_one_and_a_counter_is_the_last_resort() {
        let rows: [&[&str]; 3] = [&["a", "x", "7"], &["a", "y", "8"], &["b", "x", "9"]];
        let types = [T::Text, T::Text, T::BigInt];
        assert_eq!(key(&["p", "q", "order_id"], &types, &rows), Some(vec![2]));
        assert_eq!(key(&["p", "q", "v"], &types, &rows), Some(vec![0, 1]));
        assert_eq!(key(&["p", "q", "v"], &[T::Double, T::Text, T::BigInt], &rows), Some(vec![2]));
    }

    #[test]
    fn where_rows_are_the_same_no_key_is_proposed() {
        let types = [T::Text, T::Timestamp, T::Double];
        let twice: [&[&str]; 2] = [&["s1", "10:00", "1"], &["s1", "10:00", "2"]];
        assert_eq!(key(&["s", "t", "v"], &types, &twice), None, "a measurement is no key");
        let nulls: [&[&str]; 2] = [&["s1", "10:00"], &["", "10:01"]];
        assert_eq!(key(&["s", "t"], &types[..2], &nulls), Some(vec![1]), "a key has no nulls");
        assert_eq!(Sample::default().hint(&[], &[]), None);
    }

    #[test]
    fn few_columns_are_tried_first() {
        let all: Vec<Vec<usize>> = vec![vec![4], vec![2], vec![7], vec![4, 2], vec![4, 7], vec![2, 7], vec![4, 2, 7]];
        assert_eq!(combinations(&[4, 2, 7], 3), all);
    }
}
