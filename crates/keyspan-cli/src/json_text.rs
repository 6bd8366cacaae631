//! Lines of JSON objects: as the rows of COPY's text format, one line for each object, or with their lists and objects as
//! texts.
//!
//! The rule: a value keeps its text, so that it is read as the same text of a CSV file would be: numbers keep all their
//! digits. A line that is no object gives no row and is told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use keyspan::copy::Rejected;
use keyspan::text::json_string;
use keyspan_model::text::array::array_text;
use serde::de::{Error, IgnoredAny};
use serde_json::Deserializer;

/// The members of an object by name, their values as they are written. Of a name that stands twice the last one counts.
pub fn members(line: &[u8]) -> serde_json::Result<BTreeMap<String, &str>> {
    let line = std::str::from_utf8(line).map_err(Error::custom)?.trim();
    // All of it is right: what follows only finds where the values are.
    serde_json::from_str::<BTreeMap<String, IgnoredAny>>(line)?;
    let mut members = BTreeMap::new();
    let mut rest = behind(line, 0);
    loop {
        let mut names = Deserializer::from_str(rest).into_iter::<String>();
        let Some(Ok(name)) = names.next() else { return Ok(members) };
        let value = behind(rest, names.byte_offset());
        let mut values = Deserializer::from_str(value).into_iter::<IgnoredAny>();
        values.next();
        let end = values.byte_offset();
        members.insert(name, value[..end].trim());
        rest = behind(value, end);
    }
}

/// What follows the brace, colon or comma that stands at or after a place.
fn behind(text: &str, at: usize) -> &str {
    text[at..].trim_start().get(1..).unwrap_or_default()
}

/// The text of a value: of a string what it says, of others how they are written. None for null.
pub fn text_of(value: &str) -> serde_json::Result<Option<Cow<'_, str>>> {
    match value.as_bytes() {
        b"null" => Ok(None),
        [b'"', ..] => Ok(Some(Cow::Owned(serde_json::from_str(value)?))),
        _ => Ok(Some(Cow::Borrowed(value))),
    }
}

/// The text of a value of a column that has arrays: of a list the array's, as PostgreSQL writes it.
fn text_of_array(value: &str) -> serde_json::Result<Option<Cow<'_, str>>> {
    if !value.starts_with('[') {
        return text_of(value);
    }
    let elements = elements(value).into_iter().map(text_of).collect::<serde_json::Result<Vec<_>>>()?;
    Ok(Some(Cow::Owned(array_text(elements))))
}

/// The elements of a list that is known to be right, as they are written.
fn elements(list: &str) -> Vec<&str> {
    let mut elements = Vec::new();
    let mut rest = behind(list, 0).trim_start();
    while !rest.is_empty() && !rest.starts_with(']') {
        let mut values = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next();
        let end = values.byte_offset();
        elements.push(rest[..end].trim());
        rest = behind(rest, end).trim_start();
    }
    elements
}

/// What became of lines that gave no row.
#[derive(Debug, Default)]
pub struct Omitted {
    /// All of them, blank ones too, in order.
    lines: Vec<u64>,
    /// Those that are no objects.
    rejected: Vec<Rejected>,
}

impl Omitted {
    /// The line of the file that gave a row, both counted from 1.
    pub fn line_of(&self, row: u64) -> u64 {
        let mut line = row;
        for omitted in &self.lines {
            if *omitted > line {
                break;
            }
            line += 1;
        }
        line
    }

    /// The lines that are no objects, since this was last asked.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        std::mem::take(&mut self.rejected)
    }
}

/// Reads objects as rows.
pub struct JsonText<R> {
    lines: R,
    columns: Vec<String>,
    /// Those that have arrays.
    arrays: Vec<String>,
    /// Whether lines that are no objects are left out.
    tolerant: bool,
    omitted: Arc<Mutex<Omitted>>,
    line: u64,
    row: Vec<u8>,
    at: usize,
}

impl<R: BufRead> JsonText<R> {
    /// The objects of these lines, their members by name. Lists become arrays in `arrays`.
    pub fn new(
        lines: R,
        columns: Vec<String>,
        arrays: Vec<String>,
        tolerant: bool,
        omitted: Arc<Mutex<Omitted>>,
    ) -> JsonText<R> {
        JsonText { lines, columns, arrays, tolerant, omitted, line: 0, row: Vec::new(), at: 0 }
    }

    /// The next row; an empty one at the end.
    fn next_row(&mut self) -> io::Result<()> {
        self.row.clear();
        self.at = 0;
        let mut bytes = Vec::new();
        while self.lines.read_until(b'\n', &mut bytes)? > 0 {
            self.line += 1;
            let content = bytes.trim_ascii();
            match members(content).and_then(|object| self.row_of(&object)) {
                Ok(row) => {
                    self.row = row;
                    return Ok(());
                }
                Err(error) => self.omit(content, &error)?,
            }
            bytes.clear();
        }
        Ok(())
    }

    fn row_of(&self, object: &BTreeMap<String, &str>) -> serde_json::Result<Vec<u8>> {
        let mut row = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                row.push(b'\t');
            }
            let text = if self.arrays.contains(column) { text_of_array } else { text_of };
            match object.get(column).map_or(Ok(None), |value| text(value))? {
                None => row.extend_from_slice(b"\\N"),
                Some(text) => escape(&text, &mut row),
            }
        }
        row.push(b'\n');
        Ok(row)
    }

    fn omit(&mut self, content: &[u8], error: &serde_json::Error) -> io::Result<()> {
        let reason = format!("not a JSON object: {error}");
        if !content.is_empty() && !self.tolerant {
            return Err(io::Error::other(format!("line {}: {reason}", self.line)));
        }
        let mut omitted = self.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        omitted.lines.push(self.line);
        if !content.is_empty() {
            let (line, content) = (self.line, content.to_vec());
            omitted.rejected.push(Rejected { line, column: None, value: None, reason, content });
        }
        Ok(())
    }
}

