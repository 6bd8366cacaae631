//! Repair: a damaged data directory becomes one that verifies, with everything that is not damaged.
//!
//! ```text
//! KEYSPAN ─▶ checkpoints, manifest log ─▶ log ─▶ opened, all of it flushed ─▶ segments ─▶ closed ─▶ checked
//! ```
//!
//! Rules: nothing that is damaged is thrown away: it is put into `damaged/`. What is lost is counted and named. Where
//! the state of the database is unknown, as without a whole checkpoint, nothing is changed and the error says so.

mod log;

use std::path::Path;
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, Result};
use uuid::Uuid;

use crate::check::{CheckReport, check_files};
use crate::engine::{EmbeddedStore, StoreOptions};
use crate::files::{DAMAGED, Files, LocalFiles, keep_damaged};
use crate::format::{FORMAT_FILE, Format};
use crate::log::log_files;
use crate::manifest::{Edit, Manifest, ManifestState, Marks, checkpoint_store, checkpoints, read_checkpoint};
use crate::segment::{data_path, index_path};

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What was done, a sentence each.
    pub done: Vec<String>,
    /// Rows of segments that are lost, overwritten ones and tombstones included.
    pub rows_lost: u64,
    /// Batches of the commit log that are lost.
    pub batches_lost: u64,
    /// What is found in the directory now.
    pub check: CheckReport,
}

/// Repairs the data directory at `path`.
///
/// Errors: 55006 if a process has it open, XX002 for a newer format, `Corrupted` if too much is damaged.
pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
    let path = path.as_ref();
    if !path.is_dir() {
        let message = format!("there is no data directory \"{}\"", path.display());
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    repair_files(&(Arc::new(LocalFiles::new(path)?) as Arc<dyn Files>), StoreOptions::default())
}

/// Repairs a data directory in any files.
pub fn repair_files(files: &Arc<dyn Files>, options: StoreOptions) -> Result<RepairReport> {
    let mut report = RepairReport::default();
    {
        let _lock = files.lock("LOCK")?;
        let store = repair_format(files.as_ref(), &mut report)?;
        let state = repair_manifest(files, store, &mut report)?;
        log::repair(files, store, &state, &mut report)?;
    }
    let opened = EmbeddedStore::open_files(files.clone(), StoreOptions { background: false, ..options });
    let store = opened.map_err(|error| too_much_lost(error, &report))?;
    let repaired = store.repair_segments();
    let closed = store.close();
    let segments = repaired?;
    closed?;
    report.rows_lost += segments.rows_lost;
    report.done.extend(segments.done);
    report.check = check_files(files)?;
    Ok(report)
}

/// Batches after a lost catalog change cannot be decoded.
fn too_much_lost(error: Error, report: &RepairReport) -> Error {
    if report.batches_lost == 0 {
        return error;
    }
    Error::new(ErrorKind::Corrupted, "too much of the commit log is lost to open the database")
        .with_detail(error.message)
        .with_hint(format!("Restore a backup. The files as they were are in the directory \"{DAMAGED}\"."))
}

/// Rebuilds a damaged file KEYSPAN with the store id of a checkpoint.
fn repair_format(files: &dyn Files, report: &mut RepairReport) -> Result<Uuid> {
    let error = match Format::read(files) {
        Ok(Some(format)) => return Ok(format.store),
        Ok(None) => {
            let message = format!("\"{}\" is no data directory: it has no file KEYSPAN", files.display(""));
            return Err(Error::new(ErrorKind::UndefinedObject, message));
        }
        Err(error) if error.kind == ErrorKind::Corrupted => error,
        Err(error) => return Err(error),
    };
    let mut stores = checkpoints(files)?.into_iter().rev().filter_map(|(_, path)| checkpoint_store(files, &path));
    let Some(store) = stores.next() else { return Err(error) };
    report.done.push(keep_damaged(files, FORMAT_FILE)?);
    files.remove(FORMAT_FILE)?;
    Format { store, ..Format::new() }.put(files)?;
    report.done.push("the file KEYSPAN was rebuilt from a checkpoint".to_string());
    Ok(store)
}

/// Takes damaged checkpoints away and rebuilds a damaged manifest log; returns what the manifest says then.
fn repair_manifest(files: &Arc<dyn Files>, store: Uuid, report: &mut RepairReport) -> Result<ManifestState> {
    let mut damaged = checkpoints(files.as_ref())?;
    damaged.retain(|(_, path)| {
        let read = read_checkpoint(files.as_ref(), store, path);
        read.is_err_and(|error| error.kind == ErrorKind::Corrupted)
    });
    for (_, path) in &damaged {
        files.rename(path, &format!("{path}.damaged"))?;
    }
    let opened = Manifest::open(files.clone(), store);
    let usable = opened.and_then(|mut manifest| {
        if damaged.last().is_some_and(|(number, _)| *number > manifest.state().edit) {
            reach_back(files.as_ref(), &mut manifest)?;
        }
        Ok(manifest)
    });
    let manifest = match usable {
        Ok(manifest) => manifest,
        Err(error) => {
            damaged.iter().try_for_each(|(_, path)| files.rename(&format!("{path}.damaged"), path))?;
            return Err(match error.kind {
                ErrorKind::Corrupted => error.with_hint("Too much is damaged to repair it. Restore a backup."),
                _ => error,
            });
        }
    };
    for (_, path) in &damaged {
        let aside = format!("{path}.damaged");
        report.done.push(keep_damaged(files.as_ref(), &aside)?);
        files.remove(&aside)?;
    }
    if let Some(why) = manifest.rebuilt() {
        report.done.push(format!("the manifest log was rebuilt from the newest checkpoint: {why}"));
    }
    Ok(manifest.state().clone())
}

/// The newest checkpoint may be lost. An older state is enough if all of its segments are there, and the log holds what
/// came after it.
fn reach_back(files: &dyn Files, manifest: &mut Manifest) -> Result<()> {
    let state = manifest.state();
    for record in state.segments.values() {
        for (path, bytes) in [(data_path(record.id), record.file_bytes), (index_path(record.id), record.index_bytes)] {
            if files.len(&path)? != Some(bytes) {
                let what = "the newest checkpoint is damaged, and of the one before";
                return Err(Error::new(ErrorKind::Corrupted, format!("{what} the file \"{path}\" is gone")));
            }
        }
    }
    let Some(first) = log_files(files)?.into_iter().map(|file| file.first_seq).min() else { return Ok(()) };
    if first > state.marks.log_start.max(1) {
        // The damaged checkpoint was that of a shorter log: it was shortened only by what had been flushed.
        let marks = Marks { log_start: first, ..Marks::default() };
        manifest.commit(Edit { marks, ..Edit::default() }, true)?;
    }
    Ok(())
}
