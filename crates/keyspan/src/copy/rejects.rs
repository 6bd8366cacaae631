//! Rows that a COPY leaves out: `ON_ERROR ignore`, as PostgreSQL has it, and imports that go on.
//!
//! The rule: nothing is left out in silence. An import gets every such row with its line and reason, a COPY says how many
//! they were, unless `LOG_VERBOSITY silent` asks for nothing.

use keyspan_cql::{CopyOptions, CopyVerbosity};
use keyspan_model::{Error, ErrorKind, Result};

use crate::outcome::Notice;

/// What of a row may be wrong without ending the COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Nothing.
    None,
    /// Values that are not of their column's type: `ON_ERROR ignore`.
    Values,
    /// Also the number of fields, and nulls where none may be.
    Rows,
}

/// A row that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The line on which it begins or, of several, ends, from 1.
    pub line: u64,
    /// The column whose value is wrong, if one is.
    pub column: Option<String>,
    /// The begin of its value.
    pub value: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// The row as it stood in the input, for imports.
    pub content: Vec<u8>,
}

/// The rows that a COPY has left out so far.
#[derive(Debug)]
pub(super) struct Rejects {
    /// Whether the rows are kept for whoever asks.
    keeps: bool,
    kept: Vec<Rejected>,
    count: u64,
    limit: Option<u64>,
    verbosity: CopyVerbosity,
    notices: Vec<Notice>,
}

impl Rejects {
    /// Those of a COPY.
    pub(super) fn new(options: &CopyOptions) -> Rejects {
        let (limit, verbosity) = (options.reject_limit, options.verbosity);
        Rejects { keeps: false, kept: Vec::new(), count: 0, limit, verbosity, notices: Vec::new() }
    }

    /// Those of an import, which says itself what became of them.
    pub(super) fn kept() -> Rejects {
        Rejects { keeps: true, verbosity: CopyVerbosity::Silent, ..Rejects::new(&CopyOptions::default()) }
    }

    /// Counts rows.
    ///
    /// # Errors
    /// 22P02 when they are more than `REJECT_LIMIT`.
    pub(super) fn add(&mut self, rejected: Vec<Rejected>) -> Result<()> {
        for row in rejected {
            self.count += 1;
            if let Some(limit) = self.limit.filter(|limit| self.count > *limit) {
                let message = format!("skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility");
                let place = format!("line {}, column {}", row.line, row.column.unwrap_or_default());
                return Err(Error::new(ErrorKind::InvalidText, message).with_detail(place));
            }
            if self.verbosity == CopyVerbosity::Verbose {
                let (line, column) = (row.line, row.column.as_deref().unwrap_or_default());
                let value = row.value.as_deref().map(|value| format!(": \"{value}\"")).unwrap_or_default();
                self.notices.push(Notice::plain(format!(
                    "skipping row due to data type incompatibility at line {line} for column \"{column}\"{value}"
                )));
            }
            if self.keeps {
                self.kept.push(row);
            }
        }
        Ok(())
    }

    /// The input has ended.
    pub(super) fn finish(&mut self) {
        if self.count > 0 && self.verbosity != CopyVerbosity::Silent {
            let rows = if self.count == 1 { "1 row was".to_string() } else { format!("{} rows were", self.count) };
            self.notices.push(Notice::plain(format!("{rows} skipped due to data type incompatibility")));
        }
    }

    pub(super) fn take(&mut self) -> Vec<Rejected> {
        std::mem::take(&mut self.kept)
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}
