//! Regular expressions as PostgreSQL reads them, and SQL's own patterns made of them.
//!
//! `compile` makes a pattern of PostgreSQL's one of the library's; here are the functions of single values, in `lists`
//! those that give arrays.

mod compile;
mod lists;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use fancy_regex::{Match, Regex};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::list::ListFunction;
use super::overload::{Call, Code, Overload, Parameter};
use super::text::{LONGEST, text, too_long};
use compile::{compiled, compiled_once};
pub use compile::{invalid, of_library, translated};
pub use lists::{MATCHES, SPLIT};

use crate::interrupt;

use ColumnType as C;

/// Matches of one text after which it is asked whether the statement has ended.
const MATCHES_OF_A_CHECK: usize = 1024;

type Captures<'t> = fancy_regex::Captures<'t, str>;

const T: Parameter = Parameter::Is(C::Text);
const I: Parameter = Parameter::Is(C::Int);

/// [`escaped_by_backslash`] as a function, for patterns that are no literals.
pub const LIKE_ESCAPE: &str = "like_escape";

/// A pattern of SIMILAR TO as one of PostgreSQL's regular expressions, whose points match ends of lines anyway.
pub const SIMILAR_PATTERN: &str = "similar_pattern";
/// `x LIKE ANY (patterns)` and its like as functions, for arrays that are no literals.
pub const MATCHES_ANY: &str = "matches_any";
/// [`MATCHES_ANY`] of all patterns.
pub const MATCHES_ALL: &str = "matches_all";

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = vec![Overload::native("md5", &[T]), Overload::native("md5", &[Parameter::Is(C::Blob)])];
    for name in ["sha224", "sha256", "sha384", "sha512"] {
        all.push(Overload::native(name, &[Parameter::Is(C::Blob)]));
    }
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    for parameters in [&[T, T] as &'static [Parameter], &[T, T, T]] {
        add("regexp_like", parameters, C::Boolean, like);
    }
    for parameters in [&[T, T, T] as &'static [Parameter], &[T, T, T, T]] {
        add("regexp_replace", parameters, C::Text, replace_flagged);
    }
    for parameters in [&[T, T, T, I] as &'static [Parameter], &[T, T, T, I, I], &[T, T, T, I, I, T]] {
        add("regexp_replace", parameters, C::Text, replace_from);
    }
    for parameters in [&[T, T] as &'static [Parameter], &[T, T, I], &[T, T, I, T]] {
        add("regexp_count", parameters, C::Int, count);
    }
    for parameters in
        [&[T, T] as &'static [Parameter], &[T, T, I], &[T, T, I, I], &[T, T, I, I, T], &[T, T, I, I, T, I]]
    {
        add("regexp_substr", parameters, C::Text, part);
    }
    let places: [&[Parameter]; 6] =
        [&[T, T], &[T, T, I], &[T, T, I, I], &[T, T, I, I, I], &[T, T, I, I, I, T], &[T, T, I, I, I, T, I]];
    for parameters in places {
        add("regexp_instr", parameters, C::Int, place);
    }
    add("substring", &[T, T], C::Text, |_, v| {
        let (own, pattern) = (text(&v[0])?, compiled(text(&v[1])?, "")?);
        let found = first_match(&pattern.regex, own)?;
        let whole = usize::from(pattern.regex.captures_len() > 1);
        Ok(found.and_then(|found| found.get(whole)).map_or(Value::Null, |part| Value::Text(part.as_str().into())))
    });
    add("substring", &[T, T, T], C::Text, similar_part);
    add(SIMILAR_PATTERN, &[T], C::Text, |_, v| Ok(Value::Text(format!("^(?:{})$", similar_body(text(&v[0])?, '\\')))));
    let patterns: &[Parameter] = &[T, Parameter::Array, T];
    add(MATCHES_ANY, patterns, C::Boolean, |_, v| matched(v, true));
    add(MATCHES_ALL, patterns, C::Boolean, |_, v| matched(v, false));
    add(LIKE_ESCAPE, &[T, T], C::Text, |_, v| Ok(Value::Text(escaped_by_backslash(text(&v[0])?, text(&v[1])?)?)));
    all
}

/// The functions over lists.
pub fn over_lists() -> Vec<ListFunction> {
    lists::functions()
}

