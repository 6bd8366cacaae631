//! PostgreSQL's operators as tokens: the longest one that the text begins with.

use sqlparser::tokenizer::Token;

/// Every operator, longest first.
const OPERATORS: &[(&str, Token)] = &[
    ("!~~*", Token::ExclamationMarkDoubleTildeAsterisk),
    ("!~~", Token::ExclamationMarkDoubleTilde),
    ("!~*", Token::ExclamationMarkTildeAsterisk),
    ("~~*", Token::DoubleTildeAsterisk),
    ("->>", Token::LongArrow),
    ("#>>", Token::HashLongArrow),
    ("<=>", Token::Spaceship),
    ("<->", Token::TwoWayArrow),
    ("||/", Token::PGCubeRoot),
    ("!~", Token::ExclamationMarkTilde),
    ("!=", Token::Neq),
    ("~~", Token::DoubleTilde),
    ("~*", Token::TildeAsterisk),
    ("->", Token::Arrow),
    ("#>", Token::HashArrow),
    ("#-", Token::HashMinus),
    ("<=", Token::LtEq),
    ("<>", Token::Neq),
    ("<@", Token::ArrowAt),
    ("<<", Token::ShiftLeft),
    (">=", Token::GtEq),
    (">>", Token::ShiftRight),
    ("=>", Token::RArrow),
    ("==", Token::DoubleEq),
    ("@>", Token::AtArrow),
    ("@?", Token::AtQuestion),
    ("@@", Token::AtAt),
    ("^@", Token::CaretAt),
    ("&&", Token::Overlap),
    ("||", Token::StringConcat),
    ("|/", Token::PGSquareRoot),
    ("<", Token::Lt),
    (">", Token::Gt),
    ("=", Token::Eq),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Mul),
    ("/", Token::Div),
    ("%", Token::Mod),
    ("^", Token::Caret),
    ("|", Token::Pipe),
    ("&", Token::Ampersand),
    ("#", Token::Sharp),
    ("~", Token::Tilde),
    ("@", Token::AtSign),
    ("!", Token::ExclamationMark),
];

/// pgvector's negative inner product, which `sqlparser` has no token for.
pub(crate) const INNER_PRODUCT: &str = "<#>";

/// The longest operator that the text begins with, and its length.
pub(crate) fn operator(text: &str) -> Option<(usize, Token)> {
    if text.starts_with(INNER_PRODUCT) {
        return Some((INNER_PRODUCT.len(), Token::CustomBinaryOperator(INNER_PRODUCT.to_owned())));
    }
    OPERATORS
        .iter()
        .find(|(spelled, _)| text.starts_with(spelled))
        .map(|(spelled, token)| (spelled.len(), token.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_operator_wins() {
        assert!(OPERATORS.windows(2).all(|pair| pair[0].0.len() >= pair[1].0.len()));
        assert_eq!(operator("->>'a'"), Some((3, Token::LongArrow)));
        assert_eq!(operator(">-1"), Some((1, Token::Gt)));
        assert_eq!(operator("`"), None);
    }
}
