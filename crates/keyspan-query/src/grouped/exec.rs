//! The node: a scan and the aggregate over it in one.
//!
//! Each task takes split after split and keeps groups of its own; at the end they are joined, put in order and handed
//! on. Those that do not fit the memory of queries are written to disk meanwhile ([`super::spill`]). Where only the
//! newest (or oldest) steps are asked for, a narrow window of time is read first, and a wider one only if that held too
//! few.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, SortOrderPushdownResult,
};
use futures::{StreamExt, TryStreamExt};
use keyspan_model::{ColumnId, ColumnRange, Error, Order, Scan, ScanColumn, Value};
use keyspan_seam::{Known, Split};
use parking_lot::Mutex;

use super::fold::Aggregate;
use super::groups::{GroupingSet, Part, PartValue};
use super::hash_aggregate::HashAggregate;
use super::lookup::{Lookup, Prepared, TableRows, Tables};
use super::partial::PartialGroups;
use super::runs::Fences;
use super::spill::Spills;
use crate::coded_expr::{CodedExpr, Condition};
use crate::error::external;
use crate::scan::{Reader, SpanScanExec, describe};

/// Rows of an answer's batch at most.
pub(super) const BATCH_ROWS: usize = 8192;
/// Splits for each core, so that no core waits long for another.
const SPLITS_PER_CORE: usize = 4;
/// Batches after which a task lets others run.
const YIELD_AFTER: usize = 16;
/// Windows that are read before all is.
const WINDOWS: usize = 3;
/// How many times wider the next window is.
const WIDER: i64 = 16;

/// What is done with the rows.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// What parts and aggregates are made of, over the columns of the scan.
    pub(super) inputs: Vec<CodedExpr>,
    pub(super) parts: Arc<[Part]>,
    pub(super) by: By,
    /// None: rows are grouped by all parts.
    pub(super) sets: Vec<GroupingSet>,
    pub(super) aggregates: Vec<Aggregate>,
    /// Tables that rows are looked up in before.
    pub(super) lookups: Vec<Lookup>,
}

impl Work {
    /// What is computed of each row.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &CodedExpr> {
        let filters = self.aggregates.iter().filter_map(|aggregate| aggregate.filter.as_ref());
        self.inputs.iter().chain(filters.flat_map(Condition::parts))
    }
}

/// How the group of a row is found.
#[derive(Clone, Debug)]
pub(super) enum By {
    /// Rows of one group stand together, as their keys do.
    Key(Fences),
    /// By the values of each row; where groups turn out to be many, DataFusion's aggregate does it.
    Value(HashAggregate),
}

/// Reads the spans of a table and groups their rows.
#[derive(Clone, Debug)]
pub struct GroupedScanExec {
    pub(super) scan: Arc<SpanScanExec>,
    /// Plans of the tables that rows are looked up in.
    pub(super) tables: Vec<Arc<dyn ExecutionPlan>>,
    pub(super) work: Arc<Work>,
    pub(super) schema: SchemaRef,
    /// Order of the answer: (part, descending).
    pub(super) order: Vec<(usize, bool)>,
    pub(super) fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

/// The node without its scan and tables.
#[derive(Clone, Debug)]
pub(crate) struct GroupedTemplate {
    work: Arc<Work>,
    schema: SchemaRef,
    order: Vec<(usize, bool)>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl GroupedTemplate {
    /// The node over another scan of the same columns, and other plans of the same tables.
    pub(crate) fn over(&self, scan: SpanScanExec, tables: Vec<Arc<dyn ExecutionPlan>>) -> GroupedScanExec {
        GroupedScanExec {
            scan: Arc::new(scan),
            tables,
            work: self.work.clone(),
            schema: self.schema.clone(),
            order: self.order.clone(),
            fetch: self.fetch,
            properties: self.properties.clone(),
        }
    }
}

impl GroupedScanExec {
    pub(super) fn new(
        scan: SpanScanExec,
        tables: Vec<Arc<dyn ExecutionPlan>>,
        work: Work,
        schema: SchemaRef,
    ) -> GroupedScanExec {
        let properties = Arc::new(properties(&schema, None));
        let (scan, work) = (Arc::new(scan), Arc::new(work));
        GroupedScanExec { scan, tables, work, schema, order: Vec::new(), fetch: None, properties }
    }

