//! What is written is what is read, and damage is never a wrong row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray};
use keyspan_model::{ColumnId, ColumnRange, ColumnType, Encoding, ErrorKind, RelationDef, Value, decoded};
use std::ops::{Bound, Range};

use super::fixture::*;
use super::reader::read_index;
use super::*;
use crate::random::Random;
use crate::run::{CellColumn, RowTest, RunBatch, SortedRun, Wanted, WholeKey};
use keyspan_seam::ScanCounters;

const BUDGET: usize = 64 << 20;

fn read_all(segment: &Segment, wanted: &Wanted) -> keyspan_model::Result<RunBatch> {
    let (mut row, mut parts) = (0, Vec::new());
    let rows = segment.record().meta.all.rows as usize;
    while row < rows {
        let block = segment.block(row, wanted);
        row = block.end;
        parts.push(segment.read(block, wanted, &ScanCounters::default())?);
    }
    RunBatch::concat(&parts)
}

/// Compares two batches of the same rows, however their constants are represented.
fn assert_same(a: &RunBatch, b: &RunBatch) {
    assert_eq!(a.rows, b.rows);
    assert_eq!(a.encoded, b.encoded);
    for (a, b) in a.keys.iter().zip(&b.keys) {
        assert_eq!(a, b);
    }
    for row in 0..a.rows {
        assert_eq!(a.row.marker.get(row), b.row.marker.get(row));
        let of = |c: &crate::run::RowColumns| {
            [c.ts.get(row), c.ttl.get(row), c.expires.get(row), c.deleted_ts.get(row), c.deleted_at.get(row)]
        };
        assert_eq!(of(&a.row), of(&b.row), "row {row}");
    }
    for (a_cells, b_cells) in a.cells.iter().zip(&b.cells) {
        match (&a_cells.values, &b_cells.values) {
            (Some(x), Some(y)) => assert_eq!(x, y),
            (x, y) => assert!([x, y].iter().all(|v| v.as_ref().is_none_or(|v| v.null_count() == v.len()))),
        }
        for row in 0..a.rows {
            assert_eq!(a_cells.tombstones.get(row), b_cells.tombstones.get(row));
            let of =
                |c: &crate::run::CellColumn| [c.ts.get(row), c.ttl.get(row), c.expires.get(row), c.deleted_at.get(row)];
            assert_eq!(of(a_cells), of(b_cells), "row {row}");
        }
    }
}

#[test]
fn every_type_comes_back_with_nulls_tombstones_stamps_and_expiries() {
    let values: Vec<(String, ColumnType)> =
        types().iter().enumerate().map(|(at, ty)| (format!("v{at}"), *ty)).collect();
    let values: Vec<(&str, ColumnType)> = values.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
    let relation = relation(&[("k", ColumnType::BigInt, false)], &values);
    let rows = 9_000;
    let arrays: Vec<_> = types().iter().map(|ty| column_of(*ty, rows)).collect();
    let keys: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..rows as i64))];
    for batch in [mixed_rows(&relation, keys.clone(), arrays.clone()), plain(&relation, keys, arrays, 5)] {
        let files = memory();
        let record = write(&files, 1, &relation, std::slice::from_ref(&batch)).expect("written");
        let segment = open(&files, &relation, &record, BUDGET);
        for _ in 0..2 {
            assert_same(&read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"), &batch);
        }
        let plain = open(&files, &relation, &record, 0);
        assert_same(&read_all(&plain, &Wanted::everything(&relation)).expect("undamaged"), &batch);
        assert_eq!(segment.meta().all, record.meta.all);
    }
}

#[test]
fn every_key_type_in_both_directions_is_found_again() {
    for ty in types().into_iter().filter(|ty| ty.allowed_in_key().is_ok()) {
        for descending in [false, true] {
            let relation = relation(&[("k", ty, descending)], &[("v", ColumnType::Int)]);
            let encoder = keyspan_model::KeyEncoder::new(&relation.key);
            let mut values: Vec<Value> =
                (0..900).map(|number| sample(ty, number)).filter(|value| value.fits(ty)).collect();
            values.sort_by_key(|value| encoder.encode(std::slice::from_ref(value)).expect("fits"));
            values.dedup_by_key(|value| encoder.encode(std::slice::from_ref(value)).expect("fits"));
            let keys = keyspan_model::array::array_of(ty, &values).expect("values of the type");
            let cells = column_of(ColumnType::Int, values.len());
            let files = memory();
            let record = write(&files, 1, &relation, &[plain(&relation, vec![keys], vec![cells], 1)]).expect("written");
            let segment = open(&files, &relation, &record, BUDGET);
            for (at, value) in values.iter().enumerate() {
                let key = encoder.encode(std::slice::from_ref(value)).expect("fits");
                assert!(segment.may_contain(&WholeKey::new(&encoder, &key)));
                assert_eq!(
                    segment.lower_bound(&key, &ScanCounters::default()).expect("undamaged"),
                    at,
                    "{ty} {value:?}"
                );
            }
        }
    }
}

