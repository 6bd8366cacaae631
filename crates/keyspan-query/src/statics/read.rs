//! The static columns of a batch of rows.
//!
//! Few partitions are looked up by their keys; many, by one span over all of them, where it has not many more.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take};
use futures::TryStreamExt;
use keyspan_model::array::value_at;
use keyspan_model::{KeyEncoder, RelationDef, Result, Scan, ScanColumn, Span, TableDef, Value};
use keyspan_seam::{Conditions, Known, ScanCounters, Snapshot};

/// Partitions up to which each is looked up by its key.
const LOOKED_UP_MAX: usize = 32;
/// One span over all partitions is read where it has at most so many for each of them.
const A_PARTITION: u64 = 4;

/// What is read of a table's static columns.
#[derive(Clone, Debug)]
pub struct StaticsRead {
    /// Their relation.
    pub relation: Arc<RelationDef>,
    /// The columns that are read.
    pub columns: Vec<ScanColumn>,
}

/// Static values of partitions.
struct Partitions {
    /// Key columns, then those that are read.
    batch: RecordBatch,
    places: HashMap<Vec<u8>, u32>,
}

impl StaticsRead {
    /// These columns of a table's; `None` if it has none.
    pub fn new(table: &TableDef, columns: Vec<ScanColumn>) -> Option<StaticsRead> {
        table.statics_relation().map(|relation| StaticsRead { relation: Arc::new(relation), columns })
    }

    /// The columns of rows of these partitions: null where a partition has no value. `keys` are the partition key's
    /// columns.
    pub async fn columns(&self, snapshot: &Arc<dyn Snapshot>, keys: &[ArrayRef], rows: usize) -> Result<Vec<ArrayRef>> {
        let encoded = KeyEncoder::new(&self.relation.key).encode_batch(keys)?;
        let found = self.partitions(snapshot, keys, &encoded).await?;
        let places: UInt32Array = (0..rows).map(|row| found.places.get(encoded.value(row)).copied()).collect();
        let columns = found.batch.columns().iter().skip(self.relation.key.len());
        columns.map(|column| Ok(take(column, &places, None)?)).collect()
    }

    async fn partitions(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        keys: &[ArrayRef],
        encoded: &BinaryArray,
    ) -> Result<Partitions> {
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.dedup_by_key(|row| encoded.value(*row));
        order.sort_by_key(|row| encoded.value(*row));
        order.dedup_by_key(|row| encoded.value(*row));
        let key = |row: usize| -> Result<Vec<Value>> {
            let values = keys.iter().zip(&self.relation.key);
            values.map(|(array, column)| value_at(array, row, column.ty)).collect()
        };
        if let (true, Some(first), Some(last)) = (order.len() > LOOKED_UP_MAX, order.first(), order.last()) {
            let span = Span { start: Bound::Included(key(*first)?), end: Bound::Included(key(*last)?) };
            let scan = self.scan(vec![span]);
            let planned = snapshot.plan(&scan, 1).await?;
            let few = match planned.statistics.rows {
                Known::Exact(all) | Known::Estimate(all) => all <= A_PARTITION * order.len() as u64,
                Known::Unknown => true,
            };
            if few {
                return self.found(read(snapshot, &scan).await?);
            }
        }
        let keys = order.into_iter().map(key).collect::<Result<Vec<_>>>()?;
        self.found(snapshot.get(self.relation.id, &keys, &self.all_columns()).await?)
    }

    fn found(&self, batch: RecordBatch) -> Result<Partitions> {
        let encoder = KeyEncoder::new(&self.relation.key);
        let keys = encoder.encode_batch(&batch.columns()[..self.relation.key.len()])?;
        let places = keys.iter().flatten().zip(0..).map(|(key, place)| (key.to_vec(), place)).collect();
        Ok(Partitions { batch, places })
    }

    /// The key columns, then those that are read.
    fn all_columns(&self) -> Vec<ScanColumn> {
        let key = self.relation.key.iter().map(|column| ScanColumn::Column(column.id));
        key.chain(self.columns.iter().copied()).collect()
    }

    /// What the partitions in these spans have: the key, then the columns that are read.
    pub(super) fn scan(&self, spans: Vec<Span>) -> Scan {
        Scan::new(self.relation.id, spans, self.all_columns())
    }
}

/// All rows of a scan.
pub(super) async fn read(snapshot: &Arc<dyn Snapshot>, scan: &Scan) -> Result<RecordBatch> {
    let planned = snapshot.plan(scan, 1).await?;
    let counters = Arc::new(ScanCounters::default());
    let mut batches = Vec::new();
    for split in &planned.splits {
        batches.extend(
            snapshot.scan(scan, split, Conditions::default(), counters.clone())?.try_collect::<Vec<_>>().await?,
        );
    }
    Ok(concat_batches(&snapshot.schema(scan.relation, &scan.columns)?, &batches)?)
}
