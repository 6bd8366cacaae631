//! Token sequences that `sqlparser` would misread, rewritten before it reads them.
//!
//! | text | would be | is made |
//! |---|---|---|
//! | `SELECT interval FROM t` | half of an interval literal | a quoted name |
//! | `SELECT user FROM t` | the function `user` | a quoted name; `SELECT user` alone stays the function |
//! | `SELECT JSON *` | a multiplication | a SELECT with the setting `select_json`: CQL's JSON output |
//! | `FOR NO KEY UPDATE`, `FOR KEY SHARE` | an error | FOR UPDATE, FOR SHARE |
//! | `FOR UPDATE … LIMIT 1` | an error | LIMIT 1 FOR UPDATE … |
//! | `x = ANY (VALUES …)` | an error | `x = ANY (SELECT * FROM (VALUES …) AS q)` |
//! | `trim(trailing FROM x)` | an error | the same without FROM |
//! | `a ASOF JOIN b ON …` | an error: only Snowflake's MATCH_CONDITION | a GLOBAL join, which only we write |
//! | `a GLOBAL JOIN b ON …` | a join | refused by name |
//! | `… PER PARTITION LIMIT 1 … ALLOW FILTERING` | aliases | `SETTINGS`, which only we write, read back by [`crate::cql_tails`] |

use keyspan_model::{Error, Result};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::budget::bare;
use crate::source::start;

/// Rewrites a statement's tokens.
pub(crate) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let json = take_json(&mut tokens)?;
    let users_are_columns = users_are_columns(&tokens);
    for index in 0..tokens.len() {
        let next = tokens.get(index + 1).map(|next| &next.token);
        let previous = index.checked_sub(1).map(|at| &tokens[at].token);
        let is_name = match bare(&tokens[index].token) {
            Some("interval") => interval_is_name(previous, next),
            Some("user") => users_are_columns && next != Some(&Token::LParen) && !names_an_account(previous),
            _ => false,
        };
        if let (true, Token::Word(word)) = (is_name, &mut tokens[index].token) {
            word.quote_style = Some('"');
            word.keyword = Keyword::NoKeyword;
        }
    }
    drop_from_of_trim(&mut tokens);
    drop_kinds_of_locks(&mut tokens);
    limits_before_locks(&mut tokens);
    select_from_values(&mut tokens);
    mark_asof(&mut tokens)?;
    move_tails(open_in(tokens), json)
}

/// The keyword or bare name at a place.
fn word(tokens: &[TokenWithSpan], at: usize) -> Option<&str> {
    tokens.get(at).and_then(|token| bare(&token.token))
}

