//! The physical node: asks for its input sorted by the groups and then by bucket, in one partition.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use keyspan_model::ColumnType;

use super::filler::{Column, Filler};
use super::node::FillKind;
use crate::functions::bucket::{Bucket, value_of_units};

/// The buckets that every group has.
#[derive(Clone, Debug)]
pub struct Series {
    pub(super) bucket: Bucket,
    pub(super) ty: ColumnType,
    /// Begin of the first.
    pub(super) start: i64,
    /// No bucket begins here or later.
    pub(super) finish: i64,
}

/// What is filled, and how.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Place of the bucket among the input's columns.
    pub(super) bucket: usize,
    /// Places of the other groups.
    pub(super) groups: Vec<usize>,
    pub(super) series: Series,
    pub(super) columns: Vec<Column>,
}

/// Adds rows for missing buckets.
#[derive(Clone, Debug)]
pub struct GapFillExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    gaps: Gaps,
    ordering: LexOrdering,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GapFillExec {
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, gaps: Gaps) -> Result<GapFillExec> {
        let sorted = |place: usize| {
            let column = ColumnExpr::new(schema.field(place).name(), place);
            PhysicalSortExpr::new(Arc::new(column), arrow::compute::SortOptions::new(false, false))
        };
        let ordering = gaps.groups.iter().map(|place| sorted(*place)).chain([sorted(gaps.bucket)]);
        let ordering = LexOrdering::new(ordering).ok_or_else(|| super::invalid("no bucket"))?;
        let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), [ordering.clone()]);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Ok(GapFillExec { input, schema, gaps, ordering, properties, metrics })
    }
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |at: i64| match value_of_units(at, self.gaps.series.ty) {
            Ok(value) => value.to_text(self.gaps.series.ty),
            Err(_) => at.to_string(),
        };
        write!(f, "GapFill: from={}, before={}", text(self.gaps.series.start), text(self.gaps.series.finish))?;
        let names: Vec<&str> = self.gaps.groups.iter().map(|place| self.schema.field(*place).name().as_str()).collect();
        write!(f, ", groups=[{}]", names.join(", "))?;
        for (what, kind) in [("locf", FillKind::Last), ("interpolate", FillKind::Line)] {
            let values: Vec<String> = self
                .gaps
                .columns
                .iter()
                .filter(|column| column.kind == kind)
                .map(|column| column.value.to_string())
                .collect();
            if !values.is_empty() {
                write!(f, ", {what}=[{}]", values.join(", "))?;
            }
        }
        Ok(())
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &str {
        "GapFill"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.ordering.clone()))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for column in &self.gaps.columns {
            for expr in [Some(&column.value), column.before.as_ref(), column.after.as_ref()].into_iter().flatten() {
                if f(expr)? == TreeNodeRecursion::Stop {
                    return Ok(TreeNodeRecursion::Stop);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(GapFillExec { input, metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(GapFillExec { input, metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let filler = Filler::try_new(self.input.schema(), self.schema.clone(), self.gaps.clone())?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches =
            futures::stream::try_unfold((input, filler, metrics), |(mut input, mut filler, metrics)| async move {
                loop {
                    if let Some(batch) = filler.next()? {
                        metrics.record_output(batch.num_rows());
                        return Ok(Some((batch, (input, filler, metrics))));
                    }
                    if filler.is_done() {
                        return Ok(None);
                    }
                    match input.next().await {
                        Some(batch) => filler.feed(batch?)?,
                        None => filler.end(),
                    }
                }
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
