//! The rule that makes the joins of a plan stop soon: see [`super`] for what stops which.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};

use super::condition::checked;
use super::pace::PaceExec;

/// Puts places to stop into joins. Comes last: other rules look at the joins as DataFusion makes them.
#[derive(Debug)]
pub struct StopJoins;

impl PhysicalOptimizerRule for StopJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match stoppable(&node)? {
                Some(join) => Transformed::yes(Arc::new(CooperativeExec::new(join)) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "stop_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join with places to stop within one batch of its probe side; `None` for what is no join.
fn stoppable(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Ok(Some(match join.filter() {
            Some(filter) => join.builder().with_filter(Some(checked(filter))).build_exec()?,
            None if answers_rows_of_one_side(*join.join_type()) => with_paced_probe_side(node)?,
            None => node.clone(),
        }));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return Ok(Some(match join.filter() {
            Some(filter) => Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(checked(filter))).build()?),
            None => with_paced_probe_side(node)?,
        }));
    }
    let other = node.is::<CrossJoinExec>() || node.is::<SortMergeJoinExec>();
    Ok(other.then(|| node.clone()))
}

/// Joins that count pairs without making rows of them, so that nothing above them sees how long they take.
fn answers_rows_of_one_side(join: JoinType) -> bool {
    use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
    matches!(join, LeftAnti | LeftMark | LeftSemi | RightAnti | RightMark | RightSemi)
}

/// The second input of these joins is the one that is read batch by batch.
fn with_paced_probe_side(join: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut inputs: Vec<_> = join.children().into_iter().cloned().collect();
    if let Some(probe) = inputs.pop() {
        inputs.push(Arc::new(PaceExec::new(probe)));
    }
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    join.clone().replace_children(inputs, same)
}
