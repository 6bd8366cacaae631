//! Statements without their values, for logs: each literal reads `?`, and comments are gone.

use sqlparser::tokenizer::Token;

use crate::lexer::tokenize;
use crate::source::{SourceText, end, start};

/// The text with `?` for each string, number and blob; nothing of a text that cannot be read.
pub fn redacted(sql: &str) -> String {
    let source = SourceText::new(sql);
    let Ok(tokens) = tokenize(sql) else { return "(not readable)".to_owned() };
    let (mut text, mut behind) = (String::with_capacity(sql.len()), 0);
    for token in &tokens {
        let from = start(token.span);
        if from > behind && !text.is_empty() {
            text.push(' ');
        }
        let written = source.of(token.span);
        match &token.token {
            _ if written.is_empty() => {}
            Token::Number(..) | Token::SingleQuotedString(_) | Token::HexStringLiteral(_) => text.push('?'),
            // The keyword that the lexer puts before a uuid or a duration stands for the value itself.
            Token::Word(word) if word.quote_style.is_none() && word.value != written.to_lowercase() => text.push('?'),
            _ => text.push_str(written),
        }
        behind = behind.max(end(token.span));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_comments_do_not_show() {
        let sql =
            "SELECT  a, b -- secret\nFROM t.x WHERE k = 'it''s' AND n IN (1,2.5) AND d = $$x$$ /* y */ AND p = $1";
        let expected = "SELECT a, b FROM t.x WHERE k = ? AND n IN (?,?) AND d = ? AND p = $1";
        assert_eq!(redacted(sql), expected);
        assert_eq!(redacted("SELECT 'open"), "(not readable)");
    }

    #[test]
    fn literals_that_are_two_tokens_show_nothing() {
        let sql = "INSERT INTO t VALUES (62c36092-82a1-3a00-93d1-46196ee77204, 0xCAFE, 1h30m, E'a\\n')";
        assert!(!redacted(sql).contains("62c3") && !redacted(sql).contains("CAFE") && !redacted(sql).contains("30"));
    }
}
