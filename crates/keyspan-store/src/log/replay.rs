//! Reading the log back, record by record, when a store is opened.
//!
//! A log ends where the last file ends, at zeroes, or at a frame that is not whole. Such a frame is the torn tail of a
//! crash exactly if its record was never acknowledged: if no later frame says that it was synced, no later file
//! follows, and the manifest knows of no later durable record. Otherwise it is damage, and an error naming the file.

use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{ErrorKind, Result};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::Record;
use super::frame::{FILE_HEADER, FRAME_HEADER, FRAME_MAGIC, FrameHeader, KIND_COMMIT, KIND_PART, read_file_header};
use super::wire::ByteReader;
use crate::files::{FileReader, Files, corrupted};
use crate::format::{bad, named};

/// A file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    /// Seq of its first record.
    pub first_seq: u64,
    /// Bytes up to the end of its last frame.
    pub bytes: u64,
}

impl LogFile {
    /// Where it is.
    pub fn path(&self) -> String {
        file_path(self.first_seq)
    }
}

/// The path of the log file that begins with this record.
pub fn file_path(first_seq: u64) -> String {
    format!("log/{first_seq:020}.log")
}

/// The log's files, oldest first.
pub fn log_files(files: &dyn Files) -> Result<Vec<LogFile>> {
    let names = files.list("log")?;
    let first_seqs = names.iter().filter_map(|name| name.strip_suffix(".log")?.parse::<u64>().ok());
    Ok(first_seqs.map(|first_seq| LogFile { first_seq, bytes: 0 }).collect())
}

/// The log's files from the one that holds the first batch that is needed. Those before it were removed; a power loss
/// may have kept any of them.
pub fn needed_files(mut files: Vec<LogFile>, log_start: u64) -> Vec<LogFile> {
    files.sort_by_key(|file| file.first_seq);
    let first = files.iter().rposition(|file| file.first_seq <= log_start.max(1)).unwrap_or(0);
    files.split_off(first)
}

/// Bytes read at once.
const WINDOW: usize = 1 << 20;
/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Reads records in order.
#[derive(Debug)]
pub struct Replay {
    files: Arc<dyn Files>,
    store: Uuid,
    /// Files not yet begun, the next one last.
    ahead: Vec<LogFile>,
    /// Files that were begun, with the bytes that hold records.
    read: Vec<LogFile>,
    current: Option<Current>,
    /// Seq of the last record returned.
    last: u64,
    /// A record at or before this one is known to have been durable.
    durable: u64,
    finished: bool,
}

#[derive(Debug)]
struct Current {
    reader: Arc<dyn FileReader>,
    name: String,
    position: u64,
    window: Bytes,
    window_start: u64,
}

/// What is found at a position of a file.
enum Place {
    Frame(FrameHeader, Bytes),
    End,
    /// Not whole: what is wrong, and whether a write that was cut short can have left it so.
    Damaged(String, bool),
}

impl Replay {
    /// Reads the files that `log_files` found. `durable` is the last record that the manifest knows to be durable,
    /// 0 if there is none.
    pub fn new(files: Arc<dyn Files>, store: Uuid, mut found: Vec<LogFile>, durable: u64) -> Replay {
        found.sort_by_key(|file| std::cmp::Reverse(file.first_seq));
        let last = found.last().map_or(durable, |file| file.first_seq.saturating_sub(1));
        Replay { files, store, ahead: found, read: Vec::new(), current: None, last, durable, finished: false }
    }

