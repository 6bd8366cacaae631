//! PostgreSQL 15's keywords (`keywords.txt`: word, category, whether it may be a bare label), and names in quotes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// How a keyword may be used.
pub struct Keyword {
    /// `U`, `C`, `T` or `R`.
    pub category: &'static str,
    /// Whether it may be a label without AS.
    pub is_label: bool,
}

/// The keywords, by word.
pub fn keywords() -> &'static BTreeMap<&'static str, Keyword> {
    static KEYWORDS: OnceLock<BTreeMap<&'static str, Keyword>> = OnceLock::new();
    KEYWORDS.get_or_init(|| include_str!("keywords.txt").lines().filter_map(keyword).collect())
}

fn keyword(line: &'static str) -> Option<(&'static str, Keyword)> {
    let mut parts = line.split(' ');
    let (word, category, label) = (parts.next()?, parts.next()?, parts.next()?);
    Some((word, Keyword { category, is_label: label == "t" }))
}

/// The name, in quotes where SQL would read it otherwise.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && !is_reserved(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Whether a name must be quoted because it is a keyword.
fn is_reserved(name: &str) -> bool {
    keywords().get(name).is_some_and(|keyword| keyword.category != "U")
}
