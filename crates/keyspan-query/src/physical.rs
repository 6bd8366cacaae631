//! From an optimized logical plan to a physical one, whose scans the store has divided.
//!
//! A plan may repartition its rows by hash, or not: DataFusion 55 can wait for ever where rows wait between partitions and memory runs out ([`crate::memory`]); and memory
//! does run out where one partition of a large GROUP BY sorts and spills while the others go on. So a plan that
//! reads more than a part of the memory is planned anew without: its aggregates are computed by partition, put together in
//! one, and spill there; its joins read their smaller side once.
//!
//! The rows of WITH RECURSIVE stay in the order of their rounds, as PostgreSQL's do where nothing else orders them: they are
//! not dealt out to partitions in turn.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::grouped::GroupedScanExec;
use crate::memory;
use crate::scan::SpanScanExec;

/// The physical plan of an optimized logical one. Its scans are divided, so that EXPLAIN can show them and an error comes
/// before the first row.
pub async fn physical_plan(plan: &LogicalPlan, state: &SessionState, memory: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let physical = repartitioned(plan, state, memory).await?;
    divide_scans(&physical).await?;
    Ok(physical)
}

/// The plan with or without repartitions, as its size has it.
async fn repartitioned(plan: &LogicalPlan, state: &SessionState, memory: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let mut state = Cow::Borrowed(state);
    if is_recursive(plan)? {
        state.to_mut().config_mut().options_mut().optimizer.enable_round_robin_repartition = false;
    }
    let physical = state.query_planner().create_physical_plan(plan, state.as_ref()).await?;
    if may_repartition(&physical, memory) {
        return Ok(physical);
    }
    let optimizer = &mut state.to_mut().config_mut().options_mut().optimizer;
    optimizer.repartition_aggregations = false;
    optimizer.repartition_joins = false;
    optimizer.repartition_windows = false;
    optimizer.enable_round_robin_repartition = false;
    state.query_planner().create_physical_plan(plan, state.as_ref()).await
}

fn is_recursive(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a plan may stay as it is: it does not repartition, or reads few enough bytes for that.
pub fn may_repartition(plan: &Arc<dyn ExecutionPlan>, memory: usize) -> bool {
    !repartitions(plan) || memory::may_repartition(bytes_read(plan), memory)
}

/// Whether a scan of a plan is known to have no rows.
pub fn reads_nothing(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| node.downcast_ref::<SpanScanExec>().map_or(Ok(false), SpanScanExec::is_empty))
}

/// Asks the store to divide the scans of a plan.
async fn divide_scans(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut waiting = vec![plan];
    while let Some(node) = waiting.pop() {
        if let Some(scan) = node.downcast_ref::<SpanScanExec>() {
            scan.divided().await?;
        } else if let Some(grouped) = node.downcast_ref::<GroupedScanExec>() {
            grouped.scan().divided().await?;
        }
        waiting.extend(node.children());
    }
    Ok(())
}

fn repartitions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RepartitionExec>() || plan.children().into_iter().any(repartitions)
}

/// Bytes of the tables' rows that a plan reads, as far as the store can tell without reading.
fn bytes_read(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if let Some(scan) = plan.downcast_ref::<SpanScanExec>() {
        return scan.bytes_read();
    }
    plan.children().into_iter().map(bytes_read).fold(0, usize::saturating_add)
}
