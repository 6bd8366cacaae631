//! COPY FROM: bytes in any pieces to record batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use keyspan_cql::{CopyFormat, CopyHeader, CopyOptions};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};
use keyspan_query::Zone;

use super::binary;
use super::cells::{Cells, text_of};
use super::fields::{self, each_field};
use super::line::{Line, LineFinder};
use super::rules::{Rules, SIGNATURE};

/// Rows of a batch.
const BATCH_ROWS: usize = 32 * 1024;
/// Bytes of input that make a batch, however few rows they are.
const BATCH_BYTES: usize = 16 << 20;
/// Bytes of the longest line or binary row.
const LONGEST_ROW: usize = 256 << 20;
/// Characters of a value or line that an error shows.
const SHOWN_CHARACTERS: usize = 100;

/// Reads the data of one COPY FROM.
pub struct CopyParser {
    table: String,
    schema: SchemaRef,
    rules: Rules,
    zone: Zone,
    columns: Vec<Column>,
    finder: LineFinder,
    /// Input that is not read yet.
    pending: Vec<u8>,
    /// The line, or binary row, being read, from 1.
    line: u64,
    rows: usize,
    bytes: usize,
    at_header: bool,
    /// The end marker has been read.
    ended: bool,
    scratch: Vec<u8>,
}

struct Column {
    name: String,
    ty: ColumnType,
    cells: Cells,
    /// FORCE_NULL: a quoted null text is null too.
    force_null: bool,
    /// FORCE_NOT_NULL: a null text is the text.
    force_not_null: bool,
}

impl std::fmt::Debug for CopyParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyParser").field("table", &self.table).field("line", &self.line).finish_non_exhaustive()
    }
}

