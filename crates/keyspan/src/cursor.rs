//! Cursors: rows of a query that are read as they are asked for.
//!
//! The rule: a cursor reads its query's stream as rows are asked for. Only one declared SCROLL keeps what it has read,
//! so that it can go back; others go forward only, as in PostgreSQL.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use keyspan_cql::FetchDirection;
use keyspan_model::{Error, ErrorKind, Result};

use crate::cancel::Running;
use crate::outcome::Rows;
use crate::peer::CursorGuard;

/// A declared cursor.
#[derive(Debug)]
pub(crate) struct SqlCursor {
    rows: Rows,
    /// Read but not yet passed: what is left of the last batch. With SCROLL: everything read.
    kept: Vec<RecordBatch>,
    scroll: bool,
    hold: bool,
    /// Declared by a transaction that has not committed.
    fresh: bool,
    /// Rows passed: 0 is before the first.
    position: usize,
    /// Rows before `kept` begins.
    dropped: usize,
    shown: CursorGuard,
}

impl SqlCursor {
    /// A cursor before the first of these rows. `scroll`: it can go back; `hold`: it outlives a commit.
    pub(crate) fn new(rows: Rows, scroll: bool, hold: bool, shown: CursorGuard) -> SqlCursor {
        SqlCursor { rows, kept: Vec::new(), scroll, hold, fresh: true, position: 0, dropped: 0, shown }
    }

    /// A cursor that was declared later has a greater one.
    pub(crate) fn number(&self) -> u64 {
        self.shown.number
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    /// Whether it is still there when a transaction ends.
    pub(crate) fn survives(&mut self, committed: bool) -> bool {
        let stays = self.hold && (committed || !self.fresh);
        self.fresh = false;
        stays
    }

    fn known(&self) -> usize {
        self.dropped + self.kept.iter().map(RecordBatch::num_rows).sum::<usize>()
    }

    /// Reads on until `rows` rows are known, or the end. Answers how many are.
    async fn read_to(&mut self, running: &Running, rows: usize) -> Result<usize> {
        while self.known() < rows {
            match running.guard(self.rows.next_batch()).await? {
                Some(batch) if batch.num_rows() > 0 => self.kept.push(batch),
                Some(_) => {}
                None => break,
            }
        }
        Ok(self.known().min(rows))
    }

    /// The rows from `from` (0 is the first) up to `to`; they have been read.
    fn slice(&self, from: usize, to: usize) -> Result<RecordBatch> {
        let mut parts = Vec::new();
        let mut at = self.dropped;
        for batch in &self.kept {
            let (begin, end) = (from.max(at), to.min(at + batch.num_rows()));
            if begin < end {
                parts.push(batch.slice(begin - at, end - begin));
            }
            at += batch.num_rows();
        }
        Ok(concat_batches(self.schema(), &parts)?)
    }

    /// Drops the batches that a cursor without SCROLL has passed.
    fn forget(&mut self) {
        if self.scroll {
            return;
        }
        while let Some(first) = self.kept.first() {
            if self.dropped + first.num_rows() > self.position {
                break;
            }
            self.dropped += first.num_rows();
            self.kept.remove(0);
        }
    }

    async fn forward(&mut self, running: &Running, rows: usize) -> Result<RecordBatch> {
        let wanted = self.position.saturating_add(rows);
        let known = self.read_to(running, wanted).await?;
        let batch = self.slice(self.position, known)?;
        // Past the end a cursor that can go back stands after the last row, however often it is asked for more.
        self.position = if known < wanted { known + usize::from(self.scroll) } else { known };
        self.forget();
        Ok(batch)
    }

    /// Rows before the current one, nearest first.
    fn backward(&mut self, rows: usize) -> Result<RecordBatch> {
        let current = self.position.saturating_sub(1);
        let from = current.saturating_sub(rows);
        let batch = self.slice(from, current)?;
        self.position = if current - from < rows { 0 } else { from + 1 };
        let reversed = arrow::array::UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
        Ok(arrow::compute::take_record_batch(&batch, &reversed)?)
    }

    /// The row with this number, counted from 1; below zero from the end.
    async fn absolute(&mut self, running: &Running, number: i64) -> Result<RecordBatch> {
        let row = match number {
            0 => 0,
            n if n > 0 => n as usize,
            n => {
                let all = self.read_to(running, usize::MAX).await?;
                (all as i64 + 1 + n).max(0) as usize
            }
        };
        if row < self.position && !self.scroll {
            return Err(forward_only());
        }
        let known = self.read_to(running, row).await?;
        let batch = if row == 0 || row > known { self.slice(0, 0)? } else { self.slice(row - 1, row)? };
        self.position = row.min(known + 1);
        self.forget();
        Ok(batch)
    }

    /// The rows that FETCH asks for; the cursor then stands where it leaves it.
    pub(crate) async fn fetch(&mut self, running: &Running, direction: FetchDirection) -> Result<RecordBatch> {
        use FetchDirection as D;
        match direction {
            D::Forward(n) if n > 0 => self.forward(running, n as usize).await,
            D::All => self.forward(running, usize::MAX).await,
            D::First => self.absolute(running, 1).await,
            D::Last => self.absolute(running, -1).await,
            D::Absolute(n) => self.absolute(running, n).await,
            D::Relative(n) if n != 0 || self.scroll => {
                let row = self.position as i64 + n;
                if row <= 0 { self.absolute(running, 0).await } else { self.absolute(running, row).await }
            }
            D::Forward(0) | D::Backward(0) | D::Relative(_) => {
                let at = self.position;
                if self.scroll && at > 0 { self.absolute(running, at as i64).await } else { self.slice(0, 0) }
            }
            D::Backward(n) if n < 0 => self.forward(running, n.unsigned_abs() as usize).await,
            D::Forward(n) | D::Backward(n) if self.scroll => self.backward(n.unsigned_abs() as usize),
            D::BackwardAll if self.scroll => self.backward(usize::MAX),
            D::Forward(_) | D::Backward(_) | D::BackwardAll => Err(forward_only()),
        }
    }
}

fn forward_only() -> Error {
    let error = Error::new(ErrorKind::ObjectNotReady, "cursor can only scan forward");
    error.with_hint("Declare it with SCROLL option to enable backward scan.")
}
