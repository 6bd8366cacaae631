//! What the manifest keeps of a segment: enough to prune it without opening it, and to know its files undamaged.

use keyspan_model::{ColumnId, RelationDef, RelationId, SegmentId};
use serde::{Deserialize, Serialize};

use crate::run::RunMeta;

/// The seq in the files of a segment that was written before its batch had a place in the commit order.
pub const NO_SEQ: (u64, u64) = (0, 0);

/// A segment as the manifest knows it. Some hundred bytes, whatever the segment's size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentRecord {
    /// Never reused.
    pub id: SegmentId,
    /// The relation it belongs to.
    pub relation: RelationId,
    /// Version of the table's definition when it was written.
    pub schema_version: u32,
    /// Length of the Parquet file in bytes.
    pub file_bytes: u64,
    /// crc32c of the Parquet file's footer: everything behind its last page.
    pub footer_crc: u32,
    /// Length of the index file in bytes.
    pub index_bytes: u64,
    /// crc32c of the whole index file.
    pub index_crc: u32,
    /// Counts and boxes of the whole segment; `groups` is empty here and filled when the index is read.
    pub meta: RunMeta,
    /// What is added to every write timestamp in the segment's files, in microseconds. A segment that was written
    /// before its batch had its place counts its timestamps from 0, and its files' seq does not count; `meta` is final.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ts_base: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl SegmentRecord {
    /// Least and greatest encoded value of the relation's window column; `None` where it has none or no rows.
    pub fn window_bounds(&self, relation: &RelationDef) -> Option<(&[u8], &[u8])> {
        let bounds = self.meta.all.columns.get(relation.window?)?;
        Some((&bounds.0, &bounds.1))
    }

    /// The record with the place in the commit order of a segment that was written before its batch had one.
    pub fn placed(mut self, ts_base: i64, seq: u64) -> SegmentRecord {
        self.ts_base = ts_base;
        self.meta.all = self.meta.all.shifted(ts_base);
        self.meta.seq = (seq, seq);
        self
    }

    /// The counts and boxes in the files of the segment, with its own timestamps and seq.
    pub fn corrected(&self, mut meta: RunMeta) -> RunMeta {
        if meta.seq == NO_SEQ {
            meta.seq = self.meta.seq;
        }
        meta.all = meta.all.shifted(self.ts_base);
        meta.groups = meta.groups.into_iter().map(|group| group.shifted(self.ts_base)).collect();
        meta
    }

    /// Bytes on disk of both files.
    pub fn disk_bytes(&self) -> u64 {
        self.file_bytes + self.index_bytes
    }
}

/// The directory of segments.
pub const SEGMENT_DIRECTORY: &str = "seg";

/// Path of a segment's Parquet file.
pub fn data_path(id: SegmentId) -> String {
    format!("{SEGMENT_DIRECTORY}/{id}.parquet")
}

/// Path of a segment's index file.
pub fn index_path(id: SegmentId) -> String {
    format!("{SEGMENT_DIRECTORY}/{id}.index")
}

/// Path of the value index of a segment's column.
pub fn values_path(id: SegmentId, column: ColumnId) -> String {
    format!("{SEGMENT_DIRECTORY}/{id}.{column}.values")
}

/// The segment that a file in the directory of segments belongs to.
pub fn segment_of(name: &str) -> Option<SegmentId> {
    let (id, kind) = name.split_once('.')?;
    let known = ["parquet", "index"].contains(&kind) || values_of(name).is_some();
    id.parse().ok().filter(|_| known).map(SegmentId)
}

/// The segment and the column that a file is the value index of.
pub fn values_of(name: &str) -> Option<(SegmentId, ColumnId)> {
    let (id, column) = name.strip_suffix(".values")?.split_once('.')?;
    Some((SegmentId(id.parse().ok()?), ColumnId(column.parse().ok()?)))
}
