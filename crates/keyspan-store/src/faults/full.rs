//! A full disk: writes are refused with 53100, reading and freeing go on, and opening works.

use std::sync::Arc;

use keyspan_model::{ErrorKind, Result};

use super::workload::{Contents, Op, Step, carry_out, contents, options};
use crate::engine::{EmbeddedStore, StoreOptions};
use crate::files::simulated::SimulatedDisk;
use crate::random::Random;

const DISK: u64 = 10 << 20;
const MARK: u64 = 256 << 10;

fn open(disk: &SimulatedDisk) -> Result<Arc<EmbeddedStore>> {
    let options = StoreOptions { free_space_mark: MARK, ..options() };
    EmbeddedStore::open_files(Arc::new(disk.clone()), options)
}

/// Writes rows that do not compress until the disk is full; answers what is there then.
fn fill(store: &EmbeddedStore) -> Contents {
    let mut held = Contents::new();
    for step in [Step::Create("t"), Step::Create("u"), Step::Write(vec![Op::Put("u", "kept", 1, 1)])] {
        carry_out(store, &step).expect("there is room");
        step.apply(&mut held);
    }
    let mut random = Random::new(5);
    for at in 0..10_000 {
        let ops = (0..900).map(|row| Op::Put("t", "x", at * 900 + row, random.number() as i64));
        let step = Step::Write(ops.collect());
        if let Err(error) = carry_out(store, &step) {
            assert_eq!(error.kind, ErrorKind::DiskFull, "{error:?}");
            return held;
        }
        step.apply(&mut held);
    }
    panic!("the disk is never full");
}

fn refused(store: &EmbeddedStore) {
    let error = carry_out(store, &Step::Write(vec![Op::Put("t", "refused", 1, 1)])).expect_err("full");
    assert_eq!((error.kind, error.kind.sqlstate()), (ErrorKind::DiskFull, "53100"), "{error:?}");
}

/// Frees by dropping, and finds that everything works again.
fn free(store: &EmbeddedStore, mut held: Contents) {
    carry_out(store, &Step::Drop("t")).expect("freeing goes on");
    store.tick().expect("frees");
    held.remove("t");
    assert_eq!(contents(store).expect("reads"), held);
    carry_out(store, &Step::Write(vec![Op::Put("u", "kept", 1, 1)])).expect("there is room again");
    carry_out(store, &Step::Flush).expect("flushes");
    carry_out(store, &Step::Compact).expect("compacts");
    assert_eq!(contents(store).expect("reads"), held);
}

#[test]
fn a_full_disk_refuses_writes_and_lets_space_be_freed() {
    let disk = SimulatedDisk::new();
    disk.limit(Some(DISK));
    let store = open(&disk).expect("opens");
    let held = fill(&store);
    refused(&store);
    assert_eq!(contents(&store).expect("reads"), held);
    // Somebody else takes the rest.
    disk.limit(Some(disk.used()));
    refused(&store);
    assert_eq!(contents(&store).expect("reads"), held);
    free(&store, held);
}

/// So no flush shortens it: a disk that is full of it would stay so, as no write is taken either.
#[test]
fn the_log_of_a_dropped_table_goes_though_there_is_nothing_to_flush() {
    let disk = SimulatedDisk::new();
    let roomy = StoreOptions { log_limit: 1 << 20, memory_budget: 8 << 20, ..options() };
    let store = EmbeddedStore::open_files(Arc::new(disk.clone()), roomy).expect("opens");
    let mut held = Contents::new();
    let mut go = |step: Step| {
        carry_out(&store, &step).expect("works");
        step.apply(&mut held);
    };
    [Step::Create("t"), Step::Create("u"), Step::Write(vec![Op::Put("u", "kept", 1, 1)]), Step::Flush]
        .into_iter()
        .for_each(&mut go);
    (0..40).for_each(|at| go(Step::Write((0..100).map(|row| Op::Put("t", "x", at * 100 + row, row * 7919)).collect())));
    let log = || disk.paths().iter().filter(|path| path.starts_with("log/")).count();
    assert!(log() > 4, "{}", log());
    go(Step::Drop("t"));
    store.tick().expect("frees");
    assert!(log() <= 2, "{}", log());
    assert_eq!(contents(&store).expect("reads"), held);
    drop(store);
    assert_eq!(contents(&open(&disk).expect("opens")).expect("reads"), held);
}

