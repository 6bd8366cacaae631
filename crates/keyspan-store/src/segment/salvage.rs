//! Salvage of a damaged segment: the blocks that can be read, and the key ranges of those that cannot.
//!
//! Rule: a block of which one column cannot be read is lost as a whole: half a row would be another row.

use std::ops::Range;
use std::sync::Arc;

use keyspan_model::{ErrorKind, RelationDef, Result};

use super::BlockCache;
use super::reader::{Segment, read_index};
use super::record::SegmentRecord;
use crate::files::Files;
use crate::run::{RunBatch, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// A damaged segment.
pub struct Salvage {
    segment: Segment,
    /// Rows that can be read, block by block.
    sound: Vec<Range<usize>>,
    /// Rows that are lost, as few ranges as can be.
    pub lost: Vec<LostRows>,
}

/// Rows that are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRows {
    /// How many.
    pub rows: u64,
    /// Encoded key of the first.
    pub first: Vec<u8>,
    /// The first encoded key behind them, or that of the last of them where the segment ends.
    pub end: Vec<u8>,
}

impl Salvage {
    /// Reads all of a segment.
    ///
    /// Errors: of the disk; damage is what is looked for.
    pub fn of(files: &Arc<dyn Files>, relation: &RelationDef, record: &SegmentRecord) -> Result<Salvage> {
        let segment = Segment::new(files.clone(), BlockCache::new(16 << 20), relation, record.clone()).cut_short();
        let mut salvage = Salvage { segment, sound: Vec::new(), lost: Vec::new() };
        let rows = record.meta.all.rows as usize;
        let keys = read_index(files.as_ref(), record).map(|index| index.block_keys);
        let key_of = |block: usize| keys.as_ref().ok().filter(|keys| block < keys.len()).map(|keys| keys.get(block));
        let (mut row, mut block) = (0, 0);
        let (mut broken, wanted) = (false, Wanted::everything(relation));
        while row < rows {
            let own = salvage.segment.block(row, &wanted);
            let read = salvage.segment.read(own.clone(), &wanted, &ScanCounters::default());
            match read {
                Ok(_) => salvage.sound.push(own.clone()),
                Err(error) if error.kind == ErrorKind::Corrupted => {
                    let first = key_of(block).unwrap_or(&record.meta.all.key.0).to_vec();
                    let end = key_of(block + 1).unwrap_or(&record.meta.all.key.1).to_vec();
                    salvage.lose(LostRows { rows: own.len() as u64, first, end }, broken);
                }
                Err(error) => return Err(error),
            }
            broken = salvage.sound.last() != Some(&own);
            (row, block) = (own.end, block + 1);
        }
        Ok(salvage)
    }

    /// Nothing of a segment whose files are gone.
    pub fn nothing(files: &Arc<dyn Files>, relation: &RelationDef, record: &SegmentRecord) -> Salvage {
        let (first, end) = record.meta.all.key.clone();
        let segment = Segment::new(files.clone(), BlockCache::new(0), relation, record.clone());
        Salvage { segment, sound: Vec::new(), lost: vec![LostRows { rows: record.meta.all.rows, first, end }] }
    }

    fn lose(&mut self, rows: LostRows, goes_on: bool) {
        match self.lost.last_mut().filter(|_| goes_on) {
            Some(last) => (last.rows, last.end) = (last.rows + rows.rows, rows.end),
            None => self.lost.push(rows),
        }
    }

    /// The blocks that can be read, in order.
    pub fn batches<'a>(&'a self, relation: &'a RelationDef) -> impl FnMut() -> Result<Option<RunBatch>> + 'a {
        let mut blocks = self.sound.iter();
        move || {
            let Some(rows) = blocks.next() else { return Ok(None) };
            let wanted = Wanted::everything(relation);
            self.segment.read(rows.clone(), &wanted, &ScanCounters::default()).map(Some)
        }
    }

    /// The segment itself.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Whether any row can be read.
    pub fn is_empty(&self) -> bool {
        self.sound.is_empty()
    }
}
