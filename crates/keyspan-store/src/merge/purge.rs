//! The merge for compaction: versions are resolved, and covered, expired and obsolete cells are dropped.
//!
//! - What a row or span tombstone covers goes at once. So does what is too old for the table's retention: nothing that
//!   is as old is read anywhere, so that it shadows nothing.
//! - An expired cell becomes a tombstone with the cell's stamp: it still shadows what is older elsewhere.
//! - A tombstone (and an expired marker) goes when `gc_grace` has passed since and every run outside the compaction
//!   that may hold its key has only younger writes (Cassandra's rule).
//! - A tombstone that a materialized view has not seen yet stays, unless it is too old.
//! - Versions of a family beyond its GC rule go. What is dead counts among the newer ones, and stays as a tombstone while
//!   an older version of its cell may lie outside the compaction: what it hid does not come back.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;
use keyspan_model::{ColumnType, KeyEncoder, RelationDef, Result};

use super::chunk::{Gathered, RowChunk};
use super::cursor::{Skip, Which};
use super::resolve::cell_in;
use super::sweep::{Step, Sweep};
use super::versions::VersionFilter;
use crate::row::CellStamp;
use crate::run::{Bits, CellColumn, Cover, Extent, Int64s, RunBatch, SortedRun, SpanTombstone, Wanted, WholeKey};
use keyspan_seam::ScanCounters;

/// Rows of an output batch at most.
const BATCH_ROWS: usize = 8192;

/// What a compaction merges.
#[derive(Debug)]
pub struct CompactionInput<'a> {
    /// The newest definition: columns it no longer has are left out.
    pub relation: Arc<RelationDef>,
    /// The runs to merge.
    pub runs: Vec<Arc<dyn SortedRun>>,
    /// Every span tombstone of the relation.
    pub tombstones: &'a [SpanTombstone],
    /// Every run of the relation, memtables included, that is not merged.
    pub outside: Vec<Extent>,
    /// Whether all tombstones stay, however old.
    pub keep_tombstones: bool,
    /// The server's clock, in microseconds since 1970.
    pub now: i64,
}

/// A compaction in progress: batches in key order with encoded keys, every key column and every value column.
#[derive(Debug)]
pub struct Compaction {
    relation: Arc<RelationDef>,
    key: KeyEncoder,
    sweep: Sweep,
    wanted: Wanted,
    types: Vec<ColumnType>,
    outside: Vec<Extent>,
    keep_tombstones: bool,
    now: i64,
    versions: Option<VersionFilter>,
    /// The last chunk, whose blocks the next one may use.
    chunk: RowChunk,
    counters: Arc<ScanCounters>,
}

impl Compaction {
    /// Begins a compaction.
    pub fn new(input: CompactionInput<'_>, counters: Arc<ScanCounters>) -> Result<Compaction> {
        let CompactionInput { relation, runs, tombstones, outside, keep_tombstones, now } = input;
        let cover = Arc::new(Cover::new(tombstones, relation.retention.horizon(now)));
        let runs = runs.into_iter().map(|run| (run, Which::All));
        let sweep = Sweep::open(runs, cover, (&[], None), false, &Skip::default(), &counters)?;
        let wanted = Wanted::everything(&relation);
        let types = relation.values.iter().map(|column| column.ty).collect();
        let versions = VersionFilter::new(&relation, now);
        let chunk = RowChunk::default();
        let key = KeyEncoder::new(&relation.key);
        Ok(Compaction { relation, key, sweep, wanted, types, outside, keep_tombstones, now, versions, chunk, counters })
    }

    /// The columns of the batches' cells, in order.
    pub fn columns(&self) -> &[keyspan_model::ColumnId] {
        &self.wanted.values
    }