    /// The scan under the groups.
    pub(crate) fn scan(&self) -> &SpanScanExec {
        &self.scan
    }

    /// The scan's output column that a group's column is; `None` for a step of time.
    pub(crate) fn column_of_group(&self, part: usize) -> Option<usize> {
        match self.work.parts.get(part)?.value {
            // Rows that a set counts are of other groups, too.
            _ if !self.work.sets.is_empty() => None,
            PartValue::Input(place) => self.work.inputs[place].column(),
            PartValue::Step(..) | PartValue::Set => None,
        }
    }

    /// The tables that rows are looked up in, each with the scan's output column that is looked up, if it is one and rows
    /// without a match are left out, and with the key that it is equal to.
    pub(crate) fn tables(
        &self,
    ) -> impl Iterator<Item = (&Arc<dyn ExecutionPlan>, Option<usize>, &Arc<dyn PhysicalExpr>)> {
        let column = |lookup: &Lookup| lookup.key.column().filter(|_| lookup.kind.leaves_out());
        let lookups = self.work.lookups.iter().map(move |lookup| (column(lookup), &lookup.table_key));
        self.tables.iter().zip(lookups).map(|(table, (column, key))| (table, column, key))
    }

    /// The same over other plans of the tables.
    pub(crate) fn with_tables(&self, tables: Vec<Arc<dyn ExecutionPlan>>) -> GroupedScanExec {
        GroupedScanExec { tables, ..self.clone() }
    }

    /// The same over a scan of the same form.
    pub(crate) fn over(&self, scan: SpanScanExec) -> GroupedScanExec {
        GroupedScanExec { scan: Arc::new(scan), ..self.clone() }
    }

    /// What is done over the scan.
    pub(crate) fn form(&self) -> GroupedTemplate {
        let (schema, order, properties) = (self.schema.clone(), self.order.clone(), self.properties.clone());
        GroupedTemplate { work: self.work.clone(), schema, order, fetch: self.fetch, properties }
    }

    /// All answers, in order.
    async fn answer(mut self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = TableRows::read(&self.tables, &context).await?;
        self.scan = Arc::new(self.scan.with_awaited_keys(&context).await?);
        let tables = match (Tables::prepared(&self.work.lookups, rows)?, &self.work.by) {
            (Prepared::Tables(tables), _) => Arc::new(tables),
            (Prepared::Repeated(rows), By::Value(aggregate)) => {
                return self.by_hash_aggregate(aggregate, rows, &context);
            }
            (Prepared::Repeated(_), By::Key(_)) => {
                return Err(external(Error::internal("groups by key of joined rows")));
            }
        };
        let tasks = context.session_config().target_partitions().max(1);
        for window in self.windows().await? {
            if let Found::Kept(found) = self.read(Some(&window), &tables, tasks, &context).await?
                && Some(found.len()) >= self.fetch
            {
                return self.batches(found);
            }
        }
        match self.read(None, &tables, tasks, &context).await? {
            Found::Kept(found) => self.batches(found),
            Found::Spilled(spills) => spills.answer(&context),
            Found::Many(aggregate) => {
                let rows = Arc::into_inner(tables).map(Tables::into_rows);
                let rows = rows.ok_or_else(|| external(Error::internal("a task has not ended")))?;
                self.by_hash_aggregate(&aggregate, rows, &context)
            }
        }
    }

    /// The answer of DataFusion's aggregate over its joins.
    fn by_hash_aggregate(
        &self,
        aggregate: &HashAggregate,
        tables: TableRows,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        MetricBuilder::new(&self.scan.metrics).global_counter("hash_aggregates").add(1);
        aggregate.over(&self.scan, tables.into_plans()?, self.fetch, context)
    }

