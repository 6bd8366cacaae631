//! A physical plan without its snapshot: the nodes above one scan, and what that scan promised them; or above a row of no
//! table.

use std::fmt;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::context::FunctionContext;
use crate::context::QueryContext;
use crate::grouped::{GroupedScanExec, GroupedTemplate};
use crate::scan::{ScanTemplate, SpanScanExec};
use crate::spans;

type Plan = Arc<dyn ExecutionPlan>;

/// A physical plan of one scan, to be filled in with another scan.
#[derive(Debug)]
pub struct Template {
    /// From the leaf upwards; the lowest stands over [`NoScan`].
    above: Vec<Plan>,
    leaf: Leaf,
}

#[derive(Debug)]
enum Leaf {
    Scan(Box<ScanTemplate>, Option<GroupedTemplate>),
    /// One row without columns.
    Row(Plan),
}

impl Template {
    /// The template of a plan, of a table or of none, if nothing in it but its scan changes from one execution to the next.
    pub fn of(plan: &Plan, of_table: bool) -> Result<Option<Template>> {
        let (mut nodes, mut node) = (Vec::new(), plan);
        while let [child] = node.children().as_slice() {
            if !is_reusable(node) {
                return Ok(None);
            }
            nodes.push(node.clone());
            node = child;
        }
        let leaf = match (node.downcast_ref::<SpanScanExec>(), node.downcast_ref::<GroupedScanExec>()) {
            (Some(scan), _) => Leaf::Scan(Box::new(scan.form()), None),
            (_, Some(grouped)) => Leaf::Scan(Box::new(grouped.scan().form()), Some(grouped.form())),
            // In a plan of a table it stands for what was true of the rows once.
            _ if !of_table && node.is::<PlaceholderRowExec>() => Leaf::Row(node.clone()),
            _ => return Ok(None),
        };
        let mut above: Vec<Plan> = Vec::with_capacity(nodes.len());
        let mut child: Plan = Arc::new(NoScan { properties: node.properties().clone() });
        for node in nodes.into_iter().rev() {
            child = over(node, child)?;
            above.push(child.clone());
        }
        Ok(Some(Template { above, leaf }))
    }

    /// The plan with a scan by these filters; `None` where that scan is of another form.
    pub async fn renewed(
        &self,
        filters: &[Expr],
        context: &QueryContext,
        functions: &FunctionContext,
    ) -> Result<Option<Plan>> {
        let mut plan: Plan = match &self.leaf {
            Leaf::Row(row) => row.clone(),
            Leaf::Scan(form, grouped) => match (renewed(form, filters, context, functions).await?, grouped) {
                (Some(scan), Some(grouped)) => Arc::new(grouped.over(scan)),
                (Some(scan), None) => Arc::new(scan),
                (None, _) => return Ok(None),
            },
        };
        for node in &self.above {
            plan = over(node.clone(), plan)?.reset_state()?;
        }
        Ok(Some(plan))
    }
}

/// A scan of this form by these filters; `None` where it would be of another.
async fn renewed(
    form: &ScanTemplate,
    filters: &[Expr],
    context: &QueryContext,
    functions: &FunctionContext,
) -> Result<Option<SpanScanExec>> {
    let parts: Vec<&Expr> = filters.iter().collect();
    let pushed = spans::push(&parts, form.relation());
    let residual = pushed.residual(&parts, &context.snapshot.accept(&form.scan(&pushed)));
    let filter = match conjunction(residual) {
        Some(residual) => match over_columns(form, residual, functions)? {
            Some(filter) => Some(filter),
            None => return Ok(None),
        },
        None => None,
    };
    form.renewed(context.snapshot.clone(), filters, pushed, filter).await
}

/// What the spans do not answer, over the columns that the scan reads; `None` if they are not enough.
fn over_columns(
    form: &ScanTemplate,
    residual: Expr,
    functions: &FunctionContext,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let schema = form.read_schema();
    if !residual.column_refs().iter().all(|column| schema.index_of(&column.name).is_ok()) {
        return Ok(None);
    }
    let schema = DFSchema::try_from(schema.as_ref().clone())?;
    functions.physical(unnormalize_col(residual), schema).map(Some)
}

/// The node over another input that promises the same.
fn over(node: Plan, input: Plan) -> Result<Plan> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// Nodes that may run again once they are reset, and that ask nothing of statistics.
fn is_reusable(node: &Plan) -> bool {
    node.is::<ProjectionExec>()
        || node.is::<FilterExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<CooperativeExec>()
        || node.is::<AggregateExec>()
}

/// Stands where the scan goes. Never runs.
#[derive(Debug)]
struct NoScan {
    properties: Arc<PlanProperties>,
}

impl DisplayAs for NoScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoScan")
    }
}

impl ExecutionPlan for NoScan {
    fn name(&self) -> &str {
        "NoScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, _: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal("a plan without its scan was run".into()))
    }
}
