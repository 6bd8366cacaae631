//! What DataFusion believes of the columns of ROLLUP, CUBE and GROUPING SETS, forgotten.
//!
//! ```text
//! SELECT kind, count(*) FROM (SELECT 'x' AS kind FROM t) AS q GROUP BY ROLLUP (kind) ORDER BY kind
//! ```
//!
//! Of its aggregate it says what holds of the rows below: that a column is constant, two are equal, rows are sorted, or
//! dealt out to partitions by a column. The NULLs of grouping sets are none of this, so that sorts were left out and
//! groups cut in two.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

/// Puts a [`GroupingSetsExec`] above every aggregate that makes grouping sets.
#[derive(Debug)]
pub struct ForgetConstants;

impl PhysicalOptimizerRule for ForgetConstants {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let forget = |node: Arc<dyn ExecutionPlan>| {
            let makes_sets = node.downcast_ref::<AggregateExec>().is_some_and(|node| !node.group_expr().is_single());
            Ok(match makes_sets {
                true => Transformed::yes(Arc::new(GroupingSetsExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        };
        plan.transform_up(forget).data()
    }

    fn name(&self) -> &str {
        "forget_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes rows on, of which nothing is known.
#[derive(Clone, Debug)]
struct GroupingSetsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GroupingSetsExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> GroupingSetsExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        GroupingSetsExec { input, properties: Arc::new(properties) }
    }

    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> GroupingSetsExec {
        GroupingSetsExec::new(children.pop().unwrap_or_else(|| self.input.clone()))
    }
}

impl DisplayAs for GroupingSetsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupingSets")
    }
}

impl ExecutionPlan for GroupingSetsExec {
    fn name(&self) -> &str {
        "GroupingSets"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
