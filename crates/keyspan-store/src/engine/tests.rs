//! Tests of the store as a whole: what was acknowledged is there, whatever happened since.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Int64Type, Schema as ArrowSchema};
use futures::StreamExt;
use futures::executor::block_on;
use keyspan_model::{
    BatchWrite, CellWrite, ColumnDef, ColumnId, ColumnRole, ColumnType, Encoding, ErrorKind, Mutation, Order,
    RelationId, Retention, RowDelete, RowWrite, Scan, ScanColumn, Span, SpanDelete, Stamp, TableDef, TextType,
    Unchanged, Value,
};

use super::*;
use crate::clock::ManualClock;
use crate::format::FORMAT_FILE;
use keyspan_seam::Conditions;

pub(crate) const START: i64 = 1_700_000_000_000_000;

pub(crate) fn options() -> StoreOptions {
    StoreOptions { clock: Arc::new(ManualClock::new(START)), background: false, ..StoreOptions::default() }
}

pub(crate) fn in_files(files: &MemoryFiles) -> Arc<EmbeddedStore> {
    EmbeddedStore::open_files(Arc::new(files.clone()), options()).expect("opens")
}

/// A table `name (p text, c bigint, v bigint, primary key (p, c))`.
pub(crate) fn table(catalog: &mut Catalog, name: &str) -> TableDef {
    let column = |id: ColumnId, name: &str, ty, role| ColumnDef {
        id,
        name: name.into(),
        ty,
        role,
        not_null: false,
        default: None,
        max_length: None,
        text_type: TextType::Text,
        hidden: false,
        counter: false,
        identity: None,
    };
    let columns = vec![
        column(catalog.new_column_id(), "p", ColumnType::Text, ColumnRole::Partition),
        column(catalog.new_column_id(), "c", ColumnType::BigInt, ColumnRole::Clustering { descending: false }),
        column(catalog.new_column_id(), "v", ColumnType::BigInt, ColumnRole::Regular),
    ];
    TableDef {
        id: catalog.new_table_id(),
        keyspace: "public".into(),
        name: name.into(),
        version: 1,
        columns,
        rows: catalog.new_relation_id(),
        statics: None,
        families: vec![],
        window: None,
        default_ttl: 0,
        retention: Retention::default(),
        encoding: Encoding::default(),
        gc_grace: 0,
        checks: vec![],
        options: BTreeMap::new(),
        indexes: vec![],
        foreign_keys: vec![],
    }
}

pub(crate) fn create(store: &EmbeddedStore, name: &str) -> TableDef {
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    let table = table(&mut next, name);
    next.tables.insert(table.id, Arc::new(table.clone()));
    block_on(store.change(next.version - 1, next, None)).expect("creates");
    table
}

/// The store's files, and the path of one of its segments.
pub(crate) fn first_segment(store: &EmbeddedStore) -> (Arc<dyn Files>, String) {
    let state = store.core.state.lock();
    let segment = state.version.values().flat_map(|relation| &relation.segments).next().expect("a segment");
    (store.core.files.clone(), crate::segment::data_path(segment.id()))
}

pub(crate) fn key(p: &str, c: i64) -> Vec<Value> {
    vec![Value::Text(p.into()), Value::BigInt(c)]
}

pub(crate) fn row(table: &TableDef, p: &str, c: i64, v: i64) -> Mutation {
    let cells = vec![(table.columns[2].id, CellWrite::Value(Value::BigInt(v)))];
    Mutation::Row(RowWrite {
        relation: table.rows,
        key: key(p, c),
        marker: true,
        cells,
        stamp: Stamp::Server(0),
        ttl: 0,
    })
}

pub(crate) fn write(store: &EmbeddedStore, mutations: Vec<Mutation>) -> Applied {
    block_on(store.apply(WriteBatch { mutations, ..WriteBatch::default() })).expect("applies")
}

pub(crate) fn bulk(table: &TableDef, p: &str, rows: std::ops::Range<i64>, v: i64) -> Mutation {
    let schema = ArrowSchema::new(
        table.columns.iter().map(|column| Field::new(&column.name, column.ty.arrow(), true)).collect::<Vec<_>>(),
    );
    let count = rows.clone().count();
    let arrays: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(p, count))),
        Arc::new(Int64Array::from_iter_values(rows)),
        Arc::new(Int64Array::from(vec![v; count])),
    ];
    Mutation::Batch(BatchWrite {
        relation: table.rows,
        columns: table.columns.iter().map(|column| column.id).collect(),
        batch: RecordBatch::try_new(Arc::new(schema), arrays).expect("a batch"),
        marker: true,
        null_deletes: true,
        stamp: Stamp::Server(0),
        ttl: 0,
    })
}

