//! Opening a store: the acknowledged state is recovered from disk.
//!
//! ```text
//! KEYSPAN known? ─▶ lock ─▶ manifest ─▶ replay of the log, flushing as memory fills ─▶ left-overs removed ─▶ open
//! ```
//!
//! Replaying is idempotent: what a relation has flushed is passed over by its seq, so a crash while replaying, or
//! between a flush and the shortening of the log, changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};

use keyspan_model::{Error, ErrorKind, Result, SegmentId};
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Notify;

use super::core::{Core, WorkerRequests};
use super::lane::Lane;
use super::options::StoreOptions;
use super::staging::{last_statement, stage};
use super::version::{Published, RelationVersion, Schema};
use crate::backup::is_backup;
use crate::files::{ASIDE, FileLock, Files, corrupted, with_reserve};
use crate::format::{Format, named};
use crate::log::{CommitLog, LogOptions, Record, Replay, decode_body, log_files, needed_files};
use crate::manifest::{CHECKPOINT_DIRECTORY, Edit, Manifest, ManifestState, Marks};
use crate::restore::is_half_restored;
use crate::segment::{BlockCache, SEGMENT_DIRECTORY, Segment, segment_of};

const LOCK_FILE: &str = "LOCK";
const LOG_DIRECTORY: &str = "log";

impl Core {
    /// Opens what is in these files.
    pub fn open(files: Arc<dyn Files>, mut options: StoreOptions) -> Result<Arc<Core>> {
        // Several files, so that the log can be shortened long before it reaches its limit.
        options.log_file = options.log_file.min(options.log_limit / 4).max(1 << 12);
        Format::read(files.as_ref())?;
        let lock = files.lock(LOCK_FILE)?;
        let format = match Format::read(files.as_ref())? {
            Some(format) => format,
            None => new_store(files.as_ref())?,
        };
        // Its name may not be durable yet, if creating it failed at the last step.
        files.sync_dir("")?;
        let manifest = Manifest::open(files.clone(), format.store)?;
        let core = Arc::new(Core::of(files, options, format, manifest, lock)?);
        core.replay()?;
        core.clear_leftovers()?;
        core.look_at_disk();
        Ok(core)
    }

    fn of(
        files: Arc<dyn Files>,
        options: StoreOptions,
        format: Format,
        manifest: Manifest,
        lock: Box<dyn FileLock>,
    ) -> Result<Core> {
        let cache = BlockCache::new(options.cache_budget);
        let state = published(&files, &cache, manifest.state());
        let marks = manifest.state().marks;
        let lane = Lane {
            seq: state.last_seq,
            timestamp: marks.timestamp,
            clock: marks.read_time,
            schema: state.schema.clone(),
            passed_over: BTreeSet::new(),
            closed: None,
        };
        let next_segment = marks.next_segment.max(greatest_segment(files.as_ref())? + 1);
        Ok(Core {
            files,
            options,
            store: format.store,
            cache,
            lane: Mutex::new(lane),
            state: Arc::new(Mutex::new(state)),
            manifest: Mutex::new(manifest),
            flushing: Mutex::new(()),
            compacting: Mutex::new(()),
            indexing: Mutex::new(()),
            swept: AtomicU64::new(u64::MAX),
            loads: RwLock::new(()),
            next_segment: AtomicU64::new(next_segment),
            graveyard: Mutex::default(),
            doubtful: Mutex::default(),
            work: Mutex::new(WorkerRequests::default()),
            wake: Condvar::new(),
            room: Notify::new(),
            stuck: Mutex::new(None),
            disk_low: AtomicBool::new(false),
            disk_out: AtomicBool::new(false),
            aborting: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            seen: Mutex::default(),
            compactions: AtomicU64::new(0),
            commit_log: OnceLock::new(),
            lock: Mutex::new(Some(lock)),
        })
    }

    fn replay(&self) -> Result<()> {
        let marks = self.manifest.lock().state().marks;
        let found = needed_files(log_files(self.files.as_ref())?, marks.log_start);
        check_log_start(self.files.as_ref(), found.first().map(|file| file.first_seq), marks)?;
        let mut replay = Replay::new(self.files.clone(), self.store, found, marks.durable_seq);
        // Not what the manifest says to be durable: a flush on the way holds no more than what was replayed by then.
        self.lane.lock().seq = replay.last();
        while let Some(record) = replay.next_record()? {
            self.replay_record(record)?;
        }
        let (last, kept) = replay.finish();
        self.reached(last);
        let options = LogOptions {
            store: self.store,
            file_bytes: self.options.log_file,
            frame_bytes: self.options.log_frame,
            threads: self.options.threads,
        };
        let state = self.state.clone();
        let on_durable = Box::new(move |seq| state.lock().show(seq));
        let log = CommitLog::start(self.files.clone(), options, last, kept, on_durable)?;
        self.commit_log.set(log).map_err(|_| Error::internal("a log was started twice"))
    }

