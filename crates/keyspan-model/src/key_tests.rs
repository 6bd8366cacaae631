//! Tests of key encoding.
