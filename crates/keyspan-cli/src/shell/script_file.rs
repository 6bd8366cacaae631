//! A file of statements that is being read, and how far it has been read.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::failure::{Failure, Result};

/// A file and the number of the line that was read last.
pub(super) struct ScriptFile {
    path: PathBuf,
    line: Rc<Cell<usize>>,
}

impl ScriptFile {
    /// The file, and what reads it.
    pub(super) fn open(path: &Path) -> Result<(ScriptFile, CountedLines<BufReader<File>>)> {
        let file = File::open(path).map_err(|error| Failure::from(error).context(path.display()))?;
        let line = Rc::new(Cell::new(0));
        let lines = CountedLines { text: BufReader::new(file), line: Rc::clone(&line), is_within: false };
        Ok((ScriptFile { path: path.to_path_buf(), line }, lines))
    }

    /// The folder that it is in.
    pub(super) fn folder(&self) -> PathBuf {
        self.path.parent().map(Path::to_path_buf).unwrap_or_default()
    }

    /// What stands in front of messages: `keyspan:setup.sql:3: `.
    pub(super) fn place(&self) -> String {
        format!("keyspan:{}:{}: ", self.path.display(), self.line.get())
    }
}

/// A text whose lines are counted as they are read.
pub(super) struct CountedLines<R> {
    text: R,
    line: Rc<Cell<usize>>,
    /// Whether a line has been read in part.
    is_within: bool,
}

impl<R: BufRead> Read for CountedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for CountedLines<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.text.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        // What is consumed stands in the buffer already.
        let read = self.text.fill_buf().map_or(&[][..], |text| &text[..bytes]);
        if let Some(last) = read.last() {
            let ends = read.iter().filter(|byte| **byte == b'\n').count();
            let begun = ends + usize::from(*last != b'\n') - usize::from(self.is_within);
            self.is_within = *last != b'\n';
            self.line.set(self.line.get() + begun);
        }
        self.text.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once_it_has_begun() {
        let line = Rc::new(Cell::new(0));
        let text = BufReader::with_capacity(3, &b"one\n\ntwo three\nfour"[..]);
        let mut lines = CountedLines { text, line: Rc::clone(&line), is_within: false };
        let mut numbers = Vec::new();
        let mut text = String::new();
        while lines.read_line(&mut text).expect("text") > 0 {
            numbers.push(line.get());
        }
        assert_eq!((numbers, text.as_str()), (vec![1, 2, 3, 4], "one\n\ntwo three\nfour"));
    }
}
