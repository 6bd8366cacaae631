//! The weak store: a second implementation of the seam, which promises as little as it may.
//!
//! A mutex around ordered maps of encoded keys to rows. A scan's order, spans, limit and rows of each prefix are not
//! kept unless that is switched on: rows come shuffled, more than asked for. So whatever the layers above take for
//! granted gives a wrong answer here (`queries.rs` runs every query file on it).

pub mod answers;
mod row;
mod snapshot;
mod state;

use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use async_trait::async_trait;
use keyspan_model::{
    Applied, BatchWrite, Catalog, Error, ErrorKind, LoadedRows, Mutation, RelationDef, Result, Stamp, Unchanged,
    WriteBatch,
};
use keyspan_seam::{Accepted, Caps, Load, ReadAt, Snapshot, Store};
use keyspan_store::clock::{Clock, SystemClock};

use snapshot::MapSnapshot;
use state::State;

/// Rows in ordered maps.
#[derive(Debug)]
pub struct OrderedMap {
    caps: Caps,
    accepted: Accepted,
    state: Mutex<State>,
}

impl OrderedMap {
    /// An empty store that keeps this much of a scan.
    pub fn new(accepted: Accepted) -> OrderedMap {
        let caps = Caps { global_key_order: accepted.order, snapshots: true, atomic_batches: true, timestamp_step: 1 };
        OrderedMap { caps, accepted, state: Mutex::new(State::initial()) }
    }

    /// The store with other capabilities: what it says, not what it does.
    pub fn with_caps(self, change: impl FnOnce(&mut Caps)) -> OrderedMap {
        let mut caps = self.caps;
        change(&mut caps);
        OrderedMap { caps, ..self }
    }

    /// Makes the next state of a clone of the current one, so that a batch that fails leaves nothing behind.
    fn step(&self, batch: &WriteBatch, prepare: impl FnOnce(&mut State) -> Result<()>) -> Result<Applied> {
        let mut current = self.state.lock().unwrap();
        current.check(&batch.unchanged)?;
        current.catalog.check_redefined(&batch.definitions)?;
        let mut next = current.clone();
        prepare(&mut next)?;
        next.seq += 1;
        next.clock = next.clock.max(SystemClock.now());
        let timestamp = next.clock.max(next.timestamp + 1);
        next.write(batch, timestamp)?;
        let seq = next.seq;
        *current = next;
        Ok(Applied { seq, timestamp })
    }
}

#[async_trait]
impl Store for OrderedMap {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.state.lock().unwrap().catalog.clone()
    }

    async fn change(&self, base: u64, next: Catalog, batch: Option<WriteBatch>) -> Result<Arc<Catalog>> {
        let next = Arc::new(next);
        self.step(&batch.unwrap_or_default(), |state| {
            if state.catalog.version != base {
                let message = "the catalog was changed by another session meanwhile";
                return Err(Error::new(ErrorKind::Serialization, message));
            }
            state.set_catalog(next.clone());
            Ok(())
        })?;
        Ok(next)
    }

    async fn apply(&self, batch: WriteBatch) -> Result<Applied> {
        self.step(&batch, |_| Ok(()))
    }

    fn check(&self, unchanged: &[Unchanged]) -> Result<()> {
        self.state.lock().unwrap().check(unchanged)
    }

    fn load(&self, relation: RelationDef, stamp: Stamp) -> Result<Box<dyn Load>> {
        Ok(Box::new(MapLoad { relation, stamp, writes: Vec::new() }))
    }

    fn snapshot(&self, _: ReadAt) -> Result<Arc<dyn Snapshot>> {
        let mut current = self.state.lock().unwrap();
        current.clock = current.clock.max(SystemClock.now());
        Ok(Arc::new(MapSnapshot { state: current.clone(), accepted: self.accepted }))
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn compact(&self) -> Result<()> {
        Ok(())
    }
}

/// Rows on their way: held until the statement ends.
struct MapLoad {
    relation: RelationDef,
    stamp: Stamp,
    writes: Vec<BatchWrite>,
}

#[async_trait]
impl Load for MapLoad {
    async fn write(&mut self, write: BatchWrite) -> Result<()> {
        self.writes.push(write);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Mutation> {
        let (relation, stamp) = (self.relation.id, self.stamp);
        let batches: Vec<RecordBatch> = self.writes.iter().map(|write| write.batch.clone()).collect();
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let whole = match self.writes.into_iter().next() {
            Some(first) => Some(BatchWrite { batch: concat_batches(&first.batch.schema(), &batches)?, ..first }),
            None => None,
        };
        Ok(Mutation::Load(LoadedRows { relation, stamp, parts: 1, rows, handle: Arc::new(whole) }))
    }
}
