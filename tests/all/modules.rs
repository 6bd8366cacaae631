//! The modules of a crate and which of them import which, as read from the sources.
//!
//! A module is a file or a folder directly under `src/`. It imports another where its sources name `crate::other`, or
//! `super::other` with enough `super`s; a name that `lib.rs` re-exports counts as an import of the module it comes from.
//! Tests import what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// For each module those that it imports, and the files that do.
pub type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The modules of a crate whose sources are in this folder.
pub fn graph(src: &Path) -> Graph {
    let mut files = Vec::new();
    read_sources(src, src, &mut files);
    let lib = src.join("lib.rs");
    let reexports = if lib.is_file() { reexports(&code(&fs::read_to_string(lib).unwrap())) } else { BTreeMap::new() };
    let mut graph: Graph = files.iter().map(|(path, _)| (module_of(path), BTreeMap::new())).collect();
    let names: BTreeSet<String> = graph.keys().cloned().collect();
    for (path, text) in &files {
        let own = module_of(path);
        for name in names_from_root(&code(text), depth(path)) {
            let name = reexports.get(&name).cloned().unwrap_or(name);
            if name != own && names.contains(&name) {
                let imports = graph.get_mut(&own).unwrap();
                imports.entry(name).or_default().insert(path.clone());
            }
        }
    }
    graph
}

/// The modules that import themselves through others.
pub fn in_cycles(graph: &Graph) -> BTreeSet<String> {
    graph.keys().filter(|module| reached(graph, module).contains(*module)).cloned().collect()
}

/// The import that takes the most modules out of cycles if it goes: who imports, what, and in which files.
pub fn weakest(graph: &Graph) -> Option<(String, String, BTreeSet<String>)> {
    let mut imports = Vec::new();
    for (from, to, files) in all_imports(graph).filter(|(from, to, _)| reached(graph, to).contains(*from)) {
        let mut without = graph.clone();
        without.get_mut(from).unwrap().remove(to);
        imports.push((in_cycles(&without).len(), files.len(), from.clone(), to.clone(), files.clone()));
    }
    imports.into_iter().min().map(|(_, _, from, to, files)| (from, to, files))
}

fn all_imports(graph: &Graph) -> impl Iterator<Item = (&String, &String, &BTreeSet<String>)> {
    graph.iter().flat_map(|(from, imports)| imports.iter().map(move |(to, files)| (from, to, files)))
}

/// The modules that a module imports, directly or through others.
fn reached(graph: &Graph, module: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![module];
    while let Some(module) = open.pop() {
        for import in graph[module].keys() {
            if found.insert(import.clone()) {
                open.push(import);
            }
        }
    }
    found
}

/// The sources of the modules: paths under `src`, and texts.
fn read_sources(src: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_root = folder == src && matches!(name.as_str(), "lib" | "main");
        if is_root || matches!(name.as_str(), "tests" | "testing") || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            read_sources(src, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            files.push((path.strip_prefix(src).unwrap().to_string_lossy().into_owned(), text));
        }
    }
}

fn module_of(path: &str) -> String {
    path.split('/').next().unwrap().trim_end_matches(".rs").to_string()
}

/// How many `super`s lead from a file to the root of its crate.
fn depth(path: &str) -> usize {
    path.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").count()
}

/// The text without comments and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The names at the crate's root that a file speaks of, which lies so many `super`s below it.
fn names_from_root(code: &str, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for root in ["crate::".to_string(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let before = &code[..at];
            if !before.ends_with("::") && !before.ends_with(is_word) {
                names.extend(first_names(&code[at + root.len()..]));
            }
        }
    }
    names
}

/// The first name of a path, or those of all paths in `{…}`.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else { return word(path).into_iter().collect() };
    let mut names = Vec::new();
    let (mut level, mut at_start) = (1, true);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => level += 1,
            '}' => level -= 1,
            ',' if level == 1 => at_start = true,
            _ if at_start && !letter.is_whitespace() => {
                names.extend(word(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
        if level == 0 {
            break;
        }
    }
    names
}

/// What `lib.rs` re-exports: names, and the modules that they come from.
fn reexports(lib: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let Some((module, path)) = statement.split_once("::") else { continue };
        let last = path.rsplit_once("::").filter(|_| !path.contains('{')).map_or(path, |(_, last)| last);
        found.extend(first_names(last).into_iter().map(|name| (name, module.to_string())));
    }
    // A module of the same name is meant by that name too.
    found.retain(|name, _| name.starts_with(char::is_uppercase));
    found
}

fn word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|letter| is_word(*letter)).collect();
    (!word.is_empty()).then_some(word)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str, depth: usize) -> Vec<String> {
        names_from_root(code, depth).into_iter().collect()
    }

    #[test]
    fn imports_are_found_in_paths_groups_and_behind_super() {
        assert_eq!(names("use crate::a::{b, c}; x(crate::d::e())", 1), ["a", "d"]);
        assert_eq!(names("pub(crate) use crate::{\n    a::{self, b},\n    c, d::*,\n};", 1), ["a", "c", "d"]);
        assert_eq!(names("use super::{a, b::C}; super::d::e()", 1), ["a", "b", "d"]);
        assert_eq!(names("use super::a; use super::super::{d, e};", 2), ["d", "e"]);
        assert_eq!(names("use keyspan_crate::a; use supercrate::b;", 1), [""; 0]);
        assert_eq!(code("use a; // crate::b\n#[cfg(test)]\nmod tests {\ncrate::c"), "use a; ");
        assert_eq!((depth("a.rs"), depth("a/mod.rs"), depth("a/b.rs"), depth("a/b/c.rs")), (1, 1, 2, 3));
        let found = reexports("pub use a::{B, C as D};\npub use e::f::G;\npub use h::i;");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("B", "a"), ("C", "a"), ("G", "e")].map(|(n, m)| (n.into(), m.into()))
        );
    }

    #[test]
    fn cycles_and_the_import_to_leave_out_are_found() {
        let mut graph = Graph::new();
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("c", "b"), ("d", "a")] {
            graph.entry(to.into()).or_default();
            let imports = graph.entry(from.into()).or_default();
            imports.insert(to.into(), BTreeSet::from([format!("{from}.rs")]));
        }
        assert_eq!(in_cycles(&graph).into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        let (from, to, files) = weakest(&graph).unwrap();
        assert_eq!((from.as_str(), to.as_str()), ("b", "c"), "without it there is no cycle");
        assert_eq!(files.into_iter().collect::<Vec<_>>(), ["b.rs"]);
    }
}
