//! Tests of values in and out of arrays.
