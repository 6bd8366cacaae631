//! A snapshot: one version, one seq and one time, over all tables, fixed from when it was taken.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{
    Catalog, ColumnId, Mutation, RelationDef, RelationId, Result, Scan, ScanColumn, Value, WriteBatch,
};
use parking_lot::Mutex;

use super::core::Core;
use super::index::index_state;
use super::overlay::with_writes;
use super::version::{RelationVersion, Schema, Version};
use crate::files::{answered, in_memory, on_disk};
use crate::memtable::Memtable;
use crate::run::{Extent, ShownTombstones, SortedRun, SpanTombstones};
use crate::scan::{Lookups, Run, ScanSource};
use keyspan_seam::{
    Accepted, BatchStream, Changes, Conditions, IndexState, Known, ReadAt, ScanCounters, ScanPlan, Snapshot, Split,
    output_schema,
};

/// A snapshot of an embedded store. It outlives the store.
#[derive(Debug)]
pub struct StoreSnapshot {
    version: Arc<Version>,
    schema: Arc<Schema>,
    seq: u64,
    now: i64,
    /// The last server timestamp that can be seen, in microseconds.
    timestamp: i64,
    /// A transaction's own writes, with what `Stamp::Server(0)` means in each, in microseconds.
    own: Vec<(Arc<WriteBatch>, i64)>,
    /// Relations that were read: their sources, made once.
    sources: Mutex<HashMap<RelationId, Arc<ScanSource>>>,
}

impl Core {
    /// Takes a snapshot.
    pub fn snapshot(&self, at: ReadAt) -> StoreSnapshot {
        let clock = self.options.clock.now();
        let mut state = self.state.lock();
        state.read_time = state.read_time.max(clock);
        let (seq, schema) = match at {
            ReadAt::Acknowledged => (state.visible, &state.schema),
            ReadAt::Newest => (state.last_seq, state.newest_schema()),
        };
        StoreSnapshot {
            version: state.version.clone(),
            schema: schema.clone(),
            seq,
            now: state.read_time,
            timestamp: state.timestamp,
            own: Vec::new(),
            sources: Mutex::default(),
        }
    }
}

impl StoreSnapshot {
    fn source(&self, id: RelationId) -> Result<Arc<ScanSource>> {
        if let Some(source) = self.sources.lock().get(&id) {
            return Ok(source.clone());
        }
        let source = Arc::new(self.new_source(id)?);
        self.sources.lock().insert(id, source.clone());
        Ok(source)
    }

    fn new_source(&self, id: RelationId) -> Result<ScanSource> {
        let relation = self.schema.relation(id)?.clone();
        let (mut runs, mut tombstones) = (Vec::new(), SpanTombstones::default());
        if let Some(version) = self.version.get(&id) {
            self.add_runs(version, &mut runs);
            tombstones = version.tombstones.clone();
        }
        let families = self.families(&relation)?;
        let tombstones = ShownTombstones::new(tombstones, self.seq);
        let mut source =
            ScanSource { relation, runs, tombstones, now: self.now, families, lookups: Lookups::default() };
        for (batch, timestamp) in &self.own {
            source = with_writes(&source, batch, *timestamp)?;
        }
        Ok(source)
    }

    /// The families of the table whose rows these are.
    fn families(&self, relation: &RelationDef) -> Result<Vec<Arc<ScanSource>>> {
        if relation.value(PRESENCE_COLUMN).is_none() {
            return Ok(Vec::new());
        }
        let table = self.schema.catalog.tables.get(&relation.table);
        let families = table.iter().flat_map(|table| &table.families);
        families.map(|family| self.source(family.relation)).collect()
    }

    /// Only what the transaction itself has written.
    fn own_source(&self, relation: &Arc<RelationDef>) -> Result<ScanSource> {
        let nothing = ScanSource {
            relation: relation.clone(),
            runs: Vec::new(),
            tombstones: ShownTombstones::from(Vec::new()),
            now: self.now,
            families: Vec::new(),
            lookups: Lookups::default(),
        };
        self.own.iter().try_fold(nothing, |source, (batch, timestamp)| with_writes(&source, batch, *timestamp))
    }

    fn add_runs(&self, version: &RelationVersion, runs: &mut Vec<Run>) {
        let definition = &self.schema.relations[&version.definition.id];
        let begun = |memtable: &&Arc<Memtable>| memtable.seqs().is_some_and(|seqs| seqs.0 <= self.seq);
        let memtables = version.memtables().filter(begun);
        runs.extend(memtables.map(|memtable| Run::Memtable(memtable.view(self.seq, definition.clone()))));
        let seen = version.runs.iter().filter(|run| run.meta().seq.1 <= self.seq);
        runs.extend(seen.cloned().map(Run::Memory));
        let seen = version.segments.iter().filter(|segment| segment.record().meta.seq.1 <= self.seq);
        runs.extend(seen.map(|segment| Run::Segment(segment.clone())));
    }
}

