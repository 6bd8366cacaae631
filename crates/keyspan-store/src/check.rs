//! Checking a data directory: every file that the manifest names exists, is undamaged and consistent.
//!
//! Rule: checking goes on after a problem, and changes nothing that is whole. It holds the directory's lock, so that
//! nobody writes meanwhile. A manifest log that cannot be read is rebuilt from the newest checkpoint, as opening the
//! store would, and that is reported. A backup is checked as it would be restored, and not changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, RelationDef, Result, SegmentId};
use uuid::Uuid;

use crate::backup::{Listing, is_backup};
use crate::files::{Files, LocalFiles, corrupted};
use crate::format::{Format, named};
use crate::log::{LogFile, LoggedMutation, Replay, decode_body, log_files, needed_files};
use crate::manifest::{Manifest, ManifestState, checkpoints, read_checkpoint};
use crate::run::IndexedColumn;
use crate::segment::{BlockCache, SEGMENT_DIRECTORY, Segment, SegmentRecord, data_path, index_path, verify_segment};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tables in the catalog.
    pub tables: usize,
    /// Segments read, all of their bytes.
    pub segments: usize,
    /// Rows in them, overwritten ones and tombstones included.
    pub segment_rows: u64,
    /// Bytes in them.
    pub segment_bytes: u64,
    /// Batches in the commit log.
    pub log_records: u64,
    /// Checkpoints of the manifest that are whole.
    pub checkpoints: usize,
    /// Files that nothing refers to; they are removed when the store is opened.
    pub left_over: Vec<String>,
    /// Files of indexes that are damaged; they are made anew while the store is open.
    pub damaged_indexes: Vec<String>,
    /// What is wrong: each names its file.
    pub problems: Vec<Error>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn note<T>(&mut self, outcome: Result<T>) -> Option<T> {
        outcome.map_err(|error| self.problems.push(error)).ok()
    }
}

