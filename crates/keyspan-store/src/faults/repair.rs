//! Repair: what is not damaged is there afterwards, what is lost is counted and named, and the directory verifies.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspan_model::{ErrorKind, Result};

use super::damage::written;
use super::workload::{Contents, Op, Step, carry_out, contents, open, options};
use crate::check::check_files;
use crate::files::Files;
use crate::files::simulated::{Crash, SimulatedDisk};
use crate::format::Format;
use crate::manifest::{encode_checkpoint, read_checkpoint};
use crate::random::Random;
use crate::repair::{RepairReport, repair_files};

fn repaired(disk: &SimulatedDisk) -> Result<RepairReport> {
    repair_files(&(Arc::new(disk.clone()) as Arc<dyn Files>), options())
}

/// What a repaired disk holds; it takes writes again.
fn held_by(disk: &SimulatedDisk, context: &str) -> Contents {
    let store = open(disk).unwrap_or_else(|error| panic!("{context}: does not open: {error}"));
    let found = contents(&store).unwrap_or_else(|error| panic!("{context}: cannot be read: {error}"));
    carry_out(&store, &Step::Create("probe")).unwrap_or_else(|error| panic!("{context}: {error}"));
    carry_out(&store, &Step::Write(vec![Op::Put("probe", "a", 1, 1)])).expect("writes");
    carry_out(&store, &Step::Compact).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(contents(&store).expect("reads")["probe"].len(), 1, "{context}");
    found
}

fn paths(disk: &SimulatedDisk, directory: &str) -> Vec<String> {
    disk.paths().into_iter().filter(|path| path.starts_with(directory)).collect()
}

/// A disk with one segment of 40,000 rows, and a log with one row in each of 30 batches.
fn plain() -> (SimulatedDisk, Contents) {
    let disk = SimulatedDisk::new();
    let store = open(&disk).expect("opens");
    let mut held = Contents::new();
    let mut go = |step: Step| {
        carry_out(&store, &step).expect("works");
        step.apply(&mut held);
    };
    go(Step::Create("t"));
    go(Step::Write((0..20).map(|at| Op::Bulk("t", "a", at * 2000, (at + 1) * 2000, at)).collect()));
    go(Step::Compact);
    (0..30).for_each(|at| go(Step::Write(vec![Op::Put("t", "log", at, at)])));
    (disk.after(Crash::Kill), held)
}

#[test]
fn a_damaged_segment_loses_its_damaged_blocks_and_they_are_named() {
    let (disk, held) = plain();
    let mut random = Random::new(4);
    let mut lost = BTreeSet::new();
    for path in paths(&disk, "seg/")[..2].iter().cycle().take(60) {
        let damaged = disk.after(Crash::Kill);
        damaged.damage(path, |bytes| {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        });
        let report = repaired(&damaged).expect("is repaired");
        assert!(report.check.is_sound(), "{report:?}");
        assert!(paths(&damaged, "damaged/").iter().any(|name| name.ends_with(&path.replace('/', "."))), "{report:?}");
        let found = held_by(&damaged, path);
        let missing: Vec<_> = held["t"].iter().filter(|(key, _)| !found["t"].contains_key(*key)).collect();
        assert!(found["t"].iter().all(|(key, value)| held["t"].get(key) == Some(value)));
        assert_eq!(missing.len() as u64, report.rows_lost, "{report:?}");
        if let (Some((first, _)), Some((last, _))) = (missing.first(), missing.last()) {
            let said = report.done.iter().find(|done| done.contains("are lost")).expect("it is said");
            let end = [last.1, last.1 + 1].map(|end| format!("to key 'a#{end}'"));
            assert!(
                said.starts_with("table public.t: ") && said.contains(&format!("from key 'a#{}'", first.1)),
                "{said}"
            );
            assert!(end.iter().any(|end| said.contains(end)), "{said}");
        }
        lost.insert(report.rows_lost);
        assert_eq!(repaired(&damaged).expect("once more").done, Vec::<String>::new(), "nothing is left to do");
    }
    // All of it where the index is damaged or a dictionary, one block where a page is, and the last one is shorter.
    assert_eq!(lost.into_iter().collect::<Vec<_>>(), [0, 40_000 % 4096, 4096, 40_000]);
}