#[test]
fn a_store_opens_on_a_disk_without_a_byte_left_and_frees() {
    let disk = SimulatedDisk::new();
    disk.limit(Some(DISK));
    let store = open(&disk).expect("opens");
    let held = fill(&store);
    disk.limit(Some(disk.used()));
    store.close().expect("closes");
    drop(store);
    let store = open(&disk).expect("opens");
    assert_eq!(contents(&store).expect("reads"), held);
    refused(&store);
    free(&store, held);
}

#[test]
fn a_store_without_a_reserve_opens_for_reading_on_a_full_disk() {
    let disk = SimulatedDisk::new();
    disk.limit(Some(DISK));
    let store = open(&disk).expect("opens");
    let held = fill(&store);
    drop(store);
    crate::files::Files::remove(&disk, "RESERVE").expect("removes");
    disk.limit(Some(disk.used()));
    let store = open(&disk).expect("opens");
    assert_eq!(contents(&store).expect("reads"), held);
    refused(&store);
    disk.limit(Some(DISK));
    free(&store, held);
}

#[test]
fn deletions_go_on_while_writes_are_refused_and_free_space() {
    let disk = SimulatedDisk::new();
    disk.limit(Some(DISK));
    let store = open(&disk).expect("opens");
    let mut held = fill(&store);
    refused(&store);
    for from in [600_000, 300_000, 9_000, 90] {
        let step =
            Step::Write(vec![Op::DeleteFrom("t", "x", from), Op::Delete("t", "x", from - 1), Op::Clear("t", "x", 1)]);
        carry_out(&store, &step).expect("deletions go on");
        step.apply(&mut held);
    }
    carry_out(&store, &Step::Compact).expect("frees");
    assert!(store.stats().segment_bytes < 10_000, "{:?}", store.stats());
    assert_eq!(contents(&store).expect("reads"), held);
    store.tick().expect("looks at the disk");
    carry_out(&store, &Step::Write(vec![Op::Put("u", "kept", 1, 1)])).expect("there is room again");
}

#[test]
fn many_rows_at_a_time_are_refused_at_once_when_the_disk_has_filled_up() {
    let disk = SimulatedDisk::new();
    disk.limit(Some(DISK));
    let store = open(&disk).expect("opens");
    for step in [Step::Create("t"), Step::Write(vec![Op::Put("t", "a", 1, 1)])] {
        carry_out(&store, &step).expect("there is room");
    }
    // Somebody else takes most of it, and nobody has looked since.
    disk.limit(Some(disk.used() + MARK / 2));
    let error = carry_out(&store, &Step::Write(vec![Op::Bulk("t", "b", 0, 2000, 1)])).expect_err("full");
    assert_eq!(error.kind, ErrorKind::DiskFull, "{error:?}");
    refused(&store);
    assert_eq!(contents(&store).expect("reads")["t"].len(), 1);
}

#[test]
fn the_last_quarter_of_the_mark_is_not_for_deletions_either() {
    let disk = SimulatedDisk::new();
    disk.limit(Some(DISK));
    let store = open(&disk).expect("opens");
    fill(&store);
    let used = disk.used();
    disk.limit(Some(used + MARK / 8));
    let error = carry_out(&store, &Step::Flush).expect_err("no segment grows");
    assert!(error.kind == ErrorKind::DiskFull && error.message.contains("segments"), "{error:?}");
    assert!(error.hint.is_some_and(|hint| hint.contains("DROP")));
    assert!(disk.used() <= used, "the log's room is taken");
    let error = carry_out(&store, &Step::Write(vec![Op::DeleteFrom("t", "x", 0)])).expect_err("full");
    assert_eq!(error.kind, ErrorKind::DiskFull, "{error:?}");
}
