//! Rows in aligned columns, as psql prints them: titles centred, numbers at the right, null empty, `(n rows)` below.
//!
//! The rule: widths come from the first rows; later ones that are wider push their line out, nothing is cut.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::style::Style;
use super::{Rows, expanded};
use crate::client::{Column, Kind};

/// Rows that are looked at for the widths of the columns.
const LOOK_AHEAD: usize = 5_000;

pub(super) struct Table {
    columns: Vec<Column>,
    style: Style,
    waiting: Vec<Vec<Option<String>>>,
    /// The columns' widths, once they are known.
    widths: Vec<usize>,
    /// Rows wider than this are printed as records.
    limit: Option<usize>,
    records: Option<expanded::Records>,
    count: u64,
}

impl Table {
    pub(super) fn new(columns: Vec<Column>, limit: Option<usize>, style: &Style) -> Table {
        let style = style.clone();
        Table { columns, style, waiting: Vec::new(), widths: Vec::new(), limit, records: None, count: 0 }
    }

    /// Settles the widths and prints what has waited for them.
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.widths = self.columns.iter().map(|column| width_of(&column.name)).collect();
        for row in &self.waiting {
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = (*width).max(width_of(self.style.cell(cell)));
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        let total: usize = self.widths.iter().map(|width| width + 3).sum();
        if self.limit.is_some_and(|limit| total > limit + 1) && !waiting.is_empty() {
            let mut records = expanded::Records::new(self.columns.clone(), &self.style);
            for row in waiting {
                records.row(row, out)?;
            }
            self.records = Some(records);
            return Ok(());
        }
        self.print_titles(out)?;
        waiting.iter().try_for_each(|row| self.print(row, out))
    }

    fn print_titles(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.style.tuples_only {
            return Ok(());
        }
        let total = self.widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1);
        if let Some(title) = &self.style.title {
            writeln!(out, "{}{title}", " ".repeat(total.saturating_sub(width_of(title)) / 2))?;
        }
        let titles = self.columns.iter().zip(&self.widths).map(|(column, wide)| {
            let free = wide - width_of(&column.name).min(*wide);
            let (left, right) = (free / 2, free - free / 2);
            format!("{}{}{}", " ".repeat(left), column.name, " ".repeat(right))
        });
        if self.style.border == 2 {
            writeln!(out, "{}", self.rule())?;
        }
        writeln!(out, "{}\n{}", self.framed(titles.map(|title| (title, ' ')).collect(), false), self.rule())
    }

    /// The line below the titles.
    fn rule(&self) -> String {
        let dashes = |more: usize| self.widths.iter().map(move |wide| "-".repeat(wide + more)).collect::<Vec<_>>();
        match self.style.border {
            0 => dashes(0).join(" "),
            1 => dashes(2).join("+"),
            _ => format!("+{}+", dashes(2).join("+")),
        }
    }

    /// A line of cells, each with what stands behind it.
    fn framed(&self, cells: Vec<(String, char)>, trimmed: bool) -> String {
        let mut line = String::new();
        for (index, (text, more)) in cells.iter().enumerate() {
            match (self.style.border, index) {
                (0, _) => line.push_str(&format!("{text}{more}")),
                (1, 0) => line.push_str(&format!(" {text}{more}")),
                _ => line.push_str(&format!("| {text}{more}")),
            }
        }
        match self.style.border {
            2 => line.push('|'),
            _ if trimmed => line.truncate(line.trim_end_matches(' ').len()),
            _ => {}
        }
        line
    }

    /// A cell of several lines makes several lines, each but its last with a `+` after it.
    fn print(&self, row: &[Option<String>], out: &mut dyn Write) -> io::Result<()> {
        let cells: Vec<Vec<&str>> = row.iter().map(|cell| self.style.cell(cell).split('\n').collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for number in 0..height {
            let line = cells.iter().zip(&self.widths).enumerate().map(|(index, (lines, wide))| {
                let text = lines.get(number).copied().unwrap_or("");
                let pad = " ".repeat(wide.saturating_sub(width_of(text)));
                let is_number = self.columns[index].kind == Kind::Number;
                let (before, after) = if is_number { (pad.as_str(), "") } else { ("", pad.as_str()) };
                (format!("{before}{text}{after}"), if number + 1 < lines.len() { '+' } else { ' ' })
            });
            writeln!(out, "{}", self.framed(line.collect(), true))?;
        }
        Ok(())
    }
}

impl Rows for Table {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        self.count += 1;
        if let Some(records) = &mut self.records {
            return records.row(cells, out);
        }
        if self.count > LOOK_AHEAD as u64 {
            return self.print(&cells, out);
        }
        self.waiting.push(cells);
        if self.count == LOOK_AHEAD as u64 { self.begin(out) } else { Ok(()) }
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.count < LOOK_AHEAD as u64 {
            self.begin(out)?;
        }
        match &mut self.records {
            Some(records) => records.end(out),
            None => {
                if self.style.border == 2 && !self.style.tuples_only {
                    writeln!(out, "{}", self.rule())?;
                }
                match self.style.count(self.count) {
                    Some(count) => writeln!(out, "{count}\n"),
                    None => writeln!(out),
                }
            }
        }
    }
}

/// Columns of the terminal that the widest line of a text takes.
fn width_of(text: &str) -> usize {
    text.split('\n').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(columns: &[(&str, Kind)], rows: &[&[Option<&str>]], limit: Option<usize>) -> String {
        let columns = columns.iter().map(|(name, kind)| Column { name: name.to_string(), kind: *kind }).collect();
        let mut table = Table::new(columns, limit, &Style::new(super::super::Format::Aligned));
        let mut out = Vec::new();
        for row in rows {
            table.row(row.iter().map(|cell| cell.map(str::to_string)).collect(), &mut out).expect("printed");
        }
        table.end(&mut out).expect("printed");
        String::from_utf8(out).expect("a text")
    }

    #[test]
    fn tables_look_as_psql_prints_them() {
        let columns = [("name", Kind::Text), ("n", Kind::Number)];
        let rows: [&[Option<&str>]; 3] = [&[Some("é"), Some("1")], &[None, Some("-250")], &[Some("two\nlines"), None]];
        let expected = " name  |  n   \n-------+------\n é     |    1\n       | -250\n two  +|\n lines |\n(3 rows)\n\n";
        assert_eq!(printed(&columns, &rows, None), expected);
        assert_eq!(printed(&columns[..1], &[], None), " name \n------\n(0 rows)\n\n");
    }

    #[test]
    fn what_is_wider_than_the_terminal_becomes_records() {
        let columns = [("a", Kind::Text), ("long", Kind::Text)];
        let text = printed(&columns, &[&[Some("x"), Some("0123456789")]], Some(12));
        assert_eq!(text, "-[ RECORD 1 ]----\na    | x\nlong | 0123456789\n\n");
    }
}
