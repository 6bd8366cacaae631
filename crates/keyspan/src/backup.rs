//! Backups of an open database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyspan_model::{Error, Result};
use keyspan_store::BackupReport;
use tokio::task::JoinHandle;

use crate::cancel::Running;
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
    /// there, 53100 if there is no space, XX001 naming a damaged file, 0A000 for a store that is not the
    /// embedded one. An earlier backup in the directory stays.
    pub async fn backup(&self, directory: impl Into<PathBuf>) -> Result<BackupReport> {
        let (task, _stop) = self.begin_backup(directory.into())?;
        ended(task).await
    }

    /// [`Database::backup`] by a statement: one that is cancelled ends when the directory is left.
    pub(crate) async fn backup_by(&self, running: &Running, directory: PathBuf) -> Result<BackupReport> {
        let (task, stop) = self.begin_backup(directory)?;
        let mut task = std::pin::pin!(ended(task));
        let error = tokio::select! {
            biased;
            error = running.ended() => error,
            result = &mut task => return result,
        };
        drop(stop);
        // It may have been done by then.
        task.await.map_err(|_| error)
    }

    fn begin_backup(&self, directory: PathBuf) -> Result<(JoinHandle<Result<BackupReport>>, StopOnDrop)> {
        let store = self.embedded("backups")?.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        Ok((tokio::task::spawn_blocking(move || store.backup(directory, &told)), StopOnDrop(stop)))
    }
}

async fn ended(task: JoinHandle<Result<BackupReport>>) -> Result<BackupReport> {
    task.await.unwrap_or_else(|error| Err(Error::internal(format!("a backup ended early: {error}"))))
}
