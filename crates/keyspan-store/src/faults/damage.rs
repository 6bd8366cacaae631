//! Damage: thousands of random bits of every kind of file are flipped, one at a time. Opening and reading give the
//! same answer as before, or an error that names the file; never other rows, a panic or a hang.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, Span, Value};

use super::workload::{Contents, Op, Step, carry_out, contents, named as table_named, open, rows, script};
use crate::check::check_files;
use crate::files::Files;
use crate::files::simulated::{Crash, SimulatedDisk};
use crate::random::Random;
use keyspan_seam::{ReadAt, Store};

/// A disk with segments, a log that holds more, checkpoints and perhaps a manifest log; and what is on it.
pub fn written(disk: SimulatedDisk) -> (SimulatedDisk, Contents) {
    let store = open(&disk).expect("opens");
    script().iter().for_each(|step| carry_out(&store, step).expect("works"));
    for at in 0..6 {
        let ops = vec![Op::Put("t", "log", at, at), Op::Bulk("u", "log", at, at + 1030, at), Op::Delete("t", "log", 2)];
        carry_out(&store, &Step::Write(ops)).expect("writes");
    }
    carry_out(&store, &Step::Flush).expect("flushes");
    for at in 0..6 {
        carry_out(&store, &Step::Write(vec![Op::Put("u", "tail", at, at * 77), Op::Put("t", "log", 1, at)]))
            .expect("writes");
    }
    let held = contents(&store).expect("reads");
    // As a kill leaves it: a closed store would know how far its log must reach.
    (disk.after(Crash::Kill), held)
}

#[derive(Debug, Default)]
pub struct Tally {
    tried: u64,
    same: u64,
    refused: u64,
}

fn flip(disk: &SimulatedDisk, path: &str, random: &mut Random) -> String {
    let mut what = String::new();
    disk.damage(path, |bytes| {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // Sometimes in what is reserved and not written.
        let end = if random.below(20) == 0 { bytes.len() } else { used };
        let (at, bit) = (random.below(end as u64) as usize, random.below(8));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
            what = format!("bit {bit} of byte {at} of {} in {path}", bytes.len());
        }
    });
    what
}

fn named(error: &Error, path: &str, what: &str) {
    let fits = matches!(error.kind, ErrorKind::Corrupted | ErrorKind::FormatVersion);
    let directory = path.split('/').next().unwrap_or(path);
    assert!(fits && error.message.contains(directory), "{what}: {error:?}");
}

pub fn damage(
    disk: &SimulatedDisk,
    held: &Contents,
    paths: &[String],
    seed: u64,
    flips: u64,
) -> BTreeMap<String, Tally> {
    let mut random = Random::new(seed);
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for _ in 0..flips {
        let path = &paths[random.below(paths.len() as u64) as usize];
        let damaged = disk.after(Crash::Kill);
        let what = format!("seed {seed}: {}", flip(&damaged, path, &mut random));
        let tally = tallies.entry(path.split('/').next().unwrap_or(path).to_string()).or_default();
        tally.tried += 1;
        let answer = open(&damaged).and_then(|store| contents(&store));
        match answer {
            Ok(found) => {
                assert!(found == *held, "{what}: a wrong answer");
                tally.same += 1;
            }
            Err(error) => {
                named(&error, path, &what);
                tally.refused += 1;
            }
        }
    }
    tallies
}

#[test]
fn flipped_bits_give_the_same_answer_or_an_error_naming_the_file() {
    let (disk, held) = written(SimulatedDisk::new());
    let paths: Vec<String> = disk.paths().into_iter().filter(|path| path != "RESERVE").collect();
    let tallies = damage(&disk, &held, &paths, 1, 1500);
    println!("{tallies:?}");
    assert!(tallies["seg"].refused > 0 && tallies["log"].refused > 0 && tallies["manifest"].refused > 0);
}

#[test]
fn flipped_bits_in_the_manifest_log_cost_nothing() {
    let (disk, held) = written(SimulatedDisk::with_manifest_log());
    let paths = ["edits/db".to_string(), "edits/conf".to_string()];
    let tallies = damage(&disk, &held, &paths, 2, 60);
    println!("{tallies:?}");
    assert_eq!(tallies["edits"].same, tallies["edits"].tried);
}

#[test]
fn every_flipped_bit_in_a_segment_is_found_by_a_check() {
    let (disk, _) = written(SimulatedDisk::new());
    let paths: Vec<String> = disk.paths().into_iter().filter(|path| path.starts_with("seg/")).collect();
    let mut random = Random::new(3);
    for _ in 0..150 {
        let path = &paths[random.below(paths.len() as u64) as usize];
        let damaged = disk.after(Crash::Kill);
        let what = flip(&damaged, path, &mut random);
        let report = check_files(&(Arc::new(damaged) as Arc<dyn Files>)).expect("checks");
        assert!(report.problems.iter().any(|error| error.message.contains(path)), "{what}: {report:?}");
    }
}

#[test]
fn a_damaged_segment_costs_its_spans_and_not_the_table() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).expect("opens");
    carry_out(&store, &Step::Create("t")).expect("creates");
    for p in ["a", "b", "c"] {
        carry_out(&store, &Step::Write(vec![Op::Bulk("t", p, 0, 1500, 1)])).expect("writes");
        carry_out(&store, &Step::Flush).expect("flushes");
    }
    drop(store);
    for (id, file) in [(2, "parquet"), (2, "index")] {
        let damaged = disk.after(Crash::Kill);
        let path = format!("seg/{id}.{file}");
        damaged.damage(&path, |bytes| bytes[60] ^= 1);
        let store = open(&damaged).expect("opens");
        let snapshot = store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
        let table = table_named(&store, "t");
        let read = |p: &str| rows(snapshot.as_ref(), &table, Span::prefix(vec![Value::Text(p.into())]));
        assert_eq!((read("a").expect("sound").len(), read("c").expect("sound").len()), (1500, 1500));
        named(&read("b").expect_err("damaged"), &path, &path);
        // A merge that meets it fails, and leaves everything as it was; writing goes on.
        if let Err(error) = carry_out(&store, &Step::Compact) {
            assert!(error.message.contains(&path), "{error}");
        }
        carry_out(&store, &Step::Write(vec![Op::Put("t", "d", 1, 1)])).expect("writes");
        carry_out(&store, &Step::Flush).expect("flushes");
        drop((snapshot, store));
        let store = open(&damaged).expect("opens");
        let snapshot = store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
        let all = |p: &str| rows(snapshot.as_ref(), &table, Span::prefix(vec![Value::Text(p.into())]));
        assert_eq!((all("a").expect("sound").len(), all("d").expect("sound").len()), (1500, 1));
    }
}
