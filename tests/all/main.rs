//! The tests that cross crates, in one binary: each test binary relinks DataFusion.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod accepted;
mod advice;
mod capability;
mod damage;
mod docs;
mod edges;
mod families;
mod isolation;
mod join_keys;
mod layout;
mod live;
mod model;
mod modules;
mod order;
mod ordered_map;
mod predicate;
mod queries;
mod rollup;
mod statics;
mod temporary;
mod unique;
mod wire;
