//! The budget of a statement, checked on its tokens: how deep it nests and how long its chains are.
//!
//! A parser recurses, and trees are visited and dropped by recursion, so a deep statement would end the process. It is
//! refused here instead, before anything recurses over it, with SQLSTATE 54001.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::source::start;

/// The most brackets and CASEs inside one another.
pub(crate) const MAX_DEPTH: usize = 200;
/// The most operators between two commas, clauses, ANDs or ORs.
const MAX_OPERATORS: usize = 500;
/// The most UNIONs in one query: each makes its tree one level deeper, and those levels are large.
const MAX_SET_OPERATORS: usize = 64;
/// The most JOINs in one query, and commas in its FROM: the planner takes longer for each than for the one before.
const MAX_JOINS: usize = 128;
/// The most queries within one another's expressions: checking a plan takes twice as long for each.
const MAX_SUBQUERIES: usize = 16;
/// The most ARRAY< and the like in one statement.
const MAX_ANGLES: usize = 32;

/// The counts between two brackets.
struct Level {
    operators: usize,
    set_operators: usize,
    joins: usize,
    in_from: bool,
    /// What REVOKE has behind FROM are no tables.
    is_query: bool,
    /// Of queries within expressions, this one included.
    subqueries: usize,
}

impl Default for Level {
    fn default() -> Self {
        Level { operators: 0, set_operators: 0, joins: 0, in_from: false, is_query: true, subqueries: 0 }
    }
}

/// Words after which FROM has ended.
const AFTER_FROM: [&str; 15] = [
    "except",
    "for",
    "group",
    "having",
    "intersect",
    "limit",
    "offset",
    "order",
    "qualify",
    "returning",
    "select",
    "set",
    "union",
    "where",
    "window",
];

/// Words after which another expression or clause begins.
pub(crate) fn is_boundary(word: &str, next: Option<&Token>) -> bool {
    const BOUNDARIES: &[&str] = &[
        "all",
        "as",
        "by",
        "check",
        "conflict",
        "cross",
        "distinct",
        "do",
        "else",
        "except",
        "for",
        "from",
        "full",
        "group",
        "having",
        "if",
        "inner",
        "intersect",
        "into",
        "join",
        "left",
        "limit",
        "natural",
        "offset",
        "on",
        "order",
        "qualify",
        "returning",
        "right",
        "select",
        "set",
        "then",
        "union",
        "using",
        "values",
        "when",
        "where",
        "window",
        "with",
    ];
    BOUNDARIES.binary_search(&word).is_ok()
        && !(matches!(word, "left" | "right" | "if") && next == Some(&Token::LParen))
}

/// The folded text of a word that is not quoted.
pub(crate) fn bare(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

/// Checks a statement's tokens.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Level::default()];
    let mut angles = 0;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1).map(|next| &next.token);
        let before = index.checked_sub(1).and_then(|before| bare(&tokens[before].token));
        let opens = matches!(token.token, Token::LParen | Token::LBracket | Token::LBrace)
            || bare(&token.token) == Some("case");
        let closes =
            matches!(token.token, Token::RParen | Token::RBracket | Token::RBrace) || bare(&token.token) == Some("end");
        if closes && levels.len() > 1 {
            levels.pop();
        }
        let Some(level) = levels.last_mut() else { break };
        level.count(&token.token, next, before);
        angles +=
            usize::from(next == Some(&Token::Lt) && matches!(bare(&token.token), Some("array" | "map" | "struct")));
        let excess = if levels.len() > MAX_DEPTH {
            Some(format!("statement is nested more than {MAX_DEPTH} levels deep"))
        } else if angles > MAX_ANGLES {
            Some(format!("type is nested more than {MAX_ANGLES} levels deep"))
        } else {
            levels.last().and_then(Level::excess)
        };
        if let Some(message) = excess {
            return Err(too_complex(message, token.span));
        }
        if opens {
            let around = levels.last().map_or(0, |level| level.subqueries);
            let is_subquery = token.token == Token::LParen
                && next.and_then(bare) == Some("select")
                && levels.last().is_some_and(|level| !level.in_from);
            levels.push(Level { subqueries: around + usize::from(is_subquery), ..Level::default() });
        }
    }
    Ok(())
}

/// The error of a statement beyond its budget.
pub(crate) fn too_complex(message: String, at: Span) -> Error {
    Error::new(ErrorKind::TooComplex, message)
        .at(start(at) + 1)
        .with_hint("Split the statement, use IN (…) for many values of one column, or join with a VALUES list.")
}

