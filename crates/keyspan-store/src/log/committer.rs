//! The committer: one thread that writes all waiting records, syncs once, and acknowledges them (group commit).
//!
//! ```text
//! apply lane ──push──▶ queue ──take all──▶ one write ──▶ one fdatasync ──▶ durable(seq) ──▶ answers
//!                        ▲ meanwhile the next group gathers
//! ```
//!
//! Without threads the callers do the same ([`CommitLog::step`], [`CommitLog::wait`]), so that a test's run is the same
//! every time.
//!
//! A relaxed record is acknowledged when it is pushed; it goes out with the next group, and a group of relaxed records
//! only is synced when [`RELAXED_SYNC`] has passed or somebody waits.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::codec::Record;
use super::frame::{FILE_HEADER, FrameHeader, commit_frame, file_header, frames_of, put_frame};
use super::replay::{LogFile, file_path};
use crate::files::{FileWriter, Files, with_reserve};

/// How the log writes.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The store's id, which every file carries.
    pub store: Uuid,
    /// Bytes after which a new file is begun.
    pub file_bytes: u64,
    /// Greatest length of a frame's body in bytes; longer records go in parts.
    pub frame_bytes: usize,
    /// Whether a thread of the log's own writes; else the callers do.
    pub threads: bool,
}

/// A record that wants to be written.
#[derive(Debug)]
pub struct Commit {
    /// The record, its place given.
    pub record: Record,
    /// Whether the record is acknowledged before the sync.
    pub relaxed: bool,
    /// Where the answer goes.
    pub answer: Option<oneshot::Sender<Result<()>>>,
}

/// Called on the committer's thread, before the acknowledgements, with the last durable seq.
pub type Durable = Box<dyn Fn(u64) + Send + Sync>;

/// Longest time that a relaxed record stays unsynced.
pub const RELAXED_SYNC: Duration = Duration::from_millis(200);
/// Disk space is reserved in pieces of at most this many bytes.
const RESERVE_STEP: u64 = 8 << 20;

/// The commit log of an open store.
#[derive(Debug)]
pub struct CommitLog {
    shared: Arc<Shared>,
    driver: Driver,
}

/// Who writes.
enum Driver {
    Thread(Mutex<Option<JoinHandle<()>>>),
    Callers(Mutex<Writer>),
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Driver::Thread(_) => "Thread",
            Driver::Callers(_) => "Callers",
        })
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something waits to be written, or the log is closing.
    work: Condvar,
    /// Something became durable, or failed.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Commit>,
    /// Who wants to hear when the queue before them is durable.
    waiting: Vec<oneshot::Sender<Result<()>>>,
    /// Invariant: once set, nothing is written and every commit is answered with this.
    failed: Option<Error>,
    closing: bool,
    sync_wanted: bool,
    durable: u64,
    /// Bytes of the last file up to the end of record `durable`.
    durable_bytes: u64,
    syncs: u64,
    /// Files from the oldest that is needed; the last one is being written.
    files: Vec<LogFile>,
}

