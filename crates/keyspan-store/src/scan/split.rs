//! The payload of a split: which keys of which runs. Only the snapshot that made it can read it.
//!
//! ```text
//! means u8 | count u32 | per part: runs u32 | start length u32, bytes | end length u32 (FFFFFFFF: none), bytes
//!
//! runs: FFFFFFFF all, below 80000000 a merge group, else 80000000 and a shared group
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use keyspan_model::{Error, Result};

const NONE: u32 = u32::MAX;
const SHARED: u32 = 1 << 31;

/// By what the rows to read were told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Means {
    /// Bounding boxes of runs.
    Boxes,
    /// Boxes, and keys where these overlap.
    Keys,
    /// Value indexes.
    Index,
}

/// Which rows a part reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PartRuns {
    /// Those of all runs that the scan chooses.
    All,
    /// Those that only this merge group has.
    Group(u32),
    /// Those that the runs of this shared group have in common.
    Shared(u32),
}

/// Keys to read, and out of which runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SplitPart {
    pub(crate) runs: PartRuns,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

pub(crate) fn encode_split(means: Means, parts: &[SplitPart]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(means as u8);
    bytes.put_u32(parts.len() as u32);
    for part in parts {
        bytes.put_u32(match part.runs {
            PartRuns::All => NONE,
            PartRuns::Group(group) => group,
            PartRuns::Shared(group) => SHARED | group,
        });
        bytes.put_u32(part.start.len() as u32);
        bytes.put_slice(&part.start);
        bytes.put_u32(part.end.as_ref().map_or(NONE, |end| end.len() as u32));
        bytes.put_slice(part.end.as_deref().unwrap_or_default());
    }
    bytes.freeze()
}

pub(crate) fn decode_split(payload: &Bytes) -> Result<(Means, Vec<SplitPart>)> {
    let mut bytes = payload.clone();
    let means = match bytes.try_get_u8().map_err(|_| foreign())? {
        0 => Means::Boxes,
        1 => Means::Keys,
        2 => Means::Index,
        _ => return Err(foreign()),
    };
    let count = number(&mut bytes)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let runs = match number(&mut bytes)? {
            NONE => PartRuns::All,
            group if group >= SHARED => PartRuns::Shared(group - SHARED),
            group => PartRuns::Group(group),
        };
        let length = number(&mut bytes)?;
        let start = take(&mut bytes, length)?;
        let end = match number(&mut bytes)? {
            NONE => None,
            length => Some(take(&mut bytes, length)?),
        };
        parts.push(SplitPart { runs, start, end });
    }
    Ok((means, parts))
}

fn number(bytes: &mut Bytes) -> Result<u32> {
    bytes.try_get_u32().map_err(|_| foreign())
}

fn take(bytes: &mut Bytes, length: u32) -> Result<Vec<u8>> {
    if bytes.remaining() < length as usize {
        return Err(foreign());
    }
    Ok(bytes.split_to(length as usize).to_vec())
}

fn foreign() -> Error {
    Error::internal("a split that this store did not make")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_reads_back_and_a_cut_one_is_refused() {
        let parts = vec![
            SplitPart { runs: PartRuns::All, start: vec![], end: None },
            SplitPart { runs: PartRuns::Group(3), start: b"a".to_vec(), end: Some(vec![]) },
            SplitPart { runs: PartRuns::Shared(2), start: vec![], end: Some(b"b".to_vec()) },
        ];
        let bytes = encode_split(Means::Keys, &parts);
        assert_eq!(decode_split(&bytes).expect("whole"), (Means::Keys, parts));
        assert!(decode_split(&bytes.slice(..bytes.len() - 1)).is_err());
    }
}
