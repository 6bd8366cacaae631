//! The commands that begin with a backslash: psql's, as far as they have a meaning here.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use super::{Next, Shell};
use crate::client::{Column, CopyData, Sink};
use crate::failure::{Failure, Result};
use crate::output::Expanded;

const HELP: &str = "\\d           tables and views          \\d NAME       a table's columns and key
\\d+ NAME      its CREATE TABLE
\\dt          tables                    \\dn           keyspaces
\\l           databases                 \\timing       time of each statement, on or off
\\x           a line for each column    \\i FILE       run a file's statements
\\copy TABLE | (QUERY) FROM | TO 'FILE' [(FORMAT csv, HEADER …)]
\\?           this help                 \\q           quit
A statement ends with a semicolon. Tab completes, Ctrl-C cancels.
";

const TABLES: &str = "SELECT table_schema AS \"Keyspace\", table_name AS \"Name\", \
    CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END AS \"Type\" FROM information_schema.tables \
    WHERE table_schema NOT IN ('pg_catalog', 'information_schema')";
const KEYSPACES: &str = "SELECT schema_name AS \"Name\" FROM information_schema.schemata \
    WHERE schema_name NOT IN ('pg_catalog', 'information_schema') ORDER BY 1";
const DATABASES: &str = "SELECT datname AS \"Name\" FROM pg_catalog.pg_database ORDER BY 1";

/// Bytes of a file that are sent at a time.
const PIECE: usize = 256 * 1024;
/// How deep files may include each other.
const DEEPEST: usize = 16;

impl Shell {
    /// Runs a command.
    pub(super) fn meta(&mut self, line: &str) -> Result<Next> {
        let line = line.trim().trim_end_matches(';');
        let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        match command {
            "\\q" | "\\quit" => return Ok(Next::Quit),
            "\\?" | "\\h" | "\\help" => print!("{HELP}"),
            "\\d" if !argument.is_empty() => self.run_quietly(&format!("SHOW COLUMNS FROM {argument}"))?,
            "\\d+" if !argument.is_empty() => self.run_quietly(&format!("DESCRIBE TABLE {argument}"))?,
            "\\d" | "\\d+" => self.run_quietly(&format!("{TABLES} ORDER BY 1, 2"))?,
            "\\dt" | "\\dt+" => self.run_quietly(&format!("{TABLES} AND table_type <> 'VIEW' ORDER BY 1, 2"))?,
            "\\dv" => self.run_quietly(&format!("{TABLES} AND table_type = 'VIEW' ORDER BY 1, 2"))?,
            "\\dn" | "\\dn+" => self.run_quietly(KEYSPACES)?,
            "\\l" | "\\l+" => self.run_quietly(DATABASES)?,
            "\\timing" => {
                self.timing = switched(argument, self.timing)?;
                println!("Timing is {}.", if self.timing { "on" } else { "off" });
            }
            "\\x" => {
                let on = switched(argument, self.printer.expanded == Expanded::On)?;
                self.printer.expanded = if on { Expanded::On } else { Expanded::Off };
                println!("Expanded display is {}.", if on { "on" } else { "off" });
            }
            "\\i" | "\\include" => self.include(argument)?,
            "\\copy" => self.copy(argument)?,
            other => return Err(Failure::new(format!("unknown command {other}")).with_hint("\\? lists the commands.")),
        }
        Ok(Next::Line)
    }

    fn include(&mut self, path: &str) -> Result<()> {
        let path = path.trim_matches('\'');
        if self.depth >= DEEPEST {
            return Err(Failure::new(format!("\\i {path}: files include each other more than {DEEPEST} deep")));
        }
        let file = File::open(path).map_err(|error| Failure::from(error).context(path))?;
        self.depth += 1;
        let result = self.run_script(&mut BufReader::new(file));
        self.depth -= 1;
        result
    }

