//! Keyspan's types as Postgres' clients see them: OIDs, sizes and modifiers, and values in the text and binary formats.
//!
//! - [`pg_type`]: which Postgres type an Arrow field is.
//! - [`column`]: an Arrow array made ready to be written row by row.
//! - [`text`] and [`binary`]: the two formats; [`float`], [`datetime`], [`numeric`] and [`json`] hold what they share.
//! - [`parameter`]: a Bind parameter read as a value; [`array`]: one that is an array, as its text.

pub(crate) mod array;
pub(crate) mod binary;
pub(crate) mod column;
mod datetime;
mod float;
mod json;
pub(crate) mod numeric;
pub(crate) mod parameter;
pub(crate) mod pg_type;
#[cfg(test)]
mod tests;
pub(crate) mod text;

pub(crate) use column::WireColumn;
pub(crate) use pg_type::PgType;
