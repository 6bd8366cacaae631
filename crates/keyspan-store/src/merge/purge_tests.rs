//! What a compaction leaves of one run, row by row.

use keyspan_model::{CellWrite, ColumnId, GcRule, KeyColumn, KeyEncoder, RelationKind, RowWrite, Stamp, Value};

use super::*;
use crate::memtable::Memtable;
use crate::row::RowEntry;
use crate::segment::fixture;

const FIRST: ColumnId = ColumnId(2);
const SECOND: ColumnId = ColumnId(3);
const WRITTEN: ColumnId = keyspan_model::schema::VERSION_COLUMN;
/// When tombstones may go, in microseconds after they were written.
const GRACE: i64 = 10_000_000;

/// `(key bigint) → first bigint, second bigint`
fn relation() -> RelationDef {
    let bigint = ColumnType::BigInt;
    let relation = fixture::relation(&[("key", bigint, false)], &[("first", bigint), ("second", bigint)]);
    RelationDef { gc_grace: 10, ..relation.as_ref().clone() }
}

/// A write of the columns that have a value, or `None` for a tombstone.
fn written(marker: bool, cells: &[(ColumnId, Option<i64>)], ttl: u32, ts: i64, now: i64) -> RowEntry {
    let content =
        |value: Option<i64>| value.map_or(CellWrite::Tombstone, |value| CellWrite::Value(Value::BigInt(value)));
    let cells = cells.iter().map(|(column, value)| (*column, content(*value))).collect();
    let write = RowWrite { relation: relation().id, key: vec![], marker, cells, stamp: Stamp::Server(0), ttl };
    RowEntry::written(&write, ts, now)
}

/// What is left of the rows at `now`.
fn compacted(relation: RelationDef, rows: Vec<(Vec<Value>, RowEntry)>, now: i64) -> RunBatch {
    compacted_beside(relation, rows, now, vec![], false)
}

/// What is left of the rows at `now`, where there are other runs.
fn compacted_beside(
    relation: RelationDef,
    rows: Vec<(Vec<Value>, RowEntry)>,
    now: i64,
    outside: Vec<Extent>,
    keep_tombstones: bool,
) -> RunBatch {
    let runs = vec![frozen(&relation, rows)];
    merged(relation, runs, now, outside, keep_tombstones)
}

fn frozen(relation: &RelationDef, rows: Vec<(Vec<Value>, RowEntry)>) -> Arc<dyn SortedRun> {
    let encoder = KeyEncoder::new(&relation.key);
    let memtable = Arc::new(Memtable::new(relation));
    for (key, entry) in rows {
        memtable.insert(encoder.encode(&key).expect("a key"), 1, entry).expect("inserted");
    }
    Arc::new(memtable.freeze(&Arc::new(relation.clone())).expect("frozen"))
}

fn merged(
    relation: RelationDef,
    runs: Vec<Arc<dyn SortedRun>>,
    now: i64,
    outside: Vec<Extent>,
    keep_tombstones: bool,
) -> RunBatch {
    let relation = Arc::new(relation);
    let input = CompactionInput { relation, runs, tombstones: &[], outside, keep_tombstones, now };
    let mut compaction = Compaction::new(input, Arc::default()).expect("begins");
    let batch = compaction.next_batch().expect("merges").expect("rows");
    assert!(compaction.next_batch().expect("merges").is_none(), "few rows are one batch");
    batch
}

fn row(key: i64, entry: RowEntry) -> (Vec<Value>, RowEntry) {
    (vec![Value::BigInt(key)], entry)
}

#[test]
fn a_row_tombstone_goes_when_its_grace_has_passed_and_not_a_microsecond_before() {
    const DELETED_AT: i64 = 1_000_000_000;
    let rows = || vec![row(1, RowEntry::deleted(5, DELETED_AT))];
    assert_eq!(compacted(relation(), rows(), DELETED_AT + GRACE - 1).rows, 1);
    let beside = |keep, outside| compacted_beside(relation(), rows(), DELETED_AT + GRACE, outside, keep).rows;
    assert_eq!(beside(false, vec![]), 0);
    assert_eq!(beside(true, vec![]), 1, "it is asked to stay");
    // What it covers may still stand in a run that is not merged.
    let memtable = Memtable::new(&relation());
    let (key, entry) = rows().remove(0);
    memtable.insert(KeyEncoder::new(&relation().key).encode(&key).expect("a key"), 1, entry).expect("inserted");
    for (written, stays) in [(5, 1), (6, 0)] {
        let outside = Extent { ts: Some((written, written)), ..memtable.extent() };
        assert_eq!(beside(false, vec![outside]), stays, "written at {written}");
    }
}

