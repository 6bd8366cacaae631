//! Building value indexes: each segment of a table gets a file for each indexed column, in a thread of its own.
//!
//! ```text
//! CREATE INDEX, flush, merge, open, damage ─▶ segments without ─▶ file ─▶ look-ups use it
//! DROP INDEX, dead segments ─▶ files of nothing ─▶ removed
//! ```
//!
//! Rule: nothing waits for an index, and no answer needs it. So files are written without an edit of the manifest; what
//! a crash leaves is used, removed, or made anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keyspan_model::{ColumnId, ErrorKind, RelationDef, RelationId, Result};

use super::core::{Core, closed};
use super::version::{RelationVersion, Version};
use crate::run::{IndexedColumn, SortedRun};
use crate::segment::{SEGMENT_DIRECTORY, Segment, values_of};
use keyspan_seam::IndexState;

/// How often the segments are looked at without being asked: one of their files may have turned out to be damaged.
const LOOK: Duration = Duration::from_secs(5);
/// How long the builder waits after a failure.
const REST: Duration = Duration::from_secs(1);

impl Core {
    /// Wakes the builder.
    pub fn ask_for_index(&self) {
        self.work.lock().index = true;
        self.wake.notify_all();
    }

    pub(super) fn run_builder(&self) {
        while self.next_index() {
            if !self.options.background {
                continue;
            }
            if let Err(error) = self.build_indexes() {
                if error.kind != ErrorKind::Shutdown {
                    tracing::warn!(%error, "an index could not be built");
                }
                self.rest();
            }
        }
    }

    /// Waits for something to build; false when the store closes.
    fn next_index(&self) -> bool {
        let mut work = self.work.lock();
        let began = std::time::Instant::now();
        while !work.closing && !work.index && began.elapsed() < LOOK {
            let _ = self.wake.wait_for(&mut work, LOOK);
        }
        work.index = false;
        !work.closing
    }

    /// Waits a while, or until the store closes.
    fn rest(&self) {
        let mut work = self.work.lock();
        if !work.closing {
            let _ = self.wake.wait_for(&mut work, REST);
        }
    }

    /// Builds what is missing, and removes files that are about nothing any more.
    pub fn build_indexes(&self) -> Result<()> {
        let _indexing = self.indexing.lock();
        let version = self.state.lock().version.clone();
        for relation in version.values().filter(|relation| !relation.definition.indexed.is_empty()) {
            for (segment, column) in unbuilt(relation) {
                self.build(relation.definition.id, &segment, &column)?;
            }
        }
        self.remove_stale_values(&version)
    }

    fn build(&self, relation: RelationId, segment: &Arc<Segment>, column: &IndexedColumn) -> Result<()> {
        // Of a table that was dropped or truncated meanwhile, or an index.
        let definition = self.state.lock().version.get(&relation).map(|relation| relation.definition.clone());
        if !definition.is_some_and(|definition| definition.indexed.contains(&column.id)) {
            return Ok(());
        }
        self.check_room_for_segments()?;
        segment.write_value_index(column, &|| match self.aborting.load(Ordering::Relaxed) {
            true => Err(closed()),
            false => Ok(()),
        })
    }

    /// Removes value indexes of segments that are gone, and of columns that are not indexed any more. Whoever still has
    /// one open goes on reading it; who has not reads the column.
    fn remove_stale_values(&self, version: &Version) -> Result<()> {
        let catalog = self.state.lock().newest_schema().catalog.version;
        let any = version.values().any(|relation| !relation.definition.indexed.is_empty());
        if !any && self.swept.swap(catalog, Ordering::Relaxed) == catalog {
            return Ok(());
        }
        let names = self.files.list(SEGMENT_DIRECTORY)?;
        let files: Vec<_> = names.iter().filter_map(|name| Some((name, values_of(name)?))).collect();
        if files.is_empty() {
            return Ok(());
        }
        // The newest state: a segment may have come after `version`.
        let version = self.state.lock().version.clone();
        let segments = version
            .values()
            .flat_map(|relation| relation.segments.iter().map(move |segment| (segment.id(), &relation.definition)));
        let definitions: BTreeMap<_, &Arc<RelationDef>> = segments.collect();
        for (name, (segment, column)) in files {
            if !definitions.get(&segment).is_some_and(|definition| definition.indexed.contains(&column)) {
                self.files.remove(&format!("{SEGMENT_DIRECTORY}/{name}"))?;
            }
        }
        Ok(())
    }
}

/// The columns of segments that lack a value index. Segments that only the log names wait for the manifest.
fn unbuilt(relation: &RelationVersion) -> Vec<(Arc<Segment>, IndexedColumn)> {
    let columns = relation.definition.indexed.iter();
    let columns: Vec<IndexedColumn> =
        columns.filter_map(|column| IndexedColumn::new(&relation.definition, *column)).collect();
    let each = relation.flushed_segments().flat_map(|segment| columns.iter().map(move |column| (segment, column)));
    let missing = each.filter(|(segment, column)| !segment.has_value_index(column));
    missing.map(|(segment, column)| (segment.clone(), column.clone())).collect()
}

/// How far the index of a relation's column is built.
pub fn index_state(relation: &RelationVersion, column: ColumnId) -> IndexState {
    let built = relation.segments.iter().filter(|segment| segment.has_values_of(column));
    let bytes = built.clone().map(|segment| segment.value_index_bytes(column)).sum();
    IndexState { built: built.count() as u64, segments: relation.segments.len() as u64, bytes }
}
