//! Keyspan's language: text to tokens to statements.
//!
//! The language is a union of two: CQL's definitions and writes, and SQL's SELECT as DataFusion plans it. [`parse`]
//! reads a text in four steps, each in modules of its own:
//!
//! ```text
//! text ─▶ tokens            lexer, literal, operator: our own; spans count characters of the whole input
//!      ─▶ cut at `;`        parse
//!      ─▶ rewritten tokens  budget (54001), parameter ($n), misread, chain (long ORs)
//!      ─▶ Statement         one module per family, by first words; expressions and queries by sqlparser
//! ```
//!
//! Why not `sqlparser` alone: its statements have no room for CQL (`USING TTL`, `IF`, `PRIMARY KEY ((a, b), c)`), its
//! tokenizer misreads CQL's literals in silence, and its trees recurse as deep as the text asks. Why `sqlparser` at
//! all: DataFusion plans exactly its trees. This crate is the only one that imports it.
//!
//! Rules that hold throughout:
//! - Names are folded in the lexer; a statement's names need no further care.
//! - Source text is kept wherever something is stored, since SQL printed from a tree is never executed.
//! - What is not supported is refused by name, with what to write instead; nothing is parsed and ignored that would
//!   change what a statement means.
//! - Any text gives a statement or an error with a position; nothing here panics, overflows the stack or takes
//!   unbounded time.
//!
//! | module | what it reads |
//! |---|---|
//! | [`statement`] | nothing: the statements themselves |
//! | [`keyword`] | words for completion and misspellings |
//! | `keyspace`, `table`, [`foreign_key`], `alter`, `view`, `drop`, `index`, `comment` | definitions |
//! | `role`, `grant`, `sequence`, `user_type`, `extension` | roles and rights, sequences, types, extensions |
//! | `family` | families: their declaration, the cells that a write names |
//! | `nested` | literals of values in values |
//! | `vector` | operators of vectors |
//! | `insert`, `update`, `delete`, `merge`, `with` | writes; WITH of statements that write |
//! | `query`, `scan`, `explain`, `describe` | reads |
//! | `session`, `transaction`, `prepare`, `cursor`, `copy`, `channel`, `maintain` | the rest |
//! | `refuse` | what is refused by name |
//! | `types` | the names of types |
//! | `form` | forms that are read as others |
//! | `rename` | stored queries whose relations were renamed |

mod alter;
mod attach;
mod budget;
mod chain;
mod channel;
mod comment;
mod copy;
mod cursor;
mod delete;
mod describe;
mod dialect;
mod drop;
mod explain;
mod extension;
mod family;
pub mod foreign_key;
mod form;
mod grant;
mod hbase;
mod index;
mod insert;
mod keyspace;
pub mod keyword;
mod lexer;
mod literal;
mod maintain;
mod merge;
mod misread;
mod nested;
mod operator;
mod parameter;
mod parse;
mod prepare;
mod query;
mod reader;
mod redact;
mod refuse;
mod rename;
mod role;
mod row_query;
mod sequence;
mod session;
mod source;
pub mod statement;
mod table;
#[cfg(test)]
mod tests;
mod transaction;
mod types;
mod update;
mod user_type;
mod vector;
mod view;
mod with;

pub use keyword::keywords;
pub use nested::{NestedLiteral, from_json, from_json_argument, nested_literal, tuples as nested_tuples};
pub use parse::{first_incomplete, leaves_batch_open, parse, parse_expression, parse_one};
pub use query::has_subquery;
pub use redact::redacted;
pub use rename::with_new_names;
pub use sqlparser::ast;
pub use statement::*;
pub use types::column_type;
