//! The workloads that benchmarks share.

pub mod tsbs;
