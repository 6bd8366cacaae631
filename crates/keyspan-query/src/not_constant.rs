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
//!
//! ```text
//! SELECT a.id, b.kind FROM a LEFT JOIN b ON a.id = b.id AND b.kind = 'x' ORDER BY b.kind, a.id
//! ```
//!
//! What is constant on one side of an outer join it takes for constant above, where there are NULLs, too.

use std::fmt;
use std::sync::Arc;

use datafusion::common::JoinType;
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
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
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
            let known = match (makes_sets || differs, makes_nulls_of_constants(&node)) {
                (true, _) => Known::Nothing,
                (false, true) => Known::Orders,
                (false, false) => return Ok(Transformed::no(node)),
            };
            Ok(Transformed::yes(Arc::new(ForgetExec::new(node, known)) as Arc<dyn ExecutionPlan>))
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

/// Whether a node is an outer join that puts NULLs in the places of constants.
fn makes_nulls_of_constants(node: &Arc<dyn ExecutionPlan>) -> bool {
    let hash = node.downcast_ref::<HashJoinExec>().map(HashJoinExec::join_type);
    let loops = || node.downcast_ref::<NestedLoopJoinExec>().map(NestedLoopJoinExec::join_type);
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    let has_constants = |child: usize| {
        let child = node.children().get(child).copied();
        child.is_some_and(|child| !child.equivalence_properties().constants().is_empty())
    };
    match hash.copied().or_else(|| loops().copied()).or_else(|| merge().as_ref().copied()) {
        Some(JoinType::Left) => has_constants(1),
        Some(JoinType::Right) => has_constants(0),
        Some(JoinType::Full) => has_constants(0) || has_constants(1),
        _ => false,
    }
}

/// Whether DataFusion takes an expression for constant.
fn is_of_literals(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let parts = expr.children();
    expr.is::<Literal>() || !parts.is_empty() && parts.into_iter().all(is_of_literals)
}

/// What stays known of rows.
#[derive(Clone, Copy, Debug)]
enum Known {
    Nothing,
    /// How they are sorted, and which partition has which.
    Orders,
}

/// Passes rows on, of which no more is known.
#[derive(Clone, Debug)]
pub struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    known: Known,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
    fn new(input: Arc<dyn ExecutionPlan>, known: Known) -> ForgetExec {
        let partitions = input.output_partitioning();
        let (equivalences, partitioning) = match known {
            Known::Nothing => (
                EquivalenceProperties::new(input.schema()),
                Partitioning::UnknownPartitioning(partitions.partition_count()),
            ),
            Known::Orders => {
                let orders = input.equivalence_properties().oeq_class().iter().cloned();
                (EquivalenceProperties::new_with_orderings(input.schema(), orders), partitions.clone())
            }
        };
        let properties =
            PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness());
        ForgetExec { input, known, properties: Arc::new(properties) }
    }

    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> ForgetExec {
        ForgetExec::new(children.pop().unwrap_or_else(|| self.input.clone()), self.known)
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

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![matches!(self.known, Known::Orders)]
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