    /// The answer out of groups in memory, made a batch at a time.
    fn batches(&self, found: PartialGroups) -> Result<SendableRecordBatchStream> {
        let found = found.finish(&self.work.sets, &self.order)?;
        let groups = found.order.len().min(self.fetch.unwrap_or(usize::MAX));
        let schema = self.schema.clone();
        let batches = (0..groups).step_by(BATCH_ROWS).map(move |from| {
            let groups = &found.order[from..groups.min(from + BATCH_ROWS)];
            found.answer(&schema, groups)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(batches))))
    }

    /// Windows of time that may hold all that is asked for, the narrowest first; none of a store that delivers rows outside.
    ///
    /// Each is open to the side where the answer begins. So whatever the bounds are taken to be, the first so many
    /// groups of a window are those of the whole; if there are too few a wider one is read.
    async fn windows(&self) -> Result<Vec<ColumnRange>> {
        let (Some(fetch), [(0, descending)], [part]) = (self.fetch, self.order.as_slice(), self.work.parts.as_ref())
        else {
            return Ok(Vec::new());
        };
        let (PartValue::Step(_, step), Some(column)) = (part.value, self.time_column()) else { return Ok(Vec::new()) };
        let Some((oldest, newest)) = self.time_bounds(column).await? else { return Ok(Vec::new()) };
        let mut windows = Vec::new();
        let mut steps = fetch as i64;
        for _ in 0..WINDOWS {
            let span = step.width.saturating_mul(steps.saturating_sub(1));
            let cut = match descending {
                true => step.start(newest.saturating_sub(span)),
                false => step.start(oldest).and_then(|start| start.checked_add(span)?.checked_add(step.width)),
            };
            let Some(cut) = cut.filter(|cut| *cut > oldest && *cut <= newest) else { break };
            let cut = Value::Timestamp(cut);
            windows.push(match descending {
                true => ColumnRange::between(column, Bound::Included(cut), Bound::Unbounded),
                false => ColumnRange::between(column, Bound::Unbounded, Bound::Excluded(cut)),
            });
            steps = steps.saturating_mul(WIDER);
        }
        let snapshot = &self.scan.plan.snapshot;
        windows.retain(|window| snapshot.accept(&self.scan_within(Some(window))).ranges);
        Ok(windows)
    }

    /// Least and greatest time that there may be in the spans and ranges.
    async fn time_bounds(&self, id: ColumnId) -> Result<Option<(i64, i64)>> {
        let column = ScanColumn::Column(id);
        let at = self.scan.scan.columns.iter().position(|each| *each == column);
        let known = &self.scan.divided().await?.store.statistics.ranges;
        let (mut least, mut greatest) = match at.and_then(|at| known.get(at)) {
            Some(
                Known::Exact((Value::Timestamp(least), Value::Timestamp(greatest)))
                | Known::Estimate((Value::Timestamp(least), Value::Timestamp(greatest))),
            ) => (*least, *greatest),
            _ => return Ok(None),
        };
        let time = |bound: &Bound<Value>| match bound {
            Bound::Included(Value::Timestamp(at)) | Bound::Excluded(Value::Timestamp(at)) => Some(*at),
            _ => None,
        };
        for range in self.scan.scan.ranges.iter().filter(|range| range.column == id) {
            least = least.max(time(&range.lower).unwrap_or(i64::MIN));
            greatest = greatest.min(time(&range.upper).unwrap_or(i64::MAX));
        }
        Ok(Some((least, greatest)))
    }

    fn time_column(&self) -> Option<ColumnId> {
        let By::Key(Fences { equal, steps: Some(_) }) = &self.work.by else { return None };
        self.scan.plan.relation.key.get(equal.len()).map(|column| column.id)
    }

