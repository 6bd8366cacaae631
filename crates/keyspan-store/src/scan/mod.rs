//! Reading one relation of a snapshot: what a [`keyspan_seam::Snapshot`] delegates to.

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
use keyspan_model::{Order, RelationDef, Result, Scan, ScanColumn};

pub use found::Lookups;
pub use run::Run;

use crate::run::ShownTombstones;
use keyspan_seam::{Accepted, output_schema};

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
    /// What of a scan is answered exactly.
    pub fn accept(scan: &Scan) -> Accepted {
        Accepted { spans: true, order: scan.order != Order::Any, limit: true, per_prefix: true }
    }

    /// The Arrow schema of a scan's output: the columns' types, key columns not null.
    pub fn schema(&self, columns: &[ScanColumn]) -> Result<SchemaRef> {
        output_schema(&self.relation, columns)
    }
}

#[cfg(test)]
mod tests;
