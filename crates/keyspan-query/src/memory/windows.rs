//! What window functions hold, counted, so that a window over more rows than there is memory for ends with 53200.
//!
//! DataFusion 55 counts nothing of it. Its `WindowAggExec` holds all rows of its input. Its `BoundedWindowAggExec` lets
//! rows go, but not their texts: it joins each batch to what is left of those before, and an array of texts joined from
//! others holds all buffers of them.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::held::{HeldTexts, own_bytes};

/// Puts a [`WindowInputExec`] below every window. Comes last: other rules look for what stands there.
#[derive(Debug)]
pub struct CountWindows;

impl PhysicalOptimizerRule for CountWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let count = |node: Arc<dyn ExecutionPlan>| {
            let all = node.is::<WindowAggExec>();
            if !all && !node.is::<BoundedWindowAggExec>() {
                return Ok(Transformed::no(node));
            }
            let inputs = node.children().into_iter().cloned();
            let counted = inputs.map(|input| Arc::new(WindowInputExec { input, all }) as Arc<dyn ExecutionPlan>);
            let counted = counted.collect();
            let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(node.replace_children(counted, same)?))
        };
        plan.transform_up(count).data()
    }

    fn name(&self) -> &str {
        "count_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes rows on, and reserves what the window above holds of them until that drops its input.
#[derive(Clone, Debug)]
pub struct WindowInputExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether it holds all rows, or only their texts.
    all: bool,
}

impl DisplayAs for WindowInputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WindowInput: holds={}", if self.all { "rows" } else { "texts" })
    }
}

impl ExecutionPlan for WindowInputExec {
    fn name(&self) -> &str {
        "WindowInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(WindowInputExec { input, all: self.all }))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(WindowInputExec { input, all: self.all }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let consumer = MemoryConsumer::new(format!("WindowInput[{partition}]"));
        let reservation = consumer.register(context.memory_pool());
        let held = Held { all: self.all, texts: HeldTexts::default(), reservation };
        let counted = input.scan(held, |held, batch| {
            let counted = batch.and_then(|batch| held.count(&batch).map(|()| batch));
            futures::future::ready(Some(counted))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), counted.boxed())))
    }
}

struct Held {
    all: bool,
    texts: HeldTexts,
    reservation: MemoryReservation,
}

impl Held {
    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        let held = batch.columns().iter().map(|array| {
            let texts = self.texts.add(array);
            // At the end it joins all rows into one batch.
            if self.all { texts + 2 * own_bytes(array) } else { texts }
        });
        self.reservation.try_grow(held.sum())
    }
}
