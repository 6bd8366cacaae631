//! Bytes of COPY FROM, in any pieces, to record batches, from some place between two rows on.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use keyspan_cql::{CopyFormat, CopyHeader, CopyOptions};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::Zone;

use super::binary::{self, END_MARKER};
use super::cells::{ParsedColumn, text_of};
use super::fields::{self, each_field};
use super::line::{Line, LineFinder};
use super::reading::Reading;
use super::rejects::{Rejected, Tolerance};
use super::rules::{Rules, SIGNATURE};

/// Rows of a batch.
const BATCH_ROWS: usize = 32 * 1024;
/// Bytes of input that make a batch, however few rows they are.
const BATCH_BYTES: usize = 16 << 20;
/// Bytes of the longest line or binary row.
pub(super) const LONGEST_ROW: usize = 256 << 20;
/// Characters of a value or line that an error shows.
const SHOWN_CHARACTERS: usize = 100;

/// How the data of one COPY FROM is read.
pub(super) struct InputLayout {
    table: String,
    pub(super) schema: SchemaRef,
    pub(super) rules: Rules,
    zone: Zone,
    columns: Vec<ColumnLayout>,
    reading: Option<Reading>,
    pub(super) tolerance: Tolerance,
}

struct ColumnLayout {
    name: String,
    ty: ColumnType,
    /// FORCE_NULL: a quoted null text is null too.
    force_null: bool,
    /// FORCE_NOT_NULL: a null text is the text.
    force_not_null: bool,
    /// A null makes the row one to be left out.
    required: bool,
    /// Characters of its texts at most, blanks at their end aside.
    longest: Option<u32>,
}

/// Where a parser begins: between two lines, or binary rows.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) finder: LineFinder,
    /// Lines, or binary rows, before.
    pub(super) lines: u64,
    /// Whether the header is still to come.
    pub(super) at_header: bool,
}

/// Reads input from some place on, in any pieces.
pub(super) struct Parser {
    layout: Arc<InputLayout>,
    cells: Vec<ParsedColumn>,
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
    /// Which rows of the batch are kept, once one is not.
    kept: Option<Vec<bool>>,
    /// Rows that were left out.
    pub(super) rejected: Vec<Rejected>,
}

impl InputLayout {
    /// See [`super::CopyParser::new`].
    pub(super) fn new(
        table: &str,
        columns: &[(String, ColumnType)],
        options: &CopyOptions,
        zone: &str,
    ) -> Result<InputLayout> {
        let rules = Rules::new(options, true)?;
        for (option, names) in [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)] {
            if let Some(name) = names.iter().find(|name| !columns.iter().any(|(column, _)| column == *name)) {
                let message = format!("{option} column \"{name}\" not referenced by COPY");
                return Err(Error::new(ErrorKind::InvalidColumnReference, message));
            }
        }
        let column = |(name, ty): &(String, ColumnType)| ColumnLayout {
            name: name.clone(),
            ty: *ty,
            force_null: options.force_null.contains(name),
            force_not_null: options.force_not_null.contains(name),
            required: false,
            longest: None,
        };
        let fields: Vec<Field> = columns.iter().map(|(name, ty)| ty.field(name, true)).collect();
        Ok(InputLayout {
            table: table.to_string(),
            schema: Arc::new(Schema::new(fields)),
            zone: Zone::of_setting(zone),
            columns: columns.iter().map(column).collect(),
            rules,
            reading: None,
            tolerance: if options.ignore_errors { Tolerance::Values } else { Tolerance::None },
        })
    }

    /// Has texts read in other forms than PostgreSQL's.
    pub(super) fn read_as(&mut self, reading: Reading) {
        self.reading = (reading != Reading::default()).then_some(reading);
    }

    /// Leaves rows out that cannot be read or have nulls in these columns.
    pub(super) fn leave_out(&mut self, required: &[String]) {
        self.tolerance = Tolerance::Rows;
        for column in &mut self.columns {
            column.required = required.contains(&column.name);
        }
    }

    /// Has texts that are too long for these columns be errors of their rows.
    pub(super) fn limit(&mut self, lengths: &[(String, u32)]) {
        for column in &mut self.columns {
            let length = lengths.iter().find(|(name, _)| *name == column.name);
            column.longest = length.map(|(_, longest)| *longest).filter(|_| column.ty == ColumnType::Text);
        }
    }

    /// The begin of all the data.
    pub(super) fn start(&self) -> Start {
        let binary = self.rules.format == CopyFormat::Binary;
        Start {
            finder: LineFinder::new(&self.rules, self.rules.format == CopyFormat::Csv),
            lines: 0,
            at_header: self.rules.header != CopyHeader::None || binary,
        }
    }
}

