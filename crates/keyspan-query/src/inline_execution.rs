//! Inline execution: plans that run in less time than it takes to wake a thread for them run in the task that asks.
//!
//! Rule: one task reads a few rows, as far as the store can tell, and what is computed of each takes no longer than reading
//! it. So a function counts only if all that it takes and gives has a fixed width, and one that is volatile
//! (`pg_sleep`) does not.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
    NegativeExpr, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::grouped::GroupedScanExec;
use crate::scan::SpanScanExec;

/// Whether a plan may run inline.
pub fn runs_inline(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children().as_slice() {
        [] => reads_little(plan) && all_light(plan, &plan.schema()),
        [child] => is_light_node(plan) && runs_inline(child) && all_light(plan, &child.schema()),
        _ => false,
    }
}

fn reads_little(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = leaf.downcast_ref::<SpanScanExec>() {
        return scan.runs_inline();
    }
    leaf.downcast_ref::<GroupedScanExec>().is_some_and(|grouped| grouped.scan().runs_inline())
        || leaf.is::<PlaceholderRowExec>()
}

/// Nodes that do a bounded work for each row, in one task.
fn is_light_node(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<ProjectionExec>()
        || node.is::<FilterExec>()
        || node.is::<SortExec>()
        || node.is::<AggregateExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<CooperativeExec>()
}

fn all_light(node: &Arc<dyn ExecutionPlan>, input: &Schema) -> bool {
    let mut light = true;
    let walked = node.apply_expressions(&mut |expr| {
        light &= is_light(expr, input);
        Ok(if light { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && light
}

fn is_light(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    let own = match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) => {
            let narrow = |arg: &Arc<dyn PhysicalExpr>| {
                arg.is::<Literal>() || arg.data_type(input).is_ok_and(|ty| ty.primitive_width().is_some())
            };
            call.fun().signature().volatility != Volatility::Volatile
                && call.return_type().primitive_width().is_some()
                && call.args().iter().all(narrow)
        }
        None => {
            expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<BinaryExpr>()
                || expr.is::<CastExpr>()
                || expr.is::<CaseExpr>()
                || expr.is::<InListExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<NegativeExpr>()
                || expr.is::<NotExpr>()
                || expr.is::<DynamicFilterPhysicalExpr>()
        }
    };
    own && expr.children().into_iter().all(|child| is_light(child, input))
}
