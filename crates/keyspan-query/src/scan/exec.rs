//! The scan node: limits, order and projection.
//!
//! A new scan declares no order and may be read by several partitions. The optimizer changes it: a sort that it can
//! answer gives it an order, a limit lets it stop early, and [`super::KeyOrder`] makes it one sequence.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult};
use keyspan_model::{ColumnId, Order, RelationDef, Scan, ScanColumn, TableDef};
use keyspan_seam::{Conditions, Known, RowCondition, ScanStatistics, Snapshot, Split, is_bounded};
use tokio::sync::OnceCell;

use super::join_keys::{self, AwaitedKeys};
use super::layout::{Divided, Shape};
use super::read::{Columns, ReadColumn};
use super::top::Top;
use super::{describe, read, sort, statistics};
use crate::sort_order::moved;

/// Rows up to which a scan is brief, and bytes of them.
const INLINE_READ: (u64, u64) = (8192, 2 << 20);

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
    /// What is known of its rows, as the query has it.
    pub filters: Vec<Expr>,
    /// What the spans leave of these: evaluated on the columns read, after versions are merged.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// Key columns that have one value in all rows.
    pub constant: Vec<bool>,
    /// Spans and ranges; columns, order and limit are filled in here.
    pub scan: Scan,
    /// Partitions of a large scan.
    pub partitions: usize,
    /// Which scan of its plan it is, where somebody counts them.
    pub number: usize,
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
    pub(super) shape: Shape,
    /// What the store said of the scan as it was first asked for.
    pub(crate) estimate: Arc<ScanStatistics>,
    divided: Arc<OnceCell<Divided>>,
    /// Keys of joins without which it does not begin.
    pub(super) awaited: Vec<AwaitedKeys>,
    /// Its number among those that wait.
    pub(super) number: u64,
    /// What the keys of joins say of its rows.
    pub(super) conditions: Conditions,
    /// What a sort above takes of its rows.
    pub(super) top: Option<Top>,
    properties: Arc<PlanProperties>,
    pub(crate) metrics: ExecutionPlanMetricsSet,
}

impl SpanScanExec {
    /// A scan in no particular order. `output` gives places in `plan.read`. Asks the store how it divides it.
    pub async fn try_new(plan: ReadPlan, output: Vec<usize>, fetch: Option<usize>) -> Result<SpanScanExec> {
        let schema = Arc::new(plan.read_schema.project(&output)?);
        let shape = Shape::Partitions(plan.partitions.max(1));
        let form = Form { order: plan.scan.order, ordering: None, fetch, shape };
        Self::formed(plan, output, schema, form).await
    }

