//! Backups: what was acknowledged before is in them, whatever the store does meanwhile; one that is cut short by a
//! crash or an error leaves the one before; one that is damaged is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use keyspan_model::{ErrorKind, Result};

use super::workload::{Contents, Op, Step, carry_out, contents, open, options, random_steps, script};
use crate::backup::BackupReport;
use crate::check::check_files;
use crate::clock::{Clock, ManualClock};
use crate::engine::tests::{START, create, first_segment, read_from, row, write};
use crate::engine::{EmbeddedStore, StoreOptions};
use crate::files::simulated::{Crash, Failure, Fault, SimulatedDisk};
use crate::files::{Files, MemoryFiles};
use crate::random::Random;
use crate::restore::{RestoreReport, restore_files};
use keyspan_seam::{ReadAt, Store};

fn backup(store: &EmbeddedStore, target: &SimulatedDisk) -> Result<BackupReport> {
    store.backup_to(|| Ok(Arc::new(target.clone())), &AtomicBool::new(false))
}

fn restored(target: &SimulatedDisk, until: Option<i64>) -> Result<(SimulatedDisk, RestoreReport)> {
    let disk = SimulatedDisk::new();
    let (from, to): (Arc<dyn Files>, Arc<dyn Files>) = (Arc::new(target.clone()), Arc::new(disk.clone()));
    restore_files(&from, &to, until).map(|report| (disk, report))
}

/// What a backup holds, as a store that takes writes again.
fn held_by(target: &SimulatedDisk) -> Result<Contents> {
    let (disk, report) = restored(target, None)?;
    assert!(report.check.is_sound());
    let store = open(&disk)?;
    let found = contents(&store)?;
    carry_out(&store, &Step::Create("probe"))?;
    carry_out(&store, &Step::Compact)?;
    Ok(found)
}

fn sound(target: &SimulatedDisk) {
    let report = check_files(&(Arc::new(target.clone()) as Arc<dyn Files>)).expect("checks");
    assert!(report.is_sound() && report.left_over.is_empty(), "{report:?}");
}

#[test]
fn a_backup_after_any_step_holds_what_was_acknowledged() {
    for steps in [script(), random_steps(40, 60)] {
        let (disk, target) = (SimulatedDisk::new(), SimulatedDisk::new());
        let store = open(&disk).expect("opens");
        let mut held = Contents::new();
        for step in steps {
            carry_out(&store, &step).expect("works");
            step.apply(&mut held);
            backup(&store, &target).expect("is backed up");
            sound(&target);
            assert_eq!(held_by(&target).expect("is restored"), held, "after {step:?}");
        }
    }
}

#[test]
fn a_second_backup_copies_only_what_is_new() {
    let (disk, target) = (SimulatedDisk::new(), SimulatedDisk::new());
    let store = open(&disk).expect("opens");
    for step in [Step::Create("t"), Step::Write(vec![Op::Bulk("t", "a", 0, 5000, 1)]), Step::Flush] {
        carry_out(&store, &step).expect("works");
    }
    let first = backup(&store, &target).expect("is backed up");
    assert_eq!((first.segments, first.new_segments, first.bytes), (1, 1, first.new_bytes));
    for step in [Step::Write(vec![Op::Put("t", "a", 7, 2)]), Step::Flush] {
        carry_out(&store, &step).expect("works");
    }
    let second = backup(&store, &target).expect("is backed up");
    assert_eq!((second.segments, second.new_segments), (2, 1));
    assert!(second.new_bytes < second.bytes / 2, "{second:?}");
    let third = backup(&store, &target).expect("is backed up");
    assert_eq!((third.new_segments, third.new_bytes < second.new_bytes), (0, true), "nothing but the log");
    carry_out(&store, &Step::Compact).expect("works");
    let merged = backup(&store, &target).expect("is backed up");
    assert_eq!((merged.segments, merged.new_segments), (1, 1));
    let files = target.paths().into_iter().filter(|path| path.starts_with("seg/")).count();
    assert_eq!(files, 2, "of those that were merged nothing is left");
}

/// A store with a backup that lacks its last steps; the backup, what it holds, and what the store holds.
fn begun() -> (Arc<EmbeddedStore>, SimulatedDisk, Contents, Contents) {
    let (disk, target) = (SimulatedDisk::new(), SimulatedDisk::new());
    let store = open(&disk).expect("opens");
    let mut held = Contents::new();
    let mut go = |steps: &[Step]| {
        for step in steps {
            carry_out(&store, step).expect("works");
            step.apply(&mut held);
        }
        held.clone()
    };
    let steps = script();
    let before = go(&steps[..12]);
    backup(&store, &target).expect("is backed up");
    let after = go(&steps[12..]);
    (store, target, before, after)
}

