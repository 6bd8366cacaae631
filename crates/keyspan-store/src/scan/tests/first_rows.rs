//! The first rows of each host where later slices of time need not be read.

use super::*;
use crate::memory_run::RowsBuilder;
use keyspan_model::{Error, ErrorKind};

/// A slice of time: so many rows of each of these hosts, from `start` on.
fn slice(relation: &RelationDef, hosts: &str, start: i64, rows: i64) -> Run {
    let keys = hosts.chars().flat_map(|host| (start..start + rows).map(move |time| (host.to_string(), time)));
    let rows: Vec<_> = keys.map(|(host, time)| (key(&host, time), Value::BigInt(time), Value::Null)).collect();
    let run = MemoryRun::from_write(relation, &bulk(relation, &rows, 0, false), start, 0, 1).expect("a run");
    if start % 200 == 0 { Run::Memory(Arc::new(run)) } else { Run::Segment(Arc::new(Blocks(run, 4))) }
}

fn scan(rows: usize, order: Order) -> Scan {
    Scan { per_prefix: Some((1, rows)), ..scan_of(vec![Span::all()], order) }
}

/// How many runs were left out.
fn left_out(source: &Arc<ScanSource>, scan: &Scan) -> usize {
    let pruned = source.divide(scan, 2, 8).expect("a plan").pruned;
    pruned.iter().filter(|(reason, _)| ["prefixes", "limit"].contains(reason)).map(|(_, count)| count).sum()
}

/// Answers what a source answers that has a deletion of no rows besides, so that nothing is certain.
fn check(source: &Arc<ScanSource>, scan: &Scan) {
    let mut unsure = ScanSource::clone(source);
    let nowhere = SpanTombstone { start: vec![255], end: None, ts: 0, deleted_at: 0, seq: 0 };
    unsure.tombstones.add_own(vec![nowhere]);
    let unsure = Arc::new(unsure);
    assert_eq!(left_out(&unsure, scan), 0);
    assert_eq!(read(source, scan, 2, &Arc::default()), read(&unsure, scan, 2, &Arc::default()), "{scan:?}");
}

#[test]
fn a_slice_is_read_only_for_prefixes_that_have_too_few_rows_before() {
    let relation = relation();
    let slices = [("abcd", 700), ("abc", 600), ("abe", 500), ("ae", 400), ("abcd", 300)];
    let runs: Vec<Run> = slices.iter().map(|(hosts, start)| slice(&relation, hosts, *start, 3)).collect();
    let all = source(relation.clone(), runs.clone(), vec![], 0);
    for (rows, order, expected) in [
        (1, Order::Reverse, 3),
        (3, Order::Reverse, 3),
        (4, Order::Reverse, 0),
        (1, Order::Forward, 3),
        (1, Order::Any, 0),
    ] {
        assert_eq!(left_out(&all, &scan(rows, order)), expected, "{rows} {order:?}");
        check(&all, &scan(rows, order));
    }
    for span in [Span::prefix(vec![Value::Text("e".into())]), Span::prefix(key("a", 500))] {
        let of_span = Scan { spans: vec![span], ..scan(1, Order::Reverse) };
        check(&all, &of_span);
    }
    // Times descend in the key.
    let bounded = Span { start: Bound::Included(key("a", 650)), end: Bound::Included(key("a", 0)) };
    for (span, limit, order, expected) in [
        (Span::prefix(vec![Value::Text("a".into())]), 1, Order::Reverse, 4),
        (Span::prefix(vec![Value::Text("a".into())]), 3, Order::Reverse, 4),
        (Span::prefix(vec![Value::Text("a".into())]), 4, Order::Reverse, 3),
        (Span::prefix(vec![Value::Text("a".into())]), 4, Order::Forward, 3),
        (Span::prefix(vec![Value::Text("a".into())]), 99, Order::Forward, 0),
        (Span::prefix(vec![Value::Text("a".into())]), 1, Order::Any, 0),
        // The slice at 600 has no row of e, that at 500 three.
        (Span::prefix(vec![Value::Text("e".into())]), 2, Order::Reverse, 1),
        (bounded, 2, Order::Reverse, 3),
    ] {
        let limited = Scan { limit: Some(limit), per_prefix: None, spans: vec![span], ..scan(1, order) };
        assert_eq!(left_out(&all, &limited), expected, "{limited:?}");
        check(&all, &limited);
        let of_all = Scan { spans: vec![Span::all()], ..limited.clone() };
        assert_eq!(left_out(&all, &of_all), 0, "slices of several hosts are beside each other");
        check(&all, &of_all);
        let of_each = Scan { limit: None, per_prefix: Some((1, limit)), ..limited };
        assert_eq!(left_out(&all, &of_each), expected, "{of_each:?}");
        check(&all, &of_each);
    }
}

#[test]
fn versions_of_one_row_are_one_row() {
    let relation = relation();
    let slices = [("a", 700), ("a", 700), ("ab", 700), ("a", 500), ("a", 300)];
    let runs: Vec<Run> = slices.iter().map(|(hosts, start)| slice(&relation, hosts, *start, 3)).collect();
    let source = source(relation, runs, vec![], 0);
    for (limit, expected) in [(3, 2), (4, 1), (6, 1), (7, 0)] {
        let spans = vec![Span::prefix(vec![Value::Text("a".into())])];
        let limited = Scan { limit: Some(limit), per_prefix: None, spans, ..scan(1, Order::Forward) };
        assert_eq!(left_out(&source, &limited), expected, "{limit}");
        check(&source, &limited);
    }
}

