//! Frames: the unit that a log file is made of.
//!
//! ```text
//! file header                                frame (padded with zeroes to a multiple of 8)
//!  0   8  "KSPANLOG"                          0   4  "KFM1"
//!  8   4  version, 1                          4   4  length of the body
//! 12  16  store id                            8   4  crc32c of the body
//! 28   8  seq of the first record            12   4  crc32c of bytes 0 to 11 and 16 to 55
//! 36   4  crc32c of bytes 0 to 35            16   1  kind: 1 batch, 2 catalog change, 3 part, 4 commit
//! 40   8  zero                               17   1  flags: 1 body is LZ4 (raw length in 4 bytes, then the block)
//! 48      first frame                        18   2  zero
//!                                            20   4  number of the part; in a commit frame, how many parts
//! parts hold pieces of one body; the         24   8  seq
//! commit frame's body is the record's kind,  32   8  greatest seq that was synced when this was written
//! its flags, and the crc32c of the whole     40   8  server timestamp, microseconds
//!                                            48   8  clock, microseconds
//! a file ends at zeroes, or at its end       56      body
//! ```

use keyspan_model::Result;
use uuid::Uuid;

use super::codec::Record;
use super::wire::ByteReader;
use crate::format::{bad, unknown};

/// Bytes before the first frame of a file.
pub const FILE_HEADER: usize = 48;
/// Bytes before a frame's body.
pub const FRAME_HEADER: usize = 56;
/// First bytes of every frame.
pub const FRAME_MAGIC: [u8; 4] = *b"KFM1";
/// The flag of a compressed body.
pub const COMPRESSED: u8 = 1;
const FILE_MAGIC: &[u8; 8] = b"KSPANLOG";
const FILE_VERSION: u32 = 1;

/// Frame kinds.
pub const KIND_BATCH: u8 = 1;
/// A change of the catalog, with mutations or without.
pub const KIND_CHANGE: u8 = 2;
/// A piece of a record's body.
pub const KIND_PART: u8 = 3;
/// The end of a record in parts.
pub const KIND_COMMIT: u8 = 4;

/// The header of a log file.
pub fn file_header(store: Uuid, first_seq: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILE_HEADER);
    bytes.extend_from_slice(FILE_MAGIC);
    bytes.extend_from_slice(&FILE_VERSION.to_le_bytes());
    bytes.extend_from_slice(store.as_bytes());
    bytes.extend_from_slice(&first_seq.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes.resize(FILE_HEADER, 0);
    bytes
}

/// Reads a file's header: the seq of its first record.
pub fn read_file_header(bytes: &[u8], store: Uuid) -> Result<u64> {
    let mut reader = ByteReader::new(bytes);
    if reader.take(8)? != FILE_MAGIC {
        return Err(bad("it does not begin as a log file does"));
    }
    let version = reader.u32()?;
    let owner = Uuid::from_bytes(reader.array()?);
    let first_seq = reader.u64()?;
    if crc32c::crc32c(&bytes[..36]) != reader.u32()? {
        return Err(bad("the checksum of its header is wrong"));
    }
    if version != FILE_VERSION {
        return Err(unknown(format!("it has version {version}, and this program reads {FILE_VERSION}")));
    }
    if owner != store {
        return Err(bad("it belongs to another store"));
    }
    Ok(first_seq)
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the body in bytes.
    pub length: u32,
    /// crc32c of the body.
    pub body_crc: u32,
    /// What the frame is.
    pub kind: u8,
    /// How the body is to be read.
    pub flags: u8,
    /// Number of the part, or how many there are.
    pub part: u32,
    /// The record's place in the commit order.
    pub seq: u64,
    /// Greatest seq that was synced when the frame was written.
    pub synced: u64,
    /// Server timestamp, in microseconds.
    pub timestamp: i64,
    /// Clock when the record was applied, in microseconds.
    pub clock: i64,
}

impl FrameHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; FRAME_HEADER] {
        let mut bytes = [0; FRAME_HEADER];
        bytes[0..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[16] = self.kind;
        bytes[17] = self.flags;
        bytes[20..24].copy_from_slice(&self.part.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.seq.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.synced.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.clock.to_le_bytes());
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header; an error if these bytes are not a whole and undamaged one.
    pub fn decode(bytes: &[u8]) -> Result<FrameHeader> {
        let mut reader = ByteReader::new(bytes);
        if reader.array::<4>()? != FRAME_MAGIC {
            return Err(bad("a frame does not begin as it should"));
        }
        let (length, body_crc, crc) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (kind, flags) = (reader.u8()?, reader.u8()?);
        reader.take(2)?;
        let part = reader.u32()?;
        let (seq, synced, timestamp, clock) = (reader.u64()?, reader.u64()?, reader.i64()?, reader.i64()?);
        if header_crc(&bytes[..FRAME_HEADER]) != crc {
            return Err(bad("the checksum of a frame's header is wrong"));
        }
        Ok(FrameHeader { length, body_crc, kind, flags, part, seq, synced, timestamp, clock })
    }

    /// Bytes from this frame's start to the next one's.
    pub fn stride(&self) -> u64 {
        stride(self.length as usize) as u64
    }
}

/// Bytes that a frame with a body of this length takes.
pub fn stride(length: usize) -> usize {
    (FRAME_HEADER + length).next_multiple_of(8)
}

fn header_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..FRAME_HEADER])
}

/// The frames of a record with its bodies; `synced` is set when they are written.
pub fn frames_of(record: &Record, frame_bytes: usize) -> Vec<(FrameHeader, std::ops::Range<usize>)> {
    let body = &record.bytes;
    let header = |kind: u8, flags: u8, part: usize, range: &std::ops::Range<usize>| FrameHeader {
        length: range.len() as u32,
        body_crc: crc32c::crc32c(&body[range.clone()]),
        kind,
        flags,
        part: part as u32,
        seq: record.seq,
        synced: 0,
        timestamp: record.timestamp,
        clock: record.clock,
    };
    if body.len() <= frame_bytes {
        let range = 0..body.len();
        return vec![(header(record.kind, record.flags, 0, &range), range)];
    }
    let starts = (0..body.len()).step_by(frame_bytes);
    let ranges = starts.map(|start| start..(start + frame_bytes).min(body.len()));
    ranges.enumerate().map(|(part, range)| (header(KIND_PART, 0, part, &range), range)).collect()
}

/// The frame that ends a record in parts: its header and body.
pub fn commit_frame(record: &Record, parts: usize) -> (FrameHeader, Vec<u8>) {
    let mut body = vec![record.kind, record.flags, 0, 0];
    body.extend_from_slice(&crc32c::crc32c(&record.bytes).to_le_bytes());
    let header = FrameHeader {
        length: body.len() as u32,
        body_crc: crc32c::crc32c(&body),
        kind: KIND_COMMIT,
        flags: 0,
        part: parts as u32,
        seq: record.seq,
        synced: 0,
        timestamp: record.timestamp,
        clock: record.clock,
    };
    (header, body)
}

/// Appends a frame.
pub fn put_frame(buffer: &mut Vec<u8>, header: FrameHeader, body: &[u8]) {
    buffer.extend_from_slice(&header.encode());
    buffer.extend_from_slice(body);
    let padding = stride(body.len()) - FRAME_HEADER - body.len();
    buffer.extend_from_slice(&[0; 8][..padding]);
}
