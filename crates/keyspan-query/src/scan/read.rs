//! From splits to batches: read, filter, project, limit.
//!
//! A sequence of splits is read several at a time, each by a task of its own with a small buffer, and delivered in
//! order: so an ordered or unaggregated scan still uses all cores. Dropping the stream aborts the tasks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use keyspan_model::array::batch_bytes;
use keyspan_model::{KeyColumn, RelationDef, Scan, ScanColumn, compacted, decoded, row_key_array, row_key_digits};
use keyspan_seam::{BatchStream, Conditions, ScanCounters, Snapshot, Split};
use tokio::sync::mpsc;

use super::conditions::of_filter;
use super::exec::SpanScanExec;
use super::layout::{Shape, span_alone};
use super::top::TopSoFar;
use crate::coded_expr::Condition;
use crate::error::external;
use crate::memory::bytes_of_a_batch;

/// Batches that a task reads ahead of its turn.
const AHEAD: usize = 16;

/// A column that a scan delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadColumn {
    /// As the store delivers it.
    Scan(ScanColumn),
    /// The row key as one value.
    RowKey(KeyForm),
    /// The family of this place in its table, which is no part of the rows: it is read after them.
    Family(usize),
    /// Of a static column, which is no part of the rows either.
    Static(ScanColumn),
}

/// What of a row key is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Its parts as one text, for people: `row_key`.
    Text,
    /// Its bytes as hexadecimal digits, which no other row of the table has: `ctid`.
    Bytes,
}

/// Where a column read comes from.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The store's batch, and which of its columns.
    Batch(usize),
    /// The row key.
    Key(KeyForm),
    /// Read after the rows.
    Later,
}

/// How the columns read come from those of the store.
#[derive(Debug)]
pub struct Columns {
    /// What the store is asked for.
    pub scan: Vec<ScanColumn>,
    /// Where each column read comes from.
    places: Vec<Place>,
    /// Places of the key columns, if the row key is read as one value.
    key: Vec<usize>,
    key_columns: Vec<KeyColumn>,
}

impl Columns {
    /// What must be asked of the store to read these columns.
    pub fn new(read: &[ReadColumn], relation: &RelationDef) -> Columns {
        let mut scan: Vec<ScanColumn> = Vec::new();
        let mut place = |column: ScanColumn| match scan.iter().position(|each| *each == column) {
            Some(place) => place,
            None => {
                scan.push(column);
                scan.len() - 1
            }
        };
        let mut key = Vec::new();
        if read.iter().any(|column| matches!(column, ReadColumn::RowKey(_))) {
            key = relation.key.iter().map(|column| place(ScanColumn::Column(column.id))).collect();
        }
        let places = read.iter().map(|column| match column {
            ReadColumn::Scan(column) => Place::Batch(place(*column)),
            ReadColumn::RowKey(form) => Place::Key(*form),
            ReadColumn::Family(_) | ReadColumn::Static(_) => Place::Later,
        });
        let places = places.collect();
        Columns { scan, places, key, key_columns: relation.key.clone() }
    }
}

/// The output columns of the rows that the filter keeps; codes stay codes.
pub(crate) struct FilteredRows {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) rows: usize,
}

/// What is done with each batch; shared by the tasks.
struct Steps {
    columns: Arc<Columns>,
    filter: Option<Condition>,
    /// What is taken of its rows.
    top: Option<Arc<TopSoFar>>,
    output: Vec<usize>,
    schema: SchemaRef,
}

impl Steps {
    fn filtered(&self, batch: &RecordBatch) -> Result<FilteredRows> {
        let key = self.columns.key.iter().map(|place| decoded(batch.column(*place)).map_err(external));
        let (key, key_columns) = (key.collect::<Result<Vec<_>>>()?, &self.columns.key_columns);
        let arrays = self.columns.places.iter().map(|place| match place {
            Place::Batch(place) => Ok(batch.column(*place).clone()),
            Place::Key(KeyForm::Text) => row_key_array(&key, key_columns).map_err(external),
            Place::Key(KeyForm::Bytes) => row_key_digits(&key, key_columns).map_err(external),
            Place::Later => Err(DataFusionError::Internal("a column that is not in the rows".into())),
        });
        let read = arrays.collect::<Result<Vec<_>>>()?;
        let rows = batch.num_rows();
        let mask = self.filter.as_ref().map(|condition| condition.mask(&read, rows)).transpose()?;
        let mask = match &self.top {
            Some(top) => top.narrowed(&read, rows, mask)?,
            None => mask,
        };
        let kept = mask.as_ref().map_or(rows, BooleanArray::true_count);
        let columns = self.output.iter().map(|place| match &mask {
            Some(mask) if kept < rows => Ok(filter(&read[*place], mask)?),
            _ => Ok(read[*place].clone()),
        });
        Ok(FilteredRows { columns: columns.collect::<Result<_>>()?, rows: kept })
    }

