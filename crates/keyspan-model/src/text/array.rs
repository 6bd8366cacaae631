//! PostgreSQL's text of an array: `{1,"a b",NULL}`.
//!
//! Rule: [`elements`] reads back what [`push_element`] writes, as PostgreSQL's `array_in` and `array_out` do.

use crate::error::{Error, ErrorKind, Result};
use crate::input_error::shown;

/// The text of an array of these elements; none stands for NULL.
pub fn array_text<T: AsRef<str>>(elements: impl IntoIterator<Item = Option<T>>) -> String {
    let mut text = String::from("{");
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match element {
            Some(element) => push_element(element.as_ref(), &mut text),
            None => text.push_str("NULL"),
        }
    }
    text.push('}');
    text
}

/// Appends an element that is not NULL, in quotes where its text would be read as something else.
pub fn push_element(element: &str, out: &mut String) {
    if !needs_quotes(element) {
        out.push_str(element);
        return;
    }
    out.push('"');
    for character in element.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// Whether the text of an element that is not NULL stands in quotes.
pub fn needs_quotes(text: &str) -> bool {
    let special = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || is_space(c);
    text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special)
}

/// The elements of an array's text, in order; none stands for NULL.
///
/// # Errors
/// 22P02 for what is no such text, 0A000 for arrays of arrays.
pub fn elements(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        Error::new(ErrorKind::InvalidText, format!("malformed array literal: \"{}\"", shown(text))).with_detail(detail)
    };
    let inner = text.trim_matches(is_space).strip_prefix('{');
    let inner = inner.ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let inner = inner.strip_suffix('}').ok_or_else(|| malformed("Unexpected end of input."))?;
    let mut elements = Vec::new();
    let mut rest = inner.trim_matches(is_space);
    if rest.is_empty() {
        return Ok(elements);
    }
    loop {
        let (element, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (element, after) = quoted_element(quoted).ok_or_else(|| malformed("Unexpected end of input."))?;
                (Some(element), after)
            }
            None => bare_element(rest).map_err(|nested| match nested {
                true => Error::not_supported("arrays of more than one dimension are not supported"),
                false => malformed("Unexpected \",\" or \"}\" character."),
            })?,
        };
        elements.push(element);
        rest = match after.trim_start_matches(is_space).strip_prefix(',') {
            Some(next) => next.trim_start_matches(is_space),
            None if after.trim_start_matches(is_space).is_empty() => return Ok(elements),
            None => return Err(malformed("Unexpected array element.")),
        };
    }
}

/// An element after its opening quote, and what follows its closing one.
fn quoted_element(text: &str) -> Option<(String, &str)> {
    let mut element = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((element, &text[at + 1..])),
            '\\' => element.push(chars.next()?.1),
            c => element.push(c),
        }
    }
    None
}

/// An element without quotes, up to the next comma; the error tells whether it is an array itself.
fn bare_element(text: &str) -> Result<(Option<String>, &str), bool> {
    let mut element = String::new();
    let mut end = text.len();
    let mut escaped = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ',' => {
                end = at;
                break;
            }
            '{' | '}' | '"' => return Err(c == '{'),
            '\\' => {
                escaped = true;
                element.extend(chars.next().map(|(_, c)| c));
            }
            c => element.push(c),
        }
    }
    let trimmed = element.trim_matches(is_space);
    if trimmed.is_empty() && !escaped {
        return Err(false);
    }
    let is_null = !escaped && trimmed.eq_ignore_ascii_case("null");
    Ok(((!is_null).then(|| trimmed.to_string()), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Option<String>> {
        elements(text).expect("an array")
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_string())
    }

    #[test]
    fn elements_are_read_as_postgres_reads_them() {
        assert_eq!(read("{}"), []);
        assert_eq!(read(" { 1 , 2 } "), [some("1"), some("2")]);
        assert_eq!(
            read(r#"{"a,b","c\"d",NULL,"NULL",x y}"#),
            [some("a,b"), some("c\"d"), None, some("NULL"), some("x y")]
        );
        assert_eq!(read(r#"{"",é}"#), [some(""), some("é")]);
    }

    proptest::proptest! {
        #[test]
        fn every_array_reads_back(elements_in: Vec<Option<String>>) {
            assert_eq!(elements(&array_text(elements_in.iter().map(Option::as_deref))), Ok(elements_in));
        }
    }

    #[test]
    fn elements_are_quoted_only_where_they_must_be() {
        let plain = [some("a"), None, some("b c"), some(""), some("q\""), some("null"), some("é")];
        assert_eq!(array_text(plain), r#"{a,NULL,"b c","","q\"","null",é}"#);
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for bad in ["", "1,2", "{1", "{1,}", "{,}", "{\"a}", "{1}2", "{a\"b\"}", "{\"a\"b}"] {
            assert_eq!(elements(bad).expect_err(bad).sqlstate(), "22P02", "{bad}");
        }
        assert_eq!(elements("{{1},{2}}").expect_err("nested").sqlstate(), "0A000");
    }
}
