//! The text of the input, addressed by characters as error positions are, and cut by bytes as Rust's strings are.
//!
//! The rule: every span in every tree says line 1 and, as column, a character position counted from 1 over the whole
//! input. So the source text of anything parsed can be cut out again, and no error position needs line arithmetic.

use keyspan_model::{Error, ErrorKind};
use sqlparser::tokenizer::{Location, Span};

/// Characters between two remembered byte offsets.
const STRIDE: usize = 256;

/// The input, with what finds a character's byte quickly.
pub(crate) struct SourceText<'a> {
    /// The text.
    pub(crate) text: &'a str,
    /// The byte offset of every [`STRIDE`]th character; empty for ASCII, where both counts agree.
    marks: Vec<usize>,
}

impl<'a> SourceText<'a> {
    /// Prepares a text.
    pub(crate) fn new(text: &'a str) -> Self {
        let marks = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices().step_by(STRIDE).map(|(byte, _)| byte).collect()
        };
        SourceText { text, marks }
    }

    /// The byte offset of a character offset (from 0).
    fn byte(&self, character: usize) -> usize {
        if self.marks.is_empty() {
            return character.min(self.text.len());
        }
        let Some(&mark) = self.marks.get(character / STRIDE) else { return self.text.len() };
        let mut after = self.text[mark..].char_indices().skip(character % STRIDE);
        after.next().map_or(self.text.len(), |(byte, _)| mark + byte)
    }

    /// The text between two character offsets (from 0).
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        let (from, to) = (self.byte(from), self.byte(to));
        self.text.get(from..to).unwrap_or_default()
    }

    /// The text of a span; nothing for an empty one.
    pub(crate) fn of(&self, span: Span) -> &'a str {
        if span.start.line == 0 { "" } else { self.slice(start(span), end(span)) }
    }
}

/// The character offset (from 0) where a span begins.
pub(crate) fn start(span: Span) -> usize {
    (span.start.column as usize).saturating_sub(1)
}

/// The character offset (from 0) just after a span.
pub(crate) fn end(span: Span) -> usize {
    (span.end.column as usize).saturating_sub(1)
}

/// The span of the characters from `from` up to `to` (from 0).
pub(crate) fn span(from: usize, to: usize) -> Span {
    Span { start: Location { line: 1, column: from as u64 + 1 }, end: Location { line: 1, column: to as u64 + 1 } }
}

/// A syntax error at a character offset (from 0).
pub(crate) fn syntax(message: impl Into<String>, offset: usize) -> Error {
    Error::new(ErrorKind::Syntax, message).at(offset + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_characters() {
        let ascii = SourceText::new("SELECT 1");
        assert_eq!(ascii.slice(7, 8), "1");
        assert_eq!(ascii.slice(7, 99), "1");
        let long = "é".repeat(700) + "xyz";
        let wide = SourceText::new(&long);
        assert_eq!(wide.slice(700, 702), "xy");
        assert_eq!(wide.of(span(699, 701)), "éx");
    }
}
