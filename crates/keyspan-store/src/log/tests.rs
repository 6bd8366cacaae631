//! The log as a whole: what was acknowledged is read back, whatever the end of the file looks like.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, RelationId, Result, Stamp};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::committer::*;
use super::frame::FILE_HEADER;
use super::replay::LogFile;
use super::*;
use crate::files::{FileLock, FileReader, FileWriter, Files, MemoryFiles};

const STORE: Uuid = Uuid::nil();

fn record(seq: u64, size: usize) -> Record {
    let key: Vec<u8> = (0..size).map(|at| (at * 7919 + seq as usize) as u8 ^ (at >> 8) as u8).collect();
    let delete = LoggedMutation::DeleteRow { relation: RelationId(1), schema_version: 1, key, stamp: Stamp::Server(0) };
    Record { seq, timestamp: seq as i64 * 10, clock: seq as i64, ..encode_body(None, &[delete]).expect("encodes") }
}

fn start(files: Arc<dyn Files>, durable: u64, kept: Vec<LogFile>, file_bytes: u64) -> CommitLog {
    let options = LogOptions { store: STORE, file_bytes, frame_bytes: 1000, threads: true };
    CommitLog::start(files, options, durable, kept, Box::new(|_| {})).expect("starts")
}

fn push(log: &CommitLog, record: Record) -> oneshot::Receiver<Result<()>> {
    let (answer, answered) = oneshot::channel();
    log.push(Commit { record, relaxed: false, answer: Some(answer) });
    answered
}

fn commit(log: &CommitLog, record: Record) -> Result<()> {
    push(log, record).blocking_recv().expect("an answer")
}

fn replay(files: &MemoryFiles, durable: u64) -> Result<(Vec<Record>, u64, Vec<LogFile>)> {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    let found = log_files(files.as_ref())?;
    let mut replay = Replay::new(files, STORE, found, durable);
    let mut records = Vec::new();
    while let Some(record) = replay.next_record()? {
        records.push(record);
    }
    let (last, kept) = replay.finish();
    Ok((records, last, kept))
}

/// A log of records of different sizes: some in parts, over several files.
fn written(count: u64) -> MemoryFiles {
    let files = MemoryFiles::new();
    let log = start(Arc::new(files.clone()), 0, Vec::new(), 20_000);
    for seq in 1..=count {
        commit(&log, record(seq, if seq.is_multiple_of(5) { 9000 } else { 50 })).expect("commits");
    }
    log.close().expect("closes");
    files
}

#[test]
fn what_was_committed_is_read_back_over_files_and_parts() {
    let files = written(20);
    let (records, last, kept) = replay(&files, 20).expect("reads");
    assert!(kept.len() > 1, "{kept:?}");
    assert_eq!(last, 20);
    for (at, found) in records.iter().enumerate() {
        let seq = at as u64 + 1;
        assert_eq!(found.bytes, record(seq, if seq.is_multiple_of(5) { 9000 } else { 50 }).bytes);
        assert_eq!((found.seq, found.timestamp, found.clock), (seq, seq as i64 * 10, seq as i64));
    }
}

#[test]
fn a_reopened_log_goes_on_and_forgets_what_is_not_needed() {
    let files = written(20);
    let (_, last, kept) = replay(&files, 20).expect("reads");
    let bytes = |files: &[LogFile]| files.iter().map(|file| file.bytes).sum::<u64>();
    let log = start(Arc::new(files.clone()), last, kept.clone(), 20_000);
    assert_eq!(log.durable_files(), (20, kept.clone()));
    assert_eq!(log.size(), (bytes(&kept), 0));
    (21..=40).for_each(|seq| commit(&log, record(seq, 3000)).expect("commits"));
    let (durable, written) = log.durable_files();
    assert_eq!((durable, log.size()), (40, (bytes(&written), 20)));
    assert!(bytes(&written) > bytes(&kept) + 20 * 3000, "{written:?}");
    let second = written[1].first_seq;
    assert!(!log.can_forget_before(second - 1) && log.can_forget_before(second));
    log.forget_before(&files, 30).expect("forgets");
    assert!(!log.can_forget_before(30) && log.can_forget_before(u64::MAX));
    log.close().expect("closes");
    let (records, last, _) = replay(&files, 0).expect("reads");
    assert!(records[0].seq > 20 && records[0].seq <= 30, "{}", records[0].seq);
    assert_eq!(last, 40);
}