/// The matches from this byte on. After an empty one the search goes on at the next character. Of a long text there may be
/// millions: none is kept, and the statement can be stopped between them.
fn matches<'t>(regex: &Regex, text: &'t str, from: usize) -> impl Iterator<Item = Result<Captures<'t>>> {
    let (mut at, mut seen) = (from, 0_usize);
    std::iter::from_fn(move || {
        seen += 1;
        let ended = if seen.is_multiple_of(MATCHES_OF_A_CHECK) { interrupt::check() } else { Ok(()) };
        let found = ended.and_then(|()| match at <= text.len() {
            true => regex.captures_from_pos(text, at).map_err(|error| invalid(regex.as_str(), error)),
            false => Ok(None),
        });
        if let Ok(Some(found)) = &found {
            let whole = found.get(0).expect("the whole match");
            at = match whole.range().is_empty() {
                true => whole.end() + text[whole.end()..].chars().next().map_or(1, char::len_utf8),
                false => whole.end(),
            };
        }
        found.transpose()
    })
}

fn first_match<'t>(regex: &Regex, text: &'t str) -> Result<Option<Captures<'t>>> {
    regex.captures(text).map_err(|error| invalid(regex.as_str(), error))
}

fn integer(values: &[Value], index: usize, name: &str, least: i32, default: i32) -> Result<i32> {
    match values.get(index) {
        None => Ok(default),
        Some(Value::Int(value)) if *value >= least => Ok(*value),
        Some(value) => {
            let message = format!("invalid value for parameter \"{name}\": {}", value.to_text(C::Int));
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
    }
}

/// The byte at which the character of this number begins; none beyond the text.
fn start(text: &str, number: i32) -> Option<usize> {
    let before = usize::try_from(number - 1).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(before)
}

fn flags(values: &[Value], index: usize) -> Result<&str> {
    values.get(index).map_or(Ok(""), text)
}

fn like(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let pattern = compiled_once("regexp_like", text(&values[1])?, flags(values, 2)?)?;
    let regex = &pattern.regex;
    let found = regex.is_match(text(&values[0])?).map_err(|error| invalid(regex.as_str(), error))?;
    Ok(Value::Boolean(found))
}

/// Whether a text matches one of the patterns, or each: null if only one that is null could say so. The operator's sign is
/// the third argument.
fn matched(values: &[Value], any: bool) -> Result<Value> {
    let (own, sign) = (text(&values[0])?, text(&values[2])?);
    let Value::List(patterns) = &values[1] else { return Err(Error::internal("patterns that are no array")) };
    let (negated, sign) = (sign.starts_with('!'), sign.trim_start_matches('!'));
    let mut unknown = false;
    for pattern in patterns {
        if pattern.is_null() {
            unknown = true;
            continue;
        }
        let pattern = match sign {
            "~~" | "~~*" => compiled(&like_pattern(text(pattern)?, sign.ends_with('*')), "")?,
            _ => compiled(text(pattern)?, if sign.ends_with('*') { "i" } else { "" })?,
        };
        let regex = &pattern.regex;
        let found = regex.is_match(own).map_err(|error| invalid(regex.as_str(), error))? != negated;
        if found == any {
            return Ok(Value::Boolean(any));
        }
    }
    Ok(if unknown { Value::Null } else { Value::Boolean(!any) })
}

fn replace_flagged(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let flags = flags(values, 3)?;
    if let Some(digit) = flags.chars().next().filter(char::is_ascii_digit) {
        let message = format!("invalid regular expression option: \"{digit}\"");
        let hint = "If you meant to use regexp_replace() with a start parameter, \
                    cast the fourth argument to integer explicitly.";
        return Err(Error::new(ErrorKind::InvalidParameter, message).with_hint(hint));
    }
    let pattern = compiled(text(&values[1])?, flags)?;
    let which = if pattern.global { 0 } else { 1 };
    replaced(text(&values[0])?, &pattern.regex, text(&values[2])?, 0, which)
}

fn replace_from(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let own = text(&values[0])?;
    let (from, which) = (integer(values, 3, "start", 1, 1)?, integer(values, 4, "n", 0, 1)?);
    let pattern = compiled(text(&values[1])?, flags(values, 5)?)?;
    match start(own, from) {
        Some(from) => replaced(own, &pattern.regex, text(&values[2])?, from, which),
        None => Ok(values[0].clone()),
    }
}

/// `regexp_replace` of each text; `None` where it fails for one of them.
pub fn replaced_texts(texts: &StringViewArray, pattern: &str, with: &str, flags: &str) -> Option<ArrayRef> {
    let pattern = compiled(pattern, flags).ok()?;
    let which = if pattern.global { 0 } else { 1 };
    let (mut builder, mut result) = (StringViewBuilder::with_capacity(texts.len()), String::new());
    for text in texts {
        match text {
            None => builder.append_null(),
            Some(text) => {
                result.clear();
                replace(text, &pattern.regex, with, (0, which), &mut result).ok()?;
                builder.append_value(&result);
            }
        }
    }
    Some(Arc::new(builder.finish()))
}

/// As [`replace`], as a value.
fn replaced(own: &str, regex: &Regex, with: &str, from: usize, which: i32) -> Result<Value> {
    let mut result = String::with_capacity(own.len());
    replace(own, regex, with, (from, which), &mut result)?;
    Ok(Value::Text(result))
}

/// Writes the text with a match replaced: the one of this number, or all of them if it is 0.
fn replace(own: &str, regex: &Regex, with: &str, (from, which): (usize, i32), result: &mut String) -> Result<()> {
    let mut copied = 0;
    let (skipped, most) = match usize::try_from(which).unwrap_or(0) {
        0 => (0, usize::MAX),
        which => (which - 1, which),
    };
    for found in matches(regex, own, from).take(most).skip(skipped) {
        let found = found?;
        let whole = found.get(0).expect("the whole match");
        if result.len() > LONGEST {
            return Err(too_long());
        }
        result.push_str(&own[copied..whole.start()]);
        substitute(with, &found, result);
        copied = whole.end();
    }
    result.push_str(&own[copied..]);
    Ok(())
}

/// `\1` to `\9` stand for groups, `\&` for the whole match, `\\` for a backslash.
fn substitute(with: &str, found: &Captures<'_>, result: &mut String) {
    let mut characters = with.chars();
    while let Some(c) = characters.next() {
        let group = match (c, characters.clone().next()) {
            ('\\', Some('&')) => Some(0),
            ('\\', Some(digit @ '1'..='9')) => digit.to_digit(10),
            ('\\', Some('\\')) => {
                characters.next();
                None
            }
            _ => None,
        };
        match group {
            Some(group) => {
                characters.next();
                let part = found.get(usize::try_from(group).unwrap_or(0));
                result.push_str(part.map_or("", |part| part.as_str()));
            }
            None => result.push(c),
        }
    }
}

fn count(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (own, from) = (text(&values[0])?, integer(values, 2, "start", 1, 1)?);
    let pattern = compiled_once("regexp_count", text(&values[1])?, flags(values, 3)?)?;
    let regex = &pattern.regex;
    let found = match start(own, from) {
        Some(from) => matches(regex, own, from).try_fold(0_usize, |count, found| found.map(|_| count + 1))?,
        None => 0,
    };
    Ok(Value::Int(i32::try_from(found).unwrap_or(i32::MAX)))
}

/// The match of this number from a place on, and of it the group of this number.
fn nth<'t>(own: &'t str, regex: &Regex, (from, number, group): (i32, i32, i32)) -> Result<Option<Match<'t>>> {
    let Some(from) = start(own, from) else { return Ok(None) };
    let index = |number: i32| usize::try_from(number).unwrap_or(usize::MAX);
    let found = matches(regex, own, from).nth(index(number - 1)).transpose()?;
    Ok(found.and_then(|found| found.get(index(group))))
}

