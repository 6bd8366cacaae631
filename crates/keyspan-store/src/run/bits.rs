//! A column of flags that is left out when all rows agree.

use arrow::buffer::BooleanBuffer;

/// One flag a row. Rule: whatever is constant is not an array.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Bits {
    /// No row has it.
    #[default]
    None,
    /// Every row has it.
    All,
    /// Some rows have it.
    Some(BooleanBuffer),
}

impl Bits {
    /// Whether a row has it.
    #[inline]
    pub fn get(&self, row: usize) -> bool {
        match self {
            Bits::None => false,
            Bits::All => true,
            Bits::Some(bits) => bits.value(row),
        }
    }

    /// The flags of these rows, constant if they are.
    pub fn new(bits: BooleanBuffer) -> Bits {
        match bits.count_set_bits() {
            0 => Bits::None,
            all if all == bits.len() => Bits::All,
            _ => Bits::Some(bits),
        }
    }

    /// The rows from `offset` on; copies nothing.
    pub fn slice(&self, offset: usize, length: usize) -> Bits {
        match self {
            Bits::Some(bits) => Bits::Some(bits.slice(offset, length)),
            other => other.clone(),
        }
    }

    /// How many of `rows` rows have it.
    pub fn count(&self, rows: usize) -> usize {
        match self {
            Bits::None => 0,
            Bits::All => rows,
            Bits::Some(bits) => bits.count_set_bits(),
        }
    }

    /// One flag a row.
    pub fn to_buffer(&self, rows: usize) -> BooleanBuffer {
        match self {
            Bits::None => BooleanBuffer::new_unset(rows),
            Bits::All => BooleanBuffer::new_set(rows),
            Bits::Some(bits) => bits.clone(),
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Bits::Some(bits) => bits.len().div_ceil(8),
            _ => 0,
        }
    }
}
