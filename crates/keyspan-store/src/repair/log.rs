//! Repairing the commit log: its whole records are written to a new file, without gaps.
//!
//! ```text
//! files, at any place: a frame with right checksums and a greater seq? ─▶ one new file, empty batches in the gaps
//! ```
//!
//! Rules: a batch of which any part is damaged is lost as a whole, and an empty one takes its place: so the order of
//! all others stays, and the log reaches as far as the manifest says. The new file takes the place of the first one by
//! a rename.

use std::sync::Arc;

use keyspan_model::{ErrorKind, Result};
use uuid::Uuid;

use super::RepairReport;
use crate::files::{ASIDE, FileWriter, Files, io_error, keep_damaged};
use crate::log::{LogFile, Record, Replay, encode_body, file_header, frames_bytes, log_files, needed_files, salvaged};
use crate::manifest::ManifestState;

/// Writes the log anew if some of it is damaged or missing.
pub fn repair(files: &Arc<dyn Files>, store: Uuid, state: &ManifestState, report: &mut RepairReport) -> Result<()> {
    let all = log_files(files.as_ref())?;
    let found = needed_files(all.clone(), state.marks.log_start);
    let needed = state.marks.log_start.max(1);
    let missing = match found.first() {
        Some(file) => file.first_seq > needed,
        None => state.marks.durable_seq >= needed,
    };
    if !missing && is_whole(files, store, found.clone(), state.marks.durable_seq)? {
        return Ok(());
    }
    let start = found.first().map_or(needed, |file| file.first_seq.min(needed));
    let path = LogFile { first_seq: start, bytes: 0 }.path();
    let aside = format!("{path}{ASIDE}");
    files.create_dir("log")?;
    files.remove(&aside)?;
    let mut file = files.create(&aside)?;
    put(files.as_ref(), file.as_mut(), &file_header(store, start))?;
    let mut repaired = RepairedLog { file, next: start, last: Record::default(), lost: Vec::new() };
    let mut reached = reached(state);
    for (at, own) in found.iter().enumerate() {
        let next = found.get(at + 1).map_or(u64::MAX, |next| next.first_seq);
        let whole = salvaged(&files.read(&own.path())?);
        for record in whole.records.into_iter().filter(|record| record.seq < next) {
            if record.seq >= repaired.next {
                repaired.add(files.as_ref(), record)?;
            }
        }
        reached = reached.max(whole.reached.min(next - 1));
    }
    repaired.reach(files.as_ref(), reached + 1)?;
    repaired.file.sync_data()?;
    for file in &found {
        report.done.push(keep_damaged(files.as_ref(), &file.path())?);
    }
    files.rename(&aside, &path)?;
    let others = all.iter().filter(|file| file.first_seq != start);
    others.into_iter().try_for_each(|file| files.remove(&file.path()))?;
    files.sync_dir("log")?;
    report.batches_lost += repaired.lost.iter().map(|(first, last)| last - first + 1).sum::<u64>();
    for (first, last) in repaired.lost {
        let what = if first == last { format!("batch {first}") } else { format!("batches {first} to {last}") };
        report.done.push(format!("{what} of the commit log could not be read and are lost"));
    }
    report.done.push(format!("the commit log was written anew, up to batch {}", repaired.next - 1));
    Ok(())
}

fn is_whole(files: &Arc<dyn Files>, store: Uuid, found: Vec<LogFile>, durable: u64) -> Result<bool> {
    let mut replay = Replay::new(files.clone(), store, found, durable);
    loop {
        match replay.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(error) if error.kind == ErrorKind::Corrupted => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// The last batch that the manifest names.
fn reached(state: &ManifestState) -> u64 {
    let segments = state.segments.values().map(|record| record.meta.seq.1);
    let known = segments.chain(state.flushed.values().copied()).chain([state.catalog_seq, state.marks.durable_seq]);
    known.max().unwrap_or(0)
}

/// The new log.
struct RepairedLog {
    file: Box<dyn FileWriter>,
    /// The batch that comes next.
    next: u64,
    /// The last one, for the times of empty ones.
    last: Record,
    lost: Vec<(u64, u64)>,
}

impl RepairedLog {
    fn add(&mut self, files: &dyn Files, record: Record) -> Result<()> {
        self.reach(files, record.seq)?;
        put(files, self.file.as_mut(), &frames_bytes(&record))?;
        self.next = record.seq + 1;
        self.last = Record { bytes: Vec::new(), ..record };
        Ok(())
    }

    /// Makes `next` the batch that comes next, with empty ones before.
    fn reach(&mut self, files: &dyn Files, next: u64) -> Result<()> {
        if self.next >= next {
            return Ok(());
        }
        self.lost.push((self.next, next - 1));
        while self.next < next {
            let Record { timestamp, clock, .. } = self.last;
            let empty = Record { seq: self.next, timestamp, clock, ..encode_body(None, &[])? };
            put(files, self.file.as_mut(), &frames_bytes(&empty))?;
            self.next += 1;
        }
        Ok(())
    }
}

fn put(files: &dyn Files, file: &mut dyn FileWriter, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes).map_err(|error| io_error("write", &files.display("log"), &error))
}
