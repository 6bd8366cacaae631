//! Running a statement: on the server, with its time, its notices and where its answer goes.

use std::time::{Duration, Instant};

use super::Shell;
use crate::client::{CopyData, Table};
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
        self.noted(result).map_err(|failure| self.told(failure, statement))
    }

    /// Reports the failure of a statement.
    fn told(&self, failure: Failure, statement: &str) -> Failure {
        let failure = self.report(failure, Some(statement));
        if self.variables.echoes_errors() && !failure.is_closed_output() {
            eprintln!("STATEMENT:  {statement}");
        }
        failure
    }

    fn run(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        let started = Instant::now();
        self.send(statement, data)?;
        if self.timing {
            self.printer.say(&timing(started.elapsed()))?;
        }
        Ok(())
    }

    /// Sends a statement and prints its answer.
    pub(super) fn send(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        self.attended(!self.variables.is_quiet(), |shell| {
            shell.runtime.block_on(shell.client.run_interruptibly(statement, &mut shell.printer, data))
        })
    }

    /// Runs what sends a statement: shows how long it takes, tells its notices, and leaves no half of an answer. Who
    /// leaves the pager has seen enough.
    pub(super) fn attended(&mut self, tags: bool, send: impl FnOnce(&mut Shell) -> Result<()>) -> Result<()> {
        let watch = self.printer.activity.watched();
        let before = self.printer.tags;
        self.printer.tags &= tags;
        let result = send(self);
        self.printer.tags = before;
        drop(watch);
        for notice in self.client.take_notices() {
            eprintln!("{}{notice}", self.place());
        }
        let Err(failure) = result else { return Ok(()) };
        let left = failure.is_closed_output() && self.printer.out().was_left();
        self.printer.interrupt()?;
        if left { Ok(()) } else { Err(failure) }
    }

    /// Notes what became of a statement in the variables that tell it.
    pub(super) fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        let error = result.as_ref().err().map(|failure| failure.message.as_str());
        self.variables.note(self.printer.count(), error);
        result
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
        self.attended(false, |shell| {
            shell.runtime.block_on(shell.client.run_interruptibly(statement, &mut shell.printer, &mut ()))
        })
    }

    /// The rows of a statement of the shell's own.
    pub(super) fn rows(&mut self, statement: &str) -> Result<Table> {
        self.runtime.block_on(self.client.rows(statement))
    }

    /// The rows of a statement of the user's.
    fn answer(&mut self, statement: &str) -> Result<Table> {
        self.previous = statement.to_string();
        let mut table = Table::default();
        let result = self.attended(false, |shell| {
            shell.runtime.block_on(shell.client.run_interruptibly(statement, &mut table, &mut ()))
        });
        self.variables.note(table.rows.len() as u64, result.as_ref().err().map(|failure| failure.message.as_str()));
        result.map_err(|failure| self.told(failure, statement))?;
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
        let table = self.answer(statement)?;
        let [row] = table.rows.as_slice() else {
            let found = if table.rows.is_empty() { "no rows" } else { "more than one row" };
            let failure = Failure::new(format!("{found} returned for \\gset"));
            self.variables.note(0, Some(&failure.message));
            return Err(failure);
        };
        for (name, cell) in table.names.iter().zip(row) {
            match cell {
                Some(cell) => self.variables.set(&format!("{prefix}{name}"), cell)?,
                None => self.variables.unset(&format!("{prefix}{name}")),
            }
        }
        Ok(())
    }

    /// `\gexec`: each cell of the answer is a statement.
    pub(super) fn execute_cells(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        for cell in self.answer(statement)?.rows.into_iter().flatten().flatten() {
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