impl Level {
    fn count(&mut self, token: &Token, next: Option<&Token>, before: Option<&str>) {
        match token {
            Token::Comma => {
                self.operators = 0;
                self.joins += usize::from(self.in_from && self.is_query);
            }
            Token::Word(_) => {
                let Some(word) = bare(token) else { return };
                match word {
                    "and" | "or" => self.operators = 0,
                    "union" | "intersect" | "except" => self.set_operators += 1,
                    "join" => self.joins += 1,
                    // `IS DISTINCT FROM`
                    "from" => self.in_from = before != Some("distinct"),
                    "revoke" => self.is_query = false,
                    "select" => (self.joins, self.in_from) = (0, false),
                    word if self.in_from && AFTER_FROM.contains(&word) => self.in_from = false,
                    "not" | "interval" | "is" | "isnull" | "notnull" | "like" | "ilike" | "similar" | "in"
                    | "between" | "at" | "collate" | "prior" | "escape" => self.operators += 1,
                    _ => {}
                }
                if is_boundary(word, next) {
                    self.operators = 0;
                }
            }
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::LParen
            | Token::LBrace
            | Token::RParen
            | Token::RBracket
            | Token::RBrace
            | Token::SemiColon => {}
            // Whatever is left is an operator, a period or an opening subscript: each of them adds a level.
            _ => self.operators += 1,
        }
    }

    fn excess(&self) -> Option<String> {
        if self.operators > MAX_OPERATORS {
            Some(format!("expression has more than {MAX_OPERATORS} operators in a row"))
        } else if self.set_operators > MAX_SET_OPERATORS {
            Some(format!("query combines more than {MAX_SET_OPERATORS} others"))
        } else if self.joins > MAX_JOINS {
            Some(format!("query joins more than {MAX_JOINS} tables"))
        } else if self.subqueries > MAX_SUBQUERIES {
            Some(format!("subqueries are nested more than {MAX_SUBQUERIES} levels deep"))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokenize;

    fn verdict(sql: &str) -> Option<String> {
        check(&tokenize(sql).expect("lexes")).err().map(|error| error.message)
    }

    #[test]
    fn boundaries_are_sorted_for_the_search() {
        for word in ["all", "where", "with", "select", "into"] {
            assert!(is_boundary(word, None), "{word}");
        }
        assert!(!is_boundary("left", Some(&Token::LParen)));
    }

    #[test]
    fn depth_and_chains_have_limits() {
        let nest = |depth: usize| format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(verdict(&nest(150)), None);
        assert!(verdict(&nest(300)).is_some_and(|message| message.contains("nested")));
        assert!(verdict(&format!("SELECT {}1", "- ".repeat(9000))).is_some());
        assert!(verdict(&format!("SELECT {}1", "NOT ".repeat(9000))).is_some());
        assert!(verdict(&format!("SELECT 1{}", " UNION SELECT 1".repeat(900))).is_some());
        assert!(verdict(&format!("SELECT 1::{}int", "array<".repeat(90))).is_some());
        assert!(verdict(&format!("SELECT {} 1 {}", "CASE WHEN ".repeat(300), "END ".repeat(300))).is_some());
        let subqueries = |depth: usize| format!("SELECT {}1{}", "(SELECT ".repeat(depth), ")".repeat(depth));
        assert_eq!(verdict(&subqueries(16)), None);
        assert!(verdict(&subqueries(17)).is_some_and(|message| message.contains("subqueries")));
        assert_eq!(verdict(&format!("SELECT * {} t {}", "FROM (SELECT * ".repeat(30), ")".repeat(30))), None);
        let from = |items: usize| format!("SELECT a FROM {} WHERE a IN (1, 2)", vec!["t"; items].join(", "));
        assert_eq!(verdict(&from(128)), None);
        assert!(verdict(&from(130)).is_some_and(|message| message.contains("joins")));
        assert_eq!(verdict(&format!("SELECT a FROM t, u WHERE b ORDER BY {} a", "a, ".repeat(300))), None);
        let many = vec!["a"; 200].join(", ");
        assert_eq!(verdict(&format!("SELECT 1 IS DISTINCT FROM 2, {many}")), None);
        assert_eq!(verdict(&format!("REVOKE SELECT ON t FROM {many}")), None);
        assert_eq!(verdict(&format!("SELECT a IN ({})", "-1,".repeat(9000))), None);
        assert_eq!(verdict(&format!("SELECT a=1 {}", "OR a=1 ".repeat(9000))), None);
    }
}
