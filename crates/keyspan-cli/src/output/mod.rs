//! Answers as they are printed.
//!
//! The rule: whatever the format, rows are printed as they arrive; only a table looks ahead, a bounded number of rows,
//! to know how wide its columns are.

mod csv;
mod expanded;
mod json;
mod table;

use std::io::{self, Write};

use clap::ValueEnum;

use crate::client::{Column, Sink};

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns, as psql prints them.
    #[default]
    Table,
    /// Comma-separated with a header line; null is empty.
    Csv,
    /// A JSON array of objects for each answer.
    Json,
}

/// When each column has a line of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expanded {
    /// Never.
    #[default]
    Off,
    /// Always.
    On,
    /// When a row would be wider than the terminal, of so many columns.
    Wider(usize),
}

/// Prints rows in one format.
trait Rows {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()>;
    /// The rows have ended.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Prints the answers of statements.
pub struct Printer<W: Write> {
    out: W,
    /// How rows are printed.
    pub format: Format,
    /// When a table's columns have lines of their own.
    pub expanded: Expanded,
    /// Whether command tags are printed beside tables.
    pub tags: bool,
    rows: Option<Box<dyn Rows>>,
}

impl<W: Write> Printer<W> {
    /// A printer to `out`.
    pub fn new(out: W, format: Format) -> Printer<W> {
        Printer { out, format, expanded: Expanded::Off, tags: format == Format::Table, rows: None }
    }

    /// Leaves an answer that an error cut short: nothing makes it look whole.
    pub fn interrupt(&mut self) -> io::Result<()> {
        self.rows = None;
        self.out.flush()
    }
}

impl<W: Write> Sink for Printer<W> {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn columns(&mut self, columns: Vec<Column>) -> io::Result<()> {
        self.rows = Some(match (self.format, self.expanded) {
            (Format::Csv, _) => Box::new(csv::Csv::begin(&columns, &mut self.out)?),
            (Format::Json, _) => Box::new(json::Json::new(columns)),
            (Format::Table, Expanded::On) => Box::new(expanded::Records::new(columns)),
            (Format::Table, Expanded::Off) => Box::new(table::Table::new(columns, None)),
            (Format::Table, Expanded::Wider(width)) => Box::new(table::Table::new(columns, Some(width))),
        });
        Ok(())
    }

    fn row(&mut self, cells: Vec<Option<String>>) -> io::Result<()> {
        match &mut self.rows {
            Some(rows) => rows.row(cells, &mut self.out),
            None => Ok(()),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn done(&mut self, tag: &str) -> io::Result<()> {
        let rows = self.rows.take();
        let had_rows = rows.is_some();
        if let Some(mut rows) = rows {
            rows.end(&mut self.out)?;
        }
        let is_write = ["INSERT", "UPDATE", "DELETE"].iter().any(|word| tag.starts_with(word));
        // The data of a COPY TO STDOUT is all that its output may hold.
        if self.tags && (!had_rows || is_write) && !tag.is_empty() && tag != "COPY" {
            writeln!(self.out, "{tag}")?;
        }
        self.out.flush()
    }
}