#[test]
fn constants_are_left_out() {
    let files = memory();
    let relation = readings();
    let record = write(&files, 1, &relation, &[reading_rows(10, 100, 42)]).expect("written");
    let index = super::reader::read_index(files.as_ref(), &record).expect("undamaged");
    assert_eq!(index.columns.len(), 5, "two key columns, three values");
    let segment = open(&files, &relation, &record, BUDGET);
    let batch = segment.read(0..1000, &Wanted::everything(&relation), &ScanCounters::default()).expect("undamaged");
    assert_eq!(batch.row.ts, crate::run::Int64s::Constant(42));
    assert_eq!(batch.row.marker, crate::run::Bits::All);
}

#[test]
fn blocks_bounds_and_ranges_of_a_large_segment() {
    let files = memory();
    let relation = readings();
    let (hosts, points) = (100, 3_000);
    let all = reading_rows(hosts, points, 1);
    let parts: Vec<RunBatch> = (0..all.rows).step_by(8_192).map(|at| all.slice(at, 8_192.min(all.rows - at))).collect();
    let record = write(&files, 1, &relation, &parts).expect("written");
    let segment = open(&files, &relation, &record, BUDGET);
    let encoder = keyspan_model::KeyEncoder::new(&relation.key);
    let counters = ScanCounters::default();
    for (host, point) in [(0, 0), (0, 1), (1, 0), (57, 1_234), (99, 2_999)] {
        let key = [Value::Text(format!("host_{host:05}")), Value::Timestamp(point as i64 * 10_000_000)];
        let key = encoder.encode(&key).expect("a key");
        let row = segment.lower_bound(&key, &counters).expect("undamaged");
        assert_eq!(row, host * points + point);
        let (low, high) = segment.estimate(&key);
        assert!(low <= row && row <= high && high - low <= BLOCK_ROWS);
        let wanted = Wanted::everything(&relation);
        let block = segment.block(row, &wanted);
        assert!(block.contains(&row));
        assert!([block.start, block.end - 1].iter().all(|row| segment.block(*row, &wanted) == block));
        let batch = segment.read(row..row + 1, &wanted, &counters).expect("undamaged");
        assert_same(&batch, &all.slice(row, 1));
    }
    let absent = encoder.encode(&[Value::Text("host_00050x".into()), Value::Timestamp(0)]).expect("a key");
    assert!(!segment.may_contain(&WholeKey::new(&encoder, &absent)));
    let host = |host: usize| Bound::Included(Value::Text(format!("host_{host:05}")));
    let range = ColumnRange::between(ColumnId(1), host(95), Bound::Unbounded);
    let kept = segment.keep(std::slice::from_ref(&range), 0..all.rows, false);
    assert_eq!(
        kept,
        vec![282_624..300_000],
        "the last row group alone, from the block that may have the first of them"
    );
    let none = ColumnRange::between(ColumnId(3), Bound::Excluded(Value::Double(100.0)), Bound::Unbounded);
    assert!(segment.keep(std::slice::from_ref(&none), 0..all.rows, true).is_empty());
    assert_eq!(segment.keep(&[none], 0..all.rows, false), vec![0..all.rows]);
    assert!(segment.zone(ColumnId(3)).is_some());
}

