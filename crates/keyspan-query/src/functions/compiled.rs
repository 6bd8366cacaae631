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

#[cfg(test)]
mod tests {
    use keyspan_model::Error;

    use super::*;

    /// The length of a text; counts in `made` how often it was not known.
    fn length(kept: &Compiled<String, usize>, text: &str, made: &mut usize) -> usize {
        let make = || {
            *made += 1;
            Ok((text.to_owned(), text.len()))
        };
        kept.get(|known| known == text, make).expect("is made")
    }

    #[test]
    fn what_is_used_last_is_kept() {
        let (kept, mut made) = (Compiled::default(), 0);
        let texts: Vec<String> = (0..KEPT).map(|length| "x".repeat(length)).collect();
        for text in texts.iter().chain(&texts) {
            assert_eq!(length(&kept, text, &mut made), text.len());
        }
        assert_eq!(made, KEPT);
        // The first is used, so that one more takes the place of the second.
        length(&kept, &texts[0], &mut made);
        length(&kept, "one more", &mut made);
        length(&kept, &texts[0], &mut made);
        assert_eq!(made, KEPT + 1);
        assert_eq!(length(&kept, &texts[1], &mut made), 1);
        assert_eq!(made, KEPT + 2);
    }

    #[test]
    fn an_error_is_not_kept() {
        let kept: Compiled<String, usize> = Compiled::default();
        assert!(kept.get(|_| true, || Err(Error::internal("no"))).is_err());
        assert_eq!(length(&kept, "text", &mut 0), 4);
    }
}
