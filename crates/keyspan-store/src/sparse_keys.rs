//! The first key, or value, of every block, in one piece of memory; front-coded on disk.

use crate::varint::{Input, put_bytes, put_varint};

/// Byte strings, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SparseKeys {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl SparseKeys {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    /// How many of the keys are less than `key`, or not greater if `or_equal`.
    pub(crate) fn count_below(&self, key: &[u8], or_equal: bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let own = self.get(middle);
            if own < key || (or_equal && own == key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Bytes in memory, about.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.len() * 4
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        let mut before: &[u8] = &[];
        for at in 0..self.len() {
            let key = self.get(at);
            let shared = shared_prefix(before, key);
            put_varint(out, shared as u64);
            put_bytes(out, &key[shared..]);
            before = key;
        }
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Option<SparseKeys> {
        let mut keys = SparseKeys::default();
        let mut before = Vec::new();
        for _ in 0..input.count()? {
            read_shared(input, &mut before)?;
            u32::try_from(keys.bytes.len() + before.len()).ok()?;
            keys.push(&before);
        }
        Some(keys)
    }
}

/// How many bytes two strings begin with alike.
pub(crate) fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Reads a string that is written as how much it shares with the one before, and the rest; `before` becomes it.
pub(crate) fn read_shared(input: &mut Input<'_>, before: &mut Vec<u8>) -> Option<()> {
    let shared = usize::try_from(input.varint()?).ok().filter(|shared| *shared <= before.len())?;
    before.truncate(shared);
    before.extend_from_slice(input.bytes()?);
    Some(())
}