#[test]
fn blocks_of_one_series_are_left_out_by_time() {
    let (files, relation) = (memory(), readings());
    let (hosts, points) = (5, 30_000);
    let all = reading_rows(hosts, points, 1);
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    let segment = open(&files, &relation, &record, BUDGET);
    let time = |point: usize| Value::Timestamp(point as i64 * 10_000_000);
    for (from, to) in [(0, 100), (15_000, 20_000), (29_999, 30_000), (0, 30_000)] {
        let (lower, upper) = (Bound::Included(time(from)), Bound::Excluded(time(to)));
        let range = ColumnRange::between(relation.key[1].id, lower, upper);
        let kept = segment.keep(std::slice::from_ref(&range), 0..all.rows, false);
        let holds = |row: usize| kept.iter().any(|rows| rows.contains(&row));
        assert!((0..hosts).all(|host| holds(host * points + from) && holds(host * points + to - 1)));
        let rows: usize = kept.iter().map(Range::len).sum();
        // A block at each end, and one that begins with another host.
        assert!(rows <= hosts * (to - from + 3 * BLOCK_ROWS), "{rows} rows for {from}..{to}");
    }
}

#[test]
fn forward_and_backward_scans_with_any_cache_give_the_same_rows() {
    let files = memory();
    let relation = readings();
    let all = reading_rows(60, 2_500, 1);
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    for budget in [0, 300_000, 2_000_000, BUDGET] {
        let segment = open(&files, &relation, &record, budget);
        assert_same(&read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"), &all);
        let mut row = all.rows;
        while row > 0 {
            let wanted = Wanted::everything(&relation);
            let block = segment.block(row - 1, &wanted);
            row = block.start;
            let batch = segment.read(block.clone(), &wanted, &ScanCounters::default()).expect("undamaged");
            assert_eq!(batch.encoded, all.slice(block.start, block.len()).encoded);
        }
    }
}

#[test]
fn the_cache_stays_in_its_budget_and_a_scan_reads_each_page_once() {
    let files = memory();
    let relation = readings();
    let all = reading_rows(200, 2_000, 1);
    let record = write(&files, 1, &relation, &[all]).expect("written");
    let cache = BlockCache::new(3_000_000);
    let segment = Segment::new(Arc::clone(&files), Arc::clone(&cache), &relation, record);
    let counters = ScanCounters::default();
    let mut row = 0;
    while row < 400_000 {
        let wanted = Wanted::everything(&relation);
        let block = segment.block(row, &wanted);
        row = block.end;
        segment.read(block, &wanted, &counters).expect("undamaged");
        assert!(cache.bytes() <= cache.budget());
    }
    let read = counters.bytes_read.load(std::sync::atomic::Ordering::Relaxed);
    assert!(read < segment.record().file_bytes * 12 / 10, "{read} of {}", segment.record().file_bytes);
}

#[test]
fn wide_rows_get_small_blocks() {
    let files = memory();
    let relation = relation(&[("k", ColumnType::BigInt, false)], &[("v", ColumnType::Text)]);
    let text = |row: usize| if row % 50 == 7 { "w".repeat(300_000) } else { row.to_string().repeat(1_000) };
    let batches: Vec<RunBatch> = (0..4)
        .map(|part| {
            let keys: Vec<arrow::array::ArrayRef> =
                vec![Arc::new(Int64Array::from_iter_values(part * 200..part * 200 + 200))];
            let texts: arrow::array::StringViewArray = (0..200).map(|row| Some(text(row + part as usize))).collect();
            plain(&relation, keys, vec![Arc::new(texts)], 1)
        })
        .collect();
    let record = write(&files, 1, &relation, &batches).expect("written");
    let segment = open(&files, &relation, &record, 1 << 20);
    assert!(segment.block(0, &Wanted::everything(&relation)).len() <= 512);
    assert_same(
        &read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"),
        &RunBatch::concat(&batches).expect("one shape"),
    );
}

#[test]
fn a_column_of_too_many_values_for_a_dictionary_keeps_its_pages_and_rows() {
    let files = memory();
    let relation = relation(&[("k", ColumnType::BigInt, false)], &[("v", ColumnType::Text)]);
    let keys: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..50_000))];
    let texts: arrow::array::StringViewArray =
        (0..50_000).map(|row| Some(format!("a text of its own {}", row * 7919))).collect();
    let all = plain(&relation, keys, vec![Arc::new(texts)], 1);
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    let segment = open(&files, &relation, &record, BUDGET);
    let row =
        segment.read(30_000..30_001, &Wanted::everything(&relation), &ScanCounters::default()).expect("undamaged");
    assert_same(&row, &all.slice(30_000, 1));
    assert_same(&read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"), &all);
}