impl CommitLog {
    /// Goes on after `durable`, the last record that was replayed; `files` are those that hold it and what came before.
    pub fn start(
        files: Arc<dyn Files>,
        options: LogOptions,
        durable: u64,
        kept: Vec<LogFile>,
        on_durable: Durable,
    ) -> Result<CommitLog> {
        let durable_bytes = kept.last().map_or(0, |file| file.bytes);
        let state = State { durable, durable_bytes, files: kept, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new() });
        let threads = options.threads;
        let writer =
            Writer { files, options, shared: shared.clone(), on_durable, current: None, written: durable, dirty: None };
        if !threads {
            return Ok(CommitLog { shared, driver: Driver::Callers(Mutex::new(writer)) });
        }
        let thread = std::thread::Builder::new().name("keyspan-log".into()).spawn(move || writer.run());
        let thread = thread.map_err(|error| Error::new(ErrorKind::Io, format!("could not start a thread: {error}")))?;
        Ok(CommitLog { shared, driver: Driver::Thread(Mutex::new(Some(thread))) })
    }

    /// Without threads: writes, syncs and answers what waits.
    pub fn step(&self) {
        if let Driver::Callers(writer) = &self.driver {
            writer.lock().step();
        }
    }

    /// Hands a record to the committer. Records must come in the order of their seq.
    pub fn push(&self, commit: Commit) {
        let mut state = self.shared.state.lock();
        let refused = state.failed.clone().or_else(|| state.closing.then(closed));
        if let Some(error) = refused {
            drop(state);
            if let Some(answer) = commit.answer {
                let _ = answer.send(Err(error));
            }
            return;
        }
        state.queue.push_back(commit);
        drop(state);
        self.shared.work.notify_one();
    }

    /// Answers when everything that was pushed so far is durable: [`CommitLog::wait`] for who must not block.
    pub fn synced(&self) -> oneshot::Receiver<Result<()>> {
        let (answer, synced) = oneshot::channel();
        let mut state = self.shared.state.lock();
        let refused = state.failed.clone().or_else(|| state.closing.then(closed));
        match refused {
            Some(error) => drop(answer.send(Err(error))),
            None => state.waiting.push(answer),
        }
        drop(state);
        self.shared.work.notify_one();
        synced
    }

    /// Whether a write or sync has failed: nothing can be committed until the store is opened again.
    pub fn failure(&self) -> Option<Error> {
        self.shared.state.lock().failed.clone()
    }

    /// Blocks until everything up to `seq` is durable.
    pub fn wait(&self, seq: u64) -> Result<()> {
        let mut state = self.shared.state.lock();
        while state.durable < seq {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state.sync_wanted = true;
            if let Driver::Callers(writer) = &self.driver {
                drop(state);
                writer.lock().step();
                state = self.shared.state.lock();
                continue;
            }
            self.shared.work.notify_one();
            self.shared.done.wait(&mut state);
        }
        Ok(())
    }

    /// The last record that is durable.
    pub fn durable(&self) -> u64 {
        self.shared.state.lock().durable
    }

    /// The last record that is durable, and the files up to its end.
    pub fn durable_files(&self) -> (u64, Vec<LogFile>) {
        let state = self.shared.state.lock();
        let mut files = state.files.clone();
        if let Some(last) = files.last_mut() {
            last.bytes = state.durable_bytes;
        }
        (state.durable, files)
    }

    /// Bytes in the log's files, and how many times it was synced.
    pub fn size(&self) -> (u64, u64) {
        let state = self.shared.state.lock();
        (state.files.iter().map(|file| file.bytes).sum(), state.syncs)
    }

    /// Whether some file holds only records before `seq`.
    pub fn can_forget_before(&self, seq: u64) -> bool {
        self.shared.state.lock().files.get(1).is_some_and(|second| second.first_seq <= seq)
    }

    /// Removes the files that hold only records before `seq`. The file that is being written stays.
    pub fn forget_before(&self, files: &dyn Files, seq: u64) -> Result<()> {
        let dead: Vec<LogFile> = {
            let state = self.shared.state.lock();
            let last = state.files.len().saturating_sub(1);
            let count = (0..last).take_while(|at| state.files[at + 1].first_seq <= seq).count();
            state.files[..count].to_vec()
        };
        for file in &dead {
            files.remove(&file.path())?;
        }
        if dead.is_empty() {
            return Ok(());
        }
        files.sync_dir("log")?;
        // Only now, so that files that could not be removed are tried again.
        self.shared.state.lock().files.retain(|file| !dead.iter().any(|dead| dead.first_seq == file.first_seq));
        Ok(())
    }

    /// Writes and syncs what waits, then ends the thread. Later commits are refused.
    pub fn close(&self) -> Result<()> {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_one();
        match &self.driver {
            Driver::Callers(writer) => writer.lock().step(),
            Driver::Thread(thread) => {
                if let Some(thread) = thread.lock().take() {
                    thread.join().map_err(|_| Error::internal("the thread of the commit log has panicked"))?;
                }
            }
        }
        match self.failure() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Shutdown, "the store is closed")
}

/// The committer thread's own state.
struct Writer {
    files: Arc<dyn Files>,
    options: LogOptions,
    shared: Arc<Shared>,
    on_durable: Durable,
    current: Option<Current>,
    /// Last record written, synced or not.
    written: u64,
    /// Since when something written is not synced.
    dirty: Option<Instant>,
}

/// The file being written.
struct Current {
    file: Box<dyn FileWriter>,
    position: u64,
    reserved: u64,
}

/// What to do next.
struct Group {
    commits: Vec<Commit>,
    waiting: Vec<oneshot::Sender<Result<()>>>,
    sync: bool,
    closing: bool,
}

impl Group {
    fn answers(self) -> impl Iterator<Item = oneshot::Sender<Result<()>>> {
        self.commits.into_iter().filter_map(|commit| commit.answer).chain(self.waiting)
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.waiting.is_empty()
    }

    fn take_group(&mut self, overdue: bool) -> Group {
        let commits: Vec<Commit> = self.queue.drain(..).collect();
        let waiting = std::mem::take(&mut self.waiting);
        let waited = !waiting.is_empty() || commits.iter().any(|commit| !commit.relaxed);
        let sync = waited || overdue || self.closing || self.sync_wanted;
        self.sync_wanted = false;
        Group { commits, waiting, sync, closing: self.closing }
    }
}

impl Writer {
    fn run(mut self) {
        loop {
            let group = self.next_group();
            let closing = group.closing;
            if !self.carry_out(group) || closing && self.shared.state.lock().is_idle() {
                return;
            }
        }
    }

    /// One round of the thread, run by a caller; does nothing if the log has failed.
    fn step(&mut self) {
        let mut state = self.shared.state.lock();
        if state.failed.is_some() {
            return;
        }
        let group = state.take_group(false);
        drop(state);
        self.carry_out(group);
    }

    /// Writes and acknowledges; returns false if it failed: then every later call fails too.
    fn carry_out(&mut self, group: Group) -> bool {
        if let Err(error) = self.write(&group) {
            self.fail(group, &error);
            return false;
        }
        for answer in group.answers() {
            let _ = answer.send(Ok(()));
        }
        true
    }