pub(crate) fn read_from(snapshot: &Arc<dyn Snapshot>, table: &TableDef) -> Vec<(String, i64, Option<i64>)> {
    let scan = Scan {
        relation: table.rows,
        spans: vec![Span::all()],
        columns: table.columns.iter().map(|column| ScanColumn::Column(column.id)).collect(),
        ranges: vec![],
        order: Order::Forward,
        limit: None,
        per_prefix: None,
        coded: false,
    };
    let plan = block_on(snapshot.plan(&scan, 2)).expect("plans");
    let mut rows = Vec::new();
    for split in &plan.splits {
        let mut stream = snapshot.scan(&scan, split, Conditions::default(), Arc::default()).expect("scans");
        while let Some(batch) = block_on(stream.next()) {
            let batch = batch.expect("reads");
            let (p, c) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Int64Type>());
            let v = batch.column(2).as_primitive::<Int64Type>();
            rows.extend(
                (0..batch.num_rows())
                    .map(|at| (p.value(at).to_string(), c.value(at), v.is_valid(at).then(|| v.value(at)))),
            );
        }
    }
    rows
}

pub(crate) fn read(store: &EmbeddedStore, table: &TableDef) -> Vec<(String, i64, Option<i64>)> {
    read_from(&store.snapshot(ReadAt::Acknowledged).expect("a snapshot"), table)
}

pub(crate) fn expected(rows: &[(&str, i64, i64)]) -> Vec<(String, i64, Option<i64>)> {
    rows.iter().map(|(p, c, v)| (p.to_string(), *c, Some(*v))).collect()
}

#[test]
fn what_was_written_is_read_in_every_state_and_after_reopening() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let t = create(&store, "t");
    write(&store, vec![row(&t, "a", 1, 10), row(&t, "b", 1, 20)]);
    write(&store, vec![row(&t, "a", 1, 11), row(&t, "a", 2, 12)]);
    let all = expected(&[("a", 1, 11), ("a", 2, 12), ("b", 1, 20)]);
    assert_eq!(read(&store, &t), all);
    block_on(store.flush()).expect("flushes");
    assert_eq!(read(&store, &t), all);
    write(&store, vec![row(&t, "b", 1, 21)]);
    let all = expected(&[("a", 1, 11), ("a", 2, 12), ("b", 1, 21)]);
    assert_eq!(read(&store, &t), all);
    // As a kill would leave it: nothing closed.
    let killed = in_files(&files.fork());
    assert_eq!(read(&killed, &t), all);
    block_on(store.flush()).expect("flushes");
    block_on(store.compact()).expect("compacts");
    assert_eq!(store.stats().relations[0].segments, 1);
    assert_eq!(read(&store, &t), all);
    store.close().expect("closes");
    let reopened = in_files(&files);
    assert_eq!(read(&reopened, &t), all);
    assert_eq!(reopened.catalog().tables[&t.id].as_ref(), &t);
    assert_eq!(block_on(store.apply(WriteBatch::default())).expect_err("closed").kind, ErrorKind::Shutdown);
}

#[test]
fn deletions_hold_over_flushes_and_replays() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let t = create(&store, "t");
    write(&store, vec![bulk(&t, "a", 0..2000, 1), row(&t, "b", 1, 1), row(&t, "b", 2, 2)]);
    block_on(store.flush()).expect("flushes");
    let to_end = Span { start: Bound::Included(key("a", 3)), end: Bound::Included(vec![Value::Text("a".into())]) };
    let span = SpanDelete { relation: t.rows, span: to_end, stamp: Stamp::Server(0) };
    let one = RowDelete { relation: t.rows, key: key("b", 1), stamp: Stamp::Server(0) };
    write(&store, vec![Mutation::DeleteSpan(span), Mutation::DeleteRow(one)]);
    let left = expected(&[("a", 0, 1), ("a", 1, 1), ("a", 2, 1), ("b", 2, 2)]);
    assert_eq!(read(&store, &t), left);
    assert_eq!(read(&in_files(&files.fork()), &t), left);
    block_on(store.flush()).expect("flushes");
    assert_eq!(read(&in_files(&files.fork()), &t), left);
    block_on(store.compact()).expect("compacts");
    assert_eq!(read(&store, &t), left);
    assert_eq!(read(&in_files(&files.fork()), &t), left);
}

