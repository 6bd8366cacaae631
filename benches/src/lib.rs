//! Workload library.
