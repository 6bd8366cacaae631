//! Each column of a row on a line of its own, as psql's `\x` prints them.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::Rows;
use crate::client::Column;

pub(super) struct Records {
    names: Vec<String>,
    widest: usize,
    count: u64,
}

impl Records {
    pub(super) fn new(columns: Vec<Column>) -> Records {
        let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        Records { widest: names.iter().map(|name| name.width()).max().unwrap_or(0), names, count: 0 }
    }
}

impl Rows for Records {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        self.count += 1;
        let title = format!("-[ RECORD {} ]", self.count);
        let widest_value = cells.iter().flatten().flat_map(|cell| cell.split('\n')).map(UnicodeWidthStr::width).max();
        let length = (self.widest + 3 + widest_value.unwrap_or(0)).clamp(title.len(), 79);
        writeln!(out, "{title}{}", "-".repeat(length - title.len()))?;
        for (name, cell) in self.names.iter().zip(&cells) {
            let pad = " ".repeat(self.widest - name.width());
            for (number, line) in cell.as_deref().unwrap_or("").split('\n').enumerate() {
                let label = if number == 0 { format!("{name}{pad}") } else { " ".repeat(self.widest) };
                writeln!(out, "{}", format!("{label} | {line}").trim_end())?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.count == 0 { writeln!(out, "(0 rows)\n") } else { writeln!(out) }
    }
}