#[test]
fn a_batch_over_relations_and_frames_is_whole_or_not_there() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let (t, u) = (create(&store, "t"), create(&store, "u"));
    let part = |at: i64| {
        format!(
            "{:016x}",
            (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93)
        )
    };
    let text = |at: i64| (0..8).map(|piece| part(at * 8 + piece)).collect::<String>();
    let name = |files: &MemoryFiles| format!("log/{}", files.list("log").expect("lists").last().expect("a file"));
    let length = |files: &MemoryFiles| files.len(&name(files)).expect("looks").expect("is there") as usize;
    let before = length(&files);
    // Keys that do not compress, so that the record needs several frames of 8 MB.
    let mutations: Vec<Mutation> =
        (0..80_000).map(|at| row(if at % 2 == 0 { &t } else { &u }, &text(at), at, at)).collect();
    write(&store, mutations);
    let whole = length(&files);
    assert!(whole > 9 << 20, "{whole}");
    for cut in [0, 1, 60, 100_000, whole / 2, whole - before - 10] {
        let torn = files.fork();
        torn.damage(&name(&files), |bytes| bytes.truncate(whole - cut)).expect("is there");
        let store = in_files(&torn);
        let rows = read(&store, &t).len() + read(&store, &u).len();
        assert_eq!(rows, if cut == 0 { 80_000 } else { 0 }, "{cut}");
    }
}

#[test]
fn a_held_snapshot_does_not_move() {
    let store = EmbeddedStore::in_memory(options()).expect("opens");
    let t = create(&store, "t");
    write(&store, vec![row(&t, "a", 1, 1)]);
    let held = store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
    write(&store, vec![row(&t, "a", 1, 2), row(&t, "a", 2, 2), bulk(&t, "b", 0..3000, 3)]);
    assert_eq!(read_from(&held, &t), expected(&[("a", 1, 1)]));
    block_on(store.flush()).expect("flushes");
    let flushed = store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
    write(&store, vec![row(&t, "a", 1, 5)]);
    block_on(store.compact()).expect("compacts");
    assert_eq!(read_from(&held, &t), expected(&[("a", 1, 1)]));
    assert_eq!(read_from(&flushed, &t).len(), 3002);
    // A transaction sees its own writes on top.
    let own = held
        .with_writes(&WriteBatch { mutations: vec![row(&t, "c", 1, 9)], ..WriteBatch::default() })
        .expect("overlays");
    assert_eq!(read_from(&own, &t), expected(&[("a", 1, 1), ("c", 1, 9)]));
    assert_eq!(read_from(&held, &t), expected(&[("a", 1, 1)]));
}

#[test]
fn preconditions_find_conflicts_in_memory_and_in_segments() {
    let store = EmbeddedStore::in_memory(options()).expect("opens");
    let t = create(&store, "t");
    let first = write(&store, vec![row(&t, "a", 1, 1), row(&t, "b", 1, 1)]).seq;
    let second = write(&store, vec![row(&t, "a", 1, 2)]).seq;
    let attempt = |p: &str, seq| {
        let unchanged = vec![Unchanged { relation: t.rows, span: Span::prefix(key(p, 1)), seq }];
        block_on(store.apply(WriteBatch { unchanged, ..WriteBatch::default() }))
    };
    for _ in 0..3 {
        assert_eq!(attempt("a", first).expect_err("a conflict").kind, ErrorKind::Serialization);
        attempt("a", second).expect("no conflict");
        attempt("c", first).expect("untouched");
        block_on(store.flush()).expect("flushes");
    }
}

#[test]
fn server_timestamps_strictly_increase_over_restarts_and_backward_clocks() {
    let files = MemoryFiles::new();
    let clock = Arc::new(ManualClock::new(START));
    let open = || {
        let options = StoreOptions { clock: clock.clone(), ..options() };
        EmbeddedStore::open_files(Arc::new(files.clone()), options).expect("opens")
    };
    let (mut last, mut seen) = (0, 0);
    let mut store = open();
    let t = create(&store, "t");
    for step in 0..20 {
        let mut future = row(&t, "a", 1, 1);
        if let Mutation::Row(write) = &mut future {
            write.stamp = Stamp::At(START * 2);
        }
        let applied = write(&store, vec![future, row(&t, "b", step, 1)]);
        assert!(applied.timestamp > last && applied.timestamp < START + 1_000_000, "{applied:?}");
        last = applied.timestamp;
        let now = store.snapshot(ReadAt::Acknowledged).expect("a snapshot").now();
        assert!(now >= seen);
        seen = now;
        if step % 3 == 0 {
            block_on(store.flush()).expect("flushes");
        }
        store.close().expect("closes");
        clock.set(START - step * 1000);
        store = open();
    }
}

