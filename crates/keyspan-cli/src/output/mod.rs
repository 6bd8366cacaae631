//! Answers as they are printed.
//!
//! The rule: whatever the format, rows are printed as they arrive; only a table looks ahead, a bounded number of rows,
//! to know how wide its columns are.

mod csv;
mod expanded;
mod json;
mod screen;
mod style;
mod table;
mod unaligned;

use std::io::{self, Write};
use std::sync::Arc;

pub use screen::{Activity, Out, columns_of_terminal};
pub use style::{Expanded, Format, Pager, Style};

use crate::client::{Column, Sink};

/// Prints rows in one format.
trait Rows {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()>;
    /// The rows have ended.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Prints the answers of statements.
pub struct Printer {
    out: Out,
    /// How rows are printed.
    pub style: Style,
    /// Whether command tags are printed beside tables.
    pub tags: bool,
    /// What the statement has done so far, for a line that shows it.
    pub activity: Arc<Activity>,
    rows: Option<Box<dyn Rows>>,
    count: u64,
    /// Whether the statement is a COPY TO STDOUT, whose data is all that the output may hold.
    copies: bool,
}

impl Printer {
    /// A printer to the program's output.
    pub fn new(style: Style) -> Printer {
        let (tags, activity) = (style.format.is_for_people(), Arc::<Activity>::default());
        Printer { out: Out::screen(activity.clone()), tags, style, activity, rows: None, count: 0, copies: false }
    }

    /// Leaves an answer that an error cut short: nothing makes it look whole.
    pub fn interrupt(&mut self) -> io::Result<()> {
        (self.rows, self.copies) = (None, false);
        self.out.finish()
    }

    /// Prints to another place from now on; answers the one before.
    pub fn redirect(&mut self, out: Out) -> Out {
        std::mem::replace(&mut self.out, out)
    }

    /// Where it prints.
    pub fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// How many rows the last statement has answered.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Prints a line beside the answers.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}

impl Sink for Printer {
    fn wants_json(&self) -> bool {
        self.style.format == Format::Json
    }

    fn columns(&mut self, columns: Vec<Column>) -> io::Result<()> {
        let style = &self.style;
        self.count = 0;
        self.out.begin(style.pager);
        self.rows = Some(match (style.format, style.expanded) {
            (Format::Csv, _) => Box::new(csv::Csv::begin(&columns, style, &mut self.out)?),
            (Format::Json, _) => Box::new(json::Json::new(columns)),
            (Format::Unaligned, Expanded::On) => Box::new(unaligned::Records::new(columns, style)),
            (Format::Unaligned, _) => Box::new(unaligned::Lines::begin(columns, style, &mut self.out)?),
            (Format::Aligned, Expanded::On) => Box::new(expanded::Records::new(columns, style)),
            (Format::Aligned, Expanded::Off) => Box::new(table::Table::new(columns, None, style)),
            (Format::Aligned, Expanded::Wider(width)) => Box::new(table::Table::new(columns, Some(width), style)),
        });
        Ok(())
    }

    fn row(&mut self, cells: Vec<Option<String>>) -> io::Result<()> {
        self.count += 1;
        self.activity.rows(1);
        match &mut self.rows {
            Some(rows) => rows.row(cells, &mut self.out),
            None => Ok(()),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.copies = true;
        self.out.write_all(bytes)
    }

    fn done(&mut self, tag: &str) -> io::Result<()> {
        let rows = self.rows.take();
        let had_rows = rows.is_some();
        match rows {
            Some(mut rows) => rows.end(&mut self.out)?,
            None => self.count = tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0),
        }
        let is_write = ["INSERT", "UPDATE", "DELETE", "MERGE"].iter().any(|word| tag.starts_with(word));
        let copied = std::mem::take(&mut self.copies);
        if self.tags && (!had_rows || is_write) && !tag.is_empty() && !copied {
            writeln!(self.out, "{tag}")?;
        }
        self.out.finish()
    }
}
