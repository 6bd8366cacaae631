//! `vector<float, n>`: n finite 4-byte floats, none of them NULL, as embeddings are.
//!
//! In Arrow a list of `Float32`; in a segment the floats one after another ([`crate::array`]). A type inside of other
//! types, too.

use serde::{Deserialize, Serialize};

use super::{ColumnType, Nested};
use crate::error::{Error, ErrorKind, Result};

/// The most elements of a vector, as in pgvector.
pub const DIMENSIONS_MAX: u16 = 16_000;

/// How alike two vectors are, as a number from 0 to 1: what `ORDER BY v ANN OF …` sorts by. Names are Cassandra's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Similarity {
    /// `(1 + cosine of the angle) / 2`; Cassandra's default.
    #[default]
    Cosine,
    /// `1 / (1 + distance²)`.
    Euclidean,
    /// `(1 + a · b) / 2`, for vectors of length 1.
    DotProduct,
}

impl Similarity {
    /// All of them.
    pub const ALL: [Similarity; 3] = [Similarity::Cosine, Similarity::Euclidean, Similarity::DotProduct];

    /// The name in `WITH OPTIONS = {'similarity_function': …}`.
    pub fn name(self) -> &'static str {
        match self {
            Similarity::Cosine => "cosine",
            Similarity::Euclidean => "euclidean",
            Similarity::DotProduct => "dot_product",
        }
    }

    /// The similarity of this name, in any case.
    pub fn of_name(name: &str) -> Option<Similarity> {
        Similarity::ALL.into_iter().find(|own| own.name().eq_ignore_ascii_case(name))
    }
}

impl ColumnType {
    /// The type of vectors of so many elements.
    ///
    /// # Errors
    /// 22023 for no elements and for too many.
    pub fn vector(dimension: i64) -> Result<ColumnType> {
        match u16::try_from(dimension) {
            Ok(own) if (1..=DIMENSIONS_MAX).contains(&own) => Ok(ColumnType::nested(Nested::Vector(own))),
            _ => {
                let message = format!("dimensions for type vector must be from 1 to {DIMENSIONS_MAX}, not {dimension}");
                Err(Error::new(ErrorKind::InvalidParameter, message))
            }
        }
    }

    /// How many elements its vectors have; `None` for other types.
    pub fn dimension(self) -> Option<usize> {
        match self.as_nested() {
            Some(Nested::Vector(dimension)) => Some(usize::from(*dimension)),
            _ => None,
        }
    }

    /// `vector(3)`, as pgvector has it.
    pub(super) fn vector_of(arguments: &[i64]) -> Result<ColumnType> {
        match arguments {
            [dimension] => ColumnType::vector(*dimension),
            [] => Err(Error::not_supported("a vector of no declared dimension is not supported")
                .with_hint("Write vector<float, 3>, or vector(3).")),
            _ => Err(Error::new(ErrorKind::Syntax, "a vector has one dimension").with_hint("Write vector(3).")),
        }
    }
}
