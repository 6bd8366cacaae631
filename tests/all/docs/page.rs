//! A page of the documentation: its text, its headings, and its fenced blocks.

use std::fs;
use std::path::{Path, PathBuf};

/// One file in Markdown.
#[derive(Debug)]
pub(super) struct Page {
    /// From the root of the repository.
    pub path: PathBuf,
    pub text: String,
}

/// A fenced block: "```language,mark".
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub language: &'a str,
    pub mark: &'a str,
    /// The line of the fence, from 1.
    pub line: usize,
    pub text: String,
}

/// The root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lie in the workspace").to_path_buf()
}

/// The pages at the root, those of `docs/` and that of `queries/`.
pub(super) fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root()).unwrap() {
        paths.extend(Some(entry.unwrap().path()).filter(|path| path.is_file()));
    }
    for folder in ["docs", "queries"] {
        files(&root().join(folder), &mut paths);
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

/// All files in a folder and those inside it.
pub(super) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

impl Page {
    fn read(path: &Path) -> Page {
        let relative = path.strip_prefix(root()).expect("the page lies in the repository").to_path_buf();
        Page { path: relative, text: fs::read_to_string(path).unwrap() }
    }

    /// Lines outside of fenced blocks, with their numbers from 1.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let mut lines = Vec::new();
        for (index, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                lines.push((index + 1, line));
            }
        }
        lines
    }

    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block<'_>> = None;
        for (index, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(info), None) => {
                    let (language, mark) = info.split_once(',').unwrap_or((info, ""));
                    open = Some(Block { language, mark, line: index + 1, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.path.display());
        blocks
    }

    /// The names by which links find the headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (_, line) in self.prose() {
            let Some((marks, heading)) = line.split_once(' ') else { continue };
            if marks.is_empty() || !marks.chars().all(|c| c == '#') {
                continue;
            }
            let name = anchor(heading);
            let again = found.iter().filter(|other| other.split("--again-").next() == Some(&*name)).count();
            found.push(if again == 0 { name } else { format!("{name}--again-{again}") });
        }
        found.into_iter().map(|name| name.replace("--again-", "-")).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# A page\n## Don't wait: `SET x`\n```sh\n# no heading\n```\n## A page\n";
    let page = Page { path: "page.md".into(), text: text.into() };
    assert_eq!(page.anchors(), ["a-page", "dont-wait-set-x", "a-page-1"]);
}