fn part(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let wanted =
        (integer(values, 2, "start", 1, 1)?, integer(values, 3, "n", 1, 1)?, integer(values, 5, "subexpr", 0, 0)?);
    let pattern = compiled_once("regexp_substr", text(&values[1])?, flags(values, 4)?)?;
    let regex = &pattern.regex;
    Ok(nth(text(&values[0])?, regex, wanted)?.map_or(Value::Null, |part| Value::Text(part.as_str().into())))
}

fn place(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let wanted =
        (integer(values, 2, "start", 1, 1)?, integer(values, 3, "n", 1, 1)?, integer(values, 6, "subexpr", 0, 0)?);
    let end = integer(values, 4, "endoption", 0, 0)?;
    if end > 1 {
        let message = format!("invalid value for parameter \"endoption\": {end}");
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    let pattern = compiled_once("regexp_instr", text(&values[1])?, flags(values, 5)?)?;
    let regex = &pattern.regex;
    let own = text(&values[0])?;
    let place = nth(own, regex, wanted)?.map_or(0, |part| {
        let at = if end == 1 { part.end() } else { part.start() };
        own[..at].chars().count() + 1
    });
    Ok(Value::Int(i32::try_from(place).unwrap_or(i32::MAX)))
}

/// `substring(s similar p escape e)`: what the part of the pattern between two `e"` matches, or all of it.
fn similar_part(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (own, pattern, escape) = (text(&values[0])?, text(&values[1])?, text(&values[2])?);
    let Some(escape) = escape_of(escape)? else { return Err(invalid_escape()) };
    let mark = format!("{escape}\"");
    let parts: Vec<&str> = pattern.split(mark.as_str()).collect();
    let inner = |part: &str| similar_body(part, escape);
    let regex = match parts.as_slice() {
        [whole] => format!("^({})$", inner(whole)),
        // As much as can be goes to the later parts.
        [before, part, after] => format!("^(?:{})({})(?:{})$", lazy(&inner(before)), inner(part), inner(after)),
        _ => {
            let message = "SQL regular expression may not contain more than two escape-double-quote separators";
            return Err(Error::new(ErrorKind::InvalidUseOfEscape, message));
        }
    };
    let regex = of_library(&format!("(?s){regex}"))?;
    let found = first_match(&regex, own)?.and_then(|found| found.get(1));
    Ok(found.map_or(Value::Null, |part| Value::Text(part.as_str().into())))
}

/// The one character of an ESCAPE; an empty one has none.
fn escape_of(escape: &str) -> Result<Option<char>> {
    let mut characters = escape.chars();
    match (characters.next(), characters.next()) {
        (first, None) => Ok(first),
        _ => Err(invalid_escape()),
    }
}

fn invalid_escape() -> Error {
    let error = Error::new(ErrorKind::InvalidEscape, "invalid escape string");
    error.with_hint("Escape string must be empty or one character.")
}

/// A pattern of LIKE or SIMILAR TO with an ESCAPE as one whose escape is the backslash.
///
/// # Errors
/// 22025 for an escape of several characters.
pub fn escaped_by_backslash(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_of(escape)?;
    let mut result = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        if Some(c) == escape {
            result.push('\\');
            result.extend(characters.next());
        } else if c == '\\' {
            result.push_str("\\\\");
        } else {
            result.push(c);
        }
    }
    Ok(result)
}

