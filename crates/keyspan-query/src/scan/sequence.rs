//! The rule that keeps row-key order: a SELECT that neither sorts nor groups answers in the order of its keys, as CQL
//! promises within a partition, and LIMIT takes the first of them.
//!
//! It runs last, on the finished plan. Where partitions of one scan are only brought together again, the scan becomes
//! one sequence, which reads several splits at a time by itself. Where ordered rows are dealt out only to be filtered, they
//! are not.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use keyspan_model::Order;

use super::exec::SpanScanExec;
use crate::family::FamilyExec;
use crate::statics::RowlessExec;

/// See the module.
#[derive(Debug, Default)]
pub struct KeyOrder;

type Plan = Arc<dyn ExecutionPlan>;

impl PhysicalOptimizerRule for KeyOrder {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let plan = match in_sequence(&plan)? {
            Some(ordered) => ordered,
            None => plan,
        };
        plan.transform_down(|node| {
            let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else {
                return Ok(Transformed::no(node));
            };
            if let Some(sorted) = sorted_alike(merge) {
                return Ok(Transformed::yes(sorted));
            }
            match in_sequence(merge.input())? {
                Some(input) => limit(input, merge.fetch()).map(Transformed::yes),
                None => early_stop(&node, merge),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "KeyOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan over a scan in sequence, if nothing but row-by-row work stands between.
fn in_sequence(plan: &Plan) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<SpanScanExec>() {
        if scan.is_by_span() {
            return Ok(None);
        }
        return Ok(Some(Arc::new(scan.in_sequence())));
    }
    if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return match in_sequence(coalesce.input())? {
            Some(input) => limit(input, coalesce.fetch()).map(Some),
            None => Ok(None),
        };
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return match in_sequence(merge.input())? {
            Some(input) => limit(input, merge.fetch()).map(Some),
            None => Ok(None),
        };
    }
    if let Some(buffer) = plan.downcast_ref::<BufferExec>() {
        return in_sequence(buffer.input());
    }
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        // Rows in order, of a window for one, that are dealt out only to be filtered or computed with.
        let input = dealt.input();
        if input.is::<SpanScanExec>() || input.is::<FamilyExec>() || input.is::<RowlessExec>() {
            return in_sequence(input);
        }
        let ordered = input.properties().output_partitioning().partition_count() == 1
            && input.properties().output_ordering().is_some()
            && matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
        return Ok(ordered.then(|| input.clone()));
    }
    if let Some(rowless) = plan.downcast_ref::<RowlessExec>() {
        let in_key_order = |input: Plan| {
            let reversed = is_reversed(&input);
            Arc::new(rowless.in_key_order(input, reversed)) as Plan
        };
        return Ok(in_sequence(rowless.input())?.map(in_key_order));
    }
    let row_by_row = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<FamilyExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<GlobalLimitExec>();
    match (row_by_row, plan.children().as_slice()) {
        (true, [child]) => match in_sequence(child)? {
            Some(child) => {
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                plan.clone().replace_children(vec![child], options).map(Some)
            }
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Whether the scan of a plan over one reads its rows backwards.
fn is_reversed(plan: &Plan) -> bool {
    match (plan.downcast_ref::<SpanScanExec>(), plan.children().as_slice()) {
        (Some(scan), _) => scan.scan.order == Order::Reverse,
        (None, [child]) => is_reversed(child),
        (None, _) => false,
    }
}

/// A merge whose partitions, of which only the first rows are wanted, are sorted by all that it merges by. What is one value
/// within each partition is left out of their order, and of two rows that differ in nothing else they keep either.
fn sorted_alike(merge: &SortPreservingMergeExec) -> Option<Plan> {
    let sort = merge.input().downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some())?;
    if sort.expr().len() >= merge.expr().len() {
        return None;
    }
    let whole = SortExec::new(merge.expr().clone(), sort.input().clone())
        .with_preserve_partitioning(sort.preserve_partitioning())
        .with_fetch(sort.fetch());
    Some(Arc::new(SortPreservingMergeExec::new(merge.expr().clone(), Arc::new(whole)).with_fetch(merge.fetch())))
}

/// Each of the spans under a merge needs to give no more rows than the merge does.
fn early_stop(node: &Plan, merge: &SortPreservingMergeExec) -> Result<Transformed<Plan>> {
    let scan = merge.input().downcast_ref::<SpanScanExec>().filter(|scan| scan.fetch() != merge.fetch());
    let limited = match (scan, merge.fetch()) {
        (Some(scan), Some(fetch)) => scan.with_fetch(Some(scan.fetch().map_or(fetch, |own| own.min(fetch)))),
        _ => None,
    };
    match limited {
        Some(input) => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.clone().replace_children(vec![input], options).map(Transformed::yes)
        }
        None => Ok(Transformed::no(node.clone())),
    }
}

fn limit(plan: Plan, fetch: Option<usize>) -> Result<Plan> {
    let Some(fetch) = fetch else { return Ok(plan) };
    let least = plan.fetch().map_or(fetch, |own| own.min(fetch));
    match plan.with_fetch(Some(least)).filter(|_| plan.is::<SpanScanExec>()) {
        Some(limited) => Ok(limited),
        None => Ok(Arc::new(GlobalLimitExec::new(plan, 0, Some(fetch)))),
    }
}