    /// The scan, in any order, of the rows within a window.
    fn scan_within(&self, window: Option<&ColumnRange>) -> Scan {
        let mut scan = Scan { order: Order::Any, ..Scan::clone(&self.scan.scan) };
        scan.ranges.extend(window.cloned());
        scan
    }

    /// A scan of the rows within a window, and its splits.
    async fn planned(&self, window: Option<&ColumnRange>, tasks: usize) -> Result<(Arc<Scan>, Vec<Split>)> {
        let scan = self.scan_within(window);
        let want = if self.scan.is_small() { 1 } else { tasks * SPLITS_PER_CORE };
        let splits = self.scan.plan.snapshot.plan(&scan, want).await.map_err(external)?.splits;
        Ok((Arc::new(scan), splits))
    }

    /// Groups of all rows within a window.
    async fn read(
        &self,
        window: Option<&ColumnRange>,
        tables: &Arc<Tables>,
        tasks: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Found> {
        let few = if window.is_none() { self.scan.few_splits().await? } else { None };
        let (scan, splits) = match few {
            // Splits belong to the very scan that they were planned for.
            Some(splits) => (self.scan.scan.clone(), splits.to_vec()),
            None => self.planned(window, tasks).await?,
        };
        let tasks = tasks.min(splits.len());
        let reader = Arc::new(Reader::new(&self.scan, scan, self.scan.plan.filter.as_ref())?);
        let meter = reader.meter(&self.scan);
        let queue = Arc::new(Mutex::new(VecDeque::from(splits)));
        let spills = Arc::new(Spills::new(self, context)?);
        let many = Arc::new(AtomicBool::new(false));
        let task = |number: usize| -> Result<Task> {
            let memory = MemoryConsumer::new(format!("GroupedScan[{number}]")).with_can_spill(true);
            let memory = memory.register(context.memory_pool());
            let found = PartialGroups::new(&self.work.parts, &self.work.aggregates, memory)?;
            let (reader, queue, work) = (reader.clone(), queue.clone(), self.work.clone());
            let (tables, spills, many) = (tables.clone(), spills.clone(), many.clone());
            Ok(Task { reader, queue, work, tables, found, spills, many })
        };
        let mut found = match tasks {
            ..=1 => task(0)?.run().await?,
            // All of them spawned: one run here would keep the last of the others waiting, which this thread alone may
            // begin.
            _ => {
                let spawned = (0..tasks).map(|number| Ok(SpawnedTask::spawn(task(number)?.run())));
                let spawned = spawned.collect::<Result<Vec<_>>>()?;
                let mut found: Option<PartialGroups> = None;
                for each in spawned {
                    let each = each.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
                    match &mut found {
                        Some(_) if many.load(Ordering::Relaxed) => {}
                        Some(found) => found.join(each, &spills)?,
                        None => found = Some(each),
                    }
                }
                found.ok_or_else(|| external(Error::internal("a scan without a task")))?
            }
        };
        drop(meter);
        if let By::Value(aggregate) = &self.work.by
            && many.load(Ordering::Relaxed)
        {
            return Ok(Found::Many(aggregate.clone()));
        }
        if spills.are_none() {
            return Ok(Found::Kept(found));
        }
        found.spill(&spills)?;
        Ok(Found::Spilled(spills))
    }
}

/// What was found of all rows.
enum Found {
    Kept(PartialGroups),
    Spilled(Arc<Spills>),
    /// Too many groups to find them by the values of rows: this is to do it.
    Many(HashAggregate),
}

/// One of those who read.
struct Task {
    reader: Arc<Reader>,
    queue: Arc<Mutex<VecDeque<Split>>>,
    work: Arc<Work>,
    tables: Arc<Tables>,
    found: PartialGroups,
    spills: Arc<Spills>,
    /// Whether some task has found too many groups.
    many: Arc<AtomicBool>,
}

impl Task {
    async fn run(mut self) -> Result<PartialGroups> {
        let (mut batches, mut rows) = (0, 0);
        loop {
            let Some(split) = self.queue.lock().pop_front() else { return Ok(self.found) };
            let mut stream = self.reader.clone().filtered(&split)?;
            while let Some(kept) = stream.try_next().await? {
                let kept = self.tables.joined(&self.work, kept)?;
                if kept.rows > 0 {
                    self.found.add(&self.work, &kept.columns, kept.rows)?;
                }
                rows += kept.rows;
                if matches!(self.work.by, By::Value(_)) && self.found.are_many(rows) {
                    self.many.store(true, Ordering::Relaxed);
                }
                if self.many.load(Ordering::Relaxed) {
                    return Ok(self.found);
                }
                self.found.keep_within_memory(&self.spills)?;
                batches += 1;
                if batches % YIELD_AFTER == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

fn properties(schema: &SchemaRef, ordering: Option<LexOrdering>) -> PlanProperties {
    let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), ordering);
    PlanProperties::new(equivalences, Partitioning::UnknownPartitioning(1), EmissionType::Final, Boundedness::Bounded)
}

impl DisplayAs for GroupedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |from: usize, to: usize| {
            let names: Vec<&str> = self.schema.fields()[from..to].iter().map(|field| field.name().as_str()).collect();
            names.join(", ")
        };
        let parts = self.work.parts.len();
        write!(f, "GroupedScan: groups=[{}]", names(0, parts))?;
        write!(f, ", aggregates=[{}]", names(parts, self.schema.fields().len()))?;
        if !self.order.is_empty() {
            let order = self.order.iter().map(|(part, descending)| {
                let name = self.schema.field(*part).name();
                if *descending { format!("{name} DESC") } else { name.clone() }
            });
            write!(f, ", order=[{}]", order.collect::<Vec<_>>().join(", "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", limit={fetch}")?;
        }
        if !self.work.lookups.is_empty() {
            write!(f, ", joins=[{}]", self.work.lookups.iter().map(Lookup::to_string).collect::<Vec<_>>().join(", "))?;
        }
        write!(f, " over ")?;
        describe(&self.scan, f)
    }
}

impl ExecutionPlan for GroupedScanExec {
    fn name(&self) -> &str {
        "GroupedScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.tables.iter().collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.tables.len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut going = TreeNodeRecursion::Continue;
        let of_tables = self.work.lookups.iter().flat_map(|lookup| [lookup.key.expr(), &lookup.table_key]);
        for expr in self.work.expressions().map(CodedExpr::expr).chain(&self.scan.plan.filter).chain(of_tables) {
            going = going.visit_sibling(|| f(expr))?;
        }
        Ok(going)
    }

