//! COPY's data: bytes of PostgreSQL's text, csv and binary formats to record batches and back.
//!
//! The rule: what PostgreSQL accepts is accepted and means the same; what it refuses is refused with its SQLSTATE, and
//! the error's detail says where (`COPY t, line 3, column v: "abc"`). Input arrives in any pieces; memory is bounded by
//! one batch and the longest line.
//!
//! - `rules`: the options of the statement, checked and completed with the format's defaults.
//! - `line`: where lines end. `fields`: what stands between the delimiters.
//! - `cells`: texts to typed arrays, without a value in between for the frequent types.
//! - `binary`: single values in PostgreSQL's binary form.
//! - [`parser`] and [`encoder`]: the two directions.

mod binary;
mod cells;
pub mod encoder;
mod fields;
mod line;
pub mod parser;
mod rules;
#[cfg(test)]
mod tests;

pub use encoder::{CopyCells, CopyEncoder};
pub use parser::CopyParser;
