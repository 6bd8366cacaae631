//! Forms of SQL that `sqlparser` does not read, as others that it does.
//!
//! | text | is made |
//! |---|---|
//! | `TABLE a` | `SELECT * FROM a` |
//! | `GROUPING SETS (a, GROUPING SETS (b, ROLLUP (c, d)))` | `GROUPING SETS (a, b, (c, d), (c), ())` |
//! | `CUBE ((a, b), c)`, `ROLLUP ((a, b), c)` | GROUPING SETS of what they stand for |
//! | `FETCH FIRST ($1 + 1) ROWS ONLY` | `LIMIT ($1 + 1)` |
//! | `ROWS … EXCLUDE NO OTHERS` | nothing; other EXCLUDEs are refused by name |
//! | `RANGE '1 day'::interval PRECEDING` | `RANGE interval '1 day' PRECEDING` |
//! | `m['a'..'k']`, `m['a'..]` | `m[cql_slice('a', 'k')]`, `m[cql_slice('a', NULL)]` |
//! | `a ISNULL`, `a NOTNULL` | `a IS NULL`, `a IS NOT NULL` |
//! | `inet '10.0.0.1'` | `'10.0.0.1'::inet` |

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::budget::bare;
use crate::keyword::is_reserved;
use crate::source::start;

/// The most expressions of a CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// The most sets of one GROUPING SETS, as in PostgreSQL.
const SETS_MAX: usize = 4096;

/// Types whose name before a text `sqlparser` takes for a column.
const TYPES: [&str; 4] = ["inet", "timeuuid", "varint", "duration"];

/// Words before a TABLE that begins no query: `CREATE TEMP TABLE`, `GRANT … ON TABLE`, `SELECT … INTO TABLE`.
const NAMES_TABLES: &[&str] = &[
    "create",
    "temp",
    "temporary",
    "unlogged",
    "into",
    "alter",
    "drop",
    "truncate",
    "on",
    "desc",
    "describe",
    "advise",
    "flush",
    "compact",
];

/// The statement's tokens in those forms.
///
/// # Errors
/// 0A000 for EXCLUDE in a frame and for FETCH FIRST (expression) ROWS WITH TIES; 42601 for `..` that is in no brackets;
/// 54001 for a CUBE of more than twelve expressions and for too many grouping sets.
pub(crate) fn rewrite(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let tokens = if has(&tokens, "table") { tables(tokens) } else { tokens };
    let tokens = if has(&tokens, "exclude") { exclusions(tokens)? } else { tokens };
    let tokens = if has(&tokens, "fetch") { fetches(tokens)? } else { tokens };
    let tokens = if has(&tokens, "range") { offsets(tokens) } else { tokens };
    let tokens = if tokens.windows(2).any(is_dots) { slices(tokens)? } else { tokens };
    let tokens = if has(&tokens, "isnull") || has(&tokens, "notnull") { null_tests(tokens) } else { tokens };
    let tokens = if TYPES.iter().any(|ty| has(&tokens, ty)) { typed_texts(tokens) } else { tokens };
    let groups = ["sets", "cube", "rollup"].iter().any(|word| has(&tokens, word));
    if groups { grouping(tokens) } else { Ok(tokens) }
}

/// Whether joins are nested without parentheses: `a JOIN b JOIN c ON … ON …`. NATURAL JOIN and CROSS JOIN take no
/// condition: beside them only parentheses say what belongs together.
///
/// # Errors
/// 0A000 where NATURAL JOIN stands beside such joins.
pub(crate) fn nests_joins(tokens: &[TokenWithSpan]) -> Result<bool> {
    let mut waiting = vec![0_usize];
    let (mut nested, mut natural) = (None, false);
    for (at, token) in tokens.iter().enumerate() {
        match (&token.token, bare(&token.token)) {
            (Token::LParen, _) => waiting.push(0),
            (Token::RParen, _) if waiting.len() > 1 => drop(waiting.pop()),
            (_, Some("join")) => {
                let mut before = tokens[..at].iter().rev().map_while(|token| bare(&token.token));
                let before = before.find(|word| !matches!(*word, "left" | "right" | "full" | "inner" | "outer"));
                natural |= before == Some("natural");
                if matches!(before, Some("natural" | "cross")) {
                    continue;
                }
                if let Some(count) = waiting.last_mut() {
                    nested = nested.or((*count > 0).then_some(at));
                    *count += 1;
                }
            }
            (_, Some("on" | "using" | "match_condition")) => {
                if let Some(count) = waiting.last_mut() {
                    *count = count.saturating_sub(1);
                }
            }
            (Token::Comma, _)
            | (_, Some("where" | "group" | "order" | "select" | "union" | "except" | "intersect")) => {
                if let Some(count) = waiting.last_mut() {
                    *count = 0;
                }
            }
            _ => {}
        }
    }
    match nested {
        Some(at) if natural => {
            let error = Error::not_supported("NATURAL JOIN beside joins that are nested without parentheses");
            Err(error.at(start(tokens[at].span) + 1).with_hint("Write parentheses around the inner join."))
        }
        nested => Ok(nested.is_some()),
    }
}

