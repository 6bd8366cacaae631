//! Running a statement: on the server, with its time, its notices and where its answer goes.

use std::time::{Duration, Instant};

use super::{Shell, told};
use crate::client::{Column, CopyData, Sink};
use crate::failure::{Failure, Result};
use crate::output::{Out, Style};
use crate::script;

impl Shell {
    /// Runs one statement and prints its answer and its time. Failures are reported here.
    pub(super) fn execute(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        if script::is_blank(statement) {
            return Ok(());
        }
        if self.variables.echoes() {
            self.printer.say(statement)?;
        }
        self.previous = statement.to_string();
        let result = self.run(statement, data);
        let error = result.as_ref().err().map(|failure| failure.message.clone());
        self.variables.note(self.printer.count(), error.as_deref());
        result.map_err(|failure| told(failure, Some(statement)))
    }

    fn run(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        let started = Instant::now();
        let watch = self.printer.activity.watched();
        let tags = self.printer.tags;
        self.printer.tags &= !self.variables.is_quiet();
        let result = self.runtime.block_on(self.client.run_interruptibly(statement, &mut self.printer, data));
        self.printer.tags = tags;
        drop(watch);
        for notice in self.client.take_notices() {
            eprintln!("{notice}");
        }
        if let Err(failure) = result {
            let left = failure.is_closed_output() && self.printer.out().was_left();
            self.printer.interrupt()?;
            return if left { Ok(()) } else { Err(failure) };
        }
        if self.timing {
            self.printer.say(&timing(started.elapsed()))?;
        }
        Ok(())
    }

    /// Runs a statement with its answer in another place and form, if one is given: `\g`.
    pub(super) fn execute_to(
        &mut self,
        statement: &str,
        target: Option<&str>,
        style: Style,
        data: &mut dyn CopyData,
    ) -> Result<()> {
        let out = target.map(Out::to).transpose()?;
        let style = std::mem::replace(&mut self.printer.style, style);
        let before = out.map(|out| self.printer.redirect(out));
        let result = self.execute(statement, data);
        self.printer.style = style;
        let closed = match before {
            Some(before) => self.printer.redirect(before).close(),
            None => Ok(()),
        };
        result.and(closed)
    }

    /// Runs a statement of the shell's own, which is not timed and has no tag.
    pub(super) fn run_quietly(&mut self, statement: &str) -> Result<()> {
        let tags = std::mem::take(&mut self.printer.tags);
        let result = self.runtime.block_on(self.client.run_interruptibly(statement, &mut self.printer, &mut ()));
        self.printer.tags = tags;
        if let Err(failure) = result {
            let left = failure.is_closed_output() && self.printer.out().was_left();
            self.printer.interrupt()?;
            return if left { Ok(()) } else { Err(failure) };
        }
        Ok(())
    }

    /// The rows of a statement of the shell's own.
    pub(super) fn rows(&mut self, statement: &str) -> Result<Table> {
        let mut table = Table::default();
        self.runtime.block_on(self.client.run_interruptibly(statement, &mut table, &mut ()))?;
        Ok(table)
    }

    /// Says something about the shell itself, unless it is quiet.
    pub(super) fn say(&mut self, line: &str) -> Result<()> {
        if !self.variables.is_quiet() {
            self.printer.say(line)?;
        }
        Ok(())
    }

    /// `\gset`: each column of the only row becomes a variable.
    pub(super) fn set_from(&mut self, statement: &str, prefix: &str) -> Result<()> {
        self.previous = statement.to_string();
        let table = self.rows(statement).map_err(|failure| told(failure, Some(statement)))?;
        let [row] = table.rows.as_slice() else {
            let found = if table.rows.is_empty() { "no rows" } else { "more than one row" };
            return Err(Failure::new(format!("{found} returned for \\gset")));
        };
        for (name, cell) in table.names.iter().zip(row) {
            match cell {
                Some(cell) => self.variables.set(&format!("{prefix}{name}"), cell)?,
                None => self.variables.unset(&format!("{prefix}{name}")),
            }
        }
        self.variables.note(1, None);
        Ok(())
    }

    /// `\gexec`: each cell of the answer is a statement.
    pub(super) fn execute_cells(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        let table = self.rows(statement).map_err(|failure| told(failure, Some(statement)))?;
        for cell in table.rows.into_iter().flatten().flatten() {
            self.execute(&cell, data)?;
        }
        self.previous = statement.to_string();
        Ok(())
    }
}

/// A time as psql's `\timing` shows it.
fn timing(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    let line = format!("Time: {:.3} ms", seconds * 1000.0);
    match seconds {
        short if short < 1.0 => line,
        long if long < 60.0 => format!("{line} (00:{long:06.3})"),
        long => format!("{line} ({:02}:{:06.3})", (long / 60.0) as u64, long % 60.0),
    }
}

/// An answer that is kept.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<Option<String>>>,
}

impl Sink for Table {
    fn wants_json(&self) -> bool {
        false
    }

    fn columns(&mut self, columns: Vec<Column>) -> std::io::Result<()> {
        self.names = columns.into_iter().map(|column| column.name).collect();
        Ok(())
    }

    fn row(&mut self, cells: Vec<Option<String>>) -> std::io::Result<()> {
        self.rows.push(cells);
        Ok(())
    }

    fn bytes(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn done(&mut self, _: &str) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_psql_shows_them() {
        assert_eq!(timing(Duration::from_micros(1234)), "Time: 1.234 ms");
        assert_eq!(timing(Duration::from_millis(2500)), "Time: 2500.000 ms (00:02.500)");
        assert_eq!(timing(Duration::from_millis(61_000)), "Time: 61000.000 ms (01:01.000)");
    }
}
