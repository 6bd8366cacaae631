//! Salvage of a damaged log file: its whole records.
//!
//! Rule: a record counts only if all of its frames are there with right checksums, one behind the other.

use super::codec::Record;
use super::frame::{
    FILE_HEADER, FRAME_HEADER, FrameHeader, KIND_COMMIT, KIND_PART, commit_frame, frames_of, put_frame,
};
use super::replay::{frame_record, whole};

/// Longest frame of a log that is written anew.
const FRAME_BYTES: usize = 8 << 20;

/// What was salvaged of a log file.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// Its records, in the order in which they stand there.
    pub records: Vec<Record>,
    /// The greatest seq that any frame header names.
    pub reached: u64,
}

/// The whole records in the bytes of a log file, wherever they begin.
pub fn salvaged(bytes: &[u8]) -> Salvaged {
    let mut found = Salvaged::default();
    let (mut parts, mut count) = (Vec::new(), 0);
    // Whether there is anything but zeroes behind the last whole frame.
    let mut more = false;
    let mut at = FILE_HEADER;
    while at + FRAME_HEADER <= bytes.len() {
        let header = FrameHeader::decode(&bytes[at..at + FRAME_HEADER]).ok();
        found.reached = found.reached.max(header.map_or(0, |header| header.seq));
        let Some((header, body)) = header.and_then(|header| Some((header, body_of(bytes, at, &header)?))) else {
            more |= bytes[at..at + 8] != [0; 8];
            at += 8;
            continue;
        };
        match header.kind {
            KIND_PART if header.part == 0 => (parts, count) = (body.to_vec(), 1),
            KIND_PART if header.part == count => {
                parts.extend_from_slice(body);
                count += 1;
            }
            KIND_PART => count = u32::MAX,
            KIND_COMMIT if header.part == count => {
                found.records.extend(whole(&header, body, std::mem::take(&mut parts)).ok());
            }
            KIND_COMMIT => {}
            kind => found.records.push(frame_record(&header, kind, header.flags, body.to_vec())),
        }
        at += header.stride() as usize;
        more = false;
    }
    let last = found.records.last().map_or(0, |record| record.seq);
    found.reached = found.reached.max(last + u64::from(more));
    found
}

/// The body of the frame that begins at this place, if it is whole.
fn body_of<'a>(bytes: &'a [u8], at: usize, header: &FrameHeader) -> Option<&'a [u8]> {
    let start = at + FRAME_HEADER;
    let body = bytes.get(start..start.checked_add(header.length as usize)?)?;
    (crc32c::crc32c(body) == header.body_crc).then_some(body)
}

/// A record as frames, as a log holds them.
pub fn frames_bytes(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    let frames = frames_of(record, FRAME_BYTES);
    let parts = frames.len();
    for (header, range) in frames {
        put_frame(&mut out, header, &record.bytes[range]);
    }
    if parts > 1 {
        let (header, body) = commit_frame(record, parts);
        put_frame(&mut out, header, &body);
    }
    out
}
