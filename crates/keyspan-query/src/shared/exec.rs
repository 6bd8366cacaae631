//! The physical node of rows that are computed once.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// The rows that the nodes of one run share, by their numbers. Part of the run's settings.
#[derive(Debug, Default)]
pub struct SharedRows {
    rows: Mutex<HashMap<u64, Arc<OnceCell<Rows>>>>,
}

/// Rows in memory, and the memory that is set aside for them.
#[derive(Debug)]
pub struct Rows {
    pub(crate) batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl Rows {
    /// All rows of a stream, set aside under this name.
    pub(crate) async fn read(
        name: String,
        mut stream: SendableRecordBatchStream,
        context: &TaskContext,
    ) -> Result<Rows> {
        let memory = MemoryConsumer::new(name).register(context.memory_pool());
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            memory.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        Ok(Rows { batches, _memory: memory })
    }
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
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    pub(super) fn new(number: u64, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        SharedExec { number, input, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
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
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        Ok(Arc::new(SharedExec::new(self.number, input)))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(SharedExec::new(self.number, input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = context.session_config().get_extension::<SharedRows>();
        let (number, input) = (self.number, self.input.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = async move {
            let cell = own.map_or_else(Arc::default, |own| own.of(number));
            let read = || async {
                let stream = input.execute(0, context.clone())?;
                Rows::read(format!("Shared {number}"), stream, &context).await
            };
            let rows = cell.get_or_try_init(read).await?;
            let batches =
                rows.batches.clone().into_iter().inspect(move |batch| metrics.record_output(batch.num_rows()));
            Ok::<_, DataFusionError>(futures::stream::iter(batches.map(Ok)))
        };
        let batches = futures::stream::once(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches.try_flatten().boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
