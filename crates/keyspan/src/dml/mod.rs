//! Statements that write rows.
//!
//! ```text
//! INSERT VALUES ─▶ rows of values ──────────┐ blind: no read                ┌─▶ transaction's own writes
//! INSERT SELECT ─▶ intake: record batches ──┤                               │
//! UPDATE, DELETE ─▶ target: keys, span, query ─▶ change: lock, read, decide ┴─▶ Store::apply, again on 40001
//! ```
//!
//! The rule: what a statement reads in order to write is read from the newest state with the rows locked, and the store
//! checks that it is unchanged when it applies the write; so 200 concurrent increments add 200. DataFusion's own DML
//! hooks are never used.

pub(crate) mod assign;
pub(crate) mod cells;
pub(crate) mod change;
pub(crate) mod condition;
pub(crate) mod conflict;
pub(crate) mod delete;
pub(crate) mod existing;
pub(crate) mod family;
pub(crate) mod fill;
pub(crate) mod insert;
mod json;
pub(crate) mod new_keys;
pub(crate) mod new_values;
pub(crate) mod remembered;
pub(crate) mod returning;
pub(crate) mod rights;
pub(crate) mod shape;
pub(crate) mod statics;
pub(crate) mod target;
pub(crate) mod update;
pub(crate) mod using;
