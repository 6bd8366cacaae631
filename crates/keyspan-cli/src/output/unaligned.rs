//! Rows without padding, for programs: psql's `\pset format unaligned`.

use std::io::{self, Write};

use super::Rows;
use super::style::Style;
use crate::client::Column;

/// A line for each row.
pub(super) struct Lines {
    style: Style,
    count: u64,
}

impl Lines {
    /// Prints the titles.
    pub(super) fn begin(columns: Vec<Column>, style: &Style, out: &mut dyn Write) -> io::Result<Lines> {
        let style = style.clone();
        if !style.tuples_only {
            if let Some(title) = &style.title {
                write!(out, "{title}{}", style.record_separator)?;
            }
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            write!(out, "{}{}", names.join(&style.field_separator), style.record_separator)?;
        }
        Ok(Lines { style, count: 0 })
    }
}

impl Rows for Lines {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        self.count += 1;
        let cells: Vec<&str> = cells.iter().map(|cell| self.style.cell(cell)).collect();
        write!(out, "{}{}", cells.join(&self.style.field_separator), self.style.record_separator)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.style.count(self.count).map_or(Ok(()), |count| writeln!(out, "{count}"))
    }
}

/// A line for each value.
pub(super) struct Records {
    names: Vec<String>,
    style: Style,
    count: u64,
}

impl Records {
    pub(super) fn new(columns: Vec<Column>, style: &Style) -> Records {
        Records { names: columns.into_iter().map(|column| column.name).collect(), style: style.clone(), count: 0 }
    }
}

impl Rows for Records {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        if self.count > 0 {
            writeln!(out)?;
        }
        self.count += 1;
        for (name, cell) in self.names.iter().zip(&cells) {
            let Style { field_separator, record_separator, .. } = &self.style;
            write!(out, "{name}{field_separator}{}{record_separator}", self.style.cell(cell))?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.style.count(0).filter(|_| self.count == 0).map_or(Ok(()), |count| writeln!(out, "{count}"))
    }
}
