//! Rows that are kept to be read several times.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::memory::{HeldTexts, own_bytes};

/// Rows in memory, as many as there is memory for, the others on disk.
pub struct Rows {
    batches: Vec<RecordBatch>,
    on_disk: Option<Arc<dyn SpillFile>>,
    manager: SpillManager,
    _memory: MemoryReservation,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_disk = self.on_disk.is_some();
        f.debug_struct("Rows").field("batches", &self.batches.len()).field("on_disk", &on_disk).finish_non_exhaustive()
    }
}

impl Rows {
    /// All rows of a stream, whose memory is set aside under this name.
    pub(crate) async fn read(
        name: String,
        mut stream: SendableRecordBatchStream,
        context: &TaskContext,
        metrics: SpillMetrics,
    ) -> Result<Rows> {
        let manager = SpillManager::new(context.runtime_env(), metrics, stream.schema());
        let memory = MemoryConsumer::new(&name).with_can_spill(true).register(context.memory_pool());
        let (mut batches, mut texts, mut file) = (Vec::new(), HeldTexts::default(), None);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if file.is_none() {
                let bytes = batch.columns().iter().map(|array| texts.add(array) + own_bytes(array)).sum();
                if memory.try_grow(bytes).is_ok() {
                    batches.push(batch);
                    continue;
                }
            }
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(manager.create_in_progress_file(&name)?),
            };
            file.append_batch(&batch)?;
        }
        let on_disk = file.map(|mut file| file.finish()).transpose()?.flatten();
        Ok(Rows { batches, on_disk, manager, _memory: memory })
    }

    /// The rows.
    pub(crate) fn stream(&self) -> Result<SendableRecordBatchStream> {
        let in_memory = futures::stream::iter(self.batches.clone().into_iter().map(Ok));
        let rows = match &self.on_disk {
            Some(file) => in_memory.chain(self.manager.read_spill_as_stream(file.clone(), None)?).boxed(),
            None => in_memory.boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.manager.schema().clone(), rows)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
    use futures::TryStreamExt;

    use super::*;

    fn batch(number: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(number * 1000..number * 1000 + 1000));
        let texts = (0..1000).map(|row| (row % 3 > 0).then(|| format!("a text of some length {number} {row}")));
        RecordBatch::try_from_iter_with_nullable([
            ("n", numbers, false),
            ("t", Arc::new(StringViewArray::from_iter(texts)), true),
        ])
        .expect("a batch")
    }

    #[tokio::test]
    async fn what_gets_no_memory_is_read_from_disk_as_often_as_it_is_asked_for() {
        let batches: Vec<RecordBatch> = (0..10).map(batch).collect();
        for (memory, on_disk) in [(100 << 20, false), (200 << 10, true), (0, true)] {
            let environment = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(memory)));
            let environment = Arc::new(environment.build().expect("an environment"));
            let context = TaskContext::default().with_runtime(environment);
            let stream = futures::stream::iter(batches.clone().into_iter().map(Ok));
            let stream = Box::pin(RecordBatchStreamAdapter::new(batches[0].schema(), stream));
            let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
            let rows = Rows::read("rows".into(), stream, &context, metrics).await.expect("rows");
            assert_eq!(rows.on_disk.is_some(), on_disk, "{memory}");
            for _ in 0..2 {
                let read: Vec<RecordBatch> = rows.stream().expect("a stream").try_collect().await.expect("rows");
                assert_eq!(read, batches, "{memory}");
            }
        }
    }
}
