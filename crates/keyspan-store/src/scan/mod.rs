//! Reading one relation of a snapshot: what a [`keyspan_seam::Snapshot`] delegates to.

mod ahead;
mod divide;
mod families;
mod first_rows;
mod found;
mod get;
mod orders;
mod overlap_groups;
mod plan;
mod reader;
mod run;
mod split;
mod statistics;
mod stream;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use keyspan_model::{Order, RelationDef, RelationKind, Result, Scan, ScanColumn};

pub use found::Lookups;
pub use run::Run;

use crate::merge::select::Selection;
use crate::run::{Cover, Extent, ShownTombstones};
use keyspan_seam::{Accepted, output_schema};
use reader::Task;

/// One relation as a snapshot sees it.
#[derive(Clone, Debug)]
pub struct ScanSource {
    /// The relation as of the snapshot's catalog.
    pub relation: Arc<RelationDef>,
    /// Every run that the snapshot shows, in any order. Those that begin after the snapshot's seq are not listed.
    pub runs: Vec<Run>,
    /// Every span tombstone of the relation that the snapshot shows.
    pub tombstones: ShownTombstones,
    /// The time by which expiry is judged, in microseconds since 1970.
    pub now: i64,
    /// Of the rows of a table: its families, in which rows may live that nothing else keeps alive.
    pub families: Vec<Arc<ScanSource>>,
    /// What value indexes have found for the scans of this source.
    pub lookups: Lookups,
}

impl ScanSource {
    /// The time of the last writes that are too old to be read, in microseconds since 1970; `None`: none is.
    pub(crate) fn horizon(&self) -> Option<i64> {
        self.relation.retention.horizon(self.now)
    }

    /// Whether every row of a run is its marker's and lives, whatever versions it has in other runs.
    pub(crate) fn is_plain(&self, extent: &Extent) -> bool {
        extent.is_plain(self.now) && !self.has_old(extent)
    }

    /// What covers the keys of a task in its runs.
    pub(crate) fn cover(&self, task: &Task) -> Cover {
        let old = task.runs.iter().any(|(at, _)| self.has_old(&self.runs[*at].meta().all));
        self.tombstones.cover(&task.start, task.end.as_deref(), self.horizon().filter(|_| old))
    }

    /// Whether something in a run may be too old to be read.
    fn has_old(&self, extent: &Extent) -> bool {
        self.horizon().is_some_and(|horizon| extent.ts.is_none_or(|ts| ts.0 <= horizon))
    }

    /// What of a scan is answered exactly.
    pub fn accept(relation: &RelationDef, scan: &Scan) -> Accepted {
        let of_rows = scan.per_prefix.is_none() && relation.kind != RelationKind::Family;
        let ranges = of_rows && Selection::holds_keys(relation, &scan.ranges);
        Accepted { spans: true, ranges, order: scan.order != Order::Any, limit: true, per_prefix: true }
    }

    /// The Arrow schema of a scan's output: the columns' types, key columns not null.
    pub fn schema(&self, columns: &[ScanColumn]) -> Result<SchemaRef> {
        output_schema(&self.relation, columns)
    }
}

#[cfg(test)]
mod tests;
