//! The files of relations, and whether what they hold is all there is.

use keyspan_model::{RelationId, RelationKind};

use super::EmbeddedStore;
use super::version::RelationVersion;
use crate::run::{Extent, SortedRun};
use crate::segment::data_path;

/// A segment, as someone sees it who reads its file without the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// The relation whose rows it holds.
    pub relation: RelationId,
    /// Its path in the directory of the database; none for rows that are in memory only.
    pub path: Option<String>,
    /// Rows in it, overwritten ones and tombstones included.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Why its rows are not those that a query finds; none if they are.
    pub unsettled: Option<&'static str>,
}

impl EmbeddedStore {
    /// The files of these relations, and what of them is in memory.
    pub fn segment_files(&self, relations: &[RelationId]) -> Vec<SegmentFile> {
        let now = self.core.options.clock.now();
        let version = self.core.state.lock().version.clone();
        relations.iter().filter_map(|id| version.get(id)).flat_map(|relation| files_of(relation, now)).collect()
    }
}

fn files_of(relation: &RelationVersion, now: i64) -> Vec<SegmentFile> {
    let id = relation.definition.id;
    let segments: Vec<&Extent> = relation.segments.iter().map(|segment| &segment.meta().all).collect();
    let memory = relation.memory_extents();
    let mut files = Vec::new();
    for (at, segment) in relation.segments.iter().enumerate() {
        let others = segments.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| *other);
        let shared = others.chain(&memory).any(|other| !segments[at].disjoint(other));
        let record = segment.record();
        files.push(SegmentFile {
            relation: id,
            path: Some(data_path(record.id)),
            rows: segments[at].rows,
            bytes: record.file_bytes,
            unsettled: unsettled(relation, segments[at], shared, now),
        });
    }
    let rows = memory.iter().map(|extent| extent.rows).sum();
    if rows > 0 {
        let unsettled = Some("not written out yet: CHECKPOINT does it");
        files.push(SegmentFile { relation: id, path: None, rows, bytes: 0, unsettled });
    }
    files
}

fn unsettled(relation: &RelationVersion, extent: &Extent, shared: bool, now: i64) -> Option<&'static str> {
    // The end of a range of keys is not of it; the greatest key is.
    let behind = [extent.key.1.as_slice(), &[0]].concat();
    let deleted = !relation.tombstones.over(&extent.key.0, Some(&behind), u64::MAX).is_empty();
    match extent {
        _ if relation.definition.kind == RelationKind::Family => Some("holds all versions of cells"),
        extent if extent.row_tombstones > 0 => Some("marks rows as deleted"),
        _ if deleted => Some("rows in its range of keys are deleted"),
        extent if extent.expires.is_some_and(|expires| expires.0 <= now) => Some("some of its rows have expired"),
        extent if extent.ts.is_some_and(|ts| relation.definition.retention.horizon(now) >= Some(ts.0)) => {
            Some("some of its rows are older than the table's retention")
        }
        _ if shared => Some("others may have newer versions of its rows"),
        extent if extent.markerless > 0 => Some("some of its rows are parts that an UPDATE has written"),
        _ => None,
    }
}
