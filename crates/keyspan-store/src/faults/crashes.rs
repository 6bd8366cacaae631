//! Crashes: power is lost or the process is killed before every single operation on the disk, and again while the
//! store is opened afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::workload::{Contents, Progress, Step, open, random_steps, run, script, states, verify};
use crate::files::simulated::{Crash, SimulatedDisk};

/// Which operations are followed by crashes, and which operations of opening after those.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// One operation in so many.
    pub every: u64,
    /// Torn images of each.
    pub torn: u64,
    /// While opening after a crash: one operation in so many; 0 for none.
    pub reopening: u64,
}

/// Runs steps, and verifies every crash of the plan; answers how many there were.
pub fn crash_everywhere(disk: &SimulatedDisk, steps: Vec<Step>, plan: Plan) -> u64 {
    let states = Arc::new(states(&steps));
    let progress = Arc::new(Mutex::new(Progress::default()));
    let images = Arc::new(AtomicU64::new(0));
    let (watched, seen, count) = (disk.clone(), progress.clone(), images.clone());
    let all = states.clone();
    disk.watch(Some(Arc::new(move |number, what| {
        if number % plan.every == plan.seed % plan.every {
            let progress = *seen.lock();
            each_crash(&watched, number, what, plan, |disk, context| {
                count.fetch_add(1, Ordering::Relaxed);
                count.fetch_add(reopened(disk, progress, &all, context, plan), Ordering::Relaxed);
            });
        }
    })));
    let store = open(disk).expect("opens");
    run(&store, &steps, &progress).expect("runs");
    drop(store);
    disk.watch(None);
    verify(&disk.after(Crash::Kill), Progress { durable: steps.len(), begun: steps.len() }, &states, "closed");
    images.load(Ordering::Relaxed)
}

fn each_crash(disk: &SimulatedDisk, number: u64, what: &str, plan: Plan, mut verify: impl FnMut(SimulatedDisk, &str)) {
    let torn = (0..plan.torn).map(|at| Crash::Some(plan.seed ^ (number << 8) ^ at));
    for crash in [Crash::Kill, Crash::Nothing].into_iter().chain(torn) {
        let context = format!("seed {}, {crash:?} before operation {number} ({what})", plan.seed);
        verify(disk.after(crash), &context);
    }
}

/// Opens what a crash has left, with crashes in that as well; answers how many.
fn reopened(disk: SimulatedDisk, progress: Progress, states: &Arc<Vec<Contents>>, context: &str, plan: Plan) -> u64 {
    if plan.reopening == 0 {
        verify(&disk, progress, states, context);
        return 0;
    }
    let images = Arc::new(AtomicU64::new(0));
    let opening = disk.after(Crash::Kill);
    let (watched, count, all, outer) = (opening.clone(), images.clone(), states.clone(), context.to_string());
    opening.watch(Some(Arc::new(move |number, what| {
        if number % plan.reopening == plan.seed % plan.reopening {
            each_crash(&watched, number, what, Plan { torn: 1, ..plan }, |disk, context| {
                count.fetch_add(1, Ordering::Relaxed);
                verify(&disk, progress, &all, &format!("{outer}; while opening: {context}"));
            });
        }
    })));
    drop(open(&opening).unwrap_or_else(|error| panic!("{context}: does not open: {error}")));
    opening.watch(None);
    verify(&disk, progress, states, context);
    images.load(Ordering::Relaxed)
}

#[test]
fn power_may_be_lost_before_any_operation() {
    let plan = Plan { seed: 1, every: 1, torn: 2, reopening: 0 };
    let images = crash_everywhere(&SimulatedDisk::new(), script(), plan);
    println!("{images} crashes");
    assert!(images > 600, "{images}");
}

#[test]
fn power_may_be_lost_again_while_the_store_is_opened() {
    let plan = Plan { seed: 2, every: 29, torn: 1, reopening: 6 };
    let images = crash_everywhere(&SimulatedDisk::new(), script(), plan);
    println!("{images} crashes");
    assert!(images > 100, "{images}");
}

#[test]
fn power_may_be_lost_with_a_manifest_log() {
    let plan = Plan { seed: 3, every: 5, torn: 2, reopening: 0 };
    let images = crash_everywhere(&SimulatedDisk::with_manifest_log(), script(), plan);
    println!("{images} crashes");
    assert!(images > 100, "{images}");
}

#[test]
fn random_workloads_survive_power_loss() {
    for seed in 10..12 {
        let plan = Plan { seed, every: 11, torn: 2, reopening: 0 };
        println!("seed {seed}: {} crashes", crash_everywhere(&SimulatedDisk::new(), random_steps(seed, 40), plan));
    }
}
