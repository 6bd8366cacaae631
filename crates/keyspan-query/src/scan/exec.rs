//! The scan node: layout, limits, order and projection.
//!
//! A new scan declares no order and may be read by several partitions. The optimizer changes it: a sort that it can
//! answer gives it an order, a limit lets it stop early, and [`super::KeyOrder`] makes it one sequence.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult};
use keyspan_model::{Order, RelationDef, Scan, ScanColumn, TableDef};
use keyspan_seam::{Known, ScanPlan, ScanStatistics, Snapshot, Split, is_bounded};

use super::read::{Columns, ReadColumn};
use super::{describe, read, sort, statistics};
use crate::error::external;

/// Rows below which a scan is one partition: a second task costs more than it saves.
const ROWS_PER_PARTITION: u64 = 32_768;
/// Rows up to which a scan is brief, and bytes of them.
const INLINE_READ: (u64, u64) = (8192, 2 << 20);
/// Splits per core of a scan in sequence: enough that the first is soon done, few enough that each is worth its start.
const SPLITS_PER_CORE: usize = 4;

/// What a scan reads: fixed when the table is planned, shared by every form that the optimizer gives the scan.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    /// The table, for its name.
    pub table: Arc<TableDef>,
    /// The relation that is read.
    pub relation: Arc<RelationDef>,
    /// What is seen.
    pub snapshot: Arc<dyn Snapshot>,
    /// Columns that are read: those of the output and those of the filter.
    pub read: Vec<ReadColumn>,
    /// Their schema.
    pub read_schema: SchemaRef,
    /// Evaluated on the columns read, after versions are merged.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// Key columns that have one value in all rows.
    pub constant: Vec<bool>,
    /// Spans and ranges; columns, order and limit are filled in here.
    pub scan: Scan,
    /// Partitions of a large scan.
    pub partitions: usize,
}

/// How the splits are read.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// Each group by a partition of its own.
    Partitions(Vec<Vec<Split>>),
    /// Each span by a partition of its own, as a scan of its own, in order; above, they are merged.
    Spans(Vec<(Arc<Scan>, Vec<Split>)>),
    /// One partition: the splits one after another, several being read at a time.
    Sequence(Vec<Split>),
}

/// Reads the spans of a table.
#[derive(Clone, Debug)]
pub struct SpanScanExec {
    pub(crate) plan: Arc<ReadPlan>,
    pub(crate) scan: Arc<Scan>,
    pub(super) columns: Arc<Columns>,
    /// Places of the output columns among those read, and their names.
    pub(crate) output: Vec<usize>,
    pub(crate) schema: SchemaRef,
    pub(super) ordering: Option<LexOrdering>,
    pub(crate) fetch: Option<usize>,
    pub(super) layout: Layout,
    pub(super) store_plan: Arc<ScanPlan>,
    pub(crate) estimate: Arc<ScanStatistics>,
    properties: Arc<PlanProperties>,
    pub(crate) metrics: ExecutionPlanMetricsSet,
}

impl SpanScanExec {
    /// A scan in no particular order. `output` gives places in `plan.read`.
    pub fn try_new(plan: ReadPlan, output: Vec<usize>, fetch: Option<usize>) -> Result<SpanScanExec> {
        let schema = Arc::new(plan.read_schema.project(&output)?);
        let form = Form { order: plan.scan.order, ordering: None, fetch, shape: Shape::Partitions };
        Self::formed(plan, output, schema, form)
    }

    /// A scan of this form, whose output columns have the names of `schema`.
    pub(super) fn formed(plan: ReadPlan, output: Vec<usize>, schema: SchemaRef, form: Form) -> Result<SpanScanExec> {
        let columns = Columns::new(&plan.read, &plan.relation);
        let mut scan = plan.scan.clone();
        scan.columns = columns.scan.clone();
        let (plan, columns) = (Arc::new(plan), Arc::new(columns));
        Self::laid_out(Base { plan, columns, output, schema, estimate: None }, scan, form)
    }

