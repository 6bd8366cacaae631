//! Groups of some rows, and what is kept of their values.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::exec::{By, Work};
use super::fold::{Aggregate, Argument, CodeCounts, Fold};
use super::groups::{GroupingSet, Groups, Part, RowGroups, Run, Values};
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
    pub(super) fn new(
        parts: &Arc<[Part]>,
        aggregates: &[Aggregate],
        memory: MemoryReservation,
    ) -> Result<PartialGroups> {
        let folds = aggregates.iter().map(Fold::new).collect::<Result<_>>()?;
        Ok(PartialGroups { groups: Groups::new(parts.clone()), folds, memory })
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are many in so many rows.
    pub(super) fn are_many(&self, rows: usize) -> bool {
        self.groups.are_many(rows)
    }

    /// Adds rows.
    pub(super) fn add(&mut self, work: &Work, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let inputs = work.inputs.iter().map(|input| input.evaluate(columns, rows)).collect::<Result<Vec<_>>>()?;
        let values = Values::new(&work.parts, &inputs)?;
        let of_rows = match &work.by {
            By::Value(_) => self.groups.of_rows(values, rows)?,
            By::Key(fences) => {
                let (mut runs, groups) = (Vec::new(), &mut self.groups);
                fences.each(columns, rows, |rows| {
                    let group = groups.of(&values, rows.start)?;
                    runs.push(Run { group, rows });
                    Ok(())
                })?;
                RowGroups::Runs(runs)
            }
        };
        if of_rows.are_none() {
            return Ok(());
        }
        let mut counts = CodeCounts::default();
        for (fold, aggregate) in self.folds.iter_mut().zip(&work.aggregates) {
            let argument = Argument::new(aggregate, columns, &inputs, rows, &mut counts)?;
            fold.add(&argument, &of_rows, self.groups.len())?;
        }
        Ok(())
    }

    /// Takes over another's groups.
    pub(super) fn join(&mut self, mut other: PartialGroups, spills: &Spills) -> Result<()> {
        let numbers = self.groups.join(&other.groups);
        let states = other.take_states()?;
        self.join_states(&states, &numbers)?;
        drop((states, other));
        self.keep_within_memory(spills)
    }

    /// For each aggregate what is kept of all groups, as columns; afterwards nothing is kept.
    fn take_states(&mut self) -> Result<Vec<Vec<ArrayRef>>> {
        let groups = self.groups.len();
        self.folds.iter_mut().map(|fold| fold.take_states(groups)).collect()
    }

    /// Adds what others have kept; `numbers` are those of their groups here.
    pub(super) fn join_states(&mut self, states: &[Vec<ArrayRef>], numbers: &[usize]) -> Result<()> {
        let groups = self.groups.len();
        self.folds.iter_mut().zip(states).try_for_each(|(fold, states)| fold.join(states, numbers, groups))
    }

    /// The number of the group that a row of these values belongs to.
    pub(super) fn group_of(&mut self, values: &Values, row: usize) -> Result<usize> {
        self.groups.of(values, row)
    }

    fn bytes(&self) -> usize {
        let folds: usize = self.folds.iter().map(Fold::bytes).sum();
        self.groups.bytes() + self.groups.len() * ORDER_BYTES + folds
    }

    /// Writes all groups to disk where there is no memory for them.
    pub(super) fn keep_within_memory(&mut self, spills: &Spills) -> Result<()> {
        let bytes = self.bytes();
        match self.memory.try_resize(bytes) {
            // The one group of all rows is as large again when it is read back.
            Err(refused) if bytes < LEAST_SPILL || self.groups.are_whole() => Err(refused),
            Err(_) => self.spill(spills),
            Ok(()) => Ok(()),
        }
    }

    /// Writes all groups to disk.
    pub(super) fn spill(&mut self, spills: &Spills) -> Result<()> {
        self.divide(spills.sets())?;
        let bytes = self.bytes();
        let order = self.groups.sorted(spills.order())?;
        let states = self.take_states()?.concat();
        spills.write(&order, bytes, |groups| {
            let mut columns = self.groups.columns(groups)?;
            columns.extend(of_groups(&states, groups)?);
            Ok(columns)
        })?;
        self.groups.take();
        self.memory.free();
        Ok(())
    }

    /// Makes of the groups by all parts those of each grouping set, if there are sets.
    fn divide(&mut self, sets: &[GroupingSet]) -> Result<()> {
        if sets.is_empty() {
            return Ok(());
        }
        let states = self.take_states()?;
        let by_all = self.groups.take();
        for set in sets {
            let numbers = self.groups.join_set(&by_all, set);
            self.join_states(&states, &numbers)?;
        }
        Ok(())
    }

    /// All groups in order, with their results. Without GROUP BY there is one, of all rows.
    pub(super) fn finish(mut self, sets: &[GroupingSet], order: &[(usize, bool)]) -> Result<Finished> {
        self.divide(sets)?;
        if self.groups.are_whole() {
            self.groups.whole();
        }
        let groups = self.groups.len();
        let results = self.folds.iter_mut().map(|fold| fold.finish(groups)).collect::<Result<_>>()?;
        Ok(Finished { order: self.groups.sorted(order)?, groups: self.groups, results, _memory: self.memory })
    }
}

/// Groups and their results.
pub(super) struct Finished {
    groups: Groups,
    results: Vec<ArrayRef>,
    /// The groups' numbers in the order of the answer.
    pub(super) order: Vec<usize>,
    _memory: MemoryReservation,
}

impl Finished {
    /// The answer for these groups.
    pub(super) fn answer(&self, schema: &SchemaRef, groups: &[usize]) -> Result<RecordBatch> {
        let mut columns = self.groups.columns(groups)?;
        columns.extend(of_groups(&self.results, groups)?);
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }
}

/// The values of these groups.
fn of_groups(columns: &[ArrayRef], groups: &[usize]) -> Result<Vec<ArrayRef>> {
    let places: UInt64Array = groups.iter().map(|group| *group as u64).collect::<Vec<u64>>().into();
    columns.iter().map(|column| Ok(take(column, &places, None)?)).collect()
}
