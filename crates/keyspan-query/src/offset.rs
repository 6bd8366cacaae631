//! OFFSET without LIMIT over a projection of sorted rows: the offset goes below the projection.
//!
//! ```text
//! Limit skip=2              Projection a
//!   Projection a     ─▶       Limit skip=2
//!     Sort by ts                Sort by ts
//! ```
//!
//! A projection without the columns of the order has none, and DataFusion takes a sort below it for one that nobody needs.
//! A LIMIT is told to the sort, which then stays.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;

type Plan = Arc<dyn ExecutionPlan>;

/// See the module. It runs before sorts are taken away.
#[derive(Debug)]
pub struct OffsetsBelowProjections;

impl PhysicalOptimizerRule for OffsetsBelowProjections {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|node| Ok(below(&node)?.map_or_else(|| Transformed::no(node), Transformed::yes))).data()
    }

    fn name(&self) -> &str {
        "OffsetsBelowProjections"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn below(node: &Plan) -> Result<Option<Plan>> {
    let Some(limit) = node.downcast_ref::<GlobalLimitExec>().filter(|limit| limit.fetch().is_none()) else {
        return Ok(None);
    };
    let Some(projection) = limit.input().downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let rest = GlobalLimitExec::new(projection.input().clone(), limit.skip(), None);
    let exprs = projection.expr().to_vec();
    Ok(Some(Arc::new(ProjectionExec::try_new(exprs, Arc::new(rest) as Plan)?)))
}
