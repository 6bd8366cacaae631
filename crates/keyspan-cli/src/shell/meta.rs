//! The commands that begin with a backslash: psql's, as far as they have a meaning here.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::arguments::Arguments;
use super::script_file::ScriptFile;
use super::variables::truth;
use super::{Input, Next, Shell};
use crate::client::CopyData;
use crate::failure::{Failure, Result};
use crate::output::{Expanded, Format, Out};
use crate::script;

const HELP: &str = "\
Statements
  ;                     run the statement
  \\g [FILE | |PROGRAM]  run it, with its answer to a file or program; without one: the last one again
  \\gx                   run it with a line for each column     \\gset [PREFIX]  its row into variables
  \\gexec                run each cell of its answer            \\watch [SECONDS] [c=TIMES]  run it again and again
  \\e [FILE]             edit it in $EDITOR                     \\p  show it   \\r  throw it away   \\w FILE  write it
Tables
  \\d [NAME]  \\dt \\dv \\dm \\di \\ds \\dn \\df \\dT \\du \\l [PATTERN]   tables, views, materialized views, indexes,
                        sequences, keyspaces, functions, types, roles, databases;  \\d+ NAME  its CREATE TABLE
Files
  \\i FILE  \\ir FILE     run a file's statements; \\ir: beside the file that has this line
  \\copy TABLE | (QUERY) FROM | TO 'FILE' | PROGRAM 'COMMAND' | STDIN | STDOUT [(FORMAT csv, HEADER …)]
  \\o [FILE | |PROGRAM]  answers go there from now on
Looks
  \\x [on|off|auto]      a line for each column                 \\pset [NAME [VALUE]]  format, null, border, pager, …
  \\a  \\t  \\f TEXT  \\C TITLE  unaligned, rows only, separator, title      \\timing [on|off]
Variables
  \\set [NAME VALUE]  \\unset NAME   used as :NAME, :'NAME' as a text, :\"NAME\" as a name
  \\echo TEXT  \\qecho TEXT  \\warn TEXT
Else
  \\c KEYSPACE | URL  \\conninfo  \\cd DIR  \\! COMMAND  \\?  \\q
Tab completes, Ctrl-C cancels.
";

/// How deep files may include each other.
const DEEPEST: usize = 16;
/// Commands whose last argument may end with a semicolon that is not of it.
const TAKES_SEMICOLONS: &[&str] =
    &["set", "echo", "qecho", "warn", "copy", "!", "g", "gx", "o", "out", "w", "f", "pset"];

impl Shell {
    /// Runs the command that begins a text; answers what follows it.
    pub(super) fn meta(&mut self, text: &str, input: &mut Input, data: &mut dyn CopyData) -> Result<(Next, String)> {
        let text = text.trim_end_matches(['\r', '\n']);
        let text = text.strip_prefix('\\').unwrap_or(text);
        if let Some(rest) = text.strip_prefix('\\') {
            return Ok((Next::Line, rest.to_string()));
        }
        let end = text.find(|c: char| c.is_whitespace() || c == '\\').unwrap_or(text.len());
        let (command, rest) = text.split_at(end);
        let rest = if TAKES_SEMICOLONS.contains(&command) { rest } else { rest.trim_end().trim_end_matches(';') };
        let command = command.trim_end_matches(';');
        let variables = self.variables.clone();
        let value = |name: &str| variables.get(name);
        let mut arguments = Arguments::new(rest, &value);
        if matches!(command, "q" | "quit") {
            return Ok((Next::Quit, String::new()));
        }
        if let Some(edited) = self.command(command, &mut arguments, input, data)? {
            return Ok((Next::Line, edited));
        }
        Ok((Next::Line, arguments.rest()))
    }

    /// Runs a command; answers text to go on with, if it is not what follows.
    fn command(
        &mut self,
        command: &str,
        arguments: &mut Arguments,
        input: &mut Input,
        data: &mut dyn CopyData,
    ) -> Result<Option<String>> {
        match command {
            "?" | "h" | "help" => {
                arguments.line();
                self.print(HELP)?;
            }
            "e" | "edit" => {
                let (file, line) = (arguments.next()?, arguments.next()?);
                return self.edit(file.as_deref(), line.as_deref(), input).map(Some);
            }
            "g" | "gx" => self.go(command == "gx", arguments, input, data)?,
            "gset" | "gexec" | "watch" => self.with_answer(command, arguments, input, data)?,
            "p" | "print" | "r" | "reset" | "w" | "write" => self.with_typed(command, arguments, input)?,
            "i" | "include" => self.include(arguments.next()?, false)?,
            "ir" | "include_relative" => self.include(arguments.next()?, true)?,
            "copy" => self.copy(&arguments.line(), data)?,
            "o" | "out" => self.send_to(arguments.file_or_program()?)?,
            "!" => self.program(&arguments.line())?,
            "cd" => self.change_folder(arguments.next()?)?,
            "c" | "connect" => self.connect(&arguments.all()?)?,
            "conninfo" => {
                let place = self.runtime.block_on(self.client.place());
                self.printer.say(&place)?;
            }
            _ if command == "l" || command == "l+" || command.starts_with('d') => {
                self.list(command, arguments.next()?)?;
            }
            _ => self.setting(command, arguments)?,
        }
        Ok(None)
    }