/// A pattern that takes as little as it can.
fn lazy(pattern: &str) -> String {
    format!("(?U:{pattern})")
}

/// A pattern of LIKE, escaped by backslashes, as a regular expression for the whole text.
pub fn like_pattern(pattern: &str, insensitive: bool) -> String {
    let mut result = String::from(if insensitive { "(?si)^" } else { "(?s)^" });
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '%' => result.push_str(".*"),
            '_' => result.push('.'),
            '\\' => push_plain(&mut result, characters.next().unwrap_or(c)),
            c => push_plain(&mut result, c),
        }
    }
    result.push('$');
    result
}

/// A pattern of SIMILAR TO, escaped by backslashes, as a regular expression for the whole text.
pub fn similar_pattern(pattern: &str) -> String {
    format!("^(?s:{})$", similar_body(pattern, '\\'))
}

fn similar_body(pattern: &str, escape: char) -> String {
    let mut result = String::new();
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(c) = characters.next() {
        match c {
            c if c == escape => {
                // One that escapes nothing is nothing; before some letters it makes a class.
                match characters.next() {
                    Some('d') => result.push_str("[0-9]"),
                    Some('D') => result.push_str("[^0-9]"),
                    Some(class @ ('s' | 'S' | 'w' | 'W')) => result.extend(['\\', class]),
                    Some(next) => push_plain(&mut result, next),
                    None => {}
                }
            }
            '%' if !in_class => result.push_str(".*"),
            '_' if !in_class => result.push('.'),
            '.' | '^' | '$' if !in_class => push_plain(&mut result, c),
            '\\' => result.push_str("\\\\"),
            '(' if !in_class => result.push_str("(?:"),
            c => {
                in_class = (in_class || c == '[') && c != ']';
                result.push(c);
            }
        }
    }
    result
}

/// Also within a class. `\<` and `\>` would be ends of words.
fn push_plain(result: &mut String, c: char) {
    if !c.is_alphanumeric() && c.is_ascii() && !matches!(c, '<' | '>') {
        result.push('\\');
    }
    result.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;

    #[test]
    fn the_matches_of_a_long_text_end_with_their_statement() {
        let interrupt = Interrupt::default();
        interrupt.watch_on_this_thread();
        let (regex, text) = (of_library("a").expect("a pattern"), "a".repeat(2 * MATCHES_OF_A_CHECK));
        assert_eq!(matches(&regex, &text, 0).filter(Result::is_ok).count(), text.len());
        interrupt.raise();
        let mut found = matches(&regex, &text, 0);
        let error = found.find_map(Result::err).expect("it is stopped");
        assert_eq!(error.kind, ErrorKind::Canceled);
    }
}