    fn replace_children(
        self: Arc<Self>,
        tables: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_tables(tables)))
    }

    fn with_new_children(self: Arc<Self>, tables: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_tables(tables)))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = futures::stream::once(self.clone().answer(context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.scan.metrics.clone_inner())
    }

    /// By value, what is expected of DataFusion's aggregate, of which joins choose their sides.
    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(match &self.work.by {
            By::Value(aggregate) => aggregate.statistics.clone(),
            By::Key(_) => Arc::new(Statistics::new_unknown(&self.schema)),
        })
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(GroupedScanExec { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        // Where groups are many DataFusion's aggregate answers, in no order.
        if matches!(self.work.by, By::Value(_)) {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let mut parts: Vec<(usize, bool)> = Vec::new();
        for sort in order {
            let place = sort.expr.downcast_ref::<Column>().map(Column::index);
            let Some(place) = place.filter(|place| *place < self.work.parts.len()) else {
                return Ok(SortOrderPushdownResult::Unsupported);
            };
            let SortOptions { descending, .. } = sort.options;
            if parts.iter().all(|(known, _)| *known != place) {
                parts.push((place, descending));
            }
        }
        let properties = Arc::new(properties(&self.schema, LexOrdering::new(order.iter().cloned())));
        Ok(SortOrderPushdownResult::Exact {
            inner: Arc::new(GroupedScanExec { order: parts, properties, ..self.clone() }),
        })
    }
}
