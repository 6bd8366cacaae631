//! Completion of keywords, tables and columns.

use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};

use crate::client::Names;

/// Words after which a table's name follows.
const BEFORE_TABLE: &[&str] =
    &["from", "join", "into", "update", "table", "copy", "describe", "desc", "truncate", "scan"];

/// Knows what may be typed next.
#[derive(Debug, Default, Helper, Highlighter, Hinter, Validator)]
pub(super) struct Completion {
    names: Names,
}

impl Completion {
    /// Takes the names that exist now.
    pub(super) fn set_names(&mut self, names: Names) {
        self.names = names;
    }

    fn candidates(&self, before: &str, word: &str) -> Vec<String> {
        let lower = word.to_lowercase();
        let previous =
            before.trim_end().rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("").to_lowercase();
        let begins = |name: &&String| name.to_lowercase().starts_with(&lower);
        let mut found: Vec<String> = self.names.relations.iter().filter(begins).cloned().collect();
        if !BEFORE_TABLE.contains(&previous.as_str()) && !before.trim_start().starts_with('\\') {
            found.extend(self.names.columns.iter().filter(begins).cloned());
            let keywords = keyspan::keywords().into_iter().filter(|keyword| keyword.to_lowercase().starts_with(&lower));
            found.extend(keywords.map(|keyword| as_typed(keyword, word)));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// A keyword in the case in which it was begun.
fn as_typed(keyword: &str, word: &str) -> String {
    if word.starts_with(char::is_uppercase) { keyword.to_uppercase() } else { keyword.to_lowercase() }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        let start = typed
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |split| split + typed[split..].chars().next().map_or(1, char::len_utf8));
        let candidates = self.candidates(&typed[..start], &typed[start..]).into_iter();
        Ok((start, candidates.map(|name| Pair { display: name.clone(), replacement: name }).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_follow_from_and_keywords_keep_their_case() {
        let names = Names { relations: vec!["flights".into()], columns: vec!["flight".into()] };
        let completion = Completion { names };
        assert_eq!(completion.candidates("SELECT * FROM ", "fl"), ["flights"]);
        assert_eq!(completion.candidates("\\d ", "fl"), ["flights"]);
        let found = completion.candidates("SELECT ", "fl");
        assert!(found.contains(&"flight".to_string()) && found.contains(&"flights".to_string()));
        assert!(completion.candidates("", "SEL").contains(&"SELECT".to_string()));
        assert!(completion.candidates("", "sel").contains(&"select".to_string()));
    }
}
