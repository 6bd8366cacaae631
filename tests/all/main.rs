//! The tests that cross crates, in one binary: each test binary relinks DataFusion.

mod edges;
mod isolation;
mod model;
mod queries;
