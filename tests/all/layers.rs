//! The layers that `docs/architecture.md` shows for a crate: a module imports only what stands before it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The modules of a crate in the order of its table: the names in backquotes of each row's second cell.
fn declared(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let section = text.split(&format!("### Layers of `{name}`\n")).nth(1).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = rows.filter_map(|row| row.split('|').nth(2));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(str::to_string).collect()
}

/// The source files of a crate without its tests, each with the module of the crate's root that it belongs to.
fn sources(name: &str) -> Vec<(String, String)> {
    let src = root().join("crates").join(name).join("src");
    let (mut folders, mut found) = (vec![src.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let place = path.strip_prefix(&src).unwrap();
            let module = place.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_string();
            if place.to_string_lossy().contains("test") || module == "lib" {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else {
                found.push((module, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found
}

/// The modules that stand after `crate::` in a source text, alone or in braces.
fn imports(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let code: Vec<&str> = text.lines().filter_map(|line| line.split("//").next()).collect();
    let code = code.join("\n");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let mut depth = 0;
        let mut begins = true;
        for (at, c) in rest.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                c if begins && c.is_alphabetic() && depth < 2 => {
                    let name = rest[at..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                    found.insert(name.to_string());
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 && !begins {
                break;
            }
        }
    }
    found
}

#[test]
fn modules_of_the_embedded_crate_import_only_earlier_ones() {
    let declared = declared("keyspan");
    let place = |module: &str| declared.iter().position(|other| other == module);
    let sources = sources("keyspan");
    let modules: BTreeSet<&String> = sources.iter().map(|(module, _)| module).collect();
    assert_eq!(modules, declared.iter().collect(), "the table and the modules that there are");
    for (module, text) in &sources {
        for other in imports(text).iter().filter(|other| modules.contains(other) && *other != module) {
            assert!(place(other) < place(module), "{module} may not import {other}");
        }
    }
}

#[test]
fn imports_are_found_in_braces_too() {
    let text = "use crate::{a::{b, c}, d};\nuse crate::e::f;\n// crate::g\nfn h() { crate::i::j() }";
    assert_eq!(imports(text).into_iter().collect::<Vec<_>>(), ["a", "d", "e", "i"]);
}