/// Cuts or changes the last file at every place: what comes out is a prefix, or an error where it was promised.
#[test]
fn a_torn_tail_is_the_end_and_damage_before_it_is_named() {
    let files = MemoryFiles::new();
    let log = start(Arc::new(files.clone()), 0, Vec::new(), 1 << 20);
    // One group, so that nothing in it says that anything before was synced.
    let answers: Vec<_> = (1..=3).map(|seq| push(&log, record(seq, 40))).collect();
    answers.into_iter().for_each(|answer| answer.blocking_recv().expect("an answer").expect("commits"));
    log.close().expect("closes");
    let path = log_files(&files).expect("lists")[0].path();
    let length = files.len(&path).expect("looks").expect("is there") as usize;
    for cut in 48..length {
        let torn = files.fork();
        torn.damage(&path, |bytes| bytes.truncate(cut)).expect("is there");
        let (records, last, kept) = replay(&torn, 0).expect("a torn tail");
        assert!(last < 3 && records.len() as u64 == last, "{cut} {last}");
        replay(&torn, 3).expect_err("the manifest knows better");
        // What is written after the tear is read after it.
        let log = start(Arc::new(torn.clone()), last, kept, 1 << 20);
        commit(&log, record(last + 1, 77)).expect("commits");
        log.close().expect("closes");
        let (records, again, _) = replay(&torn, 0).expect("reads on");
        assert_eq!(again, last + 1, "{cut}");
        assert_eq!(records[last as usize].bytes, record(last + 1, 77).bytes);
    }
}

#[test]
fn damage_that_had_been_synced_is_an_error_naming_the_file() {
    let files = MemoryFiles::new();
    let log = start(Arc::new(files.clone()), 0, Vec::new(), 1 << 20);
    (1..=4).for_each(|seq| commit(&log, record(seq, 40)).expect("commits"));
    log.close().expect("closes");
    let path = log_files(&files).expect("lists")[0].path();
    // The frames of records 1 to 3 are known to be synced by those that follow.
    let frame = frame::stride(record(1, 40).bytes.len());
    for at in (48..48 + 3 * frame).filter(|at| (at - 48) % frame < frame - 8) {
        for change in [1, 0x80] {
            let damaged = files.fork();
            damaged.damage(&path, |bytes| bytes[at] ^= change).expect("is there");
            let error = replay(&damaged, 0).map(|(_, last, _)| last).expect_err("damage");
            assert_eq!(error.kind, ErrorKind::Corrupted, "{at}");
            assert!(error.message.contains(&path), "{error}");
        }
    }
    let zeroed = files.fork();
    zeroed.damage(&path, |bytes| bytes[48 + frame..48 + 2 * frame].fill(0)).expect("is there");
    assert_eq!(replay(&zeroed, 0).expect_err("a hole").kind, ErrorKind::Corrupted);
}

/// The header of a file changed, and the checksum that belongs to it.
fn with_header(bytes: &mut [u8], change: impl Fn(&mut [u8])) {
    change(bytes);
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
}

