//! The edges of docs/architecture.md: crates depend on each other in one direction, modules of a crate too, and each
//! foreign engine has one room.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::modules::{graph, in_cycles, weakest};

/// What each crate may depend on of the workspace.
const EDGES: &[(&str, &[&str])] = &[
    ("keyspan-model", &[]),
    ("keyspan-cql", &["keyspan-model"]),
    ("keyspan-seam", &["keyspan-model"]),
    ("keyspan-store", &["keyspan-model", "keyspan-seam"]),
    ("keyspan-query", &["keyspan-model", "keyspan-seam"]),
    ("keyspan", &["keyspan-model", "keyspan-cql", "keyspan-seam", "keyspan-store", "keyspan-query"]),
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

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates()).unwrap() {
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

#[test]
fn no_modules_import_each_other_in_a_cycle() {
    for (name, _) in EDGES {
        let graph = graph(&crates().join(name).join("src"));
        let Some((from, to, files)) = weakest(&graph) else { continue };
        let cycle = in_cycles(&graph);
        panic!("{name}: {cycle:?} import themselves through others; {from} could do without {to}, in {files:?}");
    }
}

/// The layers of docs/architecture.md: for each crate rows of modules, the lowest first.
fn layers() -> BTreeMap<String, Vec<Vec<String>>> {
    let text = fs::read_to_string(crates().join("../docs/architecture.md")).unwrap();
    let section = text.split("## Layers").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut layers: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut name = String::new();
    for row in section.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<Vec<String>> = row.split('|').skip(1).map(quoted).collect();
        name = cells[0].first().cloned().unwrap_or(name);
        layers.entry(name.clone()).or_default().push(cells[1].clone());
    }
    layers
}

/// The words between backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn each_module_stands_in_a_layer_and_imports_no_higher_one() {
    for (name, rows) in layers() {
        let layer = |module: &str| rows.iter().position(|row| row.iter().any(|own| own == module));
        let graph = graph(&crates().join(&name).join("src"));
        for module in rows.iter().flatten() {
            assert!(graph.contains_key(module), "docs/architecture.md: {name} has no module {module}");
        }
        for (module, imports) in &graph {
            let own = layer(module);
            assert!(own.is_some(), "docs/architecture.md names no layer of the module {module} of {name}");
            for (import, files) in imports {
                assert!(layer(import) <= own, "{name}: {module} ({files:?}) imports {import}, of a higher layer");
            }
        }
    }
}
