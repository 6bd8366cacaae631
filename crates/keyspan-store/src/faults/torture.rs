//! The same faults for as long as one likes, from seeds that were never tried: `cargo xtask torture --minutes N`.

use std::time::{Duration, Instant};

use super::crashes::{Plan, crash_everywhere};
use super::damage::{damage, written};
use super::errors::with_random_faults;
use super::simulation::simulate;
use super::workload::random_steps;
use crate::files::simulated::SimulatedDisk;

/// A number of the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
#[ignore = "runs for as long as KEYSPAN_TORTURE_MINUTES says"]
fn torture() {
    let time = Duration::from_secs(60 * setting("KEYSPAN_TORTURE_MINUTES", 1));
    let first = setting("KEYSPAN_TORTURE_SEED", 1_000);
    let begun = Instant::now();
    let (mut runs, mut crashes, mut faults, mut flips) = (0, 0, 0, 0);
    for seed in first.. {
        if begun.elapsed() >= time {
            break;
        }
        // Said before it is tried, so that the seed is known whatever happens.
        println!("seed {seed}");
        for at in 0..20 {
            simulate(seed * 100 + at, 250);
            runs += 1;
        }
        let plan = Plan { seed, every: 7, torn: 3, reopening: if seed % 4 == 0 { 5 } else { 0 } };
        crashes += crash_everywhere(&SimulatedDisk::new(), random_steps(seed, 60), plan);
        faults += with_random_faults(seed, 40);
        let (disk, held) = written(SimulatedDisk::new());
        let paths: Vec<String> = disk.paths().into_iter().filter(|path| path != "RESERVE").collect();
        damage(&disk, &held, &paths, seed, 200);
        flips += 200;
    }
    println!("{runs} simulations, {crashes} crashes, {faults} faults, {flips} flipped bits in {:?}", begun.elapsed());
}