    /// Asks the store for splits and lays them out.
    fn laid_out(base: Base, mut scan: Scan, form: Form) -> Result<SpanScanExec> {
        let plan = &base.plan;
        scan.order = form.order;
        scan.limit = if plan.filter.is_none() { form.fetch } else { None };
        scan.limit = scan.limit.filter(|_| plan.snapshot.accept(&scan).limit);
        let early_stop = form.fetch.is_some_and(|fetch| (fetch as u64) < ROWS_PER_PARTITION) && plan.filter.is_none();
        let want = match form.shape {
            _ if early_stop => 1,
            Shape::Sequence => plan.partitions.max(1) * SPLITS_PER_CORE,
            Shape::Partitions => plan.partitions.max(1),
            Shape::Spans => 1,
        };
        let mut store_plan = plan.snapshot.plan(&scan, want).map_err(external)?;
        let splits = std::mem::take(&mut store_plan.splits);
        let estimate = base.estimate.unwrap_or_else(|| Arc::new(store_plan.statistics.clone()));
        let several = want > 1 && splits.len() > 1 && !is_few(&estimate);
        let layout = match form.shape {
            Shape::Spans => Layout::Spans(by_span(plan, &scan)?),
            Shape::Partitions if several => Layout::Partitions(grouped(splits, plan.partitions)),
            _ => Layout::Sequence(splits),
        };
        let properties = properties(&base.schema, form.ordering.as_ref(), layout.partitions());
        Ok(SpanScanExec {
            plan: base.plan,
            scan: Arc::new(scan),
            columns: base.columns,
            output: base.output,
            schema: base.schema,
            ordering: form.ordering,
            fetch: form.fetch,
            layout,
            store_plan: Arc::new(store_plan),
            estimate,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// This scan with some of its form changed.
    fn changed(&self, change: impl FnOnce(&mut Form)) -> Result<SpanScanExec> {
        let (ordering, shape) = (self.ordering.clone(), self.shape());
        let mut form = Form { order: self.scan.order, ordering, fetch: self.fetch, shape };
        change(&mut form);
        let base = Base {
            plan: self.plan.clone(),
            columns: self.columns.clone(),
            output: self.output.clone(),
            schema: self.schema.clone(),
            estimate: Some(self.estimate.clone()),
        };
        Self::laid_out(base, Scan::clone(&self.scan), form)
    }

    pub(super) fn shape(&self) -> Shape {
        match self.layout {
            Layout::Partitions(_) => Shape::Partitions,
            Layout::Sequence(_) => Shape::Sequence,
            Layout::Spans(_) => Shape::Spans,
        }
    }

    /// This scan with the properties of another of the same order, if it has as many partitions.
    pub(super) fn promising(mut self, properties: &Arc<PlanProperties>) -> Option<SpanScanExec> {
        let same = self.layout.partitions() == properties.partitioning.partition_count();
        self.properties = properties.clone();
        same.then_some(self)
    }

    /// Whether the store delivers the order that this scan asks for. Where each span is read on its own, no row may come twice.
    pub(super) fn keeps_order(&self) -> bool {
        let accepted = self.plan.snapshot.accept(&self.scan);
        accepted.order && (accepted.spans || !self.is_by_span())
    }

    /// Whether the rows of a batch are in key order: a store keeps that, whatever a scan asks for, if it keeps orders at all.
    pub(crate) fn has_ordered_batches(&self) -> bool {
        let ordered = Scan { order: Order::Forward, ..Scan::clone(&self.scan) };
        self.plan.snapshot.accept(&ordered).order
    }

    /// Whether each span is a partition of its own, so that only a merge brings them into order.
    pub(super) fn is_by_span(&self) -> bool {
        matches!(self.layout, Layout::Spans(_))
    }

    /// Bytes that the rows take in memory, about. Widths of texts are guesses, so that a scan of a whole table counts
    /// at least twice what that takes in memory runs and on disk.
    pub(crate) fn bytes_read(&self) -> usize {
        let known = |known: &Known<u64>| match known {
            Known::Exact(bytes) | Known::Estimate(bytes) => *bytes,
            Known::Unknown => u64::MAX,
        };
        let guessed = known(&self.estimate.bytes);
        let stored = match is_bounded(&self.scan.spans, &self.scan.ranges) {
            true => 0,
            false => known(&self.plan.snapshot.relation_bytes(self.plan.relation.id)).saturating_mul(2),
        };
        usize::try_from(guessed.max(stored)).unwrap_or(usize::MAX)
    }

    /// Whether so few rows are expected that a second task costs more than it saves.
    pub(crate) fn is_small(&self) -> bool {
        is_few(&self.estimate)
    }

    /// Whether one task reads it, and a few rows are expected.
    pub(crate) fn runs_inline(&self) -> bool {
        let Some(all) = statistics::estimated_rows(&self.estimate).filter(|rows| *rows < ROWS_PER_PARTITION) else {
            return false;
        };
        let rows = self.scan.limit.map_or(all, |limit| all.min(limit as u64));
        let narrow = match self.estimate.bytes {
            Known::Exact(bytes) | Known::Estimate(bytes) => bytes.saturating_mul(rows) / all.max(1) <= INLINE_READ.1,
            Known::Unknown => true,
        };
        let alone = matches!(&self.layout, Layout::Sequence(splits) if splits.len() <= 1);
        alone && narrow && rows <= INLINE_READ.0
    }

    /// The splits of a scan in no order, of which so few rows are expected that one task reads them.
    pub(crate) fn few_splits(&self) -> Option<&[Split]> {
        match &self.layout {
            Layout::Sequence(splits) if self.scan.order == Order::Any && self.is_small() => Some(splits),
            _ => None,
        }
    }

    /// One partition in row-key order, or in the order it already has.
    pub(super) fn in_sequence(&self) -> Result<SpanScanExec> {
        if self.scan.order != Order::Any && matches!(self.layout, Layout::Sequence(_)) {
            return Ok(self.clone());
        }
        self.changed(|form| {
            form.shape = Shape::Sequence;
            if form.order == Order::Any {
                form.order = Order::Forward;
            }
        })
    }

    /// This scan with the first `count` key columns among its output, and their places there.
    pub(crate) fn with_key(&self, count: usize) -> Result<(SpanScanExec, Vec<usize>)> {
        let plan = &self.plan;
        let (mut read, mut fields, mut output) =
            (plan.read.clone(), plan.read_schema.fields().to_vec(), self.output.clone());
        let mut places = Vec::with_capacity(count);
        for column in &plan.relation.key[..count] {
            let wanted = ReadColumn::Scan(ScanColumn::Column(column.id));
            let at = read.iter().position(|each| *each == wanted).unwrap_or_else(|| {
                read.push(wanted);
                fields.push(Arc::new(column.ty.field(&column.name, false)));
                read.len() - 1
            });
            places.push(output.iter().position(|each| *each == at).unwrap_or_else(|| {
                output.push(at);
                output.len() - 1
            }));
        }
        let read_schema = Arc::new(Schema::new(fields));
        let plan = ReadPlan { read, read_schema, ..ReadPlan::clone(plan) };
        Ok((SpanScanExec::try_new(plan, output, None)?, places))
    }

    /// The same scan with other output columns: places among the present ones, and their names.
    fn with_output(&self, places: &[(usize, String)]) -> Result<SpanScanExec> {
        let fields: Vec<_> =
            places.iter().map(|(place, name)| Arc::new(self.schema.field(*place).clone().with_name(name))).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut next = self.clone();
        next.output = places.iter().map(|(place, _)| self.output[*place]).collect();
        next.ordering = self.ordering.as_ref().and_then(|ordering| moved(ordering, places));
        next.properties = Arc::new(properties(&schema, next.ordering.as_ref(), self.layout.partitions()));
        next.schema = schema;
        next.metrics = ExecutionPlanMetricsSet::new();
        Ok(next)
    }
}

fn is_few(estimate: &ScanStatistics) -> bool {
    statistics::estimated_rows(estimate).is_some_and(|rows| rows < ROWS_PER_PARTITION)
}

/// What stays the same when the form changes.
struct Base {
    plan: Arc<ReadPlan>,
    columns: Arc<Columns>,
    output: Vec<usize>,
    schema: SchemaRef,
    /// What is known of the scan; `None`: not yet asked.
    estimate: Option<Arc<ScanStatistics>>,
}

/// How the splits are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Partitions,
    Sequence,
    Spans,
}

/// What the optimizer changes of a scan.
pub(super) struct Form {
    pub(super) order: Order,
    pub(super) ordering: Option<LexOrdering>,
    pub(super) fetch: Option<usize>,
    pub(super) shape: Shape,
}

/// The splits of each span alone.
fn by_span(plan: &ReadPlan, scan: &Scan) -> Result<Vec<(Arc<Scan>, Vec<Split>)>> {
    let each = scan.spans.iter().map(|span| {
        let alone = Scan { spans: vec![span.clone()], ..scan.clone() };
        let splits = plan.snapshot.plan(&alone, 1).map_err(external)?.splits;
        Ok((Arc::new(alone), splits))
    });
    each.collect()
}

impl Layout {
    fn partitions(&self) -> usize {
        match self {
            Layout::Partitions(groups) => groups.len(),
            Layout::Spans(spans) => spans.len(),
            Layout::Sequence(_) => 1,
        }
    }
}

/// Neighbouring splits together, about the same number of rows in each group.
fn grouped(splits: Vec<Split>, groups: usize) -> Vec<Vec<Split>> {
    let total: u64 = splits.iter().map(|split| split.rows.max(1)).sum();
    let share = total.div_ceil(groups.max(1) as u64).max(1);
    let (mut grouped, mut rows): (Vec<Vec<Split>>, u64) = (Vec::new(), 0);
    for split in splits {
        let full = rows >= share * grouped.len() as u64 && grouped.len() < groups;
        rows += split.rows.max(1);
        match grouped.last_mut() {
            Some(last) if !full => last.push(split),
            _ => grouped.push(vec![split]),
        }
    }
    grouped
}

fn properties(schema: &SchemaRef, ordering: Option<&LexOrdering>, partitions: usize) -> PlanProperties {
    let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), ordering.cloned());
    let partitioning = Partitioning::UnknownPartitioning(partitions);
    PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded)
        .with_scheduling_type(SchedulingType::Cooperative)
}

