//! Rows of files that an import leaves out: what is done with them, and what is said.
//!
//! The rule: `--on-error` says it, and each such row is told with its file, line and reason, in a file or by the first few.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use keyspan::copy::Rejected;

use crate::failure::{Failure, Result};
use crate::progress::grouped;

/// Rows that are told one by one.
const TOLD: u64 = 5;

/// What an import does with rows that do not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It ends, and loads nothing.
    #[default]
    Stop,
    /// It leaves them out.
    Skip,
    /// It writes them to a file.
    Reject(PathBuf),
}

impl OnError {
    /// From the values of `--on-error`; a second one that is not of it is a file to import.
    pub fn parse(values: &[String]) -> Result<(OnError, Option<PathBuf>)> {
        let words: Vec<&str> = values.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Ok((OnError::Stop, None)),
            ["stop", rest @ ..] => Ok((OnError::Stop, rest.first().map(PathBuf::from))),
            ["skip", rest @ ..] => Ok((OnError::Skip, rest.first().map(PathBuf::from))),
            ["reject", file] => Ok((OnError::Reject(PathBuf::from(file)), None)),
            ["reject"] => Err(Failure::new("--on-error reject needs a file: --on-error reject rejects.csv")),
            [other, ..] => Err(Failure::new(format!("--on-error is stop, skip or reject FILE, not \"{other}\""))),
        }
    }
}

/// Takes the rows.
#[derive(Debug)]
pub struct Rejects {
    file: Option<(PathBuf, BufWriter<File>)>,
    count: u64,
    /// The first of them.
    told: Vec<String>,
}

impl Rejects {
    /// As `--on-error` says; none if an error ends the import.
    pub fn new(on_error: &OnError) -> Result<Option<Rejects>> {
        let file = match on_error {
            OnError::Stop => return Ok(None),
            OnError::Skip => None,
            OnError::Reject(path) => {
                let file = File::create(path).map_err(|error| Failure::from(error).context(path.display()))?;
                let mut file = BufWriter::new(file);
                writeln!(file, "file,line,column,reason,row")?;
                Some((path.clone(), file))
            }
        };
        Ok(Some(Rejects { file, count: 0, told: Vec::new() }))
    }

    /// Takes rows of a file.
    pub fn add(&mut self, input: &str, rows: Vec<Rejected>) -> Result<()> {
        for row in rows {
            self.count += 1;
            let column = row.column.unwrap_or_default();
            if self.count <= TOLD {
                let place = if column.is_empty() { String::new() } else { format!(", column {column}") };
                self.told.push(format!("{input}, line {}{place}: {}", row.line, row.reason));
            }
            if let Some((_, file)) = &mut self.file {
                let content = String::from_utf8_lossy(&row.content);
                let line = row.line.to_string();
                let cells = [input, &line, &column, &row.reason, &content].map(quoted);
                writeln!(file, "{}", cells.join(","))?;
            }
        }
        Ok(())
    }

    /// Tells the first of them, and answers what is said of all, if there are any.
    pub fn finish(&mut self) -> Result<Option<String>> {
        if let Some((_, file)) = &mut self.file {
            file.flush()?;
        }
        if self.count == 0 {
            return Ok(None);
        }
        let rows = if self.count == 1 { "1 row was".to_string() } else { format!("{} rows were", grouped(self.count)) };
        let place = self.file.as_ref().map(|(path, _)| format!(", see {}", path.display())).unwrap_or_default();
        self.lines().iter().for_each(|line| eprintln!("{line}"));
        Ok(Some(format!("{rows} left out{place}")))
    }

    fn lines(&self) -> Vec<String> {
        let more = self.count - self.told.len() as u64;
        let told = self.told.iter().map(|told| format!("NOTICE:  left out: {told}"));
        told.chain((more > 0).then(|| format!("NOTICE:  and {} more", grouped(more)))).collect()
    }
}

/// A cell of csv.
fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_behind_skip_is_one_to_import() {
        let parse =
            |words: &[&str]| OnError::parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>()).ok();
        assert_eq!(parse(&[]), Some((OnError::Stop, None)));
        assert_eq!(parse(&["skip", "a.csv"]), Some((OnError::Skip, Some("a.csv".into()))));
        assert_eq!(parse(&["reject", "r.csv"]), Some((OnError::Reject("r.csv".into()), None)));
        assert_eq!((parse(&["reject"]), parse(&["perhaps"])), (None, None));
    }

    #[test]
    fn rows_are_written_with_line_and_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.csv");
        let mut rejects = Rejects::new(&OnError::Reject(path.clone())).expect("a file").expect("rejects");
        let row = |line| Rejected {
            line,
            column: Some("v".into()),
            value: Some("x".into()),
            reason: "no number: \"x\"".into(),
            content: b"1,x".to_vec(),
        };
        rejects.add("a.csv", (1..8).map(row).collect()).expect("written");
        let (said, told) = (rejects.finish().expect("written"), rejects.lines());
        assert_eq!(said.expect("a line"), format!("7 rows were left out, see {}", path.display()));
        assert_eq!((told.len(), told[5].as_str()), (6, "NOTICE:  and 2 more"));
        let text = std::fs::read_to_string(path).expect("reads");
        assert!(
            text.starts_with("file,line,column,reason,row\na.csv,1,v,\"no number: \"\"x\"\"\",\"1,x\"\n"),
            "{text}"
        );
    }
}
