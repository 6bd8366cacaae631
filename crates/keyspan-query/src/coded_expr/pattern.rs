//! LIKE and regular expressions with constant patterns, compiled once: DataFusion compiles them anew for each batch, which
//! takes longer than to match the few values of one. LIKE without escapes is matched as it stands, by code of ours: threads
//! that share a compiled expression wait for each other at its pool of scratch memory, a fifth of such a statement's time.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, LikeExpr, Literal};
use fancy_regex::Regex;

use crate::error::external;
use crate::functions::pattern::{invalid, like_pattern, of_library};

/// A condition on one column of texts.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    form: Form,
    negated: bool,
}

#[derive(Clone, Debug)]
enum Form {
    /// A pattern of LIKE without escapes.
    Like(Arc<str>),
    Regex(Arc<Regex>),
}

impl Pattern {
    /// Of a column and a constant; `None` where DataFusion's own code is as fast, or says what is wrong with the pattern.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Pattern> {
        let constant =
            |expr: &'_ Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Literal>()?.value().try_as_str()??.to_owned());
        let (regex, negated) = if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            let pattern =
                constant(like.pattern()).filter(|pattern| like.expr().is::<Column>() && is_compiled(pattern))?;
            if !like.case_insensitive() && !pattern.contains('\\') {
                return Some(Pattern { form: Form::Like(pattern.into()), negated: like.negated() });
            }
            (like_pattern(&pattern, like.case_insensitive()), like.negated())
        } else {
            let binary = expr.downcast_ref::<BinaryExpr>().filter(|binary| binary.left().is::<Column>())?;
            let (insensitive, negated) = match binary.op() {
                Operator::RegexMatch => (false, false),
                Operator::RegexIMatch => (true, false),
                Operator::RegexNotMatch => (false, true),
                Operator::RegexNotIMatch => (true, true),
                _ => return None,
            };
            let pattern = constant(binary.right())?;
            (if insensitive { format!("(?i){pattern}") } else { pattern }, negated)
        };
        Some(Pattern { form: Form::Regex(Arc::new(of_library(&regex).ok()?)), negated })
    }

    /// The results for texts; `None` for arrays of another kind.
    pub(super) fn of_texts(&self, array: &ArrayRef) -> Option<Result<ArrayRef>> {
        let texts = array.as_string_view_opt()?;
        let regex = match &self.form {
            Form::Regex(regex) => regex,
            Form::Like(pattern) => {
                let matches = |text: &str| is_like(text.as_bytes(), pattern.as_bytes()) != self.negated;
                return Some(Ok(Arc::new(texts.iter().map(|text| text.map(matches)).collect::<BooleanArray>())));
            }
        };
        let matches = |text: &str| regex.is_match(text).map(|found| found != self.negated);
        let results = texts.iter().map(|text| text.map(matches).transpose());
        let results = results.collect::<std::result::Result<BooleanArray, _>>();
        Some(match results {
            Ok(results) => Ok(Arc::new(results)),
            Err(error) => Err(external(invalid(regex.as_str(), error))),
        })
    }
}

/// Whether a text is like a pattern without escapes, both in UTF-8: `%` is first taken for nothing, then for one
/// character more each time that what follows does not match.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Behind the last `%`, and where the text ends that it is taken for.
    let mut last: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(next) {
            Some(b'%') => {
                next += 1;
                last = Some((next, at));
            }
            Some(b'_') => (at, next) = (at + width(text[at]), next + 1),
            Some(byte) if *byte == text[at] => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((behind, end)) = &mut last else { return false };
                *end += width(text[*end]);
                (at, next) = (*end, *behind);
            }
        }
    }
    pattern[next..].iter().all(|byte| *byte == b'%')
}

/// Bytes of the character that begins with this byte.
fn width(first: u8) -> usize {
    match first.leading_ones() {
        0 => 1,
        more => more as usize,
    }
}

/// Whether a pattern of LIKE is more than a text with `%` at its ends.
fn is_compiled(pattern: &str) -> bool {
    pattern.trim_matches('%').contains(['%', '_', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_without_escapes_is_what_its_regular_expression_says() {
        let pieces = ["a", "b", "ab", "%", "_", "%%", "_%", "é", "日", ""];
        let texts = ["", "a", "b", "ab", "aab", "abab", "ba", "é", "aé", "éa", "日本", "a日b", "aéab", "bbbbab"];
        let patterns = pieces.iter().flat_map(|one| pieces.iter().map(move |two| (one, two)));
        for ((one, two), three) in patterns.flat_map(|pair| pieces.iter().map(move |three| (pair, three))) {
            let pattern = format!("{one}{two}{three}");
            let regex = of_library(&like_pattern(&pattern, false)).expect("a regular expression");
            for text in texts {
                let expected = regex.is_match(text).expect("a match or none");
                assert_eq!(is_like(text.as_bytes(), pattern.as_bytes()), expected, "{text} LIKE {pattern}");
            }
        }
    }
}
