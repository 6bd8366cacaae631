//! The scan forms, what they prune, and what they do not compare.

use super::*;
use crate::engine::overlay::with_writes;
use std::sync::atomic::Ordering;

fn merged(source: &Arc<ScanSource>, scan: &Scan) -> (ScanForm, usize, u64) {
    let counters = Arc::new(ScanCounters::default());
    let form = source.plan(scan, 1).expect("a plan").form;
    let rows = read(source, scan, 1, &counters);
    (form, rows.len(), counters.rows_merged.load(Ordering::Relaxed))
}

#[test]
fn runs_with_disjoint_keys_are_concatenated_and_nothing_is_merged() {
    let relation = relation();
    let runs = vec![plain_run(&relation, &[("b", 0..100)], 1), plain_run(&relation, &[("a", 0..100)], 2)];
    let source = source(relation, runs, vec![], 0);
    for order in [Order::Forward, Order::Reverse, Order::Any] {
        assert_eq!(merged(&source, &scan_of(vec![Span::all()], order)), (ScanForm::Concatenate, 200, 0));
    }
    let statistics = known(&source, &scan_of(vec![Span::all()], Order::Any));
    assert_eq!(statistics.rows, Known::Exact(200));
    assert_eq!(statistics.ranges[1], Known::Exact((Value::Timestamp(0), Value::Timestamp(99))));
}

/// Which bound the number of values that a join meets.
#[test]
fn the_ranges_of_values_are_known_of_many_rows_also_where_runs_overlap() {
    let relation = relation();
    let whole = || scan_of(vec![Span::all()], Order::Any);
    let numbers = |source: &Arc<ScanSource>, scan: &Scan| known(source, scan).ranges[2].clone();
    let bounds = |least, greatest| (Value::BigInt(least), Value::BigInt(greatest));
    let of_runs = |runs: &[(i64, i64)]| {
        let run = |(at, (from, to)): (i64, &(i64, i64))| plain_run(&relation, &[("a", *from..*to)], at);
        source(relation.clone(), (1..).zip(runs).map(run).collect(), vec![], 0)
    };
    assert_eq!(numbers(&of_runs(&[(0, 10)]), &whole()), Known::Exact(bounds(0, 9)));
    assert_eq!(numbers(&of_runs(&[(0, 3_000), (2_000, 5_000)]), &whole()), Known::Estimate(bounds(0, 4_999)));
    assert_eq!(numbers(&of_runs(&[(0, 30), (20, 50)]), &whole()), Known::Unknown);
}

#[test]
fn time_slices_over_all_series_are_interleaved_and_nothing_is_merged() {
    let relation = relation();
    let hosts = |times: Range<i64>| [("a", times.clone()), ("b", times.clone()), ("c", times)];
    let runs = vec![
        plain_run(&relation, &hosts(0..50), 1),
        plain_run(&relation, &hosts(50..100), 2),
        plain_run(&relation, &hosts(100..150), 3),
    ];
    let source = source(relation, runs, vec![], 0);
    let scan = scan_of(vec![Span::all()], Order::Forward);
    assert_eq!(merged(&source, &scan), (ScanForm::Interleave, 450, 0));
    let rows = read_all(&source, &scan);
    assert!(rows.windows(2).all(|pair| (pair[0][0].compare(&pair[1][0]), pair[1][1].compare(&pair[0][1]))
        < (std::cmp::Ordering::Equal, std::cmp::Ordering::Equal)
        || pair[0][0] != pair[1][0]));
    let any = scan_of(vec![Span::all()], Order::Any);
    assert_eq!(merged(&source, &any), (ScanForm::Unordered, 450, 0));
    assert!(source.divide(&any, 3, 8).expect("a plan").splits.len() >= 3);
    let (from, to) = (Value::Timestamp(60), Value::Timestamp(70));
    let slice = ColumnRange::between(TIME, Bound::Included(from), Bound::Excluded(to));
    let plan = source.plan(&Scan { ranges: vec![slice], ..any }, 1).expect("a plan");
    assert_eq!((plan.form, plan.segments, plan.pruned), (ScanForm::Concatenate, 1, vec![("ranges", 2)]));
}

