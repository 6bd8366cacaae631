//! A value index finds what looking through the column finds; damage is an error, never another answer.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use bytes::Bytes;
use keyspan_model::{ColumnId, ColumnRange, ColumnType, SegmentId, Value};

use super::read::ValueIndex;
use super::write::{memory_index, write_index};
use super::*;
use crate::memory_run::MemoryRun;
use crate::random::Random;
use crate::run::{IndexedColumn, SortedRun, ValueRanges};
use crate::segment::fixture;
use keyspan_seam::ScanCounters;

/// A text of some of a few beginnings, some longer than what an index holds; or none.
fn text(random: &mut Random) -> Option<String> {
    let beginning = ["", "a", "ab\0", "é", "https://example.com/"][random.below(5) as usize];
    let long = if random.chance(20) { "ü".repeat(random.below(200) as usize) } else { String::new() };
    (!random.chance(10)).then(|| format!("{beginning}{long}{}", random.below(3000)))
}

fn run_of(rows: usize, random: &mut Random) -> (Arc<keyspan_model::RelationDef>, MemoryRun) {
    let relation = fixture::relation(&[("k", ColumnType::BigInt, true)], &[("v", ColumnType::Text)]);
    let keys: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values((0..rows as i64).rev()));
    let values: ArrayRef = Arc::new((0..rows).map(|_| text(random)).collect::<StringViewArray>());
    let batch = fixture::plain(&relation, vec![keys], vec![values], 1);
    let run = MemoryRun::new(&relation, batch, vec![ColumnId(2)], (1, 1)).expect("a run");
    (relation, run)
}

fn about(run: &MemoryRun, column: &IndexedColumn) -> About {
    About { segment: SegmentId(0), column: column.id, ty: column.ty, rows: run.meta().all.rows }
}

/// Ranges with any kinds of ends, and lists.
fn range(id: ColumnId, random: &mut Random) -> ColumnRange {
    let value = |random: &mut Random| match id {
        ColumnId(1) => Value::BigInt(random.below(25_000) as i64),
        _ => Value::Text(text(random).unwrap_or_default()),
    };
    let bound = |random: &mut Random| match random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(value(random)),
        _ => Bound::Excluded(value(random)),
    };
    if random.chance(40) {
        return ColumnRange::between(id, bound(random), bound(random));
    }
    let mut values: Vec<Value> = (0..1 + random.below(9)).map(|_| value(random)).collect();
    values.sort_by(Value::compare);
    values.dedup();
    let point = |value: &Value| (Bound::Included(value.clone()), Bound::Included(value.clone()));
    let (lower, upper) = (point(&values[0]).0, point(&values[values.len() - 1]).1);
    ColumnRange { column: id, lower, upper, parts: values.iter().map(point).collect() }
}

#[test]
fn an_index_finds_what_looking_through_finds() {
    let mut random = Random::new(3);
    for rows in [1, 700, 20_000] {
        let (relation, run) = run_of(rows, &mut random);
        for id in [ColumnId(1), ColumnId(2)] {
            let column = IndexedColumn::new(&relation, id).expect("a column");
            let index = memory_index(&run, &column, &about(&run, &column)).expect("built");
            for _ in 0..300 {
                let range = range(id, &mut random);
                let wanted = ValueRanges::new(&relation, &range).expect("of the type");
                let looked = wanted.look_through(&run, usize::MAX, &ScanCounters::default()).expect("looks");
                assert_eq!(index.rows_with(&wanted, usize::MAX).expect("reads"), looked, "{range:?}");
                let few = looked.expect("no limit").len();
                assert!(index.rows_with(&wanted, few).expect("reads").is_some());
                assert!(few == 0 || index.rows_with(&wanted, few - 1).expect("reads").is_none(), "{range:?}");
            }
        }
    }
}

#[test]
fn damage_is_an_error_and_never_another_answer() {
    let mut random = Random::new(5);
    let (relation, run) = run_of(5_000, &mut random);
    let column = IndexedColumn::new(&relation, ColumnId(2)).expect("a column");
    let mut bytes = Vec::new();
    let about = about(&run, &column);
    write_index(&run, &column, &about, (&mut bytes, "file"), &|| Ok(())).expect("written");
    let whole = ValueIndex::of_bytes(Bytes::from(bytes.clone()), &about).expect("opens");
    whole.verify().expect("whole");
    let other = About { column: ColumnId(9), ..about.clone() };
    assert!(ValueIndex::of_bytes(Bytes::from(bytes.clone()), &other).is_err(), "of another column");
    for _ in 0..2_000 {
        let range = range(ColumnId(2), &mut random);
        let wanted = ValueRanges::new(&relation, &range).expect("of the type");
        let right = whole.rows_with(&wanted, usize::MAX).expect("reads");
        let mut damaged = bytes.clone();
        match random.below(4) {
            0 => damaged.truncate(random.below(bytes.len() as u64) as usize),
            _ => {
                let at = random.below(bytes.len() as u64) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
        }
        let Ok(index) = ValueIndex::of_bytes(Bytes::from(damaged), &about) else { continue };
        assert!(index.verify().is_err());
        if let Ok(found) = index.rows_with(&wanted, usize::MAX) {
            assert_eq!(found, right);
        }
    }
}
