//! CQL's BATCH: statements that are written in one step, with one timestamp, and that do not see each other.
//!
//! Inside a transaction a batch is one statement of it; by itself it is a transaction that APPLY BATCH commits. What its
//! statements write waits here, so that the transaction's snapshots do not show it.

use keyspan_model::{Error, ErrorKind, Mutation, Result, Stamp, WriteBatch};

use super::Transaction;

/// A BATCH between BEGIN BATCH and APPLY BATCH.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    stamp: Stamp,
    /// Whether its statements update counters: they see each other, so that what they add is summed.
    counter: bool,
    /// Whether its transaction ends with it.
    alone: bool,
    /// Whether the text that has begun it goes on: of one that fails nobody sends the end.
    in_text: bool,
    writes: WriteBatch,
    /// Whether all conditions so far held; none where there was no condition.
    applied: Option<bool>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    /// Whether its transaction ends with it.
    pub(crate) alone: bool,
    /// Whether all its conditions held; none where there was no condition.
    pub(crate) applied: Option<bool>,
}

impl OpenBatch {
    /// The timestamp of all its writes.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether it is a COUNTER BATCH, whose statements are those of a transaction.
    pub(crate) fn is_of_counters(&self) -> bool {
        self.counter
    }

    /// Whether a statement of it has a condition.
    pub(crate) fn is_conditional(&self) -> bool {
        self.applied.is_some()
    }

    /// Whether it is given up with the text that runs.
    pub(crate) fn ends_with_text(&self) -> bool {
        self.alone && self.in_text
    }

    /// The text that has begun it is over, and has not failed.
    pub(crate) fn outlive_text(&mut self) {
        self.in_text = false;
    }

    /// Adds a statement's writes.
    pub(super) fn write(&mut self, mut batch: WriteBatch) {
        self.writes.mutations.append(&mut batch.mutations);
        self.writes.unchanged.append(&mut batch.unchanged);
        self.writes.definitions.append(&mut batch.definitions);
    }

    /// Adds whether the condition of a statement held.
    pub(crate) fn condition(&mut self, held: bool) {
        self.applied = Some(self.applied.unwrap_or(true) && held);
    }
}

impl Transaction {
    /// The BATCH that is open.
    pub(crate) fn batch(&self) -> Option<&OpenBatch> {
        self.batch.as_ref()
    }

    /// The BATCH that is open, if its statements do not see each other.
    pub(super) fn blind_batch(&self) -> Option<&OpenBatch> {
        self.batch.as_ref().filter(|batch| !batch.counter)
    }

    /// What the statements so far of an open BATCH write, if they do not see each other.
    pub(crate) fn batched(&self) -> Option<&[Mutation]> {
        self.blind_batch().map(|batch| batch.writes.mutations.as_slice())
    }

    /// The BATCH that is open.
    pub(crate) fn batch_mut(&mut self) -> Option<&mut OpenBatch> {
        self.batch.as_mut()
    }

    /// Opens a BATCH; the server's timestamp unless it has its own, in microseconds since 1970.
    ///
    /// # Errors
    /// 25001 if one is open.
    pub(crate) fn begin_batch(&mut self, counter: bool, timestamp: Option<i64>, alone: bool) -> Result<()> {
        let in_text = self.is_implicit();
        if self.batch.is_some() {
            return Err(Error::new(ErrorKind::ActiveTransaction, "a BATCH is open already"));
        }
        // The timestamp before it is for what collections had.
        self.statement += 1;
        let stamp = timestamp.map_or(Stamp::Server(self.statement), Stamp::At);
        self.batch = Some(OpenBatch { stamp, counter, alone, in_text, writes: WriteBatch::default(), applied: None });
        Ok(())
    }

    /// Ends the BATCH: what it wrote becomes the transaction's, unless a condition failed.
    ///
    /// # Errors
    /// 25P01 if none is open.
    pub(crate) fn apply_batch(&mut self) -> Result<Applied> {
        let Some(batch) = self.batch.take() else { return Err(no_batch()) };
        let OpenBatch { alone, writes, applied, .. } = batch;
        if applied != Some(false) {
            self.write(writes);
        }
        Ok(Applied { alone, applied })
    }
}

/// 25P01 for APPLY BATCH where no batch is open.
pub(crate) fn no_batch() -> Error {
    let error = Error::new(ErrorKind::NoTransaction, "no BATCH is open");
    error.with_hint("Begin it with BEGIN BATCH.")
}
