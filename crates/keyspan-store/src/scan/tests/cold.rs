//! Scans of few rows out of blocks that nobody has read yet: several tasks share the decoding.

use std::sync::atomic::Ordering;

use keyspan_model::SegmentId;

use super::*;
use crate::files::Files;
use crate::segment::{BlockCache, Segment, data_path, index_path};

const SLICES: i64 = 50;

/// Slices of time, each a segment of a few rows of three hosts, and nothing of them read.
fn slices(relation: &Arc<RelationDef>) -> Arc<ScanSource> {
    slices_in(&fixture::memory(), relation)
}

fn slices_in(files: &Arc<dyn Files>, relation: &Arc<RelationDef>) -> Arc<ScanSource> {
    let cache = BlockCache::new(64 << 20);
    let runs = (0..SLICES).map(|slice| {
        let times = slice * 10..slice * 10 + 10;
        let keys = ["a", "b", "c"].into_iter().flat_map(|host| times.clone().rev().map(move |time| key(host, time)));
        let keys: Vec<_> = keys.collect();
        let column = |at: usize, ty| {
            let values: Vec<Value> = keys.iter().map(|key| key[at].clone()).collect();
            array_of(ty, &values).expect("values of the type")
        };
        let (hosts, times) = (column(0, ColumnType::Text), column(1, ColumnType::Timestamp));
        let values = relation.values.iter().map(|_| Arc::clone(&hosts)).collect();
        let rows = fixture::plain(relation, vec![Arc::clone(&hosts), times], values, 1);
        let record = fixture::write(files, slice as u64 + 1, relation, &[rows]).expect("written");
        Run::Segment(Arc::new(Segment::new(Arc::clone(files), Arc::clone(&cache), relation, record)))
    });
    Arc::new(ScanSource {
        relation: Arc::clone(relation),
        runs: runs.collect(),
        tombstones: vec![].into(),
        now: 0,
        families: vec![],
        lookups: super::Lookups::default(),
    })
}

#[test]
fn what_nobody_has_read_is_divided_among_tasks_and_then_no_longer() {
    let texts = ["t", "u", "v", "w"].map(|name| (name, ColumnType::Text));
    let relation =
        fixture::relation(&[("host", ColumnType::Text, false), ("time", ColumnType::Timestamp, true)], &texts);
    let of_host = |host: &str, least: i64, most: i64| Span {
        start: Bound::Included(key(host, most)),
        end: Bound::Included(key(host, least)),
    };
    let columns: Vec<ScanColumn> = (1..=6).map(|id| ScanColumn::Column(ColumnId(id))).collect();
    for (spans, rows) in [
        (vec![of_host("b", 0, 1_000)], 500),
        (vec![of_host("b", 15, 484)], 470),
        (vec![of_host("a", 200, 299), of_host("c", 100, 399)], 400),
    ] {
        for order in [Order::Forward, Order::Reverse, Order::Any] {
            let source = slices(&relation);
            let scan = Scan { columns: columns.clone(), ..scan_of(spans.clone(), order) };
            assert_eq!(source.divide(&scan, 1, 8).expect("a plan").splits.len(), 1, "nobody wants more");
            let plan = source.divide(&scan, 4, 700).expect("a plan");
            assert!((2..=4).contains(&plan.splits.len()), "{} of {scan:?}", plan.splits.len());
            assert!(plan.splits.iter().all(|split| split.rows > 0));
            let mut keys = Vec::new();
            for split in &plan.splits {
                let before = keys.len();
                let mut reader = source.reader(&scan, split, &Conditions::default(), Arc::default()).expect("a reader");
                while let Some(batch) = reader.next_batch().expect("a batch") {
                    check_order(&relation, &scan, &batch);
                    keys.extend(rows_of(&relation, &scan.columns, &batch).into_iter().map(|row| row[..2].to_vec()));
                }
                assert!(keys.len() > before, "none does nothing: {scan:?}");
            }
            let in_order = |pair: &[Vec<Value>]| {
                let (hosts, times) = (pair[0][0].compare(&pair[1][0]), pair[1][1].compare(&pair[0][1]));
                if order == Order::Reverse { hosts.then(times).is_gt() } else { hosts.then(times).is_lt() }
            };
            assert!(order == Order::Any || keys.windows(2).all(in_order), "{scan:?}");
            keys.sort_by(|a, b| a[0].compare(&b[0]).then(a[1].compare(&b[1])));
            keys.dedup_by(|a, b| a[0].compare(&b[0]).is_eq() && a[1].compare(&b[1]).is_eq());
            assert_eq!(keys.len(), rows, "each once: {scan:?}");
            assert_eq!(source.divide(&scan, 4, 700).expect("a plan").splits.len(), 1, "all of it is decoded now");
        }
    }
}

/// Every slice has every host, so neither the range of keys nor the bloom filter leaves any out: the times do.
#[test]
fn a_point_read_looks_into_the_slice_of_its_time_alone() {
    let relation = fixture::relation(
        &[("host", ColumnType::Text, false), ("time", ColumnType::Timestamp, true)],
        &[("text", ColumnType::Text)],
    );
    let files = fixture::memory();
    let source = slices_in(&files, &relation);
    let slice = SLICES as u64 / 2;
    // Whoever opens another one fails.
    for id in (0..SLICES as u64).filter(|id| *id != slice).map(|id| SegmentId(id + 1)) {
        files.remove(&index_path(id)).expect("removes");
        files.remove(&data_path(id)).expect("removes");
    }
    let columns = [HOST, TIME, NUMBER].map(ScanColumn::Column);
    let time = slice as i64 * 10 + 3;
    let counters = ScanCounters::default();
    let rows = source.get(&[key("b", time), key("c", time + 1)], &columns, &counters).expect("rows");
    assert_eq!(rows.num_rows(), 2);
    let pages = counters.pages_read.load(Ordering::Relaxed);
    assert!(pages <= 6, "{pages}: of each column one page, and at most a dictionary");
    assert_eq!(source.get(&[key("b", SLICES * 10)], &columns, &counters).expect("no rows").num_rows(), 0);
    let scan = Scan { columns: columns.into(), ..scan_of(vec![Span::prefix(key("a", time))], Order::Forward) };
    assert_eq!(read_all(&source, &scan).len(), 1, "scans leave out the same");
}
