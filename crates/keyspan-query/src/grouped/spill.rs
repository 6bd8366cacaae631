//! Groups that do not fit the memory of queries: written to disk, merged from there.
//!
//! ```text
//! groups of a task ─▶ put in order ─▶ file ┐
//!                                    file ├─▶ merged by group ─▶ what a group has in several is joined ─▶ answer
//! groups of another                  file ┘
//! ```
//!
//! Files are in the order of the answer, groups that it leaves open by their values. The merge is DataFusion's, which
//! needs a batch of each file in memory, and merges in several steps where these are too many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{BaselineMetrics, SpillMetrics};
use datafusion::physical_plan::sorts::streaming_merge::{SortedSpillFile, StreamingMergeBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use keyspan_model::Error;
use parking_lot::Mutex;

use super::exec::{BATCH_ROWS, GroupedScanExec};
use super::fold::Aggregate;
use super::groups::{GroupingSet, Part, PartValue, Values};
use super::partial::PartialGroups;
use crate::error::external;
use crate::memory::bytes_of_a_batch;

/// What has been written of one answer, if anything.
pub(super) struct Spills {
    exec: GroupedScanExec,
    context: Arc<TaskContext>,
    /// Of all parts: (part, descending).
    order: Vec<(usize, bool)>,
    /// For each aggregate the types of what is kept.
    kept: Vec<Vec<DataType>>,
    files: OnceLock<Files>,
}

struct Files {
    manager: SpillManager,
    written: Mutex<Vec<SortedSpillFile>>,
    /// Rows of a batch, of which the merge holds one for each file.
    batch_rows: AtomicUsize,
}

impl Spills {
    pub(super) fn new(exec: &GroupedScanExec, context: &Arc<TaskContext>) -> Result<Spills> {
        let mut order = exec.order.clone();
        for part in 0..exec.work.parts.len() {
            if order.iter().all(|(known, _)| *known != part) {
                order.push((part, false));
            }
        }
        let kept = exec.work.aggregates.iter().map(Aggregate::state_types).collect::<Result<_>>()?;
        Ok(Spills { exec: exec.clone(), context: context.clone(), order, kept, files: OnceLock::new() })
    }

    /// Grouping sets that are made of the groups before they are written.
    pub(super) fn sets(&self) -> &[GroupingSet] {
        &self.exec.work.sets
    }

    /// Whether nothing was written.
    pub(super) fn are_none(&self) -> bool {
        self.files.get().is_none()
    }

    /// The order of what is written: (part, descending).
    pub(super) fn order(&self) -> &[(usize, bool)] {
        &self.order
    }

    fn files(&self) -> &Files {
        self.files.get_or_init(|| {
            let metrics = SpillMetrics::new(&self.exec.scan.metrics, 0);
            let manager = SpillManager::new(self.context.runtime_env(), metrics, self.schema());
            Files { manager, written: Mutex::default(), batch_rows: AtomicUsize::new(BATCH_ROWS) }
        })
    }

    /// Parts of the groups, then what is kept of each aggregate.
    fn schema(&self) -> SchemaRef {
        let work = &self.exec.work;
        let parts = work.parts.iter().map(|part| Field::clone(&part.field));
        let kept = self.kept.iter().flatten().enumerate();
        let kept = kept.map(|(number, ty)| Field::new(format!("kept {number}"), ty.clone(), true));
        Arc::new(Schema::new(parts.chain(kept).collect::<Vec<_>>()))
    }

    /// Writes groups, whose numbers come in order and which take so many bytes, as a file.
    pub(super) fn write(
        &self,
        order: &[usize],
        bytes: usize,
        states: impl Fn(&[usize]) -> Result<Vec<ArrayRef>>,
    ) -> Result<()> {
        let Files { manager, written, batch_rows } = self.files();
        let of_a_batch = bytes_of_a_batch(self.context.memory_pool().as_ref());
        let rows = (of_a_batch / (bytes / order.len().max(1)).max(1)).clamp(1, BATCH_ROWS);
        batch_rows.fetch_min(rows, Ordering::Relaxed);
        let mut file = manager.create_in_progress_file("GroupedScan")?;
        let mut largest = 0;
        for groups in order.chunks(rows) {
            let batch = RecordBatch::try_new(manager.schema().clone(), states(groups)?)?;
            largest = largest.max(file.append_batch(&batch)?);
        }
        if let Some(file) = file.finish()? {
            written.lock().push(SortedSpillFile { file, max_record_batch_memory: largest });
        }
        Ok(())
    }

    /// The answer out of what was written.
    pub(super) fn answer(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Files { manager, written, batch_rows } = self.files();
        let schema = manager.schema().clone();
        let sort = |(part, descending): &(usize, bool)| {
            let options = SortOptions { descending: *descending, nulls_first: false };
            PhysicalSortExpr::new(Arc::new(Column::new(schema.field(*part).name(), *part)), options)
        };
        let order = LexOrdering::new(self.order.iter().map(sort));
        let order = order.ok_or_else(|| external(Error::internal("groups of nothing were spilled")))?;
        let memory = MemoryConsumer::new("GroupedScan merge").register(context.memory_pool());
        let merged = StreamingMergeBuilder::new()
            .with_sorted_spill_files(std::mem::take(&mut written.lock()))
            .with_spill_manager(manager.clone())
            .with_schema(schema)
            .with_expressions(&order)
            .with_metrics(BaselineMetrics::new(&self.exec.scan.metrics, 0))
            .with_batch_size(batch_rows.load(Ordering::Relaxed))
            .with_reservation(memory.new_empty())
            .build()?;
        let joiner = Joiner::new(self, memory);
        let answer = futures::stream::try_unfold(Some((merged, joiner)), async |state| {
            let Some((mut merged, mut joiner)) = state else { return Ok(None) };
            loop {
                let next = merged.try_next().await?;
                let is_last = next.is_none();
                if let Some(batch) = joiner.joined(next)? {
                    let more = !is_last && joiner.left > 0;
                    return Ok(Some((batch, more.then_some((merged, joiner)))));
                }
                if is_last {
                    return Ok(None);
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.exec.schema.clone(), answer)))
    }
}

/// Joins neighbours of one group.
struct Joiner {
    exec: GroupedScanExec,
    memory: MemoryReservation,
    /// The parts as they stand in what was written.
    parts: Arc<[Part]>,
    /// For each aggregate how many columns keep it.
    widths: Vec<usize>,
    /// Rows of a group of which there may be more.
    begun: Option<RecordBatch>,
    /// Groups that are still asked for.
    left: usize,
}

impl Joiner {
    fn new(spills: &Spills, memory: MemoryReservation) -> Joiner {
        let exec = spills.exec.clone();
        let part = |(place, part): (usize, &Part)| Part { value: PartValue::Input(place), field: part.field.clone() };
        let parts = exec.work.parts.iter().enumerate().map(part).collect();
        let left = exec.fetch.unwrap_or(usize::MAX);
        Joiner { exec, memory, parts, widths: spills.kept.iter().map(Vec::len).collect(), begun: None, left }
    }

    /// The answer for the groups that are complete when these rows follow, or none (`None`).
    fn joined(&mut self, next: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        let is_last = next.is_none();
        let batches: Vec<RecordBatch> = self.begun.take().into_iter().chain(next).collect();
        let Some(first) = batches.first() else { return Ok(None) };
        let rows = concat_batches(first.schema_ref(), &batches)?;
        let mut found = PartialGroups::new(&self.parts, &self.exec.work.aggregates, self.memory.new_empty())?;
        let values = Values::new(&self.parts, rows.columns())?;
        let numbers = (0..rows.num_rows()).map(|row| found.group_of(&values, row)).collect::<Result<Vec<usize>>>()?;
        let mut complete = found.len();
        let mut end = numbers.len();
        if !is_last {
            complete = complete.saturating_sub(1);
            end = numbers.partition_point(|number| *number < complete);
            self.begun = Some(rows.slice(end, numbers.len() - end));
        }
        if complete == 0 {
            return Ok(None);
        }
        let mut kept = rows.columns()[self.parts.len()..].iter().map(|kept| kept.slice(0, end));
        let states: Vec<Vec<ArrayRef>> = self.widths.iter().map(|width| kept.by_ref().take(*width).collect()).collect();
        found.join_states(&states, &numbers[..end])?;
        let asked = complete.min(self.left);
        self.left -= asked;
        found.finish(&[], &[])?.answer(&self.exec.schema, &(0..asked).collect::<Vec<usize>>()).map(Some)
    }
}
