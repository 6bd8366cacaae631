//! HBase's language of filters: `PrefixFilter('STC') AND (QualifierFilter(=, 'binary:lat') OR ValueFilter(>, 'binary:5'))`.
//!
//! A filter is a condition on single cells, whose row, family, qualifier and value it may compare. AND binds closer than
//! OR. A value is compared as what it is, not by its bytes.

use keyspan_model::{ColumnType, Error, ErrorKind, Result, TableDef, Value};

use super::{invalid, literal, row};

const KNOWN: &str =
    "PrefixFilter, FamilyFilter, QualifierFilter, ColumnPrefixFilter, MultipleColumnPrefixFilter and ValueFilter";

/// A filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    /// The row key begins so.
    RowPrefix(String),
    /// The qualifier begins with one of these.
    ColumnPrefix(Vec<String>),
    Compare(Part, String, Comparator),
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Family,
    Qualifier,
    Value,
}

/// With what.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Comparator {
    Binary(String),
    Prefix(String),
    Substring(String),
    Pattern(String),
}

/// How the parts of a cell are called, and their types.
pub(super) struct CellNames {
    pub(super) family: String,
    pub(super) qualifier: (String, ColumnType),
    pub(super) value: (String, ColumnType),
}

impl Filter {
    /// Reads a filter.
    pub(super) fn parse(text: &str) -> Result<Filter> {
        let mut reader = FilterReader { tokens: tokens(text)?, next: 0 };
        let filter = reader.any()?;
        if reader.next < reader.tokens.len() { Err(reader.unexpected()) } else { Ok(filter) }
    }

    /// Whether it holds for all cells of a row or for none.
    pub(super) fn is_of_rows(&self) -> bool {
        match self {
            Filter::All(parts) | Filter::Any(parts) => parts.iter().all(Filter::is_of_rows),
            Filter::RowPrefix(_) => true,
            Filter::ColumnPrefix(_) | Filter::Compare(..) => false,
        }
    }

    /// The condition on a row, of a filter of rows.
    pub(super) fn row_condition(&self, table: &TableDef) -> Result<String> {
        let none = || (String::new(), ColumnType::Text);
        self.condition(table, &CellNames { family: String::new(), qualifier: none(), value: none() })
    }

    /// The condition on a cell.
    pub(super) fn condition(&self, table: &TableDef, cell: &CellNames) -> Result<String> {
        let joined = |parts: &[Filter], word: &str| {
            let parts = parts.iter().map(|part| part.condition(table, cell)).collect::<Result<Vec<_>>>()?;
            Ok(format!("({})", parts.join(word)))
        };
        match self {
            Filter::All(parts) => joined(parts, " AND "),
            Filter::Any(parts) => joined(parts, " OR "),
            Filter::RowPrefix(prefix) => Ok(row::has_prefix(table, prefix).unwrap_or_else(|| "TRUE".to_owned())),
            Filter::ColumnPrefix(prefixes) => {
                let text = as_text(&cell.qualifier);
                let each = prefixes.iter().map(|prefix| format!("starts_with({text}, {})", literal(prefix)));
                Ok(format!("({})", each.collect::<Vec<_>>().join(" OR ")))
            }
            Filter::Compare(part, operator, comparator) => {
                let family = (literal(&cell.family), ColumnType::Text);
                let side = match part {
                    Part::Family => &family,
                    Part::Qualifier => &cell.qualifier,
                    Part::Value => &cell.value,
                };
                comparator.condition(side, operator)
            }
        }
    }
}

impl Comparator {
    fn condition(&self, side: &(String, ColumnType), operator: &str) -> Result<String> {
        let text = as_text(side);
        let test = match self {
            // What is no value of the type is equal to none of them.
            Comparator::Binary(value) if Value::parse(value, side.1).is_err() => {
                return Ok(if operator == "<>" { "TRUE" } else { "FALSE" }.to_owned());
            }
            Comparator::Binary(value) => return Ok(format!("{} {operator} {}", side.0, literal(value))),
            Comparator::Prefix(prefix) => format!("starts_with({text}, {})", literal(prefix)),
            Comparator::Substring(part) => format!("strpos(lower({text}), {}) > 0", literal(&part.to_lowercase())),
            Comparator::Pattern(pattern) => format!("{text} ~ {}", literal(pattern)),
        };
        match operator {
            "=" => Ok(test),
            "<>" => Ok(format!("NOT ({test})")),
            _ => Err(invalid("prefixes, substrings and patterns are compared with = and !=")),
        }
    }
}

fn as_text((expression, ty): &(String, ColumnType)) -> String {
    match ty {
        ColumnType::Text | ColumnType::Ascii => expression.clone(),
        _ => format!("{expression}::text"),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum FilterToken {
    Word(String),
    Text(String),
    Sign(String),
}

fn tokens(text: &str) -> Result<Vec<FilterToken>> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '\'' => quoted_text(rest)?,
            '<' | '>' | '!' | '=' => {
                let length = rest.find(|c| !"<>!=".contains(c)).unwrap_or(rest.len());
                (FilterToken::Sign(rest[..length].to_owned()), length)
            }
            c if c.is_alphanumeric() || c == '_' => {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                (FilterToken::Word(rest[..length].to_owned()), length)
            }
            c => (FilterToken::Sign(c.to_string()), c.len_utf8()),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// A text in single quotes, in which two of them are one.
fn quoted_text(rest: &str) -> Result<(FilterToken, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\'' if characters.next_if(|(_, next)| *next == '\'').is_some() => text.push('\''),
            '\'' => return Ok((FilterToken::Text(text), at + 1)),
            c => text.push(c),
        }
    }
    Err(Error::new(ErrorKind::Syntax, "unterminated text in the filter"))
}