    /// The commands that do something with a statement's answer.
    fn with_answer(
        &mut self,
        command: &str,
        arguments: &mut Arguments,
        input: &mut Input,
        data: &mut dyn CopyData,
    ) -> Result<()> {
        let words = arguments.all()?;
        let statement = self.current(input)?;
        match command {
            "gset" => self.set_from(&statement, words.first().map_or("", String::as_str)),
            "gexec" => self.execute_cells(&statement, data),
            _ => self.watch(&statement, &words),
        }
    }

    /// The commands about the text of a statement.
    fn with_typed(&mut self, command: &str, arguments: &mut Arguments, input: &mut Input) -> Result<()> {
        match command {
            "p" | "print" => {
                let typed = if input.is_blank() { &self.previous } else { &input.statement };
                Ok(self.printer.say(typed.trim_end())?)
            }
            "r" | "reset" => {
                input.clear();
                self.say("Query buffer reset (cleared).")
            }
            _ => self.write(arguments.file_or_program()?, input),
        }
    }

    /// The commands about how the shell behaves.
    fn setting(&mut self, command: &str, arguments: &mut Arguments) -> Result<()> {
        match command {
            "set" => self.set(arguments),
            "unset" => {
                let name = needed(arguments.next()?, "\\unset", "the name of a variable")?;
                self.variables.unset(&name);
                Ok(())
            }
            "timing" => {
                self.timing = switched("timing", arguments.next()?.as_deref(), self.timing)?;
                self.say(if self.timing { "Timing is on." } else { "Timing is off." })
            }
            "echo" => Ok(std::io::stdout().write_all(echoed(arguments)?.as_bytes())?),
            "qecho" => self.print(&echoed(arguments)?),
            "warn" => Ok(std::io::stderr().write_all(echoed(arguments)?.as_bytes())?),
            _ => self.look(command, arguments),
        }
    }

    /// The commands about how rows look.
    fn look(&mut self, command: &str, arguments: &mut Arguments) -> Result<()> {
        let is_aligned = self.printer.style.format == Format::Aligned;
        let name = match command {
            "pset" => arguments.next()?,
            "x" => Some("expanded".to_string()),
            "t" => Some("tuples_only".to_string()),
            "f" => Some("fieldsep".to_string()),
            "C" => Some("title".to_string()),
            "a" => return self.pset(Some("format"), Some(if is_aligned { "unaligned" } else { "aligned" })),
            other => {
                let failure = Failure::new(format!("invalid command \\{other}"));
                return Err(failure.with_hint("Try \\? for help."));
            }
        };
        self.pset(name.as_deref(), arguments.next()?.as_deref())
    }

    /// `\o`: where answers go from now on.
    fn send_to(&mut self, target: Option<String>) -> Result<()> {
        let out = match target {
            Some(target) => Out::to(&target)?,
            None => Out::screen(self.printer.activity.clone()),
        };
        self.printer.redirect(out).close()
    }

    /// The statement that a command is about: what has been typed, or the one before.
    fn current(&mut self, input: &mut Input) -> Result<String> {
        let statement = std::mem::take(input).statement;
        match script::is_blank(&statement) {
            false => Ok(statement.trim().to_string()),
            true if self.previous.is_empty() => Err(Failure::new("there is no statement yet")),
            true => Ok(self.previous.clone()),
        }
    }

