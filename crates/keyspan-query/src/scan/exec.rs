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
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult};
use keyspan_model::{Order, RelationDef, Scan, TableDef};
use keyspan_store::seam::{ScanPlan, ScanStatistics, Snapshot, Split};

use super::read::{Columns, ReadColumn};
use super::{describe, read, sort, statistics};
use crate::error::external;

/// Rows below which a scan is one partition: a second task costs more than it saves.
const ROWS_PER_PARTITION: u64 = 32_768;
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
    /// One partition: the splits one after another, several being read at a time.
    Sequence(Vec<Split>),
}

/// Reads the spans of a table.
#[derive(Clone, Debug)]
pub struct SpanScanExec {
    pub(super) plan: Arc<ReadPlan>,
    pub(super) scan: Arc<Scan>,
    pub(super) columns: Arc<Columns>,
    /// Places of the output columns among those read, and their names.
    pub(super) output: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) ordering: Option<LexOrdering>,
    pub(super) fetch: Option<usize>,
    pub(super) layout: Layout,
    pub(super) store_plan: Arc<ScanPlan>,
    pub(super) estimate: Arc<ScanStatistics>,
    properties: Arc<PlanProperties>,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

impl SpanScanExec {
    /// A scan in no particular order. `output` gives places in `plan.read`.
    pub fn try_new(plan: ReadPlan, output: Vec<usize>, fetch: Option<usize>) -> Result<SpanScanExec> {
        let columns = Columns::new(&plan.read, &plan.relation);
        let mut scan = plan.scan.clone();
        scan.columns = columns.scan.clone();
        scan.limit = if plan.filter.is_none() { fetch } else { None };
        let schema = Arc::new(plan.read_schema.project(&output)?);
        let estimate = plan.snapshot.statistics(&scan).map_err(external)?;
        let plan = Arc::new(plan);
        Self::laid_out(plan, scan, Arc::new(columns), output, schema, None, fetch, false, Arc::new(estimate))
    }

    /// Asks the store for splits and lays them out.
    #[expect(
        clippy::too_many_arguments,
        reason = "one constructor for all forms, called from four places in this file"
    )]
    fn laid_out(
        plan: Arc<ReadPlan>,
        scan: Scan,
        columns: Arc<Columns>,
        output: Vec<usize>,
        schema: SchemaRef,
        ordering: Option<LexOrdering>,
        fetch: Option<usize>,
        in_sequence: bool,
        estimate: Arc<ScanStatistics>,
    ) -> Result<SpanScanExec> {
        let rows = statistics::estimated_rows(&estimate);
        let few = rows.is_some_and(|rows| rows < ROWS_PER_PARTITION);
        let early_stop = fetch.is_some_and(|fetch| (fetch as u64) < ROWS_PER_PARTITION) && plan.filter.is_none();
        let want = match (few || early_stop, in_sequence) {
            (true, _) => 1,
            (false, true) => plan.partitions * SPLITS_PER_CORE,
            (false, false) => plan.partitions,
        };
        let mut store_plan = plan.snapshot.plan(&scan, want.max(1)).map_err(external)?;
        let splits = std::mem::take(&mut store_plan.splits);
        let layout = match in_sequence || want <= 1 || splits.len() <= 1 {
            true => Layout::Sequence(splits),
            false => Layout::Partitions(grouped(splits, plan.partitions)),
        };
        let properties = properties(&schema, ordering.as_ref(), layout.partitions());
        Ok(SpanScanExec {
            plan,
            scan: Arc::new(scan),
            columns,
            output,
            schema,
            ordering,
            fetch,
            layout,
            store_plan: Arc::new(store_plan),
            estimate,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// This scan with some of its form changed.
    fn changed(&self, change: impl FnOnce(&mut Form)) -> Result<SpanScanExec> {
        let mut form = Form {
            order: self.scan.order,
            ordering: self.ordering.clone(),
            fetch: self.fetch,
            in_sequence: matches!(self.layout, Layout::Sequence(_)),
        };
        change(&mut form);
        let mut scan = Scan::clone(&self.scan);
        scan.order = form.order;
        scan.limit = if self.plan.filter.is_none() { form.fetch } else { None };
        Self::laid_out(
            self.plan.clone(),
            scan,
            self.columns.clone(),
            self.output.clone(),
            self.schema.clone(),
            form.ordering,
            form.fetch,
            form.in_sequence,
            self.estimate.clone(),
        )
    }

    /// One partition in row-key order, or in the order it already has.
    pub(super) fn in_sequence(&self) -> Result<SpanScanExec> {
        if self.scan.order != Order::Any && matches!(self.layout, Layout::Sequence(_)) {
            return Ok(self.clone());
        }
        self.changed(|form| {
            form.in_sequence = true;
            if form.order == Order::Any {
                form.order = Order::Forward;
            }
        })
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

struct Form {
    order: Order,
    ordering: Option<LexOrdering>,
    fetch: Option<usize>,
    in_sequence: bool,
}

impl Layout {
    fn partitions(&self) -> usize {
        match self {
            Layout::Partitions(groups) => groups.len(),
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
        let Some(direction) = sort::direction(self, order) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let next = self.changed(|form| {
            form.order = direction;
            form.ordering = LexOrdering::new(order.iter().cloned());
        })?;
        if !next.plan.snapshot.accept(&next.scan).order {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        Ok(SortOrderPushdownResult::Exact { inner: Arc::new(next) })
    }
}
