//! The node that adds families and static columns to rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, SortOrderPushdownResult,
};
use futures::StreamExt;
use keyspan_seam::Snapshot;

use super::cells::FamilyRead;
use crate::error::external;
use crate::sort_order::moved;
use crate::statics::StaticsRead;

/// Where an output column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyOutput {
    /// This column of the input.
    Input(usize),
    /// This family.
    Family(usize),
    /// This one of the static columns that are read.
    Static(usize),
}

/// Adds families and static columns to rows; a row comes out for each that goes in, in their order.
#[derive(Clone, Debug)]
pub struct FamilyExec {
    input: Arc<dyn ExecutionPlan>,
    snapshot: Arc<dyn Snapshot>,
    /// Places of the key columns in the input, in key order.
    key: Vec<usize>,
    families: Arc<[FamilyRead]>,
    statics: Option<StaticsRead>,
    output: Vec<FamilyOutput>,
    /// The indexes that have found the rows, if some have.
    found_by: Option<Vec<String>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FamilyExec {
    /// The node over rows that have their key at these places.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        snapshot: Arc<dyn Snapshot>,
        key: Vec<usize>,
        families: Arc<[FamilyRead]>,
        statics: Option<StaticsRead>,
        output: Vec<FamilyOutput>,
        schema: SchemaRef,
    ) -> FamilyExec {
        let place = |column: &Column| {
            let place = output.iter().position(|each| *each == FamilyOutput::Input(column.index()))?;
            Some(Column::new(schema.field(place).name(), place))
        };
        let ordering = LexOrdering::new(moved(input.output_ordering().into_iter().flatten(), place));
        let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), ordering);
        let partitioning =
            datafusion::physical_expr::Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
        let properties =
            PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness());
        FamilyExec {
            input,
            snapshot,
            key,
            families,
            statics,
            output,
            found_by: None,
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same node over rows that these indexes have found.
    pub fn found_by(self, found_by: Option<Vec<String>>) -> FamilyExec {
        FamilyExec { found_by, ..self }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> FamilyExec {
        let (snapshot, key, families) = (self.snapshot.clone(), self.key.clone(), self.families.clone());
        let (statics, output, schema) = (self.statics.clone(), self.output.clone(), self.schema.clone());
        let node = FamilyExec::new(input, snapshot, key, families, statics, output, schema);
        node.found_by(self.found_by.clone())
    }

    async fn with_families(self: Arc<Self>, rows: RecordBatch) -> Result<RecordBatch> {
        let key: Vec<ArrayRef> = self.key.iter().map(|place| rows.column(*place).clone()).collect();
        let mut maps = Vec::with_capacity(self.families.len());
        for family in self.families.iter() {
            let map = family.maps(&self.snapshot, &key, rows.num_rows()).await.map_err(external)?;
            maps.push(family.shown(map).map_err(external)?);
        }
        let statics = match &self.statics {
            Some(statics) => {
                let partition = &key[..statics.relation.key.len()];
                statics.columns(&self.snapshot, partition, rows.num_rows()).await.map_err(external)?
            }
            None => Vec::new(),
        };
        let columns = self.output.iter().map(|output| match output {
            FamilyOutput::Input(place) => rows.column(*place).clone(),
            FamilyOutput::Family(place) => maps[*place].clone(),
            FamilyOutput::Static(place) => statics[*place].clone(),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &options)?)
    }
}

impl DisplayAs for FamilyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.families.iter().map(|read| match &read.only {
            None => read.family.name.clone(),
            Some(only) => {
                let ty = read.family.qualifier_type();
                let only: Vec<String> = only.iter().map(|value| value.to_text(ty)).collect();
                format!("{}[{}]", read.family.name, only.join(", "))
            }
        });
        let families: Vec<String> = shown.collect();
        let is_static = |(place, _): &(usize, &FamilyOutput)| matches!(self.output[*place], FamilyOutput::Static(_));
        let statics = self.output.iter().enumerate().filter(is_static);
        let statics: Vec<&str> = statics.map(|(place, _)| self.schema.field(place).name().as_str()).collect();
        match (families.is_empty(), statics.is_empty()) {
            (false, true) => write!(f, "Families: {}", families.join(", ")),
            (true, _) => write!(f, "StaticColumns: {}", statics.join(", ")),
            (false, false) => write!(f, "Families: {}; StaticColumns: {}", families.join(", "), statics.join(", ")),
        }?;
        match &self.found_by {
            Some(found_by) => write!(f, ", index=[{}]", found_by.join(", ")),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for FamilyExec {
    fn name(&self) -> &str {
        "Families"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// DataFusion takes this for leave to sort the input by what is in the same places of it.
    fn maintains_input_order(&self) -> Vec<bool> {
        let begins_with_input = (0..self.input.schema().fields().len())
            .all(|place| self.output.get(place) == Some(&FamilyOutput::Input(place)));
        vec![begins_with_input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(self.over(input)))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(self.over(input)))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let schema = self.input.schema();
        let place = |column: &Column| match self.output.get(column.index())? {
            FamilyOutput::Input(place) => Some(Column::new(schema.field(*place).name(), *place)),
            FamilyOutput::Family(_) | FamilyOutput::Static(_) => None,
        };
        let of_input = moved(order, place);
        if of_input.len() < order.len() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let over = |inner| Arc::new(self.over(inner)) as Arc<dyn ExecutionPlan>;
        Ok(match self.input.try_pushdown_sort(&of_input)? {
            SortOrderPushdownResult::Exact { inner } => SortOrderPushdownResult::Exact { inner: over(inner) },
            SortOrderPushdownResult::Inexact { inner } => SortOrderPushdownResult::Inexact { inner: over(inner) },
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let node = Arc::new(self.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = rows.then(move |rows| {
            let node = node.clone();
            async move { node.with_families(rows?).await }
        });
        let counted = batches.inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), counted)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let num_rows = inputs.first().map_or(Precision::Absent, |input| input.num_rows);
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.schema) }))
    }
}
