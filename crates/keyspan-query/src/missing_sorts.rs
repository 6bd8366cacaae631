//! Sorts that DataFusion owes a node.
//!
//! An order asked of a UNION ALL goes down into each of its queries, where it may become a shorter one: by `a` alone where
//! `b` equals it, by `b` alone where `a` is a constant. Then nobody can tell that all of them have the order that was
//! asked for, and the plan is refused. So what a node asks for, and what lies below it does not say that it has, is sorted.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

/// See the module. It runs once sorts have been put in.
#[derive(Debug)]
pub struct MissingSorts;

impl PhysicalOptimizerRule for MissingSorts {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            let mut missing = false;
            let mut children = Vec::new();
            for (child, required) in node.children().into_iter().zip(node.required_input_ordering()) {
                let required = required.map(|required| required.into_single());
                let sorted = match required {
                    Some(order) if !child.equivalence_properties().ordering_satisfy_requirement(order.clone())? => {
                        LexOrdering::new(order.into_iter().map(PhysicalSortExpr::from))
                    }
                    _ => None,
                };
                missing |= sorted.is_some();
                children.push(match sorted {
                    Some(order) => Arc::new(SortExec::new(order, child.clone()).with_preserve_partitioning(true)),
                    None => child.clone(),
                });
            }
            if !missing {
                return Ok(Transformed::no(node));
            }
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(children, options)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "MissingSorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