#[test]
fn dropped_and_truncated_tables_free_their_files_and_never_come_back() {
    let files = MemoryFiles::new();
    // Without threads: one of them may have hold of a dropped segment at the time of the flush, which then leaves it.
    let options = StoreOptions { threads: false, ..options() };
    let store = EmbeddedStore::open_files(Arc::new(files.clone()), options).expect("opens");
    let (t, u) = (create(&store, "t"), create(&store, "u"));
    write(&store, vec![bulk(&t, "a", 0..5000, 1), bulk(&u, "a", 0..5000, 1)]);
    block_on(store.flush()).expect("flushes");
    write(&store, vec![row(&t, "b", 1, 1)]);
    assert_eq!(files.list("seg").expect("lists").len(), 4);
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    next.tables.remove(&u.id);
    // TRUNCATE: the same table with a new relation.
    let truncated = TableDef { rows: next.new_relation_id(), version: 2, ..t.clone() };
    next.tables.insert(t.id, Arc::new(truncated.clone()));
    block_on(store.change(next.version - 1, next.clone(), None)).expect("changes");
    assert_eq!(read(&store, &truncated), []);
    let gone = block_on(store.apply(WriteBatch { mutations: vec![row(&u, "a", 1, 1)], ..WriteBatch::default() }));
    assert_eq!(gone.expect_err("dropped").kind, ErrorKind::Redefined);
    let killed = files.fork();
    let reopened = in_files(&killed);
    assert_eq!(read(&reopened, &truncated), []);
    assert_eq!(killed.list("seg").expect("lists").len(), 0);
    block_on(store.flush()).expect("flushes");
    assert_eq!(files.list("seg").expect("lists").len(), 0);
    let mut reusing = next.clone();
    reusing.version += 1;
    reusing.tables.insert(t.id, Arc::new(t.clone()));
    block_on(store.change(next.version, reusing, None)).expect_err("a relation id is never used again");
    assert!(store.catalog().next_relation > truncated.rows.0);
}

/// Two transactions give their relations numbers; the later one may commit first.
#[test]
fn a_relation_id_that_was_passed_over_can_come_later_but_once() {
    let files = MemoryFiles::new();
    let options = StoreOptions { threads: false, ..options() };
    let store = EmbeddedStore::open_files(Arc::new(files.clone()), options).expect("opens");
    let t = create(&store, "t");
    let mut next = (*store.catalog()).clone();
    let (early, late) = (next.new_relation_id(), next.new_relation_id());
    for (rows, works) in [(late, true), (early, true), (late, false)] {
        let moved = TableDef { rows, ..t.clone() };
        next.version = store.catalog().version + 1;
        next.tables.insert(t.id, Arc::new(moved.clone()));
        let changed = block_on(store.change(next.version - 1, next.clone(), None));
        assert_eq!(changed.is_ok(), works, "{rows:?}");
        if works {
            write(&store, vec![row(&moved, "a", 1, 1)]);
            assert_eq!(read(&in_files(&files.fork()), &moved).len(), 1);
        }
    }
}

#[test]
fn a_crash_right_after_the_catalog_was_written_leaves_no_file_of_a_dropped_table() {
    let files = MemoryFiles::new();
    // Without threads, which would soon write the edit that drops.
    let options = StoreOptions { threads: false, ..options() };
    let store = EmbeddedStore::open_files(Arc::new(files.clone()), options).expect("opens");
    let (gone, kept) = (create(&store, "gone"), create(&store, "kept"));
    write(&store, vec![row(&gone, "p", 1, 1)]);
    block_on(store.flush()).expect("flushes");
    assert_eq!(files.list("seg").expect("lists").len(), 2);
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    next.tables.remove(&gone.id);
    block_on(store.change(next.version - 1, next, None)).expect("drops");
    write(&store, vec![row(&kept, "p", 1, 1)]);
    // The edit of any flush brings the newest catalog with it; what is dropped has an edit of its own.
    store.core.flush_relation(kept.rows).expect("flushes");
    let crashed = files.fork();
    assert_eq!(crashed.list("seg").expect("lists").len(), 4);
    for _ in 0..2 {
        let store = in_files(&crashed);
        assert_eq!(read(&store, &kept), expected(&[("p", 1, 1)]));
    }
    assert_eq!(crashed.list("seg").expect("lists").len(), 2);
}