#[test]
fn numbers_that_move_in_small_steps_take_less_room_than_their_codes_would() {
    let relation = relation(&[("k", ColumnType::BigInt, false)], &[("v", ColumnType::Int)]);
    let bytes = |value: &dyn Fn(i32) -> i32| {
        let files = memory();
        let keys: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..50_000))];
        let values = arrow::array::Int32Array::from_iter_values((0..50_000).map(value));
        let all = plain(&relation, keys, vec![Arc::new(values)], 1);
        let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
        let segment = open(&files, &relation, &record, BUDGET);
        assert_same(&read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"), &all);
        verify_segment(&files, &relation, &record).expect("whole");
        record.file_bytes
    };
    let jump = |row: i32| (row.wrapping_mul(0x9e37_79b1_u32 as i32) >> 8) & 127;
    let (steps, jumps) = (bytes(&|row| (row + jump(row) % 4) % 100_000), bytes(&jump));
    assert!(steps * 3 < jumps * 2, "{steps} {jumps}");
}

/// A double and a text of 3,000 values each, with nulls; each row group has a dictionary of them.
fn of_3000_values() -> (Arc<RelationDef>, RunBatch) {
    let values = [("d", ColumnType::Double), ("t", ColumnType::Text)];
    let relation = relation(&[("k", ColumnType::BigInt, false)], &values);
    let rows = 2 * GROUP_ROWS;
    let number = |row: usize| Some(row * 7919 % 3001).filter(|number| *number > 0);
    let doubles: Float64Array = (0..rows).map(|row| number(row).map(|number| number as f64 / 100.0)).collect();
    let texts: StringViewArray = (0..rows).map(|row| number(row).map(|number| format!("a text {number}"))).collect();
    let keys: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..rows as i64))];
    let all = plain(&relation, keys, vec![Arc::new(doubles), Arc::new(texts)], 1);
    (relation, all)
}

#[test]
fn blocks_of_a_row_group_share_its_dictionary() {
    let (relation, all) = of_3000_values();
    let files = memory();
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    let cache = BlockCache::new(BUDGET);
    let segment = Segment::new(Arc::clone(&files), Arc::clone(&cache), &relation, record);
    let values: Vec<ColumnId> = relation.values.iter().map(|value| value.id).collect();
    let wanted = Wanted { values, encoded: false, ..Wanted::everything(&relation) };
    assert_same(&read_all(&segment, &wanted).expect("undamaged"), &RunBatch { encoded: None, ..all.clone() });
    let per_row = cache.bytes() / all.rows;
    assert!(per_row < 10, "{per_row} bytes: two for each value, and those of the key");
    assert_same(&read_all(&segment, &wanted).expect("undamaged"), &RunBatch { encoded: None, ..all });
}

#[test]
fn a_dictionary_is_read_once_for_rows_anywhere_in_its_group() {
    let (relation, all) = of_3000_values();
    let files = memory();
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    let segment = open(&files, &relation, &record, BUDGET);
    let counters = ScanCounters::default();
    let wanted = Wanted { encoded: false, ..Wanted::everything(&relation) };
    let read = |row: usize| {
        let before = counters.pages_read.load(std::sync::atomic::Ordering::Relaxed);
        let batch = segment.read(row..row + 1, &wanted, &counters).expect("undamaged");
        assert_same(&batch, &RunBatch { encoded: None, ..all.slice(row, 1) });
        counters.pages_read.load(std::sync::atomic::Ordering::Relaxed) - before
    };
    assert_eq!(read(5), 5, "the key's page; of two columns the dictionary and a page");
    assert_eq!(read(100_000), 3, "of the same row group");
    assert_eq!(read(GROUP_ROWS + 5), 5, "of another");
    assert_eq!(read(6), 0);
}

#[test]
fn a_small_encoding_takes_less_room() {
    let rows = GROUP_ROWS;
    let bytes = |encoding: Encoding| {
        let relation = relation(&[("k", ColumnType::BigInt, false)], &[("d", ColumnType::Double)]);
        let relation = Arc::new(RelationDef { encoding, ..RelationDef::clone(&relation) });
        let keys: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..rows as i64))];
        let (mut random, mut value) = (Random::new(3), 50i64);
        let mut step = || {
            value = (value + random.below(3) as i64 - 1).clamp(0, 100);
            value as f64
        };
        let gauge = Float64Array::from_iter_values((0..rows).map(|_| step()));
        let all = plain(&relation, keys, vec![Arc::new(gauge)], 1);
        let files = memory();
        let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
        let segment = open(&files, &relation, &record, BUDGET);
        assert_same(&read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"), &all);
        record.file_bytes
    };
    let (fast, small) = (bytes(Encoding::Fast), bytes(Encoding::Small));
    assert!(small * 10 < fast * 9 && fast < small * 2, "{small} and {fast} bytes");
}