#[test]
fn a_deleted_cell_goes_when_its_grace_has_passed_and_its_row_stays() {
    let of = |now: i64| {
        let deleted = written(true, &[(FIRST, None), (SECOND, Some(3))], 0, 5, 100);
        compacted(relation(), vec![row(1, deleted)], now)
    };
    let before = of(100 + GRACE - 1);
    assert_eq!((before.rows, before.cells[0].tombstones.get(0), before.cells[1].has_value(0)), (1, true, true));
    let after = of(100 + GRACE);
    assert_eq!((after.rows, after.cells[0].tombstones.get(0), after.cells[1].has_value(0)), (1, false, true));
    assert!(after.cells[0].deleted_at.is_null());
}

#[test]
fn a_row_tombstone_goes_from_under_the_row_that_was_written_after_it() {
    let again = |deleted_at: i64| RowEntry::deleted(5, deleted_at).merged(written(true, &[(FIRST, Some(1))], 0, 6, 0));
    let left = compacted(relation(), vec![row(1, again(100)), row(2, again(200))], 100 + GRACE);
    assert_eq!(left.rows, 2);
    assert_eq!((left.row.deleted_ts.get(0), left.row.deleted_at.get(0)), (None, None));
    assert_eq!((left.row.deleted_ts.get(1), left.row.deleted_at.get(1)), (Some(5), Some(200)));
}

#[test]
fn a_cell_that_expires_is_a_tombstone_from_that_moment_on_until_its_grace_has_passed() {
    // The row was written for ever, its first cell for a second later on; the second row has nothing else.
    let short = || written(false, &[(FIRST, Some(1))], 1, 6, 0);
    let long = || written(true, &[(SECOND, Some(2))], 0, 5, 0).merged(short());
    let of = |now: i64| compacted(relation(), vec![row(1, long()), row(2, short())], now);
    let states = |batch: &RunBatch| -> Vec<(bool, bool)> {
        (0..batch.rows).map(|row| (batch.cells[0].has_value(row), batch.cells[0].tombstones.get(row))).collect()
    };
    assert_eq!(states(&of(999_999)), [(true, false); 2]);
    assert_eq!(states(&of(1_000_000)), [(false, true); 2]);
    assert_eq!(states(&compacted(relation(), vec![row(1, long())], 1_000_000)), [(false, true)]);
    assert_eq!(states(&of(1_000_000 + GRACE - 1)), [(false, true); 2]);
    let last = of(1_000_000 + GRACE);
    assert_eq!(states(&last), [(false, false)]);
    assert!(last.cells[1].has_value(0));
}

#[test]
fn a_row_that_has_expired_goes_when_its_grace_has_passed() {
    let of = |now: i64| compacted(relation(), vec![row(1, written(true, &[(FIRST, Some(1))], 1, 5, 0))], now);
    assert_eq!(of(1_000_000 + GRACE - 1).rows, 1);
    assert_eq!(of(1_000_000 + GRACE).rows, 0);
}

#[test]
fn a_cell_keeps_its_own_stamp_when_its_row_is_merged() {
    let older = frozen(&relation(), vec![row(1, written(true, &[(FIRST, Some(1)), (SECOND, Some(1))], 0, 5, 0))]);
    let newer = frozen(&relation(), vec![row(1, written(false, &[(FIRST, Some(2))], 7, 6, 0))]);
    let batch = merged(relation(), vec![older, newer], 0, vec![], false);
    let [first, second] = batch.cells.as_slice() else { panic!("{batch:?}") };
    assert_eq!((first.ts.get(0), first.ttl.get(0), first.expires.get(0)), (Some(6), Some(7), Some(7_000_000)));
    assert_eq!((second.ts.get(0), second.ttl.get(0), second.expires.get(0)), (None, None, None));
    assert_eq!((batch.rows, batch.row.ts.get(0), batch.row.ttl.get(0)), (1, Some(5), None));
}