#[test]
fn a_segment_that_is_cut_short_loses_the_pages_that_are_gone() {
    let (disk, held) = plain();
    let path = paths(&disk, "seg/")[..2].iter().find(|path| path.ends_with(".parquet")).cloned().expect("one");
    let length = disk.len(&path).expect("looks").expect("is there") as usize;
    let mut lost = BTreeSet::new();
    for kept in (0..60).map(|part| length * part / 60) {
        let disk = disk.after(Crash::Kill);
        disk.damage(&path, |bytes| bytes.truncate(kept));
        let report = repaired(&disk).expect("is repaired");
        assert!(report.check.is_sound(), "{report:?}");
        let found = held_by(&disk, "cut short");
        assert_eq!((held["t"].len() - found["t"].len()) as u64, report.rows_lost);
        assert!(found["t"].iter().all(|(key, value)| held["t"].get(key) == Some(value)));
        lost.insert(report.rows_lost);
    }
    // The footer is needed by nobody; without a column a row group is lost, and there is one.
    assert!(lost.contains(&0) && lost.contains(&40_000), "{lost:?}");
}

#[test]
fn a_segment_that_is_gone_is_lost_and_said_so() {
    let (disk, held) = plain();
    disk.remove(&paths(&disk, "seg/")[1]).expect("removes");
    let report = repaired(&disk).expect("is repaired");
    assert!(report.check.is_sound() && report.rows_lost == 40_000, "{report:?}");
    assert_eq!(held_by(&disk, "gone")["t"].len(), held["t"].len() - 40_000);
}

