//! Rows as comma-separated values: a header line, quotes where needed; null is empty and the empty text is `""`.

use std::io::{self, Write};

use super::Rows;
use super::style::Style;
use crate::client::Column;
use crate::dialect::write_cell;

pub(super) struct Csv {
    separator: char,
    null: String,
}

impl Csv {
    /// Prints the header.
    pub(super) fn begin(columns: &[Column], style: &Style, out: &mut dyn Write) -> io::Result<Csv> {
        let csv = Csv { separator: style.csv_separator, null: style.null.clone() };
        if !style.tuples_only {
            csv.line(columns.iter().map(|column| Some(column.name.as_str())), out)?;
        }
        Ok(csv)
    }

    fn line<'a>(&self, cells: impl Iterator<Item = Option<&'a str>>, out: &mut dyn Write) -> io::Result<()> {
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                write!(out, "{}", self.separator)?;
            }
            match cell {
                None => out.write_all(self.null.as_bytes())?,
                Some(text) => {
                    let quotes = text == self.null || text == "\\.";
                    write_cell(text.as_bytes(), self.separator, quotes, out)?;
                }
            }
        }
        out.write_all(b"\n")
    }
}

impl Rows for Csv {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        self.line(cells.iter().map(Option::as_deref), out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.flush()
    }
}
