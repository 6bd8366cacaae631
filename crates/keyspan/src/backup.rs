//! Backups of an open database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyspan_model::{Error, Result};
use keyspan_store::BackupReport;

use crate::database::Database;

/// Stops the work when nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Database {
    /// Writes everything that was acknowledged before to a directory, which is made if it does not exist, while the
    /// database goes on. What an earlier backup in the directory has is not written again. Runs on one of the runtime's
    /// blocking threads; what is answered here, dropped, stops it.
    ///
    /// # Errors
    /// 55000 if the directory holds anything but a backup of this database, 55006 while another backup is written
    /// there, 53100 if there is no space, XX001 naming a damaged file. An earlier backup in the directory stays.
    pub async fn backup(&self, directory: impl Into<PathBuf>) -> Result<BackupReport> {
        let (store, directory) = (self.store().clone(), directory.into());
        let stop = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(stop.clone());
        let task = tokio::task::spawn_blocking(move || store.backup(directory, &stop));
        task.await.unwrap_or_else(|error| Err(Error::internal(format!("a backup ended early: {error}"))))
    }
}