/// An ordering over renamed and moved columns, as far as its columns are still there.
fn moved(ordering: &LexOrdering, places: &[(usize, String)]) -> Option<LexOrdering> {
    let kept = ordering.iter().map_while(|sort| {
        let column = sort.expr.downcast_ref::<Column>()?;
        let place = places.iter().position(|(place, _)| *place == column.index())?;
        let column = Column::new(&places[place].1, place);
        Some(PhysicalSortExpr::new(Arc::new(column), sort.options))
    });
    LexOrdering::new(kept)
}

impl DisplayAs for SpanScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::describe(self, f)
    }
}

impl ExecutionPlan for SpanScanExec {
    fn name(&self) -> &str {
        "SpanScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.plan.filter {
            Some(filter) => f(filter),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        read::execute(self, partition, &context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        statistics::statistics(self, args.partition()).map(Arc::new)
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let next = self.changed(|form| form.fetch = fetch).ok()?;
        Some(Arc::new(next))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let plain = projection.expr().iter().map(|each| {
            let column = each.expr.downcast_ref::<Column>()?;
            Some((column.index(), each.alias.clone()))
        });
        match plain.collect::<Option<Vec<_>>>() {
            Some(places) => Ok(Some(Arc::new(self.with_output(&places)?))),
            None => Ok(None),
        }
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let Some(found) = sort::direction(self, order) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        // Turned round it would count from the other end.
        if self.scan.per_prefix.is_some() && (found.by_span || found.order != self.scan.order) {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let ordering = LexOrdering::new(order.iter().cloned());
        let next = self.changed(|form| {
            form.order = found.order;
            form.ordering = ordering.clone();
            if found.by_span {
                form.shape = Shape::Spans;
            }
        })?;
        if !next.keeps_order() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        if let Some(ordering) = ordering.filter(|_| found.by_span) {
            let merged = SortPreservingMergeExec::new(ordering, Arc::new(next));
            return Ok(SortOrderPushdownResult::Exact { inner: Arc::new(merged) });
        }
        Ok(SortOrderPushdownResult::Exact { inner: Arc::new(next) })
    }
}
