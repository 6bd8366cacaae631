//! Regular expressions: DataFusion's functions with Postgres' parameter types, and SQL's own patterns made of them.

use keyspan_model::{ColumnType, Error, ErrorKind, Result};

use super::overload::{Overload, Parameter};

const T: Parameter = Parameter::Is(ColumnType::Text);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = vec![
        Overload::native("regexp_replace", &[T, T, T]),
        Overload::native("regexp_replace", &[T, T, T, T]),
        Overload::native("regexp_like", &[T, T]),
        Overload::native("regexp_like", &[T, T, T]),
        Overload::native("regexp_match", &[T, T]),
        Overload::native("regexp_match", &[T, T, T]),
        Overload::native("md5", &[T]),
        Overload::native("md5", &[Parameter::Is(ColumnType::Blob)]),
    ];
    for name in ["sha224", "sha256", "sha384", "sha512"] {
        all.push(Overload::native(name, &[Parameter::Is(ColumnType::Blob)]));
    }
    all
}

/// A pattern of SIMILAR TO as a regular expression for the whole text.
///
/// # Errors
/// 22025 where an escape ends the pattern.
pub fn similar_pattern(pattern: &str, escape: char) -> Result<String> {
    let mut result = String::from("^(?s:");
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(c) = characters.next() {
        match c {
            c if c == escape => {
                let Some(next) = characters.next() else {
                    return Err(Error::new(
                        ErrorKind::InvalidArgument,
                        "LIKE pattern must not end with escape character",
                    ));
                };
                push_plain(&mut result, next);
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
    result.push_str(")$");
    Ok(result)
}

fn push_plain(result: &mut String, c: char) {
    if !c.is_alphanumeric() && c.is_ascii() {
        result.push('\\');
    }
    result.push(c);
}
