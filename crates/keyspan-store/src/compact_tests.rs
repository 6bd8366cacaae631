//! Outputs of merges: divided by window, cut by size, nothing left behind on errors.

use std::cell::Cell;

use keyspan_model::{ErrorKind, Value};

use super::*;
use crate::files::Files;
use crate::merge::CompactionInput;
use crate::run::{Int64s, SortedRun, Wanted};
use crate::segment::fixture::{memory, open, reading_rows, readings, write};
use crate::segment::{SEGMENT_DIRECTORY, Segment, verify_segment};
use keyspan_seam::ScanCounters;

fn output<'a>(
    files: &'a Arc<dyn Files>,
    relation: &'a Arc<RelationDef>,
    level: u32,
    segment_bytes: u64,
    new_id: &'a dyn Fn() -> SegmentId,
    pause: &'a dyn Fn() -> Result<()>,
) -> MergeOutput<'a> {
    MergeOutput { files, relation, plan: SystemPlan::default(), level, seq: (1, 2), segment_bytes, new_id, pause }
}

fn once(batches: Vec<RunBatch>) -> impl FnMut() -> Result<Option<RunBatch>> {
    let mut batches = batches.into_iter();
    move || Ok(batches.next())
}

fn read(segment: &Segment, relation: &RelationDef) -> Vec<RunBatch> {
    let rows = segment.record().meta.all.rows as usize;
    let (mut row, mut parts) = (0, Vec::new());
    while row < rows {
        let wanted = Wanted::everything(relation);
        let block = segment.block(row, &wanted);
        row = block.end;
        parts.push(segment.read(block, &wanted, &ScanCounters::default()).expect("undamaged"));
    }
    parts
}

#[test]
fn rows_are_divided_by_window_and_segments_cut_by_size() {
    let (files, relation, next) = (memory(), readings(), Cell::new(1));
    let new_id = || SegmentId(next.replace(next.get() + 1));
    let rows = reading_rows(300, 1_000, 7);
    let parts: Vec<RunBatch> =
        (0..rows.rows).step_by(8_192).map(|at| rows.slice(at, 8_192.min(rows.rows - at))).collect();
    let level = 6;
    let output = output(&files, &relation, level, 15_000, &new_id, &|| Ok(()));
    let records = write_batches(&output, || Ok(once(parts.clone()))).expect("written");
    assert!(records.len() > 6, "{} segments", records.len());
    assert_eq!(records.iter().map(|record| record.meta.all.rows).sum::<u64>(), 300_000);
    for record in &records {
        verify_segment(&files, &relation, record).expect("whole");
        let (first, last) =
            crate::window::times_of(&relation.key[1], record.window_bounds(&relation).expect("windows"))
                .expect("times");
        assert_eq!(Window::of(first, level), Window::of(last, level));
    }
}

#[test]
fn a_merge_that_makes_stamps_of_its_own_is_written_after_all() {
    let (files, relation, next) = (memory(), readings(), Cell::new(1));
    let new_id = || SegmentId(next.replace(next.get() + 1));
    let plain = reading_rows(10, 1_000, 7);
    let mut stamped = plain.slice(9_000, 1_000);
    stamped.cells[0].ts = Int64s::from_options((0..1_000).map(|row| (row % 2 == 0).then_some(9)).collect());
    let parts = vec![plain.slice(0, 9_000), stamped];
    let output = output(&files, &relation, WHOLE, SEGMENT_BYTES, &new_id, &|| Ok(()));
    let records = write_batches(&output, || Ok(once(parts.clone()))).expect("written");
    assert_eq!(records.len(), 1);
    let segment = open(&files, &relation, &records[0], 1 << 20);
    let back = RunBatch::concat(&read(&segment, &relation)).expect("one shape");
    assert_eq!(
        (back.cells[0].ts.get(8_998), back.cells[0].ts.get(9_000), back.cells[0].ts.get(9_001)),
        (None, Some(9), None)
    );
    assert_eq!(files.list(SEGMENT_DIRECTORY).expect("in memory").len(), 2, "no file of the attempts before");
}

#[test]
fn stopping_leaves_no_file() {
    let (files, relation, next, asked) = (memory(), readings(), Cell::new(1), Cell::new(0));
    let new_id = || SegmentId(next.replace(next.get() + 1));
    let pause = || {
        asked.set(asked.get() + 1);
        if asked.get() < 20 { Ok(()) } else { Err(Error::new(ErrorKind::Shutdown, "closing")) }
    };
    let rows = reading_rows(300, 1_000, 7);
    let parts: Vec<RunBatch> =
        (0..rows.rows).step_by(8_192).map(|at| rows.slice(at, 8_192.min(rows.rows - at))).collect();
    let output = output(&files, &relation, WHOLE, 60_000, &new_id, &pause);
    let error = write_batches(&output, || Ok(once(parts.clone()))).expect_err("stopped");
    assert_eq!(error.kind, ErrorKind::Shutdown);
    assert_eq!(files.list(SEGMENT_DIRECTORY).expect("in memory"), Vec::<String>::new());
}

#[test]
fn merging_segments_keeps_the_newest_of_each_row() {
    let (files, relation, next) = (memory(), readings(), Cell::new(10));
    let new_id = || SegmentId(next.replace(next.get() + 1));
    let old = reading_rows(20, 1_000, 5);
    let new = reading_rows(10, 500, 6);
    let records = [
        write(&files, 1, &relation, std::slice::from_ref(&old)),
        write(&files, 2, &relation, std::slice::from_ref(&new)),
    ];
    let segments: Vec<Arc<Segment>> = records
        .iter()
        .map(|record| Arc::new(open(&files, &relation, record.as_ref().expect("written"), 1 << 22)))
        .collect();
    let mut output = output(&files, &relation, WHOLE, SEGMENT_BYTES, &new_id, &|| Ok(()));
    segments.iter().try_for_each(|segment| segment.observe(&relation, &mut output.plan)).expect("undamaged");
    let merge = || {
        let runs = segments.iter().map(|segment| Arc::clone(segment) as Arc<dyn SortedRun>).collect();
        let input = CompactionInput {
            relation: Arc::clone(&relation),
            runs,
            tombstones: &[],
            keep_tombstones: false,
            outside: Vec::new(),
            now: 100,
        };
        Compaction::new(input, Arc::default())
    };
    let records = write_merged(&output, merge).expect("merged");
    assert_eq!(records.iter().map(|record| record.meta.all.rows).sum::<u64>(), 20_000);
    verify_segment(&files, &relation, &records[0]).expect("whole");
    let merged = open(&files, &relation, &records[0], 1 << 22);
    let back = RunBatch::concat(&read(&merged, &relation)).expect("one shape");
    let encoder = keyspan_model::KeyEncoder::new(&relation.key);
    for (host, point, ts) in [(0, 0, 6), (0, 499, 6), (0, 500, 5), (9, 3, 6), (10, 3, 5)] {
        let key = [Value::Text(format!("host_{host:05}")), Value::Timestamp(point * 10_000_000)];
        let row =
            merged.lower_bound(&encoder.encode(&key).expect("a key"), &ScanCounters::default()).expect("undamaged");
        assert_eq!(back.row.ts.get(row), Some(ts), "{host} {point}");
    }
}
