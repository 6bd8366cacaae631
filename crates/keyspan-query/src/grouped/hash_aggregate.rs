//! DataFusion's own aggregate, for where groups turn out to be many.

use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use crate::memory::{limit_of, may_repartition};
use crate::scan::SpanScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The nodes that stood above the scan.
#[derive(Clone, Debug)]
pub(super) struct HashAggregate {
    /// The lowest first, each over an input without rows.
    nodes: Vec<Plan>,
    /// What was expected of them.
    pub(super) statistics: Arc<Statistics>,
}

impl HashAggregate {
    /// Of nodes with one input each, the lowest first, over this scan.
    pub(super) fn new(nodes: &[&Plan], scan: &SpanScanExec) -> Result<HashAggregate> {
        let whole = StatisticsArgs::new();
        let mut statistics = scan.statistics_from_inputs(&[], &whole)?;
        for node in nodes {
            statistics = node.statistics_from_inputs(&[statistics], &whole)?;
        }
        let without_rows = |node: &&Plan| {
            let inputs = node.children().into_iter().map(|input| Arc::new(EmptyExec::new(input.schema())) as Plan);
            with_inputs(node, inputs.collect())
        };
        Ok(HashAggregate { nodes: nodes.iter().map(without_rows).collect::<Result<_>>()?, statistics })
    }

    /// Their answer over a scan, at most so many rows of it.
    pub(super) fn over(
        &self,
        scan: &Arc<SpanScanExec>,
        fetch: Option<usize>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let repartitions = may_repartition(scan.bytes_read(), limit_of(context.memory_pool().as_ref()));
        let mut plan: Plan = scan.clone();
        for node in &self.nodes {
            let input =
                node.downcast_ref::<AggregateExec>().filter(|aggregate| *aggregate.mode() != AggregateMode::Partial);
            if let Some(aggregate) = input.filter(|_| partitions(&plan) > 1) {
                let groups = aggregate.group_expr().input_exprs();
                plan = match aggregate.mode() {
                    AggregateMode::FinalPartitioned if repartitions => {
                        Arc::new(RepartitionExec::try_new(plan.clone(), Partitioning::Hash(groups, partitions(&plan)))?)
                    }
                    _ => Arc::new(CoalescePartitionsExec::new(plan)),
                };
            }
            plan = with_inputs(node, vec![plan])?;
        }
        if partitions(&plan) > 1 {
            plan = Arc::new(CoalescePartitionsExec::new(plan));
        }
        if fetch.is_some() {
            plan = Arc::new(GlobalLimitExec::new(plan, 0, fetch));
        }
        plan.execute(0, context.clone())
    }
}

fn with_inputs(node: &Plan, inputs: Vec<Plan>) -> Result<Plan> {
    node.clone().replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

fn partitions(plan: &Plan) -> usize {
    plan.output_partitioning().partition_count()
}