/// Such a file is no torn one, though nothing of it can be read: it is named, and left where it is.
#[test]
fn a_file_whose_header_is_not_its_own_is_refused_and_stays() {
    let files = written(3);
    let path = log_files(&files).expect("lists")[0].path();
    let refused = |what: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let changed = files.fork();
        changed.damage(&path, change).expect("is there");
        let error = replay(&changed, 0).expect_err(what);
        assert!(error.message.contains(&path), "{what}: {error}");
        assert!(changed.len(&path).expect("looks").is_some(), "{what}");
        error.kind
    };
    let corrupted = ErrorKind::Corrupted;
    assert_eq!(refused("another store", &|bytes| with_header(bytes, |header| header[12] = 7)), corrupted);
    assert_eq!(refused("another number", &|bytes| with_header(bytes, |header| header[28] = 7)), corrupted);
    assert_eq!(refused("a flipped bit before frames", &|bytes| bytes[9] ^= 1), corrupted);
    let far = |bytes: &mut Vec<u8>| {
        let frame = bytes[FILE_HEADER..FILE_HEADER + frame::FRAME_HEADER].to_vec();
        bytes[8..].fill(0);
        bytes.resize(3 << 20, 0);
        // Across the edge of what is read at once, which is a megabyte.
        bytes[(1 << 20) - 16..][..frame.len()].copy_from_slice(&frame);
    };
    assert_eq!(refused("a flipped bit far before a frame", &far), corrupted);
    let newer = |bytes: &mut Vec<u8>| {
        bytes[FILE_HEADER..].fill(0);
        with_header(bytes, |header| header[8] = 2);
    };
    assert_eq!(refused("a newer program's, whose frames nobody knows", &newer), ErrorKind::FormatVersion);
    let other = files.fork();
    other.rename(&path, &LogFile { first_seq: 5, bytes: 0 }.path()).expect("renames");
    assert_eq!(replay(&other, 0).expect_err("another name").kind, corrupted);
}

#[test]
fn a_file_whose_making_was_cut_short_goes_only_if_nothing_can_be_lost_with_it() {
    let files = written(20);
    let found = log_files(&files).expect("lists");
    let numbers: Vec<u64> = found.iter().map(|file| file.first_seq).collect();
    let (first, last) = (numbers.iter().min().expect("a file"), numbers.iter().max().expect("a file"));
    assert!(first < last);
    let cut_short = |seq: u64| {
        let path = LogFile { first_seq: seq, bytes: 0 }.path();
        let torn = files.fork();
        torn.damage(&path, |bytes| bytes[20..].fill(0)).expect("is there");
        (torn, path)
    };
    let (torn, path) = cut_short(*last);
    replay(&torn, *last).expect_err("its first record was acknowledged");
    assert!(torn.len(&path).expect("looks").is_some());
    let (records, reached, _) = replay(&torn, last - 1).expect("nothing of it was acknowledged");
    assert_eq!((records.len() as u64, reached), (last - 1, last - 1));
    assert_eq!(torn.len(&path).expect("looks"), None, "it is gone");
    let (torn, path) = cut_short(*first);
    replay(&torn, 0).expect_err("files follow");
    assert!(torn.len(&path).expect("looks").is_some());
}

/// Frames that are whole, but not all there.
#[test]
fn a_record_that_is_left_out_is_an_error() {
    let files = MemoryFiles::new();
    let log = start(Arc::new(files.clone()), 0, Vec::new(), 1 << 20);
    (1..=4).for_each(|seq| commit(&log, record(seq, 40)).expect("commits"));
    log.close().expect("closes");
    let path = log_files(&files).expect("lists")[0].path();
    let frame = frame::stride(record(1, 40).bytes.len());
    files.damage(&path, |bytes| drop(bytes.drain(FILE_HEADER + frame..FILE_HEADER + 2 * frame))).expect("is there");
    assert_eq!(replay(&files, 0).expect_err("record 3 follows record 1").kind, ErrorKind::Corrupted);
}

/// Where the frames of a file begin, and the records they belong to.
fn frames_in(bytes: &[u8]) -> Vec<(usize, u64)> {
    let mut frames = Vec::new();
    let mut at = FILE_HEADER;
    while let Some(header) = bytes.get(at..).and_then(|rest| frame::FrameHeader::decode(rest).ok()) {
        frames.push((at, header.seq));
        at += header.stride() as usize;
    }
    frames
}

