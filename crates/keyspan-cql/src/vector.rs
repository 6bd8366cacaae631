//! Operators of vectors, as calls: CQL's `ORDER BY v ANN OF [1, 2]`, and pgvector's distances.
//!
//! ```text
//! v ANN OF x    cql_ann(v, x)             only in ORDER BY, where it is resolved
//! a <-> b       l2_distance(a, b)
//! a <=> b       cosine_distance(a, b)
//! a <#> b       negative_inner_product(a, b)
//! ```

use sqlparser::dialect::Precedence;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::budget::bare;
use crate::operator::INNER_PRODUCT;

const ANN: &str = "cql_ann";

/// Whether ANN OF comes next.
pub(crate) fn is_ann(parser: &Parser) -> bool {
    let [ann, of] = parser.peek_tokens_ref::<2>();
    bare(&ann.token) == Some("ann") && bare(&of.token) == Some("of")
}

/// The function that the operator that comes next stands for.
pub(crate) fn distance(parser: &Parser) -> Option<&'static str> {
    let [token] = parser.peek_tokens_ref::<1>();
    match &token.token {
        Token::TwoWayArrow => Some("l2_distance"),
        Token::Spaceship => Some("cosine_distance"),
        Token::CustomBinaryOperator(own) if own == INNER_PRODUCT => Some("negative_inner_product"),
        _ => None,
    }
}

/// The function of the operator that comes next, of how many tokens it is, and how it binds.
pub(crate) fn operator(parser: &Parser) -> Option<(&'static str, usize, Precedence)> {
    if is_ann(parser) {
        return Some((ANN, 2, Precedence::Like));
    }
    distance(parser).map(|function| (function, 1, Precedence::PgOther))
}
