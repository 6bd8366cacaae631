//! The apply lane: one short lock under which a batch gets its place, its timestamps, and goes to memory and the log.
//!
//! ```text
//! prepared ─▶ [ conditions hold? ─▶ seq, timestamp ─▶ memtables, runs ─▶ queue of the log ] ─▶ wait for the sync
//! ```
//!
//! Rules: seq has no gaps; server timestamps strictly increase, in microseconds, and explicit ones never push them.
//! Nothing that can fail stands between a batch's first effect and its record's place in the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use keyspan_model::{Applied, Error, ErrorKind, KeyEncoder, RelationId, Result, Stamp};
use tokio::sync::oneshot;

use super::core::Core;
use super::staging::{Effect, Precondition, PreparedBatch, Staged};
use super::version::{Published, RelationVersion, Schema};
use crate::log::{Commit, Record};
use crate::memory_run::MemoryRun;
use crate::memtable::Memtable;
use crate::run::{SortedRun, SpanTombstone, Tombstone, WholeKey};
use crate::segment::{Segment, SegmentRecord};
use keyspan_seam::ScanCounters;

/// The state of the lane.
#[derive(Debug)]
pub struct Lane {
    /// The last batch.
    pub seq: u64,
    /// The last server timestamp, in microseconds.
    pub timestamp: i64,
    /// The clock at the last batch, in microseconds; it never goes back.
    pub clock: i64,
    /// The newest schema, acknowledged or not.
    pub schema: Arc<Schema>,
    /// Ids of relations that were passed over since the store was opened: open transactions may have given them to
    /// relations of their own.
    pub passed_over: BTreeSet<RelationId>,
    /// Set once the store is closed, or a batch was left half done.
    pub closed: Option<Error>,
}

impl Lane {
    fn set_schema(&mut self, schema: Arc<Schema>) {
        let ids = self.schema.catalog.next_relation..schema.catalog.next_relation;
        self.passed_over.extend(ids.map(RelationId));
        self.passed_over.retain(|id| !schema.relations.contains_key(id));
        self.schema = schema;
    }
}

/// A batch that has passed the lane.
pub struct Entered {
    /// What to say.
    pub applied: Applied,
    /// Comes when it is durable; `None` for a relaxed batch.
    pub durable: Option<oneshot::Receiver<Result<()>>>,
}

/// What a batch changes besides memtables.
#[derive(Default)]
struct Arrivals {
    runs: Vec<(RelationId, Arc<MemoryRun>)>,
    tombstones: BTreeMap<RelationId, Vec<Arc<Tombstone>>>,
    full: Vec<RelationId>,
    segments: Vec<(RelationId, Arc<Segment>)>,
}

impl Core {
    /// Gives a batch its place and makes it part of the newest state.
    pub fn enter(&self, mut prepared: PreparedBatch) -> Result<Entered> {
        let mut lane = self.lane.lock();
        if let Some(error) = lane.closed.clone().or_else(|| self.log().failure()) {
            return Err(error);
        }
        lane.schema.catalog.check_redefined(&prepared.definitions)?;
        let schema = self.next_schema(&lane, prepared.change.take())?;
        let known = |id: RelationId| schema.as_ref().unwrap_or(&lane.schema).relation(id).map(drop);
        prepared.staged.iter().try_for_each(|staged| known(staged.relation))?;
        self.check(&prepared.conditions)?;
        let seq = lane.seq + 1;
        let clock = self.options.clock.now().max(lane.clock);
        let timestamp = clock.max(lane.timestamp + 1);
        let statements = prepared.statements();
        if let Some(schema) = &schema {
            // In one step: a relation that no schema names would be taken for a dropped one.
            let mut state = self.state.lock();
            state.begin_relations(schema);
            state.pending.push_back((seq, schema.clone()));
        }
        if let Err(error) = self.place(std::mem::take(&mut prepared.staged), seq, timestamp, clock) {
            lane.closed = Some(error.clone());
            return Err(error);
        }
        lane.seq = seq;
        lane.clock = clock;
        lane.timestamp = timestamp + i64::from(statements);
        if let Some(schema) = schema {
            lane.set_schema(schema);
        }
        {
            let mut state = self.state.lock();
            (state.last_seq, state.timestamp) = (seq, lane.timestamp);
            if prepared.relaxed {
                state.show(seq);
            }
        }
        // From here on the log may name their files, whatever becomes of its sync.
        prepared.loaded.iter().for_each(|loaded| loaded.keep(self));
        let (answer, durable) = oneshot::channel();
        let record = Record { seq, timestamp, clock, ..prepared.record };
        let relaxed = prepared.relaxed;
        self.log().push(Commit { record, relaxed, answer: (!relaxed).then_some(answer) });
        Ok(Entered { applied: Applied { seq, timestamp }, durable: (!relaxed).then_some(durable) })
    }

    fn next_schema(&self, lane: &Lane, change: Option<(u64, Arc<Schema>)>) -> Result<Option<Arc<Schema>>> {
        let Some((base, next)) = change else { return Ok(None) };
        let current = &lane.schema.catalog;
        if current.version != base {
            return Err(Error::new(ErrorKind::Serialization, "the catalog was changed by another session meanwhile")
                .with_hint("Run the statement again."));
        }
        let new = &next.catalog;
        let is_used = |id: &RelationId| id.0 < current.next_relation && !lane.passed_over.contains(id);
        let reused = next.relations.keys().any(|id| !lane.schema.relations.contains_key(id) && is_used(id));
        if new.version != base + 1 || new.next_relation < current.next_relation || reused {
            return Err(Error::internal("a new catalog must count on from the current one and never use an id again"));
        }
        Ok(Some(next))
    }

