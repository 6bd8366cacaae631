//! `\copy`: COPY with files and programs of this machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::Shell;
use crate::client::{CopyData, Sink};
use crate::failure::{Failure, Result};
use crate::output::Out;

/// Bytes of a file that are sent at a time.
const PIECE: usize = 256 * 1024;

impl Shell {
    /// `\copy … FROM 'file' …` is `COPY … FROM STDIN …` with the file's bytes, and the other way round.
    pub(super) fn copy(&mut self, arguments: &str, data: &mut dyn CopyData) -> Result<()> {
        let Some(Copy { before, is_from, place, options }) = Copy::parse(arguments) else {
            let failure = Failure::new("\\copy needs a table or a query, FROM or TO, and a file");
            return Err(failure.with_hint("\\copy readings FROM 'readings.csv' (FORMAT csv, HEADER)"));
        };
        let result = match is_from {
            true => self.copy_from(&format!("COPY {before} FROM STDIN {options}"), place, data),
            false => self.copy_to(&format!("COPY {before} TO STDOUT {options}"), place),
        };
        self.noted(result)
    }

    fn copy_to(&mut self, statement: &str, place: Place) -> Result<()> {
        let out = match place {
            Place::File(file) => Out::to(&file)?,
            Place::Program(command) => Out::to(&format!("|{command}"))?,
            Place::Standard => return self.send(statement, &mut ()),
        };
        let mut target = Target { out, tag: String::new() };
        self.attended(!self.variables.is_quiet(), |shell| {
            let result = shell.runtime.block_on(shell.client.run_interruptibly(statement, &mut target, &mut ()));
            let closed = target.out.close();
            result.and(closed)?;
            Ok(shell.printer.done(&target.tag)?)
        })
    }

    fn copy_from(&mut self, statement: &str, place: Place, data: &mut dyn CopyData) -> Result<()> {
        let mut source: Box<dyn CopyData + '_> = match place {
            Place::File(file) => {
                Box::new(Bytes(File::open(&file).map_err(|error| Failure::from(error).context(&file))?))
            }
            Place::Program(command) => Box::new(Program::new(&command)?),
            Place::Standard => Box::new(Given(data)),
        };
        self.send(statement, &mut *source)
    }
}

/// Where the data of a `\copy` is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    File(String),
    Program(String),
    Standard,
}

/// The parts of a `\copy`.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    before: String,
    is_from: bool,
    place: Place,
    options: String,
}

impl Copy {
    fn parse(arguments: &str) -> Option<Copy> {
        let arguments = arguments.trim().trim_end_matches(';');
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
        let (word, rest) = word(rest.trim_start());
        let (place, options) = match word {
            Word::Bare(name) if name.eq_ignore_ascii_case("program") => match self::word(rest.trim_start()) {
                (Word::Quoted(command), rest) => (Place::Program(command), rest),
                _ => return None,
            },
            Word::Bare(name) if is_standard(&name) => (Place::Standard, rest),
            Word::Bare(name) | Word::Quoted(name) => (Place::File(name), rest),
        };
        Some(Copy { before: before.trim().to_string(), is_from, place, options: options.trim().to_string() })
    }
}

fn is_standard(name: &str) -> bool {
    ["stdin", "stdout", "pstdin", "pstdout"].iter().any(|standard| name.eq_ignore_ascii_case(standard))
}

enum Word {
    Bare(String),
    Quoted(String),
}

/// The word that begins a text, and what follows.
fn word(text: &str) -> (Word, &str) {
    let Some(quoted) = text.strip_prefix('\'') else {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        return (Word::Bare(word.to_string()), rest);
    };
    let mut out = String::new();
    let mut rest = quoted;
    while let Some((piece, after)) = rest.split_once('\'') {
        out.push_str(piece);
        match after.strip_prefix('\'') {
            Some(after) => {
                out.push('\'');
                rest = after;
            }
            None => return (Word::Quoted(out), after),
        }
    }
    (Word::Quoted(format!("{out}{rest}")), "")
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

/// What a reader gives, in pieces.
struct Bytes<R>(R);

impl<R: Read> CopyData for Bytes<R> {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::with_capacity(PIECE);
        self.0.by_ref().take(PIECE as u64).read_to_end(&mut bytes)?;
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

/// What a program prints; one that fails fails the COPY.
struct Program {
    output: Bytes<ChildStdout>,
    child: Child,
}

impl Program {
    fn new(command: &str) -> Result<Program> {
        let mut child = Command::new("sh").arg("-c").arg(command).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| Failure::new(format!("{command} has no output")))?;
        Ok(Program { output: Bytes(output), child })
    }
}

impl CopyData for Program {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let next = self.output.next()?;
        if next.is_none() {
            let status = self.child.wait()?;
            if !status.success() {
                return Err(io::Error::other(format!("the program ended with {status}")));
            }
        }
        Ok(next)
    }
}

/// Data that stands where the command stands.
struct Given<'a>(&'a mut dyn CopyData);

impl CopyData for Given<'_> {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.0.next()
    }
}

/// The file or program that data goes to.
struct Target {
    out: Out,
    tag: String,
}

impl Sink for Target {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn done(&mut self, tag: &str) -> io::Result<()> {
        self.tag = tag.to_string();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_a_subject_a_place_and_options() {
        let copy = |text: &str| Copy::parse(text);
        let wanted = |before: &str, is_from, place, options: &str| {
            Some(Copy { before: before.to_string(), is_from, place, options: options.to_string() })
        };
        let file = |name: &str| Place::File(name.to_string());
        assert_eq!(copy("t FROM 'a b.csv' (FORMAT csv)"), wanted("t", true, file("a b.csv"), "(FORMAT csv)"));
        assert_eq!(copy("t (a, b) from x.txt"), wanted("t (a, b)", true, file("x.txt"), ""));
        assert_eq!(copy("t from 'it''s.csv' csv;"), wanted("t", true, file("it's.csv"), "csv"));
        assert_eq!(
            copy("(SELECT ')' FROM t) TO out.csv csv"),
            wanted("(SELECT ')' FROM t)", false, file("out.csv"), "csv")
        );
        let program = Place::Program("zcat 'x y.gz'".to_string());
        assert_eq!(copy("t FROM PROGRAM 'zcat ''x y.gz''' csv"), wanted("t", true, program, "csv"));
        assert_eq!(copy("t TO stdout"), wanted("t", false, Place::Standard, ""));
        assert_eq!((copy("t"), copy("t over x"), copy("t from program x")), (None, None, None));
    }
}
