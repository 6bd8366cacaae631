//! PostgreSQL's text of an array: `{1,"a b",NULL}`.

use keyspan_model::{Error, ErrorKind, Result};

/// The elements of an array's text, in order; none stands for NULL.
///
/// # Errors
/// 22P02 for what is no such text, 0A000 for arrays of arrays.
pub(crate) fn elements(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        Error::new(ErrorKind::InvalidText, format!("malformed array literal: \"{text}\"")).with_detail(detail)
    };
    let inner = text.trim().strip_prefix('{');
    let inner = inner.ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let inner = inner.strip_suffix('}').ok_or_else(|| malformed("Unexpected end of input."))?;
    let mut elements = Vec::new();
    let mut rest = inner.trim();
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
        rest = match after.trim_start().strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.trim_start().is_empty() => return Ok(elements),
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
    let trimmed = element.trim();
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

    #[test]
    fn what_is_no_array_is_refused() {
        for bad in ["", "1,2", "{1", "{1,}", "{,}", "{\"a}", "{1}2", "{a\"b\"}", "{\"a\"b}"] {
            assert_eq!(elements(bad).expect_err(bad).sqlstate(), "22P02", "{bad}");
        }
        assert_eq!(elements("{{1},{2}}").expect_err("nested").sqlstate(), "0A000");
    }
}
