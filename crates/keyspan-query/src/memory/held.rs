//! The bytes of batches that somebody keeps.

use std::collections::HashSet;

use arrow::array::{Array, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

/// The buffers of texts that are kept. Each is counted once, however many arrays point into it.
#[derive(Debug, Default)]
pub(crate) struct HeldTexts {
    /// Where they begin. While they are kept no other begins there.
    buffers: HashSet<usize>,
}

impl HeldTexts {
    /// Bytes of the texts of an array that were not kept before.
    pub(crate) fn add(&mut self, array: &dyn Array) -> usize {
        let texts = match array.data_type() {
            DataType::Utf8View => array.as_string_view().data_buffers(),
            DataType::BinaryView => array.as_binary_view().data_buffers(),
            _ => &[],
        };
        let mut new = |buffer: &&Buffer| self.buffers.insert(buffer.as_ptr() as usize);
        texts.iter().filter(|buffer| new(buffer)).map(Buffer::len).sum()
    }
}

/// Bytes of an array's own rows, without the texts of [`HeldTexts`].
pub(crate) fn own_bytes(array: &dyn Array) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}
