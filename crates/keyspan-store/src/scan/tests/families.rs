//! Families (every version a row, GC rules at read and in compaction, tombstones for a path) and statics.

use super::*;

const QUALIFIER: ColumnId = ColumnId(5);
const VALUE: ColumnId = ColumnId(6);
const WRITTEN: ColumnId = keyspan_model::schema::VERSION_COLUMN;

/// `(host text, qualifier text, written_at timestamp DESC) → value text`
fn family(gc: GcRule) -> RelationDef {
    let key = |id, name: &str, ty, descending| KeyColumn { id, name: name.into(), ty, descending };
    RelationDef {
        kind: RelationKind::Family,
        key: vec![
            key(HOST, "host", ColumnType::Text, false),
            key(QUALIFIER, "qualifier", ColumnType::Text, false),
            key(WRITTEN, "written_at", ColumnType::Timestamp, true),
        ],
        values: vec![ValueColumn { id: VALUE, name: "value".into(), ty: ColumnType::Text }],
        window: None,
        gc,
        ..relation()
    }
}

fn version(host: &str, qualifier: &str, ts: i64) -> (Vec<Value>, RowEntry) {
    let key = vec![Value::Text(host.into()), Value::Text(qualifier.into()), Value::Timestamp(ts)];
    let cells = vec![(VALUE, CellWrite::Value(Value::Text(format!("{host}{qualifier}{ts}"))))];
    (key.clone(), RowEntry::written(&write(key, cells, true, 0), ts, ts))
}

fn run_of(relation: &RelationDef, versions: Vec<(Vec<Value>, RowEntry)>) -> Run {
    let memtable = Arc::new(Memtable::new(relation));
    let encoder = KeyEncoder::new(&relation.key);
    for (seq, (key, entry)) in versions.into_iter().enumerate() {
        memtable.insert(encoder.encode(&key).expect("a key"), seq as u64 + 1, entry).expect("inserted");
    }
    let run = memtable.freeze(&Arc::new(relation.clone())).expect("frozen");
    Run::Segment(Arc::new(Blocks(run, 2)))
}

/// A tombstone for one path: every version of a qualifier.
fn path_tombstone(relation: &RelationDef, host: &str, qualifier: &str, ts: i64) -> SpanTombstone {
    let path = Span::prefix(vec![Value::Text(host.into()), Value::Text(qualifier.into())]);
    let (start, end) = KeyEncoder::new(&relation.key).span_bytes(&path).expect("a span");
    SpanTombstone { start, end, ts, deleted_at: ts, seq: 1 }
}

/// Two qualifiers of two hosts, five versions each, in two runs that overlap.
fn versioned(gc: GcRule, tombstones: &[(&str, &str, i64)]) -> Arc<ScanSource> {
    let relation = family(gc);
    let (mut odd, mut even) = (Vec::new(), Vec::new());
    for host in ["a", "b"] {
        for qualifier in ["p", "q"] {
            for ts in 1..=5 {
                if ts % 2 == 0 { &mut even } else { &mut odd }.push(version(host, qualifier, ts * 100));
            }
        }
    }
    let runs = vec![run_of(&relation, odd), run_of(&relation, even)];
    let tombstones = tombstones.iter().map(|(host, path, ts)| path_tombstone(&relation, host, path, *ts)).collect();
    source(relation, runs, tombstones, 600)
}

fn paths(source: &Arc<ScanSource>, spans: Vec<Span>, order: Order, per_prefix: Option<(usize, usize)>) -> Vec<String> {
    let columns = vec![ScanColumn::Column(VALUE)];
    let scan =
        Scan { relation: RelationId(7), spans, columns, ranges: vec![], order, limit: None, per_prefix, coded: false };
    let texts = read_all(source, &scan).into_iter().map(|mut row| match row.remove(0) {
        Value::Text(text) => text,
        other => panic!("{other:?} is no text"),
    });
    texts.collect()
}

fn host(name: &str) -> Vec<Span> {
    vec![Span::prefix(vec![Value::Text(name.into())])]
}

#[test]
fn the_newest_versions_of_each_path_are_kept_in_both_directions() {
    let source = versioned(GcRule { max_versions: Some(2), ..GcRule::default() }, &[]);
    let forward = paths(&source, host("a"), Order::Forward, None);
    assert_eq!(forward, ["ap500", "ap400", "aq500", "aq400"]);
    let mut backward = paths(&source, host("a"), Order::Reverse, None);
    backward.reverse();
    assert_eq!(backward, forward);
    assert_eq!(paths(&source, vec![Span::all()], Order::Any, None).len(), 8);
    assert_eq!(paths(&source, host("a"), Order::Forward, Some((2, 1))), ["ap500", "aq500"]);
    assert_eq!(paths(&source, host("a"), Order::Reverse, Some((2, 1))), ["aq400", "ap400"]);
    let three = versioned(GcRule { max_versions: Some(3), ..GcRule::default() }, &[]);
    assert_eq!(paths(&three, host("a"), Order::Reverse, Some((2, 2))), ["aq300", "aq400", "ap300", "ap400"]);
}

