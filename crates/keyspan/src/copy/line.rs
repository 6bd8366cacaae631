//! Where the lines of text and csv input end.
//!
//! The rule: the first line decides how lines end (`\n`, `\r\n` or `\r`); a different ending later is an error, as in
//! PostgreSQL. What was looked at once is not looked at again, however the input is cut into pieces.

use std::ops::Range;

use keyspan_model::{Error, ErrorKind, Result};

use super::rules::Rules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnding {
    Unknown,
    Newline,
    ReturnNewline,
    Return,
}

/// Finds lines in bytes that begin at the start of a line.
#[derive(Clone, Debug)]
pub(super) struct LineFinder {
    csv: bool,
    quote: u8,
    /// The escape within quotes; none where it is the quote itself, whose doubling needs no care here.
    escape: Option<u8>,
    ending: LineEnding,
    in_quotes: bool,
    /// An escape stood before: csv's escape in quotes, text's backslash.
    escaped: bool,
    /// How many bytes of the current line have been looked at.
    seen: usize,
    /// Line ends inside quotes of the current line.
    inner: u64,
}

/// A line: its bytes without its end, where the next one begins, and how many line ends it took.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) content: Range<usize>,
    pub(super) next: usize,
    pub(super) ends: u64,
}

impl LineFinder {
    pub(super) fn new(rules: &Rules, csv: bool) -> LineFinder {
        LineFinder {
            csv,
            quote: rules.quote,
            escape: (csv && rules.escape != rules.quote).then_some(rules.escape),
            ending: LineEnding::Unknown,
            in_quotes: false,
            escaped: false,
            seen: 0,
            inner: 0,
        }
    }

    /// A finder for other bytes of the same input.
    pub(super) fn at_line_start(&self) -> LineFinder {
        LineFinder { in_quotes: false, escaped: false, seen: 0, inner: 0, ..self.clone() }
    }

    /// The line that begins at `start`, or none if it does not end in `bytes`. `is_last` says that no bytes follow.
    pub(super) fn next(&mut self, bytes: &[u8], start: usize, is_last: bool) -> Result<Option<Line>> {
        let mut at = start + self.seen;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\n' | b'\r' if !self.in_quotes && (self.csv || !self.escaped) => {
                    let following = bytes.get(at + 1);
                    if *byte == b'\r' && following.is_none() && !is_last && self.ending != LineEnding::Return {
                        break;
                    }
                    let next = at + self.end_length(*byte, following.copied())?;
                    return Ok(Some(self.line(start..at, next)));
                }
                b'\n' | b'\r' if self.in_quotes => {
                    self.inner += u64::from(*byte == if self.ending == LineEnding::Return { b'\r' } else { b'\n' });
                    self.escaped = false;
                }
                byte if self.csv => {
                    if *byte == self.quote && !self.escaped {
                        self.in_quotes = !self.in_quotes;
                    }
                    self.escaped = self.in_quotes && Some(*byte) == self.escape && !self.escaped;
                }
                byte => self.escaped = *byte == b'\\' && !self.escaped,
            }
            at += 1;
        }
        self.seen = at - start;
        if is_last && start < bytes.len() {
            return Ok(Some(self.line(start..bytes.len(), bytes.len())));
        }
        Ok(None)
    }

    fn line(&mut self, content: Range<usize>, next: usize) -> Line {
        let ends = 1 + self.inner;
        (self.seen, self.inner, self.in_quotes, self.escaped) = (0, 0, false, false);
        Line { content, next, ends }
    }

    /// How many bytes the end of the line takes that begins with `byte`.
    fn end_length(&mut self, byte: u8, following: Option<u8>) -> Result<usize> {
        let pair = byte == b'\r' && following == Some(b'\n');
        if self.ending == LineEnding::Unknown {
            self.ending = match (byte, pair) {
                (b'\n', _) => LineEnding::Newline,
                (_, true) => LineEnding::ReturnNewline,
                _ => LineEnding::Return,
            };
        }
        match (self.ending, byte) {
            (LineEnding::Newline, b'\n') | (LineEnding::Return, b'\r') => Ok(1),
            (LineEnding::ReturnNewline, b'\r') if pair => Ok(2),
            (_, byte) => Err(self.stray(byte)),
        }
    }

    fn stray(&self, byte: u8) -> Error {
        let (name, short) = if byte == b'\r' { ("carriage return", "\\r") } else { ("newline", "\\n") };
        let (kind, hint) = match self.csv {
            true => ("unquoted", format!("Use quoted CSV field to represent {name}.")),
            false => ("literal", format!("Use \"{short}\" to represent {name}.")),
        };
        Error::new(ErrorKind::InvalidCopy, format!("{kind} {name} found in data")).with_hint(hint)
    }
}
