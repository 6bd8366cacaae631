//! Values of many bytes, each once, by their numbers.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Values that words name, each once. They stand one behind the other, so that a new one allocates nothing of its own.
#[derive(Debug, Default)]
pub(in crate::grouped) struct Interner {
    hasher: RandomState,
    numbers: HashTable<Entry>,
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    number: u64,
}

impl Interner {
    /// The word of a value.
    pub(in crate::grouped) fn number(&mut self, value: &[u8]) -> u64 {
        let Interner { hasher, numbers, bytes, ends } = self;
        let hash = hasher.hash_one(value);
        let is_it = |entry: &Entry| entry.hash == hash && value_at(bytes, ends, entry.number) == value;
        if let Some(entry) = numbers.find(hash, is_it) {
            return entry.number;
        }
        let number = ends.len() as u64;
        numbers.insert_unique(hash, Entry { hash, number }, |entry| entry.hash);
        bytes.extend_from_slice(value);
        ends.push(bytes.len());
        number
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The value that a word of here names.
    pub(in crate::grouped) fn value(&self, word: u64) -> &[u8] {
        value_at(&self.bytes, &self.ends, word)
    }

    /// The values by their numbers.
    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u64).map(|number| self.value(number))
    }

    /// Bytes in memory, about.
    pub(in crate::grouped) fn bytes(&self) -> usize {
        self.numbers.capacity() * (size_of::<Entry>() + 1)
            + self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
    }
}

fn value_at<'a>(bytes: &'a [u8], ends: &[usize], number: u64) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_number() {
        let mut interner = Interner::default();
        let value = |number: u64| "x".repeat((number % 40) as usize) + &number.to_string();
        for _ in 0..2 {
            for number in 0..3_000 {
                assert_eq!(interner.number(value(number).as_bytes()), number);
            }
        }
        assert_eq!(interner.number(b""), 3_000);
        assert_eq!(interner.len(), 3_001);
        let found: Vec<&[u8]> = interner.values().collect();
        assert!((0..3_000).all(|number| found[number as usize] == value(number).as_bytes()));
        assert_eq!(interner.value(3_000), b"");
    }
}
