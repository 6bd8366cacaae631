//! Limits of partitions that DataFusion takes for limits of all rows.
//!
//! Where a scan has the order that a sort of each partition would make, the sort goes away. Its limit is put over all
//! partitions at once, although what is above it asks each of them for so many rows:
//!
//! ```text
//! Merge                             Merge                        Merge
//!   Projection                        Projection                   Projection
//!     Sort limit=3, in partitions ─▶    Limit 3 over several  ─▶     Limit 3 of each
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Makes limits of each partition of them. It runs once sorts have been moved down.
#[derive(Debug)]
pub struct PartitionLimits;

impl PhysicalOptimizerRule for PartitionLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(limit) = node.downcast_ref::<GlobalLimitExec>() else { return Ok(Transformed::no(node)) };
            match (limit.skip(), limit.fetch()) {
                (0, Some(fetch)) if limit.input().output_partitioning().partition_count() > 1 => {
                    Ok(Transformed::yes(Arc::new(LocalLimitExec::new(limit.input().clone(), fetch))))
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "PartitionLimits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