    /// The next rows; `None` at the end. Does about one batch of work; the batch may be empty.
    pub fn next_batch(&mut self) -> Result<Option<RunBatch>> {
        let mut chunk = std::mem::take(&mut self.chunk).next();
        while !chunk.is_full(BATCH_ROWS) && !chunk.is_one_long_stretch() {
            match self.sweep.next(BATCH_ROWS - chunk.rows(), None, &self.wanted, &self.counters)? {
                Step::Stretch { run, rows, covered } => {
                    chunk.add_stretch(&run, rows, covered, &self.wanted, &self.counters)?;
                }
                Step::Same { rows, covered } => chunk.add_same(&rows, covered, &self.wanted, &self.counters)?,
                Step::End | Step::Fence => break,
            }
        }
        if chunk.rows() == 0 {
            return Ok(None);
        }
        let gathered = chunk.finish(&self.types, false)?;
        self.chunk = chunk;
        let kept = match &mut self.versions {
            Some(versions) => versions.keep(&gathered.batch, None)?,
            None => None,
        };
        Ok(Some(self.purge(gathered, kept.as_ref())?))
    }

    /// The rows without what may go; `kept` says which are versions that the family's rule keeps.
    fn purge(&self, rows: Gathered, kept: Option<&BooleanBuffer>) -> Result<RunBatch> {
        let Gathered { mut batch, covered } = rows;
        if covered.is_null() && is_clean(&batch, self.now) {
            return kept.map_or(Ok(batch.clone()), |kept| batch.filter(kept));
        }
        let count = batch.rows;
        let deletions: Vec<Option<i64>> =
            (0..count).map(|row| batch.row.deleted_ts.get(row).max(covered.get(row))).collect();
        let dead = |row: usize, ts: i64| {
            deletions[row].is_some_and(|deletion| ts <= deletion) || kept.is_some_and(|kept| !kept.value(row))
        };
        let marker = BooleanBuffer::collect_bool(count, |row| {
            batch.row.marker.get(row)
                && batch.row.ts.get(row).is_some_and(|ts| {
                    let expires = batch.row.expires.get(row).filter(|expires| *expires <= self.now);
                    !dead(row, ts) && expires.is_none_or(|expires| !self.may_go(&batch, row, ts, expires))
                })
        });
        let tombstone = BooleanBuffer::collect_bool(count, |row| {
            batch.row.deleted_ts.get(row).is_some_and(|ts| {
                let at = batch.row.deleted_at.get(row).unwrap_or(ts);
                covered.get(row).is_none_or(|covering| ts > covering) && !self.may_go(&batch, row, ts, at)
            })
        });
        let mut keep = &marker | &tombstone;
        let mut cells = Vec::with_capacity(batch.cells.len());
        for column in &batch.cells {
            let (column, present) = self.purge_cells(&batch, column, &dead)?;
            keep = &keep | &present;
            cells.push(column);
        }
        batch.cells = cells;
        batch.row.deleted_ts = masked(&batch.row.deleted_ts, &tombstone);
        batch.row.deleted_at = masked(&batch.row.deleted_at, &tombstone);
        batch.row.marker = Bits::new(marker);
        batch.filter(&keep)
    }

    /// The cells that stay, and in which rows there are any.
    fn purge_cells(
        &self,
        batch: &RunBatch,
        column: &CellColumn,
        dead: &impl Fn(usize, i64) -> bool,
    ) -> Result<(CellColumn, BooleanBuffer)> {
        let fates: Vec<Fate> = (0..batch.rows).map(|row| self.fate(batch, column, row, dead)).collect();
        let value = BooleanBuffer::collect_bool(batch.rows, |row| fates[row] == Fate::Stays);
        let tombstones = BooleanBuffer::collect_bool(batch.rows, |row| fates[row].deleted_at().is_some());
        let own = |get: fn(CellStamp) -> Option<i64>, column: &Int64s| {
            let stamps = fates.iter().enumerate().map(|(row, fate)| match fate {
                Fate::Goes => None,
                Fate::Expired(stamp) => get(*stamp),
                Fate::Stays | Fate::Tombstone(_) => column.get(row),
            });
            Int64s::from_options(stamps.collect())
        };
        let values = match &column.values {
            Some(values) if value.count_set_bits() > 0 => Some(nullif(values, &BooleanArray::new(!&value, None))?),
            _ => None,
        };
        let present = &value | &tombstones;
        let cells = CellColumn {
            values,
            tombstones: Bits::new(tombstones),
            ts: own(|stamp| Some(stamp.ts), &column.ts),
            ttl: own(|stamp| stamp.ttl, &column.ttl),
            expires: own(|stamp| stamp.expires, &column.expires),
            deleted_at: Int64s::from_options(fates.iter().map(Fate::deleted_at).collect()),
        };
        Ok((cells, present))
    }