#[test]
fn small_batches_are_merged_in_memory_and_nothing_is_lost() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let table = create(&store, "t");
    let held = store.snapshot(ReadAt::Newest).expect("a snapshot");
    let mut wanted = BTreeMap::new();
    for batch in 0..100_i64 {
        // Overlapping keys: each batch overwrites half of the one before.
        let keys = batch * 600..batch * 600 + 1200;
        write(&store, vec![bulk(&table, "p", keys.clone(), batch)]);
        wanted.extend(keys.map(|key| (key, batch)));
        if batch == 50 {
            let half = key("p", 30_000);
            write(
                &store,
                vec![Mutation::DeleteRow(RowDelete { relation: table.rows, key: half, stamp: Stamp::Server(0) })],
            );
            wanted.remove(&30_000);
        }
        store.core.merge_memory().expect("merges");
    }
    let rows: Vec<_> = wanted.iter().map(|(key, value)| ("p", *key, *value)).collect();
    let runs = |store: &EmbeddedStore| store.stats().relations[0].memory_runs;
    assert!(runs(&store) <= 16, "{} runs", runs(&store));
    assert_eq!(read(&store, &table), expected(&rows));
    assert_eq!(read_from(&held, &table), []);
    let killed = in_files(&files.fork());
    assert_eq!(read(&killed, &table), expected(&rows));
    block_on(store.flush()).expect("flushes");
    assert_eq!((runs(&store), read(&store, &table)), (0, expected(&rows)));
}

#[test]
fn a_change_of_an_old_catalog_is_refused_and_one_with_rows_is_one_step() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let mut next = (*store.catalog()).clone();
    let base = next.version;
    next.version += 1;
    let t = table(&mut next, "t");
    next.tables.insert(t.id, Arc::new(t.clone()));
    let batch = WriteBatch { mutations: vec![row(&t, "a", 1, 1), bulk(&t, "b", 0..2000, 2)], ..WriteBatch::default() };
    block_on(store.change(base, next.clone(), Some(batch))).expect("creates");
    assert_eq!(read(&store, &t).len(), 2001);
    assert_eq!(block_on(store.change(base, next, None)).expect_err("old").kind, ErrorKind::Serialization);
    assert_eq!(read(&in_files(&files.fork()), &t).len(), 2001);
}

#[test]
fn a_directory_is_opened_once_and_a_newer_format_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), options()).expect("opens");
    let t = create(&store, "t");
    write(&store, vec![row(&t, "a", 1, 1)]);
    let error = EmbeddedStore::open(dir.path(), options()).expect_err("in use");
    assert_eq!(error.kind, ErrorKind::ObjectInUse);
    drop(store);
    let store = EmbeddedStore::open(dir.path(), options()).expect("free again");
    assert_eq!(read(&store, &t), expected(&[("a", 1, 1)]));
    drop(store);
    let file = dir.path().join(FORMAT_FILE);
    let mut bytes = std::fs::read(&file).expect("reads");
    bytes[8] = 9;
    let crc = crc32c::crc32c(&bytes[..44]).to_le_bytes();
    bytes[44..48].copy_from_slice(&crc);
    std::fs::write(&file, bytes).expect("writes");
    assert_eq!(EmbeddedStore::open(dir.path(), options()).expect_err("newer").kind, ErrorKind::FormatVersion);
}

#[test]
fn sixteen_writers_share_syncs_and_lose_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(dir.path(), options()).expect("opens");
    let t = create(&store, "t");
    let before = store.stats().log_syncs;
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let (store, t) = (&store, &t);
            scope.spawn(move || {
                for at in 0..50 {
                    write(store, vec![row(t, &format!("{writer:02}"), at, at)]);
                }
            });
        }
    });
    assert!(store.stats().log_syncs - before < 400, "{:?}", store.stats());
    assert_eq!(read(&store, &t).len(), 800);
    drop(store);
    let store = EmbeddedStore::open(dir.path(), options()).expect("opens");
    assert_eq!(read(&store, &t).len(), 800);
}

