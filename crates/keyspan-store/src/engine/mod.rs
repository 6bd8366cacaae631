//! The embedded store: one directory, one process, one apply lane.

mod options;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use keyspan_model::{Applied, Catalog, Error, Result, WriteBatch};

use crate::seam::{Caps, ReadAt, Snapshot, Store};

pub use options::{RelationStats, StoreOptions, StoreStats};

/// A store in a directory of this machine, or in memory.
#[derive(Debug)]
pub struct EmbeddedStore {
    caps: Caps,
    catalog: Arc<Catalog>,
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is made if it does not exist. Blocks while the commit log is replayed.
    ///
    /// Errors: 55006 if another process has it open, XX002 for a newer format, XX001 naming the damaged file.
    pub fn open(_path: impl AsRef<Path>, _options: StoreOptions) -> Result<Arc<EmbeddedStore>> {
        Err(Error::not_supported("the store cannot be opened yet"))
    }

    /// A store in memory, gone when it is dropped.
    pub fn in_memory(_options: StoreOptions) -> Result<Arc<EmbeddedStore>> {
        let caps = Caps { global_key_order: true, snapshots: true, atomic_batches: true, timestamp_step: 1 };
        Ok(Arc::new(EmbeddedStore { caps, catalog: Arc::new(Catalog::initial()) }))
    }

    /// Waits for what is under way, makes everything durable and frees the directory. Later calls fail.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }

    /// What the store tells of itself.
    pub fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }

    async fn change(&self, _base: u64, _next: Catalog, _batch: Option<WriteBatch>) -> Result<Arc<Catalog>> {
        Err(Error::not_supported("the catalog cannot be changed yet"))
    }

    async fn apply(&self, _batch: WriteBatch) -> Result<Applied> {
        Err(Error::not_supported("nothing can be written yet"))
    }

    fn snapshot(&self, _at: ReadAt) -> Result<Arc<dyn Snapshot>> {
        Err(Error::not_supported("nothing can be read yet"))
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn compact(&self) -> Result<()> {
        Ok(())
    }
}