impl Parser {
    pub(super) fn new(layout: &Arc<InputLayout>, start: Start) -> Parser {
        // A binary row counts when it is begun, a line from the end of the one before.
        let line = start.lines + u64::from(layout.rules.format != CopyFormat::Binary);
        Parser {
            cells: layout.columns.iter().map(|column| ParsedColumn::new(column.ty)).collect(),
            finder: start.finder,
            pending: Vec::new(),
            line,
            rows: 0,
            bytes: 0,
            at_header: start.at_header,
            ended: false,
            scratch: Vec::new(),
            kept: None,
            rejected: Vec::new(),
            layout: Arc::clone(layout),
        }
    }

    /// Takes the next bytes. Answers the batches that are full.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>> {
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
    pub(super) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let mut full = Vec::new();
        self.read(true, &mut full)?;
        full.extend(self.rest()?);
        Ok(full)
    }

    /// The rows that are no full batch yet.
    pub(super) fn rest(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 { Ok(None) } else { self.batch().map(Some) }
    }

    fn read(&mut self, is_last: bool, full: &mut Vec<RecordBatch>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let read = match self.layout.rules.format {
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
        let columns: Vec<ArrayRef> = self.cells.iter_mut().map(ParsedColumn::take).collect();
        let rows = self.rows;
        (self.rows, self.bytes) = (0, 0);
        let batch = RecordBatch::try_new_with_options(self.layout.schema.clone(), columns, &options)?;
        let Some(mut kept) = self.kept.take() else { return Ok(batch) };
        kept.resize(rows, true);
        Ok(filter_record_batch(&batch, &BooleanArray::from(kept))?)
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
            return match self.layout.rules.header {
                CopyHeader::Match => self.match_header(content, scratch),
                _ => Ok(()),
            };
        }
        if self.layout.columns.is_empty() {
            if !content.is_empty() {
                return Err(self.at_line(misfit("extra data after last expected column"), Some(content)));
            }
            return self.count_row(line.next - line.content.start, full);
        }
        if let Err((error, column)) = self.read_fields(content, scratch) {
            self.reject(error, column, content)?;
        }
        self.count_row(line.next - line.content.start, full)
    }

    /// Reads the fields of a line; an error comes with its column, if it is one of a value.
    fn read_fields(&mut self, content: &[u8], scratch: &mut Vec<u8>) -> Result<(), (Error, Option<(usize, String)>)> {
        let csv = self.layout.rules.format == CopyFormat::Csv;
        let (layout, cells) = (&self.layout, &mut self.cells);
        let mut count = 0;
        let mut broken = None;
        let result = each_field(content, &self.layout.rules, csv, scratch, |index, field| {
            let Some(column) = layout.columns.get(index) else {
                return Err(misfit("extra data after last expected column"));
            };
            let pushed = column.push(&field, &mut cells[index], layout);
            match pushed.is_err() {
                true => broken = Some((index, shown(field.bytes))),
                false => count = index + 1,
            }
            pushed
        });
        let result = match result {
            Ok(()) if count < layout.columns.len() => {
                Err(misfit(format!("missing data for column \"{}\"", layout.columns[count].name)))
            }
            other => other,
        };
        if result.is_err() && layout.tolerance != Tolerance::None {
            // The columns stay of one length: the row is taken away from the batch.
            cells[count..].iter_mut().for_each(ParsedColumn::push_null);
        }
        result.map_err(|error| (error, broken))
    }

    /// Leaves a row out of the batch, or says where the error stands.
    fn reject(&mut self, error: Error, column: Option<(usize, String)>, content: &[u8]) -> Result<()> {
        let tolerated = match self.layout.tolerance {
            Tolerance::None => false,
            Tolerance::Values => column.is_some() && error.kind != ErrorKind::InvalidEncoding,
            Tolerance::Rows => true,
        };
        if !tolerated {
            return Err(match column {
                Some((index, value)) => self.at_column(error, index, Some(value)),
                None => self.at_line(error, Some(content)),
            });
        }
        let kept = self.kept.get_or_insert_default();
        kept.resize(self.rows, true);
        kept.push(false);
        self.rejected.push(Rejected {
            line: self.line,
            column: column.as_ref().map(|(index, _)| self.layout.columns[*index].name.clone()),
            value: column.map(|(_, value)| value),
            reason: error.message,
            content: if self.layout.tolerance == Tolerance::Rows { content.to_vec() } else { Vec::new() },
        });
        Ok(())
    }

    fn match_header(&self, content: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        let csv = self.layout.rules.format == CopyFormat::Csv;
        let mut names = Vec::new();
        each_field(content, &self.layout.rules, csv, scratch, |_, field| {
            names.push(text_of(field.bytes)?.to_string());
            Ok(())
        })
        .map_err(|error| self.at_line(error, Some(content)))?;
        if names.len() != self.layout.columns.len() {
            let (got, expected) = (names.len(), self.layout.columns.len());
            let message = format!("wrong number of fields in header line: got {got}, expected {expected}");
            return Err(self.at_line(misfit(message), Some(content)));
        }
        let pairs = names.iter().zip(&self.layout.columns).enumerate();
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
        let mut reader = binary::BinaryReader::new(bytes);
        while !self.ended {
            let start = reader.position();
            match self.read_row(&mut reader) {
                Ok(true) => self.count_row(reader.position() - start, full)?,
                Ok(false) => {}
                Err(binary::BinaryError::Short) if !is_last => return Ok(start),
                Err(binary::BinaryError::Short) if self.may_end(bytes.len() - start) => return Ok(bytes.len()),
                Err(binary::BinaryError::Short) => return Err(self.at_line(misfit(self.cut_short(bytes.len())), None)),
                Err(binary::BinaryError::Wrong(error)) => return Err(error),
            }
        }
        match reader.position() == bytes.len() {
            true => Ok(bytes.len()),
            false => Err(self.at_line(misfit("received copy data after EOF marker"), None)),
        }
    }

    /// Whether the data may end before the next row, so many bytes into it. As in Postgres the end of the data ends the
    /// rows as well as the end marker does, even in the middle of a row's number of fields: pgx sends no marker.
    fn may_end(&self, bytes: usize) -> bool {
        !self.at_header && bytes < size_of::<i16>()
    }

    /// What is missing where the data ends after so many bytes of a header or of a row.
    fn cut_short(&self, bytes: usize) -> &'static str {
        match bytes.saturating_sub(SIGNATURE.len()) {
            _ if !self.at_header => "unexpected EOF in COPY data",
            _ if bytes < SIGNATURE.len() => "COPY file signature not recognized",
            0..4 => "invalid COPY file header (missing flags)",
            4..8 => "invalid COPY file header (missing length)",
            _ => "invalid COPY file header (wrong length)",
        }
    }

    /// Reads the header, a row (then true) or the end marker.
    fn read_row(&mut self, reader: &mut binary::BinaryReader<'_>) -> Result<bool, binary::BinaryError> {
        if self.at_header {
            read_signature(reader)?;
            self.at_header = false;
            return Ok(false);
        }
        let (row, count) = reader.row()?;
        self.line += 1;
        if count == END_MARKER {
            self.ended = true;
            return Ok(false);
        }
        if usize::try_from(count) != Ok(self.layout.columns.len()) {
            let message = format!("row field count is {count}, expected {}", self.layout.columns.len());
            return Err(self.at_line(misfit(message), None).into());
        }
        for (index, value) in row.iter().enumerate() {
            let cells = &mut self.cells[index];
            let pushed = match value {
                None => {
                    cells.push_null();
                    Ok(())
                }
                Some(bytes) => cells.push_binary(bytes),
            };
            pushed.map_err(|error| self.at_column(error, index, None))?;
        }
        Ok(true)
    }

    /// Says in the error's detail which line is meant, and shows it.
    fn at_line(&self, error: Error, content: Option<&[u8]>) -> Error {
        let place = format!("COPY {}, line {}", self.layout.table, self.line);
        place_in(error, place, content.map(shown))
    }

    fn at_column(&self, error: Error, index: usize, value: Option<String>) -> Error {
        let place =
            format!("COPY {}, line {}, column {}", self.layout.table, self.line, self.layout.columns[index].name);
        place_in(error, place, value)
    }
}

/// Reads what stands before binary rows.
pub(super) fn read_signature(reader: &mut binary::BinaryReader<'_>) -> Result<(), binary::BinaryError> {
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

impl ColumnLayout {
    fn push(&self, field: &fields::Field<'_>, cells: &mut ParsedColumn, layout: &InputLayout) -> Result<()> {
        let is_null = match field.quoted {
            true => self.force_null,
            false => !self.force_not_null,
        };
        if field.is_null_text && is_null {
            return self.push_null(cells);
        }
        let text = text_of(field.bytes)?;
        if let Some(longest) = self.longest.filter(|longest| text.len() > *longest as usize) {
            Value::Text(text.to_owned()).of_length(longest)?;
        }
        match &layout.reading {
            None => cells.push_text(text, &layout.zone),
            Some(reading) if reading.is_null(text) => self.push_null(cells),
            Some(reading) => cells.push_text(&reading.written(text, self.ty)?, &layout.zone),
        }
    }

    fn push_null(&self, cells: &mut ParsedColumn) -> Result<()> {
        if self.required {
            let message = format!("null value in column \"{}\" violates not-null constraint", self.name);
            return Err(Error::new(ErrorKind::NotNull, message));
        }
        cells.push_null();
        Ok(())
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
