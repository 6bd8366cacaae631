//! The directory that a backup is written to.
//!
//! ```text
//! segments that are not there yet, checked ─▶ log ─▶ directories synced ─▶ listing ─▶ what it does not name is removed
//! ```
//!
//! Rules: a segment that the listing names is never changed; a file of the log may grow, since a longer one begins with
//! the same bytes. The log is written each time: its files have no checksum by which they could be known. A segment is
//! not copied again only if the listing before names it with the same record: what an interrupted backup has left is
//! copied again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, Result};
use uuid::Uuid;

use super::listing::Listing;
use super::{GoOn, copy, replace};
use crate::files::{FileLock, FileReader, Files};
use crate::segment::{SEGMENT_DIRECTORY, SegmentRecord, data_path, index_path, verify_segment_bytes};

/// Held while a backup is written.
pub const LOCK_FILE: &str = "BACKUP.LOCK";
const LOG_DIRECTORY: &str = "log";

/// Where the files of a backup come from.
pub struct BackupSource<'a> {
    /// The store's files. Those of the listing's segments stay while the backup is written.
    pub files: &'a dyn Files,
    /// The log's files, as the listing has them.
    pub log: Vec<Arc<dyn FileReader>>,
}

/// The result of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Segments in it.
    pub segments: usize,
    /// Of them, those that were not in the backup before.
    pub new_segments: usize,
    /// Bytes of everything in it.
    pub bytes: u64,
    /// Of them, those that were copied or linked now.
    pub new_bytes: u64,
    /// The last batch in it.
    pub seq: u64,
}

impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BackupReport { segments, new_segments, bytes, new_bytes, seq } = self;
        write!(f, "batch {seq} is the last in the backup: {segments} segments, {new_segments} of them new; ")?;
        write!(f, "{bytes} bytes, {new_bytes} of them new")
    }
}

/// A directory taken for a backup.
pub struct BackupTarget {
    files: Arc<dyn Files>,
    last: Option<Listing>,
    _lock: Box<dyn FileLock>,
}

impl BackupTarget {
    /// Takes a directory that is empty, or holds an earlier backup of this store, whole or not.
    ///
    /// Errors: 55006 while another backup is written there; 55000 if it holds anything else.
    pub fn take(files: Arc<dyn Files>, store: Uuid) -> Result<BackupTarget> {
        let name = files.display("");
        let refused = |what: &str| {
            Error::new(ErrorKind::ObjectNotReady, format!("directory \"{name}\" {what}"))
                .with_hint("Choose a directory that is empty or does not exist.")
        };
        let names = files.list("")?;
        if !names.is_empty() && !names.iter().any(|name| name == LOCK_FILE) {
            return Err(refused("is not empty and holds no backup"));
        }
        if names.is_empty() {
            files.create(LOCK_FILE)?.sync_data()?;
            files.sync_dir("")?;
        }
        let lock = files.lock(LOCK_FILE).map_err(|error| match error.kind {
            ErrorKind::ObjectInUse => Error::new(error.kind, format!("another backup is written to \"{name}\"")),
            _ => error,
        })?;
        let last = Listing::read(files.as_ref())?;
        if last.as_ref().is_some_and(|last| last.format.store != store) {
            return Err(refused("holds a backup of another database"));
        }
        Ok(BackupTarget { files, last, _lock: lock })
    }

    /// Writes the backup. After an error the one before is whole.
    pub fn write(&self, listing: &Listing, source: &BackupSource<'_>, go_on: GoOn<'_>) -> Result<BackupReport> {
        let report = match self.bring(listing, source, go_on) {
            Ok(report) => report,
            Err(error) => {
                // Space is given back, above all on a disk that is full now.
                self.clean(self.last.as_ref());
                return Err(error);
            }
        };
        // Until this has succeeded it is unknown which listing is there.
        listing.put(self.files.as_ref())?;
        self.clean(Some(listing));
        Ok(report)
    }

    fn bring(&self, listing: &Listing, source: &BackupSource<'_>, go_on: GoOn<'_>) -> Result<BackupReport> {
        let mut report = BackupReport { seq: listing.manifest.marks.durable_seq, ..BackupReport::default() };
        let files = self.files.as_ref();
        files.create_dir(SEGMENT_DIRECTORY)?;
        files.create_dir(LOG_DIRECTORY)?;
        for record in listing.segments() {
            go_on()?;
            report.segments += 1;
            report.bytes += record.disk_bytes();
            if !self.has_segment(record)? {
                self.bring_segment(record, source.files, go_on)?;
                report.new_segments += 1;
                report.new_bytes += record.disk_bytes();
            }
        }
        files.sync_dir(SEGMENT_DIRECTORY)?;
        for (file, reader) in listing.contents.log.iter().zip(&source.log) {
            replace(reader.as_ref(), file.bytes, files, &file.path(), go_on)?;
            report.bytes += file.bytes;
            report.new_bytes += file.bytes;
        }
        files.sync_dir(LOG_DIRECTORY)?;
        Ok(report)
    }

    fn has_segment(&self, record: &SegmentRecord) -> Result<bool> {
        let same = |own: &SegmentRecord| {
            (own.id, own.file_bytes, own.footer_crc, own.index_bytes, own.index_crc)
                == (record.id, record.file_bytes, record.footer_crc, record.index_bytes, record.index_crc)
        };
        let listed = self.last.iter().flat_map(Listing::segments).any(same);
        Ok(listed
            && self.files.len(&data_path(record.id))? == Some(record.file_bytes)
            && self.files.len(&index_path(record.id))? == Some(record.index_bytes))
    }

    fn bring_segment(&self, record: &SegmentRecord, source: &dyn Files, go_on: GoOn<'_>) -> Result<()> {
        let files = self.files.as_ref();
        for (path, length) in [(data_path(record.id), record.file_bytes), (index_path(record.id), record.index_bytes)] {
            files.remove(&path)?;
            if !files.link_from(source, &path, &path) {
                copy(source.open(&path)?.as_ref(), &[], length, files, &path, go_on)?;
            }
        }
        // Damage must not get into the backup in place of what is whole: it is the store's, or else the copy's.
        verify_segment_bytes(files, record).or_else(|error| verify_segment_bytes(source, record).and(Err(error)))
    }

    /// Removes files that the listing does not name. One that cannot be removed does no harm.
    fn clean(&self, listing: Option<&Listing>) {
        if let Err(error) = self.remove_others(listing) {
            tracing::warn!(%error, "files that belong to no backup are left in the backup's directory");
        }
    }

    fn remove_others(&self, listing: Option<&Listing>) -> Result<()> {
        let segments = listing.into_iter().flat_map(Listing::segments);
        let mut named: BTreeSet<String> =
            segments.flat_map(|record| [data_path(record.id), index_path(record.id)]).collect();
        named.extend(listing.into_iter().flat_map(|listing| &listing.contents.log).map(|file| file.path()));
        for directory in [SEGMENT_DIRECTORY, LOG_DIRECTORY] {
            let paths = self.files.list(directory)?.into_iter().map(|name| format!("{directory}/{name}"));
            paths.filter(|path| !named.contains(path)).try_for_each(|path| self.files.remove(&path))?;
        }
        Ok(())
    }
}

/// The error of a directory that is to be restored from and is no backup.
pub fn no_backup(files: &dyn Files) -> Error {
    let begun = files.len(LOCK_FILE).is_ok_and(|length| length.is_some());
    let why = if begun { "the first backup in it was not finished" } else { "it has no file BACKUP" };
    Error::new(ErrorKind::UndefinedObject, format!("\"{}\" is no backup: {why}", files.display("")))
}
