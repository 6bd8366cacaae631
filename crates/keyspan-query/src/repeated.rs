//! Rows that come several times: what `unnest` makes of the rows under it.
//!
//! DataFusion takes the keys of a table for keys of the unnested rows, too, so that `ORDER BY id, element` sorts by `id`
//! alone, `GROUP BY id, element` groups by it, and DISTINCT drops rows. This node has the rows of its input and no keys.
//! In the physical plan nothing is left of it.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef, FunctionalDependencies};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

/// The rows of its input, of whose columns none is a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Repeated {
    input: LogicalPlan,
    schema: DFSchemaRef,
}

/// Whether a node repeats rows.
pub fn repeats(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Unnest(unnest) if !unnest.list_type_columns.is_empty())
}

/// The plan in which rows that come several times have no keys.
pub fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let marked = plan.transform_up_with_subqueries(|node| {
        let node = node.recompute_schema()?;
        if !repeats(&node) {
            return Ok(Transformed::yes(node));
        }
        let node = Arc::new(Repeated::over(node)?);
        Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
    })?;
    Ok(marked.data)
}

impl Repeated {
    fn over(input: LogicalPlan) -> Result<Repeated> {
        let schema = DFSchema::clone(input.schema());
        let schema = schema.with_functional_dependencies(FunctionalDependencies::empty())?;
        Ok(Repeated { input, schema: Arc::new(schema) })
    }
}

impl PartialOrd for Repeated {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Repeated {
    fn name(&self) -> &str {
        "Repeated"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec()])
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Repeated")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Repeated> {
        Repeated::over(inputs.pop().unwrap_or_else(|| self.input.clone()))
    }
}

/// Plans the node: its input.
#[derive(Debug)]
pub struct RepeatedPlanner;

#[async_trait]
impl ExtensionPlanner for RepeatedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let own = node.as_any().is::<Repeated>();
        Ok(inputs.first().filter(|_| own).cloned())
    }
}