    /// The rows of a batch in batches of at most about so many bytes. Codes are looked up last, of the rows that are left; and
    /// text comes without what it shares with other batches: whoever keeps one row of a batch keeps, and counts, all of
    /// its bytes.
    fn apply(&self, batch: &RecordBatch, bytes: usize) -> Result<Vec<RecordBatch>> {
        let filtered = self.filtered(batch)?;
        if filtered.rows == 0 {
            return Ok(Vec::new());
        }
        let columns: Vec<ArrayRef> =
            filtered.columns.iter().map(|array| decoded(array).map_err(external)).collect::<Result<_>>()?;
        let whole = batch_of(&self.schema, columns, filtered.rows)?;
        let pieces = batch_bytes(&whole).div_ceil(bytes).clamp(1, filtered.rows);
        let rows = filtered.rows.div_ceil(pieces);
        let piece = |first: usize| {
            let part = whole.slice(first, rows.min(filtered.rows - first));
            batch_of(&self.schema, part.columns().iter().map(compacted).collect(), part.num_rows())
        };
        (0..filtered.rows).step_by(rows).map(piece).collect()
    }
}

fn batch_of(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}

/// One partition of the scan.
pub(super) fn execute(
    exec: &SpanScanExec,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let counters: Arc<ScanCounters> = Arc::default();
    let (waiting, noted, context) = (exec.clone(), counters.clone(), context.clone());
    let batches = async move {
        let exec = waiting.with_awaited_keys(&context).await?;
        let scan = match exec.shape {
            Shape::Spans => Arc::new(span_alone(&exec.scan, partition)),
            _ => exec.scan.clone(),
        };
        let mut reader = Reader::new(&exec, scan, exec.plan.filter.as_ref())?;
        reader.batch_bytes = bytes_of_a_batch(context.memory_pool().as_ref());
        reader.counters = noted;
        let (reader, tasks) = (Arc::new(reader), context.session_config().target_partitions());
        let divided = exec.divided().await?;
        if let Some(found) = divided.store.found.as_ref().filter(|_| partition == 0) {
            MetricBuilder::new(&exec.metrics).global_counter("index_keys").add(found.keys as usize);
        }
        let splits = divided.splits(partition).to_vec();
        let ahead = splits.len() > 1 && tasks > 1 && exec.shape == Shape::Sequence;
        Ok::<_, DataFusionError>(if ahead { reader.ahead(splits, tasks) } else { reader.one_after_another(splits) })
    };
    let batches = futures::stream::once(batches).try_flatten().boxed();
    let batches = limited(batches, exec.fetch);
    let meter = Meter::new(exec, partition, counters);
    let metered = batches.inspect(move |batch| meter.record(batch.as_ref().ok()));
    let stream = RecordBatchStreamAdapter::new(exec.schema.clone(), metered);
    Ok(Box::pin(cooperative(stream)))
}

/// Reads splits of one scan.
pub(crate) struct Reader {
    snapshot: Arc<dyn Snapshot>,
    scan: Arc<Scan>,
    /// What the store is told besides.
    conditions: Conditions,
    counters: Arc<ScanCounters>,
    steps: Steps,
    /// Bytes of a batch, about.
    batch_bytes: usize,
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

impl Reader {
    /// A reader of a scan of this node's columns, by a filter over the columns that it reads.
    pub(crate) fn new(exec: &SpanScanExec, scan: Arc<Scan>, filter: Option<&Arc<dyn PhysicalExpr>>) -> Result<Reader> {
        let steps = Steps {
            columns: exec.columns.clone(),
            filter: filter.map(|expr| Condition::new(expr, &exec.plan.read_schema)).transpose()?,
            top: exec.top.clone().map(|top| Arc::new(TopSoFar::new(top))),
            output: exec.output.clone(),
            schema: exec.schema.clone(),
        };
        let plan = &exec.plan;
        let mut conditions = match filter {
            Some(filter) => of_filter(filter, plan)?,
            None => Vec::new(),
        };
        conditions.extend(exec.conditions.iter().cloned());
        if let Some(top) = steps.top.as_ref().and_then(|top| top.condition(plan)) {
            conditions.push(top);
        }
        let (snapshot, conditions) = (plan.snapshot.clone(), conditions.into());
        Ok(Reader { snapshot, scan, conditions, counters: Arc::default(), steps, batch_bytes: usize::MAX })
    }

    /// Counts what this reader does in the node's metrics, until it is dropped.
    pub(crate) fn meter(&self, exec: &SpanScanExec) -> Meter {
        Meter::new(exec, 0, self.counters.clone())
    }

    /// One split as the store has it: filtered, but not decoded.
    pub(crate) fn filtered(self: Arc<Self>, split: &Split) -> Result<BoxStream<'static, Result<FilteredRows>>> {
        let stream = self.stream(split).map_err(external)?;
        Ok(stream.map(move |batch| self.steps.filtered(&batch.map_err(external)?)).boxed())
    }

