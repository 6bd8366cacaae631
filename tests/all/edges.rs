//! The crate edges of `docs/architecture.md`: dependencies point one way, and each foreign engine has one room.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What each crate may depend on of the workspace.
const EDGES: &[(&str, &[&str])] = &[
    ("keyspan-model", &[]),
    ("keyspan-cql", &["keyspan-model"]),
    ("keyspan-store", &["keyspan-model"]),
    ("keyspan-query", &["keyspan-model", "keyspan-store"]),
    ("keyspan", &["keyspan-model", "keyspan-cql", "keyspan-store", "keyspan-query"]),
    ("keyspan-pg", &["keyspan-model", "keyspan"]),
    ("keyspan-cli", &["keyspan-model", "keyspan", "keyspan-pg"]),
];

/// Foreign crates and the rooms that may name them.
const ROOMS: &[(&str, &[&str])] = &[
    ("sled", &["keyspan-store"]),
    ("parquet", &["keyspan-store", "keyspan-cli"]),
    ("datafusion", &["keyspan-query"]),
    ("sqlparser", &["keyspan-cql"]),
    ("pgwire", &["keyspan-pg"]),
    ("clap", &["keyspan-cli"]),
];

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let section = manifest.split("[dependencies]").nth(1).unwrap();
        let section = section.split("\n[").next().unwrap();
        let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_string);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        found.insert(name, names.filter(|name| !name.is_empty()).collect());
    }
    found
}

#[test]
fn crates_depend_in_one_direction() {
    let found = dependencies();
    assert_eq!(found.len(), EDGES.len(), "a crate without a declared place: {:?}", found.keys());
    for (name, allowed) in EDGES {
        for dependency in &found[*name] {
            let own = dependency.starts_with("keyspan");
            assert!(!own || allowed.contains(&dependency.as_str()), "{name} may not depend on {dependency}");
        }
    }
}

#[test]
fn each_engine_has_one_room() {
    for (name, names) in dependencies() {
        for (engine, rooms) in ROOMS {
            assert!(
                !names.iter().any(|n| n == engine) || rooms.contains(&name.as_str()),
                "{name} may not use {engine}"
            );
        }
    }
}
