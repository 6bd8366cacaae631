//! What a thread has made of texts that come again with each row: patterns, paths.

use std::cell::RefCell;

use keyspan_model::Result;

/// So many are kept; one more takes the place of that which was asked for longest ago.
const KEPT: usize = 64;

/// What was made, by what it was made of, the last one first. For a `thread_local!`.
pub struct Compiled<K, V>(RefCell<Vec<(K, V)>>);

impl<K, V> Default for Compiled<K, V> {
    fn default() -> Self {
        Compiled(RefCell::default())
    }
}

impl<K, V: Clone> Compiled<K, V> {
    /// What is made of the key that this tells, at most once while it is kept. An error is not.
    pub fn get(&self, is: impl Fn(&K) -> bool, make: impl FnOnce() -> Result<(K, V)>) -> Result<V> {
        let known = self.0.borrow().iter().position(|(key, _)| is(key));
        if let Some(at) = known {
            let mut kept = self.0.borrow_mut();
            kept[..=at].rotate_right(1);
            return Ok(kept[0].1.clone());
        }
        let (key, made) = make()?;
        let mut kept = self.0.borrow_mut();
        kept.truncate(KEPT - 1);
        kept.insert(0, (key, made.clone()));
        Ok(made)
    }
}
