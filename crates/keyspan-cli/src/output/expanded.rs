//! Each column of a row on a line of its own, as psql's `\x` prints them.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::Rows;
use super::style::Style;
use crate::client::Column;

pub(super) struct Records {
    names: Vec<String>,
    widest: usize,
    style: Style,
    count: u64,
}

impl Records {
    pub(super) fn new(columns: Vec<Column>, style: &Style) -> Records {
        let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        Records {
            widest: names.iter().map(|name| name.width()).max().unwrap_or(0),
            names,
            style: style.clone(),
            count: 0,
        }
    }
}

impl Rows for Records {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        self.count += 1;
        let widest_value = cells.iter().flatten().flat_map(|cell| cell.split('\n')).map(UnicodeWidthStr::width).max();
        match (self.style.tuples_only, self.count) {
            (false, count) => {
                let title = format!("-[ RECORD {count} ]");
                let length = (self.widest + 3 + widest_value.unwrap_or(0)).clamp(title.len(), 79.max(title.len()));
                writeln!(out, "{title}{}", "-".repeat(length - title.len()))?;
            }
            (true, 1) => {}
            (true, _) => writeln!(out)?,
        }
        for (name, cell) in self.names.iter().zip(&cells) {
            let pad = " ".repeat(self.widest - name.width());
            for (number, line) in self.style.cell(cell).split('\n').enumerate() {
                let label = if number == 0 { format!("{name}{pad}") } else { " ".repeat(self.widest) };
                writeln!(out, "{}", format!("{label} | {line}").trim_end())?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.style.count(0).filter(|_| self.count == 0) {
            Some(count) => writeln!(out, "{count}\n"),
            None => writeln!(out),
        }
    }
}
