//! The promise of the format: a directory written in each format is kept, and opened by every later program.
//!
//! The directories were made by [`write_fixture`]; none is ever made again. A new format, also of one kind of file,
//! gets a directory of its own.

use std::path::{Path, PathBuf};

use super::workload::{Contents, carry_out, contents, options, script, states};
use crate::engine::{EmbeddedStore, StoreOptions};

/// The first format; with indexes that name the codecs of segments' pages.
const FORMATS: [&str; 2] = ["format-1", "format-1-index-2"];

fn directory(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("makes");
    for entry in std::fs::read_dir(from).expect("lists").flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies")),
        }
    }
}

/// What was written: the first part of the script, where segments, tombstones, a load and an unflushed log are there.
const STEPS: usize = 17;

fn held() -> Contents {
    states(&script()[..STEPS]).pop().expect("states")
}

#[test]
fn a_directory_of_each_format_is_opened_and_holds_what_it_held() {
    for format in FORMATS {
        let copied = tempfile::tempdir().expect("a directory");
        copy(&directory(format), copied.path());
        let report = crate::check(copied.path()).expect("checks");
        assert!(report.is_sound() && report.segments > 0 && report.log_records > 0, "{format}: {report:?}");
        let store = EmbeddedStore::open(copied.path(), StoreOptions::default()).expect("opens");
        assert_eq!(contents(&store).expect("reads"), held(), "{format}");
        futures::executor::block_on(keyspan_seam::Store::compact(store.as_ref())).expect("merges");
        assert_eq!(contents(&store).expect("reads"), held(), "{format}");
    }
}

#[test]
#[ignore = "makes the fixture of the current format; once for each format"]
fn write_fixture() {
    let made = tempfile::tempdir().expect("a directory");
    let small = StoreOptions { log_file: 4 << 10, ..options() };
    let store = EmbeddedStore::open(made.path(), small).expect("opens");
    script()[..STEPS].iter().for_each(|step| carry_out(&store, step).expect("works"));
    let kept = directory(FORMATS[FORMATS.len() - 1]);
    assert!(!kept.exists(), "{} is there already", kept.display());
    // As a kill would leave it. sled's file is large and can be made anew; the rest is what the format promises.
    for name in ["KEYSPAN", "log", "manifest", "seg"] {
        let (from, to) = (made.path().join(name), kept.join(name));
        match from.is_dir() {
            true => copy(&from, &to),
            false => {
                std::fs::create_dir_all(&kept).expect("makes");
                std::fs::copy(from, to).expect("copies");
            }
        }
    }
}