fn escape(text: &str, row: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'\\' => row.extend_from_slice(b"\\\\"),
            b'\n' => row.extend_from_slice(b"\\n"),
            b'\r' => row.extend_from_slice(b"\\r"),
            b'\t' => row.extend_from_slice(b"\\t"),
            other => row.push(other),
        }
    }
}

impl<R: BufRead> Read for JsonText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.row.len() {
            self.next_row()?;
        }
        let count = (&self.row[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

/// Lines of JSON objects whose lists and objects have become texts, so that they arrive as they were written: Arrow
/// would give every object the members of all.
pub struct Flattened<R> {
    lines: R,
    nested: Vec<String>,
    arrays: Vec<String>,
    line: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Flattened<R> {
    /// The objects of these lines; `nested` are the members that have lists and objects, `arrays` those that become
    /// arrays.
    pub fn new(lines: R, nested: Vec<String>, arrays: Vec<String>) -> Flattened<R> {
        Flattened { lines, nested, arrays, line: Vec::new(), at: 0 }
    }

    fn next_line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.at = 0;
        self.lines.read_until(b'\n', &mut self.line)?;
        if self.line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut line = String::new();
        for (index, (name, value)) in members(&self.line)?.into_iter().enumerate() {
            line.push(if index == 0 { '{' } else { ',' });
            json_string(&name, &mut line);
            line.push(':');
            match value != "null" && self.nested.contains(&name) {
                true if self.arrays.contains(&name) => {
                    json_string(&text_of_array(value)?.unwrap_or_default(), &mut line);
                }
                true => json_string(value, &mut line),
                false => line.push_str(value),
            }
        }
        line.push_str(if line.is_empty() { "{}\n" } else { "}\n" });
        self.line = line.into_bytes();
        Ok(())
    }
}

impl<R: BufRead> Read for Flattened<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            self.next_line()?;
        }
        let count = (&self.line[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_rows_and_lines_stay_known() {
        let lines = "{\"a\": \"x\\ty\\\\\", \"b\": 1.5}\n\nnonsense\n{\"b\": [1, null]}\n";
        let omitted = Arc::default();
        let columns = vec!["a".to_string(), "b".to_string()];
        let mut rows = String::new();
        let mut reader = JsonText::new(lines.as_bytes(), columns.clone(), Vec::new(), true, Arc::clone(&omitted));
        reader.read_to_string(&mut rows).expect("rows");
        assert_eq!(rows, "x\\ty\\\\\t1.5\n\\N\t[1, null]\n");
        let mut omitted = omitted.lock().expect("no panic");
        assert_eq!((omitted.line_of(1), omitted.line_of(2)), (1, 4));
        let rejected = omitted.take_rejected();
        assert_eq!((rejected.len(), rejected[0].line, rejected[0].content.as_slice()), (1, 3, b"nonsense".as_slice()));
        let mut strict = JsonText::new(lines.as_bytes(), columns, Vec::new(), false, Arc::default());
        assert!(strict.read_to_string(&mut String::new()).is_err());
    }

    #[test]
    fn lists_become_arrays_where_the_column_has_these() {
        let text = |value| text_of_array(value).expect("a value").map(Cow::into_owned);
        let wanted = [
            ("[]", "{}"),
            (r#"[ "a b", "x\"y\\z", "", null , "NULL"]"#, r#"{"a b","x\"y\\z","",NULL,"NULL"}"#),
            ("[1.10,true,[1, 2 ]]", r#"{1.10,true,"[1, 2 ]"}"#),
            (r#"[{"a": [1]}]"#, r#"{"{\"a\": [1]}"}"#),
            (r#""{1,2}""#, "{1,2}"),
        ];
        for (value, array) in wanted {
            assert_eq!(text(value).as_deref(), Some(array), "{value}");
        }
        assert_eq!(text("null"), None);
    }

    #[test]
    fn numbers_keep_their_digits() {
        let line =
            r#" { "a" : 12345678901234567.89,"b":1.10, "c": 1e400, "a": -0.0, "d": {"x": [1.0, "}"]}, "e": "1.50" } "#;
        let members = members(line.as_bytes()).expect("an object");
        let wanted = [("a", "-0.0"), ("b", "1.10"), ("c", "1e400"), ("d", r#"{"x": [1.0, "}"]}"#), ("e", r#""1.50""#)];
        assert_eq!(members.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>(), wanted);
        assert!(super::members(b"{}").expect("an object").is_empty());
        for wrong in ["{\"a\": 1 2}", "{\"a\": 01}", "[1]", "{\"a\": 1} x", "{\"a\"}", ""] {
            assert!(super::members(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let mut line = String::new();
        let object = "{\"n\": {\"v\": 1.10}, \"v\": 12345678901234567.89}";
        Flattened::new(object.as_bytes(), vec!["n".to_string()], Vec::new()).read_to_string(&mut line).expect("reads");
        assert_eq!(line, "{\"n\":\"{\\\"v\\\": 1.10}\",\"v\":12345678901234567.89}\n");
    }
}