    /// The next record, or `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        while !self.finished {
            if self.current.is_none() && !self.begin_file()? {
                break;
            }
            match self.record()? {
                Some(record) => {
                    self.last = record.seq;
                    return Ok(Some(record));
                }
                None => self.end_file()?,
            }
        }
        self.finished = true;
        self.check_reached()?;
        Ok(None)
    }

    /// The last record that was read; at first, the one before the log's first.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The files that hold what was read so far, each up to the end of its last record.
    pub fn read_files(&self) -> &[LogFile] {
        &self.read
    }

    /// The last record that was read, and the files that hold records; after the end.
    pub fn finish(self) -> (u64, Vec<LogFile>) {
        (self.last, self.read)
    }

    fn check_reached(&self) -> Result<()> {
        if self.last >= self.durable {
            return Ok(());
        }
        let what = format!("the commit log ends at record {}, but record {} was acknowledged", self.last, self.durable);
        Err(corrupted(&self.files.display("log"), what))
    }

    fn begin_file(&mut self) -> Result<bool> {
        let Some(file) = self.ahead.pop() else { return Ok(false) };
        let name = self.files.display(&file.path());
        let reader = self.files.open(&file.path())?;
        let header = reader.read_at(0, FILE_HEADER.min(reader.len() as usize))?;
        match read_file_header(&header, self.store) {
            Ok(first_seq) if first_seq == file.first_seq && first_seq == self.last + 1 => {}
            Ok(_) => {
                let what =
                    format!("it begins with record {}, and record {} should come", file.first_seq, self.last + 1);
                return Err(corrupted(&name, what));
            }
            // A file whose making was cut short holds no frame: its header is synced before the first is written.
            Err(error)
                if error.kind == ErrorKind::Corrupted
                    && self.ahead.is_empty()
                    && self.durable <= self.last
                    && !has_frame(reader.as_ref())? =>
            {
                self.files.remove(&file.path())?;
                return Ok(false);
            }
            Err(error) => return Err(named(&name, error)),
        }
        self.read.push(LogFile { bytes: FILE_HEADER as u64, ..file });
        let position = FILE_HEADER as u64;
        self.current = Some(Current { reader, name, position, window: Bytes::new(), window_start: 0 });
        Ok(true)
    }

    /// The record at the current place; `None` where the file ends, or is torn.
    fn record(&mut self) -> Result<Option<Record>> {
        if self.ahead.last().is_some_and(|next| next.first_seq == self.last + 1) {
            // What may follow in this file was torn once, and then written anew in the next one.
            return Ok(None);
        }
        let mut parts: Vec<u8> = Vec::new();
        let mut count = 0;
        loop {
            let current = self.current.as_mut().expect("a file is begun");
            let expected = self.last + 1;
            let (header, body) = match current.place()? {
                Place::Frame(header, body) if header.seq == expected => (header, body),
                Place::Frame(header, _) => {
                    let what = format!("record {} stands where record {expected} should", header.seq);
                    return self.torn_or_damaged(&what, true);
                }
                Place::End if count == 0 => return self.torn_or_damaged("nothing but zeroes follows", true),
                Place::End => return self.torn_or_damaged("it ends in the middle of a record", true),
                Place::Damaged(what, torn) => return self.torn_or_damaged(&what, torn),
            };
            current.position += header.stride();
            let record = match header.kind {
                KIND_PART if header.part as usize == count => {
                    count += 1;
                    parts.extend_from_slice(&body);
                    continue;
                }
                KIND_COMMIT if header.part as usize == count => whole(&header, &body, parts),
                KIND_PART | KIND_COMMIT => Err(bad("a part of a record is missing")),
                kind => Ok(frame_record(&header, kind, header.flags, body.to_vec())),
            };
            let record = record.map_err(|error| corrupted(&current.name, error.message))?;
            let end = current.position;
            if let Some(file) = self.read.last_mut() {
                file.bytes = end;
            }
            return Ok(Some(record));
        }
    }

    /// A frame here is not whole: the end of the log if a crash can have torn it and its record was never acknowledged,
    /// else an error.
    fn torn_or_damaged(&mut self, what: &str, torn: bool) -> Result<Option<Record>> {
        let expected = self.last + 1;
        let current = self.current.as_ref().expect("a file is begun");
        let promised = self.durable >= expected || !self.ahead.is_empty() || current.later_sync()? >= expected;
        if promised || !torn {
            let position = current.position;
            return Err(corrupted(
                &current.name,
                format!("{what}, at byte {position}, where record {expected} should be"),
            ));
        }
        tracing::debug!(file = current.name, record = expected, what, "the commit log ends");
        Ok(None)
    }

    fn end_file(&mut self) -> Result<()> {
        let current = self.current.take().expect("a file is begun");
        match self.ahead.last() {
            None => self.finished = true,
            Some(next) if next.first_seq == self.last + 1 => {}
            Some(next) => {
                let what = format!("it ends at record {}, but the next file begins with {}", self.last, next.first_seq);
                return Err(corrupted(&current.name, what));
            }
        }
        Ok(())
    }
}

