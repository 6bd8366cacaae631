//! Windows of time in an open store: old slices become one segment, the rows stay the same.

use std::time::Duration;

use futures::executor::block_on;
use keyspan_model::{CellWrite, ColumnRole, ColumnType, Mutation, Retention, RowWrite, Stamp, TableDef, Value};

use super::tests::{START, options, read, row as plain_row, table, write};
use super::*;
use crate::clock::{Clock, ManualClock};
use crate::files::MemoryFiles;

const HOUR: i64 = 3_600_000_000;
/// Rows live so long that a window may have eight hours, and has 256 minutes.
const LIFE: u32 = 64 * 3600;
const HOURS: i64 = 60;

/// `t (p text, c bigint, at timestamp, v bigint, primary key (p, c, at))`, with windows by `at`.
fn timed(store: &EmbeddedStore) -> TableDef {
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    let mut timed = table(&mut next, "t");
    let mut at = timed.columns[1].clone();
    (at.id, at.name, at.ty) = (next.new_column_id(), "at".into(), ColumnType::Timestamp);
    at.role = ColumnRole::Clustering { descending: false };
    timed.window = Some(at.id);
    timed.columns.push(at);
    next.tables.insert(timed.id, Arc::new(timed.clone()));
    block_on(store.change(next.version - 1, next, None)).expect("creates");
    timed
}

fn row(table: &TableDef, p: &str, hour: i64) -> Mutation {
    Mutation::Row(RowWrite {
        relation: table.rows,
        key: vec![Value::Text(p.into()), Value::BigInt(hour), Value::Timestamp(START + hour * HOUR)],
        marker: true,
        cells: vec![(table.columns[2].id, CellWrite::Value(Value::BigInt(hour * 10)))],
        stamp: Stamp::Server(0),
        ttl: LIFE,
    })
}

/// A slice an hour of two series, flushed, and what the store has after its workers have had their turn.
fn sliced(quiet: Duration) -> (Arc<EmbeddedStore>, TableDef, usize) {
    let options = StoreOptions { threads: false, background: true, quiet, ..options() };
    let store = EmbeddedStore::open_files(Arc::new(MemoryFiles::new()), options).expect("opens");
    let table = timed(&store);
    for hour in 0..HOURS {
        write(&store, vec![row(&table, "a", hour), row(&table, "b", hour)]);
        block_on(store.flush()).expect("flushes");
    }
    (0..3).for_each(|_| {
        store.core.ask_for_merge();
        store.tick().expect("merges");
    });
    let segments = store.stats().relations.iter().map(|relation| relation.segments).sum();
    (store, table, segments)
}

fn rows() -> Vec<(String, i64, Option<i64>)> {
    let of = |p: &'static str| (0..HOURS).map(move |hour| (p.to_string(), hour, Some(hour * 10)));
    of("a").chain(of("b")).collect()
}

#[test]
fn slices_that_are_closed_and_quiet_become_windows_and_nothing_else_changes() {
    let (store, table, segments) = sliced(Duration::ZERO);
    // 15 windows of four or five hours, and the open one as it came.
    assert!((14..=21).contains(&segments), "{segments} segments");
    assert_eq!(read(&store, &table), rows());
    let merged = store.core.compactions.load(Ordering::Relaxed);
    store.core.ask_for_merge();
    store.tick().expect("rests");
    assert_eq!(store.core.compactions.load(Ordering::Relaxed), merged, "windows are merged once");
}

#[test]
fn what_is_older_than_the_retention_is_not_read_and_its_segments_go() {
    let clock = Arc::new(ManualClock::new(START));
    let options = StoreOptions { threads: false, background: true, clock: clock.clone(), ..options() };
    let store = EmbeddedStore::open_files(Arc::new(MemoryFiles::new()), options).expect("opens");
    let table = timed(&store);
    let set = |age: i64| {
        let mut next = (*store.catalog()).clone();
        let mut changed = TableDef::clone(&next.tables[&table.id]);
        changed.retention = match changed.retention.is_shorter_than(Some(age)) {
            true => changed.retention.lengthened(Some(age), clock.now(), 0),
            false => Retention { age: Some(age), ..changed.retention },
        };
        changed.version += 1;
        next.version += 1;
        next.tables.insert(table.id, Arc::new(changed));
        block_on(store.change(next.version - 1, next, None)).expect("changes");
    };
    set(24 * HOUR);
    for hour in 0..48 {
        clock.set(START + hour * HOUR);
        let forever = |p| match row(&table, p, hour) {
            Mutation::Row(write) => Mutation::Row(RowWrite { ttl: 0, ..write }),
            other => other,
        };
        write(&store, vec![forever("a"), forever("b")]);
        block_on(store.flush()).expect("flushes");
    }
    let segments = || store.stats().relations.iter().map(|relation| relation.segments).sum::<usize>();
    let hours = || read(&store, &table).iter().map(|row| row.1).collect::<std::collections::BTreeSet<i64>>();
    assert_eq!(hours(), (24..48).collect(), "a day, whatever is still on disk");
    set(12 * HOUR);
    assert_eq!(hours(), (36..48).collect(), "a shorter one holds for all rows");
    set(20 * HOUR);
    assert_eq!(hours(), (36..48).collect(), "what was gone stays gone");
    clock.set(START + 52 * HOUR);
    assert_eq!(hours(), (36..48).collect(), "what was not lives longer");
    let before = segments();
    store.core.ask_for_merge();
    store.tick().expect("drops");
    assert!(before == 48 && segments() <= 12, "{before} segments, then {}", segments());
    assert_eq!(hours(), (36..48).collect());
    clock.set(START + 100 * HOUR);
    store.core.ask_for_merge();
    store.tick().expect("drops");
    assert_eq!((segments(), hours().len()), (0, 0));
}

#[test]
fn a_segment_that_was_written_to_for_long_is_freed_of_what_is_too_old() {
    let clock = Arc::new(ManualClock::new(START));
    let options = StoreOptions { threads: false, clock: clock.clone(), ..options() };
    let store = EmbeddedStore::open_files(Arc::new(MemoryFiles::new()), options).expect("opens");
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    let mut kept = table(&mut next, "t");
    kept.retention = Retention { age: Some(40 * HOUR), ended: None };
    next.tables.insert(kept.id, Arc::new(kept.clone()));
    block_on(store.change(next.version - 1, next, None)).expect("creates");
    for hour in 0..32 {
        clock.set(START + hour * HOUR);
        write(&store, vec![plain_row(&kept, "p", hour, hour)]);
    }
    let stored = || store.stats().relations.iter().map(|relation| relation.segment_rows).sum::<u64>();
    block_on(store.flush()).expect("flushes");
    block_on(store.compact()).expect("merges");
    assert_eq!(stored(), 32);
    clock.set(START + 44 * HOUR);
    block_on(store.compact()).expect("merges");
    assert_eq!((stored(), read(&store, &kept).len()), (32, 27), "five are not worth it");
    clock.set(START + 56 * HOUR);
    block_on(store.compact()).expect("merges");
    assert_eq!((stored(), read(&store, &kept).len()), (15, 15));
}

#[test]
fn slices_that_have_just_come_stay_until_all_is_to_be_merged() {
    let (store, table, segments) = sliced(Duration::from_secs(3600));
    assert_eq!(segments, HOURS as usize);
    block_on(store.compact()).expect("merges");
    let segments: usize = store.stats().relations.iter().map(|relation| relation.segments).sum();
    assert!(segments <= 21, "{segments} segments");
    assert_eq!(read(&store, &table), rows());
}
