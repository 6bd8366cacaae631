//! Restoring: a backup becomes a data directory.
//!
//! ```text
//! segments, log up to the moment asked for ─▶ checkpoint ─▶ all of it verified ─▶ KEYSPAN
//! ```
//!
//! Rules: the file `KEYSPAN` comes last, so that what was not verified to its end cannot be opened. The new store has
//! an id of its own, which its log and checkpoints carry: the old and the new one give the same ids to different
//! segments from now on, and a backup of one must never go on with a backup of the other.
//!
//! A moment can be chosen that lies in the backup's log: behind the last batch of which any effect stands in a segment
//! or in the manifest, since merged batches cannot be separated again.

use std::path::Path;
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, Result, timestamp_text};

use crate::backup::{Listing, copy, no_backup};
use crate::check::{CheckReport, check_store};
use crate::files::{ASIDE, FileLock, Files, LocalFiles};
use crate::format::{FORMAT_FILE, Format};
use crate::log::{LogFile, Replay, file_header};
use crate::manifest::{CHECKPOINT_DIRECTORY, Items, TombstonePack, write_checkpoint};
use crate::segment::{SEGMENT_DIRECTORY, data_path, index_path};

const LOCK: &str = "LOCK";
const LOG_DIRECTORY: &str = "log";

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// What was found in the new directory: no problems.
    pub check: CheckReport,
    /// When the backup was taken, in microseconds.
    pub taken_at: i64,
    /// The last batch that was restored.
    pub seq: u64,
}