    fn next_group(&self) -> Group {
        let mut state = self.shared.state.lock();
        loop {
            let overdue = self.dirty.is_some_and(|since| since.elapsed() >= RELAXED_SYNC);
            if !state.is_idle() || state.closing || overdue || state.sync_wanted {
                return state.take_group(overdue);
            }
            match self.dirty {
                Some(since) => {
                    let left = RELAXED_SYNC.saturating_sub(since.elapsed());
                    let _ = self.shared.work.wait_for(&mut state, left);
                }
                None => self.shared.work.wait(&mut state),
            }
        }
    }

    fn write(&mut self, group: &Group) -> Result<()> {
        let mut buffer = Vec::new();
        for commit in &group.commits {
            self.put_record(&mut buffer, &commit.record)?;
        }
        self.put(&mut buffer)?;
        if group.sync && self.dirty.is_some() {
            self.sync()?;
        }
        Ok(())
    }

    fn put_record(&mut self, buffer: &mut Vec<u8>, record: &Record) -> Result<()> {
        let frames = frames_of(record, self.options.frame_bytes);
        let length: usize = frames.iter().map(|(header, _)| header.stride() as usize).sum::<usize>() + 128;
        let full = self.current.as_ref().is_some_and(|current| {
            current.position > FILE_HEADER as u64
                && current.position + (buffer.len() + length) as u64 > self.options.file_bytes
        });
        if full || self.current.is_none() {
            self.put(buffer)?;
            self.begin_file(record.seq)?;
        }
        let synced = self.shared.state.lock().durable;
        let parts = frames.len();
        for (header, range) in frames {
            put_frame(buffer, FrameHeader { synced, ..header }, &record.bytes[range]);
            if buffer.len() >= RESERVE_STEP as usize {
                self.put(buffer)?;
            }
        }
        if parts > 1 {
            let (header, body) = commit_frame(record, parts);
            put_frame(buffer, FrameHeader { synced, ..header }, &body);
        }
        self.written = record.seq;
        Ok(())
    }

    /// Writes the buffer out and empties it.
    fn put(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let current = self.current.as_mut().expect("a file is begun before anything is buffered");
        let end = current.position + buffer.len() as u64;
        if end > current.reserved {
            current.reserved = (end + RESERVE_STEP / 2).min(end.max(self.options.file_bytes));
            // Reserving that failed has changed nothing, so it may be tried again with the reserve given up.
            with_reserve(self.files.as_ref(), || current.file.preallocate(current.reserved))?;
        }
        current.file.write_all(buffer).map_err(|error| crate::files::io_error("write", "log", &error))?;
        current.position = end;
        self.dirty.get_or_insert_with(Instant::now);
        if let Some(file) = self.shared.state.lock().files.last_mut() {
            file.bytes = end;
        }
        buffer.clear();
        Ok(())
    }

    /// Begins a file whose first record is `seq`; everything before is durable.
    fn begin_file(&mut self, seq: u64) -> Result<()> {
        if self.dirty.is_some() {
            self.sync()?;
        }
        let path = file_path(seq);
        // A file of this name holds nothing that was ever acknowledged: its first record was torn.
        self.files.remove(&path)?;
        let mut file = with_reserve(self.files.as_ref(), || self.files.create(&path))?;
        let reserved = self.options.file_bytes.min(RESERVE_STEP / 2);
        with_reserve(self.files.as_ref(), || file.preallocate(reserved))?;
        let header = file_header(self.options.store, seq);
        file.write_all(&header).map_err(|error| crate::files::io_error("write", &path, &error))?;
        file.sync_data()?;
        self.files.sync_dir("log")?;
        let position = FILE_HEADER as u64;
        self.current = Some(Current { file, position, reserved });
        let mut state = self.shared.state.lock();
        state.files.retain(|file| file.first_seq != seq);
        state.files.push(LogFile { first_seq: seq, bytes: position });
        state.durable_bytes = position;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if let Some(current) = &mut self.current {
            current.file.sync_data()?;
        }
        self.dirty = None;
        (self.on_durable)(self.written);
        let mut state = self.shared.state.lock();
        state.durable = self.written;
        if let Some(current) = &self.current {
            state.durable_bytes = current.position;
        }
        state.syncs += 1;
        drop(state);
        self.shared.done.notify_all();
        Ok(())
    }

    /// Poisons the log: it is unknown what the disk holds beyond `durable`.
    fn fail(&self, group: Group, cause: &Error) {
        let error = Error::new(
            ErrorKind::LogPoisoned,
            "the commit log could not be written, and no write is taken until a restart",
        )
        .with_detail(cause.to_string())
        .with_hint("Look at the disk, then start again: everything acknowledged is there.");
        tracing::error!(%cause, "the commit log failed");
        let mut state = self.shared.state.lock();
        state.failed = Some(error.clone());
        let later = state.take_group(false);
        drop(state);
        self.shared.done.notify_all();
        for answer in group.answers().chain(later.answers()) {
            let _ = answer.send(Err(error.clone()));
        }
    }
}