impl CopyParser {
    /// A parser for a COPY into `table`, whose columns in the statement's order are `columns`; `zone` is the session's
    /// time zone. Constraints on the columns are the caller's to check.
    ///
    /// # Errors
    /// Options that contradict each other or are not supported; 42P10 for a FORCE option of another column.
    pub fn new(table: &str, columns: &[(String, ColumnType)], options: &CopyOptions, zone: &str) -> Result<CopyParser> {
        let rules = Rules::new(options, true)?;
        for (option, names) in [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)] {
            if let Some(name) = names.iter().find(|name| !columns.iter().any(|(column, _)| column == *name)) {
                let message = format!("{option} column \"{name}\" not referenced by COPY");
                return Err(Error::new(ErrorKind::InvalidColumnReference, message));
            }
        }
        let column = |(name, ty): &(String, ColumnType)| Column {
            name: name.clone(),
            ty: *ty,
            cells: Cells::new(*ty),
            force_null: options.force_null.contains(name),
            force_not_null: options.force_not_null.contains(name),
        };
        let fields: Vec<Field> = columns.iter().map(|(name, ty)| ty.field(name, true)).collect();
        Ok(CopyParser {
            table: table.to_string(),
            schema: Arc::new(Schema::new(fields)),
            zone: Zone::of_setting(zone),
            columns: columns.iter().map(column).collect(),
            finder: LineFinder::new(&rules, rules.format == CopyFormat::Csv),
            pending: Vec::new(),
            line: if rules.format == CopyFormat::Binary { 0 } else { 1 },
            rows: 0,
            bytes: 0,
            at_header: rules.header != CopyHeader::None || rules.format == CopyFormat::Binary,
            ended: false,
            scratch: Vec::new(),
            rules,
        })
    }

    /// The columns of the batches: those of the COPY, all nullable.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes the next bytes. Answers the batches that are full.
    ///
    /// # Errors
    /// 22P04 for lines that do not fit, 22P02 and others for values, 22021 for what is not UTF-8.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        self.pending.extend_from_slice(bytes);
        let mut full = Vec::new();
        self.read(false, &mut full)?;
        if self.pending.len() > LONGEST_ROW {
            let message = format!("a row of COPY data is longer than {} MB", LONGEST_ROW >> 20);
            return Err(self.at_line(Error::new(ErrorKind::LimitExceeded, message), None));
        }
        Ok(full)
    }

    /// Ends the data. Answers the last batches.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let mut full = Vec::new();
        self.read(true, &mut full)?;
        if self.rows > 0 {
            full.push(self.batch()?);
        }
        Ok(full)
    }

    fn read(&mut self, is_last: bool, full: &mut Vec<RecordBatch>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let read = match self.rules.format {
            CopyFormat::Binary => self.read_rows(&pending, is_last, full),
            _ => self.read_lines(&pending, is_last, full),
        };
        let used = read?;
        self.pending = pending;
        self.pending.drain(..used);
        Ok(())
    }

    fn count_row(&mut self, bytes: usize, full: &mut Vec<RecordBatch>) -> Result<()> {
        self.rows += 1;
        self.bytes += bytes;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            full.push(self.batch()?);
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(|column| column.cells.take()).collect();
        (self.rows, self.bytes) = (0, 0);
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// Reads whole lines; answers how many bytes they were.
    fn read_lines(&mut self, bytes: &[u8], is_last: bool, full: &mut Vec<RecordBatch>) -> Result<usize> {
        let mut start = 0;
        let mut scratch = std::mem::take(&mut self.scratch);
        while !self.ended {
            let found = self.finder.next(bytes, start, is_last);
            let Some(line) = found.map_err(|error| self.at_line(error, None))? else { break };
            self.read_line(bytes, &line, &mut scratch, full)?;
            start = line.next;
            self.line += line.ends;
        }
        self.scratch = scratch;
        // What follows the end marker is not data, as in Postgres.
        Ok(if self.ended { bytes.len() } else { start })
    }

    fn read_line(
        &mut self,
        bytes: &[u8],
        line: &Line,
        scratch: &mut Vec<u8>,
        full: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let content = &bytes[line.content.clone()];
        if content == b"\\." {
            self.ended = true;
            return Ok(());
        }
        if std::mem::take(&mut self.at_header) {
            return match self.rules.header {
                CopyHeader::Match => self.match_header(content, scratch),
                _ => Ok(()),
            };
        }
        if self.columns.is_empty() {
            if !content.is_empty() {
                return Err(self.at_line(misfit("extra data after last expected column"), Some(content)));
            }
            return self.count_row(line.next - line.content.start, full);
        }
        self.read_fields(content, scratch)?;
        self.count_row(line.next - line.content.start, full)
    }

    fn read_fields(&mut self, content: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        let csv = self.rules.format == CopyFormat::Csv;
        let (columns, zone) = (&mut self.columns, &self.zone);
        let mut count = 0;
        let mut broken = None;
        let result = each_field(content, &self.rules, csv, scratch, |index, field| {
            count = index + 1;
            let Some(column) = columns.get_mut(index) else {
                return Err(misfit("extra data after last expected column"));
            };
            let pushed = column.push(&field, zone);
            if pushed.is_err() {
                broken = Some((index, shown(field.bytes)));
            }
            pushed
        });
        match (result, broken) {
            (Err(error), Some((index, value))) => Err(self.at_column(error, index, Some(value))),
            (Err(error), None) => Err(self.at_line(error, Some(content))),
            (Ok(()), _) if count < self.columns.len() => {
                let name = &self.columns[count].name;
                Err(self.at_line(misfit(format!("missing data for column \"{name}\"")), Some(content)))
            }
            (Ok(()), _) => Ok(()),
        }
    }

    fn match_header(&self, content: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        let csv = self.rules.format == CopyFormat::Csv;
        let mut names = Vec::new();
        each_field(content, &self.rules, csv, scratch, |_, field| {
            names.push(text_of(field.bytes)?.to_string());
            Ok(())
        })
        .map_err(|error| self.at_line(error, Some(content)))?;
        if names.len() != self.columns.len() {
            let (got, expected) = (names.len(), self.columns.len());
            let message = format!("wrong number of fields in header line: got {got}, expected {expected}");
            return Err(self.at_line(misfit(message), Some(content)));
        }
        let pairs = names.iter().zip(&self.columns).enumerate();
        for (index, (name, column)) in pairs {
            if *name != column.name {
                let (number, expected) = (index + 1, &column.name);
                let message = format!(
                    "column name mismatch in header line field {number}: got \"{name}\", expected \"{expected}\""
                );
                return Err(self.at_line(misfit(message), Some(content)));
            }
        }
        Ok(())
    }

    /// Reads whole binary rows; answers how many bytes they were.
    fn read_rows(&mut self, bytes: &[u8], is_last: bool, full: &mut Vec<RecordBatch>) -> Result<usize> {
        let mut reader = binary::Reader::new(bytes);
        while !self.ended {
            let start = reader.position();
            match self.read_row(&mut reader) {
                Ok(true) => self.count_row(reader.position() - start, full)?,
                Ok(false) => {}
                Err(binary::Fault::Short) if is_last => {
                    return Err(self.at_line(misfit("unexpected EOF in COPY data"), None));
                }
                Err(binary::Fault::Short) => return Ok(start),
                Err(binary::Fault::Wrong(error)) => return Err(error),
            }
        }
        match reader.position() == bytes.len() {
            true => Ok(bytes.len()),
            false => Err(self.at_line(misfit("received copy data after EOF marker"), None)),
        }
    }

    /// Reads the header, a row (then true) or the end marker.
    fn read_row(&mut self, reader: &mut binary::Reader<'_>) -> Result<bool, binary::Fault> {
        if self.at_header {
            self.read_signature(reader)?;
            self.at_header = false;
            return Ok(false);
        }
        let (row, count) = reader.row()?;
        self.line += 1;
        let Some(count) = count else {
            self.ended = true;
            return Ok(false);
        };
        if count != self.columns.len() {
            let message = format!("row field count is {count}, expected {}", self.columns.len());
            return Err(self.at_line(misfit(message), None).into());
        }
        for (index, value) in row.iter().enumerate() {
            let column = &mut self.columns[index];
            let pushed = match value {
                None => {
                    column.cells.push_null();
                    Ok(())
                }
                Some(bytes) => binary::value(bytes, column.ty).and_then(|value| column.cells.push(&value)),
            };
            pushed.map_err(|error| self.at_column(error, index, None))?;
        }
        Ok(true)
    }

    fn read_signature(&self, reader: &mut binary::Reader<'_>) -> Result<(), binary::Fault> {
        let start = reader.take(SIGNATURE.len() + 8)?;
        let number = |at: usize| u32::from_be_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        if start[..SIGNATURE.len()] != *SIGNATURE {
            return Err(misfit("COPY file signature not recognized").into());
        }
        // The upper half of the flags is for what a reader must understand.
        if number(11) & 0xffff_0000 != 0 {
            return Err(misfit("unrecognized critical flags in COPY file header").into());
        }
        reader.take(usize::try_from(number(15)).unwrap_or(usize::MAX).min(LONGEST_ROW))?;
        Ok(())
    }

    /// Says in the error's detail which line is meant, and shows it.
    fn at_line(&self, error: Error, content: Option<&[u8]>) -> Error {
        let place = format!("COPY {}, line {}", self.table, self.line);
        place_in(error, place, content.map(shown))
    }

    fn at_column(&self, error: Error, index: usize, value: Option<String>) -> Error {
        let place = format!("COPY {}, line {}, column {}", self.table, self.line, self.columns[index].name);
        place_in(error, place, value)
    }
}

impl Column {
    fn push(&mut self, field: &fields::Field<'_>, zone: &Zone) -> Result<()> {
        let is_null = match field.quoted {
            true => self.force_null,
            false => !self.force_not_null,
        };
        if field.is_null_text && is_null {
            self.cells.push_null();
            return Ok(());
        }
        self.cells.push_text(text_of(field.bytes)?, zone)
    }
}

fn place_in(error: Error, place: String, value: Option<String>) -> Error {
    let place = match value {
        Some(value) => format!("{place}: \"{value}\""),
        None => place,
    };
    let detail = match &error.detail {
        Some(detail) => format!("{detail} {place}"),
        None => place,
    };
    error.with_detail(detail)
}

fn misfit(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidCopy, message)
}

/// Bytes as an error shows them: long ones are cut.
fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(SHOWN_CHARACTERS * 4)];
    let text = String::from_utf8_lossy(start);
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}