/// Makes a data directory at `data` of the backup at `from`, as it was when the backup was taken, or as of `until`, in
/// microseconds.
///
/// Errors: 42704 if there is no backup, 55000 if `data` is not empty, 22023 if the backup's log does not reach to
/// `until`, `Corrupted` naming what is damaged. After an error nothing can be opened there.
pub fn restore(from: impl AsRef<Path>, data: impl AsRef<Path>, until: Option<i64>) -> Result<RestoreReport> {
    let from = from.as_ref();
    if !from.is_dir() {
        let message = format!("there is no backup \"{}\"", from.display());
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    let from: Arc<dyn Files> = Arc::new(LocalFiles::new(from)?);
    restore_files(&from, &(Arc::new(LocalFiles::new(data.as_ref())?) as Arc<dyn Files>), until)
}

/// Whether a restore into this directory was begun and not finished.
pub fn is_half_restored(files: &dyn Files) -> bool {
    let has = |path: &str| files.len(path).is_ok_and(|length| length.is_some());
    has(&marker()) && !has(FORMAT_FILE)
}

/// As [`restore`], in any files.
pub fn restore_files(from: &Arc<dyn Files>, to: &Arc<dyn Files>, until: Option<i64>) -> Result<RestoreReport> {
    let mut listing = Listing::read(from.as_ref())?.ok_or_else(|| no_backup(from.as_ref()))?;
    let taken_at = listing.contents.taken_at;
    if let Some(until) = until {
        let cut = cut(from, &listing, until)?;
        cut.apply(&mut listing);
    }
    let _lock = begin(to)?;
    let format = Format { store: Format::new().store, ..listing.format };
    let restored = bring(from.as_ref(), to, &listing, format).and_then(|check| {
        format.put(to.as_ref())?;
        Ok(RestoreReport { check, taken_at, seq: listing.manifest.marks.durable_seq })
    });
    let left = if restored.is_ok() { to.remove(&marker()) } else { clear(to.as_ref()) };
    if let Err(error) = left {
        tracing::warn!(%error, "files of a restore are left");
    }
    restored
}

/// Its ending makes opening a store remove it.
fn marker() -> String {
    format!("RESTORING{ASIDE}")
}

fn begin(to: &Arc<dyn Files>) -> Result<Box<dyn FileLock>> {
    let half = is_half_restored(to.as_ref());
    if !half && to.list("")?.iter().any(|name| name != LOCK) {
        let message = format!("directory \"{}\" is not empty", to.display(""));
        return Err(Error::new(ErrorKind::ObjectNotReady, message)
            .with_hint("Restore into a directory that is empty or does not exist."));
    }
    let lock = to.lock(LOCK)?;
    if half {
        clear(to.as_ref())?;
    }
    to.create(&marker())?.sync_data()?;
    to.sync_dir("")?;
    Ok(lock)
}

/// Removes everything that a restore has brought.
fn clear(to: &dyn Files) -> Result<()> {
    for directory in [SEGMENT_DIRECTORY, LOG_DIRECTORY, CHECKPOINT_DIRECTORY] {
        to.list(directory)?.iter().try_for_each(|name| to.remove(&format!("{directory}/{name}")))?;
        to.remove_dir(directory)?;
    }
    to.remove_dir("edits")?;
    to.remove(&marker())?;
    to.sync_dir("")
}

fn bring(from: &dyn Files, to: &Arc<dyn Files>, listing: &Listing, format: Format) -> Result<CheckReport> {
    let go_on = || Ok(());
    let files = to.as_ref();
    [SEGMENT_DIRECTORY, LOG_DIRECTORY, CHECKPOINT_DIRECTORY].iter().try_for_each(|path| files.create_dir(path))?;
    for record in listing.segments() {
        for (path, bytes) in [(data_path(record.id), record.file_bytes), (index_path(record.id), record.index_bytes)] {
            copy(from.open(&path)?.as_ref(), &[], bytes, files, &path, &go_on)?;
        }
    }
    for file in &listing.contents.log {
        let header = file_header(format.store, file.first_seq);
        copy(from.open(&file.path())?.as_ref(), &header, file.bytes, files, &file.path(), &go_on)?;
    }
    files.sync_dir(SEGMENT_DIRECTORY)?;
    files.sync_dir(LOG_DIRECTORY)?;
    write_checkpoint(files, format.store, &Items { edit: listing.manifest.edit, items: listing.manifest.items()? })?;
    let mut check = CheckReport::default();
    check_store(to, format.store, &mut check);
    match check.problems.first() {
        None => Ok(check),
        Some(problem) => {
            let message = format!("the backup \"{}\" is damaged, and nothing was restored", from.display(""));
            Err(Error::new(ErrorKind::Corrupted, message)
                .with_detail(problem.message.clone())
                .with_hint("The file has this name in the backup too. Restore another backup."))
        }
    }
}

/// Where the log is cut off.
struct Cut {
    /// The last batch that is kept.
    seq: u64,
    /// The files that hold it and those before it.
    log: Vec<LogFile>,
}

impl Cut {
    fn apply(self, listing: &mut Listing) {
        let seq = self.seq;
        listing.contents.log = self.log;
        listing.contents.loaded.retain(|record| record.meta.seq.1 <= seq);
        let manifest = &mut listing.manifest;
        // Batches after this one are others than those that the relations had flushed.
        manifest.flushed.values_mut().for_each(|flushed| *flushed = seq.min(*flushed));
        manifest.marks.durable_seq = seq;
        manifest.marks.log_start = manifest.marks.log_start.min(seq + 1);
    }
}

/// Finds the last batch of the backup that was written at or before `until`.
fn cut(from: &Arc<dyn Files>, listing: &Listing, until: i64) -> Result<Cut> {
    let manifest = &listing.manifest;
    let merged = manifest.segments.values().map(|record| record.meta.seq.1);
    let least = merged
        .chain(manifest.tombstones.values().map(TombstonePack::last_seq))
        .max()
        .unwrap_or(0)
        .max(manifest.catalog_seq);
    let mut replay =
        Replay::new(from.clone(), listing.format.store, listing.contents.log.clone(), manifest.marks.durable_seq);
    let (mut earliest, mut found) = (None, None);
    while let Some(record) = replay.next_record()? {
        // Without the last batch that is merged, the earliest moment known is that of the first one after it.
        if record.seq <= least || earliest.is_none() {
            earliest = Some(record.timestamp);
        }
        if record.timestamp <= until && record.seq <= manifest.marks.durable_seq {
            found = Some(Cut { seq: record.seq, log: replay.read_files().to_vec() });
        }
    }
    let earliest = earliest.unwrap_or(listing.contents.taken_at);
    if until < earliest || until > listing.contents.taken_at {
        let moment = |micros| timestamp_text(micros, 0);
        let message = format!("the backup cannot be restored as of {}", moment(until));
        return Err(Error::new(ErrorKind::InvalidParameter, message).with_hint(format!(
            "Its log allows any moment from {} to {}.",
            moment(earliest),
            moment(listing.contents.taken_at)
        )));
    }
    Ok(found.unwrap_or(Cut { seq: manifest.marks.durable_seq, log: listing.contents.log.clone() }))
}
