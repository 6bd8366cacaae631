//! COPY's data: bytes of PostgreSQL's text, csv and binary formats to record batches and back.
//!
//! The rule: what PostgreSQL accepts is accepted and means the same; what it refuses is refused with its SQLSTATE, and
//! the error's detail says where (`COPY t, line 3, column v: "abc"`). Input arrives in any pieces; memory is bounded by
//! some megabytes for each core and the longest line.
//!
//! - `rules`: the options of the statement, checked and completed with the format's defaults.
//! - `line`: where lines end. `fields`: what stands between the delimiters.
//! - `cells`: texts to typed arrays, without a value in between for the frequent types.
//! - [`reading`]: texts in other forms than PostgreSQL's. [`rejects`]: rows that are left out.
//! - `binary`: single values in PostgreSQL's binary form.
//! - `parser`: one stretch of input to batches. [`reader`]: all of it, cut into stretches that are parsed on all cores.
//! - [`encoder`]: the other direction.
//! - `statement`: COPY itself.

mod binary;
mod cells;
pub mod encoder;
mod fields;
mod line;
mod parser;
pub mod reader;
pub mod reading;
pub mod rejects;
mod rules;
pub(crate) mod statement;
#[cfg(test)]
mod tests;

pub use encoder::{CopyCells, CopyEncoder};
pub use reader::CopyParser;
pub use reading::Reading;
pub use rejects::Rejected;