#[test]
fn a_span_that_begins_among_the_versions_counts_from_the_newest() {
    let source = versioned(GcRule { max_versions: Some(2), ..GcRule::default() }, &[]);
    let path = |ts: i64| vec![Value::Text("a".into()), Value::Text("p".into()), Value::Timestamp(ts)];
    let older = Span { start: Bound::Included(path(400)), end: Bound::Included(path(100)) };
    assert_eq!(paths(&source, vec![older.clone()], Order::Forward, None), ["ap400"]);
    assert_eq!(paths(&source, vec![older], Order::Reverse, None), ["ap400"]);
    let three = versioned(GcRule { max_versions: Some(3), ..GcRule::default() }, &[]);
    let of = |from: i64, to: i64| Span { start: Bound::Included(path(from)), end: Bound::Included(path(to)) };
    assert_eq!(paths(&three, vec![of(500, 500), of(300, 100)], Order::Forward, None), ["ap500", "ap300"]);
    let got =
        source.get(&[path(500), path(100)], &[ScanColumn::Column(VALUE)], &ScanCounters::default()).expect("rows");
    assert_eq!(got.num_rows(), 1);
}

#[test]
fn age_alone_either_and_both() {
    let rule = |max_versions, both| GcRule { max_versions, max_age: Some(250), both, ..GcRule::default() };
    for max_age in [200, 250, 299] {
        let rule = GcRule { max_age: Some(max_age), ..GcRule::default() };
        let kept = paths(&versioned(rule, &[]), host("a"), Order::Forward, None);
        assert_eq!(kept, ["ap500", "ap400", "aq500", "aq400"], "{max_age}");
    }
    assert_eq!(paths(&versioned(rule(Some(1), false), &[]), host("a"), Order::Forward, None), ["ap500", "aq500"]);
    let both = versioned(rule(Some(3), true), &[]);
    assert_eq!(paths(&both, host("a"), Order::Forward, None), ["ap500", "ap400", "ap300", "aq500", "aq400", "aq300"]);
}

#[test]
fn a_path_tombstone_covers_its_versions_and_no_others() {
    let source = versioned(GcRule::default(), &[("a", "p", 300)]);
    assert_eq!(paths(&source, host("a"), Order::Forward, None)[..3], ["ap500", "ap400", "aq500"]);
    let limited = versioned(GcRule { max_versions: Some(3), ..GcRule::default() }, &[("a", "p", 400)]);
    assert_eq!(paths(&limited, host("a"), Order::Forward, None), ["ap500", "aq500", "aq400", "aq300"]);
}

#[test]
fn compaction_drops_the_versions_beyond_the_rule() {
    let source = versioned(GcRule { max_versions: Some(2), ..GcRule::default() }, &[]);
    let input = CompactionInput {
        relation: Arc::clone(&source.relation),
        runs: source.runs.iter().map(|run| run.open(&[], None).expect("opened")).collect(),
        tombstones: &[],
        keep_tombstones: false,
        outside: vec![],
        now: source.now,
    };
    let mut compaction = Compaction::new(input, Arc::default()).expect("a compaction");
    let mut rows = 0;
    while let Some(batch) = compaction.next_batch().expect("a batch") {
        rows += batch.rows;
    }
    assert_eq!(rows, 8);
}

#[test]
fn statics_are_rows_keyed_by_partition() {
    let mut relation = relation();
    relation.kind = RelationKind::Statics;
    relation.key.truncate(1);
    relation.window = None;
    let encoder = KeyEncoder::new(&relation.key);
    let memtable = Arc::new(Memtable::new(&relation));
    for (seq, (host, number)) in [("a", 1), ("b", 2), ("a", 3)].into_iter().enumerate() {
        let key = vec![Value::Text(host.into())];
        // A static cell writes no marker: the row lives by its cell.
        let update = write(key.clone(), vec![(NUMBER, CellWrite::Value(Value::BigInt(number)))], false, 0);
        let bytes = encoder.encode(&key).expect("a key");
        memtable.insert(bytes, seq as u64, RowEntry::written(&update, seq as i64, 0)).expect("inserted");
    }
    let view = Run::Memtable(memtable.view(1, Arc::new(relation.clone())));
    let columns = vec![ScanColumn::Column(HOST), ScanColumn::Column(NUMBER)];
    let scan = Scan { columns, ..scan_of(vec![Span::all()], Order::Forward) };
    let rows = |run: Run| read_all(&source(relation.clone(), vec![run], vec![], 0), &scan);
    let row = |host: &str, number: i64| vec![Value::Text(host.into()), Value::BigInt(number)];
    assert_eq!(rows(view), [row("a", 1), row("b", 2)]);
    let newest = Run::Memtable(memtable.view(u64::MAX, Arc::new(relation.clone())));
    assert_eq!(rows(newest), [row("a", 3), row("b", 2)]);
}
