//! A whole encoded key with the bytes of each of its columns, to be compared with bounding boxes and bloom filters.

use keyspan_model::KeyEncoder;

/// An encoded whole key, taken apart once to be compared with the boxes of any number of runs.
#[derive(Clone, Debug)]
pub struct WholeKey<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// Each column's part, in key order.
    pub columns: Vec<&'a [u8]>,
}

impl<'a> WholeKey<'a> {
    /// A key that this encoder has encoded.
    pub fn new(encoder: &KeyEncoder, bytes: &'a [u8]) -> WholeKey<'a> {
        WholeKey { bytes, columns: encoder.columns(bytes).collect() }
    }

    /// The bytes of its first columns.
    pub fn prefix(&self, columns: usize) -> &'a [u8] {
        &self.bytes[..self.columns.iter().take(columns).map(|column| column.len()).sum()]
    }
}
