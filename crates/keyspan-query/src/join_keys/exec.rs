//! The node over a build side: notes its keys.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt, ready};

use crate::plan_text::expr_text;
use crate::scan::{JoinKeys, KeysOfJoins};

/// Passes the rows of its input on, and notes their keys.
#[derive(Clone, Debug)]
pub(crate) struct JoinKeysExec {
    pub(super) join: u64,
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) input: Arc<dyn ExecutionPlan>,
}

impl JoinKeysExec {
    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Arc::new(JoinKeysExec { input, ..self.clone() })
    }
}

impl DisplayAs for JoinKeysExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(expr_text).collect();
        write!(f, "JoinKeys: [{}]", keys.join(", "))
    }
}

impl ExecutionPlan for JoinKeysExec {
    fn name(&self) -> &str {
        "JoinKeys"
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.keys.iter().try_fold(TreeNodeRecursion::Continue, |next, key| match next {
            TreeNodeRecursion::Continue => f(key),
            other => Ok(other),
        })
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(children))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(children))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let noted = context.session_config().get_extension::<KeysOfJoins>().map(|keys| keys.join(self.join));
        let partitions = self.input.properties().partitioning.partition_count();
        let input = self.input.execute(partition, context)?;
        let Some(noted) = noted else { return Ok(input) };
        let open = Some(Noting { noted, keys: self.keys.clone(), partitions, wanted: true });
        Ok(Box::pin(Passing { input, open }))
    }
}

/// What is done with the rows of a partition until it ends; given up if it does not.
struct Noting {
    noted: Arc<JoinKeys>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    partitions: usize,
    wanted: bool,
}

impl Noting {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.wanted {
            let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
            self.wanted = self.noted.add(&keys.collect::<Result<Vec<_>>>()?)?;
        }
        Ok(())
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.noted.give_up();
        }
    }
}

struct Passing {
    input: SendableRecordBatchStream,
    open: Option<Noting>,
}

impl Stream for Passing {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.poll_next_unpin(context));
        match &next {
            Some(Ok(batch)) => {
                if let Some(Err(error)) = self.open.as_mut().map(|open| open.add(batch)) {
                    return Poll::Ready(Some(Err(error)));
                }
            }
            Some(Err(_)) => {}
            None => {
                if let Some(open) = self.open.take() {
                    open.noted.end(open.partitions);
                }
            }
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Passing {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
