//! The payload of a split: which keys of which runs. Only the snapshot that made it can read it.
//!
//! ```text
//! count u32 | per part: run u32 (FFFFFFFF: all) | start length u32, bytes | end length u32 (FFFFFFFF: none), bytes
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use keyspan_model::{Error, Result};

const NONE: u32 = u32::MAX;

/// Keys to read, out of one run or of all that the scan chooses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) run: Option<u32>,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

pub(crate) fn encode_split(parts: &[Part]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u32(parts.len() as u32);
    for part in parts {
        bytes.put_u32(part.run.unwrap_or(NONE));
        bytes.put_u32(part.start.len() as u32);
        bytes.put_slice(&part.start);
        bytes.put_u32(part.end.as_ref().map_or(NONE, |end| end.len() as u32));
        bytes.put_slice(part.end.as_deref().unwrap_or_default());
    }
    bytes.freeze()
}

pub(crate) fn decode_split(payload: &Bytes) -> Result<Vec<Part>> {
    let mut bytes = payload.clone();
    let count = number(&mut bytes)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let run = Some(number(&mut bytes)?).filter(|run| *run != NONE);
        let length = number(&mut bytes)?;
        let start = take(&mut bytes, length)?;
        let end = match number(&mut bytes)? {
            NONE => None,
            length => Some(take(&mut bytes, length)?),
        };
        parts.push(Part { run, start, end });
    }
    Ok(parts)
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
            Part { run: None, start: vec![], end: None },
            Part { run: Some(3), start: b"a".to_vec(), end: Some(vec![]) },
        ];
        let bytes = encode_split(&parts);
        assert_eq!(decode_split(&bytes).expect("whole"), parts);
        assert!(decode_split(&bytes.slice(..bytes.len() - 1)).is_err());
    }
}
