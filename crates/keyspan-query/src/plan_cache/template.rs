//! A physical plan without its snapshot: the nodes above its scans, and what these promised them; or above a row of no
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
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::context::FunctionContext;
use crate::context::QueryContext;
use crate::grouped::{GroupedScanExec, GroupedTemplate};
use crate::interrupt::PaceExec;
use crate::join_keys::JoinKeysExec;
use crate::memory::WindowInputExec;
use crate::not_constant::ForgetExec;
use crate::partition_top::PartitionTopExec;
use crate::scan::{ScanTemplate, SpanScanExec};
use crate::shared::{SharedExec, linked};
use crate::spans;
use crate::statics::may_see_rowless;

type Plan = Arc<dyn ExecutionPlan>;

/// A physical plan of scans, to be filled in with other scans.
#[derive(Debug)]
pub struct Template {
    root: Node,
    /// Whether its scans must read about as many rows as those it was planned for.
    of_size: bool,
}

#[derive(Debug)]
enum Node {
    Scan(Box<ScanTemplate>),
    /// Groups of a scan, and the tables that its rows are looked up in.
    Grouped(Box<ScanTemplate>, Box<GroupedTemplate>, Vec<Node>),
    /// One row without columns.
    Row(Plan),
    /// Shared rows whose plan stands elsewhere.
    Place(Arc<SharedExec>),
    /// Stands over [`NoScan`].
    Above(Plan, Vec<Node>),
}

impl Template {
    /// The template of a plan, of tables or of none, if nothing in it but its scans changes from one execution to the
    /// next.
    pub fn of(plan: &Plan, of_tables: bool) -> Result<Option<Template>> {
        let root = Node::of(plan, of_tables)?;
        Ok(root.map(|root| Template { of_size: root.scans().len() > 1, root }))
    }

    /// The plan with scans by these filters, those of each scan of the logical plan; `None` where a scan is of another
    /// form.
    pub async fn renewed(
        &self,
        filters: &[Vec<Expr>],
        context: &QueryContext,
        functions: &FunctionContext,
    ) -> Result<Option<Plan>> {
        let mut scans = Vec::new();
        for form in self.root.scans() {
            let filters = filters.get(form.number()).map_or(&[][..], Vec::as_slice);
            match renewed(form, filters, context, functions).await? {
                Some(scan) if !self.of_size || form.is_of_size(&scan) => scans.push(scan),
                _ => return Ok(None),
            }
        }
        linked(self.root.over(&mut scans.into_iter())?)
    }
}

impl Node {
    fn of(plan: &Plan, of_tables: bool) -> Result<Option<Node>> {
        let grouped = plan.downcast_ref::<GroupedScanExec>();
        if let Some(scan) = plan.downcast_ref::<SpanScanExec>().or(grouped.map(GroupedScanExec::scan)) {
            // What is true of partitions without rows is true of one snapshot.
            let of_snapshot = may_see_rowless(&scan.plan.table, &scan.plan.filters);
            if of_snapshot {
                return Ok(None);
            }
            let form = Box::new(scan.form());
            let Some(grouped) = grouped else { return Ok(Some(Node::Scan(form))) };
            let tables = plan.children().into_iter().map(|table| Node::of(table, of_tables));
            let tables = tables.collect::<Result<Option<Vec<_>>>>()?;
            return Ok(tables.map(|tables| Node::Grouped(form, Box::new(grouped.form()), tables)));
        }
        if let Some(place) = plan.downcast_ref::<SharedExec>().and_then(SharedExec::unlinked) {
            return Ok(Some(Node::Place(Arc::new(place))));
        }
        // In a plan of tables it stands for what was true of the rows once.
        if !of_tables && plan.is::<PlaceholderRowExec>() {
            return Ok(Some(Node::Row(plan.clone())));
        }
        if plan.children().is_empty() || !is_reusable(plan) {
            return Ok(None);
        }
        let below = plan.children().into_iter().map(|child| Node::of(child, of_tables));
        let Some(below) = below.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
        let empty = |child: &Plan| Arc::new(NoScan { properties: child.properties().clone() }) as Plan;
        // Without what the plan keeps while it runs: the build side of its joins.
        let node = over(plan.clone(), plan.children().into_iter().map(empty).collect())?.reset_state()?;
        Ok(Some(Node::Above(node, below)))
    }

    /// Its scans, from the left.
    fn scans(&self) -> Vec<&ScanTemplate> {
        match self {
            Node::Scan(scan) => vec![scan],
            Node::Grouped(scan, _, tables) => {
                [scan.as_ref()].into_iter().chain(tables.iter().flat_map(Node::scans)).collect()
            }
            Node::Row(_) | Node::Place(_) => Vec::new(),
            Node::Above(_, below) => below.iter().flat_map(Node::scans).collect(),
        }
    }

    /// The node over these scans, in the order of [`Node::scans`].
    fn over(&self, scans: &mut impl Iterator<Item = SpanScanExec>) -> Result<Plan> {
        let none_left = || DataFusionError::Internal("a cached plan has more scans than were made".into());
        match self {
            Node::Scan(_) => Ok(Arc::new(scans.next().ok_or_else(none_left)?)),
            Node::Grouped(_, grouped, tables) => {
                let scan = scans.next().ok_or_else(none_left)?;
                let tables = tables.iter().map(|table| table.over(scans)).collect::<Result<_>>()?;
                Ok(Arc::new(grouped.over(scan, tables)))
            }
            Node::Row(row) => Ok(row.clone()),
            Node::Place(place) => Ok(place.clone()),
            Node::Above(node, below) => {
                let children = below.iter().map(|child| child.over(scans)).collect::<Result<Vec<_>>>()?;
                over(node.clone(), children)?.reset_state()
            }
        }
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

/// The node over other inputs that promise the same.
fn over(node: Plan, inputs: Vec<Plan>) -> Result<Plan> {
    node.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// Nodes that may run again once they are reset, and that ask nothing of statistics.
fn is_reusable(node: &Plan) -> bool {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return !is_dynamic(filter.predicate());
    }
    node.is::<ProjectionExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<CooperativeExec>()
        || node.is::<AggregateExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<RepartitionExec>()
        || node.is::<UnionExec>()
        || node.is::<BufferExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<WindowAggExec>()
        || node.is::<WindowInputExec>()
        || node.is::<PartitionTopExec>()
        || node.is::<JoinKeysExec>()
        || node.is::<PaceExec>()
        || node.is::<SharedExec>()
        || node.is::<ForgetExec>()
}

/// Whether a filter holds what a node above has found in one run.
fn is_dynamic(filter: &Arc<dyn PhysicalExpr>) -> bool {
    filter.is::<DynamicFilterPhysicalExpr>() || filter.children().into_iter().any(is_dynamic)
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
