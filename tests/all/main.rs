//! One test binary: each one relinks DataFusion.
