//! Collects the columnar writes of one statement: COPY, INSERT … SELECT, CREATE TABLE AS and imports.
//!
//! The rule: however many rows there are, they are applied in one atomic step, with bounded memory. Up to [`IN_MEMORY`]
//! bytes are held and go through the commit log; beyond that the store writes rows to segments as they come ([`Load`]),
//! which nobody sees before the statement ends.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use keyspan_model::array::batch_bytes;
use keyspan_model::{BatchWrite, Mutation, RelationDef, Result, Stamp};
use keyspan_seam::{Load, Store};

/// Bytes that are held before the store is asked to write rows out.
const IN_MEMORY: usize = 16 << 20;

/// Collects rows. If it is dropped before [`Gather::finish`], nothing of them is written.
pub(crate) struct Gather {
    store: Arc<dyn Store>,
    relation: RelationDef,
    stamp: Stamp,
    pending: Vec<BatchWrite>,
    bytes: usize,
    rows: u64,
    load: Option<Box<dyn Load>>,
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").field("relation", &self.relation.id).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Gather {
    /// For rows of this relation, which may be one that is yet to be made.
    pub(crate) fn new(store: &Arc<dyn Store>, relation: RelationDef, stamp: Stamp) -> Gather {
        Gather { store: store.clone(), relation, stamp, pending: Vec::new(), bytes: 0, rows: 0, load: None }
    }

    /// Rows taken.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes rows with the stamp of the statement.
    pub(crate) async fn push(&mut self, write: BatchWrite) -> Result<()> {
        self.rows += write.batch.num_rows() as u64;
        if let Some(load) = &mut self.load {
            return load.write(write).await;
        }
        self.bytes += batch_bytes(&write.batch);
        self.pending.push(write);
        if self.bytes < IN_MEMORY {
            return Ok(());
        }
        let load = self.load.insert(self.store.load(self.relation.clone(), self.stamp)?);
        for write in std::mem::take(&mut self.pending) {
            load.write(write).await?;
        }
        Ok(())
    }

    /// What writes all rows in one step.
    pub(crate) async fn finish(self) -> Result<Option<Mutation>> {
        match self.load {
            Some(load) => load.finish().await.map(Some),
            None => Ok(concat_writes(self.pending)?.map(Mutation::Batch)),
        }
    }
}

/// All writes as one, so that of two rows with the same key the later wins, whatever batches they came in.
fn concat_writes(writes: Vec<BatchWrite>) -> Result<Option<BatchWrite>> {
    let Some(first) = writes.first().cloned() else { return Ok(None) };
    let batches: Vec<RecordBatch> = writes.into_iter().map(|write| write.batch).collect();
    let schema = first.batch.schema();
    Ok(Some(BatchWrite { batch: concat_batches(&schema, &batches)?, ..first }))
}
