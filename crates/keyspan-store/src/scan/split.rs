//! The payload of a split: which keys of which runs. Only the snapshot that made it can read it.
//!
//! ```text
//! parties known u8 | count u32 | per part: runs u32 (FFFFFFFF: all, from 80000000: shared) | start length u32, bytes
//!   | end length u32 (FFFFFFFF: none), bytes
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use keyspan_model::{Error, Result};

const NONE: u32 = u32::MAX;
const SHARED: u32 = 1 << 31;

/// Which rows a part reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PartRuns {
    /// Those of all runs that the scan chooses.
    All,
    /// Those of the party of this run that no other party has.
    Party(u32),
    /// Those of the circle of this run that several parties have.
    Shared(u32),
}

/// Keys to read, and out of which runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) runs: PartRuns,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

/// `looked`: whether keys were looked at to tell parties apart.
pub(crate) fn encode_split(looked: bool, parts: &[Part]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(looked.into());
    bytes.put_u32(parts.len() as u32);
    for part in parts {
        bytes.put_u32(match part.runs {
            PartRuns::All => NONE,
            PartRuns::Party(run) => run,
            PartRuns::Shared(run) => SHARED | run,
        });
        bytes.put_u32(part.start.len() as u32);
        bytes.put_slice(&part.start);
        bytes.put_u32(part.end.as_ref().map_or(NONE, |end| end.len() as u32));
        bytes.put_slice(part.end.as_deref().unwrap_or_default());
    }
    bytes.freeze()
}

pub(crate) fn decode_split(payload: &Bytes) -> Result<(bool, Vec<Part>)> {
    let mut bytes = payload.clone();
    let looked = bytes.try_get_u8().map_err(|_| foreign())? != 0;
    let count = number(&mut bytes)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let runs = match number(&mut bytes)? {
            NONE => PartRuns::All,
            run if run >= SHARED => PartRuns::Shared(run - SHARED),
            run => PartRuns::Party(run),
        };
        let length = number(&mut bytes)?;
        let start = take(&mut bytes, length)?;
        let end = match number(&mut bytes)? {
            NONE => None,
            length => Some(take(&mut bytes, length)?),
        };
        parts.push(Part { runs, start, end });
    }
    Ok((looked, parts))
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
            Part { runs: PartRuns::All, start: vec![], end: None },
            Part { runs: PartRuns::Party(3), start: b"a".to_vec(), end: Some(vec![]) },
            Part { runs: PartRuns::Shared(2), start: vec![], end: Some(b"b".to_vec()) },
        ];
        let bytes = encode_split(true, &parts);
        assert_eq!(decode_split(&bytes).expect("whole"), (true, parts));
        assert!(decode_split(&bytes.slice(..bytes.len() - 1)).is_err());
    }
}