#[test]
fn power_may_be_lost_while_a_backup_is_written() {
    for first in [true, false] {
        let (store, target, before, after) = begun();
        let target = if first { SimulatedDisk::new() } else { target };
        let images = Arc::new(AtomicU64::new(0));
        let (watched, count, all) = (target.clone(), images.clone(), after.clone());
        target.watch(Some(Arc::new(move |number, what| {
            for crash in [Crash::Kill, Crash::Nothing, Crash::Some(number), Crash::Some(number ^ 77)] {
                count.fetch_add(1, Ordering::Relaxed);
                let left = watched.after(crash);
                match held_by(&left) {
                    Ok(found) => assert!(found == all || !first && found == before, "{crash:?} before {what}"),
                    Err(error) => assert!(first && error.kind == ErrorKind::UndefinedObject, "{what}: {error:?}"),
                }
            }
        })));
        backup(&store, &target).expect("is backed up");
        target.watch(None);
        assert_eq!(held_by(&target).expect("is restored"), after);
        assert!(images.load(Ordering::Relaxed) > 60);
    }
}

#[test]
fn a_backup_that_fails_leaves_the_one_before_and_the_next_works() {
    for failure in [Failure::Io, Failure::Full, Failure::Short] {
        for at in 1..200 {
            let (store, target, before, after) = begun();
            target.fail(Fault { at: target.operations() + at, count: 1, failure });
            let failed = backup(&store, &target);
            target.heal();
            let found = held_by(&target).expect("a backup is there");
            assert!(found == after || failed.is_err() && found == before, "operation {at}");
            backup(&store, &target).expect("is backed up");
            assert_eq!(held_by(&target).expect("is restored"), after);
            sound(&target);
            if failed.is_ok() {
                assert!(at > 20, "it has few operations");
                break;
            }
        }
    }
}

#[test]
fn a_damaged_segment_gets_into_no_backup() {
    let (store, target, before, _) = begun();
    let (files, path) = first_segment(&store);
    // By its name it is another file from now on, as a disk that rots makes it.
    let mut bytes = files.read(&path).expect("reads").to_vec();
    bytes[100] ^= 1;
    files.remove(&path).expect("removes");
    files.create(&path).expect("creates").write_all(&bytes).expect("writes");
    let error = backup(&store, &target).expect_err("damaged");
    assert!(error.kind == ErrorKind::Corrupted && error.message.contains(&path), "{error:?}");
    assert_eq!(held_by(&target).expect("is restored"), before);
}

