//! Plans that some of DataFusion's rules for physical plans leave alone, since they would change their answers.
//!
//! The rules that move filters down find a column in the input of a node by its name ([`names_repeat`]). Where the input
//! has two of that name, as a join of `a.f` and `b.f` has, they take the first: `b.f IS NULL OR a.f <> 0` became
//! `b.f IS NULL OR b.f <> 0` below a RIGHT JOIN. A join itself looks at places, but not the nodes above it.
//!
//! The rule that moves projections down also computes parts of a join's condition below it ([`joins_by_branches`]), those
//! of branches that would not be taken, too: `CASE WHEN a = 0 THEN false WHEN 6 / a > 1 THEN …`.
//!
//! The rule that takes an aggregate's answer from statistics does not take one with FILTER, but looks further below, and
//! takes the answer of an aggregate that it finds there for that one's ([`filtered_aggregates`]).
//!
//! A join tells the scan of its other side between which keys it looks. Lists with a NULL in them are between no two
//! ([`joins_by_lists`]).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::CaseExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};

type Plan = Arc<dyn ExecutionPlan>;

/// Whether a plan with this node is left alone.
type Spares = fn(&Plan) -> Result<bool>;

/// The rules by name, and the nodes whose plans they leave alone.
pub const OF_RULES: [(&str, Spares); 5] = [
    ("aggregate_statistics", filtered_aggregates),
    ("FilterPushdown", names_repeat),
    ("FilterPushdown(Post)", names_repeat),
    ("FilterPushdown(Post)", joins_by_lists),
    ("ProjectionPushdown", joins_by_branches),
];

/// A rule, but for plans with such a node.
#[derive(Debug)]
pub struct Unless {
    /// See [`OF_RULES`].
    pub spares: Spares,
    /// The rule.
    pub rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl PhysicalOptimizerRule for Unless {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        match plan.exists(self.spares)? {
            true => Ok(plan),
            false => self.rule.optimize(plan, options),
        }
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// Whether a node has two columns of one name, or its one input has.
fn names_repeat(node: &Plan) -> Result<bool> {
    Ok(match node.children().as_slice() {
        [input] => has_repeated_name(&input.schema()) || has_repeated_name(&node.schema()),
        _ => false,
    })
}

fn has_repeated_name(schema: &Schema) -> bool {
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// Whether a node is an aggregate with FILTER that groups by nothing.
fn filtered_aggregates(node: &Plan) -> Result<bool> {
    let aggregate = node.downcast_ref::<AggregateExec>();
    let is_filtered = |aggregate: &AggregateExec| aggregate.filter_expr().iter().any(Option::is_some);
    Ok(aggregate.is_some_and(|aggregate| aggregate.group_expr().is_empty() && is_filtered(aggregate)))
}

/// Whether a node is a join by values that hold others.
fn joins_by_lists(node: &Plan) -> Result<bool> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(false) };
    let schema = join.left().schema();
    for (key, _) in join.on() {
        if key.data_type(&schema)?.is_nested() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a node is a join whose condition has branches.
fn joins_by_branches(node: &Plan) -> Result<bool> {
    let filter = node.downcast_ref::<NestedLoopJoinExec>().and_then(NestedLoopJoinExec::filter);
    filter.map_or(Ok(false), |filter| filter.expression().exists(|part| Ok(part.is::<CaseExpr>())))
}
