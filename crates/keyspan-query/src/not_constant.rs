//! What DataFusion believes of columns though it is not so, forgotten: sorts were left out, and groups cut in two.
//!
//! ```text
//! SELECT kind, count(*) FROM (SELECT 'x' AS kind FROM t) AS q GROUP BY ROLLUP (kind) ORDER BY kind
//! ```
//!
//! Of the aggregate of ROLLUP, CUBE and GROUPING SETS it says what holds of the rows below: that a column is constant, two
//! are equal, rows are sorted, or dealt out to partitions by a column. The NULLs of grouping sets are none of this.
//!
//! ```text
//! SELECT nextval('s') AS n FROM t ORDER BY n DESC
//! ```
//!
//! An expression of literals only it takes for constant, also where it is another one each time.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

/// Puts a [`ForgetExec`] above what makes such columns.
#[derive(Debug)]
pub struct ForgetConstants;

impl PhysicalOptimizerRule for ForgetConstants {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let forget = |node: Arc<dyn ExecutionPlan>| {
            let makes_sets = node.downcast_ref::<AggregateExec>().is_some_and(|node| !node.group_expr().is_single());
            let differs = |each: &ProjectionExpr| is_volatile(&each.expr) && is_of_literals(&each.expr);
            let differs = node.downcast_ref::<ProjectionExec>().is_some_and(|node| node.expr().iter().any(differs));
            Ok(match makes_sets || differs {
                true => Transformed::yes(Arc::new(ForgetExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        };
        plan.transform_up(forget).data()
    }

    fn name(&self) -> &str {
        "forget_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether DataFusion takes an expression for constant.
fn is_of_literals(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let parts = expr.children();
    expr.is::<Literal>() || !parts.is_empty() && parts.into_iter().all(is_of_literals)
}

/// Passes rows on, of which nothing is known.
#[derive(Clone, Debug)]
struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> ForgetExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        ForgetExec { input, properties: Arc::new(properties) }
    }

    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> ForgetExec {
        ForgetExec::new(children.pop().unwrap_or_else(|| self.input.clone()))
    }
}

impl DisplayAs for ForgetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forget")
    }
}

impl ExecutionPlan for ForgetExec {
    fn name(&self) -> &str {
        "Forget"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
