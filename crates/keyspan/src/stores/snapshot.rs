//! Snapshots of all stores, as one.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use keyspan_model::{Catalog, ColumnId, Error, RelationId, Result, Scan, ScanColumn, Value, WriteBatch};
use keyspan_seam::{
    Accepted, BatchStream, Changes, Conditions, IndexState, Known, ScanCounters, ScanPlan, Snapshot, Split,
};

use super::check_own;

/// A snapshot of the own store, and of the attached ones by their numbers, taken one after another.
#[derive(Debug)]
pub(super) struct Snapshots {
    pub(super) own: Arc<dyn Snapshot>,
    pub(super) others: Arc<[(u32, Arc<dyn Snapshot>)]>,
    pub(super) catalog: Arc<Catalog>,
}

impl Snapshots {
    /// The snapshot of an attached relation's store; none for an own one's.
    fn other(&self, relation: RelationId) -> Result<Option<&Arc<dyn Snapshot>>> {
        if relation.store() == 0 {
            return Ok(None);
        }
        let found = self.others.iter().find(|(number, _)| *number == relation.store());
        let missing = || Error::internal(format!("relation {relation} is of no attached store"));
        found.map(|(_, snapshot)| Some(snapshot)).ok_or_else(missing)
    }

    /// The snapshot of a relation's store.
    fn of(&self, relation: RelationId) -> Result<&Arc<dyn Snapshot>> {
        Ok(self.other(relation)?.unwrap_or(&self.own))
    }

    fn with_own(&self, own: Arc<dyn Snapshot>) -> Snapshots {
        Snapshots { own, others: self.others.clone(), catalog: self.catalog.clone() }
    }
}

/// A scan as its store knows it.
fn in_store(scan: &Scan) -> Scan {
    Scan { relation: scan.relation.in_store(), ..scan.clone() }
}

#[async_trait]
impl Snapshot for Snapshots {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn seq(&self) -> u64 {
        self.own.seq()
    }

    fn now(&self) -> i64 {
        self.own.now()
    }

    fn accept(&self, scan: &Scan) -> Accepted {
        match self.other(scan.relation) {
            Ok(None) => self.own.accept(scan),
            Ok(Some(other)) => other.accept(&in_store(scan)),
            Err(_) => Accepted::default(),
        }
    }

    async fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        match self.other(scan.relation)? {
            None => self.own.plan(scan, want).await,
            Some(other) => other.plan(&in_store(scan), want).await,
        }
    }

    fn scan(
        &self,
        scan: &Scan,
        split: &Split,
        conditions: Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<BatchStream> {
        match self.other(scan.relation)? {
            None => self.own.scan(scan, split, conditions, counters),
            Some(other) => other.scan(&in_store(scan), split, conditions, counters),
        }
    }

    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        self.of(relation)?.get(relation.in_store(), keys, columns).await
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        self.of(relation)?.stamps_ahead(relation.in_store(), keys).await
    }

    fn changed(&self, relation: RelationId, column: ColumnId, since: u64) -> Result<Changes> {
        match self.other(relation)? {
            None => self.own.changed(relation, column, since),
            // Its batches are counted otherwise.
            Some(_) => Ok(Changes::Anywhere),
        }
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        batch.mutations.iter().try_for_each(|mutation| check_own(mutation.relation()))?;
        Ok(Arc::new(self.with_own(self.own.with_writes(batch)?)))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        let own = self.own.with_catalog(Arc::new(catalog.without_attached()))?;
        Ok(Arc::new(Snapshots { catalog, ..self.with_own(own) }))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        let others = self.others.iter().map(|(number, other)| Ok((*number, other.lasting()?)));
        let others: Vec<(u32, Arc<dyn Snapshot>)> = others.collect::<Result<_>>()?;
        Ok(Arc::new(Snapshots { others: others.into(), ..self.with_own(self.own.lasting()?) }))
    }

    fn relation_bytes(&self, relation: RelationId) -> Known<u64> {
        self.of(relation).map_or(Known::Unknown, |store| store.relation_bytes(relation.in_store()))
    }

    fn index_state(&self, relation: RelationId, column: ColumnId) -> Option<IndexState> {
        self.of(relation).ok()?.index_state(relation.in_store(), column)
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        self.of(relation)?.schema(relation.in_store(), columns)
    }
}
