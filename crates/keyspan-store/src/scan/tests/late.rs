//! Late rows: runs whose bounding boxes overlap although they share few rows, or none.

use super::*;
use std::sync::atomic::Ordering;

/// Rows of three hosts, every second time from `times`, and these late ones of host b.
fn with_late(relation: &RelationDef, times: Range<i64>, late: &[i64], ts: i64) -> Run {
    let own = ["a", "b", "c"].into_iter().flat_map(|host| times.clone().step_by(2).map(move |time| (host, time)));
    let keys = own.chain(late.iter().map(|time| ("b", *time)));
    let row = |(host, time): (&str, i64)| (key(host, time), Value::BigInt(time * ts), Value::Null);
    let rows: Vec<_> = keys.map(row).collect();
    let run = MemoryRun::from_write(relation, &bulk(relation, &rows, 0, false), ts, 0, 1).expect("a run");
    if ts % 2 == 0 { Run::Memory(Arc::new(run)) } else { Run::Segment(Arc::new(Blocks(run, 16))) }
}

/// The form, the rows that were merged, and the numbers that were read, sorted.
fn numbers(source: &Arc<ScanSource>, scan: &Scan) -> (ScanForm, u64, Vec<i64>) {
    let counters = Arc::new(ScanCounters::default());
    let form = source.divide(scan, 3, 8).expect("a plan").form;
    let rows = read(source, scan, 3, &counters);
    let number = |row: &Vec<Value>| if let Value::BigInt(number) = row[2] { number } else { panic!("a number") };
    let mut numbers: Vec<i64> = rows.iter().map(number).collect();
    numbers.sort_unstable();
    (form, counters.rows_merged.load(Ordering::Relaxed), numbers)
}

#[test]
fn late_rows_that_nobody_else_has_are_no_reason_to_merge() {
    let relation = relation();
    let runs = vec![
        with_late(&relation, 0..400, &[], 1),
        with_late(&relation, 400..800, &[33, 101, 399], 2),
        with_late(&relation, 800..1000, &[35, 103, 555], 3),
    ];
    let source = source(relation, runs, vec![], 0);
    let any = numbers(&source, &scan_of(vec![Span::all()], Order::Any));
    assert_eq!((any.0, any.1, any.2.len()), (ScanForm::Unordered, 0, 1506));
    for order in [Order::Forward, Order::Reverse] {
        let ordered = numbers(&source, &scan_of(vec![Span::all()], order));
        assert_eq!(ordered, (ScanForm::Interleave, 0, any.2.clone()));
    }
    let statistics = known(&source, &scan_of(vec![Span::all()], Order::Any));
    assert_eq!(statistics.rows, Known::Exact(1506), "it is known by now that no row is in two runs");
}

#[test]
fn of_rows_that_overwrite_only_those_are_merged_and_values_leave_no_older_version_in() {
    let relation = relation();
    let runs = vec![
        with_late(&relation, 0..400, &[], 1),
        with_late(&relation, 400..800, &[32, 100, 101], 2),
        with_late(&relation, 800..1000, &[32, 500], 3),
    ];
    let source = source(relation, runs, vec![], 0);
    let scan = scan_of(vec![Span::all()], Order::Any);
    let (form, merged, all) = numbers(&source, &scan);
    // 32 stands in three runs, 100 and 500 in two.
    assert_eq!((form, merged, all.len()), (ScanForm::Merge, 7, 1501));
    assert_eq!(numbers(&source, &scan_of(vec![Span::all()], Order::Forward)), (form, merged, all));
    let of = |number: i64| {
        let range = Bound::Included(Value::BigInt(number));
        let range = ColumnRange::between(NUMBER, range.clone(), range);
        let rows = numbers(&source, &Scan { ranges: vec![range], ..scan.clone() }).2;
        rows.into_iter().filter(|found| *found == number).count()
    };
    assert_eq!((of(32), of(64), of(96)), (2, 3, 4), "of b's 32 only the newest is left");
}

#[test]
fn runs_that_share_rows_are_merged_without_those_that_share_others() {
    let relation = relation();
    let runs = vec![
        with_late(&relation, 0..400, &[], 1),
        with_late(&relation, 400..800, &[], 2),
        with_late(&relation, 1000..1002, &[32, 100], 3),
        with_late(&relation, 1002..1004, &[500], 4),
    ];
    let source = source(relation, runs, vec![], 0);
    let scan = scan_of(vec![Span::all()], Order::Any);
    let groups = source.overlap_groups(&source.choose(&scan).expect("runs"), true).expect("groups");
    assert_eq!(groups.shared_groups().collect::<Vec<_>>(), [(0, 4), (1, 2)]);
    assert_eq!((groups.runs_sharing_in(0).collect(), groups.runs_sharing_in(1).collect()), (vec![0, 2], vec![1, 3]));
    let (form, merged, all) = numbers(&source, &scan);
    assert_eq!((form, merged, all.len()), (ScanForm::Merge, 6, 1206));
    assert_eq!(numbers(&source, &scan_of(vec![Span::all()], Order::Forward)), (form, merged, all));
}

#[test]
fn of_a_memtable_too_only_the_rows_that_overwrite_are_merged() {
    let relation = relation();
    let memtable = Arc::new(Memtable::new(&relation));
    for (seq, time) in (1..).zip(900..990) {
        let at = key("c", time);
        let bytes = KeyEncoder::new(&relation.key).encode(&at).expect("a key");
        let entry = write(at, vec![(NUMBER, CellWrite::Value(Value::BigInt(-1)))], true, 0);
        memtable.insert(bytes, seq, RowEntry::written(&entry, 9, 0)).expect("inserted");
    }
    let view = Run::Memtable(memtable.view(u64::MAX, Arc::new(relation.clone())));
    let runs = vec![with_late(&relation, 0..400, &[], 1), with_late(&relation, 800..1000, &[], 2), view];
    let source = source(relation, runs, vec![], 0);
    let (form, merged, all) = numbers(&source, &scan_of(vec![Span::all()], Order::Any));
    assert_eq!((form, merged, all.len()), (ScanForm::Merge, 90, 945));
    assert_eq!(all.iter().filter(|number| **number == -1).count(), 90);
}

#[test]
fn a_deleted_row_stays_deleted_wherever_its_versions_are() {
    let relation = relation();
    let memtable = Arc::new(Memtable::new(&relation));
    for (seq, time) in [(1, 32), (2, 100), (3, 77)] {
        let bytes = KeyEncoder::new(&relation.key).encode(&key("b", time)).expect("a key");
        memtable.insert(bytes, seq, RowEntry::deleted(9, 0)).expect("inserted");
    }
    let view = Run::Memtable(memtable.view(u64::MAX, Arc::new(relation.clone())));
    let runs = vec![with_late(&relation, 0..400, &[], 1), with_late(&relation, 400..800, &[32, 77], 2), view];
    let source = source(relation, runs, vec![], 0);
    let any = numbers(&source, &scan_of(vec![Span::all()], Order::Any));
    assert_eq!((any.1, any.2.len()), (7, 1198));
    assert_eq!(numbers(&source, &scan_of(vec![Span::all()], Order::Reverse)), any);
}
