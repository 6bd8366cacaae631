//! A block: values, ascending, with their rows.

use super::{BLOCK_BYTES, BLOCK_POSTINGS};
use crate::sparse_keys::{read_shared, shared_prefix};
use crate::varint::{Input, put_bytes, put_varint};

/// A block being written.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    bytes: Vec<u8>,
    first: Vec<u8>,
    value: Vec<u8>,
    /// Of the value whose rows are still to be written.
    rows: Vec<u32>,
    postings: usize,
}

/// A block that is whole.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) first: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    pub(super) postings: u32,
}

impl BlockBuilder {
    /// Adds a posting behind those before: a greater value, or the same and a greater row. A value that has more rows
    /// than a block goes on in the next.
    pub(super) fn push(&mut self, value: &[u8], row: u32) -> Option<Block> {
        let full = self.postings >= BLOCK_POSTINGS || self.bytes.len() >= BLOCK_BYTES;
        let done = if full { self.finish() } else { None };
        if self.rows.is_empty() || self.value != value {
            self.begin(value);
        }
        self.rows.push(row);
        self.postings += 1;
        done
    }

    /// Ends the rows of the value before, and begins those of this one.
    fn begin(&mut self, value: &[u8]) {
        if self.rows.is_empty() {
            self.first = value.to_vec();
        } else {
            self.end_rows();
        }
        let shared = shared_prefix(&self.value, value);
        put_varint(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, &value[shared..]);
        self.value = value.to_vec();
    }

    fn end_rows(&mut self) {
        put_varint(&mut self.bytes, self.rows.len() as u64);
        let mut before = 0;
        for row in self.rows.drain(..) {
            put_varint(&mut self.bytes, u64::from(row - before));
            before = row;
        }
    }

    /// What was pushed, if anything was.
    pub(super) fn finish(&mut self) -> Option<Block> {
        if self.rows.is_empty() {
            return None;
        }
        self.end_rows();
        let done = std::mem::take(self);
        let bytes = lz4_flex::block::compress_prepend_size(&done.bytes);
        Some(Block { first: done.first, bytes, postings: done.postings as u32 })
    }
}

/// The contents of a block; `None`: its bytes are no block.
pub(super) fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    lz4_flex::block::decompress_size_prepended(bytes).ok()
}

/// Takes the postings of a block, value by value; `None`: its contents are none of a block.
pub(super) fn read_block(bytes: &[u8], each: &mut dyn FnMut(&[u8], &[u32])) -> Option<()> {
    let (mut input, mut value, mut rows) = (Input::new(bytes), Vec::new(), Vec::new());
    while !input.is_empty() {
        read_shared(&mut input, &mut value)?;
        let count = input.count()?;
        rows.clear();
        let mut row = 0u32;
        for _ in 0..count {
            row = row.checked_add(input.small()?)?;
            rows.push(row);
        }
        each(&value, &rows);
    }
    Some(())
}
