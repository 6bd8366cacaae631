//! What the tests that cross crates share.

pub mod random;
pub mod target;
