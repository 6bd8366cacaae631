//! Keys that have come so far in one statement: whether one comes again, and the span that holds them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;

use arrow::array::{Array, BinaryArray};
use keyspan_model::{Span, Value};

/// Keys whose hashes are kept, 32 bytes each; of more only the span is known.
const REMEMBERED_MAX: usize = 1 << 20;

/// Keys of the rows of a statement, in the order they come.
#[derive(Debug)]
pub(super) struct Remembered {
    hashers: [RandomState; 2],
    /// Hashes of the keys, each with that of whose it is; none if they are too many.
    seen: Option<HashMap<u128, u128>>,
    /// The least and the greatest, encoded and as values.
    ends: Option<(End, End)>,
    ascending: bool,
}

type End = (Vec<u8>, Vec<Value>);

impl Default for Remembered {
    fn default() -> Remembered {
        Remembered { hashers: Default::default(), seen: Some(HashMap::new()), ends: None, ascending: true }
    }
}

impl Remembered {
    /// Takes a key; false if it has come before as another's.
    pub(super) fn add(&mut self, key: &[u8], values: &[Value], whose: &[u8]) -> bool {
        let hash = |bytes: &[u8]| self.hashers.iter().fold(0, |all, own| all << 64 | u128::from(own.hash_one(bytes)));
        let (key_hash, whose) = (hash(key), hash(whose));
        if self.seen.as_mut().and_then(|seen| seen.insert(key_hash, whose)).is_some_and(|earlier| earlier != whose) {
            return false;
        }
        if self.seen.as_ref().is_some_and(|seen| seen.len() > REMEMBERED_MAX) {
            self.seen = None;
        }
        let end = || (key.to_vec(), values.to_vec());
        match &mut self.ends {
            None => self.ends = Some((end(), end())),
            Some((_, greatest)) if *key > *greatest.0 => *greatest = end(),
            Some((least, _)) => {
                self.ascending = false;
                if *key < *least.0 {
                    *least = end();
                }
            }
        }
        true
    }

    /// Whether a key that came twice may have passed: there were too many to remember, and they did not ascend.
    pub(super) fn may_repeat(&self) -> bool {
        self.seen.is_none() && !self.ascending
    }

    /// What holds all keys; none if there were none.
    pub(super) fn span(&self) -> Option<Span> {
        let ((_, least), (_, greatest)) = self.ends.as_ref()?;
        Some(Span { start: Bound::Included(least.clone()), end: Bound::Included(greatest.clone()) })
    }
}

/// Finds keys that come twice where they come sorted, batch by batch.
#[derive(Debug, Default)]
pub(crate) struct Neighbours(Option<Vec<u8>>);

impl Neighbours {
    /// The place of a key that is the one before it, in this batch or at the end of the last.
    pub(crate) fn repeated(&mut self, keys: &BinaryArray) -> Option<usize> {
        let last = std::mem::replace(&mut self.0, keys.iter().next_back().flatten().map(<[u8]>::to_vec));
        let before = |row: usize| if row == 0 { last.as_deref() } else { Some(keys.value(row - 1)) };
        let repeated = (0..keys.len()).find(|row| before(*row) == Some(keys.value(*row)));
        if keys.is_empty() {
            self.0 = last;
        }
        repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(all: &mut Remembered, key: &str, whose: u8) -> bool {
        all.add(key.as_bytes(), &[Value::Text(key.into())], &[whose])
    }

    #[test]
    fn a_key_comes_again_only_as_anothers() {
        let mut all = Remembered::default();
        assert!(take(&mut all, "b", 1) && take(&mut all, "b", 1) && take(&mut all, "a", 2));
        assert!(!take(&mut all, "b", 3));
        assert!(take(&mut all, "c", 3));
        let end = |key: &str| Bound::Included(vec![Value::Text(key.into())]);
        assert_eq!(all.span(), Some(Span { start: end("a"), end: end("c") }));
        assert!(!all.may_repeat(), "all are remembered");
    }

    #[test]
    fn neighbours_are_compared_over_the_ends_of_batches() {
        let batch = |keys: &[&str]| BinaryArray::from_iter_values(keys);
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.repeated(&batch(&["a", "b"])), None);
        assert_eq!(neighbours.repeated(&batch(&[])), None);
        assert_eq!(neighbours.repeated(&batch(&["b", "c"])), Some(0));
        assert_eq!(neighbours.repeated(&batch(&["d", "e", "e"])), Some(2));
    }
}