    fn stream(&self, split: &Split) -> keyspan_model::Result<BatchStream> {
        self.snapshot.scan(&self.scan, split, self.conditions.clone(), self.counters.clone())
    }

    fn split(self: Arc<Self>, split: &Split) -> Batches {
        match self.stream(split) {
            Ok(stream) => {
                let shaped = stream.map(move |batch| self.steps.apply(&batch.map_err(external)?, self.batch_bytes));
                shaped.map_ok(|pieces| futures::stream::iter(pieces.into_iter().map(Ok))).try_flatten().boxed()
            }
            Err(error) => futures::stream::once(future::ready(Err(external(error)))).boxed(),
        }
    }

    fn one_after_another(self: Arc<Self>, splits: Vec<Split>) -> Batches {
        futures::stream::iter(splits).flat_map(move |split| self.clone().split(&split)).boxed()
    }

    /// As [`Reader::one_after_another`], but `tasks` splits are being read at any time.
    fn ahead(self: Arc<Self>, splits: Vec<Split>, tasks: usize) -> Batches {
        let ahead = Ahead { reader: self, waiting: splits.into(), running: VecDeque::new(), tasks };
        futures::stream::try_unfold(ahead, |mut ahead| async move {
            let batch = ahead.next().await?;
            Ok(batch.map(|batch| (batch, ahead)))
        })
        .boxed()
    }
}

struct Ahead {
    reader: Arc<Reader>,
    waiting: VecDeque<Split>,
    running: VecDeque<(mpsc::Receiver<Result<RecordBatch>>, SpawnedTask<()>)>,
    tasks: usize,
}

impl Ahead {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while self.running.len() < self.tasks {
                let Some(split) = self.waiting.pop_front() else { break };
                self.start(split);
            }
            let Some((receiver, _)) = self.running.front_mut() else { return Ok(None) };
            match receiver.recv().await {
                Some(batch) => return batch.map(Some),
                None => self.finish().await?,
            }
        }
    }

    fn start(&mut self, split: Split) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let reader = self.reader.clone();
        let task = SpawnedTask::spawn(async move {
            let mut batches = reader.split(&split);
            while let Some(batch) = batches.next().await {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        self.running.push_back((receiver, task));
    }

    /// The first task has closed its channel: see that it did not panic.
    async fn finish(&mut self) -> Result<()> {
        match self.running.pop_front() {
            Some((_, task)) => task.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))),
            None => Ok(()),
        }
    }
}

/// Stops after so many rows.
fn limited(batches: Batches, fetch: Option<usize>) -> Batches {
    let Some(fetch) = fetch else { return batches };
    futures::stream::try_unfold((batches, fetch), |(mut batches, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(batch) = batches.try_next().await? else { return Ok(None) };
        let batch = if batch.num_rows() > left { batch.slice(0, left) } else { batch };
        let left = left - batch.num_rows();
        // The store's stream ends with its last row's batch, not when somebody asks again.
        let rest = if left == 0 { futures::stream::empty().boxed() } else { batches };
        Ok(Some((batch, (rest, left))))
    })
    .boxed()
}

/// The counts of EXPLAIN ANALYZE.
pub(crate) struct Meter {
    baseline: BaselineMetrics,
    counters: Arc<ScanCounters>,
    rows_read: Count,
    rows_merged: Count,
    rows_dead: Count,
    bytes_read: Count,
    pages_read: Count,
    segments_read: Count,
}

impl Meter {
    fn new(exec: &SpanScanExec, partition: usize, counters: Arc<ScanCounters>) -> Meter {
        let count = |name: &'static str| MetricBuilder::new(&exec.metrics).counter(name, partition);
        Meter {
            baseline: BaselineMetrics::new(&exec.metrics, partition),
            rows_read: count("rows_read"),
            rows_merged: count("rows_merged"),
            rows_dead: count("rows_dead"),
            bytes_read: count("bytes_read"),
            pages_read: count("pages_read"),
            segments_read: count("segments_read"),
            counters,
        }
    }

    /// A batch that the node delivers.
    pub(crate) fn record(&self, batch: Option<&RecordBatch>) {
        if let Some(batch) = batch {
            self.baseline.record_output(batch.num_rows());
        }
    }
}

/// The counters are final only when nobody reads any more.
impl Drop for Meter {
    fn drop(&mut self) {
        let counters = &self.counters;
        self.rows_read.add(counters.rows.load(Ordering::Relaxed) as usize);
        self.rows_merged.add(counters.rows_merged.load(Ordering::Relaxed) as usize);
        self.rows_dead.add(counters.rows_dead.load(Ordering::Relaxed) as usize);
        self.bytes_read.add(counters.bytes_read.load(Ordering::Relaxed) as usize);
        self.pages_read.add(counters.pages_read.load(Ordering::Relaxed) as usize);
        self.segments_read.add(counters.segments_read.load(Ordering::Relaxed) as usize);
    }
}