#[test]
fn a_damaged_log_loses_the_damaged_batches_only() {
    let (disk, held) = plain();
    let mut random = Random::new(6);
    for _ in 0..60 {
        let damaged = disk.after(Crash::Kill);
        let logs = paths(&disk, "log/");
        let path = &logs[random.below(logs.len() as u64) as usize];
        damaged.damage(path, |bytes| {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let at = random.below(used as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        });
        let report = repaired(&damaged).expect("is repaired");
        assert!(report.check.is_sound(), "{report:?}");
        let found = held_by(&damaged, path);
        let missing = held["t"].len() - found["t"].len();
        assert!(found["t"].iter().all(|(key, value)| held["t"].get(key) == Some(value)));
        // The last one may look like a write that was cut short, and a batch that was flushed loses nothing.
        assert!(missing as u64 <= report.batches_lost.max(1) && missing <= 1, "{missing} rows: {report:?}");
    }
}

#[test]
fn a_log_that_is_gone_loses_what_was_in_it() {
    let (disk, held) = plain();
    for path in paths(&disk, "log/") {
        disk.remove(&path).expect("removes");
    }
    let report = repaired(&disk).expect("is repaired");
    assert!(report.check.is_sound(), "{report:?}");
    let missing = held["t"].len() - held_by(&disk, "no log")["t"].len();
    assert!((25..=30).contains(&missing), "{missing}");
}

#[test]
fn a_damaged_file_keyspan_is_made_anew_from_a_checkpoint() {
    let (disk, held) = plain();
    disk.damage("KEYSPAN", |bytes| bytes[20] ^= 1);
    assert_eq!(open(&disk).expect_err("is damaged").kind, ErrorKind::Corrupted);
    let report = repaired(&disk).expect("is repaired");
    assert!(report.check.is_sound() && report.done.iter().any(|done| done.contains("KEYSPAN")), "{report:?}");
    assert!(held_by(&disk, "KEYSPAN") == held);
}

#[test]
fn one_flipped_bit_anywhere_is_repaired_or_refused() {
    for (disk, flips) in [(SimulatedDisk::new(), 250), (SimulatedDisk::with_manifest_log(), 60)] {
        let (disk, held) = written(disk);
        let mut random = Random::new(9);
        let paths: Vec<String> = disk.paths().into_iter().filter(|path| path != "RESERVE" && path != "LOCK").collect();
        let (mut whole, mut less, mut refused) = (0, 0, 0);
        for _ in 0..flips {
            let damaged = disk.after(Crash::Kill);
            let path = &paths[random.below(paths.len() as u64) as usize];
            damaged.damage(path, |bytes| {
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let at = random.below(used as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            });
            match repaired(&damaged) {
                Ok(report) => {
                    assert!(report.check.is_sound(), "{path}: {report:?}");
                    let found = held_by(&damaged, path);
                    if report.rows_lost + report.batches_lost == 0 {
                        assert!(found == held, "{path}: {report:?}");
                        whole += 1;
                    } else {
                        less += 1;
                    }
                }
                Err(error) => {
                    assert!(matches!(error.kind, ErrorKind::Corrupted | ErrorKind::FormatVersion), "{path}: {error:?}");
                    refused += 1;
                }
            }
        }
        println!("{whole} repaired without a loss, {less} with one, {refused} refused");
        assert!(whole > 0 && less > 0 && refused < flips / 10);
    }
}

#[test]
fn a_repair_that_is_cut_short_can_be_done_again() {
    let (disk, _) = plain();
    for directory in ["seg/", "log/", "manifest/"] {
        let damaged = disk.after(Crash::Kill);
        let path = paths(&disk, directory).pop().expect("a file");
        damaged.damage(&path, |bytes| bytes[60] ^= 1);
        let watched = damaged.clone();
        damaged.watch(Some(Arc::new(move |number, what| {
            for crash in [Crash::Kill, Crash::Nothing, Crash::Some(number)] {
                let left = watched.after(crash);
                let report = repaired(&left).unwrap_or_else(|error| panic!("{crash:?} before {what}: {error:?}"));
                assert!(report.check.is_sound(), "{crash:?} before {what}: {report:?}");
            }
        })));
        repaired(&damaged).expect("is repaired");
        damaged.watch(None);
        assert!(check_files(&(Arc::new(damaged) as Arc<dyn Files>)).expect("checks").is_sound());
    }
}

/// A key of the manifest and its bytes.
type Item = (Vec<u8>, Vec<u8>);
/// What a newer program does to a store.
type Change = Box<dyn Fn(&SimulatedDisk)>;

/// The newest checkpoint with this changed, as a newer program would have written it.
fn rewritten(disk: &SimulatedDisk, change: impl Fn(&mut Vec<Item>)) {
    let store = Format::read(disk).expect("reads").expect("a format").store;
    let path = paths(disk, "manifest/").pop().expect("a checkpoint");
    let mut items = read_checkpoint(disk, store, &path).expect("reads");
    change(&mut items.items);
    disk.damage(&path, |bytes| *bytes = encode_checkpoint(store, &items));
}

/// The newest file there with another version, and with the checksum that belongs to it: of the bytes before `crc_at`,
/// or of all but the last four.
fn of_version_2(disk: &SimulatedDisk, directory: &str, crc_at: Option<usize>) {
    let path = paths(disk, directory).pop().expect("a file");
    disk.damage(&path, |bytes| {
        bytes[8] = 2;
        let at = crc_at.unwrap_or(bytes.len() - 4);
        let crc = crc32c::crc32c(&bytes[..at]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    });
}

#[test]
fn what_a_newer_program_wrote_is_refused_and_left_alone_by_a_repair() {
    let (disk, _) = plain();
    let field_of = |item: &'static [u8], before: &'static str| -> Change {
        let change = move |items: &mut Vec<Item>| {
            let (_, value) = items.iter_mut().find(|(key, _)| key.starts_with(item)).expect("is there");
            let text = String::from_utf8(value.clone()).expect("JSON");
            assert!(text.contains(before), "{text}");
            *value = text.replacen(before, &format!("\"from_the_future\":7,{before}"), 1).into_bytes();
        };
        Box::new(move |disk| rewritten(disk, change))
    };
    let of_kind_z = |items: &mut Vec<Item>| items.push((b"z".to_vec(), b"1".to_vec()));
    let changes: [(&str, Change); 7] = [
        ("from_the_future", field_of(b"c", "\"next_table\"")),
        ("from_the_future", field_of(b"c", "\"default_ttl\"")),
        ("from_the_future", field_of(b"s", "\"file_bytes\"")),
        ("from_the_future", field_of(b"m", "\"next_segment\"")),
        ("kind z", Box::new(move |disk| rewritten(disk, of_kind_z))),
        ("it has version 2", Box::new(|disk| of_version_2(disk, "manifest/", None))),
        ("it has version 2", Box::new(|disk| of_version_2(disk, "log/", Some(36)))),
    ];
    for (what, change) in changes {
        let newer = disk.after(Crash::Kill);
        change(&newer);
        let before = newer.paths();
        let opened = open(&newer).map(drop);
        for error in [opened.expect_err("is refused"), repaired(&newer).map(drop).expect_err("is refused")] {
            assert!(error.kind == ErrorKind::FormatVersion && error.message.contains(what), "{error:?}");
            assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("newer keyspan")), "{error:?}");
        }
        assert_eq!(newer.paths(), before, "{what}");
    }
}
