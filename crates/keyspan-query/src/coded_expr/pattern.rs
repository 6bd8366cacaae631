//! LIKE and regular expressions with constant patterns, compiled once: DataFusion compiles them anew for each batch, which
//! takes longer than to match the few values of one.

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
    regex: Arc<Regex>,
    negated: bool,
}

impl Pattern {
    /// Of a column and a constant; `None` where DataFusion's own code is as fast, or says what is wrong with the pattern.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Pattern> {
        let constant =
            |expr: &'_ Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Literal>()?.value().try_as_str()??.to_owned());
        let (regex, negated) = if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            let pattern =
                constant(like.pattern()).filter(|pattern| like.expr().is::<Column>() && is_compiled(pattern))?;
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
        Some(Pattern { regex: Arc::new(of_library(&regex).ok()?), negated })
    }

    /// The results for texts; `None` for arrays of another kind.
    pub(super) fn of_texts(&self, array: &ArrayRef) -> Option<Result<ArrayRef>> {
        let texts = array.as_string_view_opt()?;
        let matches = |text: &str| self.regex.is_match(text).map(|found| found != self.negated);
        let results = texts.iter().map(|text| text.map(matches).transpose());
        let results = results.collect::<std::result::Result<BooleanArray, _>>();
        Some(match results {
            Ok(results) => Ok(Arc::new(results)),
            Err(error) => Err(external(invalid(self.regex.as_str(), error))),
        })
    }
}

/// Whether a pattern of LIKE is more than a text with `%` at its ends.
fn is_compiled(pattern: &str) -> bool {
    pattern.trim_matches('%').contains(['%', '_', '\\'])
}