    /// What becomes of a cell.
    fn fate(&self, batch: &RunBatch, column: &CellColumn, row: usize, dead: &impl Fn(usize, i64) -> bool) -> Fate {
        let Some(cell) = cell_in(batch, column, row).filter(|cell| !dead(row, cell.stamp.ts)) else {
            return Fate::Goes;
        };
        let ts = cell.stamp.ts;
        match (cell.tombstone, cell.stamp.expires.filter(|at| *at <= self.now)) {
            (None, None) => Fate::Stays,
            (Some(at), _) | (None, Some(at)) if self.may_go(batch, row, ts, at) => Fate::Goes,
            (Some(at), _) => Fate::Tombstone(at),
            (None, Some(_)) => Fate::Expired(cell.stamp),
        }
    }

    /// Whether a tombstone written at `ts`, by the clock at `at`, may be forgotten.
    fn may_go(&self, batch: &RunBatch, row: usize, ts: i64, at: i64) -> bool {
        let grace = i64::from(self.relation.gc_grace) * 1_000_000;
        if self.keep_tombstones || self.now < at.saturating_add(grace) {
            return false;
        }
        let keys = batch.encoded.as_ref().expect("encoded keys were asked for");
        let key = WholeKey::new(&self.key, keys.value(row));
        let may_contain = |run: &Extent| match &self.versions {
            // An older version of the cell, too.
            Some(_) => run.may_contain_prefix(&key, self.relation.given_key().len()),
            None => run.may_contain(&key),
        };
        self.outside.iter().all(|run| !may_contain(run) || run.ts.is_none_or(|written| written.0 > ts))
    }
}

/// What becomes of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Dropped: absent, covered or purgeable.
    Goes,
    /// It is a value that lives.
    Stays,
    /// It is a tombstone since then.
    Tombstone(i64),
    /// It is a value that has expired: a tombstone that keeps its stamp, since that decides ties.
    Expired(CellStamp),
}

impl Fate {
    fn deleted_at(&self) -> Option<i64> {
        match self {
            Fate::Goes | Fate::Stays => None,
            Fate::Tombstone(at) => Some(*at),
            Fate::Expired(stamp) => stamp.expires,
        }
    }
}

/// Whether nothing in the batch is deleted or has expired.
fn is_clean(batch: &RunBatch, now: i64) -> bool {
    let fresh = |expires: &Int64s| expires.min_max().is_none_or(|expires| now < expires.0);
    batch.row.deleted_ts.is_null()
        && fresh(&batch.row.expires)
        && batch.cells.iter().all(|cells| cells.tombstones == Bits::None && fresh(&cells.expires))
        && (batch.row.marker == Bits::All || (0..batch.rows).all(|row| row_lives(batch, row, now)))
}

/// Whether a row of a purged batch lives: what is deleted is no longer in it.
fn row_lives(batch: &RunBatch, row: usize, now: i64) -> bool {
    let fresh = |expires: Option<i64>| expires.is_none_or(|expires| now < expires);
    let base = fresh(batch.row.expires.get(row));
    (batch.row.marker.get(row) && base)
        || batch.cells.iter().any(|cells| {
            let own = cells.ts.get(row).is_some();
            cells.has_value(row) && if own { fresh(cells.expires.get(row)) } else { base }
        })
}

/// The numbers in the rows that `keep` has, null in the others.
fn masked(numbers: &Int64s, keep: &BooleanBuffer) -> Int64s {
    if numbers.is_null() || keep.count_set_bits() == keep.len() {
        return numbers.clone();
    }
    Int64s::from_options(keep.iter().enumerate().map(|(row, keep)| numbers.get(row).filter(|_| keep)).collect())
}

#[cfg(test)]
#[path = "purge_tests.rs"]
mod tests;
