//! Rows as an array of JSON objects, one on each line. Cells arrive as JSON values.

use std::io::{self, Write};

use super::Rows;
use crate::client::Column;

pub(super) struct Json {
    /// The columns' names as JSON strings.
    names: Vec<String>,
    first: bool,
}

impl Json {
    pub(super) fn new(columns: Vec<Column>) -> Json {
        let quoted = |column: &Column| {
            let mut name = String::new();
            keyspan::text::json_string(&column.name, &mut name);
            name
        };
        Json { names: columns.iter().map(quoted).collect(), first: true }
    }

    fn separate(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let separator: &[u8] = if std::mem::take(&mut self.first) { b"[" } else { b",\n " };
        out.write_all(separator)
    }
}

impl Rows for Json {
    fn row(&mut self, cells: Vec<Option<String>>, out: &mut dyn Write) -> io::Result<()> {
        self.separate(out)?;
        for (index, (name, cell)) in self.names.iter().zip(&cells).enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            write!(out, "{before}{name}:{}", cell.as_deref().unwrap_or("null"))?;
        }
        out.write_all(if cells.is_empty() { b"{}" } else { b"}" })
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.first {
            out.write_all(b"[")?;
        }
        out.write_all(b"]\n")
    }
}