/// The extents of everything that holds a batch after `since`.
fn changed_extents(version: &RelationVersion, since: u64) -> Vec<Extent> {
    let later = |memtable: &&Arc<Memtable>| memtable.seqs().is_some_and(|seqs| seqs.1 > since);
    let memtables = version.memtables().filter(later).map(|memtable| memtable.extent());
    let runs = version.runs.iter().map(|run| run.meta());
    let runs = runs.chain(version.segments.iter().map(|segment| &segment.record().meta));
    memtables.chain(runs.filter(|meta| meta.seq.1 > since).map(|meta| meta.all.clone())).collect()
}

#[async_trait]
impl Snapshot for StoreSnapshot {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.schema.catalog
    }

    fn seq(&self) -> u64 {
        self.seq
    }

    fn now(&self) -> i64 {
        self.now
    }

    fn accept(&self, scan: &Scan) -> Accepted {
        // What cannot be read is refused when it is planned.
        self.schema.relation(scan.relation).map_or(Accepted::default(), |relation| ScanSource::accept(relation, scan))
    }

    async fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        let source = self.source(scan.relation)?;
        if let Some(plan) = in_memory(|| source.plan(scan, want)) {
            return plan;
        }
        let scan = scan.clone();
        answered(on_disk(move || source.plan(&scan, want)).await)?
    }

    fn scan(
        &self,
        scan: &Scan,
        split: &Split,
        conditions: Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<BatchStream> {
        self.source(scan.relation)?.scan(scan, split, conditions, counters)
    }

    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        let source = self.source(relation)?;
        if let Some(rows) = in_memory(|| source.get(keys, columns, &ScanCounters::default())) {
            return rows;
        }
        let (keys, columns) = (keys.to_vec(), columns.to_vec());
        answered(on_disk(move || source.get(&keys, &columns, &ScanCounters::default())).await)?
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        let source = self.source(relation)?;
        let clock = self.timestamp;
        if !source.may_be_ahead(clock) {
            return Ok(vec![None; keys.len()]);
        }
        if let Some(stamps) = in_memory(|| source.stamps_ahead(keys, clock)) {
            return stamps;
        }
        let keys = keys.to_vec();
        answered(on_disk(move || source.stamps_ahead(&keys, clock)).await)?
    }

    fn changed(&self, relation: RelationId, column: ColumnId, since: u64) -> Result<Changes> {
        let definition = self.schema.relation(relation)?;
        let Some(at) = definition.key_index(column) else { return Ok(Changes::Anywhere) };
        let mut extents = Vec::new();
        if let Some(version) = self.version.get(&relation) {
            if version.tombstones.after(since).any(|tombstone| tombstone.span.seq <= self.seq) {
                return Ok(Changes::Anywhere);
            }
            extents = changed_extents(version, since);
        }
        let own = self.own_source(definition)?;
        if !own.tombstones.is_empty() {
            return Ok(Changes::Anywhere);
        }
        extents.extend(own.runs.iter().map(|run| run.meta().all.clone()));
        let bounds =
            extents.iter().filter(|extent| extent.rows > 0).map(|extent| extent.values(&definition.key[at], at));
        Ok(bounds.collect::<Option<Vec<_>>>().map_or(Changes::Anywhere, Changes::Within))
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        batch.mutations.iter().try_for_each(|mutation| self.schema.relation(mutation.relation()).map(drop))?;
        // Later than everything that can be seen, so that own writes win as they will when they commit.
        let timestamp = self.now.max(self.timestamp + 1);
        let last = batch.mutations.iter().map(Mutation::last_statement).max().unwrap_or(0);
        let mut own = self.own.clone();
        own.push((Arc::new(batch.clone()), timestamp));
        Ok(Arc::new(StoreSnapshot {
            version: self.version.clone(),
            schema: self.schema.clone(),
            seq: self.seq,
            now: self.now,
            timestamp: timestamp + i64::from(last),
            own,
            sources: Mutex::default(),
        }))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(StoreSnapshot {
            version: self.version.clone(),
            schema: Schema::new(catalog),
            seq: self.seq,
            now: self.now,
            timestamp: self.timestamp,
            own: self.own.clone(),
            sources: Mutex::default(),
        }))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(StoreSnapshot {
            version: self.version.clone(),
            schema: self.schema.clone(),
            seq: self.seq,
            now: i64::MAX,
            timestamp: self.timestamp,
            own: self.own.clone(),
            sources: Mutex::default(),
        }))
    }

    fn relation_bytes(&self, relation: RelationId) -> Known<u64> {
        let Some(version) = self.version.get(&relation) else { return Known::Exact(0) };
        let segments: u64 = version.segments.iter().map(|segment| segment.record().disk_bytes()).sum();
        Known::Exact(segments + version.memory() as u64)
    }

    fn index_state(&self, relation: RelationId, column: ColumnId) -> Option<IndexState> {
        Some(self.version.get(&relation).map_or(IndexState::default(), |relation| index_state(relation, column)))
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        output_schema(self.schema.relation(relation)?, columns)
    }
}
