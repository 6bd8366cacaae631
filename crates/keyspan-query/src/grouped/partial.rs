//! Groups of some rows, and what is kept of their values.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::exec::Work;
use super::fold::{Aggregate, Argument, Fold};
use super::groups::{Groups, Part, Values};
use super::spill::Spills;

/// Bytes for each group that putting them in order takes.
const ORDER_BYTES: usize = 48;
/// Groups of fewer bytes are not written to disk: there is no memory at all.
const LEAST_SPILL: usize = 256 << 10;

/// What a task has found.
pub(super) struct PartialGroups {
    groups: Groups,
    folds: Vec<Fold>,
    memory: MemoryReservation,
}

impl PartialGroups {
    pub(super) fn new(parts: &Arc<[Part]>, aggregates: &[Aggregate], memory: MemoryReservation) -> PartialGroups {
        PartialGroups { groups: Groups::new(parts.clone()), folds: aggregates.iter().map(Fold::new).collect(), memory }
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Adds rows.
    pub(super) fn add(
        &mut self,
        work: &Work,
        columns: &[ArrayRef],
        rows: usize,
        within: Option<(i64, i64)>,
    ) -> Result<()> {
        let values = Values::new(&work.parts, columns)?;
        let mut arguments = Vec::new();
        let (groups, folds) = (&mut self.groups, &mut self.folds);
        work.fences.each(columns, rows, within, |run| {
            // Of a batch without a run nothing is looked at.
            if arguments.is_empty() {
                for aggregate in &work.aggregates {
                    arguments.push(Argument::new(aggregate, columns)?);
                }
            }
            let group = groups.of(&values, run.start)?;
            for (fold, argument) in folds.iter_mut().zip(&arguments) {
                fold.resize_for(group);
                fold.add(group, argument, run.clone())?;
            }
            Ok(())
        })
    }

    /// Takes over another's groups.
    pub(super) fn join(&mut self, other: PartialGroups, spills: &Spills) -> Result<()> {
        let numbers = self.groups.join(&other.groups);
        for (fold, theirs) in self.folds.iter_mut().zip(&other.folds) {
            fold.resize(self.groups.len());
            fold.join(theirs, &numbers)?;
        }
        drop(other);
        self.keep_within_memory(spills)
    }

    /// Adds rows that were written to disk; `numbers` are those of their groups here.
    pub(super) fn join_states(&mut self, columns: &[ArrayRef], numbers: &[usize]) -> Result<()> {
        let mut columns = columns;
        for fold in &mut self.folds {
            let (own, others) = columns.split_at(fold.state_types().len());
            fold.resize(self.groups.len());
            fold.join_states(own, numbers)?;
            columns = others;
        }
        Ok(())
    }

    /// The number of the group that a row of these values belongs to.
    pub(super) fn group_of(&mut self, values: &Values<'_>, row: usize) -> Result<usize> {
        self.groups.of(values, row)
    }

    fn bytes(&self) -> usize {
        self.groups.bytes() + self.groups.len() * (self.folds.len() * Fold::BYTES + ORDER_BYTES)
    }

    /// Writes all groups to disk where there is no memory for them.
    pub(super) fn keep_within_memory(&mut self, spills: &Spills) -> Result<()> {
        let bytes = self.bytes();
        match self.memory.try_resize(bytes) {
            Err(refused) if bytes < LEAST_SPILL => Err(refused),
            Err(_) => self.spill(spills),
            Ok(()) => Ok(()),
        }
    }

    /// Writes all groups to disk.
    pub(super) fn spill(&mut self, spills: &Spills) -> Result<()> {
        self.folds.iter_mut().for_each(|fold| fold.resize(self.groups.len()));
        let order = self.groups.sorted(spills.order());
        spills.write(&order, |groups| self.states(groups))?;
        self.groups.clear();
        self.folds.iter_mut().for_each(Fold::clear);
        self.memory.free();
        Ok(())
    }

    /// These groups and what is kept of them, as columns.
    fn states(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.groups.columns(groups)?;
        columns.extend(self.folds.iter().flat_map(|fold| fold.states(groups)));
        Ok(columns)
    }

    /// The numbers of all groups, in order. Without GROUP BY there is one, of all rows.
    pub(super) fn finish(&mut self, order: &[(usize, bool)]) -> Vec<usize> {
        if self.groups.are_whole() {
            self.groups.whole();
        }
        self.folds.iter_mut().for_each(|fold| fold.resize(self.groups.len()));
        self.groups.sorted(order)
    }

    /// The answer for these groups.
    pub(super) fn answer(&self, schema: &SchemaRef, groups: &[usize]) -> Result<RecordBatch> {
        let mut columns = self.groups.columns(groups)?;
        for fold in &self.folds {
            columns.push(fold.column(groups)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }
}
