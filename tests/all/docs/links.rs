//! Links within the repository lead to files and headings, source files that pages name exist, every page can be reached
//! from the README, and nothing points outside of the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::page::{Page, files, pages, root};

/// The targets of a page's links, with their lines; addresses of other sites left out.
fn links(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in page.prose() {
        for after in line.split("](").skip(1) {
            let target = after.split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target.to_string()));
            }
        }
    }
    found
}

/// The file that a link of a page names, from the root of the repository.
fn resolve(page: &Path, target: &str) -> PathBuf {
    if target.is_empty() {
        return page.to_path_buf();
    }
    let mut path = page.parent().expect("a page lies in a folder").to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let anchors: BTreeMap<&Path, Vec<String>> = pages.iter().map(|page| (&*page.path, page.anchors())).collect();
    let mut broken = Vec::new();
    for page in &pages {
        for (line, link) in links(page) {
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = resolve(&page.path, target);
            let heading = || anchors.get(&*path).is_some_and(|anchors| anchors.iter().any(|known| known == anchor));
            if !root().join(&path).exists() || (!anchor.is_empty() && !heading()) {
                broken.push(format!("{}:{line}: {link}", page.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn source_files_that_pages_name_exist() {
    let mut sources = Vec::new();
    for folder in ["crates", "tests", "benches", "xtask"] {
        files(&root().join(folder), &mut sources);
    }
    let sources: Vec<String> = sources.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let exists = |name: &str| sources.iter().any(|path| path.ends_with(&format!("/{name}")));
    let mut missing = Vec::new();
    for page in pages() {
        for (index, line) in page.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && !"_-./".contains(c));
            let named = words.filter(|word| word.ends_with(".rs") || word.ends_with(".py"));
            let lost = named.filter(|word| !word.starts_with('.') && !exists(word));
            missing.extend(lost.map(|word| format!("{}:{}: {word}", page.path.display(), index + 1)));
        }
    }
    assert!(missing.is_empty(), "files that are not there:\n{}", missing.join("\n"));
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let pages = pages();
    let mut reached = BTreeSet::from([PathBuf::from("README.md")]);
    loop {
        let known = pages.iter().filter(|page| reached.contains(&page.path));
        let next: Vec<PathBuf> = known
            .flat_map(|page| links(page).into_iter().map(move |(_, link)| (page, link)))
            .map(|(page, link)| resolve(&page.path, link.split('#').next().unwrap_or_default()))
            .collect();
        let before = reached.len();
        reached.extend(next);
        if reached.len() == before {
            break;
        }
    }
    // A link to a folder is one to all that is in it.
    let unreached = |page: &&Page| !page.path.ancestors().any(|path| reached.contains(path));
    let lost: Vec<_> = pages.iter().filter(unreached).map(|page| page.path.display().to_string()).collect();
    assert!(lost.is_empty(), "pages that no link leads to: {lost:?}");
}

#[test]
fn nothing_points_outside_the_repository() {
    let outside = [["DESIGN", ".md"].concat(), ["/", "shared/"].concat(), ["`resea", "rch/"].concat()];
    let mut paths = Vec::new();
    for folder in ["crates", "tests", "docs", "queries", "benches", "xtask"] {
        files(&root().join(folder), &mut paths);
    }
    let text = ["rs", "md", "py", "toml", "slt"];
    paths.retain(|path| path.extension().is_some_and(|extension| text.iter().any(|known| extension == *known)));
    for path in paths {
        let content = std::fs::read_to_string(&path).unwrap();
        for word in &outside {
            assert!(!content.contains(word), "{} points to {word}", path.display());
        }
    }
}