#[test]
fn versions_that_are_dead_count_among_those_of_a_family() {
    let mut family = relation();
    family.kind = RelationKind::Family;
    family.key.push(KeyColumn { id: WRITTEN, name: "written_at".into(), ty: ColumnType::Timestamp, descending: true });
    family.gc = GcRule { max_versions: Some(2), ..GcRule::default() };
    let version = |ts: i64, entry: RowEntry| (vec![Value::BigInt(1), Value::Timestamp(ts)], entry);
    let whole = |ts: i64, ttl: u32| version(ts, written(true, &[(FIRST, Some(ts))], ttl, ts, 0));
    let bare = |ts: i64, ttl: u32| version(ts, written(false, &[(FIRST, Some(ts))], ttl, ts, 0));
    let left = |rows: Vec<(Vec<Value>, RowEntry)>, now: i64| {
        let batch = compacted(family.clone(), rows, now);
        (0..batch.rows).filter_map(|row| batch.row.ts.get(row).or(batch.cells[0].ts.get(row))).collect::<Vec<i64>>()
    };
    let second = 1_000_000;
    // The newest two expire after a second: they stay as tombstones, and what they hid does not come back.
    let rows = || vec![whole(9, 1), bare(8, 1), whole(7, 0), bare(6, 0), whole(5, 0)];
    assert_eq!(left(rows(), second - 1), [9, 8]);
    assert_eq!(left(rows(), second), [9, 8]);
    // So does a deleted cell.
    let deleted = version(9, written(false, &[(FIRST, None)], 0, 9, 0));
    assert_eq!(left(vec![deleted, whole(8, 0), bare(7, 0), whole(6, 0)], 0), [9, 8]);
    // A marker lives on without its cells, and a cell without its row's marker.
    let marker = version(9, written(true, &[], 0, 9, 0));
    let outlived = version(8, written(true, &[], 1, 8, 0).merged(written(false, &[(FIRST, Some(8))], 0, 8, 0)));
    assert_eq!(left(vec![marker, outlived, whole(7, 0)], second), [9, 8]);
}

#[test]
fn a_deleted_version_counts_until_no_older_one_can_come_back() {
    let mut family = relation();
    family.kind = RelationKind::Family;
    family.key.push(KeyColumn { id: WRITTEN, name: "written_at".into(), ty: ColumnType::Timestamp, descending: true });
    family.gc = GcRule { max_versions: Some(1), ..GcRule::default() };
    let version = |cell: i64, ts: i64, entry: RowEntry| (vec![Value::BigInt(cell), Value::Timestamp(ts)], entry);
    let value = |ts: i64| written(true, &[(FIRST, Some(ts))], 0, ts, 0);
    let deleted = |ts: i64| value(ts).merged(RowEntry::deleted(20, 0));
    let rows = || vec![version(1, 9, deleted(9)), version(1, 8, value(8)), version(2, 7, value(7))];
    let left = |now: i64, outside: Vec<Extent>| {
        let batch = compacted_beside(family.clone(), rows(), now, outside, false);
        (0..batch.rows).map(|row| batch.row.ts.get(row).filter(|_| batch.row.marker.get(row))).collect::<Vec<_>>()
    };
    // The deleted version hides the one before it; when its grace has passed, both are gone.
    assert_eq!(left(GRACE - 1, vec![]), [None, Some(7)]);
    assert_eq!(left(GRACE, vec![]), [Some(7)]);
    // Not while a run that is not merged may have an older version of its cell.
    let run_of = |cell: i64, ts: i64| frozen(&family, vec![version(cell, ts, value(ts))]).meta().all.clone();
    assert_eq!(left(GRACE, vec![run_of(1, 5)]), [None, Some(7)]);
    assert_eq!(left(GRACE, vec![run_of(2, 5), run_of(1, 30)]), [Some(7)]);
}
