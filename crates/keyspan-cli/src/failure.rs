//! What went wrong, from whichever side, and how it is shown: as psql shows it.

use std::fmt::Write;
use std::io;

use tokio_postgres::error::ErrorPosition;

/// The result of anything in the program that can fail.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Columns of a statement's line that an error shows at most.
const SHOWN_COLUMNS: usize = 72;

/// Something that went wrong.
#[derive(Debug, Default)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// More about this case.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the statement: characters from 1.
    pub position: Option<usize>,
    closed_output: bool,
    reported: bool,
}

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), ..Failure::default() }
    }

    /// A failure that was reported where it happened.
    pub fn reported() -> Failure {
        Failure { reported: true, ..Failure::default() }
    }

    /// Adds what to do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Says in front of the message what was being done.
    pub fn context(mut self, doing: impl std::fmt::Display) -> Failure {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// Whether the reader of the output has gone.
    pub fn is_closed_output(&self) -> bool {
        self.closed_output
    }

    /// Writes the failure to stderr; `statement` is the text that its position counts in.
    pub fn report(&self, statement: Option<&str>) {
        self.report_at("", statement);
    }

    /// As [`Self::report`], behind the place of a script that the statement stands at.
    pub fn report_at(&self, place: &str, statement: Option<&str>) {
        if !self.reported {
            eprint!("{place}{}", self.text(statement));
        }
    }

    /// The failure as several lines.
    pub fn text(&self, statement: Option<&str>) -> String {
        let mut text = format!("ERROR:  {}\n", self.message);
        if let (Some(statement), Some(position)) = (statement, self.position) {
            text.push_str(&place(statement, position));
        }
        for (label, more) in [("DETAIL", &self.detail), ("HINT", &self.hint)] {
            if let Some(more) = more {
                writeln!(text, "{label}:  {more}").expect("a string takes any text");
            }
        }
        text
    }
}

/// The line of the statement and below it a caret at the position.
fn place(statement: &str, position: usize) -> String {
    let before: String = statement.chars().take(position.saturating_sub(1)).collect();
    let number = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let line: Vec<char> = statement.lines().nth(number - 1).unwrap_or_default().chars().collect();
    // A long line is cut so that the place is in view.
    let first = column.saturating_sub(SHOWN_COLUMNS / 2).min(line.len().saturating_sub(SHOWN_COLUMNS));
    let shown: String =
        line.iter().skip(first).take(SHOWN_COLUMNS).map(|c| if *c == '\t' { ' ' } else { *c }).collect();
    let (left, right) =
        (if first > 0 { "..." } else { "" }, if first + SHOWN_COLUMNS < line.len() { "..." } else { "" });
    let label = format!("LINE {number}: {left}");
    let indent = unicode_width::UnicodeWidthStr::width(label.as_str())
        + unicode_width::UnicodeWidthStr::width(shown.chars().take(column - first).collect::<String>().as_str());
    format!("{label}{shown}{right}\n{}^\n", " ".repeat(indent))
}

/// So that a failure passes through what knows only errors: [`Failure::from`] an `io::Error` finds it again.
impl std::error::Error for Failure {}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<keyspan::Error> for Failure {
    fn from(error: keyspan::Error) -> Failure {
        Failure {
            message: error.message,
            detail: error.detail,
            hint: error.hint,
            position: error.position,
            ..Failure::default()
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        let Some(told) = error.as_db_error() else {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            return Failure::new(format!("{error}{cause}"));
        };
        Failure {
            message: told.message().to_string(),
            detail: told.detail().map(str::to_string),
            hint: told.hint().map(str::to_string),
            position: match told.position() {
                Some(ErrorPosition::Original(position)) => usize::try_from(*position).ok(),
                _ => None,
            },
            ..Failure::default()
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let closed_output = error.kind() == io::ErrorKind::BrokenPipe;
        let error = match error.downcast::<Failure>() {
            Ok(failure) => return failure,
            Err(error) => error,
        };
        Failure { message: error.to_string(), closed_output, ..Failure::default() }
    }
}

impl From<arrow::error::ArrowError> for Failure {
    fn from(error: arrow::error::ArrowError) -> Failure {
        Failure::from(keyspan::Error::from(error))
    }
}

impl From<parquet::errors::ParquetError> for Failure {
    fn from(error: parquet::errors::ParquetError) -> Failure {
        Failure::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_stands_under_the_place() {
        let failure = Failure { position: Some(18), hint: Some("Try y.".into()), ..Failure::new("no x") };
        let text = failure.text(Some("SELECT 1,\n       x\nFROM t"));
        assert_eq!(text, "ERROR:  no x\nLINE 2:        x\n               ^\nHINT:  Try y.\n");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let statement = format!("SELECT {} bad FROM t", "x,".repeat(200));
        let place = place(&statement, 409);
        let mut lines = place.lines();
        let (line, caret) = (lines.next().expect("the line"), lines.next().expect("the caret"));
        assert!(line[caret.len() - 1..].starts_with("bad"), "{place}");
        assert!(line.len() < 100);
    }
}
