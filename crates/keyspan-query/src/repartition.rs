//! Whether a plan may repartition its rows by hash.
//!
//! DataFusion 55 can wait for ever where rows wait between partitions and memory runs out ([`crate::memory`]); and memory
//! does run out where one partition of a large GROUP BY sorts and spills while the others go on. So a plan that
//! reads more than a part of the memory is planned anew without: its aggregates are computed by partition, put together in
//! one, and spill there; its joins read their smaller side once.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::scan::SpanScanExec;

/// A plan that reads more than this part of the memory does not repartition.
const PART: usize = 4;

/// The physical plan of an optimized logical one.
pub async fn physical_plan(plan: &LogicalPlan, state: &SessionState, memory: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let physical = state.query_planner().create_physical_plan(plan, state).await?;
    if !repartitions(&physical) || bytes_read(&physical) <= memory / PART {
        return Ok(physical);
    }
    let mut state = state.clone();
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    optimizer.repartition_aggregations = false;
    optimizer.repartition_joins = false;
    optimizer.repartition_windows = false;
    optimizer.enable_round_robin_repartition = false;
    state.query_planner().create_physical_plan(plan, &state).await
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