struct FilterReader {
    tokens: Vec<FilterToken>,
    next: usize,
}

impl FilterReader {
    fn any(&mut self) -> Result<Filter> {
        let mut parts = vec![self.all()?];
        while self.eat_word("OR") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::Any(parts) })
    }

    fn all(&mut self) -> Result<Filter> {
        let mut parts = vec![self.one()?];
        while self.eat_word("AND") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::All(parts) })
    }

    fn one(&mut self) -> Result<Filter> {
        if self.eat_sign("(") {
            let filter = self.any()?;
            self.expect_sign(")")?;
            return Ok(filter);
        }
        let Some(FilterToken::Word(name)) = self.take() else { return Err(self.unexpected_before()) };
        let kind = match name.as_str() {
            "PrefixFilter" | "ColumnPrefixFilter" | "MultipleColumnPrefixFilter" => None,
            "FamilyFilter" => Some(Part::Family),
            "QualifierFilter" => Some(Part::Qualifier),
            "ValueFilter" => Some(Part::Value),
            _ => {
                let error = Error::not_supported(format!("filter {name} is not supported"));
                return Err(error.with_hint(format!("There are {KNOWN}. SELECT can do the rest.")));
            }
        };
        self.expect_sign("(")?;
        let filter = match kind {
            Some(part) => {
                let operator = self.operator()?;
                self.expect_sign(",")?;
                Filter::Compare(part, operator, comparator(&self.text()?)?)
            }
            None if name == "PrefixFilter" => Filter::RowPrefix(self.text()?),
            None => {
                let mut prefixes = vec![self.text()?];
                while name == "MultipleColumnPrefixFilter" && self.eat_sign(",") {
                    prefixes.push(self.text()?);
                }
                Filter::ColumnPrefix(prefixes)
            }
        };
        self.expect_sign(")")?;
        Ok(filter)
    }

    fn operator(&mut self) -> Result<String> {
        match self.take() {
            Some(FilterToken::Sign(sign)) if matches!(sign.as_str(), "=" | "<" | "<=" | ">" | ">=") => Ok(sign),
            Some(FilterToken::Sign(sign)) if matches!(sign.as_str(), "!=" | "<>") => Ok("<>".to_owned()),
            _ => Err(self.unexpected_before()),
        }
    }

    fn text(&mut self) -> Result<String> {
        match self.take() {
            Some(FilterToken::Text(text)) => Ok(text),
            _ => Err(self.unexpected_before()),
        }
    }

    fn take(&mut self) -> Option<FilterToken> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn eat(&mut self, found: bool) -> bool {
        self.next += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some(FilterToken::Word(next)) if next == word);
        self.eat(found)
    }

    fn eat_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some(FilterToken::Sign(next)) if next == sign);
        self.eat(found)
    }

    fn expect_sign(&mut self, sign: &str) -> Result<()> {
        if self.eat_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected_before(&mut self) -> Error {
        self.next = self.next.saturating_sub(1);
        self.unexpected()
    }

    fn unexpected(&self) -> Error {
        let message = match self.tokens.get(self.next) {
            Some(FilterToken::Word(text) | FilterToken::Sign(text)) => {
                format!("syntax error in the filter at or near \"{text}\"")
            }
            Some(FilterToken::Text(text)) => format!("syntax error in the filter at or near '{text}'"),
            None => "syntax error at the end of the filter".to_owned(),
        };
        Error::new(ErrorKind::Syntax, message).with_hint("A filter is, for one, QualifierFilter(=, 'binary:lat').")
    }
}

/// `binary:text` and its like.
fn comparator(text: &str) -> Result<Comparator> {
    match text.split_once(':') {
        Some(("binary", value)) => Ok(Comparator::Binary(value.to_owned())),
        Some(("binaryprefix", value)) => Ok(Comparator::Prefix(value.to_owned())),
        Some(("substring", value)) => Ok(Comparator::Substring(value.to_owned())),
        Some(("regexstring", value)) => Ok(Comparator::Pattern(value.to_owned())),
        _ => Err(invalid(format!("'{text}' is no comparator"))
            .with_hint("There are 'binary:…', 'binaryprefix:…', 'substring:…' and 'regexstring:…'.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn and_binds_closer_than_or() {
        let filter = Filter::parse("PrefixFilter ('a') OR PrefixFilter('b') AND ValueFilter(!=,'substring:it''s')");
        let value = Filter::Compare(Part::Value, "<>".into(), Comparator::Substring("it's".into()));
        let prefix = |text: &str| Filter::RowPrefix(text.into());
        assert_eq!(filter.expect("a filter"), Filter::Any(vec![prefix("a"), Filter::All(vec![prefix("b"), value])]));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, sqlstate) in [
            ("PageFilter(1)", "0A000"),
            ("PrefixFilter('a'", "42601"),
            ("PrefixFilter('a", "42601"),
            ("ValueFilter(=, 'abc')", "22023"),
            ("ValueFilter('binary:a', =)", "42601"),
            ("PrefixFilter('a') PrefixFilter('b')", "42601"),
            ("", "42601"),
        ] {
            assert_eq!(Filter::parse(text).expect_err(text).sqlstate(), sqlstate, "{text}");
        }
    }
}
