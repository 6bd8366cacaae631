//! OFFSET keeps the order of the rows that it skips.
//!
//! Two of DataFusion's ways lose it while sorts are put into a plan. A projection without the columns of the order has
//! none, so a sort below it is taken for one that nobody needs: the offset goes below the projection.
//!
//! ```text
//! Limit skip=2              Projection a
//!   Projection a     ─▶       Limit skip=2
//!     Sort by ts                Sort by ts
//! ```
//!
//! And a sort above an offset goes below it, with as many rows as are taken, without those that are skipped. So meanwhile
//! offsets are nodes through which no sort goes, and which ask for the order that they have.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties,
};

type Plan = Arc<dyn ExecutionPlan>;

/// Makes offsets nodes of their own, before sorts are put in.
#[derive(Debug)]
pub struct HoldOffsets;

/// Makes them DataFusion's limits again.
#[derive(Debug)]
pub struct ReleaseOffsets;

impl PhysicalOptimizerRule for HoldOffsets {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|node| {
            let skips = node.downcast_ref::<GlobalLimitExec>().filter(|limit| limit.skip() > 0);
            Ok(match skips {
                Some(limit) => Transformed::yes(held(limit)?),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "HoldOffsets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for ReleaseOffsets {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            Ok(match node.downcast_ref::<OffsetExec>() {
                Some(offset) => Transformed::yes(Arc::new(offset.limit()) as Plan),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "ReleaseOffsets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The offset below the projections that stand below it.
fn held(limit: &GlobalLimitExec) -> Result<Plan> {
    let Some(projection) = limit.input().downcast_ref::<ProjectionExec>() else {
        let order = limit.input().output_ordering().cloned();
        return Ok(Arc::new(OffsetExec::new(limit.input().clone(), limit.skip(), limit.fetch(), order)));
    };
    let below = GlobalLimitExec::new(projection.input().clone(), limit.skip(), limit.fetch());
    Ok(Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), held(&below)?)?))
}

/// Skips rows, in the order that they have.
#[derive(Debug)]
struct OffsetExec {
    input: Plan,
    skip: usize,
    fetch: Option<usize>,
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
}

impl OffsetExec {
    fn new(input: Plan, skip: usize, fetch: Option<usize>, order: Option<LexOrdering>) -> OffsetExec {
        let properties = GlobalLimitExec::new(input.clone(), skip, fetch).properties().clone();
        OffsetExec { input, skip, fetch, order, properties }
    }

    fn limit(&self) -> GlobalLimitExec {
        GlobalLimitExec::new(self.input.clone(), self.skip, self.fetch)
    }

    fn over(&self, mut children: Vec<Plan>) -> Plan {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Arc::new(OffsetExec::new(input, self.skip, self.fetch, self.order.clone()))
    }
}

impl DisplayAs for OffsetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offset: skip={}", self.skip)
    }
}

impl ExecutionPlan for OffsetExec {
    fn name(&self) -> &str {
        "Offset"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    /// It does; but what is asked of it must not be asked of its input.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
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

    fn replace_children(self: Arc<Self>, children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(self.over(children))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        Ok(self.over(children))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.limit().execute(partition, context)
    }
}