#[test]
fn memory_and_log_stay_bounded_and_data_is_many_times_larger() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = StoreOptions {
        memory_budget: 1 << 20,
        cache_budget: 1 << 20,
        log_limit: 2 << 20,
        log_file: 1 << 19,
        segment_rows: 20_000,
        background: true,
        ..options()
    };
    let store = EmbeddedStore::open(dir.path(), small.clone()).expect("opens");
    let t = create(&store, "t");
    let idle = create(&store, "idle");
    write(&store, vec![row(&idle, "only", 1, 1)]);
    let mut rows = 0;
    for at in 0..60 {
        write(&store, vec![bulk(&t, &format!("{:02}", at % 7), at * 1500..(at + 2) * 1500, at)]);
        rows = rows.max((at + 2) * 1500);
        for single in 0..20 {
            write(&store, vec![row(&t, "single", single, at)]);
        }
        let stats = store.stats();
        assert!(stats.memory_bytes < 3 << 20, "{stats:?}");
        assert!(stats.log_bytes < 6 << 20, "{stats:?}");
    }
    let all = read(&store, &t);
    assert!(store.stats().flushes > 5, "{:?}", store.stats());
    drop(store);
    let store = EmbeddedStore::open(dir.path(), small).expect("opens");
    assert_eq!(read(&store, &t), all);
    assert_eq!(read(&store, &idle), expected(&[("only", 1, 1)]));
    block_on(store.compact()).expect("compacts");
    assert_eq!(read(&store, &t), all);
    let names = std::fs::read_dir(dir.path().join("seg")).expect("lists").count();
    let segments: usize = store.stats().relations.iter().map(|relation| relation.segments).sum();
    assert_eq!(names, 2 * segments);
}

#[test]
fn rows_in_memory_count_with_their_texts_and_hold_no_others() {
    let store = EmbeddedStore::in_memory(options()).expect("opens");
    let table = create(&store, "t");
    let long = "x".repeat(1000);
    let Mutation::Batch(all) = bulk(&table, &long, 0..4000, 1) else { panic!("a batch") };
    let before = store.stats().memory_bytes;
    // A part of a larger batch, as an application's own may be.
    let part = BatchWrite { batch: all.batch.slice(100, 2000), ..all };
    write(&store, vec![Mutation::Batch(part)]);
    let counted = store.stats().memory_bytes - before;
    // Encoded in the key, and as a column.
    assert!((4_000_000..4_500_000).contains(&counted), "{counted}");
}

#[test]
fn replaying_twice_changes_nothing_and_files_of_a_cut_flush_are_removed() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let t = create(&store, "t");
    for at in 0..10 {
        write(&store, vec![row(&t, "a", at, at), bulk(&t, "b", at * 10..at * 10 + 1500, at)]);
    }
    let rows = read(&store, &t);
    // Between the segment's files and the manifest's edit.
    let killed = files.fork();
    killed.put_if_absent("seg/900.parquet", b"left over").expect("writes");
    let store = in_files(&killed);
    assert_eq!(read(&store, &t), rows);
    assert!(killed.len("seg/900.parquet").expect("looks").is_none());
    block_on(store.flush()).expect("flushes");
    let flushed = killed.fork();
    assert_eq!(read(&in_files(&flushed), &t), rows);
    assert_eq!(read(&in_files(&killed.fork()), &t), rows);
    assert!(
        flushed.list("seg").expect("lists").iter().all(|name| name.starts_with("901.")),
        "an id is never used again"
    );
}

/// The manifest knows at close how far the log is durable; a flush while half of it is replayed is not that far.
#[test]
fn a_log_larger_than_memory_is_replayed_whole() {
    let files = MemoryFiles::new();
    let mut wanted = Vec::new();
    {
        let store = in_files(&files);
        let tables = [create(&store, "t"), create(&store, "u")];
        for at in 0..60 {
            write(&store, vec![row(&tables[at % 2], "p", at as i64, 1)]);
            wanted.push((at % 2, at as i64));
        }
        store.close().expect("closes");
    }
    for budget in [2 << 10, 5 << 10, 64 << 10] {
        let files = files.fork();
        let options = StoreOptions { memory_budget: budget, ..options() };
        let store = EmbeddedStore::open_files(Arc::new(files), options).expect("opens");
        let flushed: usize = store.stats().relations.iter().map(|relation| relation.segments).sum();
        assert_eq!(flushed > 0, budget < 64 << 10, "{flushed} segments with {budget} bytes");
        for (number, name) in ["t", "u"].into_iter().enumerate() {
            let catalog = store.catalog();
            let table = catalog.tables.values().find(|table| table.name == name).expect("there");
            let rows: Vec<_> = wanted.iter().filter(|row| row.0 == number).map(|row| ("p", row.1, 1)).collect();
            assert_eq!(read(&store, table), expected(&rows), "with {budget} bytes");
        }
    }
}

