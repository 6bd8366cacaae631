//! The rows of files as batches for a table: texts read as its columns' types, rows that do not fit left out.
//!
//! The rule: files whose values are texts go through COPY's parser, as a server would read them; of other formats the
//! values have types already.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use futures::executor::block_on;
use keyspan::copy::{CopyParser, Reading};
use keyspan::{ColumnType, CopyOptions};
use tokio::task::unconstrained;

use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::json_text::{JsonText, Omitted};
use crate::rejects::Rejects;
use crate::source::{Batches, FileFormat, Source};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// How rows are read.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// In which forms texts are.
    pub reading: Reading,
    /// Takes rows that do not fit; without it they end the import.
    pub rejects: Option<Arc<Mutex<Rejects>>>,
}

/// What they are read for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The files' columns with the table's types.
    pub columns: Vec<(String, ColumnType)>,
    /// Columns that may not be null.
    pub required: Vec<String>,
    /// Columns of texts of so many characters at most.
    pub lengths: Vec<(String, u32)>,
    /// How CSV is written.
    pub csv: CopyOptions,
    /// Where times without a zone are.
    pub zone: String,
}

impl Reader {
    /// Fails for what a format's values cannot have.
    pub fn check(&self, format: FileFormat) -> Result<()> {
        if format.is_text() || !self.changes() {
            return Ok(());
        }
        let failure = Failure::new("--on-error, --null, --decimal-comma and formats of dates are for CSV and NDJSON");
        Err(failure
            .with_hint("The values of Parquet and Arrow have types: cast them in SQL, once they are in a table."))
    }

    /// Whether rows are read in another way than a server would.
    pub fn changes(&self) -> bool {
        self.rejects.is_some() || self.reading != Reading::default()
    }

    /// The rows of all files.
    pub fn batches(&self, source: &Arc<Source>, wanted: &Wanted) -> Batches {
        let (reader, source, wanted) = (self.clone(), Arc::clone(source), wanted.clone());
        let inputs = source.inputs().to_vec();
        let several = inputs.len() > 1;
        Box::new(inputs.into_iter().flat_map(move |input| {
            let name = input.name();
            let opened = reader.open(&source, &input, &wanted);
            let batches = opened.unwrap_or_else(|failure| Box::new(std::iter::once(Err(failure))));
            batches.map(move |batch| batch.map_err(|failure| if several { failure.context(&name) } else { failure }))
        }))
    }

    fn open(&self, source: &Source, input: &Input, wanted: &Wanted) -> Result<Batches> {
        let columns = source.sources();
        let has_arrays = |place: usize| matches!(wanted.columns.get(place), Some((_, ColumnType::List(_))));
        let arrays = columns.iter().enumerate().filter(|(place, _)| has_arrays(*place));
        let arrays = arrays.map(|(_, name)| name.clone()).collect();
        let (options, bytes, omitted): (CopyOptions, Box<dyn Read>, _) = match source.format {
            FileFormat::Csv => (wanted.csv.clone(), Box::new(input.open()?), None),
            FileFormat::Ndjson if self.changes() => {
                let omitted = Arc::<Mutex<Omitted>>::default();
                let tolerant = self.rejects.is_some();
                let rows = JsonText::new(input.open()?, columns, arrays, tolerant, Arc::clone(&omitted));
                (CopyOptions::default(), Box::new(rows), Some(omitted))
            }
            _ => return source.batches(input, arrays),
        };
        let mut parser = CopyParser::new("the file", &wanted.columns, &options, &wanted.zone)?;
        parser = parser.read_as(self.reading.clone()).limit(&wanted.lengths);
        if self.rejects.is_some() {
            parser = parser.leave_out(&wanted.required);
        }
        let rejects = self.rejects.clone();
        Ok(Box::new(TextRows {
            name: input.name(),
            bytes,
            parser,
            ready: VecDeque::new(),
            ended: false,
            rejects,
            omitted,
        }))
    }
}

/// The rows of a file of texts.
struct TextRows {
    name: String,
    bytes: Box<dyn Read>,
    parser: CopyParser,
    ready: VecDeque<RecordBatch>,
    ended: bool,
    rejects: Option<Arc<Mutex<Rejects>>>,
    omitted: Option<Arc<Mutex<Omitted>>>,
}

impl TextRows {
    /// Reads the next piece.
    fn read(&mut self) -> Result<()> {
        let mut piece = Vec::with_capacity(PIECE);
        self.bytes.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        self.ended = piece.is_empty();
        // Nothing else runs in the task meanwhile: what the parser waits for must not wait for the task's turn.
        let batches = match self.ended {
            true => block_on(unconstrained(self.parser.finish()))?,
            false => block_on(unconstrained(self.parser.push(&piece)))?,
        };
        self.ready.extend(batches);
        self.reject()
    }

    fn reject(&mut self) -> Result<()> {
        let Some(rejects) = &self.rejects else { return Ok(()) };
        let mut rows = self.parser.take_rejected();
        if let Some(omitted) = &self.omitted {
            let mut omitted = omitted.lock().unwrap_or_else(PoisonError::into_inner);
            rows.iter_mut().for_each(|row| row.line = omitted.line_of(row.line));
            rows.extend(omitted.take_rejected());
            rows.sort_by_key(|row| row.line);
        }
        rejects.lock().unwrap_or_else(PoisonError::into_inner).add(&self.name, rows)
    }
}

impl Iterator for TextRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        while self.ready.is_empty() && !self.ended {
            if let Err(failure) = self.read() {
                self.ended = true;
                return Some(Err(failure));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