#[test]
fn a_slice_that_something_may_have_deleted_stands_for_none() {
    let relation = relation();
    let mut runs = vec![slice(&relation, "ab", 500, 3), slice(&relation, "ab", 300, 3), slice(&relation, "ab", 100, 3)];
    let sure = source(relation.clone(), runs.clone(), vec![], 0);
    assert_eq!(left_out(&sure, &scan(1, Order::Forward)), 2);
    // Newer versions of two rows, and a deletion of the newest of host b.
    runs.push(slice(&relation, "a", 501, 2));
    let overwritten = source(relation.clone(), runs.clone(), vec![], 0);
    assert_eq!(left_out(&overwritten, &scan(1, Order::Forward)), 2);
    check(&overwritten, &scan(1, Order::Forward));
    let mut builder = RowsBuilder::new(&relation);
    let encoded = KeyEncoder::new(&relation.key).encode(&key("b", 502)).expect("a key");
    builder.push(encoded, RowEntry::deleted(9_999, 0)).expect("a row");
    runs.push(Run::Memory(Arc::new(builder.finish((2, 2)).expect("a run"))));
    let deleted = source(relation, runs, vec![], 0);
    assert_eq!(left_out(&deleted, &scan(1, Order::Forward)), 1, "only by the slice at 300");
    check(&deleted, &scan(1, Order::Forward));
}

#[test]
fn a_long_stretch_of_deleted_rows_is_not_read_row_by_row() {
    let relation = relation();
    let mut builder = RowsBuilder::new(&relation);
    let encoder = KeyEncoder::new(&relation.key);
    // Times descend in the key.
    for (host, time) in ["a", "b"].into_iter().flat_map(|host| (4_000..7_000).rev().map(move |time| (host, time))) {
        let encoded = encoder.encode(&key(host, time)).expect("a key");
        builder.push(encoded, RowEntry::deleted(9_999, 0)).expect("a row");
    }
    let deleted = Run::Memory(Arc::new(builder.finish((2, 2)).expect("a run")));
    let rows = |from: i64| slice(&relation, "ab", from, 3_005);
    let source = source(relation.clone(), vec![rows(3_998), deleted], vec![], 0);
    for rows in 1..=5 {
        let found = read(&source, &scan(rows, Order::Forward), 1, &Arc::default());
        let newest = |host: &'static str| [7_002, 7_001, 7_000, 3_999, 3_998].map(|at| key(host, at));
        let expected: Vec<_> = ["a", "b"].into_iter().flat_map(|host| newest(host).into_iter().take(rows)).collect();
        assert_eq!(found.iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>(), expected);
        let spans = vec![Span::prefix(vec![Value::Text("b".into())])];
        let limited = Scan { limit: Some(rows), per_prefix: None, spans, ..scan(1, Order::Forward) };
        let plan = source.divide(&limited, 1, 8).expect("a plan");
        let mut reader =
            source.reader(&limited, &plan.splits[0], &Conditions::default(), Arc::default()).expect("a reader");
        let (mut batches, mut found) = (0, 0);
        while let Some(batch) = reader.next_batch().expect("a batch") {
            (batches, found) = (batches + 1, found + batch.num_rows());
        }
        assert_eq!(found, rows);
        assert!(batches < 20, "{batches} batches for {rows} rows");
    }
}

/// A run of which rows from a number on cannot be read.
#[derive(Debug)]
struct Damaged(Blocks, usize);

impl SortedRun for Damaged {
    fn meta(&self) -> &RunMeta {
        self.0.meta()
    }

    fn lower_bound(&self, key: &[u8], counters: &ScanCounters) -> Result<usize> {
        self.0.lower_bound(key, counters)
    }

    fn estimate(&self, key: &[u8]) -> (usize, usize) {
        self.0.estimate(key)
    }

    fn sample(&self, row: usize) -> Option<Vec<u8>> {
        self.0.sample(row)
    }

    fn block(&self, row: usize, wanted: &Wanted) -> Range<usize> {
        self.0.block(row, wanted)
    }

    fn read(&self, rows: Range<usize>, wanted: &Wanted, counters: &ScanCounters) -> Result<RunBatch> {
        if rows.end > self.1 {
            return Err(Error::new(ErrorKind::Corrupted, "a block is damaged"));
        }
        self.0.read(rows, wanted, counters)
    }

    fn may_contain(&self, key: &WholeKey<'_>) -> bool {
        self.0.may_contain(key)
    }
}

#[test]
fn damage_costs_only_the_spans_it_lies_in() {
    let relation = relation();
    let newest = slice(&relation, "ab", 500, 4);
    let all = ["a", "b", "c"].iter().flat_map(|host| (300..304).map(|time| key(host, time)));
    let inserted: Vec<Inserted> = all.map(|key| (key, Value::BigInt(1), Value::Null)).collect();
    let run = MemoryRun::from_write(&relation, &bulk(&relation, &inserted, 0, false), 300, 0, 1).expect("a run");
    let damaged = Run::Segment(Arc::new(Damaged(Blocks(run, 4), 8)));
    let source = source(relation, vec![newest, damaged], vec![], 0);
    let of = |from: &str, to: &str| {
        let bound = |host: &str| vec![Value::Text(host.into())];
        let span = Span { start: Bound::Included(bound(from)), end: Bound::Excluded(bound(to)) };
        Scan { spans: vec![span], ..scan(1, Order::Forward) }
    };
    assert_eq!(left_out(&source, &of("a", "c")), 0, "what cannot be read is not known");
    assert_eq!(read(&source, &of("a", "c"), 1, &Arc::default()).len(), 2);
}
