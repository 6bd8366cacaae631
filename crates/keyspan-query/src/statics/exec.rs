//! The node that adds the rows of partitions without rows to a scan's.
//!
//! Where the scan delivers row-key order, they go to their places in it: such a partition is one row, so nothing but
//! the partition key decides where. Else they come last.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, BinaryArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, SortOrderPushdownResult,
};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use keyspan_model::{KeyColumn, KeyEncoder, Order};
use keyspan_seam::Snapshot;
use tokio::sync::OnceCell;

use super::rowless::{Rowless, RowlessPartitions};
use crate::error::external;

type Plan = Arc<dyn ExecutionPlan>;

/// Adds the rows of partitions without rows.
#[derive(Clone, Debug)]
pub struct RowlessExec {
    input: Plan,
    snapshot: Arc<dyn Snapshot>,
    rowless: Arc<RowlessPartitions>,
    found: Arc<OnceCell<Rowless>>,
    /// The input's order, if it has one.
    order: Order,
    /// Places of the partition key's columns in the input. The output's columns are the input's first ones.
    key: Arc<[usize]>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RowlessExec {
    /// The node over rows in no order, which have the partition key at these places. `found`: the partitions, if they
    /// have been looked for.
    pub fn new(
        input: Plan,
        snapshot: Arc<dyn Snapshot>,
        rowless: RowlessPartitions,
        found: Option<Rowless>,
        key: Vec<usize>,
        schema: SchemaRef,
    ) -> RowlessExec {
        let found = Arc::new(OnceCell::new_with(found));
        RowlessExec::over(input, snapshot, Arc::new(rowless), found, Order::Any, key.into(), schema)
    }

    fn over(
        input: Plan,
        snapshot: Arc<dyn Snapshot>,
        rowless: Arc<RowlessPartitions>,
        found: Arc<OnceCell<Rowless>>,
        order: Order,
        key: Arc<[usize]>,
        schema: SchemaRef,
    ) -> RowlessExec {
        let ordering = input.output_ordering().filter(|_| order != Order::Any).cloned();
        let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), ordering);
        let partitions = input.output_partitioning().partition_count();
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let properties =
            PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness());
        let metrics = ExecutionPlanMetricsSet::new();
        RowlessExec { input, snapshot, rowless, found, order, key, schema, properties: Arc::new(properties), metrics }
    }

    /// The same node over other rows, in this order.
    fn with_input(&self, input: Plan, order: Order) -> RowlessExec {
        let (snapshot, rowless, found) = (self.snapshot.clone(), self.rowless.clone(), self.found.clone());
        RowlessExec::over(input, snapshot, rowless, found, order, self.key.clone(), self.schema.clone())
    }

    /// The rows.
    pub fn input(&self) -> &Plan {
        &self.input
    }

    /// The same node over the rows in row-key order, or backwards.
    pub fn in_key_order(&self, input: Plan, reversed: bool) -> RowlessExec {
        self.with_input(input, if reversed { Order::Reverse } else { Order::Forward })
    }

    fn key_columns(&self) -> &[KeyColumn] {
        &self.rowless.statics.relation.key
    }

    /// In which direction an order begins with the whole partition key.
    fn direction(&self, order: &[PhysicalSortExpr]) -> Option<Order> {
        let mut descending = None;
        for (place, column) in self.key.iter().zip(self.key_columns()) {
            let position = self.key.iter().position(|each| each == place)?;
            let sort = order.get(position)?;
            let is_key = sort.expr.downcast_ref::<Column>().is_some_and(|own| own.index() == *place);
            if !is_key || !column.ty.arrow_order_is_key_order() {
                return None;
            }
            if *descending.get_or_insert(sort.options.descending) != sort.options.descending {
                return None;
            }
        }
        Some(if descending? { Order::Reverse } else { Order::Forward })
    }

    async fn found(&self) -> Result<&Rowless> {
        self.found.get_or_try_init(|| self.rowless.find(&self.snapshot)).await.map_err(external)
    }

    /// A batch of the input with the partitions that come before it is done: those from `next` on.
    fn merged(&self, rows: &RecordBatch, rowless: &Rowless, next: &mut usize) -> Result<RecordBatch> {
        let keys = self.key.iter().map(|place| rows.column(*place).clone()).collect::<Vec<_>>();
        let keys = KeyEncoder::new(self.key_columns()).encode_batch(&keys).map_err(external)?;
        let output: Vec<usize> = (0..self.schema.fields().len()).collect();
        let rows = rows.project(&output)?.with_schema(self.schema.clone())?;
        let (mut parts, mut from) = (Vec::new(), 0);
        while let Some((at, key)) = self.place(&rowless.keys, *next) {
            let until = from + first_after(&keys, from, key, self.order);
            if until == rows.num_rows() {
                break;
            }
            parts.push(rows.slice(from, until - from));
            parts.push(rowless.rows.slice(at, 1));
            (from, *next) = (until, *next + 1);
        }
        parts.push(rows.slice(from, rows.num_rows() - from));
        Ok(concat_batches(&self.schema, &parts)?)
    }

    /// The place and key of the partition that comes as number `next`.
    fn place<'a>(&self, keys: &'a BinaryArray, next: usize) -> Option<(usize, &'a [u8])> {
        let at = match self.order {
            Order::Reverse => keys.len().checked_sub(next + 1)?,
            Order::Forward | Order::Any => next,
        };
        (at < keys.len()).then(|| (at, keys.value(at)))
    }

    /// The partitions that come after all rows, or those that are left.
    fn rest(&self, rowless: &Rowless, next: usize) -> Result<RecordBatch> {
        let left = rowless.rows.num_rows() - next;
        match self.order {
            Order::Reverse => {
                let places: UInt32Array = (0..left as u32).rev().collect();
                Ok(take_record_batch(&rowless.rows, &places)?)
            }
            Order::Forward | Order::Any => Ok(rowless.rows.slice(next, left)),
        }
    }
}