    /// `\copy … FROM 'file' …` is `COPY … FROM STDIN …` with the file's bytes, and the other way round.
    fn copy(&mut self, arguments: &str) -> Result<()> {
        let Some(Copy { before, is_from, file, options }) = Copy::parse(arguments) else {
            let failure = Failure::new("\\copy needs a table or a query, FROM or TO, and a file");
            return Err(failure.with_hint("\\copy readings FROM 'readings.csv' (FORMAT csv, HEADER)"));
        };
        let name = |error: io::Error| Failure::from(error).context(&file);
        if is_from {
            let statement = format!("COPY {before} FROM STDIN {options}");
            let mut data = FileData(File::open(&file).map_err(name)?);
            return self.runtime.block_on(self.client.run_interruptibly(&statement, &mut self.printer, &mut data));
        }
        let statement = format!("COPY {before} TO STDOUT {options}");
        let mut target = FileSink(io::BufWriter::new(File::create(&file).map_err(name)?));
        self.runtime.block_on(self.client.run_interruptibly(&statement, &mut target, &mut ()))?;
        target.0.flush().map_err(name)
    }
}

/// `on`, `off`, or the other one.
fn switched(argument: &str, now: bool) -> Result<bool> {
    match argument {
        "" => Ok(!now),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(Failure::new(format!("\"{other}\" is neither on nor off"))),
    }
}

/// The parts of a `\copy`.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    before: String,
    is_from: bool,
    file: String,
    options: String,
}

impl Copy {
    fn parse(arguments: &str) -> Option<Copy> {
        let subject = match arguments.strip_prefix('(') {
            Some(rest) => 1 + closing(rest)? + 1,
            None => arguments.find(char::is_whitespace)?,
        };
        let (mut before, mut rest) = arguments.split_at(subject);
        if rest.trim_start().starts_with('(') {
            let end = arguments.len() - rest.len() + rest.find('(')? + 1;
            let end = end + closing(&arguments[end..])? + 1;
            (before, rest) = arguments.split_at(end);
        }
        let (direction, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let is_from = direction.eq_ignore_ascii_case("from");
        if !is_from && !direction.eq_ignore_ascii_case("to") {
            return None;
        }
        let rest = rest.trim_start();
        let (file, options) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'')?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        let owned = |text: &str| text.trim().to_string();
        Some(Copy { before: owned(before), is_from, file: file.to_string(), options: owned(options) })
    }
}

/// Where the parenthesis closes that was opened before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut in_string = false;
    for (at, character) in text.char_indices() {
        match character {
            '\'' => in_string = !in_string,
            '(' if !in_string => depth += 1,
            ')' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

struct FileData(File);

impl CopyData for FileData {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::with_capacity(PIECE);
        Read::by_ref(&mut self.0).take(PIECE as u64).read_to_end(&mut bytes)?;
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

struct FileSink(io::BufWriter<File>);

impl Sink for FileSink {
    fn wants_json(&self) -> bool {
        false
    }

    fn columns(&mut self, _: Vec<Column>) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, _: Vec<Option<String>>) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn done(&mut self, tag: &str) -> io::Result<()> {
        println!("{tag}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_a_subject_a_file_and_options() {
        let parts = |text: &str| Copy::parse(text).map(|copy| (copy.before, copy.is_from, copy.file, copy.options));
        let owned = |a: &str, is_from, b: &str, c: &str| Some((a.to_string(), is_from, b.to_string(), c.to_string()));
        assert_eq!(parts("t FROM 'a b.csv' (FORMAT csv)"), owned("t", true, "a b.csv", "(FORMAT csv)"));
        assert_eq!(parts("t (a, b) from x.txt"), owned("t (a, b)", true, "x.txt", ""));
        assert_eq!(parts("(SELECT ')' FROM t) TO out.csv csv"), owned("(SELECT ')' FROM t)", false, "out.csv", "csv"));
        assert_eq!(parts("t"), None);
    }
}
