//! Versions: the catalog at one moment and the runs of each relation. Immutable, shared by snapshots.
//!
//! ```text
//! published ─▶ version ─▶ relation ─▶ active memtable, sealed memtables, memory runs, segments, span tombstones
//!           ─▶ schema     seq: rows and tombstones with a greater one do not show
//! ```
//!
//! Rules: whatever one snapshot needs is taken under one lock ([`State`]), so its version holds every batch up to its
//! seq. A run whose rows have no seq of their own (a frozen memtable, merged runs, a flushed segment) is put into a
//! version only when its greatest seq is visible, so no later snapshot can be older than it. Runs of bulk writes and
//! loaded segments are of one batch each: a snapshot leaves out those that are newer than it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use keyspan_model::{Catalog, Error, ErrorKind, RelationDef, RelationId, Result};
use parking_lot::Mutex;

use crate::memory_run::MemoryRun;
use crate::memtable::Memtable;
use crate::run::{Extent, SortedRun, SpanTombstones, Tombstone};
use crate::segment::Segment;

/// A catalog and the relations that it names.
#[derive(Debug)]
pub struct Schema {
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// By id.
    pub relations: BTreeMap<RelationId, Arc<RelationDef>>,
    /// Those that a materialized view follows.
    pub followed: BTreeSet<RelationId>,
}

impl Schema {
    /// The schema of a catalog.
    pub fn new(catalog: Arc<Catalog>) -> Arc<Schema> {
        let all = catalog.all_tables().flat_map(|table| table.relations());
        let relations = all.map(|relation| (relation.id, Arc::new(relation))).collect();
        let sources = catalog.tables.values().filter(|table| catalog.rollups_of(table.id).next().is_some());
        let followed = sources.map(|table| table.rows).collect();
        Arc::new(Schema { catalog, relations, followed })
    }

    /// The relation with this id, or 40001.
    pub fn relation(&self, id: RelationId) -> Result<&Arc<RelationDef>> {
        self.relations.get(&id).ok_or_else(|| {
            let message = "could not serialize access: a table or an index was dropped or emptied by another session";
            Error::new(ErrorKind::Redefined, message)
                .with_detail(format!("Relation {id} does not exist any more."))
                .with_hint("A table may also have got another key: run the statement or transaction again.")
        })
    }
}

/// One relation at a moment.
#[derive(Clone, Debug)]
pub struct RelationVersion {
    /// The newest definition.
    pub definition: Arc<RelationDef>,
    /// Everything up to this seq is in segments, or in the manifest.
    pub flushed: u64,
    /// Takes single rows.
    pub active: Arc<Memtable>,
    /// Memtables that were full, the oldest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// Runs in memory.
    pub runs: Vec<Arc<MemoryRun>>,
    /// Segments.
    pub segments: Vec<Arc<Segment>>,
    /// Span tombstones.
    pub tombstones: SpanTombstones,
}

impl RelationVersion {
    /// A relation without rows.
    pub fn new(definition: Arc<RelationDef>) -> RelationVersion {
        RelationVersion {
            active: Arc::new(Memtable::new(&definition)),
            definition,
            flushed: 0,
            sealed: Vec::new(),
            runs: Vec::new(),
            segments: Vec::new(),
            tombstones: SpanTombstones::default(),
        }
    }

    /// All memtables, the oldest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.sealed.iter().chain([&self.active])
    }

    /// Bytes in memory, segments left aside.
    pub fn memory(&self) -> usize {
        let memtables: usize = self.memtables().map(|memtable| memtable.bytes()).sum();
        let runs: u64 = self.runs.iter().map(|run| run.meta().bytes).sum();
        memtables + runs as usize
    }

    /// The first batch that is not flushed.
    pub fn first_unflushed(&self) -> Option<u64> {
        let memtables = self.memtables().filter_map(|memtable| memtable.seqs()).map(|seqs| seqs.0);
        let runs = self.runs.iter().map(|run| run.meta().seq.0);
        let tombstones = self.unflushed_tombstones().map(|tombstone| tombstone.span.seq);
        let segments = self.unflushed_segments().map(|segment| segment.record().meta.seq.0);
        memtables.chain(runs).chain(tombstones).chain(segments).min()
    }

    /// Loaded segments that only the commit log names yet.
    pub fn unflushed_segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.segments.iter().filter(|segment| segment.record().meta.seq.1 > self.flushed)
    }

    /// Segments that the manifest names.
    pub fn flushed_segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.segments.iter().filter(|segment| segment.record().meta.seq.1 <= self.flushed)
    }

    /// Span tombstones that the manifest does not have yet.
    pub fn unflushed_tombstones(&self) -> impl Iterator<Item = &Arc<Tombstone>> {
        self.tombstones.after(self.flushed)
    }

    /// The metadata of the memtables.
    pub fn memtable_extents(&self) -> impl Iterator<Item = Extent> {
        self.memtables().filter(|memtable| !memtable.is_empty()).map(|memtable| memtable.extent())
    }

    /// The extents of everything in memory.
    pub fn memory_extents(&self) -> Vec<Extent> {
        self.memtable_extents().chain(self.runs.iter().map(|run| run.meta().all.clone())).collect()
    }
}

/// All relations at a moment.
pub type Version = BTreeMap<RelationId, Arc<RelationVersion>>;

/// What snapshots are taken from.
#[derive(Debug)]
pub struct Published {
    /// The relations, newest state.
    pub version: Arc<Version>,
    /// The newest schema that is acknowledged.
    pub schema: Arc<Schema>,
    /// The change that made it.
    pub schema_seq: u64,
    /// Schemas whose change is applied and not yet acknowledged.
    pub pending: VecDeque<(u64, Arc<Schema>)>,
    /// The last batch that every snapshot shows. Never behind an acknowledged batch. A relaxed batch is acknowledged
    /// when it is applied, and makes those before it visible with it, even if their own sync is still under way.
    pub visible: u64,
    /// The last batch that was applied.
    pub last_seq: u64,
    /// The last server timestamp given, in microseconds.
    pub timestamp: i64,
    /// The time of the newest snapshot, in microseconds: it never goes back.
    pub read_time: i64,
    /// Bytes in memtables and memory runs.
    pub memory: usize,
}

impl Published {
    /// Changes one relation of the version, if it is still there.
    pub fn change(&mut self, id: RelationId, change: impl FnOnce(&mut RelationVersion)) {
        if let Some(relation) = Arc::make_mut(&mut self.version).get_mut(&id) {
            change(Arc::make_mut(relation));
        }
    }

    /// Makes batches visible, and the schemas among them current.
    pub fn show(&mut self, seq: u64) {
        self.visible = self.visible.max(seq);
        while let Some((at, schema)) = self.pending.pop_front_if(|(at, _)| *at <= seq) {
            (self.schema, self.schema_seq) = (schema, at);
        }
    }

    /// Counts the memory again.
    pub fn recount(&mut self) {
        self.memory = self.version.values().map(|relation| relation.memory()).sum();
    }

    /// The newest schema, acknowledged or not.
    pub fn newest_schema(&self) -> &Arc<Schema> {
        self.pending.back().map_or(&self.schema, |(_, schema)| schema)
    }
}

/// The one lock under which batches become visible and snapshots are taken.
pub type State = Mutex<Published>;
