//! Collects the columnar writes of one statement: COPY, INSERT … SELECT, CREATE TABLE AS and imports.
//!
//! The rule: however many rows there are, they are applied in one atomic step, with bounded memory. Up to [`IN_MEMORY`]
//! bytes are held and go through the commit log; beyond that the store writes rows to segments as they come ([`Load`]),
//! which nobody sees before the statement ends.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use futures::StreamExt;
use keyspan_model::array::batch_bytes;
use keyspan_model::{BatchWrite, Mutation, RelationDef, Result, Stamp};
use keyspan_seam::{BatchStream, Load, Store};

use super::{GatheredCells, Intake, Writes};
use crate::row::TableHandle;

/// Bytes that are held before the store is asked to write rows out.
const IN_MEMORY: usize = 16 << 20;

/// Collects rows. If it is dropped before [`Gather::finish`], nothing of them is written.
pub(crate) struct Gather {
    store: Arc<dyn Store>,
    /// For the rows, for the static columns of their partitions, and for the entries of unique indexes.
    parts: Vec<Part>,
    cells: Option<GatheredCells>,
    rows: u64,
}

/// What is collected for one relation.
struct Part {
    relation: RelationDef,
    pending: Vec<BatchWrite>,
    bytes: usize,
    load: Option<Box<dyn Load>>,
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let relations: Vec<_> = self.parts.iter().map(|part| part.relation.id).collect();
        f.debug_struct("Gather").field("relations", &relations).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Gather {
    /// For rows of this table, which may be one that is yet to be made.
    pub(crate) fn new(store: &Arc<dyn Store>, target: &TableHandle) -> Gather {
        let statics = target.statics.iter().map(|statics| &statics.relation);
        let entries = target.uniques.iter().map(|index| &index.entries);
        Gather::of(store, std::iter::once(&target.relation).chain(statics).chain(entries))
    }

    /// For these relations.
    pub(crate) fn of<'a>(store: &Arc<dyn Store>, relations: impl Iterator<Item = &'a Arc<RelationDef>>) -> Gather {
        let part = |relation: &Arc<RelationDef>| {
            let relation = RelationDef::clone(relation);
            Part { relation, pending: Vec::new(), bytes: 0, load: None }
        };
        Gather { store: store.clone(), parts: relations.map(part).collect(), cells: None, rows: 0 }
    }

    /// Also takes cells of families.
    pub(crate) fn with_cells(self, cells: GatheredCells) -> Gather {
        Gather { cells: Some(cells), ..self }
    }

    /// Rows taken.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the writes of one batch, that of the rows first. All of a relation have one stamp.
    pub(crate) async fn push(&mut self, writes: Writes) -> Result<()> {
        let Writes { rows, wholes } = writes;
        self.rows += rows.first().map_or(0, |write| write.batch.num_rows() as u64);
        if let (Some(cells), Some(first)) = (&mut self.cells, rows.first()) {
            cells.push(&first.batch.columns()[..self.parts[0].relation.key.len()], &wholes)?;
        }
        for write in rows {
            if let Some(part) = self.parts.iter_mut().find(|part| part.relation.id == write.relation) {
                part.push(write, &self.store).await?;
            }
        }
        Ok(())
    }

    /// The cells of families that were taken.
    pub(crate) fn cells_mut(&mut self) -> Option<&mut GatheredCells> {
        self.cells.as_mut()
    }

    /// Takes the rows of a query, as the intake makes writes of them.
    pub(crate) async fn take(&mut self, mut rows: BatchStream, intake: &mut Intake, stamp: Stamp) -> Result<()> {
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.push(intake.write(&batch, stamp)?).await?;
            }
        }
        Ok(())
    }

    /// What writes all rows in one step.
    pub(crate) async fn finish(self) -> Result<Vec<Mutation>> {
        let mut mutations = Vec::with_capacity(1);
        for part in self.parts {
            mutations.extend(match part.load {
                Some(load) => Some(load.finish().await?),
                None => concat_writes(part.pending)?.map(Mutation::Batch),
            });
        }
        if let Some(cells) = self.cells {
            mutations.extend(cells.finish()?);
        }
        Ok(mutations)
    }
}

impl Part {
    async fn push(&mut self, write: BatchWrite, store: &Arc<dyn Store>) -> Result<()> {
        if let Some(load) = &mut self.load {
            return load.write(write).await;
        }
        let stamp = write.stamp;
        self.bytes += batch_bytes(&write.batch);
        self.pending.push(write);
        if self.bytes < IN_MEMORY {
            return Ok(());
        }
        let load = self.load.insert(store.load(self.relation.clone(), stamp)?);
        for write in std::mem::take(&mut self.pending) {
            load.write(write).await?;
        }
        Ok(())
    }
}

/// All writes as one, so that of two rows with the same key the later wins, whatever batches they came in.
fn concat_writes(writes: Vec<BatchWrite>) -> Result<Option<BatchWrite>> {
    let Some(first) = writes.first().cloned() else { return Ok(None) };
    let batches: Vec<RecordBatch> = writes.into_iter().map(|write| write.batch).collect();
    let schema = first.batch.schema();
    Ok(Some(BatchWrite { batch: concat_batches(&schema, &batches)?, ..first }))
}
