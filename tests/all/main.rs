//! The tests that cross crates, in one binary: each test binary relinks DataFusion.

mod edges;
