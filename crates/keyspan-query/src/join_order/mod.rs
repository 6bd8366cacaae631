//! In which order inner joins join their tables.
//!
//! ```text
//! FROM sales JOIN stock ON stock.item = sales.item JOIN days ON days.id = sales.day AND days.year = 2000
//!
//! as written                               reordered
//! HashJoin day = id        500,000 rows    HashJoin item = item     500,000 rows
//!   HashJoin item = item      50 M rows      HashJoin day = id        1,000 rows
//!     sales                100,000 rows        sales                100,000 rows
//!     stock                                    days, of one year
//!   days, of one year                        stock
//! ```
//!
//! DataFusion joins as the statement has it, and decides only which side the table of a hash join is built of.
//!
//! - [`graph`]: the tables of inner joins one above the other, what compares them, and the joins in another order.
//! - [`estimate`]: how many rows a join gives.
//!
//! The order is found greedily: of all pairs that something compares, the one is joined that gives the fewest rows, until
//! all are joined (Fegaras, "A new heuristic for optimizing large queries", 1998). Numbers are guesses, so the order of the
//! statement stays unless another one looks much better.

mod estimate;
mod graph;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use graph::Graph;

type Plan = Arc<dyn ExecutionPlan>;

/// See the module. Comes before any rule that looks at the sides of joins, or at what is below an aggregate.
#[derive(Debug, Default)]
pub struct JoinOrder;

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        reordered(plan).data()
    }

    fn name(&self) -> &str {
        "join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its joins in better orders: those that stand one above the other together, then those below what they
/// join.
fn reordered(plan: Plan) -> Result<Transformed<Plan>> {
    plan.transform_down(|node| {
        let Some(graph) = Graph::of(&node)? else { return Ok(Transformed::no(node)) };
        let node = match graph.better(&node.schema())? {
            Some(better) => Transformed::yes(better),
            None => Transformed::no(node),
        };
        // The joins of the graph are done; what it joins is not.
        let relations = graph.relations();
        let below = node.data.transform_down(|below| {
            if !relations.iter().any(|relation| Arc::ptr_eq(relation, &below)) {
                return Ok(Transformed::no(below));
            }
            let inner = reordered(below)?;
            Ok(Transformed::new(inner.data, inner.transformed, TreeNodeRecursion::Jump))
        })?;
        let changed = node.transformed || below.transformed;
        Ok(Transformed::new(below.data, changed, TreeNodeRecursion::Jump))
    })
}
