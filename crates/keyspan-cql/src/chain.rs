//! Long chains of OR and AND, made flat on the tokens.
//!
//! `a = 1 OR a = 2 OR …` becomes `a IN (1, 2, …)`, and `a <> 1 AND a <> 2 AND …` becomes `a NOT IN (…)`: the same
//! answer without a tree as deep as the chain is long. What is left of a long chain is grouped in brackets, so that
//! 2,000 terms make a tree of depth 90 and not of 2,000; more are refused with 54001. Short chains stay as they are
//! written.

use std::collections::HashMap;

use keyspan_model::Result;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::budget::{bare, is_boundary, too_complex};

/// Chains shorter than this stay as they are.
const SHORT: usize = 48;
/// The most terms that are left of a chain.
const MAX_TERMS: usize = 2_000;

/// The stretch of the output that one chain may cover: from a bracket, comma or clause word to the next.
#[derive(Default)]
struct Stretch {
    begin: usize,
    ors: Vec<usize>,
    ands: Vec<usize>,
    /// BETWEENs whose AND has not come yet.
    betweens: usize,
}

impl Stretch {
    fn at(begin: usize) -> Self {
        Stretch { begin, ..Stretch::default() }
    }
}

/// Folds the long chains of a statement.
pub(crate) fn fold(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if tokens.iter().filter(|token| matches!(bare(&token.token), Some("or" | "and"))).count() < SHORT {
        return Ok(tokens);
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut stack = vec![Stretch::default()];
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let word = bare(&token.token);
        let opens = matches!(token.token, Token::LParen | Token::LBracket | Token::LBrace) || word == Some("case");
        let closes = matches!(token.token, Token::RParen | Token::RBracket | Token::RBrace) || word == Some("end");
        let next = tokens.peek().map(|next| &next.token);
        let ends = token.token == Token::Comma || word.is_some_and(|word| is_boundary(word, next));
        let Some(stretch) = stack.last_mut() else { break };
        match word {
            Some("or") => stretch.ors.push(out.len()),
            Some("between") => stretch.betweens += 1,
            Some("and") if stretch.betweens > 0 => stretch.betweens -= 1,
            Some("and") => stretch.ands.push(out.len()),
            _ => {}
        }
        if closes || ends {
            rebuild(&mut out, stretch)?;
            if closes && stack.len() > 1 {
                stack.pop();
            } else if let Some(stretch) = stack.last_mut() {
                *stretch = Stretch::at(out.len() + 1);
            }
        }
        out.push(token);
        if opens {
            stack.push(Stretch::at(out.len()));
        }
    }
    while let Some(stretch) = stack.pop() {
        rebuild(&mut out, &stretch)?;
    }
    Ok(out)
}

/// Rewrites the end of the output, which this stretch covers.
fn rebuild(out: &mut Vec<TokenWithSpan>, stretch: &Stretch) -> Result<()> {
    if stretch.ors.len() < SHORT && stretch.ands.len() < SHORT {
        return Ok(());
    }
    let tail = out.split_off(stretch.begin.min(out.len()));
    let last = tail.last().map(|last| last.span);
    let mut disjuncts = Vec::new();
    for (begin, term) in split(tail, stretch.begin, &stretch.ors) {
        let first = stretch.ands.partition_point(|at| *at < begin);
        let after = stretch.ands.partition_point(|at| *at < begin + term.len());
        let ands = &stretch.ands[first..after];
        if ands.len() < SHORT {
            disjuncts.push(term);
        } else {
            let conjuncts = split(term, begin, ands).into_iter().map(|(_, term)| term).collect();
            disjuncts.push(join(conjuncts, "and")?);
        }
    }
    out.extend(join(disjuncts, "or")?);
    // The text of what was read is cut out up to its last token, which may now be one from the middle.
    if let (Some(token), Some(last)) = (out.last_mut(), last) {
        token.span.end = last.end;
    }
    Ok(())
}

/// The tokens between the operators at `places`, each with the place where it begins; `begin` is the first token's
/// place.
fn split(tokens: Vec<TokenWithSpan>, begin: usize, places: &[usize]) -> Vec<(usize, Vec<TokenWithSpan>)> {
    let mut terms = vec![(begin, Vec::new())];
    let mut places = places.iter().peekable();
    for (offset, token) in tokens.into_iter().enumerate() {
        if places.next_if(|place| **place == begin + offset).is_some() {
            terms.push((begin + offset + 1, Vec::new()));
        } else if let Some((_, term)) = terms.last_mut() {
            term.push(token);
        }
    }
    terms
}

