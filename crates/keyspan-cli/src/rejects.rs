//! Rows of files that an import leaves out: what is done with them, and what is said.
//!
//! The rule: `--on-error` says it, and each such row is told with its file, line and reason, in a file or by the first few.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use keyspan::copy::Rejected;

use crate::dialect::write_cell;
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
#[derive(Debug, Default)]
pub struct Rejects {
    /// Where they are written to, if they are.
    path: Option<PathBuf>,
    file: Option<BufWriter<File>>,
    count: u64,
    /// The first of them.
    told: Vec<String>,
}

impl Rejects {
    /// As `--on-error` says, of the rows of these files; none if an error ends the import.
    ///
    /// # Errors
    /// One of the files is the one that they would be written to.
    pub fn new<'a>(on_error: &OnError, mut inputs: impl Iterator<Item = &'a Path>) -> Result<Option<Rejects>> {
        let path = match on_error {
            OnError::Stop => return Ok(None),
            OnError::Skip => None,
            OnError::Reject(path) => Some(path),
        };
        let is =
            |path: &Path, other: &Path| path.canonicalize().is_ok_and(|path| other.canonicalize().ok() == Some(path));
        if let Some(path) = path
            && inputs.any(|input| is(path, input))
        {
            let failure =
                Failure::new(format!("--on-error reject {0}: {0} is one of the files to import", path.display()));
            return Err(failure.with_hint("Name another file: its content is replaced."));
        }
        Ok(Some(Rejects { path: path.cloned(), ..Rejects::default() }))
    }

    /// The import begins: makes the file.
    pub fn begin(&mut self) -> Result<()> {
        if let Some(path) = &self.path {
            let file = File::create(path).map_err(|error| Failure::from(error).context(path.display()))?;
            let mut file = BufWriter::new(file);
            writeln!(file, "file,line,column,reason,row")?;
            self.file = Some(file);
        }
        Ok(())
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
            if let Some(file) = &mut self.file {
                let line = row.line.to_string();
                for cell in [input, &line, &column, &row.reason] {
                    write_cell(cell.as_bytes(), ',', false, file)?;
                    file.write_all(b",")?;
                }
                // As it stands in the file, which may be what is wrong with it.
                write_cell(&row.content, ',', false, file)?;
                file.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    /// Tells the first of them, and answers what is said of all, if there are any.
    pub fn finish(&mut self) -> Result<Option<String>> {
        if let Some(file) = &mut self.file {
            file.flush()?;
        }
        if self.count == 0 {
            return Ok(None);
        }
        let rows = if self.count == 1 { "1 row was".to_string() } else { format!("{} rows were", grouped(self.count)) };
        let place = self.path.as_ref().map(|path| format!(", see {}", path.display())).unwrap_or_default();
        self.lines().iter().for_each(|line| eprintln!("{line}"));
        Ok(Some(format!("{rows} left out{place}")))
    }

    fn lines(&self) -> Vec<String> {
        let more = self.count - self.told.len() as u64;
        let told = self.told.iter().map(|told| format!("NOTICE:  left out: {told}"));
        told.chain((more > 0).then(|| format!("NOTICE:  and {} more", grouped(more)))).collect()
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
        std::fs::write(&path, "earlier").expect("written");
        let on_error = OnError::Reject(path.clone());
        assert!(Rejects::new(&on_error, [folder.path().join("./r.csv").as_path()].into_iter()).is_err());
        let mut rejects = Rejects::new(&on_error, std::iter::empty()).expect("no input").expect("rejects");
        assert_eq!(std::fs::read(&path).expect("reads"), b"earlier");
        rejects.begin().expect("a file");
        let row = |line| Rejected {
            line,
            column: Some("v".into()),
            value: Some("x".into()),
            reason: "no number: \"x\"".into(),
            content: b"1,\xff".to_vec(),
        };
        rejects.add("a.csv", (1..8).map(row).collect()).expect("written");
        let (said, told) = (rejects.finish().expect("written"), rejects.lines());
        assert_eq!(said.expect("a line"), format!("7 rows were left out, see {}", path.display()));
        assert_eq!((told.len(), told[5].as_str()), (6, "NOTICE:  and 2 more"));
        let written = std::fs::read(path).expect("reads");
        assert!(written.starts_with(b"file,line,column,reason,row\na.csv,1,v,\"no number: \"\"x\"\"\",\"1,\xff\"\n"));
    }
}
