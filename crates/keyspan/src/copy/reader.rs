//! All the data of one COPY FROM: cut between rows into pieces, which are parsed on all cores and put together in
//! order.
//!
//! ```text
//! input ─▶ pending ─▶ cut between rows ─▶ pieces, each parsed by a thread of its own ─▶ batches in order
//!                                    └─▶ the tail: what follows the last cut, an end marker or what cannot be cut
//! ```
//!
//! The rule: rows and errors are those of a parser that reads everything from the beginning. Cutting reports no
//! errors: input that cannot be cut is left to the tail's parser, which reports the error where it stands.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use keyspan_cql::{CopyFormat, CopyOptions};
use keyspan_model::{ColumnType, Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::binary::{self, BinaryError};
use super::parser::{InputLayout, LONGEST_ROW, Parser, Start, read_signature};
use super::reading::Reading;
use super::rejects::{Rejected, Rejects};
use crate::outcome::Notice;

/// Bytes of a piece at least.
const PIECE: usize = 2 << 20;

/// Rows of a piece, and those of it that are no right rows.
type ParsedRows = (Vec<RecordBatch>, Vec<Rejected>);

/// Reads the data of one COPY FROM.
pub struct CopyParser {
    layout: Arc<InputLayout>,
    /// Bytes of a piece at least.
    piece: usize,
    /// Pieces that are parsed at a time.
    threads: usize,
    /// Input behind the last piece.
    pending: Vec<u8>,
    /// Where it begins.
    start: Start,
    /// How much of it is whole rows, and what follows them.
    cut: (usize, Start),
    parsing: VecDeque<JoinHandle<Result<ParsedRows>>>,
    /// Reads what is not cut any more.
    tail: Option<Parser>,
    rejects: Rejects,
}

impl std::fmt::Debug for CopyParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyParser").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

impl CopyParser {
    /// A parser for a COPY into `table`, whose columns in the statement's order are `columns`; `zone` is the
    /// session's time zone. Constraints on the columns are the caller's to check. Within a tokio runtime large data
    /// is parsed on its blocking threads, as many as there are cores.
    ///
    /// # Errors
    /// Options that contradict each other or are not supported; 42P10 for a FORCE option of another column.
    pub fn new(table: &str, columns: &[(String, ColumnType)], options: &CopyOptions, zone: &str) -> Result<CopyParser> {
        let layout = Arc::new(InputLayout::new(table, columns, options, zone)?);
        let start = layout.start();
        let rejects = Rejects::new(options);
        Ok(CopyParser {
            layout,
            piece: PIECE,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            pending: Vec::new(),
            cut: (0, start.clone()),
            start,
            parsing: VecDeque::new(),
            tail: None,
            rejects,
        })
    }

    /// Has texts read in other forms than PostgreSQL's. Before the first bytes.
    #[must_use]
    pub fn read_as(mut self, reading: Reading) -> CopyParser {
        if let Some(layout) = Arc::get_mut(&mut self.layout) {
            layout.read_as(reading);
        }
        self
    }

    /// Has texts that are longer than their columns' types say be errors of their rows: names and characters. Before the
    /// first bytes.
    #[must_use]
    pub fn limit(mut self, lengths: &[(String, u32)]) -> CopyParser {
        if let Some(layout) = Arc::get_mut(&mut self.layout) {
            layout.limit(lengths);
        }
        self
    }

    /// Leaves rows out that cannot be read, or that have nulls in one of these columns: [`CopyParser::take_rejected`]
    /// answers them. Before the first bytes.
    #[must_use]
    pub fn leave_out(mut self, required: &[String]) -> CopyParser {
        if let Some(layout) = Arc::get_mut(&mut self.layout) {
            layout.leave_out(required);
        }
        self.rejects = Rejects::kept();
        self
    }

    /// Rows that were left out since this was last asked, in the order of the input.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        self.rejects.take()
    }

    /// What is to be said of the rows that `ON_ERROR ignore` leaves out.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.rejects.take_notices()
    }

    /// With pieces of so many bytes, however many cores there are.
    #[cfg(test)]
    pub(super) fn with_pieces_of(mut self, bytes: usize) -> CopyParser {
        (self.piece, self.threads) = (bytes, 3);
        self
    }

    /// The columns of the batches: those of the COPY, all nullable.
    pub fn schema(&self) -> &SchemaRef {
        &self.layout.schema
    }

    /// Takes the next bytes. Answers the batches that are ready, in the order of the input.
    ///
    /// # Errors
    /// 22P04 for lines that do not fit, 22P02 and others for values, 22021 for what is not UTF-8; of these bytes or of
    /// earlier ones.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        if self.tail.is_some() {
            return self.push_tail(bytes).await;
        }
        self.pending.extend_from_slice(bytes);
        let goes_on = self.threads > 1 && Handle::try_current().is_ok() && self.find_row_ends();
        if self.cut.0 >= self.piece {
            self.parse_piece();
        }
        if !goes_on || self.pending.len() - self.cut.0 > LONGEST_ROW {
            let pending = std::mem::take(&mut self.pending);
            return self.push_tail(&pending).await;
        }
        let mut batches = Vec::new();
        while self.parsing.len() > self.threads {
            batches.extend(self.next_parsed().await?);
        }
        Ok(batches)
    }

    /// Ends the data. Answers the last batches.
    ///
    /// # Errors
    /// As [`CopyParser::push`]; 22P04 for data that ends too early.
    pub async fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let pending = std::mem::take(&mut self.pending);
        let mut batches = self.push_tail(&pending).await?;
        if let Some(tail) = &mut self.tail {
            batches.extend(tail.finish()?);
            self.rejects.add(std::mem::take(&mut tail.rejected))?;
        }
        self.rejects.finish();
        Ok(batches)
    }

    async fn push_tail(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while !self.parsing.is_empty() {
            batches.extend(self.next_parsed().await?);
        }
        let tail = self.tail.get_or_insert_with(|| Parser::new(&self.layout, self.start.clone()));
        batches.extend(tail.push(bytes)?);
        self.rejects.add(std::mem::take(&mut tail.rejected))?;
        Ok(batches)
    }

    async fn next_parsed(&mut self) -> Result<Vec<RecordBatch>> {
        let Some(parsed) = self.parsing.pop_front() else { return Ok(Vec::new()) };
        let parsed = parsed.await;
        let (batches, rejected) =
            parsed.unwrap_or_else(|error| Err(Error::internal(format!("parsing COPY data ended early: {error}"))))?;
        self.rejects.add(rejected)?;
        Ok(batches)
    }

    /// Has the whole rows parsed.
    fn parse_piece(&mut self) {
        let rest = self.pending.split_off(self.cut.0);
        let rows = std::mem::replace(&mut self.pending, rest);
        self.cut.0 = 0;
        // How lines end is known by now; the one that has begun is looked at from its begin.
        let finder = self.cut.1.finder.at_line_start();
        let next = Start { finder: finder.clone(), ..self.cut.1.clone() };
        let start = Start { finder, ..std::mem::replace(&mut self.start, next) };
        let mut parser = Parser::new(&self.layout, start);
        self.parsing.push_back(tokio::task::spawn_blocking(move || {
            let mut batches = parser.push(&rows)?;
            batches.extend(parser.rest()?);
            Ok((batches, std::mem::take(&mut parser.rejected)))
        }));
    }

    /// Looks for the ends of rows; false where what follows is not to be cut.
    fn find_row_ends(&mut self) -> bool {
        let (at, next) = &mut self.cut;
        match self.layout.rules.format {
            CopyFormat::Binary => find_binary_row_ends(&self.pending, at, next),
            _ => find_line_ends(&self.pending, at, next),
        }
    }
}

fn find_line_ends(bytes: &[u8], at: &mut usize, next: &mut Start) -> bool {
    loop {
        match next.finder.next(bytes, *at, false) {
            Ok(Some(line)) if &bytes[line.content.clone()] == b"\\." => return false,
            Ok(Some(line)) => {
                *at = line.next;
                next.lines += line.ends;
                next.at_header = false;
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn find_binary_row_ends(bytes: &[u8], at: &mut usize, next: &mut Start) -> bool {
    let first = *at;
    let mut reader = binary::BinaryReader::new(&bytes[first..]);
    loop {
        let passed = match next.at_header {
            true => read_signature(&mut reader).map(|()| true),
            false => reader.skip_row(),
        };
        match passed {
            Ok(true) => {
                *at = first + reader.position();
                next.lines += u64::from(!next.at_header);
                next.at_header = false;
            }
            Err(BinaryError::Short) => return true,
            Ok(false) | Err(BinaryError::Wrong(_)) => return false,
        }
    }
}
