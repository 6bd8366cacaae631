//! Rows as comma-separated values: a header line, quotes where needed; null is empty and the empty text is `""`.

use std::io::{self, Write};

use super::Rows;
use crate::client::Column;

pub(super) struct Csv;

impl Csv {
    /// Prints the header.
    pub(super) fn begin(columns: &[Column], out: &mut dyn Write) -> io::Result<Csv> {
        line(columns.iter().map(|column| Some(column.name.as_str())), out)?;
        Ok(Csv)
    }
}

impl Rows for Csv {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        line(cells.iter().map(Option::as_deref), out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.flush()
    }
}

fn line<'a>(cells: impl Iterator<Item = Option<&'a str>>, out: &mut dyn Write) -> io::Result<()> {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        match cell {
            None => {}
            Some(text) if text.is_empty() || text == "\\." || text.contains(['"', ',', '\n', '\r']) => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            }
            Some(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}
