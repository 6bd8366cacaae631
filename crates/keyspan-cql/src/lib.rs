//! Keyspan's language: text to tokens to statements.

pub mod keyword;
mod lexer;
mod literal;
mod operator;
mod source;
pub mod statement;

use keyspan_model::{Error, Result};

pub use keyword::keywords;
pub use sqlparser::ast;
pub use statement::*;

/// Parses a text of statements separated by semicolons.
///
/// # Errors
/// The first error of the text; nothing of a text with an error is answered, as in PostgreSQL.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    Err(Error::not_supported(format!("the parser is under construction: {} bytes", sql.len())))
}

/// Whether the text is an unfinished statement: the interactive shell then reads another line.
pub fn first_incomplete(sql: &str) -> bool {
    !sql.trim_end().ends_with(';')
}