#[test]
fn relaxed_batches_are_visible_at_once_and_limits_are_kept() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let t = create(&store, "t");
    let relaxed = WriteBatch { mutations: vec![row(&t, "a", 1, 1)], relaxed: true, ..WriteBatch::default() };
    block_on(store.apply(relaxed)).expect("applies");
    assert_eq!(read(&store, &t), expected(&[("a", 1, 1)]));
    let huge = RowWrite {
        relation: t.rows,
        key: key(&"x".repeat(70_000), 1),
        marker: true,
        cells: vec![],
        stamp: Stamp::Server(0),
        ttl: 0,
    };
    let refused = block_on(store.apply(WriteBatch { mutations: vec![Mutation::Row(huge)], ..WriteBatch::default() }));
    assert_eq!(refused.expect_err("too long").kind, ErrorKind::LimitExceeded);
    let wrong = Mutation::Row(RowWrite {
        relation: RelationId(77),
        key: key("a", 1),
        marker: true,
        cells: vec![],
        stamp: Stamp::Server(0),
        ttl: 0,
    });
    let refused = block_on(store.apply(WriteBatch { mutations: vec![wrong], ..WriteBatch::default() }));
    assert_eq!(refused.expect_err("no relation").kind, ErrorKind::Redefined);
    store.close().expect("closes");
    assert_eq!(read(&in_files(&files), &t), expected(&[("a", 1, 1)]));
}

#[test]
fn a_check_finds_every_damaged_file_and_a_sound_store_sound() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let t = create(&store, "t");
    write(&store, vec![bulk(&t, "a", 0..5000, 1)]);
    block_on(store.flush()).expect("flushes");
    for at in 0..5 {
        write(&store, vec![row(&t, "b", at, 1)]);
    }
    store.close().expect("closes");
    let check =
        |files: &MemoryFiles| crate::check::check_files(&(Arc::new(files.clone()) as Arc<dyn Files>)).expect("checks");
    let report = check(&files);
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.tables, report.segments, report.segment_rows, report.log_records), (1, 1, 5000, 7));
    let names = |directory: &'static str| {
        files.list(directory).expect("lists").into_iter().map(move |name| format!("{directory}/{name}"))
    };
    let paths: Vec<String> = names("seg").chain(names("manifest")).chain(names("log")).collect();
    for path in paths.iter().map(String::as_str).chain([FORMAT_FILE]) {
        let damaged = files.fork();
        damaged.damage(path, |bytes| bytes[30] ^= 0x10).expect("is there");
        let report = check(&damaged);
        assert!(report.problems.iter().any(|error| error.message.contains(path)), "{path}: {report:?}");
    }
}

#[test]
fn deleted_spans_free_the_disk_though_nothing_overlaps_them() {
    let files = MemoryFiles::default();
    let store = in_files(&files);
    let t = create(&store, "t");
    for p in ["a", "b", "c", "d"] {
        write(&store, vec![bulk(&t, p, 0..50_000, 7)]);
    }
    block_on(store.compact()).expect("compacts");
    let delete = |p: &str, from: i64| {
        let span = Span { start: Bound::Included(key(p, from)), ..Span::prefix(vec![Value::Text(p.into())]) };
        Mutation::DeleteSpan(SpanDelete { relation: t.rows, span, stamp: Stamp::Server(0) })
    };
    write(&store, vec![delete("a", 0), delete("b", 0), delete("c", 1_000)]);
    block_on(store.compact()).expect("compacts");
    assert_eq!(store.stats().relations[0].segment_rows, 51_000);
    assert_eq!(read(&store, &t).len(), 51_000);
    // What is left is not rewritten again.
    let merges = store.stats().compactions;
    block_on(store.compact()).expect("compacts");
    assert_eq!(store.stats().compactions, merges);
}
