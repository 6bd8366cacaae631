//! Loads: all of them at once or nothing, whatever happens between their parts.

use std::sync::Arc;

use futures::executor::block_on;
use keyspan_model::{ErrorKind, Mutation, Span, Stamp, TableDef, Unchanged, WriteBatch};

use super::{StoreLoad, division};
use crate::check::check_files;
use crate::engine::tests::{bulk, create, expected, in_files, key, options, read, read_from, row, write};
use crate::engine::{EmbeddedStore, StoreOptions};
use crate::files::{Files, MemoryFiles};
use crate::segment::{SEGMENT_DIRECTORY, verify_segment};
use keyspan_seam::{Load, ReadAt, Store};

/// A store with parts of some 85 KB.
fn small(files: &MemoryFiles) -> Arc<EmbeddedStore> {
    let options = StoreOptions { memory_budget: 256 << 10, ..options() };
    EmbeddedStore::open_files(Arc::new(files.clone()), options).expect("opens")
}

fn begin(store: &EmbeddedStore, table: &TableDef, stamp: Stamp) -> Box<dyn Load> {
    store.load(table.rows_relation(), stamp).expect("begins")
}

fn push(load: &mut Box<dyn Load>, table: &TableDef, p: &str, rows: std::ops::Range<i64>, v: i64) {
    let Mutation::Batch(write) = bulk(table, p, rows, v) else { unreachable!("a batch") };
    block_on(load.write(write)).expect("takes rows");
}

/// 20,000 rows, of which the first 5,000 come again with another value, in several parts.
fn loaded(store: &EmbeddedStore, table: &TableDef, stamp: Stamp) -> Mutation {
    let mut load = begin(store, table, stamp);
    (0..20).for_each(|at| push(&mut load, table, "l", at * 1000..(at + 1) * 1000, 9));
    (0..5).for_each(|at| push(&mut load, table, "l", at * 1000..(at + 1) * 1000, 1));
    block_on(load.finish()).expect("finishes")
}

fn values(rows: &[(String, i64, Option<i64>)], p: &str) -> Vec<i64> {
    rows.iter().filter(|row| row.0 == p).map(|row| row.2.expect("a value")).collect()
}

fn whole() -> Vec<i64> {
    (0..20_000).map(|at| if at < 5000 { 1 } else { 9 }).collect()
}

#[test]
fn a_load_is_seen_whole_and_survives_kills_and_merges() {
    let files = MemoryFiles::new();
    let store = small(&files);
    let t = create(&store, "t");
    write(&store, vec![row(&t, "a", 1, 1), row(&t, "l", 7, 70)]);
    let mutation = loaded(&store, &t, Stamp::Server(0));
    let Mutation::Load(rows) = &mutation else { panic!("a load") };
    assert!(rows.rows == 25_000 && rows.parts > 3, "{rows:?}");
    // Written after the parts, before the load: the load is the later one.
    write(&store, vec![row(&t, "l", 6, 60)]);
    let held = store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
    assert_eq!(read(&store, &t), expected(&[("a", 1, 1), ("l", 6, 60), ("l", 7, 70)]));
    let own = held.with_writes(&WriteBatch { mutations: vec![mutation.clone()], ..WriteBatch::default() });
    assert_eq!(values(&read_from(&own.expect("on top"), &t), "l"), whole());
    assert_eq!(values(&read(&in_files(&files.fork()), &t), "l"), [60, 70], "not committed");
    write(&store, vec![mutation, row(&t, "b", 1, 5)]);
    let check = |store: &EmbeddedStore| {
        let rows = read(store, &t);
        assert_eq!(values(&rows, "l"), whole());
        assert_eq!((values(&rows, "a"), values(&rows, "b")), (vec![1], vec![5]));
    };
    assert_eq!(read_from(&held, &t).len(), 3, "a held snapshot does not move");
    check(&store);
    check(&small(&files.fork()));
    let report = check_files(&(Arc::new(files.fork()) as Arc<dyn Files>)).expect("checks");
    assert!(report.is_sound() && report.left_over.is_empty() && report.segments > 3, "{report:?}");
    block_on(store.flush()).expect("flushes");
    let again = small(&files.fork());
    check(&again);
    write(&store, vec![row(&t, "l", 0, 33)]);
    assert_eq!(values(&read(&store, &t), "l")[0], 33);
    block_on(again.compact()).expect("compacts");
    check(&again);
    let manifest = store.core.manifest.lock();
    let files: Arc<dyn Files> = Arc::new(files.clone());
    assert!(manifest.state().segments.len() > 3);
    for record in manifest.state().segments.values() {
        verify_segment(&files, &t.rows_relation(), record).expect("whole");
    }
}

#[test]
fn parts_that_are_written_at_a_time_are_in_the_order_they_came_in() {
    let files = MemoryFiles::new();
    let store = small(&files);
    let t = create(&store, "t");
    let mut own = StoreLoad::new(&store.core, t.rows_relation(), Stamp::Server(0));
    assert_eq!(own.threads, 1, "the budget holds no more");
    (own.part_bytes, own.threads) = (64 << 10, 4);
    let mut load: Box<dyn Load> = Box::new(own);
    for value in 1..=9 {
        (0..3).for_each(|at| push(&mut load, &t, "l", at * 1000..(at + 1) * 1000, value));
    }
    write(&store, vec![block_on(load.finish()).expect("finishes")]);
    assert_eq!(values(&read(&store, &t), "l"), vec![9; 3000]);
    assert_eq!(values(&read(&small(&files.fork()), &t), "l"), vec![9; 3000]);
}