/// The record of a frame that holds all of it.
pub fn frame_record(header: &FrameHeader, kind: u8, flags: u8, bytes: Vec<u8>) -> Record {
    Record { seq: header.seq, timestamp: header.timestamp, clock: header.clock, kind, flags, bytes }
}

/// The record that a commit frame ends.
pub fn whole(header: &FrameHeader, body: &[u8], parts: Vec<u8>) -> Result<Record> {
    let mut reader = ByteReader::new(body);
    let (kind, flags) = (reader.u8()?, reader.u8()?);
    reader.take(2)?;
    if reader.u32()? != crc32c::crc32c(&parts) {
        return Err(bad("the checksum of a record in parts is wrong"));
    }
    Ok(frame_record(header, kind, flags, parts))
}

impl Current {
    fn place(&mut self) -> Result<Place> {
        let Some(head) = self.bytes(self.position, FRAME_HEADER)? else { return Ok(Place::End) };
        if head[..4] == [0; 4] {
            return Ok(Place::End);
        }
        let header = match FrameHeader::decode(&head) {
            Ok(header) => header,
            Err(error) => return Ok(Place::Damaged(error.message, may_be_torn(&head, self.position))),
        };
        let start = self.position + FRAME_HEADER as u64;
        match self.bytes(start, header.length as usize)? {
            None => Ok(Place::Damaged("a frame ends after its file".into(), true)),
            Some(body) if crc32c::crc32c(&body) != header.body_crc => {
                Ok(Place::Damaged("the checksum of a frame is wrong".into(), may_be_torn(&body, start)))
            }
            Some(body) => Ok(Place::Frame(header, body)),
        }
    }

    /// These bytes, or `None` if the file ends before.
    fn bytes(&mut self, start: u64, length: usize) -> Result<Option<Bytes>> {
        let end = start + length as u64;
        if end > self.reader.len() {
            return Ok(None);
        }
        if start < self.window_start || end > self.window_start + self.window.len() as u64 {
            let wanted = (WINDOW.max(length) as u64).min(self.reader.len() - start);
            self.window = self.reader.read_at(start, wanted as usize)?;
            self.window_start = start;
        }
        let offset = (start - self.window_start) as usize;
        Ok(Some(self.window.slice(offset..offset + length)))
    }

    /// The greatest synced seq recorded in any whole frame after this position.
    fn later_sync(&self) -> Result<u64> {
        let mut greatest = 0;
        each_frame(self.reader.as_ref(), self.position, |header| greatest = greatest.max(header.synced))?;
        Ok(greatest)
    }
}

/// Whether a write that was cut short can have left these bytes: then a part of them, up to the end of a disk's sector
/// or from some byte to their end, is as the file was reserved, zeroes. A flipped bit does not look like that.
fn may_be_torn(bytes: &[u8], position: u64) -> bool {
    let first = SECTOR - (position as usize % SECTOR);
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let zero = |part: &[u8]| part.iter().all(|byte| *byte == 0);
    let end = &bytes[bytes.len().saturating_sub(8)..];
    zero(end) || zero(head) || rest.chunks(SECTOR).any(zero)
}

/// Whether a file has a frame with a whole header anywhere.
fn has_frame(reader: &dyn FileReader) -> Result<bool> {
    let mut found = false;
    each_frame(reader, 0, |_| found = true)?;
    Ok(found)
}

/// Looks at every whole frame header from `start` on, wherever frames may lie.
fn each_frame(reader: &dyn FileReader, mut start: u64, mut look: impl FnMut(FrameHeader)) -> Result<()> {
    while start + (FRAME_HEADER as u64) <= reader.len() {
        let length = (reader.len() - start).min((WINDOW + FRAME_HEADER) as u64) as usize;
        let rest = reader.read_at(start, length)?;
        for at in (0..=rest.len() - FRAME_HEADER).step_by(8) {
            if rest[at..at + 4] != FRAME_MAGIC {
                continue;
            }
            if let Ok(header) = FrameHeader::decode(&rest[at..at + FRAME_HEADER]) {
                look(header);
            }
        }
        start += WINDOW as u64;
    }
    Ok(())
}
