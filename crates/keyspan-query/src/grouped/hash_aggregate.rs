//! DataFusion's own aggregate, for where groups turn out to be many.

use std::sync::Arc;

use datafusion::common::{Statistics, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use crate::interrupt::StopJoins;
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
    /// Of nodes over a scan, the lowest first: those of one input, and joins whose left side is a table of its own. The last
    /// is the aggregate.
    pub(super) fn new(nodes: &[Plan]) -> Result<HashAggregate> {
        let aggregate = nodes.last().ok_or_else(|| internal_datafusion_err!("no aggregate"))?;
        let statistics = StatisticsContext::new().compute(aggregate.as_ref(), &StatisticsArgs::new())?;
        let without_rows = |node: &Plan| {
            let inputs = node.children().into_iter().map(|input| Arc::new(EmptyExec::new(input.schema())) as Plan);
            with_inputs(node, inputs.collect())
        };
        Ok(HashAggregate { nodes: nodes.iter().map(without_rows).collect::<Result<_>>()?, statistics })
    }

    /// Their answer over a scan and the tables of the joins, at most so many rows of it.
    pub(super) fn over(
        &self,
        scan: &Arc<SpanScanExec>,
        tables: Vec<Plan>,
        fetch: Option<usize>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let repartitions = may_repartition(scan.bytes_read(), limit_of(context.memory_pool().as_ref()));
        let mut tables = tables.into_iter();
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
            let table = if node.is::<HashJoinExec>() { tables.next() } else { None };
            // A join keeps the rows of its table from one run to the next.
            plan = with_inputs(node, table.into_iter().chain([plan]).collect())?.reset_state()?;
        }
        if partitions(&plan) > 1 {
            plan = Arc::new(CoalescePartitionsExec::new(plan));
        }
        if fetch.is_some() {
            plan = Arc::new(GlobalLimitExec::new(plan, 0, fetch));
        }
        StopJoins.optimize(plan, context.session_config().options())?.execute(0, context.clone())
    }
}

fn with_inputs(node: &Plan, inputs: Vec<Plan>) -> Result<Plan> {
    node.clone().replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

fn partitions(plan: &Plan) -> usize {
    plan.output_partitioning().partition_count()
}