    /// A scan of this form, whose output columns have the names of `schema`.
    pub(super) async fn formed(
        plan: ReadPlan,
        output: Vec<usize>,
        schema: SchemaRef,
        form: Form,
    ) -> Result<SpanScanExec> {
        let columns = Columns::new(&plan.read, &plan.relation);
        let scan = form.scan(&plan, Scan { columns: columns.scan.clone(), ..plan.scan.clone() });
        let (divided, shape) = Divided::at_first(&plan, &scan, form.effective_shape(&plan)).await?;
        let properties = properties(
            &schema,
            &columns_of(&plan.read, &output),
            form.ordering.as_ref(),
            shape.partitions(scan.spans.len()),
        );
        Ok(SpanScanExec {
            plan: Arc::new(plan),
            scan: Arc::new(scan),
            columns: Arc::new(columns),
            output,
            schema,
            ordering: form.ordering,
            fetch: form.fetch,
            shape,
            estimate: Arc::new(divided.store.statistics.clone()),
            divided: Arc::new(OnceCell::new_with(Some(divided))),
            awaited: Vec::new(),
            number: 0,
            conditions: Arc::new([]),
            top: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The scan as the store divides it. The store is asked once for each form of the scan.
    pub(crate) async fn divided(&self) -> Result<&Divided> {
        self.divided.get_or_try_init(|| Divided::of(&self.plan, &self.scan, self.shape)).await
    }

    /// As [`SpanScanExec::divided`], if the store has been asked.
    pub(super) fn known_division(&self) -> Option<&Divided> {
        self.divided.get()
    }

    /// This scan with some of its form changed.
    fn changed(&self, change: impl FnOnce(&mut Form)) -> SpanScanExec {
        let (ordering, shape) = (self.ordering.clone(), self.shape);
        let mut form = Form { order: self.scan.order, ordering, fetch: self.fetch, shape };
        change(&mut form);
        let scan = form.scan(&self.plan, Scan::clone(&self.scan));
        let shape = form.effective_shape(&self.plan);
        let mut next = self.clone();
        if scan != *self.scan || shape != self.shape {
            next.divided = Arc::default();
        }
        let partitions = shape.partitions(scan.spans.len());
        next.properties = Arc::new(properties(
            &self.schema,
            &columns_of(&self.plan.read, &self.output),
            form.ordering.as_ref(),
            partitions,
        ));
        next.metrics = ExecutionPlanMetricsSet::new();
        next.scan = Arc::new(scan);
        (next.ordering, next.fetch, next.shape) = (form.ordering, form.fetch, shape);
        next
    }

    /// The place in the row key of an output column in which keys of joins can be looked up.
    pub(crate) fn looked_up(&self, output: usize) -> Option<usize> {
        let ReadColumn::Scan(ScanColumn::Column(id)) = self.plan.read[*self.output.get(output)?] else { return None };
        let place = self.plan.relation.key_index(id)?;
        join_keys::is_looked_up(self.plan.relation.key[place].ty).then_some(place)
    }

    /// Whether an output column is the whole key.
    pub(crate) fn is_key(&self, output: usize) -> bool {
        matches!((self.looked_up(output), self.plan.relation.key.len()), (Some(0), 1))
    }

    /// The column of the store that an output column is, if it need only be read between bounds of a join's keys. `nulls`:
    /// its nulls need to be read, too.
    pub(crate) fn bounded(&self, output: usize, nulls: bool) -> Option<ColumnId> {
        let ReadColumn::Scan(ScanColumn::Column(id)) = self.plan.read[*self.output.get(output)?] else { return None };
        let relation = &self.plan.relation;
        let has_nulls = relation.key_index(id).is_none();
        let (_, ty) = relation.column(id)?;
        (join_keys::is_bounded(ty) && !(nulls && has_nulls)).then_some(id)
    }

    /// This scan, but for rows of other keys than these, once they are known; `None` if they narrow nothing.
    pub(crate) fn awaiting(&self, mut keys: AwaitedKeys) -> Option<SpanScanExec> {
        if self.fetch.is_some() || self.scan.limit.is_some() || self.is_by_span() {
            return None;
        }
        let fixed = self.scan.spans.iter().map(sort::fixed_columns).min().unwrap_or(0);
        let mut reach = fixed;
        while keys.columns.iter().any(|(_, place)| *place == reach) {
            reach += 1;
        }
        // Of a prefix whose rows are counted all rows must be read or none.
        let counted = self.scan.per_prefix.map_or(usize::MAX, |(columns, _)| columns);
        keys.columns.retain(|(_, place)| *place < reach.min(counted));
        // A row that is left out must not let another one count.
        keys.bounded.retain(|_| self.scan.per_prefix.is_none());
        if keys.columns.is_empty() && keys.bounded.is_empty() {
            return None;
        }
        let mut next = self.clone();
        next.awaited.push(keys);
        next.number = join_keys::new_number();
        Some(next)
    }

    /// This scan, of which no more is taken than that.
    pub(super) fn with_top(&self, top: Option<Top>) -> SpanScanExec {
        SpanScanExec { top, ..self.clone() }
    }

    /// This scan, of which rows may be left out that do not meet these.
    pub(super) fn with_conditions(&self, conditions: Vec<Arc<dyn RowCondition>>) -> SpanScanExec {
        SpanScanExec { conditions: conditions.into(), ..self.clone() }
    }

    /// This scan over other spans, in the form that it has.
    pub(super) fn reading(&self, scan: Scan, divided: Divided) -> SpanScanExec {
        SpanScanExec {
            scan: Arc::new(scan),
            estimate: Arc::new(divided.store.statistics.clone()),
            divided: Arc::new(OnceCell::new_with(Some(divided))),
            ..self.clone()
        }
    }

    /// How many partitions read it.
    fn partitions(&self) -> usize {
        self.shape.partitions(self.scan.spans.len())
    }

    /// This scan with the properties of another of the same order, if it has as many partitions.
    pub(super) fn promising(mut self, properties: &Arc<PlanProperties>) -> Option<SpanScanExec> {
        let same = self.partitions() == properties.partitioning.partition_count();
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
        self.shape == Shape::Spans
    }

    /// Whether it is known that there are no rows.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(statistics::statistics(self, None)?.num_rows == Precision::Exact(0))
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

    /// How far apart the least and the greatest whole number or date of an output column may be, if the store knows.
    pub(crate) fn span_of_values(&self, output: usize) -> Option<u64> {
        statistics::span_of_values(self, output)
    }

    /// The rows expected, if the store says.
    pub(crate) fn estimated_rows(&self) -> Option<u64> {
        statistics::estimated_rows(&self.estimate)
    }

    /// Whether so few rows are expected that a second task costs more than it saves.
    pub(crate) fn is_small(&self) -> bool {
        statistics::is_few(&self.estimate)
    }

    /// Whether one task reads it, and a few rows are expected.
    pub(crate) fn runs_inline(&self) -> bool {
        let Some(all) = self.estimated_rows().filter(|_| self.is_small()) else { return false };
        let rows = self.scan.limit.map_or(all, |limit| all.min(limit as u64));
        let narrow = match self.estimate.bytes {
            Known::Exact(bytes) | Known::Estimate(bytes) => bytes.saturating_mul(rows) / all.max(1) <= INLINE_READ.1,
            Known::Unknown => true,
        };
        let alone = self.partitions() == 1 && self.known_division().is_some_and(|divided| divided.splits(0).len() <= 1);
        alone && narrow && rows <= INLINE_READ.0
    }

    /// The splits of a scan in no order, of which so few rows are expected that one task reads them.
    pub(crate) async fn few_splits(&self) -> Result<Option<&[Split]>> {
        let few = self.partitions() == 1 && self.scan.order == Order::Any && self.is_small();
        if few { Ok(Some(self.divided().await?.splits(0))) } else { Ok(None) }
    }

    /// One partition in row-key order, or in the order it already has.
    pub(super) fn in_sequence(&self) -> SpanScanExec {
        if self.scan.order != Order::Any && matches!(self.shape, Shape::Sequence | Shape::First) {
            return self.clone();
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
        let schema = Arc::new(read_schema.project(&output)?);
        let columns = Columns::new(&read, &plan.relation);
        let scan = Scan { columns: columns.scan.clone(), order: plan.scan.order, ..Scan::clone(&self.scan) };
        // What is known of the columns read so far, which stay the first ones.
        let mut estimate = ScanStatistics::clone(&self.estimate);
        estimate.ranges.resize(columns.scan.len(), Known::Unknown);
        let shape = match self.shape {
            Shape::Partitions(_) => self.shape,
            Shape::Sequence | Shape::First | Shape::Spans => Shape::Sequence,
        };
        let known = properties(&schema, &columns_of(&read, &output), None, shape.partitions(1));
        let next = SpanScanExec {
            plan: Arc::new(ReadPlan { read, read_schema, ..ReadPlan::clone(plan) }),
            scan: Arc::new(scan),
            columns: Arc::new(columns),
            output,
            properties: Arc::new(known),
            schema,
            ordering: None,
            fetch: None,
            shape,
            estimate: Arc::new(estimate),
            divided: Arc::default(),
            awaited: Vec::new(),
            number: 0,
            conditions: Arc::new([]),
            top: None,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        Ok((next, places))
    }

    /// The same scan with other output columns: places among the present ones, and their names.
    fn with_output(&self, places: &[(usize, String)]) -> Result<SpanScanExec> {
        let fields: Vec<_> =
            places.iter().map(|(place, name)| Arc::new(self.schema.field(*place).clone().with_name(name))).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut next = self.clone();
        next.output = places.iter().map(|(place, _)| self.output[*place]).collect();
        let place = |column: &Column| {
            let place = places.iter().position(|(place, _)| *place == column.index())?;
            Some(Column::new(&places[place].1, place))
        };
        next.ordering = LexOrdering::new(moved(self.ordering.iter().flatten(), place));
        next.properties = Arc::new(properties(
            &schema,
            &columns_of(&next.plan.read, &next.output),
            next.ordering.as_ref(),
            self.partitions(),
        ));
        next.schema = schema;
        next.metrics = ExecutionPlanMetricsSet::new();
        Ok(next)
    }
}

/// What the optimizer changes of a scan.
pub(super) struct Form {
    pub(super) order: Order,
    pub(super) ordering: Option<LexOrdering>,
    pub(super) fetch: Option<usize>,
    pub(super) shape: Shape,
}

impl Form {
    /// The scan in this order, with the limit that the store may keep.
    fn scan(&self, plan: &ReadPlan, scan: Scan) -> Scan {
        let mut scan = Scan { order: self.order, limit: None, ..scan };
        if plan.filter.is_none() {
            scan.limit = self.fetch;
            scan.limit = scan.limit.filter(|_| plan.snapshot.accept(&scan).limit);
        }
        scan
    }

    /// One partition is enough where the first rows are all that is wanted.
    fn effective_shape(&self, plan: &ReadPlan) -> Shape {
        let few = plan.filter.is_none() && self.fetch.is_some_and(statistics::are_few);
        match self.shape {
            Shape::Partitions(_) | Shape::Sequence | Shape::First if few => Shape::First,
            Shape::First => Shape::Sequence,
            shape => shape,
        }
    }
}

fn columns_of(read: &[ReadColumn], output: &[usize]) -> Vec<ReadColumn> {
    output.iter().map(|place| read[*place]).collect()
}

/// A column that comes under two names equals itself: what is sorted by one of them is sorted by the other.
fn properties(
    schema: &SchemaRef,
    columns: &[ReadColumn],
    ordering: Option<&LexOrdering>,
    partitions: usize,
) -> PlanProperties {
    let mut equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), ordering.cloned());
    let column = |place: usize| Arc::new(Column::new(schema.field(place).name(), place)) as Arc<dyn PhysicalExpr>;
    for (place, read) in columns.iter().enumerate() {
        if let Some(first) = columns[..place].iter().position(|other| other == read) {
            // It cannot fail for columns; if it does, less is known.
            let _ = equivalences.add_equal_conditions(column(first), column(place));
        }
    }
    let partitioning = Partitioning::UnknownPartitioning(partitions);
    PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded)
        .with_scheduling_type(SchedulingType::Cooperative)
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
        Some(Arc::new(self.changed(|form| form.fetch = fetch)))
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
        });
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
