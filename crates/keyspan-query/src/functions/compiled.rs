//! What a thread has made of texts that come again with each row: patterns, paths.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;

use keyspan_model::Result;

/// So many are kept; after one more all are made anew.
const KEPT: usize = 64;

/// What was made, by what it was made of. For a `thread_local!`.
pub struct Compiled<K, V>(RefCell<HashMap<K, V>>);

impl<K, V> Default for Compiled<K, V> {
    fn default() -> Self {
        Compiled(RefCell::default())
    }
}

impl<K: Eq + Hash, V: Clone> Compiled<K, V> {
    /// What is made of the key, at most once while it is kept. An error is not.
    pub fn get(&self, key: K, make: impl FnOnce(&K) -> Result<V>) -> Result<V> {
        if let Some(known) = self.0.borrow().get(&key) {
            return Ok(known.clone());
        }
        let made = make(&key)?;
        let mut kept = self.0.borrow_mut();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, made.clone());
        Ok(made)
    }
}
