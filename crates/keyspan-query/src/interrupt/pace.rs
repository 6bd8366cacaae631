//! Batches of a join's probe side, cut so that the join is busy with each for some milliseconds only.
//!
//! How many rows that are nobody knows before: it depends on how many rows of the build side each of them meets. So the time that
//! the join takes between two batches is measured, and what is delivered next is halved or doubled. Between two batches the
//! task yields.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

/// Rows of the first batch: few, as nothing is known of the join.
const FIRST: usize = 16;
/// Longer than this a batch should not keep the join busy.
const LONG: Duration = Duration::from_millis(50);
/// After a batch that took less than this, larger ones follow.
const SHORT: Duration = Duration::from_millis(10);

/// Passes its input's rows on in batches of the size that suits the join above.
#[derive(Clone, Debug)]
pub struct PaceExec {
    input: Arc<dyn ExecutionPlan>,
}

impl PaceExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> PaceExec {
        PaceExec { input }
    }
}

impl DisplayAs for PaceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pace")
    }
}

impl ExecutionPlan for PaceExec {
    fn name(&self) -> &str {
        "Pace"
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
        Ok(Arc::new(PaceExec { input: children.pop().unwrap_or_else(|| self.input.clone()) }))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(PaceExec { input: children.pop().unwrap_or_else(|| self.input.clone()) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Paced { input, rest: None, rows: FIRST, delivered: None, rested: true }))
    }
}

struct Paced {
    input: SendableRecordBatchStream,
    /// What is left of a batch that is being cut.
    rest: Option<RecordBatch>,
    /// Rows of the next piece, at most.
    rows: usize,
    /// When the last piece was delivered, and how many rows it had.
    delivered: Option<(Instant, usize)>,
    /// Whether the task has yielded since then.
    rested: bool,
}

impl Paced {
    /// Finds the next piece's size by how long the last one kept the join busy.
    fn adapt(&mut self) {
        let Some((at, rows)) = self.delivered.take() else { return };
        let busy = at.elapsed();
        if busy > LONG {
            // As much smaller as it took longer.
            let times = (busy.as_micros() / LONG.as_micros()) as usize + 1;
            self.rows = (rows / times).max(1);
        } else if busy < SHORT {
            self.rows = self.rows.saturating_mul(2);
        }
        self.rested = busy < SHORT;
    }

    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = batch.num_rows().min(self.rows);
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.delivered = Some((Instant::now(), rows));
        batch.slice(0, rows)
    }
}

impl Stream for Paced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.adapt();
        if !self.rested {
            self.rested = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(rest) => Some(Ok(rest)),
            None => ready!(self.input.poll_next_unpin(context)),
        };
        Poll::Ready(batch.map(|batch| batch.map(|batch| self.cut(batch))))
    }
}

impl RecordBatchStream for Paced {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    fn paced(rows: i32) -> Paced {
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter([("a", column)]).expect("a batch");
        let input = RecordBatchStreamAdapter::new(batch.schema(), futures::stream::iter([Ok(batch)]));
        Paced { input: Box::pin(input), rest: None, rows: usize::MAX, delivered: None, rested: true }
    }

    #[tokio::test]
    async fn a_join_that_takes_long_gets_smaller_batches_and_loses_none() {
        let mut paced = paced(8192);
        paced.rows = 4096;
        let mut sizes = Vec::new();
        while let Some(batch) = paced.next().await {
            sizes.push(batch.expect("a piece").num_rows());
            // As if the join had taken four times too long with it.
            paced.delivered = Some((Instant::now() - LONG * 3, sizes[sizes.len() - 1]));
        }
        assert_eq!(sizes.iter().sum::<usize>(), 8192);
        assert_eq!(sizes[..3], [4096, 1024, 256]);
    }

    #[tokio::test]
    async fn a_quick_join_gets_whole_batches() {
        let mut paced = paced(8192);
        assert_eq!(paced.next().await.expect("a batch").expect("rows").num_rows(), 8192);
        assert!(paced.next().await.is_none());
    }
}
