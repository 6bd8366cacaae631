//! The physical node of rows that are computed once.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{PlaceExec, Rows};

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

/// The rows of its input, which the first node of this number reads.
#[derive(Clone, Debug)]
pub struct SharedExec {
    number: u64,
    input: Arc<dyn ExecutionPlan>,
    /// Whether another place has the same plan, and shows it.
    linked: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    pub(super) fn new(number: u64, input: Arc<dyn ExecutionPlan>) -> Self {
        let of_input = input.properties();
        let equivalences = match of_input.partitioning.partition_count() {
            1 => of_input.eq_properties.clone(),
            _ => EquivalenceProperties::new(input.schema()),
        };
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let (linked, metrics) = (false, ExecutionPlanMetricsSet::new());
        SharedExec { number, input, linked, properties: Arc::new(properties), metrics }
    }

    /// A place of rows whose plan another place shows.
    pub(super) fn linked(number: u64, input: Arc<dyn ExecutionPlan>) -> Self {
        SharedExec { linked: true, ..SharedExec::new(number, input) }
    }

    /// This place over another plan.
    pub(super) fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        SharedExec { linked: self.linked, ..SharedExec::new(self.number, input) }
    }

    /// The number of its rows in the plan.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The plan of its rows.
    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The place without its plan, if another place shows that.
    pub(crate) fn place(&self) -> Option<PlaceExec> {
        self.linked.then(|| PlaceExec::unknown(self.number, self.schema()))
    }
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

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        if self.linked { Vec::new() } else { vec![&self.input] }
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let one = Distribution::SinglePartition;
        InputDistributionRequirements::new(if self.linked { Vec::new() } else { vec![one] })
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        if self.linked { Vec::new() } else { vec![false] }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(self.over(input)))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(self.over(input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = context.session_config().get_extension::<SharedRows>();
        let (number, input) = (self.number, self.input.clone());
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
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        if self.linked { Vec::new() } else { vec![ChildStats::At(None)] }
    }

    /// Those of all rows: of these there is one partition.
    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs.first() {
            Some(known) => Ok(known.clone()),
            None => StatisticsContext::new().compute(self.input.as_ref(), &StatisticsArgs::new()),
        }
    }
}