/// One expression of all terms: comparisons of one column folded, the rest grouped.
fn join(terms: Vec<Vec<TokenWithSpan>>, operator: &'static str) -> Result<Vec<TokenWithSpan>> {
    if terms.len() < SHORT {
        return Ok(connect(terms, operator));
    }
    let terms = fold_equals(terms, operator);
    if terms.len() < SHORT {
        return Ok(connect(terms, operator));
    }
    if terms.len() > MAX_TERMS {
        let message = format!("expression has more than {MAX_TERMS} terms joined by {}", operator.to_uppercase());
        let first = terms.first().and_then(|term| term.first());
        return Err(too_complex(message, first.map_or_else(Span::empty, |first| first.span)));
    }
    let size = terms.len().isqrt() + 1;
    let (mut groups, mut terms) = (Vec::new(), terms.into_iter().peekable());
    while terms.peek().is_some() {
        let group: Vec<_> = terms.by_ref().take(size).collect();
        let wrap = group.len() > 1;
        let mut tokens = connect(group, operator);
        if wrap {
            bracket(&mut tokens);
        }
        groups.push(tokens);
    }
    Ok(connect(groups, operator))
}

fn bracket(tokens: &mut Vec<TokenWithSpan>) {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return };
    let (open, close) = (first.span, last.span);
    tokens.insert(0, TokenWithSpan { token: Token::LParen, span: open });
    tokens.push(TokenWithSpan { token: Token::RParen, span: close });
}

fn connect(terms: Vec<Vec<TokenWithSpan>>, operator: &str) -> Vec<TokenWithSpan> {
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    for (index, term) in terms.into_iter().enumerate() {
        let span = term.first().or(tokens.last()).map(|token| token.span);
        if index > 0 {
            let span = span.unwrap_or_else(Span::empty);
            tokens.push(TokenWithSpan { token: Token::make_keyword(operator), span });
        }
        tokens.extend(term);
    }
    tokens
}

/// `column = literal` terms of an OR chain (`<>` of an AND chain) as one `column IN (…)` per column and kind of
/// literal.
fn fold_equals(terms: Vec<Vec<TokenWithSpan>>, operator: &str) -> Vec<Vec<TokenWithSpan>> {
    let comparison = if operator == "or" { Token::Eq } else { Token::Neq };
    let mut groups: HashMap<String, usize> = HashMap::new();
    let mut out: Vec<Vec<TokenWithSpan>> = Vec::new();
    let mut literals: HashMap<usize, Vec<Vec<TokenWithSpan>>> = HashMap::new();
    for term in terms {
        let Some((column, at, kind)) = equality(&term, &comparison) else {
            out.push(term);
            continue;
        };
        let place = *groups.entry(format!("{column} {kind}")).or_insert(out.len());
        let stripped = strip(&term);
        literals.entry(place).or_default().push(stripped[at + 1..].to_vec());
        if place == out.len() {
            out.push(stripped.to_vec());
        }
    }
    for (place, values) in literals.into_iter().filter(|(_, values)| values.len() > 1) {
        if let Some((_, at, _)) = equality(&out[place], &comparison) {
            let span = out[place][at].span;
            let mut list = out[place][..at].to_vec();
            if operator == "and" {
                list.push(TokenWithSpan { token: Token::make_keyword("not"), span });
            }
            list.push(TokenWithSpan { token: Token::make_keyword("in"), span });
            list.push(TokenWithSpan { token: Token::LParen, span });
            for (index, value) in values.into_iter().enumerate() {
                if index > 0 {
                    list.push(TokenWithSpan { token: Token::Comma, span });
                }
                list.extend(value);
            }
            list.push(TokenWithSpan { token: Token::RParen, span });
            out[place] = list;
        }
    }
    out
}

/// The term without brackets around all of it.
fn strip(term: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let mut term = term;
    while let [first, inner @ .., last] = term {
        let bracketed = first.token == Token::LParen
            && last.token == Token::RParen
            && !inner.iter().any(|token| matches!(token.token, Token::LParen | Token::RParen));
        if !bracketed {
            break;
        }
        term = inner;
    }
    term
}