#[test]
fn time_slices_are_left_out_by_what_spans_say_of_the_time() {
    let relation = relation();
    let hosts = |times: Range<i64>| [("a", times.clone()), ("b", times.clone()), ("c", times)];
    let runs = (0..4).map(|at| plain_run(&relation, &hosts(at * 50..at * 50 + 50), at + 1)).collect();
    let source = source(relation, runs, vec![], 0);
    let key = |host: &str, time: Option<i64>| {
        let host = Value::Text(host.into());
        std::iter::once(host).chain(time.map(Value::Timestamp)).collect::<Vec<_>>()
    };
    // Times descend in the key.
    let span = |host: &str, from: Option<i64>, to: Option<i64>| Span {
        start: Bound::Included(key(host, to)),
        end: Bound::Included(key(host, from)),
    };
    let across = Span { start: Bound::Included(key("a", Some(60))), end: Bound::Excluded(key("b", Some(70))) };
    for (spans, kept, rows) in [
        (vec![span("a", Some(60), Some(70))], 1, 11),
        (vec![span("a", Some(60), Some(70)), span("c", Some(60), Some(110))], 2, 62),
        (vec![span("a", Some(60), None)], 3, 140),
        (vec![span("a", None, Some(60))], 2, 61),
        (vec![span("a", Some(60), Some(70)), span("b", None, None)], 4, 211),
        (vec![across], 4, 61 + 129),
    ] {
        let scan = scan_of(spans, Order::Forward);
        let plan = source.plan(&scan, 1).expect("a plan");
        assert_eq!((plan.segments, read_all(&source, &scan).len()), (kept, rows), "{:?}", scan.spans);
    }
}

#[test]
fn only_the_rows_that_two_runs_hold_are_merged() {
    let relation = relation();
    let runs =
        vec![plain_run(&relation, &[("a", 0..1000), ("b", 0..1000)], 1), plain_run(&relation, &[("a", 500..510)], 2)];
    let source = source(relation, runs, vec![], 0);
    for order in [Order::Forward, Order::Reverse] {
        assert_eq!(merged(&source, &scan_of(vec![Span::all()], order)), (ScanForm::Merge, 2000, 20));
    }
    let b = scan_of(vec![Span::prefix(vec![Value::Text("b".into())])], Order::Forward);
    let plan = source.plan(&b, 1).expect("a plan");
    assert_eq!((plan.form, plan.pruned), (ScanForm::Concatenate, vec![("spans", 1)]));
    assert_eq!(plan.statistics.rows, Known::Estimate(1000));
}

#[test]
fn the_arrays_of_a_settled_run_pass_through_uncopied() {
    let relation = relation();
    let rows: Vec<_> = (0..4000).map(|time| (key("a", -time), Value::BigInt(time), Value::Null)).collect();
    let run = MemoryRun::from_write(&relation, &bulk(&relation, &rows, 0, false), 1, 0, 1).expect("a run");
    let values = run.batch().cells[0].values.clone().expect("values").to_data().buffers()[0].as_ptr();
    let source = source(relation, vec![Run::Memory(Arc::new(run))], vec![], 0);
    let scan = scan_of(vec![Span::all()], Order::Forward);
    let split = source.plan(&scan, 1).expect("a plan").splits.remove(0);
    let batch = source
        .reader(&scan, &split, &Conditions::default(), Arc::default())
        .and_then(|mut reader| reader.next_batch())
        .expect("read");
    assert_eq!(batch.expect("a batch").column(2).to_data().buffers()[0].as_ptr(), values);
}

