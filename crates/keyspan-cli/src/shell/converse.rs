//! A person at a terminal: prompts, completion, history.

use std::io;
use std::path::PathBuf;

use keyspan::TransactionStatus;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::Completion;
use super::{Input, Next, Shell};
use crate::client::CopyData;
use crate::failure::{Failure, Result};
use crate::output::{Expanded, columns_of_terminal};

/// Commands that the history keeps.
const HISTORY_LENGTH: usize = 10_000;

type LineEditor = Editor<Completion, DefaultHistory>;

impl Shell {
    /// Reads statements from a person until they leave.
    pub fn converse(&mut self) -> Result<()> {
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false);
        let config = config.max_history_size(HISTORY_LENGTH).map_err(ended)?.build();
        let mut editor: LineEditor = Editor::with_config(config).map_err(ended)?;
        editor.set_helper(Some(Completion::default()));
        let history = in_home(".keyspan_history");
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        self.is_conversation = true;
        if !self.variables.is_quiet() {
            say!("keyspan {} — \\? for help, \\q to quit", env!("CARGO_PKG_VERSION"));
        }
        let result = self.read_lines(&mut editor);
        if let Some(history) = &history {
            // A history that cannot be kept is no reason to fail.
            let _ = editor.save_history(history);
        }
        result
    }

    /// Runs `~/.keyspanrc`, as psql does its own.
    pub fn run_start_file(&mut self) -> Result<()> {
        match in_home(".keyspanrc").filter(|path| path.is_file()) {
            Some(path) => match self.run_file(&path) {
                // It was reported; the conversation begins all the same.
                Err(failure) if !failure.is_closed_output() => {
                    failure.report(None);
                    Ok(())
                }
                other => other,
            },
            None => Ok(()),
        }
    }

    fn read_lines(&mut self, editor: &mut LineEditor) -> Result<()> {
        let mut input = Input::default();
        // What has been typed of the statement, for the history.
        let mut typed = String::new();
        loop {
            if typed.is_empty() {
                self.refresh(editor);
            }
            if let Expanded::Wider(width) = &mut self.printer.style.expanded {
                *width = columns_of_terminal();
            }
            let line = match editor.readline(&self.prompt(&input, typed.is_empty())) {
                Ok(line) => line,
                // Ctrl-C throws away what was typed.
                Err(ReadlineError::Interrupted) => {
                    input.clear();
                    typed.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(ended(error)),
            };
            if typed.is_empty() && matches!(line.trim(), "quit" | "exit") {
                return Ok(());
            }
            typed.push_str(&line);
            typed.push('\n');
            if self.take_typed(&line, &mut input, editor)? == Next::Quit {
                return Ok(());
            }
            // What was typed over several lines comes back as one entry.
            if input.is_blank() {
                remember(editor, &std::mem::take(&mut typed))?;
            }
        }
    }

    /// Runs what is whole by a line. Failures are reported, and the conversation goes on.
    fn take_typed(&mut self, line: &str, input: &mut Input, editor: &mut LineEditor) -> Result<Next> {
        match self.take_line(&format!("{line}\n"), input, &mut Typed { editor }) {
            Err(failure) if !failure.is_closed_output() => {
                input.clear();
                failure.report(None);
                Ok(Next::Line)
            }
            other => other,
        }
    }

    fn refresh(&mut self, editor: &mut LineEditor) {
        let names = self.runtime.block_on(self.client.names());
        if let Some(helper) = editor.helper_mut() {
            helper.set_names(names);
        }
    }

    /// As psql's: `*` in a transaction, `!` in a failed one, `-` inside a statement, the quote inside of quotes.
    fn prompt(&self, input: &Input, at_start: bool) -> String {
        let transaction = match self.client.status() {
            Some(TransactionStatus::Open) => "*",
            Some(TransactionStatus::Failed) => "!",
            _ => "",
        };
        let place = match input.lexer.prompt() {
            "" if at_start => "=",
            "" => "-",
            quote => quote,
        };
        format!("keyspan{place}{transaction}> ")
    }
}

fn remember(editor: &mut LineEditor, typed: &str) -> Result<()> {
    if !typed.trim().is_empty() {
        editor.add_history_entry(typed.trim()).map_err(ended)?;
    }
    Ok(())
}

fn ended(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal: {error}"))
}

/// A file in the home directory.
fn in_home(name: &str) -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(name))
}

/// COPY data typed by a person, up to a line `\.` or Ctrl-D.
struct Typed<'a> {
    editor: &'a mut LineEditor,
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
