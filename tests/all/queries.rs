//! The keystone: every file in `queries/` gives the same answers {embedded, over the wire} × {rows in the memtable,
//! flushed, compacted}. `KEYSPAN_QUERIES=insert` runs only the files whose path contains that.

use std::path::{Path, PathBuf};

use keyspan::Database;
use keyspan_tests::target::{State, Target, serve};
use sqllogictest::Runner;

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

async fn run(wire: bool, state: State) {
    let (mut failures, files) = (Vec::new(), chosen());
    for file in &files {
        let answer = if wire { run_wire(file, state).await } else { run_embedded(file, state).await };
        if let Err(error) = answer {
            failures.push(format!("{}:\n{error}", file.display()));
        }
    }
    assert!(failures.is_empty(), "{} of {} files fail:\n{}", failures.len(), files.len(), failures.join("\n\n"));
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