/// Of `column = literal`: the column, the place of the operator, and the kind of the literal. Only literals of one kind
/// may share a list, since a list has one type.
fn equality(term: &[TokenWithSpan], comparison: &Token) -> Option<(String, usize, String)> {
    let term = strip(term);
    let at = term.iter().take(8).position(|token| token.token == *comparison)?;
    let mut column = String::new();
    for (index, token) in term[..at].iter().enumerate() {
        match &token.token {
            Token::Word(word)
                if index % 2 == 0 && !matches!(bare(&token.token), Some("not" | "null" | "true" | "false")) =>
            {
                column.push_str(&format!("{:?}", word.value));
            }
            Token::Period if index % 2 == 1 => column.push('.'),
            _ => return None,
        }
    }
    let kind = literal_kind(&term[at + 1..])?;
    (at % 2 == 1).then_some((column, at, kind))
}

fn literal_kind(tokens: &[TokenWithSpan]) -> Option<String> {
    let tokens: Vec<&Token> = tokens.iter().take(4).map(|token| &token.token).collect();
    Some(match tokens.as_slice() {
        [Token::Number(text, _)] | [Token::Minus, Token::Number(text, _)] => {
            if text.contains(['.', 'e', 'E']) {
                "decimal".into()
            } else {
                "integer".into()
            }
        }
        [Token::SingleQuotedString(_)] => "text".into(),
        [Token::HexStringLiteral(_)] => "blob".into(),
        [Token::Placeholder(_)] => "parameter".into(),
        [Token::Word(ty), Token::SingleQuotedString(_)] => ty.value.clone(),
        [Token::SingleQuotedString(_), Token::DoubleColon, Token::Word(ty)] => format!("::{}", ty.value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokenize;

    fn folded(sql: &str) -> String {
        let tokens = fold(tokenize(sql).expect("lexes")).expect("within the budget");
        tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    fn chain(term: impl Fn(usize) -> String, count: usize, operator: &str) -> String {
        (0..count).map(term).collect::<Vec<_>>().join(operator)
    }

    #[test]
    fn equalities_become_a_list() {
        let sql = format!("SELECT * FROM t WHERE {} ORDER BY a", chain(|i| format!("t.a = {i}"), 100, " OR "));
        let list = (0..100).map(|i| i.to_string()).collect::<Vec<_>>().join(" , ");
        assert_eq!(folded(&sql), format!("select * from t where t . a in ( {list} ) order by a"));
        let sql = format!("SELECT {} FROM t", chain(|i| format!("(a <> 'x{i}')"), 100, " AND "));
        assert!(folded(&sql).starts_with("select a not in ( 'x0' , 'x1' ,"), "{}", folded(&sql));
    }

    #[test]
    fn kinds_columns_and_other_terms_stay_apart() {
        let sql = format!(
            "a = 1.5 OR b = 2 OR f(a) = 3 OR a = 'x' OR {}",
            chain(|i| format!("a = -{i} OR b = {i}"), 60, " OR ")
        );
        let text = folded(&sql);
        assert!(text.starts_with("a = 1.5 or b in ( 2 , 0 ,"), "{text}");
        assert!(text.contains("f ( a ) = 3 or a = 'x' or a in ( - 0 , - 1"), "{text}");
    }

    #[test]
    fn other_long_chains_are_grouped_and_short_ones_left() {
        let sql = format!("SELECT x WHERE {} GROUP BY b", chain(|i| format!("a BETWEEN {i} AND {i}"), 400, " OR "));
        let text = folded(&sql);
        assert!(text.starts_with("select x where ( a between 0 and 0 or"), "{text}");
        assert_eq!(text.matches('(').count(), 19);
        assert!(text.ends_with(") or a between 399 and 399 group by b"), "{text}");
        let short = chain(|i| format!("a = {i}"), 20, " or ");
        assert_eq!(folded(&short), short);
    }

    #[test]
    fn a_chain_has_a_limit() {
        let sql = chain(|i| format!("(a = {i} AND b = {i})"), 3000, " OR ");
        let error = fold(tokenize(&sql).expect("lexes")).expect_err("too long");
        assert_eq!(error.kind, keyspan_model::ErrorKind::TooComplex);
    }
}
