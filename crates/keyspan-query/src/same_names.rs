//! Filters stay where they are in plans that have two columns of one name.
//!
//! DataFusion's rules that move filters down find a column in the input of a node by its name. Where the input has two of
//! that name, as a join of `a.f` and `b.f` has, they take the first: `b.f IS NULL OR a.f <> 0` became
//! `b.f IS NULL OR b.f <> 0` below a RIGHT JOIN. A join itself looks at places, but not the nodes above it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// One of these rules, but for such plans.
#[derive(Debug)]
pub struct UnlessNamesRepeat(pub Rule);

impl PhysicalOptimizerRule for UnlessNamesRepeat {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let by_name = |node: &Arc<dyn ExecutionPlan>| match node.children().as_slice() {
            [input] => has_repeated_name(&input.schema()) || has_repeated_name(&node.schema()),
            _ => false,
        };
        match plan.exists(|node| Ok(by_name(node)))? {
            true => Ok(plan),
            false => self.0.optimize(plan, options),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn has_repeated_name(schema: &Schema) -> bool {
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name()))
}