/// `FOR NO KEY UPDATE` and `FOR KEY SHARE` as FOR UPDATE and FOR SHARE: rows have one kind of lock.
fn drop_kinds_of_locks(tokens: &mut Vec<TokenWithSpan>) {
    let is = |tokens: &[TokenWithSpan], at: usize, words: &[&str]| {
        words.iter().enumerate().all(|(place, wanted)| word(tokens, at + place) == Some(wanted))
    };
    let mut at = 0;
    while at < tokens.len() {
        if is(tokens, at, &["for", "no", "key", "update"]) {
            tokens.drain(at + 1..at + 3);
        } else if is(tokens, at, &["for", "key", "share"]) {
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// PostgreSQL takes LIMIT, OFFSET and FETCH before and after FOR UPDATE.
fn limits_before_locks(tokens: &mut [TokenWithSpan]) {
    let mut at = 0;
    while at < tokens.len() {
        let locks = at;
        while word(tokens, at) == Some("for") && matches!(word(tokens, at + 1), Some("update" | "share")) {
            at = end_of_lock(tokens, at + 2);
        }
        let limits = at > locks && matches!(word(tokens, at), Some("limit" | "offset" | "fetch"));
        let end = if limits { end_of_limits(tokens, at) } else { at };
        if end > at + 1 {
            let last = tokens[end - 1].span.end;
            tokens[locks..end].rotate_left(at - locks);
            // The text of what was read so far ends with its last token.
            tokens[end - 1].span.end = last;
            at = end;
        } else if at == locks {
            at += 1;
        }
    }
}

/// Where `[OF table, …] [NOWAIT | SKIP LOCKED]` ends.
fn end_of_lock(tokens: &[TokenWithSpan], mut at: usize) -> usize {
    let word = |at| word(tokens, at);
    if word(at) == Some("of") {
        at += 2;
        while tokens.get(at).is_some_and(|next| matches!(next.token, Token::Comma | Token::Period)) {
            at += 2;
        }
    }
    match (word(at), word(at + 1)) {
        (Some("nowait"), _) => at + 1,
        (Some("skip"), Some("locked")) => at + 2,
        _ => at,
    }
}

/// Where the LIMIT, OFFSET or FETCH that begins here ends, and with it the query.
fn end_of_limits(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match (&token.token, bare(&token.token)) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen | Token::SemiColon, _) if depth == 0 => return at,
            (Token::RParen, _) => depth -= 1,
            (_, Some("for" | "on" | "returning")) if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// VALUES as the rows that ANY, SOME or ALL compares with.
fn select_from_values(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        let compares = matches!(bare(&tokens[at].token), Some("any" | "some" | "all"));
        let values = tokens[at + 1].token == Token::LParen && bare(&tokens[at + 2].token) == Some("values");
        at += 1;
        let Some(end) = (compares && values).then(|| end_of_limits(tokens, at + 1)) else { continue };
        if end < tokens.len() {
            let made = |token: Token, span| TokenWithSpan { token, span };
            let (first, last) = (tokens[at].span, tokens[end].span);
            let name = Token::make_word("q", None);
            let after = [Token::RParen, Token::make_keyword("as"), name].map(|token| made(token, last));
            let from = [Token::make_keyword("select"), Token::Mul, Token::make_keyword("from"), Token::LParen];
            tokens.splice(end..end, after);
            tokens.splice(at + 1..at + 1, from.map(|token| made(token, first)));
        }
    }
}

/// `trim(trailing FROM x)` as `trim(trailing x)`: without characters FROM may stand there, too.
fn drop_from_of_trim(tokens: &mut Vec<TokenWithSpan>) {
    for at in 0..tokens.len() {
        let word = |at| word(tokens, at);
        if word(at) != Some("trim") || tokens.get(at + 1).is_none_or(|next| next.token != Token::LParen) {
            continue;
        }
        let side = matches!(word(at + 2), Some("both" | "leading" | "trailing"));
        let from = at + 2 + usize::from(side);
        if word(from) == Some("from") {
            tokens.remove(from);
        }
    }
}

/// DuckDB's `ASOF [LEFT | INNER] JOIN … ON | USING` as a GLOBAL join; `ASOF JOIN … MATCH_CONDITION` is read as it is.
/// GLOBAL itself, which `sqlparser` reads as ClickHouse does, is refused.
fn mark_asof(tokens: &mut [TokenWithSpan]) -> Result<()> {
    for at in 0..tokens.len() {
        let word = bare(&tokens[at].token);
        if !matches!(word, Some("asof" | "global")) {
            continue;
        }
        // A column `q.asof` or a name after AS, and then a plain join.
        let previous = at.checked_sub(1).map(|at| &tokens[at].token);
        if previous.is_some_and(|token| *token == Token::Period || bare(token) == Some("as")) {
            continue;
        }
        let global = word == Some("global");
        let mut words = tokens[at + 1..].iter().map(|token| bare(&token.token));
        let join = words.position(|word| !matches!(word, Some("left" | "inner" | "outer")));
        let Some(join) = join.map(|place| at + 1 + place) else { continue };
        if bare(&tokens[join].token) != Some("join") {
            continue;
        }
        if global {
            let error = Error::not_supported("GLOBAL JOIN is not supported").at(start(tokens[at].span) + 1);
            return Err(error.with_hint("Leave GLOBAL out; as the name of a table it needs quotes: \"global\"."));
        }
        if !has_match_condition(&tokens[join + 1..]) {
            tokens[at].token = Token::make_keyword("global");
        }
    }
    Ok(())
}

/// Whether MATCH_CONDITION comes before the join's condition.
fn has_match_condition(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match (&token.token, bare(&token.token)) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen, _) if depth == 0 => return false,
            (Token::RParen, _) => depth -= 1,
            (_, Some("match_condition")) if depth == 0 => return true,
            (_, Some("on" | "using" | "where" | "join")) if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// CQL's `a IN ?`, one parameter for the whole list, as `a = ANY (?)`; `NOT IN ?` as `<> ALL (?)`.
fn open_in(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_open = |pair: &[TokenWithSpan]| matches!(pair, [word, list] if bare(&word.token) == Some("in") && matches!(list.token, Token::Placeholder(_)));
    if !tokens.windows(2).any(is_open) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let list = tokens.next_if(|next| is_open(&[token.clone(), next.clone()]));
        let Some(list) = list else {
            out.push(token);
            continue;
        };
        let negated = out.pop_if(|last| bare(&last.token) == Some("not")).is_some();
        let (operator, quantifier) = if negated { (Token::Neq, "all") } else { (Token::Eq, "any") };
        let (span, end) = (token.span, list.span);
        out.push(TokenWithSpan { token: operator, span });
        out.push(TokenWithSpan { token: Token::make_keyword(quantifier), span });
        out.push(TokenWithSpan { token: Token::LParen, span });
        out.push(list);
        out.push(TokenWithSpan { token: Token::RParen, span: end });
    }
    out
}

/// Takes JSON out of CQL's `SELECT JSON`, which begins the statement; where it stood. `json` before a comma, period,
/// FROM, AS or operator is a column, before a string a literal's type.
fn take_json(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<Span>> {
    let is_cql = |at: usize| {
        let [select, json, next] = [0, 1, 2].map(|n| tokens.get(at + n).map(|token| &token.token));
        let begins = select.and_then(bare) == Some("select") && json.and_then(bare) == Some("json");
        begins
            && match next {
                Some(Token::Mul) => tokens.get(at + 3).and_then(|after| bare(&after.token)) == Some("from"),
                Some(Token::Word(word)) => {
                    let goes_on = matches!(&*word.value, "from" | "as" | "is" | "in" | "like" | "between");
                    word.quote_style.is_some() || !goes_on
                }
                _ => false,
            }
    };
    match (0..tokens.len()).find(|at| is_cql(*at)) {
        None => Ok(None),
        Some(0) => Ok(Some(tokens.remove(1).span)),
        Some(at) => {
            let error = Error::not_supported("SELECT JSON inside of another statement is not supported");
            let hint = "Write to_json(t) of (SELECT …) AS t, or name a column json as \"json\".";
            Err(error.at(start(tokens[at + 1].span) + 1).with_hint(hint))
        }
    }
}

/// Whether `user` can be a column here: not in a SELECT without a table, where PostgreSQL's users expect the function.
fn users_are_columns(tokens: &[TokenWithSpan]) -> bool {
    match tokens.first().and_then(|first| bare(&first.token)) {
        Some("select" | "values" | "show" | "set") => tokens.iter().any(|token| bare(&token.token) == Some("from")),
        _ => true,
    }
}

fn names_an_account(previous: Option<&Token>) -> bool {
    matches!(previous.and_then(bare), Some("create" | "drop" | "alter" | "list" | "for" | "to"))
}

fn interval_is_name(previous: Option<&Token>, next: Option<&Token>) -> bool {
    let is_type = previous == Some(&Token::DoubleColon) || previous.and_then(bare) == Some("as");
    let is_literal = matches!(
        next,
        Some(Token::SingleQuotedString(_) | Token::Number(..) | Token::Placeholder(_) | Token::LParen | Token::Minus)
    );
    !is_type && !is_literal
}

/// The tails met in one query, at one level of brackets.
#[derive(Default)]
struct Level {
    allow_filtering: Option<Span>,
    per_partition_limit: Option<(Span, TokenWithSpan)>,
    json: Option<Span>,
    combines: bool,
}

/// Moves `PER PARTITION LIMIT n` and `ALLOW FILTERING` to the end of their query, as SETTINGS.
fn move_tails(tokens: Vec<TokenWithSpan>, json: Option<Span>) -> Result<Vec<TokenWithSpan>> {
    if json.is_none() && !tokens.iter().any(|token| matches!(bare(&token.token), Some("per" | "allow"))) {
        return Ok(tokens);
    }
    let mut out = Vec::with_capacity(tokens.len());
    let mut levels = vec![Level { json, ..Level::default() }];
    let mut index = 0;
    while index < tokens.len() {
        let words: [Option<&str>; 3] =
            std::array::from_fn(|n| tokens.get(index + n).and_then(|token| bare(&token.token)));
        let token = &tokens[index];
        let last = index.checked_sub(1).map_or(token.span, |at| tokens[at].span);
        let Some(level) = levels.last_mut() else { break };
        match words {
            [Some("per"), Some("partition"), Some("limit")] => {
                let limit = tokens
                    .get(index + 3)
                    .filter(|limit| matches!(limit.token, Token::Number(..) | Token::Placeholder(_)));
                let Some(limit) = limit else {
                    let error = Error::new(
                        keyspan_model::ErrorKind::Syntax,
                        "PER PARTITION LIMIT needs a number or a parameter",
                    );
                    return Err(error.at(start(token.span) + 1));
                };
                level.per_partition_limit = Some((token.span, limit.clone()));
                level.check()?;
                index += 4;
                continue;
            }
            [Some("allow"), Some("filtering"), _] => {
                level.allow_filtering = Some(token.span);
                index += 2;
                continue;
            }
            [Some("union" | "intersect" | "except"), ..] => {
                level.combines = true;
                level.check()?;
            }
            [Some("for" | "fetch" | "returning"), ..]
            | [Some("on"), Some("conflict"), _]
            | [Some("with"), Some("no" | "data"), _] => {
                level.flush(&mut out, last);
            }
            _ => {}
        }
        match token.token {
            Token::LParen => levels.push(Level::default()),
            Token::RParen => {
                level.flush(&mut out, last);
                if levels.len() > 1 {
                    levels.pop();
                }
            }
            _ => {}
        }
        out.push(token.clone());
        index += 1;
    }
    let last = tokens.last().map_or_else(Span::empty, |last| last.span);
    while let Some(mut level) = levels.pop() {
        level.flush(&mut out, last);
    }
    Ok(out)
}

impl Level {
    /// A limit per partition in one arm of a UNION would bind to the whole of it.
    fn check(&self) -> Result<()> {
        match (&self.per_partition_limit, self.combines) {
            (Some((span, _)), true) => {
                let error = Error::not_supported("PER PARTITION LIMIT cannot stand beside UNION, INTERSECT or EXCEPT");
                Err(error.at(start(*span) + 1).with_hint("Put the SELECT that it belongs to in parentheses."))
            }
            _ => Ok(()),
        }
    }

    /// Writes the tails as SETTINGS. Its last token ends where `last`, the last token of the source, does, so that the
    /// text of what was read so far can still be cut out.
    fn flush(&mut self, out: &mut Vec<TokenWithSpan>, last: Span) {
        let (limit, filtering, json) = (self.per_partition_limit.take(), self.allow_filtering.take(), self.json.take());
        let Some(span) = limit.as_ref().map(|(span, _)| *span).or(filtering).or(json) else { return };
        let name = |value: &str, keyword| Token::Word(Word { value: value.into(), quote_style: None, keyword });
        let mut push = |token: Token| out.push(TokenWithSpan { token, span });
        push(name("settings", Keyword::SETTINGS));
        let limit = limit.map(|(_, limit)| ("per_partition_limit", limit.token));
        let flag = |set: Option<Span>, name| set.map(|_| (name, Token::make_keyword("true")));
        let all = [limit, flag(filtering, "allow_filtering"), flag(json, "select_json")];
        for (place, (setting, value)) in all.into_iter().flatten().enumerate() {
            if place > 0 {
                push(Token::Comma);
            }
            push(name(setting, Keyword::NoKeyword));
            push(Token::Eq);
            push(value);
        }
        if let Some(token) = out.last_mut() {
            token.span.end = last.end;
        }
    }
}
