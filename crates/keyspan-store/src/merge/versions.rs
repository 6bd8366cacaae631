//! Which rows of a group of rows are kept: the versions that a family's GC rule keeps, and the first rows of a prefix.
//!
//! Rows come in key order, so that the members of a group follow one another; a filter remembers the group it is in
//! from batch to batch. A family's key ends in the write timestamp descending: the newest version comes first.

use arrow::array::AsArray;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::TimestampMicrosecondType;
use keyspan_model::{GcRule, KeyEncoder, RelationDef, Result, decoded};

use crate::run::RunBatch;

/// Counts rows of a group: rows whose keys agree in some leading columns.
#[derive(Clone, Debug)]
struct Group {
    encoder: KeyEncoder,
    columns: usize,
    prefix: Option<Vec<u8>>,
    rank: usize,
}

impl Group {
    fn new(relation: &RelationDef, columns: usize) -> Group {
        Group { encoder: KeyEncoder::new(&relation.key), columns, prefix: None, rank: 0 }
    }

    /// The row's place in its group, from 1.
    fn count(&mut self, key: &[u8]) -> usize {
        let prefix = &key[..self.encoder.prefix_len(key, self.columns)];
        if self.prefix.as_deref() != Some(prefix) {
            self.prefix = Some(prefix.to_vec());
            self.rank = 0;
        }
        self.rank += 1;
        self.rank
    }
}

/// Keeps of a family's live versions what its GC rule keeps.
#[derive(Clone, Debug)]
pub(crate) struct VersionFilter {
    group: Group,
    rule: GcRule,
    now: i64,
}

impl VersionFilter {
    /// The filter of a relation; `None` where every version is kept.
    pub(crate) fn new(relation: &RelationDef, now: i64) -> Option<VersionFilter> {
        let group = || Group::new(relation, relation.given_key().len());
        relation.counts_versions().then(|| VersionFilter { group: group(), rule: relation.gc.clone(), now })
    }

    /// Resets the filter: the next row is the first version of its group.
    pub(crate) fn reset(&mut self) {
        self.group.prefix = None;
    }

    /// Of the live rows those that are kept. The batch has encoded keys and the last key column.
    ///
    /// Versions that have expired or were deleted count among the newer ones: what they hid does not come back.
    pub(crate) fn keep(&mut self, batch: &RunBatch, live: Option<BooleanBuffer>) -> Result<Option<BooleanBuffer>> {
        let keys = batch.encoded.as_ref().expect("encoded keys were asked for");
        let written = batch.keys.last().and_then(Option::as_ref).expect("the write timestamp was asked for");
        let written = decoded(written)?;
        let written = written.as_primitive::<TimestampMicrosecondType>();
        Ok(Some(BooleanBuffer::collect_bool(batch.rows, |row| {
            let rank = self.group.count(keys.value(row));
            live.as_ref().is_none_or(|live| live.value(row))
                && !self.rule.removes(rank, self.now.saturating_sub(written.value(row)))
        })))
    }
}

/// Keeps the first rows of each distinct value of some leading key columns.
#[derive(Clone, Debug)]
pub(crate) struct PrefixFilter {
    group: Group,
    rows: usize,
}

impl PrefixFilter {
    pub(crate) fn new(relation: &RelationDef, (columns, rows): (usize, usize)) -> PrefixFilter {
        PrefixFilter { group: Group::new(relation, columns), rows }
    }

    /// How many of the next `rows` rows, all of the same group, are kept.
    pub(crate) fn take(&mut self, key: &[u8], rows: usize) -> usize {
        (0..rows).take_while(|_| self.group.count(key) <= self.rows).count()
    }

    /// Of the live rows those that are kept. The batch has encoded keys.
    pub(crate) fn keep(&mut self, batch: &RunBatch, live: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
        let keys = batch.encoded.as_ref().expect("encoded keys were asked for");
        Some(BooleanBuffer::collect_bool(batch.rows, |row| {
            live.as_ref().is_none_or(|live| live.value(row)) && self.group.count(keys.value(row)) <= self.rows
        }))
    }
}