/// Checks the data directory at `path`.
///
/// Errors: 55006 if a process has it open, XX002 for a newer format; damage is in the report.
pub fn check(path: impl AsRef<Path>) -> Result<CheckReport> {
    let path = path.as_ref();
    if !path.is_dir() {
        let message = format!("there is no data directory \"{}\"", path.display());
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    check_files(&(Arc::new(LocalFiles::new(path)?) as Arc<dyn Files>))
}

/// Checks a data directory in any files.
pub fn check_files(files: &Arc<dyn Files>) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let format = match Format::read(files.as_ref()) {
        Ok(Some(format)) => format,
        Ok(None) if is_backup(files.as_ref()) => return check_backup(files),
        Ok(None) => {
            let message = format!("\"{}\" is no data directory: it has no file KEYSPAN", files.display(""));
            return Err(Error::new(ErrorKind::UndefinedObject, message));
        }
        Err(error) if error.kind == ErrorKind::Corrupted => {
            report.problems.push(error);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let _lock = files.lock("LOCK")?;
    check_store(files, format.store, &mut report);
    Ok(report)
}

/// Checks everything in a data directory but its file KEYSPAN. The caller has the directory's lock.
pub fn check_store(files: &Arc<dyn Files>, store: Uuid, report: &mut CheckReport) {
    check_checkpoints(files, store, report);
    let Some(manifest) = report.note(Manifest::open(files.clone(), store)) else { return };
    if let Some(why) = manifest.rebuilt() {
        report
            .problems
            .push(corrupted(&files.display("edits"), format!("{why}; it was rebuilt from the newest checkpoint")));
    }
    check_segments(files, manifest.state(), report);
    let found = log_files(files.as_ref()).map(|found| needed_files(found, manifest.state().marks.log_start));
    let replayed = found.and_then(|found| check_log(files, store, found, manifest.state(), report));
    report.note(replayed);
}

/// Checks a backup as it would be restored.
fn check_backup(files: &Arc<dyn Files>) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let listing = match Listing::read(files.as_ref()) {
        Err(error) if error.kind != ErrorKind::Corrupted => return Err(error),
        read => report.note(read).flatten(),
    };
    if let Some(listing) = listing {
        report.checkpoints = 1;
        check_segments(files, &listing.manifest, &mut report);
        let replayed = check_log(files, listing.format.store, listing.contents.log, &listing.manifest, &mut report);
        report.note(replayed);
    }
    Ok(report)
}

fn check_checkpoints(files: &Arc<dyn Files>, store: Uuid, report: &mut CheckReport) {
    for (_, path) in report.note(checkpoints(files.as_ref())).unwrap_or_default() {
        if report.note(read_checkpoint(files.as_ref(), store, &path)).is_some() {
            report.checkpoints += 1;
        }
    }
}

fn check_segments(files: &Arc<dyn Files>, manifest: &ManifestState, report: &mut CheckReport) {
    let relations: Vec<_> = manifest.catalog.all_tables().flat_map(|table| table.relations()).collect();
    for record in manifest.segments.values() {
        let Some(relation) = relations.iter().find(|relation| relation.id == record.relation) else {
            // Its table was dropped by a change that stands in the log.
            continue;
        };
        if let Some(verified) = report.note(verify_segment(files, relation, record)) {
            report.segments += 1;
            report.segment_rows += verified.rows;
            report.segment_bytes += verified.bytes;
            check_values(files, relation, record, report);
        }
    }
    let live: BTreeSet<SegmentId> = manifest.segments.keys().copied().collect();
    let names = report.note(files.list(SEGMENT_DIRECTORY)).unwrap_or_default();
    let dead = |name: &String| {
        let id = name.split_once('.').and_then(|(id, _)| id.parse().ok()).map(SegmentId);
        id.is_none_or(|id| !live.contains(&id))
    };
    report.left_over = names.into_iter().filter(dead).map(|name| format!("{SEGMENT_DIRECTORY}/{name}")).collect();
}

/// Verifies the value indexes of a segment. No answer depends on them, so damage is no problem of the directory.
fn check_values(files: &Arc<dyn Files>, relation: &RelationDef, record: &SegmentRecord, report: &mut CheckReport) {
    let segment = Segment::new(Arc::clone(files), BlockCache::new(1 << 20), relation, record.clone());
    for column in relation.indexed.iter().filter_map(|column| IndexedColumn::new(relation, *column)) {
        if let Some(Err(error)) = segment.verify_value_index(&column) {
            report.damaged_indexes.push(error.message);
        }
    }
}

/// Reads the log, and the segments that only it names.
fn check_log(
    files: &Arc<dyn Files>,
    store: Uuid,
    found: Vec<LogFile>,
    manifest: &ManifestState,
    report: &mut CheckReport,
) -> Result<()> {
    let mut replay = Replay::new(files.clone(), store, found, manifest.marks.durable_seq);
    let mut catalog = manifest.catalog.clone();
    while let Some(record) = replay.next_record()? {
        let body = decode_body(record.kind, record.flags, &record.bytes);
        let body = body.map_err(|error| named(&files.display(&format!("log, record {}", record.seq)), error))?;
        report.log_records += 1;
        if let Some(newer) = body.catalog.filter(|_| record.seq > manifest.catalog_seq) {
            catalog = Arc::new(newer);
        }
        let loads = body.mutations.into_iter().filter_map(|mutation| match mutation {
            LoggedMutation::Load { relation, segments, .. } => Some((relation, segments)),
            _ => None,
        });
        for (relation, segments) in loads {
            if manifest.flushed.get(&relation).is_none_or(|flushed| *flushed < record.seq) {
                let segments = segments.into_iter().map(|segment| segment.placed(0, record.seq));
                check_loaded(files, catalog.relation(relation).as_ref(), segments, report);
            }
        }
    }
    report.tables = catalog.tables.len();
    Ok(())
}

/// Segments that so far only the log names.
fn check_loaded(
    files: &Arc<dyn Files>,
    relation: Option<&RelationDef>,
    segments: impl Iterator<Item = SegmentRecord>,
    report: &mut CheckReport,
) {
    for record in segments {
        report.left_over.retain(|name| ![data_path(record.id), index_path(record.id)].contains(name));
        let verified = relation.and_then(|relation| report.note(verify_segment(files, relation, &record)));
        if let Some(verified) = verified {
            report.segments += 1;
            report.segment_rows += verified.rows;
            report.segment_bytes += verified.bytes;
        }
    }
}