fn has(tokens: &[TokenWithSpan], word: &str) -> bool {
    tokens.iter().any(|token| bare(&token.token) == Some(word))
}

fn is_dots(pair: &[TokenWithSpan]) -> bool {
    pair.iter().all(|token| token.token == Token::Period)
}

/// `[a..b]` as a subscript that is a call.
fn slices(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    // For each open bracket its place, and whether a slice stands in it.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for token in tokens {
        let span = token.span;
        match &token.token {
            Token::Period if out.last().is_some_and(|last| last.token == Token::Period) => {
                let first = out.pop().map_or(span, |first| first.span);
                let Some((begin, slice @ false)) =
                    open.last_mut().filter(|(begin, _)| out[*begin].token == Token::LBracket)
                else {
                    let error = Error::new(ErrorKind::Syntax, "syntax error at or near \"..\"");
                    return Err(error.at(start(first) + 1));
                };
                *slice = true;
                let begin = *begin + 1;
                if begin == out.len() {
                    out.push(made("null", span));
                }
                out.splice(begin..begin, [made("cql_slice", span), made("(", span)]);
                out.push(made(",", span));
                continue;
            }
            Token::LBracket | Token::LParen | Token::LBrace => open.push((out.len(), false)),
            Token::RBracket | Token::RParen | Token::RBrace => {
                let closed = open.pop();
                if closed.is_some_and(|(_, slice)| slice) {
                    out.extend((out.last().map(|last| &last.token) == Some(&Token::Comma)).then(|| made("null", span)));
                    out.push(made(")", span));
                }
            }
            _ => {}
        }
        out.push(token);
    }
    Ok(out)
}

/// `TABLE a` as SELECT, wherever a query may begin: not where a statement or a type of object is named.
fn tables(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let named = |at: usize| {
        let before = at.checked_sub(1).map(|before| &tokens[before].token);
        before == Some(&Token::Period) || before.and_then(bare).is_some_and(|word| NAMES_TABLES.contains(&word))
    };
    let begins = |at: usize| {
        bare(&tokens[at].token) == Some("table")
            && tokens.get(at + 1).is_some_and(|next| is_name(&next.token))
            && !named(at)
    };
    let found: Vec<bool> = (0..tokens.len()).map(begins).collect();
    let mut out = Vec::with_capacity(tokens.len() + 4);
    for (token, found) in tokens.into_iter().zip(found) {
        if found {
            let span = token.span;
            out.extend(["select", "*", "from"].map(|word| made(word, span)));
        } else {
            out.push(token);
        }
    }
    out
}

fn is_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_some() || !is_reserved(&word.value))
}

fn made(word: &str, span: Span) -> TokenWithSpan {
    let token = match word {
        "*" => Token::Mul,
        "(" => Token::LParen,
        ")" => Token::RParen,
        "," => Token::Comma,
        word => Token::make_keyword(word),
    };
    TokenWithSpan { token, span }
}

/// `FETCH FIRST (…) ROWS ONLY` as LIMIT; a number in parentheses without them, which WITH TIES needs.
///
/// # Errors
/// 0A000 for WITH TIES behind an expression.
fn fetches(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((first, others)) = rest.split_first() {
        let Some((count, last, ties)) = fetch(rest) else {
            out.push(first.clone());
            rest = others;
            continue;
        };
        match (ties, count) {
            (false, count) => {
                out.extend([made("limit", first.span), made("(", first.span)]);
                out.extend_from_slice(count);
                // A text that is cut at the end of the query ends where ONLY does.
                out.push(made(")", rest[last - 1].span));
                rest = &rest[last..];
            }
            (true, [number]) => {
                out.extend_from_slice(&rest[..2]);
                out.push(number.clone());
                rest = &rest[5..];
            }
            (true, _) => {
                let error = Error::not_supported("FETCH FIRST of an expression WITH TIES is not supported");
                return Err(error.at(start(first.span) + 1).with_hint("Write the number of rows."));
            }
        }
    }
    Ok(out)
}

