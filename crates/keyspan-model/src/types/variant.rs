//! `variant`: a value that keeps a type of its own, a tag byte and a payload.
//!
//! ```text
//! 1 text   2 boolean   3 tinyint   4 int   5 bigint   6 real   7 double   8 blob
//! ```
//!
//! The order is by tag, then by value. Tags are on disk.

use super::{ColumnType, Nested};

const TYPES: [ColumnType; 8] = [
    ColumnType::Text,
    ColumnType::Boolean,
    ColumnType::TinyInt,
    ColumnType::Int,
    ColumnType::BigInt,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Blob,
];

impl ColumnType {
    /// The type `variant`.
    pub fn variant() -> ColumnType {
        ColumnType::nested(Nested::Variant)
    }

    /// Whether this is `variant`.
    pub fn is_variant(self) -> bool {
        self.as_nested() == Some(&Nested::Variant)
    }

    /// The tag of this type in a variant; `None` for types that it does not hold.
    pub fn variant_tag(self) -> Option<u8> {
        (1..).zip(TYPES).find(|(_, ty)| *ty == self).map(|(tag, _)| tag)
    }

    /// The type of a tag.
    pub fn of_variant_tag(tag: u8) -> Option<ColumnType> {
        TYPES.get(usize::from(tag).checked_sub(1)?).copied()
    }
}
