//! Statements from a script or a person, run one after the other.
//!
//! The rule: a script ends at its first error, a conversation goes on. Meta commands begin with a backslash at the start
//! of a line that continues no statement.

mod complete;
mod meta;

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use keyspan::TransactionStatus;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use crate::client::{Client, CopyData};
use crate::failure::{Failure, Result};
use crate::output::{Expanded, Printer};
use crate::script;
use complete::Completion;

/// Commands that the history keeps.
const HISTORY_LENGTH: usize = 10_000;

/// Where the answers go.
pub type Output = io::BufWriter<io::Stdout>;

/// Runs statements on one client.
pub struct Shell {
    runtime: Runtime,
    client: Client,
    /// Prints the answers.
    pub printer: Printer<Output>,
    timing: bool,
    /// Files being included by `\i`, to end a circle.
    depth: usize,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    Quit,
}

impl Shell {
    /// A shell that runs statements on this client.
    pub fn new(runtime: Runtime, client: Client, printer: Printer<Output>) -> Shell {
        Shell { runtime, client, printer, timing: false, depth: 0 }
    }

    /// Frees the database.
    pub fn close(self) -> Result<()> {
        let Shell { runtime, client, .. } = self;
        let _within = runtime.enter();
        client.close()
    }

    /// Runs a script until its end or its first error, which is reported here.
    pub fn run_script(&mut self, reader: &mut dyn BufRead) -> Result<()> {
        let mut pending = String::new();
        let mut line = String::new();
        loop {
            line.clear();
            let is_last = reader.read_line(&mut line).map_err(|error| Failure::from(error).context("the script"))? == 0;
            if script::is_blank(&pending) && line.starts_with('\\') {
                pending.clear();
                match self.meta(line.trim_end()) {
                    Ok(Next::Line) => continue,
                    Ok(Next::Quit) => return Ok(()),
                    Err(failure) => return Err(told(failure, None)),
                }
            }
            pending.push_str(&line);
            let mut split = script::split(&pending);
            if is_last && !script::is_blank(&split.rest) {
                split.statements.push(std::mem::take(&mut split.rest).trim().to_string());
            }
            pending = split.rest;
            for statement in &split.statements {
                let ran = self.run(statement, &mut Lines { reader });
                ran.map_err(|failure| told(failure, Some(statement)))?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Runs one statement and prints its answer and its time.
    fn run(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<()> {
        if script::is_blank(statement) {
            return Ok(());
        }
        let started = Instant::now();
        let result = self.runtime.block_on(self.client.run_interruptibly(statement, &mut self.printer, data));
        for notice in self.client.take_notices() {
            eprintln!("{notice}");
        }
        if result.is_err() {
            self.printer.interrupt()?;
        }
        result?;
        if self.timing {
            println!("Time: {}", timing(started.elapsed()));
        }
        Ok(())
    }

    /// Reads statements from a person until they leave.
    pub fn converse(&mut self) -> Result<()> {
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false);
        let config = config.max_history_size(HISTORY_LENGTH).map_err(ended)?.build();
        let mut editor: Editor<Completion, DefaultHistory> = Editor::with_config(config).map_err(ended)?;
        editor.set_helper(Some(Completion::default()));
        let history = history_file();
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        self.printer.expanded = Expanded::Wider(80);
        println!("keyspan {} — \\? for help, \\q to quit", env!("CARGO_PKG_VERSION"));
        let result = self.read_lines(&mut editor);
        if let Some(history) = &history {
            // A history that cannot be kept is no reason to fail.
            let _ = editor.save_history(history);
        }
        result
    }

    fn read_lines(&mut self, editor: &mut Editor<Completion, DefaultHistory>) -> Result<()> {
        let mut pending = String::new();
        loop {
            if script::is_blank(&pending) {
                pending.clear();
                self.refresh(editor);
            }
            if let Expanded::Wider(width) = &mut self.printer.expanded {
                *width = editor.dimensions().map_or(80, |(wide, _)| usize::from(wide));
            }
            let line = match editor.readline(&self.prompt(pending.is_empty())) {
                Ok(line) => line,
                // Ctrl-C throws away what was typed.
                Err(ReadlineError::Interrupted) => {
                    pending.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(ended(error)),
            };
            match self.take_line(&line, &mut pending, editor) {
                Ok(Next::Line) => {}
                Ok(Next::Quit) => return Ok(()),
                Err(failure) if failure.is_closed_output() => return Err(failure),
                Err(failure) => failure.report(None),
            }
        }
    }

    fn take_line(
        &mut self,
        line: &str,
        pending: &mut String,
        editor: &mut Editor<Completion, DefaultHistory>,
    ) -> Result<Next> {
        if pending.is_empty() && line.trim_start().starts_with('\\') {
            editor.add_history_entry(line.trim()).map_err(ended)?;
            return self.meta(line.trim());
        }
        if pending.is_empty() && matches!(line.trim(), "quit" | "exit") {
            return Ok(Next::Quit);
        }
        pending.push_str(line);
        pending.push('\n');
        let split = script::split(pending);
        if split.statements.is_empty() {
            return Ok(Next::Line);
        }
        // What was typed over several lines comes back as one entry.
        editor.add_history_entry(split.statements.join(" ")).map_err(ended)?;
        *pending = split.rest.trim_start().to_string();
        for statement in &split.statements {
            let mut data = Typed { editor };
            if let Err(failure) = self.run(statement, &mut data) {
                failure.report(Some(statement));
                break;
            }
        }
        Ok(Next::Line)
    }

    fn refresh(&mut self, editor: &mut Editor<Completion, DefaultHistory>) {
        let names = self.runtime.block_on(self.client.names());
        if let Some(helper) = editor.helper_mut() {
            helper.set_names(names);
        }
    }

    /// As psql's: `*` in a transaction, `!` in a failed one, `-` inside a statement.
    fn prompt(&self, at_start: bool) -> String {
        let transaction = match self.client.status() {
            Some(TransactionStatus::Open) => "*",
            Some(TransactionStatus::Failed) => "!",
            _ => "",
        };
        format!("keyspan{}{transaction}> ", if at_start { "=" } else { "-" })
    }
}

/// Reports a script's failure; what goes up says only that there was one.
fn told(failure: Failure, statement: Option<&str>) -> Failure {
    if failure.is_closed_output() {
        return failure;
    }
    failure.report(statement);
    Failure::reported()
}

fn ended(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal: {error}"))
}

/// `~/.keyspan_history`.
fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".keyspan_history"))
}

/// A time as psql's `\timing` shows it.
fn timing(took: Duration) -> String {
    format!("{:.3} ms", took.as_secs_f64() * 1000.0)
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

/// COPY data typed by a person, up to a line `\.` or Ctrl-D.
struct Typed<'a> {
    editor: &'a mut Editor<Completion, DefaultHistory>,
}

impl CopyData for Typed<'_> {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.editor.readline(">> ") {
            Ok(line) if line == "\\." => Ok(None),
            Ok(line) => Ok(Some(format!("{line}\n").into_bytes())),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Shell {
    /// Runs a statement of the shell's own, which is not timed and has no tag.
    fn run_quietly(&mut self, statement: &str) -> Result<()> {
        let tags = std::mem::take(&mut self.printer.tags);
        let result = self.runtime.block_on(self.client.run(statement, &mut self.printer, &mut ()));
        self.printer.tags = tags;
        result
    }
}