/// What stands in the parentheses of a FETCH that begins here, how many tokens it has with `ROWS ONLY`, and whether it
/// says WITH TIES instead.
fn fetch(tokens: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], usize, bool)> {
    let word = |at: usize| tokens.get(at).and_then(|token| bare(&token.token));
    let begins = word(0) == Some("fetch") && matches!(word(1), Some("first" | "next"));
    if !begins || tokens.get(2)?.token != Token::LParen {
        return None;
    }
    let mut depth = 0_usize;
    let end = tokens.iter().skip(2).position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })? + 2;
    let rows = matches!(word(end + 1), Some("row" | "rows"));
    match (word(end + 2), word(end + 3)) {
        (Some("only"), _) if rows => Some((&tokens[3..end], end + 3, false)),
        (Some("with"), Some("ties")) if rows => Some((&tokens[3..end], end + 4, true)),
        _ => None,
    }
}

/// Leaves EXCLUDE NO OTHERS out, which is what a frame does anyway.
fn exclusions(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let words: [Option<&str>; 3] = std::array::from_fn(|n| tokens.get(at + n).and_then(|next| bare(&next.token)));
        let frame = matches!(
            out.last().and_then(|last: &TokenWithSpan| bare(&last.token)),
            Some("row" | "preceding" | "following")
        );
        match words {
            [Some("exclude"), Some("no"), Some("others")] if frame => at += 3,
            [Some("exclude"), Some("current" | "group" | "ties"), _] if frame => {
                let error = Error::not_supported("EXCLUDE in the frame of a window is not supported");
                let hint = "Subtract the row's own value from the frame's, or join the rows to themselves.";
                return Err(error.at(start(tokens[at].span) + 1).with_hint(hint));
            }
            _ => {
                out.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    Ok(out)
}

/// The bounds of a frame that are casts of texts to intervals, as intervals.
fn offsets(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 0..tokens.len().saturating_sub(3) {
        let cast = tokens[at + 1].token == Token::DoubleColon && bare(&tokens[at + 2].token) == Some("interval");
        let bound = matches!(bare(&tokens[at + 3].token), Some("preceding" | "following"));
        if cast && bound && matches!(tokens[at].token, Token::SingleQuotedString(_)) {
            let interval = tokens.remove(at + 2);
            tokens.remove(at + 1);
            tokens.insert(at, interval);
            return offsets(tokens);
        }
    }
    tokens
}

/// Texts with the name of a type before them.
fn typed_texts(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 1);
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_type = bare(&token.token).is_some_and(|word| TYPES.contains(&word));
        let begins = out.last().is_none_or(|last| !ends_value(last) && !matches!(last.token, Token::Period));
        match tokens.next_if(|next| is_type && begins && matches!(next.token, Token::SingleQuotedString(_))) {
            Some(text) => {
                let cast = TokenWithSpan::new(Token::DoubleColon, token.span);
                out.extend([text, cast, token]);
            }
            None => out.push(token),
        }
    }
    out
}

/// ISNULL and NOTNULL behind a value. Elsewhere they are names.
fn null_tests(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 2);
    for (at, token) in tokens.iter().enumerate() {
        let test = bare(&token.token).filter(|word| matches!(*word, "isnull" | "notnull"));
        let called = tokens.get(at + 1).is_some_and(|next| matches!(next.token, Token::LParen | Token::Period));
        match test {
            Some(test) if !called && out.last().is_some_and(ends_value) => {
                let words = if test == "isnull" { &["IS", "NULL"][..] } else { &["IS", "NOT", "NULL"] };
                out.extend(words.iter().map(|word| TokenWithSpan::new(Token::make_keyword(word), token.span)));
            }
            _ => out.push(token.clone()),
        }
    }
    out
}

/// Whether a token may be the last one of a value.
fn ends_value(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) => true,
        Token::RParen | Token::RBracket => true,
        token => is_name(token),
    }
}

