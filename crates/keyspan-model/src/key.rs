//! Row keys as byte strings whose order is the order of the values.
//!
//! A key is its parts one after another, in key order, with nothing before, between or after them. Each part says
//! itself where it ends, so that the bytes of a prefix of a key are a prefix of the key's bytes.
//!
//! ```text
//! type                      bytes of the part, ascending
//! boolean                   1    00 false, 01 true
//! tinyint … bigint          1, 2, 4, 8    big endian, sign bit flipped
//! varint, decimal           16   digits at the column's scale as i128, big endian, sign bit flipped: 1.0 and 1.00 are one key
//! real, double              4, 8 IEEE bits big endian of the canonical float; sign bit flipped, all bits if negative
//! text, ascii, blob         n+2  the bytes, each 00 written as 00 FF; then 00 00
//! uuid                      16   the bytes
//! timeuuid                  24   its 60-bit time in 8 bytes, then its 16 bytes
//! date                      4    days since 1970, as int
//! time, timestamp           8    microseconds, as bigint
//! inet                      5 or 17   04 and 4 bytes, or 06 and 16 bytes: IPv4 before IPv6
//! ```
//!
//! A part of a DESC column has every byte inverted. Changing any of this is a new on-disk format: the golden vectors
//! in the tests are the contract.

use std::ops::Bound;

use crate::error::{Error, ErrorKind, Result};
use crate::key_part::{KeyPart, corrupted, decode_part, encode_part, part_len};
use crate::schema::KeyColumn;
use crate::span::Span;
use crate::value::Value;

/// Largest encoded key, in bytes.
pub const MAX_KEY_BYTES: usize = 65_536;

/// Encodes and decodes the keys of one relation.
#[derive(Clone, Debug)]
pub struct KeyEncoder {
    pub(crate) parts: Vec<KeyPart>,
}

impl KeyEncoder {
    /// The encoder of a relation's key columns.
    pub fn new(key: &[KeyColumn]) -> KeyEncoder {
        let part = |column: &KeyColumn| KeyPart {
            name: column.name.clone(),
            ty: column.ty,
            mask: if column.descending { 0xff } else { 0 },
        };
        KeyEncoder { parts: key.iter().map(part).collect() }
    }

    /// The bytes of a key, or of a prefix of one.
    ///
    /// Errors: a null is 23502, a value of another type 42804, a decimal that the column's scale cannot hold 22003, a
    /// key beyond [`MAX_KEY_BYTES`] 54000.
    pub fn encode(&self, values: &[Value]) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(values.len() * 16);
        self.encode_into(values, &mut bytes)?;
        Ok(bytes)
    }

    /// As [`KeyEncoder::encode`], appended to `bytes`; on an error `bytes` may hold part of the key.
    pub fn encode_into(&self, values: &[Value], bytes: &mut Vec<u8>) -> Result<()> {
        if values.len() > self.parts.len() {
            let message = format!("a key of {} columns cannot take {} values", self.parts.len(), values.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let start = bytes.len();
        for (part, value) in self.parts.iter().zip(values) {
            encode_part(part, value, bytes)?;
        }
        check_key_len(bytes.len() - start)
    }

    /// The values of a whole key. Bytes that no key encodes to are an XX001 error.
    pub fn decode(&self, bytes: &[u8]) -> Result<Vec<Value>> {
        let mut rest = bytes;
        let mut values = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (value, len) = decode_part(part, rest)?;
            values.push(value);
            rest = &rest[len..];
        }
        if !rest.is_empty() {
            return Err(corrupted(&format!("{} bytes after its last column", rest.len())));
        }
        Ok(values)
    }

    /// The bytes of each column of an encoded key, in key order.
    ///
    /// For keys of this encoder; of bytes that are no key some part takes all that is left, and those behind it
    /// nothing.
    pub fn columns<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.parts.iter().scan(bytes, |rest, part| {
            let (own, behind) = rest.split_at(part_len(part, rest).unwrap_or(rest.len()));
            *rest = behind;
            Some(own)
        })
    }

    /// How many bytes at the start of an encoded key hold its first `columns` columns.
    ///
    /// For keys of this encoder; bytes that are no key give a length within them and never a panic.
    pub fn prefix_len(&self, bytes: &[u8], columns: usize) -> usize {
        self.columns(bytes).take(columns).map(<[u8]>::len).sum()
    }

    /// The span as bytes: start inclusive, end exclusive (`None`: to the end of the relation).
    ///
    /// A span that holds no key gives a start that is not below the end.
    pub fn span_bytes(&self, span: &Span) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let start = match &span.start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(prefix) => self.encode(prefix)?,
            Bound::Excluded(prefix) => {
                let bytes = self.encode(prefix)?;
                match successor(&bytes) {
                    Some(next) => next,
                    // Nothing comes after the last key: an empty range, wherever it stands.
                    None => return Ok((bytes.clone(), Some(bytes))),
                }
            }
        };
        let end = match &span.end {
            Bound::Unbounded => None,
            Bound::Included(prefix) => successor(&self.encode(prefix)?),
            Bound::Excluded(prefix) => Some(self.encode(prefix)?),
        };
        Ok((start, end))
    }
}

impl KeyColumn {
    /// Least and greatest value between encoded bounds of this column, whichever its direction.
    ///
    /// # Errors
    /// XX001 for bytes that no value encodes to.
    pub fn decoded_bounds(&self, (first, last): (&[u8], &[u8])) -> Result<(Value, Value)> {
        let encoder = KeyEncoder::new(std::slice::from_ref(self));
        let value = |bytes| encoder.decode(bytes).map(|mut values| values.pop().unwrap_or(Value::Null));
        let (first, last) = (value(first)?, value(last)?);
        Ok(if self.descending { (last, first) } else { (first, last) })
    }
}

/// The least byte string above every string that begins with `prefix`; `None` if there is none (all bytes FF).
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

/// 54000 for a key beyond [`MAX_KEY_BYTES`].
pub(crate) fn check_key_len(len: usize) -> Result<()> {
    if len <= MAX_KEY_BYTES {
        return Ok(());
    }
    let message = format!("key of {len} bytes is larger than the limit of {MAX_KEY_BYTES} bytes");
    Err(Error::new(ErrorKind::LimitExceeded, message)
        .with_hint("Keep long texts in value columns, or put a hash of them in the key."))
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
