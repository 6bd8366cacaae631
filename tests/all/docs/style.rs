//! Lines of the pages fit into 120 characters, so that they can be read in a terminal and compared in a diff.

use super::page::pages;

/// Its tables of modules and crates have longer rows.
const OTHERS: &[&str] = &["docs/architecture.md"];

#[test]
fn lines_fit() {
    let mut long = Vec::new();
    for page in pages() {
        let path = page.path.to_string_lossy();
        if OTHERS.iter().any(|other| path.starts_with(other)) {
            continue;
        }
        let lines = page.text.lines().enumerate().filter(|(_, line)| line.chars().count() > 120);
        long.extend(lines.map(|(index, _)| format!("{path}:{}", index + 1)));
    }
    assert!(long.is_empty(), "lines of more than 120 characters:\n{}", long.join("\n"));
}
