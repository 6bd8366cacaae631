//! The physical node: asks for both sides sorted by the equal columns and then the time, each in one partition. The scan of a
//! table whose key these are delivers that without a sort.

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;

use super::merge::{Merge, Wanted};

/// Which right row is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// The last one that is not later; else the first that is not earlier.
    pub(super) before: bool,
    /// One of the same time counts.
    pub(super) equal: bool,
}

/// An input and what it is sorted by; the last is the time.
#[derive(Clone, Debug)]
pub struct Side {
    pub(super) input: Arc<dyn ExecutionPlan>,
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl Side {
    fn ordering(&self) -> Option<LexOrdering> {
        let sorted = |key: &Arc<dyn PhysicalExpr>| PhysicalSortExpr::new(key.clone(), ORDER);
        LexOrdering::new(self.keys.iter().map(sorted))
    }
}

/// How both sides are sorted.
pub const ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

/// See the module.
#[derive(Clone, Debug)]
pub struct AsOfExec {
    left: Side,
    right: Side,
    near: Near,
    outer: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsOfExec {
    pub(super) fn try_new(left: Side, right: Side, near: Near, outer: bool, schema: SchemaRef) -> Result<AsOfExec> {
        let properties = PlanProperties::new(
            // The left side's columns come first, so that its order is the answer's as it stands.
            EquivalenceProperties::new_with_orderings(schema.clone(), left.ordering()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(AsOfExec { left, right, near, outer, schema, properties: Arc::new(properties), metrics })
    }

    fn with_inputs(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut node = self.clone();
        for (side, input) in [&mut node.left, &mut node.right].into_iter().zip(inputs) {
            side.input = input;
        }
        node.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(node))
    }
}

impl DisplayAs for AsOfExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match (self.near.before, self.near.equal) {
            (true, true) => ">=",
            (true, false) => ">",
            (false, true) => "<=",
            (false, false) => "<",
        };
        let last = self.left.keys.len() - 1;
        let parts: Vec<String> = (0..=last)
            .map(|at| format!("{} {} {}", self.left.keys[at], if at == last { op } else { "=" }, self.right.keys[at]))
            .collect();
        write!(f, "AsOfJoin: {}, on=[{}]", if self.outer { "left" } else { "inner" }, parts.join(", "))
    }
}

impl ExecutionPlan for AsOfExec {
    fn name(&self) -> &str {
        "AsOfJoin"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left.input, &self.right.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition, Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let required = |side: &Side| side.ordering().map(OrderingRequirements::from);
        vec![required(&self.left), required(&self.right)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.left.keys.iter().chain(&self.right.keys) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_inputs(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_inputs(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let left = self.left.input.execute(partition, context.clone())?;
        let right = self.right.input.execute(partition, context.clone())?;
        let memory = MemoryConsumer::new("AsOfJoin").register(context.memory_pool());
        let merge = Merge::try_new(
            (&self.left.input.schema(), &self.left.keys),
            (&self.right.input.schema(), &self.right.keys),
            self.near,
            self.outer,
            self.schema.clone(),
            memory,
        )?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let state = (left, right, merge, metrics);
        let batches = futures::stream::try_unfold(state, |(mut left, mut right, mut merge, metrics)| async move {
            loop {
                match merge.advance()? {
                    Wanted::Output(batch) => {
                        metrics.record_output(batch.num_rows());
                        return Ok(Some((batch, (left, right, merge, metrics))));
                    }
                    Wanted::Left => merge.feed_left(left.next().await.transpose()?)?,
                    Wanted::Right => merge.feed_right(right.next().await.transpose()?)?,
                    Wanted::Nothing => return Ok(None),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
