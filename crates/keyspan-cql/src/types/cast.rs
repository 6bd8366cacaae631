//! Casts to CQL's types of types, which `sqlparser` would read as comparisons: their tokens are made one name.

use keyspan_model::Result;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::budget::bare;
use crate::source::start;

/// A cast to one of CQL's types of types, `x::frozen<list<int>>` or `CAST(x AS tuple<int, text>)`: the type's code as one
/// quoted name ([`keyspan_model::ColumnType::code`]).
pub(crate) fn casts(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let begins = |at: usize| {
        let word = tokens.get(at).and_then(|token| bare(&token.token));
        let typed = at.checked_sub(1).map(|before| &tokens[before].token);
        matches!(word, Some("frozen" | "list" | "set" | "map" | "tuple" | "vector"))
            && tokens.get(at + 1).is_some_and(|next| next.token == Token::Lt)
            && typed.is_some_and(|token| *token == Token::DoubleColon || bare(token) == Some("as"))
    };
    if !(0..tokens.len()).any(begins) {
        return Ok(tokens);
    }
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let end = if begins(at) { bracket_end(&tokens, at + 1) } else { None };
        let Some(end) = end else {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let text: Vec<String> = tokens[at..=end].iter().map(|token| token.token.to_string()).collect();
        let value = super::nested_code(&text.join(" "), start(tokens[at].span) + 1)?;
        let span = Span { start: tokens[at].span.start, end: tokens[end].span.end };
        let token = Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword });
        out.push(TokenWithSpan { token, span });
        at = end + 1;
    }
    Ok(out)
}

/// Where the bracket that opens at `from` closes.
fn bracket_end(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut open = 0_i32;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        open += match token.token {
            Token::Lt => 1,
            Token::Gt => -1,
            Token::ShiftRight => -2,
            Token::Word(_) | Token::Comma | Token::Period | Token::Number(..) | Token::LParen | Token::RParen => 0,
            _ => return None,
        };
        if open <= 0 {
            return (open == 0).then_some(at);
        }
    }
    None
}