    fn replay_record(&self, record: Record) -> Result<()> {
        let Record { seq, timestamp, clock, kind, flags, bytes } = record;
        let body = decode_body(kind, flags, &bytes).map_err(|error| named(&format!("log, record {seq}"), error))?;
        drop(bytes);
        if let Some(catalog) = body.catalog {
            self.replay_schema(seq, Schema::new(Arc::new(catalog)));
        }
        let schema = self.lane.lock().schema.clone();
        let staged = stage(&schema, body.mutations)?;
        let last = timestamp + i64::from(last_statement(&staged));
        self.place(staged, seq, timestamp, clock)?;
        {
            let mut lane = self.lane.lock();
            lane.timestamp = lane.timestamp.max(last);
            lane.clock = lane.clock.max(clock);
        }
        self.reached(seq);
        self.replay_flush()
    }

    fn replay_schema(&self, seq: u64, schema: Arc<Schema>) {
        let mut lane = self.lane.lock();
        let mut state = self.state.lock();
        if seq <= state.schema_seq {
            return;
        }
        state.begin_relations(&schema);
        (state.schema, state.schema_seq) = (schema.clone(), seq);
        lane.schema = schema;
    }

    fn reached(&self, seq: u64) {
        let mut lane = self.lane.lock();
        let mut state = self.state.lock();
        lane.seq = lane.seq.max(seq);
        state.last_seq = lane.seq;
        state.timestamp = state.timestamp.max(lane.timestamp);
        state.read_time = state.read_time.max(lane.clock);
        let last = state.last_seq;
        state.show(last);
    }

    /// Keeps memory within half of its budget while the log is replayed.
    fn replay_flush(&self) -> Result<()> {
        loop {
            let largest = {
                let state = self.state.lock();
                if state.memory < self.options.memory_budget / 2 {
                    return Ok(());
                }
                let sizes = state.version.iter().map(|(id, relation)| (relation.memory(), *id));
                sizes.max()
            };
            match largest {
                Some((memory, id)) if memory > 0 => match self.flush_relation(id) {
                    // Opening must succeed, since only an open store can free space. The log bounds the memory.
                    Err(error) if error.kind == ErrorKind::DiskFull => return Ok(()),
                    flushed => flushed?,
                },
                _ => return Ok(()),
            }
        }
    }

    /// Removes files that the manifest does not name, drops relations that are named no more, and counts the epoch up.
    fn clear_leftovers(&self) -> Result<()> {
        let (live, dead) = {
            let manifest = self.manifest.lock();
            let state = manifest.state();
            let mut live: BTreeSet<SegmentId> = state.segments.keys().copied().collect();
            // Those that so far only the log names.
            let version = self.state.lock().version.clone();
            live.extend(version.values().flat_map(|relation| &relation.segments).map(|segment| segment.id()));
            (live, state.dead.iter().copied().collect::<Vec<_>>())
        };
        let names = self.files.list(SEGMENT_DIRECTORY)?;
        let mut left: BTreeSet<SegmentId> =
            names.iter().filter_map(|name| segment_of(name)).filter(|id| !live.contains(id)).collect();
        // The edit comes first: it holds the ids of what is removed after it, so that none is used again.
        let begun = match self.begin_epoch() {
            Err(error) if error.kind == ErrorKind::DiskFull => {
                // The greatest stays, and so its id stays known.
                let last = left.pop_last();
                left.iter().try_for_each(|id| self.remove_segment(*id))?;
                left.extend(last);
                self.begin_epoch()
            }
            begun => begun,
        };
        if !opened_on_full_disk(&begun)? {
            return Ok(());
        }
        self.remove_left(&left)?;
        if !dead.is_empty() {
            self.manifest.lock().commit(Edit { buried: dead, ..Edit::default() }, false)?;
        }
        self.commit_catalog()?;
        self.shorten_log()
    }

    fn begin_epoch(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let marks = Marks { epoch: manifest.state().marks.epoch + 1, ..self.marks() };
        let edit = Edit { marks, ..self.edit(&manifest) };
        manifest.commit(edit, true)
    }