    /// `\g [(name=value …)] [file | |program]`.
    fn go(
        &mut self,
        expanded: bool,
        arguments: &mut Arguments,
        input: &mut Input,
        data: &mut dyn CopyData,
    ) -> Result<()> {
        let mut style = self.printer.style.clone();
        if expanded {
            style.expanded = Expanded::On;
        }
        let mut target = arguments.file_or_program()?;
        if let Some(mut words) = target.clone().filter(|word| word.starts_with('(')) {
            while !words.ends_with(')') {
                words = format!("{words} {}", needed(arguments.next()?, "\\g", "a closing parenthesis")?);
            }
            for option in words.trim_matches(['(', ')']).split_whitespace() {
                let (name, value) = option.split_once('=').unwrap_or((option, ""));
                style.set(name, Some(value), self.width())?;
            }
            target = arguments.file_or_program()?;
        }
        let statement = self.current(input)?;
        self.execute_to(&statement, target.as_deref(), style, data)
    }

    fn set(&mut self, arguments: &mut Arguments) -> Result<()> {
        match arguments.next()? {
            None => self.variables.list().iter().try_for_each(|line| self.printer.say(line))?,
            Some(name) => {
                let value = arguments.all()?.concat();
                let is_switch = value.is_empty() && matches!(name.as_str(), "ON_ERROR_STOP" | "QUIET");
                self.variables.set(&name, if is_switch { "on" } else { &value })?;
            }
        }
        Ok(())
    }

    fn include(&mut self, path: Option<String>, beside: bool) -> Result<()> {
        let path = PathBuf::from(needed(path, "\\i", "a file")?);
        if self.files.len() >= DEEPEST {
            return Err(Failure::new(format!("{}: files include each other more than {DEEPEST} deep", path.display())));
        }
        let path = match self.files.last().filter(|_| beside) {
            Some(file) => file.folder().join(path),
            None => path,
        };
        self.run_file(&path)
    }

    /// Runs the statements of a file.
    pub fn run_file(&mut self, path: &Path) -> Result<()> {
        let (file, mut lines) = ScriptFile::open(path)?;
        self.files.push(file);
        let result = self.run_script(&mut lines);
        self.files.pop();
        result
    }

    fn change_folder(&mut self, folder: Option<String>) -> Result<()> {
        let folder = folder.map(PathBuf::from).or_else(std::env::home_dir);
        let folder = folder.ok_or_else(|| Failure::new("there is no home directory"))?;
        std::env::set_current_dir(&folder).map_err(|error| Failure::from(error).context(folder.display()))
    }

    fn program(&mut self, command: &str) -> Result<()> {
        self.printer.out().flush()?;
        let command =
            if command.is_empty() { std::env::var("SHELL").unwrap_or_else(|_| "sh".into()) } else { command.into() };
        let status = std::process::Command::new("sh").arg("-c").arg(&command).status()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("{command} ended with {status}"))) }
    }

    /// `\c`: another server, or another keyspace of this one.
    fn connect(&mut self, words: &[String]) -> Result<()> {
        if words.len() > 1 {
            let failure = Failure::new(format!("\\c takes a keyspace or a URL, and not \"{}\", too", words[1]));
            return Err(failure.with_hint("To be another user, or elsewhere: \\c postgres://USER@HOST:PORT"));
        }
        match words.first().map(String::as_str) {
            Some(url) if url.contains("://") => {
                let remote = self.runtime.block_on(crate::client::Remote::connect(url))?;
                let before = std::mem::replace(&mut self.client, crate::client::Client::Remote(Box::new(remote)));
                let _within = self.runtime.enter();
                before.close()?;
            }
            Some(keyspace) => self.run_quietly(&format!("SET search_path = {keyspace}"))?,
            None => {}
        }
        let place = self.runtime.block_on(self.client.place());
        self.say(&place.replacen("You are", "You are now", 1))
    }

    fn print(&mut self, text: &str) -> Result<()> {
        write!(self.printer.out(), "{text}")?;
        Ok(self.printer.out().flush()?)
    }
}

/// An argument that must be there.
pub(super) fn needed(argument: Option<String>, command: &str, what: &str) -> Result<String> {
    argument.ok_or_else(|| Failure::new(format!("{command} needs {what}")))
}

/// `on`, `off`, or the other one.
pub(super) fn switched(what: &str, argument: Option<&str>, now: bool) -> Result<bool> {
    match argument {
        None => Ok(!now),
        Some(text) => {
            truth(text).ok_or_else(|| Failure::new(format!("\"{text}\" is neither on nor off: {what} is as it was")))
        }
    }
}

/// The arguments of `\echo` with blanks between them; `-n` takes the line's end away.
fn echoed(arguments: &mut Arguments) -> Result<String> {
    let mut words = arguments.all()?;
    let end = if words.first().is_some_and(|word| word == "-n") { "" } else { "\n" };
    if end.is_empty() {
        words.remove(0);
    }
    Ok(format!("{}{end}", words.join(" ")))
}
