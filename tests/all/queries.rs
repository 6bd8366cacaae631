//! The keystone: every file in `queries/` gives the same answers {embedded, over the wire} × {rows in the memtable,
//! flushed, compacted}. `KEYSPAN_QUERIES=insert` runs only the files whose path contains that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyspan::{Database, Options};
use keyspan_seam::Accepted;
use keyspan_tests::target::{State, Target, serve};
use sqllogictest::{Runner, default_validator};

use crate::ordered_map::OrderedMap;
use crate::ordered_map::answers::{Answer, answer, same_rows};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
}

fn chosen() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../queries"), &mut found);
    found.sort();
    let only = std::env::var("KEYSPAN_QUERIES").unwrap_or_default();
    found.retain(|path| path.to_string_lossy().contains(&only));
    assert!(!found.is_empty(), "no query file matches {only:?}");
    found
}

async fn run_embedded(file: &Path, state: State) -> Result<(), String> {
    let database = Database::in_memory().unwrap();
    let mut runner = Runner::new(|| async { Ok(Target::embedded(&database, state)) });
    runner.add_label("embedded");
    runner.add_label(state.label());
    runner.run_file_async(file).await.map_err(|error| error.to_string())
}

async fn run_wire(file: &Path, state: State) -> Result<(), String> {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let port = server.local_addr().port();
    let mut runner = Runner::new(|| Target::wire(&database, state, port));
    runner.add_label("wire");
    runner.add_label(state.label());
    runner.run_file_async(file).await.map_err(|error| error.to_string())
}

/// Runs a file on the weak store, each record that has an answer there.
async fn run_weak(file: &Path, accepted: Accepted) -> Result<(), String> {
    let store = Arc::new(OrderedMap::new(accepted));
    let database = Database::with_store(store, Options::default()).unwrap();
    let mut runner = Runner::new(|| async { Ok(Target::embedded(&database, State::Memtable)) });
    runner.add_label("embedded");
    runner.add_label("weak");
    let mut failures = Vec::new();
    for record in sqllogictest::parse_file(file).map_err(|error| error.to_string())? {
        let validator = match answer(&record) {
            Answer::OfTheEmbeddedStore => continue,
            Answer::Unordered if !accepted.order => same_rows,
            _ => default_validator,
        };
        runner.with_validator(validator);
        if let Err(error) = runner.run_async(record).await {
            failures.push(error.to_string());
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n")) }
}

fn report(failures: Vec<String>, files: usize) {
    assert!(failures.is_empty(), "{} of {files} files fail:\n{}", failures.len(), failures.join("\n\n"));
}

async fn run(wire: bool, state: State) {
    let (mut failures, files) = (Vec::new(), chosen());
    for file in &files {
        let answer = if wire { run_wire(file, state).await } else { run_embedded(file, state).await };
        failures.extend(answer.err().map(|error| format!("{}:\n{error}", file.display())));
    }
    report(failures, files.len());
}

async fn run_all_weak(accepted: Accepted) {
    let (mut failures, files) = (Vec::new(), chosen());
    for file in &files {
        let answer = run_weak(file, accepted).await;
        failures.extend(answer.err().map(|error| format!("{}:\n{error}", file.display())));
    }
    report(failures, files.len());
}

macro_rules! states {
    ($($name:ident: $wire:literal $state:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            run($wire, State::$state).await;
        }
    )*};
}

states! {
    embedded_memtable: false Memtable,
    embedded_flushed: false Flushed,
    embedded_compacted: false Compacted,
    wire_memtable: true Memtable,
    wire_flushed: true Flushed,
    wire_compacted: true Compacted,
}

macro_rules! weak_states {
    ($($name:ident: $accepted:expr,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            run_all_weak($accepted).await;
        }
    )*};
}

const NOTHING: Accepted = Accepted { spans: false, ranges: false, order: false, limit: false, per_prefix: false };

weak_states! {
    weak_accepts_nothing: NOTHING,
    weak_accepts_spans: Accepted { spans: true, ..NOTHING },
    weak_accepts_ranges: Accepted { spans: true, ranges: true, ..NOTHING },
    weak_accepts_order: Accepted { order: true, ..NOTHING },
    weak_accepts_limit: Accepted { limit: true, ..NOTHING },
    weak_accepts_per_prefix: Accepted { per_prefix: true, ..NOTHING },
    weak_accepts_all: Accepted { spans: true, ranges: true, order: true, limit: true, per_prefix: true },
}