#[test]
fn a_span_tombstone_cuts_exactly_and_unsettles_its_span_only() {
    let relation = relation();
    let span = Span { start: Bound::Included(key("a", 59)), end: Bound::Included(key("a", 50)) };
    let (start, end) = KeyEncoder::new(&relation.key).span_bytes(&span).expect("a span");
    let tombstone = SpanTombstone { start, end, ts: 1, deleted_at: 0, seq: 2 };
    let runs = vec![plain_run(&relation, &[("a", 0..100), ("b", 0..100)], 1)];
    let source = source(relation, runs, vec![tombstone], 0);
    let scan = |host: &str| scan_of(vec![Span::prefix(vec![Value::Text(host.into())])], Order::Forward);
    assert_eq!(read_all(&source, &scan("a")).len(), 90);
    assert!(matches!(known(&source, &scan("a")).rows, Known::Estimate(_)));
    assert_eq!(read_all(&source, &scan("b")).len(), 100);
}

#[test]
fn what_has_wholly_expired_is_pruned_unless_it_shadows_something() {
    let relation = relation();
    let rows = vec![(key("a", 1), Value::BigInt(1), Value::Null)];
    let expiring = MemoryRun::from_write(&relation, &bulk(&relation, &rows, 1, false), 5, 0, 1).expect("a run");
    let expiring = Run::Memory(Arc::new(expiring));
    let alone = source(relation.clone(), vec![expiring.clone()], vec![], 2_000_000);
    let scan = scan_of(vec![Span::all()], Order::Forward);
    let plan = alone.plan(&scan, 1).expect("a plan");
    assert_eq!((plan.form, plan.pruned), (ScanForm::Empty, vec![("expired", 1)]));
    let shadowing =
        source(relation.clone(), vec![expiring, plain_run(&relation, &[("a", 0..3)], 4)], vec![], 2_000_000);
    let rows = read_all(&shadowing, &scan);
    let numbers: Vec<&Value> = rows.iter().map(|row| &row[2]).collect();
    assert_eq!(numbers, [&Value::BigInt(2), &Value::BigInt(0)]);
}

#[test]
fn the_last_row_of_each_series_is_found_by_skipping() {
    let relation = relation();
    let hosts: Vec<String> = (0..100).map(|host| format!("host{host:03}")).collect();
    let keys: Vec<(&str, Range<i64>)> = hosts.iter().map(|host| (host.as_str(), 0..200)).collect();
    let source = source(relation.clone(), vec![plain_run(&relation, &keys, 1)], vec![], 0);
    let mut scan = scan_of(vec![Span::all()], Order::Forward);
    scan.per_prefix = Some((1, 1));
    let rows = read_all(&source, &scan);
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|row| row[1] == Value::Timestamp(199)));
    scan.order = Order::Reverse;
    let rows = read_all(&source, &scan);
    assert!(rows.len() == 100 && rows.iter().all(|row| row[1] == Value::Timestamp(0)));
}

#[test]
fn own_writes_lie_on_top() {
    let relation = relation();
    let base = source(relation.clone(), vec![plain_run(&relation, &[("a", 0..3)], 1)], vec![], 100);
    let insert = write(key("a", 1), vec![(NUMBER, CellWrite::Value(Value::BigInt(42)))], true, 0);
    let delete = keyspan_model::RowDelete { relation: relation.id, key: key("a", 1), stamp: Stamp::Server(0) };
    let batch = keyspan_model::WriteBatch {
        mutations: vec![
            keyspan_model::Mutation::DeleteRow(delete),
            keyspan_model::Mutation::Row(RowWrite { stamp: Stamp::Server(1), ..insert }),
            keyspan_model::Mutation::DeleteSpan(keyspan_model::SpanDelete {
                relation: relation.id,
                span: Span::prefix(key("a", 0)),
                stamp: Stamp::Server(0),
            }),
        ],
        ..Default::default()
    };
    let own = Arc::new(with_writes(&base, &batch, 50).expect("an overlay"));
    let rows = read_all(&own, &scan_of(vec![Span::all()], Order::Forward));
    let numbers: Vec<&Value> = rows.iter().map(|row| &row[2]).collect();
    assert_eq!(numbers, [&Value::BigInt(2), &Value::BigInt(42)]);
    assert_eq!(read_all(&base, &scan_of(vec![Span::all()], Order::Forward)).len(), 3);
}
