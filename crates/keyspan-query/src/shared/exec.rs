//! The physical node of rows that are computed once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::Rows;

type Plan = Arc<dyn ExecutionPlan>;

/// The rows that the nodes of one run share, by their numbers. Part of the run's settings.
#[derive(Debug, Default)]
pub struct SharedRows {
    rows: Mutex<HashMap<u64, Arc<OnceCell<Rows>>>>,
}

impl SharedRows {
    fn of(&self, number: u64) -> Arc<OnceCell<Rows>> {
        self.rows.lock().entry(number).or_default().clone()
    }
}

/// The rows of its plan, which the first node of this number reads.
#[derive(Clone, Debug)]
pub struct SharedExec {
    number: u64,
    source: Source,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What plan the rows of a place have.
#[derive(Clone, Debug)]
enum Source {
    /// One of its own.
    Own(Plan),
    /// That of the first place, which shows it.
    Linked(Plan),
    /// That of the first place, to which it is linked when that one is done. Until then: as it was at first, for what is
    /// known of the rows.
    Open(Arc<OnceLock<Plan>>),
}

impl SharedExec {
    pub(super) fn new(number: u64, input: Plan) -> Self {
        let of_input = input.properties();
        let equivalences = match of_input.partitioning.partition_count() {
            1 => of_input.eq_properties.clone(),
            _ => EquivalenceProperties::new(input.schema()),
        };
        SharedExec::of(number, Source::Own(input), properties(equivalences))
    }

    /// A place that is to be linked to the first one.
    pub(super) fn open(number: u64, schema: SchemaRef, first: Arc<OnceLock<Plan>>) -> Self {
        // Below it there is something that yields.
        let properties = properties(EquivalenceProperties::new(schema));
        SharedExec::of(number, Source::Open(first), properties.with_scheduling_type(SchedulingType::Cooperative))
    }

    fn of(number: u64, source: Source, properties: PlanProperties) -> Self {
        SharedExec { number, source, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// This place over another plan of its rows.
    pub(super) fn over(&self, input: Plan) -> Self {
        let next = SharedExec::new(self.number, input.clone());
        match self.source {
            Source::Own(_) => next,
            Source::Linked(_) | Source::Open(_) => SharedExec { source: Source::Linked(input), ..next },
        }
    }

    /// The number of its rows in the plan.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The plan of its rows, if it shows it.
    pub(super) fn own(&self) -> Option<&Plan> {
        match &self.source {
            Source::Own(input) => Some(input),
            Source::Linked(_) | Source::Open(_) => None,
        }
    }

    /// The place without the plan that another place shows; `None` where it has its own.
    pub(crate) fn unlinked(&self) -> Option<SharedExec> {
        self.own().is_none().then(|| SharedExec::open(self.number, self.schema(), Arc::default()))
    }
}

fn properties(equivalences: EquivalenceProperties) -> PlanProperties {
    PlanProperties::new(equivalences, Partitioning::UnknownPartitioning(1), EmissionType::Final, Boundedness::Bounded)
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: number={}", self.number)
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "Shared"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        self.own().into_iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(self.own().map(|_| Distribution::SinglePartition).into_iter().collect())
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.own().map(|_| false).into_iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, mut children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(children.pop().map_or_else(|| self.clone() as Plan, |input| Arc::new(self.over(input))))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = context.session_config().get_extension::<SharedRows>();
        let (Source::Own(input) | Source::Linked(input)) = &self.source else {
            return Err(DataFusionError::Internal("a place of shared rows is linked to no plan".into()));
        };
        let (number, input) = (self.number, input.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let spills = SpillMetrics::new(&self.metrics, partition);
        let batches = async move {
            let cell = own.map_or_else(Arc::default, |own| own.of(number));
            let read = || async {
                let stream = input.execute(0, context.clone())?;
                Rows::read(format!("Shared {number}"), stream, &context, spills).await
            };
            cell.get_or_try_init(read).await?.stream()
        };
        let batches = futures::stream::once(batches).try_flatten().inspect_ok(move |batch| {
            metrics.record_output(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        self.own().map(|_| ChildStats::At(None)).into_iter().collect()
    }

    /// Those of all rows: of these there is one partition.
    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match (inputs.first(), &self.source) {
            (Some(known), _) => Ok(known.clone()),
            (None, Source::Own(plan) | Source::Linked(plan)) => computed(plan),
            (None, Source::Open(first)) => {
                first.get().map_or_else(|| Ok(Arc::new(Statistics::new_unknown(&self.schema()))), computed)
            }
        }
    }
}

fn computed(plan: &Plan) -> Result<Arc<Statistics>> {
    StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())
}