#[test]
fn of_a_damaged_file_all_records_are_found_that_are_whole() {
    let files = MemoryFiles::new();
    let log = start(Arc::new(files.clone()), 0, Vec::new(), 1 << 20);
    let size = |seq: u64| if seq == 2 { 5000 } else { 50 };
    (1..=4).for_each(|seq| commit(&log, record(seq, size(seq))).expect("commits"));
    log.close().expect("closes");
    let bytes = files.read(&log_files(&files).expect("lists")[0].path()).expect("reads").to_vec();
    let found = |bytes: &[u8]| -> (Vec<u64>, u64) {
        let whole = salvaged(bytes);
        for own in &whole.records {
            assert_eq!(own.bytes, record(own.seq, size(own.seq)).bytes, "record {}", own.seq);
        }
        (whole.records.iter().map(|record| record.seq).collect(), whole.reached)
    };
    assert_eq!(found(&bytes), (vec![1, 2, 3, 4], 4));
    let frames = frames_in(&bytes);
    let of_two: Vec<usize> = frames.iter().filter(|frame| frame.1 == 2).map(|frame| frame.0).collect();
    assert!(frames.len() > 8 && of_two.len() > 5, "{frames:?}");
    for (at, seq) in &frames {
        for place in [*at, at + frame::FRAME_HEADER] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            let left: Vec<u64> = (1..=4).filter(|own| own != seq).collect();
            assert_eq!(found(&damaged), (left, 4), "byte {place} of record {seq}");
        }
    }
    let last = frames.last().expect("frames").0;
    let mut without = bytes.clone();
    without[last..].fill(0);
    assert_eq!(found(&without), (vec![1, 2, 3], 3), "zeroes are no sign of a record");
    // A part that is missing, twice there, or in another place; the frame that ends the record is the last of these.
    let stride = of_two[1] - of_two[0];
    for (at, next) in of_two.iter().zip(&of_two[1..]) {
        let mut missing = bytes.clone();
        missing.drain(at..next);
        assert_eq!(found(&missing), (vec![1, 3, 4], 4), "without the frame at {at}");
        let mut twice = bytes.clone();
        twice.splice(at..at, bytes[*at..*next].iter().copied());
        // The first part begins the record anew.
        let all: &[u64] = if *at == of_two[0] { &[1, 2, 3, 4] } else { &[1, 3, 4] };
        assert_eq!(found(&twice), (all.to_vec(), 4), "twice the frame at {at}");
    }
    let mut swapped = bytes.clone();
    swapped[of_two[0]..of_two[2]].rotate_left(stride);
    assert_eq!(found(&swapped), (vec![1, 3, 4], 4));
}

#[test]
fn records_of_any_size_are_written_anew_as_they_were() {
    for size in [0, 1000, 8 << 20, (8 << 20) + 1, 17 << 20] {
        let whole = Record { bytes: (0..size).map(|at| ((at * 31) >> 3) as u8).collect(), ..record(7, 1) };
        let bytes = [file_header(STORE, 7), frames_bytes(&whole)].concat();
        let found = salvaged(&bytes).records;
        assert_eq!(found.len(), 1, "{size}");
        assert!(found[0].bytes == whole.bytes && found[0].kind == whole.kind && found[0].seq == 7, "{size}");
    }
}

/// Memory whose syncs are counted, slow, and fail when told to.
#[derive(Debug, Default)]
struct Disk {
    memory: MemoryFiles,
    syncs: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

struct SlowWriter {
    inner: Box<dyn FileWriter>,
    syncs: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Write for SlowWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl FileWriter for SlowWriter {
    fn sync_data(&mut self) -> Result<()> {
        std::thread::sleep(std::time::Duration::from_millis(2));
        self.syncs.fetch_add(1, Ordering::SeqCst);
        match self.broken.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Io, "the disk is gone")),
            false => self.inner.sync_data(),
        }
    }
    fn preallocate(&mut self, length: u64) -> Result<()> {
        self.inner.preallocate(length)
    }
}

