//! How the CSV files of users are written, and how texts in them are to be read: the arguments of import and export.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use keyspan::copy::Reading;
use keyspan::{CopyFormat, CopyHeader, CopyOptions};

use crate::failure::{Failure, Result};

/// Whether the first line has the columns' names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Header {
    /// It has.
    #[default]
    #[value(aliases = ["true", "on"])]
    Yes,
    /// It is a row.
    #[value(aliases = ["false", "off"])]
    No,
}

/// The characters of a CSV file.
#[derive(Args, Clone, Debug, Default)]
pub struct Dialect {
    /// What stands between CSV's values: one character, or 'tab'. Where it is not said and the header has no comma, the
    /// header tells.
    #[arg(long, value_name = "CHARACTER", value_parser = character)]
    pub delimiter: Option<char>,
    /// What stands around CSV's values.
    #[arg(long, value_name = "CHARACTER", value_parser = character)]
    pub quote: Option<char>,
    /// What stands before a quote inside of quotes; without it the quote itself.
    #[arg(long, value_name = "CHARACTER", value_parser = character)]
    pub escape: Option<char>,
    /// Whether the first line of CSV has the columns' names.
    #[arg(long, value_enum, default_value_t)]
    pub header: Header,
}

impl Dialect {
    /// As the options of a COPY.
    pub fn options(&self) -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Csv,
            header: if self.header == Header::Yes { CopyHeader::Present } else { CopyHeader::None },
            delimiter: self.delimiter,
            quote: self.quote,
            escape: self.escape,
            ..CopyOptions::default()
        }
    }

    /// Whether any of it was said.
    pub fn is_said(&self) -> bool {
        self.delimiter.or(self.quote).or(self.escape).is_some() || self.header == Header::No
    }

    /// Takes the delimiter from the first line of a file, if none was said and no comma stands there.
    pub fn sniff(&mut self, line: &str) {
        if self.delimiter.is_some() || line.contains(',') {
            return;
        }
        let count = |delimiter: char| line.matches(delimiter).count();
        self.delimiter = ['\t', ';', '|'].into_iter().filter(|c| count(*c) > 0).max_by_key(|c| count(*c));
    }
}

/// Writes a cell of CSV, in quotes where it needs them or they are wanted.
pub fn write_cell(cell: &[u8], delimiter: char, quotes: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut encoded = [0; 4];
    let delimiter = delimiter.encode_utf8(&mut encoded).as_bytes();
    let is_special = cell.iter().any(|byte| b"\"\n\r".contains(byte));
    if !quotes && !is_special && !cell.windows(delimiter.len()).any(|bytes| bytes == delimiter) {
        return out.write_all(cell);
    }
    out.write_all(b"\"")?;
    for (index, piece) in cell.split(|byte| *byte == b'"').enumerate() {
        out.write_all(if index == 0 { b"" } else { b"\"\"" })?;
        out.write_all(piece)?;
    }
    out.write_all(b"\"")
}

/// One character; `tab` and `\t` are one, too.
fn character(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("tab" | "\\t", ..) => Ok('\t'),
        (_, Some(one), None) if one.is_ascii() => Ok(one),
        _ => Err("it must be a single one-byte character, or 'tab'".to_string()),
    }
}

/// How the texts of a file are read.
#[derive(Args, Clone, Debug, Default)]
pub struct ReadingArguments {
    /// A text that stands for null, besides nothing. May be repeated.
    #[arg(long = "null", value_name = "TEXT")]
    nulls: Vec<String>,
    /// Numbers are written as 1.234,5.
    #[arg(long)]
    decimal_comma: bool,
    /// How dates are written: %d/%m/%Y, as strftime has it.
    #[arg(long, value_name = "FORMAT")]
    date_format: Option<String>,
    /// How times with their dates are written: '%d.%m.%Y %H:%M:%S', with %z for a zone.
    #[arg(long, value_name = "FORMAT")]
    timestamp_format: Option<String>,
}

impl ReadingArguments {
    /// As the parser takes them.
    pub fn reading(&self) -> Result<Reading> {
        let reading = Reading {
            nulls: self.nulls.clone(),
            decimal_comma: self.decimal_comma,
            date_format: self.date_format.clone(),
            timestamp_format: self.timestamp_format.clone(),
        };
        reading.check()?;
        Ok(reading)
    }
}

/// New names of a file's columns.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<(String, String)>);

impl Names {
    /// From `COLUMN=NAME`, any number of them.
    pub fn parse(arguments: &[String]) -> Result<Names> {
        let pairs = arguments.iter().map(|argument| {
            let pair = argument.rsplit_once('=').filter(|(from, to)| !from.is_empty() && !to.is_empty());
            let (from, to) = pair.ok_or_else(|| Failure::new(format!("--map \"{argument}\" is not COLUMN=NAME")))?;
            Ok((from.to_string(), to.to_string()))
        });
        Ok(Names(pairs.collect::<Result<_>>()?))
    }

    /// What the table calls a column of the file.
    pub fn of(&self, column: &str) -> String {
        let found = self.0.iter().find(|(from, _)| from == column);
        found.map_or(column, |(_, to)| to).to_string()
    }

    /// Fails for a column that the file has not.
    pub fn check(&self, columns: &[String]) -> Result<()> {
        match self.0.iter().find(|(from, _)| !columns.contains(from)) {
            Some((from, _)) => Err(Failure::new(format!("--map: the file has no column \"{from}\""))
                .with_hint(format!("Its columns are {}.", columns.join(", ")))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_tells_the_delimiter() {
        let sniffed = |line: &str| {
            let mut dialect = Dialect::default();
            dialect.sniff(line);
            dialect.delimiter
        };
        assert_eq!(sniffed("a;b;c"), Some(';'));
        assert_eq!(sniffed("a\tb c"), Some('\t'));
        assert_eq!((sniffed("a,b;c"), sniffed("one")), (None, None));
        assert_eq!((character("tab"), character("|")), (Ok('\t'), Ok('|')));
        assert!(character("::").is_err() && character("é").is_err());
    }

    #[test]
    fn cells_have_quotes_where_they_need_them() {
        let written = |cell: &[u8], delimiter, quotes| {
            let mut out = Vec::new();
            write_cell(cell, delimiter, quotes, &mut out).expect("written");
            out
        };
        assert_eq!(written(b"a;b", ',', false), b"a;b");
        assert_eq!(written(b"a;b", ';', false), b"\"a;b\"");
        assert_eq!(written("1→2".as_bytes(), '→', false), "\"1→2\"".as_bytes());
        assert_eq!(written(b"\"\xff\"\"", ',', false), b"\"\"\"\xff\"\"\"\"\"");
        assert_eq!((written(b"", ',', true), written(b"", ',', false)), (b"\"\"".to_vec(), Vec::new()));
    }

    #[test]
    fn columns_get_new_names() {
        let names = Names::parse(&["Sensor ID=sensor".to_string(), "a=b=c".to_string()]).expect("pairs");
        assert_eq!((names.of("Sensor ID"), names.of("a=b"), names.of("x")), ("sensor".into(), "c".into(), "x".into()));
        assert!(Names::parse(&["x=".to_string()]).is_err());
        assert!(names.check(&["Sensor ID".to_string()]).is_err());
    }
}