    /// Fails unless these hold of the newest state.
    pub fn check(&self, conditions: &[Precondition]) -> Result<()> {
        if conditions.is_empty() {
            return Ok(());
        }
        let version = self.state.lock().version.clone();
        for condition in conditions {
            let touched = match version.get(&condition.relation) {
                Some(relation) => touched_after(relation, condition)?,
                None => false,
            };
            if touched {
                return Err(Error::new(
                    ErrorKind::Serialization,
                    "could not serialize access due to concurrent update",
                )
                .with_hint("Run the transaction again."));
            }
        }
        Ok(())
    }

    /// Brings staged effects into memory; also used when the log is replayed.
    pub fn place(&self, staged: Vec<Staged>, seq: u64, timestamp: i64, clock: i64) -> Result<()> {
        let version = self.state.lock().version.clone();
        let mut arrivals = Arrivals::default();
        let mut added = 0;
        for Staged { relation, stamp, effect } in staged {
            let Some(current) = version.get(&relation).filter(|current| seq > current.flushed) else { continue };
            let ts = match stamp {
                Stamp::Server(statement) => timestamp + i64::from(statement),
                Stamp::At(ts) => ts,
            };
            match effect.entry(&current.definition, ts, clock) {
                Ok((key, entry)) => {
                    let before = current.active.bytes();
                    current.active.insert(key, seq, entry)?;
                    added += current.active.bytes() - before;
                    if current.active.is_full() && !arrivals.full.contains(&relation) {
                        arrivals.full.push(relation);
                    }
                }
                Err(Effect::Run(run, ttl)) => {
                    let run = Arc::new(run.stamped(ts, ttl, clock, seq));
                    added += run.meta().bytes as usize;
                    arrivals.runs.push((relation, run));
                }
                Err(Effect::DeleteSpan(start, end)) => {
                    let arrived = arrivals.tombstones.entry(relation).or_default();
                    let span = SpanTombstone { start, end, ts, deleted_at: clock, seq };
                    arrived.push(Arc::new(Tombstone { number: arrived.len() as u32, span }));
                }
                Err(Effect::Load(records, _)) => {
                    let place = |record: SegmentRecord| (relation, self.segment(current, record.placed(ts, seq)));
                    arrivals.segments.extend(records.into_iter().map(place));
                }
                Err(Effect::Row(..) | Effect::DeleteRow(..)) => unreachable!("they are row entries"),
            }
        }
        drop(version);
        let due = !arrivals.full.is_empty() || !arrivals.segments.is_empty();
        self.state.lock().arrive(arrivals, added);
        if due {
            self.nudge();
        }
        Ok(())
    }
}

impl Published {
    fn arrive(&mut self, arrivals: Arrivals, added: usize) {
        self.memory += added;
        for (id, run) in arrivals.runs {
            self.change(id, |relation| relation.runs.push(run));
        }
        for (id, segment) in arrivals.segments {
            self.change(id, |relation| relation.segments.push(segment));
        }
        for (id, tombstones) in arrivals.tombstones {
            self.change(id, |relation| relation.tombstones.extend(tombstones));
        }
        for id in arrivals.full {
            self.change(id, RelationVersion::seal);
        }
    }

    /// Adds the relations that are new in a schema, and gives the others their new definitions.
    pub fn begin_relations(&mut self, schema: &Schema) {
        for (id, definition) in &schema.relations {
            match self.version.get(id) {
                None => {
                    let relation = Arc::new(RelationVersion::new(definition.clone()));
                    Arc::make_mut(&mut self.version).insert(*id, relation);
                }
                Some(relation) if relation.definition != *definition => {
                    self.change(*id, |relation| relation.definition = definition.clone());
                }
                Some(_) => {}
            }
        }
    }
}

impl RelationVersion {
    /// Begins a new memtable. Only under the lane's lock, since the lane writes to the active one.
    pub fn seal(&mut self) {
        if !self.active.is_empty() {
            let full = std::mem::replace(&mut self.active, Arc::new(Memtable::new(&self.definition)));
            self.sealed.push(full);
        }
    }
}

/// Whether a batch after the condition's seq wrote to its keys. Of a segment that was flushed since, only boxes and
/// bloom filter are asked: a false conflict costs a retry, a missed one a lost update.
fn touched_after(relation: &RelationVersion, condition: &Precondition) -> Result<bool> {
    let (start, end) = (condition.start.as_slice(), condition.end.as_deref());
    let memtables = relation.memtables().filter(|memtable| memtable.seqs().is_some_and(|seqs| seqs.1 > condition.seq));
    for memtable in memtables {
        if memtable.last_touch(start, end).is_some_and(|seq| seq > condition.seq) {
            return Ok(true);
        }
    }
    let later = |run: &dyn SortedRun| run.meta().seq.1 > condition.seq && run.meta().all.overlaps(start, end);
    let counters = ScanCounters::default();
    for run in relation.runs.iter().filter(|run| later(run.as_ref())) {
        let first = run.lower_bound(start, &counters)?;
        let behind = end.map_or(Ok(run.meta().all.rows as usize), |end| run.lower_bound(end, &counters))?;
        if first < behind {
            return Ok(true);
        }
    }
    let encoder = KeyEncoder::new(&relation.definition.key);
    let key = condition.whole_key.then(|| WholeKey::new(&encoder, start));
    let mut segments = relation.segments.iter().filter(|segment| later(segment.as_ref()));
    if segments.any(|segment| key.as_ref().is_none_or(|key| segment.may_contain(key))) {
        return Ok(true);
    }
    Ok(relation.tombstones.over(start, end, u64::MAX).iter().any(|tombstone| tombstone.seq > condition.seq))
}
