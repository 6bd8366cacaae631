//! Errors: every operation on the disk fails in turn, once or from there on. The statement gets the error, later ones
//! work or get one clear state, and reopening has all that was acknowledged, also when power is lost right after.

use keyspan_model::{Error, ErrorKind};
use parking_lot::Mutex;

use super::workload::{Contents, Progress, Step, carry_out, contents, open, random_steps, script, states, verify};
use crate::files::simulated::{Crash, Failure, Fault, SimulatedDisk};
use crate::random::Random;

/// What a run with a fault has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Statements that got an error.
    refused: usize,
    poisoned: bool,
}

/// Runs the script with a fault, and verifies what is left; the number of operations if the fault was never met.
fn with_fault(disk: SimulatedDisk, steps: &[Step], states: &[Contents], fault: Fault) -> Outcome {
    let context = format!("{fault:?}");
    let mut outcome = Outcome::default();
    let progress = Mutex::new(Progress::default());
    disk.fail(fault);
    let store = open(&disk).or_else(|error| {
        outcome.refused += 1;
        expected(&error, &context);
        disk.heal();
        open(&disk)
    });
    let store = store.unwrap_or_else(|error| panic!("{context}: does not open any more: {error}"));
    for (at, step) in steps.iter().enumerate() {
        progress.lock().begun = at + 1;
        if let Err(error) = carry_out(&store, step) {
            expected(&error, &context);
            outcome.refused += 1;
            if error.kind == ErrorKind::LogPoisoned {
                outcome.poisoned = true;
                break;
            }
            // Only a broken log is for good; whatever else failed may be asked for again.
            disk.heal();
            carry_out(&store, step).unwrap_or_else(|error| panic!("{context}: {step:?} fails again: {error}"));
        }
        if !matches!(step, Step::Relaxed(_) | Step::Compact | Step::Tick) {
            progress.lock().durable = at + 1;
        }
    }
    let progress = *progress.lock();
    let found = contents(&store).unwrap_or_else(|error| panic!("{context}: reading fails: {error}"));
    assert!(states[progress.durable..=progress.begun].contains(&found), "{context}: what is read is wrong");
    if outcome.poisoned {
        let next = carry_out(&store, &Step::Create("more")).expect_err("a poisoned log takes nothing");
        assert_eq!(next.kind, ErrorKind::LogPoisoned, "{context}: {next}");
    }
    for crash in [Crash::Nothing, Crash::Kill, Crash::Some(fault.at)] {
        verify(&disk.after(crash), progress, states, &format!("{context}, then {crash:?}"));
    }
    // An error in closing costs nothing either.
    let _ = store.close();
    drop(store);
    disk.heal();
    verify(&disk, progress, states, &format!("{context}, closed"));
    outcome
}

fn expected(error: &Error, context: &str) {
    let fits = matches!(error.kind, ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::LogPoisoned);
    assert!(fits, "{context}: an unexpected error: {error:?}");
}

/// Operations that the script makes without any fault.
fn operations(disk: SimulatedDisk, steps: &[Step]) -> u64 {
    let store = open(&disk).expect("opens");
    steps.iter().for_each(|step| carry_out(&store, step).expect("works"));
    store.close().expect("closes");
    disk.operations()
}

/// Every operation, or one in so many, fails.
fn each_fails(new: fn() -> SimulatedDisk, failure: Failure, count: u64, every: u64) {
    let steps = script();
    let states = states(&steps);
    let last = operations(new(), &steps);
    let (mut refused, mut poisoned, mut tried) = (0, 0, 0);
    for at in (1..=last).filter(|at| at % every == count.min(every) % every) {
        let outcome = with_fault(new(), &steps, &states, Fault { at, count, failure });
        refused += usize::from(outcome.refused > 0);
        poisoned += usize::from(outcome.poisoned);
        tried += 1;
    }
    println!("{failure:?} x {count}: {tried} of {last} operations failed, {refused} seen, {poisoned} poisoned");
    assert!(refused > 0 && poisoned > 0);
}

/// Random workloads with a fault somewhere; answers how many.
pub fn with_random_faults(seed: u64, count: u64) -> u64 {
    let mut random = Random::new(seed);
    let steps = random_steps(seed, 40);
    let states = states(&steps);
    let last = operations(SimulatedDisk::new(), &steps);
    for _ in 0..count {
        let failure = [Failure::Io, Failure::Full, Failure::Short][random.below(3) as usize];
        let times = if random.below(3) == 0 { u64::MAX } else { 1 + random.below(3) };
        with_fault(SimulatedDisk::new(), &steps, &states, Fault { at: 1 + random.below(last), count: times, failure });
    }
    count
}

#[test]
fn random_workloads_survive_a_fault_anywhere() {
    assert_eq!(with_random_faults(21, 30), 30);
}

#[test]
fn any_operation_may_fail_once() {
    each_fails(SimulatedDisk::new, Failure::Io, 1, 2);
}

#[test]
fn any_write_may_be_cut_short_and_the_disk_may_be_full_once() {
    each_fails(SimulatedDisk::new, Failure::Short, 1, 5);
    each_fails(SimulatedDisk::new, Failure::Full, 1, 5);
}

#[test]
fn the_disk_may_fail_for_good() {
    each_fails(SimulatedDisk::new, Failure::Io, u64::MAX, 9);
    each_fails(SimulatedDisk::new, Failure::Full, u64::MAX, 9);
}

#[test]
fn any_operation_may_fail_with_a_manifest_log() {
    each_fails(SimulatedDisk::with_manifest_log, Failure::Io, 1, 11);
}

#[test]
fn reads_that_fail_are_errors_naming_the_file_and_pass() {
    let disk = SimulatedDisk::new();
    let steps = script();
    let store = open(&disk).expect("opens");
    steps[..13].iter().for_each(|step| carry_out(&store, step).expect("works"));
    drop(store);
    let states = states(&steps);
    // The newest checkpoint alone, too: one that cannot be read now is not damaged, and the one before says less.
    let newest = disk.paths().into_iter().rfind(|path| path.starts_with("manifest/")).expect("a checkpoint");
    for path in ["manifest/", &newest, "log/", "KEYSPAN"] {
        disk.fail_reads(path);
        let error = open(&disk).expect_err("cannot be read");
        assert!(error.kind == ErrorKind::Io && error.message.contains(path), "{error}");
        disk.heal();
    }
    let store = open(&disk).expect("opens again");
    disk.fail_reads("seg/");
    let error = contents(&store).expect_err("cannot be read");
    assert!(error.kind == ErrorKind::Io && error.message.contains("seg/"), "{error}");
    carry_out(&store, &Step::Compact).expect_err("cannot be read");
    carry_out(&store, &steps[14]).expect("writing goes on");
    disk.heal();
    disk.fail_reads("manifest/");
    carry_out(&store, &Step::Flush).expect_err("a checkpoint cannot be read back");
    disk.heal();
    assert_eq!(contents(&store).expect("reads"), states[15]);
    carry_out(&store, &Step::Compact).expect("works again");
    assert_eq!(contents(&store).expect("reads"), states[15]);
    verify(&disk.after(Crash::Nothing), Progress { durable: 15, begun: 15 }, &states, "after failed reads");
}
