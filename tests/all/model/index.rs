//! Indexes of the model's table: made and dropped, their files removed and damaged; and what they find.

use std::ops::Bound;

use keyspan_model::{ColumnId, ColumnRange, ColumnType, IndexDef, Order, Scan, Span, Value};
use keyspan_seam::{ReadAt, Store};

use super::{Run, read};

impl Run {
    /// Makes an index on a column that has none, or drops one.
    pub(super) async fn change_indexes(&mut self) {
        let base = self.store.catalog();
        let mut catalog = (*base).clone();
        catalog.version += 1;
        let mut table = self.table.clone();
        table.version += 1;
        let column = table.columns[1 + self.random.below(table.columns.len() - 1)].id;
        let before = table.indexes.len();
        table.indexes.retain(|index| index.columns != [column]);
        if table.indexes.len() == before {
            let id = catalog.new_table_id();
            table.indexes.push(IndexDef {
                id,
                name: format!("i{}", id.0),
                columns: vec![column],
                unique: None,
                similarity: None,
            });
        }
        catalog.tables.insert(table.id, table.clone().into());
        self.store.change(base.version, catalog, None).await.unwrap();
        self.table = table;
    }

    /// Removes, shortens or changes files of value indexes.
    pub(super) fn damage_indexes(&mut self) {
        let files = std::fs::read_dir(self.folder.path().join("seg")).unwrap();
        let paths = files.map(|file| file.unwrap().path()).filter(|path| path.extension().unwrap() == "values");
        let mut paths: Vec<_> = paths.collect();
        paths.sort();
        for path in paths {
            let mut bytes = std::fs::read(&path).unwrap();
            match self.random.below(8) {
                0 => std::fs::remove_file(&path).unwrap(),
                1 => std::fs::write(&path, &bytes[..self.random.below(bytes.len())]).unwrap(),
                2 => {
                    let at = self.random.below(bytes.len());
                    bytes[at] ^= 1 << self.random.below(8);
                    std::fs::write(&path, &bytes).unwrap();
                }
                _ => {}
            }
        }
    }

    /// The rows with values of one or two columns in a range or among a few, and perhaps in a span.
    pub(super) async fn check_index(&mut self) {
        let mut ranges = vec![self.range()];
        if self.random.below(3) == 0 {
            ranges.extend(Some(self.range()).filter(|range| range.column != ranges[0].column));
        }
        let (mut spans, mut within) = (vec![Span::all()], None);
        if self.random.below(3) == 0 {
            let key = self.key();
            let until = key.1 + self.random.below(80_000) as i64 * super::SECOND;
            spans = vec![self.span(&key.0, key.1, until)];
            within = Some((key.0, key.1..=until));
        }
        let (_, columns, types) = self.columns();
        let order = [Order::Forward, Order::Reverse, Order::Any][self.random.below(3)];
        let scan = Scan {
            relation: self.table.rows,
            spans,
            columns,
            ranges: ranges.clone(),
            order,
            limit: None,
            per_prefix: None,
            coded: false,
        };
        let snapshot = self.store.snapshot(ReadAt::Newest).unwrap();
        self.found += u64::from(snapshot.plan(&scan, 2).await.unwrap().found.is_some());
        let mut found = read(&*snapshot, &scan, 2, &types).await;
        let columns: Vec<ColumnId> = self.table.columns.iter().map(|column| column.id).collect();
        let inside = |row: &(super::Key, Vec<Value>)| {
            ranges.iter().all(|range| match columns.iter().position(|column| *column == range.column) {
                Some(1) => holds(range, &Value::Timestamp(row.0.1)),
                at => holds(range, &row.1[at.unwrap() - 2]),
            })
        };
        let in_keys = |(key, _): &(super::Key, Vec<Value>)| {
            let mut of_time = ranges.iter().filter(|range| range.column == columns[1]);
            of_time.all(|range| range.contains(ColumnType::Timestamp, &Value::Timestamp(key.1)))
        };
        assert!(found.iter().all(in_keys), "{scan:?}");
        // Rows outside of ranges of value columns may be delivered: whoever asks checks again.
        found.retain(&inside);
        let in_span =
            |key: &super::Key| within.as_ref().is_none_or(|(part, times)| key.0 == *part && times.contains(&key.1));
        let mut expected = self.expected(in_span);
        expected.retain(&inside);
        match order {
            Order::Reverse => expected.reverse(),
            Order::Any => {
                found.sort_by(|a, b| a.0.cmp(&b.0));
                expected.sort_by(|a, b| a.0.cmp(&b.0));
            }
            Order::Forward => {}
        }
        assert_eq!(found, expected, "{scan:?}");
    }

    fn range(&mut self) -> ColumnRange {
        let indexed: Vec<ColumnId> = self.table.indexes.iter().flat_map(|index| index.columns.clone()).collect();
        let column = match indexed.len() {
            0 => self.table.columns[2].clone(),
            some => {
                let id = indexed[self.random.below(some)];
                self.table.columns.iter().find(|column| column.id == id).unwrap().clone()
            }
        };
        let mut value = || match column.ty {
            ColumnType::Timestamp => Value::Timestamp(self.key().1),
            ty => self.value(ty),
        };
        let mut values = vec![value(), value(), value()];
        values.sort_by(Value::compare);
        values.dedup();
        let point = |value: &Value| (Bound::Included(value.clone()), Bound::Included(value.clone()));
        match self.random.below(3) {
            0 => {
                let (lower, upper) = point(&values[0]);
                ColumnRange::between(column.id, lower, upper)
            }
            1 => ColumnRange {
                column: column.id,
                lower: point(&values[0]).0,
                upper: point(&values[values.len() - 1]).1,
                parts: values.iter().map(point).collect(),
            },
            _ => {
                let next = values.get(1).cloned();
                let upper = next.map_or(Bound::Unbounded, Bound::Excluded);
                ColumnRange::between(column.id, Bound::Excluded(values[0].clone()), upper)
            }
        }
    }
}

fn holds(range: &ColumnRange, value: &Value) -> bool {
    let above = |lower: &Bound<Value>| match lower {
        Bound::Included(least) => value.compare(least).is_ge(),
        Bound::Excluded(least) => value.compare(least).is_gt(),
        Bound::Unbounded => true,
    };
    let below = |upper: &Bound<Value>| match upper {
        Bound::Included(greatest) => value.compare(greatest).is_le(),
        Bound::Excluded(greatest) => value.compare(greatest).is_lt(),
        Bound::Unbounded => true,
    };
    !value.is_null() && range.intervals().iter().any(|(lower, upper)| above(lower) && below(upper))
}
