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