    fn remove_left(&self, segments: &BTreeSet<SegmentId>) -> Result<()> {
        segments.iter().try_for_each(|id| self.remove_segment(*id))?;
        if !segments.is_empty() {
            self.files.sync_dir(SEGMENT_DIRECTORY)?;
        }
        for directory in ["", CHECKPOINT_DIRECTORY] {
            let names = self.files.list(directory)?;
            for name in names.iter().filter(|name| name.ends_with(ASIDE)) {
                self.files.remove(&if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") })?;
            }
        }
        let log_start = self.manifest.lock().state().marks.log_start;
        let found = log_files(self.files.as_ref())?;
        let first = needed_files(found.clone(), log_start).first().map(|file| file.first_seq);
        let dead = found.iter().filter(|file| first.is_some_and(|first| file.first_seq < first));
        dead.into_iter().try_for_each(|file| self.files.remove(&file.path()))
    }
}

/// Whether the rest of opening can go on; on a full disk it is left for the time when space was freed.
fn opened_on_full_disk(begun: &Result<()>) -> Result<bool> {
    match begun {
        Ok(()) => Ok(true),
        Err(error) if error.kind == ErrorKind::DiskFull => {
            tracing::warn!(%error, "opened on a full disk: free space, or DROP or TRUNCATE tables");
            Ok(false)
        }
        Err(error) => Err(error.clone()),
    }
}

fn new_store(files: &dyn Files) -> Result<Format> {
    let known = |name: &&String| ["log", "manifest", "seg", "edits"].contains(&name.as_str());
    if is_backup(files) || is_half_restored(files) {
        let what = if is_backup(files) { "holds a backup" } else { "was not restored to the end" };
        let message = format!("\"{}\" is no data directory: it {what}", files.display(""));
        let hint = "Run keyspan restore --from BACKUP --data DIRECTORY, and open that directory then.";
        return Err(Error::new(ErrorKind::ObjectNotReady, message).with_hint(hint));
    }
    if let Some(name) = files.list("")?.iter().find(known) {
        let message = format!("there is \"{}\" but no file \"KEYSPAN\" beside it", files.display(name));
        return Err(Error::new(ErrorKind::Corrupted, message)
            .with_hint("Restore the file KEYSPAN, or choose an empty directory."));
    }
    // The file comes first: a directory with it and nothing else is an empty store.
    let format = Format::new();
    format.put(files)?;
    Ok(format)
}

fn published(files: &Arc<dyn Files>, cache: &Arc<BlockCache>, manifest: &ManifestState) -> Published {
    let schema = Schema::new(manifest.catalog.clone());
    let mut version = std::collections::BTreeMap::new();
    for (id, definition) in &schema.relations {
        let mut relation = RelationVersion::new(definition.clone());
        relation.flushed = manifest.flushed.get(id).copied().unwrap_or(0);
        version.insert(*id, relation);
    }
    for record in manifest.segments.values() {
        if let Some(relation) = version.get_mut(&record.relation) {
            let segment = Segment::new(files.clone(), cache.clone(), &relation.definition, record.clone());
            relation.segments.push(Arc::new(segment));
        }
    }
    for (id, relation) in &mut version {
        let packs = manifest.tombstones.range((*id, 0, 0)..=(*id, u64::MAX, u32::MAX));
        relation.tombstones.extend(packs.flat_map(|(_, pack)| pack.tombstones()).cloned());
    }
    Published {
        version: Arc::new(version.into_iter().map(|(id, relation)| (id, Arc::new(relation))).collect()),
        schema,
        schema_seq: manifest.catalog_seq,
        pending: std::collections::VecDeque::new(),
        visible: manifest.marks.durable_seq,
        last_seq: manifest.marks.durable_seq,
        timestamp: manifest.marks.timestamp,
        read_time: manifest.marks.read_time,
        memory: 0,
    }
}

fn check_log_start(files: &dyn Files, first: Option<u64>, marks: Marks) -> Result<()> {
    let needed = marks.log_start.max(1);
    match first {
        Some(first) if first > needed => {
            let what = format!("it begins with batch {first}, but batch {needed} must be in it: a file is missing");
            Err(corrupted(&files.display(LOG_DIRECTORY), what))
        }
        None if marks.durable_seq >= needed => {
            let what = format!("it is empty, but batches {needed} to {} must be in it", marks.durable_seq);
            Err(corrupted(&files.display(LOG_DIRECTORY), what))
        }
        _ => {
            with_reserve(files, || files.create_dir(LOG_DIRECTORY))?;
            with_reserve(files, || files.create_dir(SEGMENT_DIRECTORY))
        }
    }
}

fn greatest_segment(files: &dyn Files) -> Result<u64> {
    let names = files.list(SEGMENT_DIRECTORY)?;
    Ok(names.iter().filter_map(|name| segment_of(name)).map(|id| id.0).max().unwrap_or(0))
}