impl Files for Disk {
    fn create(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        let (syncs, broken) = (self.syncs.clone(), self.broken.clone());
        Ok(Box::new(SlowWriter { inner: self.memory.create(path)?, syncs, broken }))
    }
    fn open(&self, path: &str) -> Result<Arc<dyn FileReader>> {
        self.memory.open(path)
    }
    fn put_if_absent(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        self.memory.put_if_absent(path, bytes)
    }
    fn adopt(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        self.memory.adopt(path)
    }
    fn link(&self, from: &str, to: &str) -> Result<bool> {
        self.memory.link(from, to)
    }
    fn remove_dir(&self, path: &str) -> Result<()> {
        self.memory.remove_dir(path)
    }
    fn create_dir(&self, path: &str) -> Result<()> {
        self.memory.create_dir(path)
    }
    fn sync_dir(&self, path: &str) -> Result<()> {
        self.memory.sync_dir(path)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.memory.rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<()> {
        self.memory.remove(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>> {
        self.memory.list(path)
    }
    fn len(&self, path: &str) -> Result<Option<u64>> {
        self.memory.len(path)
    }
    fn lock(&self, path: &str) -> Result<Box<dyn FileLock>> {
        self.memory.lock(path)
    }
    fn free_space(&self) -> Result<Option<u64>> {
        self.memory.free_space()
    }
    fn local_root(&self) -> Option<&Path> {
        None
    }
    fn read(&self, path: &str) -> Result<Bytes> {
        self.memory.read(path)
    }
}

#[test]
fn waiting_commits_share_a_sync() {
    let disk = Disk::default();
    let syncs = disk.syncs.clone();
    let log = start(Arc::new(disk), 0, Vec::new(), 1 << 20);
    let answers: Vec<_> = (1..=200).map(|seq| push(&log, record(seq, 10))).collect();
    answers.into_iter().for_each(|answer| answer.blocking_recv().expect("an answer").expect("commits"));
    assert!(syncs.load(Ordering::SeqCst) < 20, "{syncs:?}");
    assert_eq!(log.durable(), 200);
}

#[test]
fn who_waits_for_the_log_writes_nothing() {
    let disk = Disk::default();
    let broken = disk.broken.clone();
    let log = start(Arc::new(disk), 0, Vec::new(), 1 << 20);
    let synced = |log: &CommitLog| log.synced().blocking_recv().expect("an answer");
    synced(&log).expect("nothing waits");
    assert_eq!(log.durable(), 0);
    log.push(Commit { record: record(1, 10), relaxed: true, answer: None });
    synced(&log).expect("syncs");
    assert_eq!(log.durable(), 1);
    broken.store(true, Ordering::SeqCst);
    log.push(Commit { record: record(2, 10), relaxed: true, answer: None });
    assert_eq!(synced(&log).expect_err("no disk").kind, ErrorKind::LogPoisoned);
    assert_eq!(synced(&log).expect_err("poisoned").kind, ErrorKind::LogPoisoned);
    let log = start(Arc::new(MemoryFiles::new()), 0, Vec::new(), 1 << 20);
    log.close().expect("closes");
    assert_eq!(synced(&log).expect_err("closed").kind, ErrorKind::Shutdown);
}

#[test]
fn a_failed_sync_poisons_the_log_and_is_not_tried_again() {
    let disk = Disk::default();
    let (syncs, broken) = (disk.syncs.clone(), disk.broken.clone());
    let log = start(Arc::new(disk), 0, Vec::new(), 1 << 20);
    commit(&log, record(1, 10)).expect("commits");
    broken.store(true, Ordering::SeqCst);
    assert_eq!(commit(&log, record(2, 10)).expect_err("no disk").kind, ErrorKind::LogPoisoned);
    let before = syncs.load(Ordering::SeqCst);
    broken.store(false, Ordering::SeqCst);
    assert_eq!(commit(&log, record(3, 10)).expect_err("poisoned").kind, ErrorKind::LogPoisoned);
    assert_eq!(log.wait(2).expect_err("poisoned").kind, ErrorKind::LogPoisoned);
    assert_eq!(syncs.load(Ordering::SeqCst), before);
    assert_eq!(log.durable(), 1);
}

#[test]
fn relaxed_commits_become_durable_by_themselves() {
    let log = start(Arc::new(MemoryFiles::new()), 0, Vec::new(), 1 << 20);
    log.push(Commit { record: record(1, 10), relaxed: true, answer: None });
    let begun = std::time::Instant::now();
    while log.durable() < 1 {
        assert!(begun.elapsed().as_secs() < 5);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