/// Grouping sets in grouping sets, and tuples in CUBE and ROLLUP, written out.
fn grouping(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let Some((kind, open)) = grouping_at(&tokens, at) else {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let Some(close) = closing(&tokens, open) else { return Ok(tokens) };
        let parts = parts_of(&tokens[open + 1..close]);
        // What only begins with a parenthesis, as `(a + 1) * 2`, would be taken for several expressions.
        let opens = |part: &[TokenWithSpan]| part.first().is_some_and(|first| first.token == Token::LParen);
        let whole = |part: &[TokenWithSpan]| kind == Kind::Sets && in_parentheses(part).is_some();
        let plain = |part: &[TokenWithSpan]| grouping_at(part, 0).is_none() && (!opens(part) || whole(part));
        if parts.iter().all(|part| plain(part)) {
            check_cube(kind, parts.len(), &tokens[at])?;
            out.extend_from_slice(&tokens[at..=open]);
            at = open + 1;
            continue;
        }
        let span = tokens[at].span;
        out.extend(["grouping", "sets", "("].map(|word| made(word, span)));
        for (place, set) in sets(&tokens[at..=close])?.into_iter().enumerate() {
            out.extend((place > 0).then(|| made(",", span)));
            out.push(made("(", span));
            out.extend(set);
            out.push(made(")", span));
        }
        out.push(tokens[close].clone());
        at = close + 1;
    }
    Ok(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sets,
    Cube,
    Rollup,
}

/// Whether grouping sets begin here, and where their bracket opens.
fn grouping_at(tokens: &[TokenWithSpan], at: usize) -> Option<(Kind, usize)> {
    let word = |at: usize| tokens.get(at).and_then(|token| bare(&token.token));
    let opens = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::LParen);
    let behind = |at: usize| match at.checked_sub(1) {
        // In GROUP BY, or in other grouping sets.
        Some(before) => matches!(tokens[before].token, Token::Comma | Token::LParen) || word(before) == Some("by"),
        None => true,
    };
    match (word(at), word(at + 1)) {
        (Some("grouping"), Some("sets")) if opens(at + 2) => Some((Kind::Sets, at + 2)),
        (Some("cube"), _) if opens(at + 1) && behind(at) => Some((Kind::Cube, at + 1)),
        (Some("rollup"), _) if opens(at + 1) && behind(at) => Some((Kind::Rollup, at + 1)),
        _ => None,
    }
}

fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// What stands between the commas.
fn parts_of(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i64, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 0 => {
                parts.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[from..]);
    parts
}

fn in_parentheses(part: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let whole = part.first()?.token == Token::LParen && closing(part, 0)? + 1 == part.len();
    whole.then(|| &part[1..part.len() - 1])
}

/// The sets that an item stands for, each as what goes between its parentheses.
fn sets(item: &[TokenWithSpan]) -> Result<Vec<Vec<TokenWithSpan>>> {
    let Some((kind, open)) = grouping_at(item, 0) else {
        return Ok(vec![in_parentheses(item).unwrap_or(item).to_vec()]);
    };
    let parts = parts_of(&item[open + 1..item.len() - 1]);
    check_cube(kind, parts.len(), &item[0])?;
    let members = || parts.iter().map(|part| in_parentheses(part).unwrap_or(part)).collect::<Vec<_>>();
    match kind {
        Kind::Sets => parts.iter().try_fold(Vec::new(), |mut all, part| {
            all.extend(sets(part)?);
            if all.len() > SETS_MAX {
                let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                return Err(Error::new(ErrorKind::TooComplex, message).at(start(item[0].span) + 1));
            }
            Ok(all)
        }),
        Kind::Rollup => {
            let members = members();
            Ok((0..=members.len()).rev().map(|count| together(&members[..count])).collect())
        }
        Kind::Cube => {
            let members = members();
            let chosen = |bits: usize| {
                let chosen = members.iter().enumerate().filter(|(place, _)| bits & (1 << place) == 0);
                together(&chosen.map(|(_, member)| *member).collect::<Vec<_>>())
            };
            Ok((0..1_usize << members.len()).map(chosen).collect())
        }
    }
}

fn check_cube(kind: Kind, members: usize, at: &TokenWithSpan) -> Result<()> {
    if kind != Kind::Cube || members <= CUBE_MAX {
        return Ok(());
    }
    let message = format!("CUBE is limited to {CUBE_MAX} elements");
    Err(Error::new(ErrorKind::TooComplex, message).at(start(at.span) + 1))
}

fn together(members: &[&[TokenWithSpan]]) -> Vec<TokenWithSpan> {
    let mut set: Vec<TokenWithSpan> = Vec::new();
    for member in members.iter().filter(|member| !member.is_empty()) {
        if let Some(last) = set.last() {
            set.push(made(",", last.span));
        }
        set.extend_from_slice(member);
    }
    set
}