#[test]
fn a_flipped_bit_anywhere_is_damage_by_name_and_never_a_wrong_row() {
    let files = memory();
    let relation = readings();
    let all = mixed_rows(
        &relation,
        reading_rows(20, 300, 1).keys.into_iter().flatten().collect(),
        reading_rows(20, 300, 1).cells.into_iter().filter_map(|cells| cells.values).collect(),
    );
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    let good =
        [data_path(record.id), index_path(record.id)].map(|path| (path.clone(), files.read(&path).expect("there")));
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    for _ in 0..3_000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (path, bytes) = &good[(seed >> 60) as usize % 2];
        let mut damaged = bytes.to_vec();
        let at = (seed >> 8) as usize % damaged.len();
        damaged[at] ^= 1 << (seed & 7);
        let other = memory();
        for (name, bytes) in &good {
            other.put_if_absent(name, if name == path { &damaged } else { bytes }).expect("in memory");
        }
        let error = verify_segment(&other, &relation, &record).expect_err("a bit is wrong");
        assert!(error.kind == ErrorKind::Corrupted && error.message.contains(path), "{error} at {at} of {path}");
        match read_all(&open(&other, &relation, &record, BUDGET), &Wanted::everything(&relation)) {
            Ok(batch) => assert_same(&batch, &all),
            Err(error) => assert!(error.kind == ErrorKind::Corrupted && error.message.contains(path), "{error}"),
        }
    }
}

#[test]
fn a_truncated_or_missing_file_is_an_error_by_name() {
    let files = memory();
    let relation = readings();
    let record = write(&files, 1, &relation, &[reading_rows(5, 100, 1)]).expect("written");
    for path in [data_path(record.id), index_path(record.id)] {
        let bytes = files.read(&path).expect("there");
        for keep in [0, 10, bytes.len() / 2, bytes.len() - 1] {
            files.remove(&path).expect("there");
            files.put_if_absent(&path, &bytes[..keep]).expect("in memory");
            let error =
                read_all(&open(&files, &relation, &record, BUDGET), &Wanted::everything(&relation)).expect_err("cut");
            assert!(error.kind == ErrorKind::Corrupted && error.message.contains(&path), "{error}");
            assert!(verify_segment(&files, &relation, &record).is_err());
        }
        files.remove(&path).expect("there");
        assert!(read_all(&open(&files, &relation, &record, BUDGET), &Wanted::everything(&relation)).is_err());
        files.put_if_absent(&path, &bytes).expect("in memory");
    }
    verify_segment(&files, &relation, &record).expect("whole again");
}

#[test]
fn keys_that_do_not_ascend_and_misfits_are_refused_and_leave_no_file() {
    let files = memory();
    let relation = readings();
    let rows = reading_rows(2, 10, 1);
    assert!(write(&files, 1, &relation, &[rows.clone(), rows.clone()]).is_err());
    let mut plan = SystemPlan::default();
    plan.observe(&relation, &rows);
    let mut writer =
        SegmentWriter::new(Arc::clone(&files), keyspan_model::SegmentId(2), Arc::clone(&relation), plan, (1, 1))
            .expect("begun");
    assert!(!writer.fits(&reading_rows(2, 10, 2)) && writer.write(reading_rows(2, 10, 2)).is_err());
    drop(writer);
    assert_eq!(files.list(SEGMENT_DIRECTORY).expect("in memory"), Vec::<String>::new());
}

#[test]
fn columns_that_the_segment_lacks_are_absent() {
    let files = memory();
    let relation = readings();
    let record = write(&files, 1, &relation, &[reading_rows(2, 10, 1)]).expect("written");
    let segment = open(&files, &relation, &record, BUDGET);
    let wanted = Wanted { values: vec![ColumnId(99)], ..Wanted::everything(&relation) };
    let batch = segment.read(0..20, &wanted, &ScanCounters::default()).expect("undamaged");
    assert!(batch.cells[0].values.is_none());
}

