//! Tests of reading values from text.