/// One part is gathered, one is held twice while it is sorted: all of it within the budget.
#[test]
fn parts_are_as_large_and_as_many_as_the_budget_holds() {
    let mb = 1 << 20;
    assert_eq!(division(256 * mb, 1), (64 * mb, 1));
    assert_eq!(division(256 * mb, 2), (64 * mb, 2), "the default on two cores");
    assert_eq!(division(256 * mb, 16), (32 * mb, 6));
    assert_eq!(division(128 * mb, 16), (32 * mb, 2));
    assert_eq!(division(2048 * mb, 16), (64 * mb, 16));
    assert_eq!(division(48 * mb, 16), (16 * mb, 1));
    assert_eq!(division(0, 16), (64 << 10, 1));
}

#[test]
fn a_load_that_is_given_up_or_killed_leaves_no_file() {
    let files = MemoryFiles::new();
    let store = small(&files);
    let t = create(&store, "t");
    let mut load = begin(&store, &t, Stamp::Server(0));
    (0..20).for_each(|at| push(&mut load, &t, "l", at * 1000..(at + 1) * 1000, 9));
    let killed = files.fork();
    assert!(!killed.list(SEGMENT_DIRECTORY).expect("lists").is_empty());
    let reopened = in_files(&killed);
    assert_eq!(read(&reopened, &t), []);
    assert_eq!(killed.list(SEGMENT_DIRECTORY).expect("lists"), Vec::<String>::new());
    drop(load);
    drop(loaded(&store, &t, Stamp::Server(0)));
    // The part that was under way is finished by its thread, and then removed.
    for _ in 0..200 {
        if !files.list(SEGMENT_DIRECTORY).expect("lists").is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    assert_eq!(files.list(SEGMENT_DIRECTORY).expect("lists"), Vec::<String>::new());
    assert_eq!(read(&store, &t), []);
    let mutation = loaded(&store, &t, Stamp::Server(0));
    store.close().expect("closes");
    drop(mutation);
    assert_eq!(read(&in_files(&files), &t), []);
}

#[test]
fn of_rows_with_a_given_timestamp_the_later_wins_as_well() {
    let files = MemoryFiles::new();
    let store = small(&files);
    let t = create(&store, "t");
    let mutation = loaded(&store, &t, Stamp::At(77));
    write(&store, vec![mutation]);
    assert_eq!(values(&read(&store, &t), "l"), whole());
    let mut older = row(&t, "l", 0, 50);
    let mut newer = row(&t, "l", 1, 51);
    for (mutation, ts) in [(&mut older, 76), (&mut newer, 78)] {
        if let Mutation::Row(write) = mutation {
            write.stamp = Stamp::At(ts);
        }
    }
    write(&store, vec![older, newer]);
    assert_eq!(values(&read(&store, &t), "l")[..2], [1, 51]);
    block_on(store.compact()).expect("compacts");
    assert_eq!(values(&read(&store, &t), "l")[..2], [1, 51]);
}

#[test]
fn statements_after_a_load_in_one_batch_are_later() {
    let store = small(&MemoryFiles::new());
    let t = create(&store, "t");
    let mutation = loaded(&store, &t, Stamp::Server(3));
    let last = mutation.last_statement();
    assert!(last > 5);
    let mut after = row(&t, "l", 4999, 44);
    if let Mutation::Row(write) = &mut after {
        write.stamp = Stamp::Server(last + 1);
    }
    let first = write(&store, vec![mutation, after]);
    let next = write(&store, vec![row(&t, "z", 1, 1)]);
    assert!(next.timestamp > first.timestamp + i64::from(last));
    assert_eq!(values(&read(&store, &t), "l")[4998..5001], [1, 44, 9]);
}

#[test]
fn conditions_and_dropped_tables_refuse_a_load() {
    let store = small(&MemoryFiles::new());
    let t = create(&store, "t");
    let seen = write(&store, vec![row(&t, "l", 3, 1)]).seq;
    write(&store, vec![loaded(&store, &t, Stamp::Server(0))]);
    let unchanged = vec![Unchanged { relation: t.rows, span: Span::prefix(key("l", 3)), seq: seen }];
    let late = block_on(store.apply(WriteBatch { unchanged, ..WriteBatch::default() }));
    assert_eq!(late.expect_err("a conflict").kind, ErrorKind::Serialization);
    let mutation = loaded(&store, &t, Stamp::Server(0));
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    next.tables.remove(&t.id);
    block_on(store.change(next.version - 1, next, None)).expect("drops");
    let gone = block_on(store.apply(WriteBatch { mutations: vec![mutation], ..WriteBatch::default() }));
    assert_eq!(gone.expect_err("dropped").kind, ErrorKind::Redefined);
}

#[test]
fn readers_beside_loads_see_none_of_one_or_all() {
    let store = small(&MemoryFiles::new());
    let t = create(&store, "t");
    let loads = {
        let (store, t) = (store.clone(), t.clone());
        std::thread::spawn(move || {
            for round in 1..=4 {
                let mut load = begin(&store, &t, Stamp::Server(0));
                (0..12).for_each(|at| push(&mut load, &t, "l", at * 1000..(at + 1) * 1000, round));
                let mutation = block_on(load.finish()).expect("finishes");
                write(&store, vec![mutation]);
            }
        })
    };
    while !loads.is_finished() {
        let rows = values(&read(&store, &t), "l");
        assert!([0, 12_000].contains(&rows.len()), "{}", rows.len());
        assert!(rows.iter().all(|value| *value == rows[0]), "rows of two loads");
    }
    loads.join().expect("loads");
    assert_eq!(values(&read(&store, &t), "l"), vec![4; 12_000]);
}
