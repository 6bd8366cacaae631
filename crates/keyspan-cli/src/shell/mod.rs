//! Statements from a script or a person, run one after the other, and psql's commands between them.
//!
//! The rule: what psql's users know holds here, too. A script ends at its first error, unless `\set ON_ERROR_STOP off`;
//! a conversation goes on. Commands begin with a backslash outside of texts and comments, also behind a statement.

mod arguments;
mod complete;
mod converse;
mod copy;
mod edit;
mod listing;
mod meta;
mod pset;
mod run;
mod script_file;
mod variables;

use std::io::{self, BufRead};

use tokio::runtime::Runtime;

use crate::client::{Client, CopyData};
use crate::failure::{Failure, Result};
use crate::output::{Out, Printer};
use crate::script::{self, Lexer, Line, Stop};
use script_file::ScriptFile;
use variables::Variables;

/// Runs statements on one client.
pub struct Shell {
    runtime: Runtime,
    client: Client,
    /// Prints the answers.
    pub printer: Printer,
    /// The variables of `\set`.
    pub variables: Variables,
    timing: bool,
    /// The statement that ran last, for `\g` and `\e`.
    previous: String,
    /// The files being read, each included by the one before; their number ends a circle.
    files: Vec<ScriptFile>,
    /// Whether a person types the statements.
    is_conversation: bool,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    Quit,
}

/// What has been read of the next statement.
#[derive(Default)]
struct Input {
    lexer: Lexer,
    statement: String,
}

impl Input {
    fn is_blank(&self) -> bool {
        self.lexer.is_plain() && script::is_blank(&self.statement)
    }

    fn clear(&mut self) {
        *self = Input::default();
    }
}

impl Shell {
    /// A shell that runs statements on this client.
    pub fn new(runtime: Runtime, client: Client, printer: Printer) -> Shell {
        Shell {
            runtime,
            client,
            printer,
            variables: Variables::default(),
            timing: false,
            previous: String::new(),
            files: Vec::new(),
            is_conversation: false,
        }
    }

    /// Frees the database.
    pub fn close(mut self) -> Result<()> {
        let out = self.printer.redirect(Out::screen(self.printer.activity.clone()));
        let closed = out.close();
        let Shell { runtime, client, .. } = self;
        let _within = runtime.enter();
        client.close().and(closed)
    }

    /// Runs a script until its end or its first error, which is reported here.
    pub fn run_script(&mut self, reader: &mut dyn BufRead) -> Result<()> {
        let mut input = Input::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            let is_last = read.map_err(|error| Failure::from(error).context("the script"))? == 0;
            let text = String::from_utf8(std::mem::take(&mut line))
                .map_err(|_| Failure::new("the script is not UTF-8").with_hint("Convert it first, as with iconv."))?;
            let taken = match is_last {
                false => self.take_line(&text, &mut input, &mut Lines { reader }),
                true => self.take_rest(&mut input, &mut Lines { reader }),
            };
            match taken {
                Ok(Next::Line) if !is_last => {}
                Ok(_) => return Ok(()),
                Err(failure) => {
                    let failure = self.report(failure, None);
                    if failure.is_closed_output() || self.variables.stops_at_errors() {
                        return Err(failure);
                    }
                    input.clear();
                    if is_last {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reads a line, and runs what is whole by it.
    fn take_line(&mut self, line: &str, input: &mut Input, data: &mut dyn CopyData) -> Result<Next> {
        let mut line = Line::new(line);
        loop {
            let value = |name: &str| self.variables.get(name);
            match input.lexer.read(&mut line, &mut input.statement, &value) {
                Stop::End => {
                    if input.is_blank() {
                        input.clear();
                    }
                    return Ok(Next::Line);
                }
                Stop::Semicolon => {
                    let statement = std::mem::take(&mut input.statement);
                    self.execute(statement.trim(), data)?;
                }
                Stop::Backslash => {
                    let (next, rest) = self.meta(&line.take_rest(), input, data)?;
                    if next == Next::Quit {
                        return Ok(next);
                    }
                    line.push("", rest);
                }
            }
        }
    }

    /// Reports a script's failure; what goes up says only that there was one.
    fn report(&self, failure: Failure, statement: Option<&str>) -> Failure {
        if failure.is_closed_output() {
            return failure;
        }
        failure.report_at(&self.place(), statement);
        Failure::reported()
    }

    /// What stands in front of messages, as psql has it: the file being read and its line.
    fn place(&self) -> String {
        self.files.last().map_or_else(String::new, ScriptFile::place)
    }

    /// Runs a last statement that has no semicolon.
    fn take_rest(&mut self, input: &mut Input, data: &mut dyn CopyData) -> Result<Next> {
        if input.lexer.is_in_comment() {
            return Err(Failure::new("unterminated /* comment"));
        }
        let statement = std::mem::take(&mut input.statement);
        self.execute(statement.trim(), data)?;
        Ok(Next::Line)
    }
}

/// COPY data that stands in the script behind its statement, up to a line `\.`.
struct Lines<'a> {
    reader: &'a mut dyn BufRead,
}

impl CopyData for Lines<'_> {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        let is_end = line.is_empty() || line.trim_ascii_end() == b"\\.";
        Ok((!is_end).then_some(line))
    }
}