/// The rows of the first partition, with those of partitions without rows.
fn with_rowless(node: Arc<RowlessExec>, rows: SendableRecordBatchStream) -> impl Stream<Item = Result<RecordBatch>> {
    futures::stream::try_unfold(Some((node, rows, 0)), |state| async move {
        let Some((node, mut rows, mut next)) = state else { return Ok(None) };
        let rowless = node.found().await?.clone();
        match rows.try_next().await? {
            Some(batch) => {
                let batch = node.merged(&batch, &rowless, &mut next)?;
                Ok(Some((batch, Some((node, rows, next)))))
            }
            None => Ok(Some((node.rest(&rowless, next)?, None))),
        }
    })
}

/// How many keys from `from` on come before `key` in this order.
fn first_after(keys: &BinaryArray, from: usize, key: &[u8], order: Order) -> usize {
    let before = |row: &usize| match order {
        Order::Reverse => keys.value(*row) > key,
        Order::Forward => keys.value(*row) < key,
        Order::Any => true,
    };
    let rows: Vec<usize> = (from..keys.len()).collect();
    rows.partition_point(before)
}

impl DisplayAs for RowlessExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionsWithoutRows")?;
        match self.found.get() {
            Some(found) => write!(f, ": {}", found.rows.num_rows()),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for RowlessExec {
    fn name(&self) -> &str {
        "PartitionsWithoutRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.order != Order::Any]
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

    fn replace_children(self: Arc<Self>, mut children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(self.with_input(input, self.order)))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> Result<Plan> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(self.with_input(input, self.order)))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Plan>> {
        let direction = match self.order {
            Order::Any => self.direction(order),
            _ => None,
        };
        let Some(direction) = direction else { return Ok(SortOrderPushdownResult::Unsupported) };
        Ok(match self.input.try_pushdown_sort(order)? {
            SortOrderPushdownResult::Exact { inner } => {
                SortOrderPushdownResult::Exact { inner: Arc::new(self.with_input(inner, direction)) }
            }
            _ => SortOrderPushdownResult::Unsupported,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = self.input.execute(partition, context)?;
        let output: Vec<usize> = (0..self.schema.fields().len()).collect();
        let (node, schema) = (Arc::new(self.clone()), self.schema.clone());
        let batches: BoxStream<'static, Result<RecordBatch>> = if partition > 0 {
            // One partition is enough for those without rows.
            rows.map(move |rows| Ok(rows?.project(&output)?.with_schema(schema.clone())?)).boxed()
        } else {
            with_rowless(node, rows).boxed()
        };
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
        let num_rows = inputs.first().map_or(Precision::Absent, |input| input.num_rows.to_inexact());
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.schema) }))
    }
}
