//! The tests that cross crates, in one binary: each test binary relinks DataFusion.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod edges;
mod isolation;
mod model;
mod queries;