/// Rows with a text that makes them wide, and narrow columns beside it.
#[test]
fn narrow_columns_of_wide_rows_have_several_blocks_in_a_page() {
    let files = memory();
    let columns = [("page", ColumnType::Text), ("visits", ColumnType::Int), ("kind", ColumnType::Text)];
    let relation = relation(&[("k", ColumnType::BigInt, false)], &columns);
    let rows = 11_000i64;
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let pages = (0..rows)
        .map(|row| (row % 9 > 0).then(|| format!("http://example.com/a/rather/long/path/{}/of/page/{row}", row % 89)));
    let visits = (0..rows as i32).map(|row| (row % 7 > 0).then_some(row % 1_000 * 3));
    let kinds = (0..rows).map(|row| Some(["a", "b", "a longer kind of page"][(row / 700 % 3) as usize]));
    let values: Vec<ArrayRef> = vec![
        Arc::new(pages.collect::<StringViewArray>()),
        Arc::new(visits.collect::<Int32Array>()),
        Arc::new(kinds.collect::<StringViewArray>()),
    ];
    let all = plain(&relation, vec![keys], values, 1);
    let record = write(&files, 1, &relation, std::slice::from_ref(&all)).expect("written");
    let ids: Vec<ColumnId> = relation.values.iter().map(|column| column.id).collect();
    let of = |values: &[usize]| Wanted {
        keys: vec![false],
        values: values.iter().map(|at| ids[*at]).collect(),
        coded: true,
        ..Wanted::default()
    };
    for budget in [0, BUDGET] {
        let segment = open(&files, &relation, &record, budget);
        let small = segment.block(5_000, &of(&[0])).len();
        assert!(small < BLOCK_ROWS && BLOCK_ROWS.is_multiple_of(small), "{small}");
        assert_eq!(segment.block(5_000, &Wanted::everything(&relation)).len(), small);
        assert_eq!(segment.block(5_000, &of(&[1, 0])).len(), small);
        for narrow in [of(&[1]), of(&[2, 1]), of(&[])] {
            assert_eq!(segment.block(5_000, &narrow), 4_096..8_192);
            assert_eq!(segment.block(rows as usize - 1, &narrow), 8_192..rows as usize);
        }
        let index = read_index(files.as_ref(), &record).expect("an index");
        eprintln!(
            "{small} {:?}",
            index
                .groups
                .iter()
                .map(|g| (
                    g.block_rows,
                    g.extent.rows,
                    g.chunks
                        .iter()
                        .map(|c| c.pages.iter().map(|p| p.first_row).collect::<Vec<_>>())
                        .collect::<Vec<_>>()
                ))
                .collect::<Vec<_>>()
        );
        let pages_of = |column: usize| index.groups[0].blocks_of_page(&index.groups[0].chunks[column]);
        assert_eq!(pages_of(1), (1, true), "a page for each block");
        assert_eq!([pages_of(0), pages_of(2), pages_of(3)], [((BLOCK_ROWS / small) as u32, true); 3]);
        // Any rows, whatever blocks they are of, forward, backward and here and there.
        let mut random = Random::new(3);
        for round in 0..120 {
            let wanted = [of(&[1]), of(&[0, 1]), of(&[2, 0]), Wanted::everything(&relation)][round % 4].clone();
            let first = random.below(rows as u64 - 1) as usize;
            let rows = first..(first + 1 + random.below(6_000) as usize).min(rows as usize);
            let batch = segment.read(rows.clone(), &wanted, &ScanCounters::default()).expect("undamaged");
            let expected = all.slice(rows.start, rows.len());
            for (cells, id) in batch.cells.iter().zip(&wanted.values) {
                let at = ids.iter().position(|own| own == id).expect("a column");
                let values = |cells: &CellColumn| decoded(cells.values.as_ref().expect("values")).expect("values");
                assert_eq!(&values(cells), &values(&expected.cells[at]));
            }
            assert!(batch.encoded.is_none_or(|encoded| Some(encoded) == expected.encoded));
            let texts = decoded(expected.cells[0].values.as_ref().expect("values")).expect("values");
            let least = Value::Text(format!("http://example.com/a/rather/long/path/{}", 10 + round % 70));
            let range = ColumnRange::between(ids[0], Bound::Included(least), Bound::Unbounded);
            let test = RowTest::of_value(ColumnType::Text, &range).expect("a range");
            let inside = segment.inside(rows.clone(), &test, &ScanCounters::default()).expect("undamaged");
            assert_eq!(inside.ranges(), test.of_array(rows, &texts).expect("texts").ranges());
        }
        assert_same(&read_all(&segment, &Wanted::everything(&relation)).expect("undamaged"), &all);
    }
}