#[test]
fn a_damaged_backup_is_refused_or_restored_as_it_was() {
    let (store, target, _, after) = begun();
    backup(&store, &target).expect("is backed up");
    let paths: Vec<String> = target.paths().into_iter().filter(|path| path != "BACKUP.LOCK").collect();
    let mut random = Random::new(8);
    let mut refused = 0;
    for _ in 0..300 {
        let damaged = target.after(Crash::Kill);
        let path = &paths[random.below(paths.len() as u64) as usize];
        damaged.damage(path, |bytes| {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        });
        let disk = SimulatedDisk::new();
        let (from, to): (Arc<dyn Files>, Arc<dyn Files>) = (Arc::new(damaged.clone()), Arc::new(disk.clone()));
        match restore_files(&from, &to, None) {
            Ok(_) => assert_eq!(contents(&open(&disk).expect("opens")).expect("reads"), after, "{path}"),
            Err(error) => {
                refused += 1;
                assert!(matches!(error.kind, ErrorKind::Corrupted | ErrorKind::FormatVersion), "{path}: {error:?}");
                assert!(disk.paths().is_empty(), "nothing is left: {:?}", disk.paths());
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn a_restore_that_is_cut_short_cannot_be_opened_and_can_be_done_again() {
    let (store, target, _, after) = begun();
    backup(&store, &target).expect("is backed up");
    let from: Arc<dyn Files> = Arc::new(target.clone());
    let disk = SimulatedDisk::new();
    let watched = disk.clone();
    let (again, all) = (from.clone(), after.clone());
    disk.watch(Some(Arc::new(move |number, what| {
        for crash in [Crash::Kill, Crash::Nothing, Crash::Some(number)] {
            let left = watched.after(crash);
            if left.len("KEYSPAN").expect("looks").is_none() {
                if left.paths().iter().any(|path| path.starts_with("seg/")) {
                    open(&left).map(drop).expect_err("half a store");
                }
                let to: Arc<dyn Files> = Arc::new(left.clone());
                restore_files(&again, &to, None).unwrap_or_else(|error| panic!("{crash:?} before {what}: {error:?}"));
            }
            let store = open(&left).expect("opens");
            assert_eq!(contents(&store).expect("reads"), all, "{crash:?} before {what}");
        }
    })));
    let to: Arc<dyn Files> = Arc::new(disk.clone());
    restore_files(&from, &to, None).expect("is restored");
    disk.watch(None);
    assert_eq!(restore_files(&from, &to, None).expect_err("not empty").kind, ErrorKind::ObjectNotReady);
}

#[test]
fn a_backup_is_restored_as_of_any_moment_in_its_log() {
    let clock = Arc::new(ManualClock::new(START));
    let (disk, target) = (SimulatedDisk::new(), SimulatedDisk::new());
    let options = StoreOptions { clock: clock.clone(), ..options() };
    let store = EmbeddedStore::open_files(Arc::new(disk), options).expect("opens");
    let mut held = Contents::new();
    let mut moments = Vec::new();
    let mut go = |step: Step| {
        carry_out(&store, &step).expect("works");
        step.apply(&mut held);
        moments.push((clock.now(), held.clone()));
        clock.advance(1_000_000);
    };
    go(Step::Create("t"));
    go(Step::Write(vec![Op::Bulk("t", "a", 0, 2000, 1)]));
    go(Step::Flush);
    for at in 0..40 {
        go(Step::Write(vec![Op::Put("t", "b", at, at), Op::Bulk("t", "c", at, at + 30, at), Op::Delete("t", "a", at)]));
    }
    go(Step::Create("u"));
    go(Step::Load(Op::Bulk("u", "x", 0, 1100, 5)));
    go(Step::Write(vec![Op::Put("u", "y", 1, 1)]));
    backup(&store, &target).expect("is backed up");
    for (moment, held) in &moments[3..] {
        // Half a second after a step, and half a second before the next.
        let (disk, _) = restored(&target, Some(moment + 500_000)).expect("is restored");
        let restored = open(&disk).expect("opens");
        assert_eq!(contents(&restored).expect("reads"), *held);
        carry_out(&restored, &Step::Write(vec![Op::Put("t", "new", 1, 1)])).expect("takes writes");
        drop(restored);
        let again = open(&disk).expect("opens");
        assert_eq!(contents(&again).expect("reads")["t"].len(), held["t"].len() + 1);
    }
    for outside in [START - 1, START + 500_000, clock.now() + 1] {
        let error = restored(&target, Some(outside)).expect_err("not in the log");
        assert_eq!(error.kind, ErrorKind::InvalidParameter);
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("2023-11-14 22:13:2")), "{error:?}");
    }
}

#[test]
fn a_directory_with_anything_else_is_refused() {
    let (store, target, ..) = begun();
    let other = open(&SimulatedDisk::new()).expect("opens");
    let error = backup(&other, &target).expect_err("of another store");
    assert!(error.kind == ErrorKind::ObjectNotReady && error.message.contains("another database"), "{error:?}");
    let data = SimulatedDisk::new();
    drop(open(&data).expect("opens"));
    assert_eq!(backup(&store, &data).expect_err("a data directory").kind, ErrorKind::ObjectNotReady);
    assert_eq!(open(&target).map(drop).expect_err("no data directory").kind, ErrorKind::ObjectNotReady);
    let held = target.lock("BACKUP.LOCK").expect("free");
    assert_eq!(backup(&store, &target).expect_err("under way").kind, ErrorKind::ObjectInUse);
    drop(held);
    let stopped = store.backup_to(|| Ok(Arc::new(target.clone())), &AtomicBool::new(true));
    assert_eq!(stopped.expect_err("stopped").kind, ErrorKind::Canceled);
    backup(&store, &target).expect("is backed up");
    store.close().expect("closes");
    assert_eq!(backup(&store, &target).expect_err("closed").kind, ErrorKind::Shutdown);
}

/// Tells a writer to end, also when the test has failed.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rows 0, 1, 2, … are written one by one: a backup holds a beginning of them, with all that were acknowledged before.
#[test]
fn backups_are_taken_while_writers_flushes_and_merges_go_on() {
    let files = MemoryFiles::new();
    let options = || StoreOptions {
        memory_budget: 128 << 10,
        log_file: 16 << 10,
        log_limit: 64 << 10,
        clock: Arc::new(ManualClock::new(START)),
        ..StoreOptions::default()
    };
    let store = EmbeddedStore::open_files(Arc::new(files), options()).expect("opens");
    let table = create(&store, "t");
    let (acknowledged, done) = (AtomicI64::new(0), AtomicBool::new(false));
    let target = MemoryFiles::new();
    std::thread::scope(|scope| {
        let _ending = Ending(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let next = acknowledged.load(Ordering::SeqCst);
                write(&store, vec![row(&table, "a", next, next)]);
                acknowledged.store(next + 1, Ordering::SeqCst);
            }
        });
        let mut segments = BTreeSet::new();
        for _ in 0..25 {
            let before = acknowledged.load(Ordering::SeqCst);
            let taken = store.backup_to(|| Ok(Arc::new(target.clone())), &AtomicBool::new(false));
            segments.insert(taken.expect("is backed up").segments);
            let data: Arc<dyn Files> = Arc::new(MemoryFiles::new());
            restore_files(&(Arc::new(target.clone()) as Arc<dyn Files>), &data, None).expect("is restored");
            let restored = EmbeddedStore::open_files(data, options()).expect("opens");
            let rows = read_from(&restored.snapshot(ReadAt::Acknowledged).expect("a snapshot"), &table);
            assert!(rows.iter().enumerate().all(|(at, row)| row.1 == at as i64), "a row is missing");
            assert!(rows.len() as i64 >= before, "{} rows, {before} acknowledged", rows.len());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(segments.len() > 1, "{segments:?}");
    });
}
