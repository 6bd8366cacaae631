//! Predicates to spans of row keys.
//!
//! - [`key_of`]: recognition of whole keys and single spans in a WHERE, for the point path and for blind writes.

mod key_match;

pub use key_match::{KeyMatch, KeyPart, KeyRange, key_of};
