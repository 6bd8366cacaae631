//! A text cut into statements, without understanding them.
//!
//! The rule: a semicolon ends a statement unless it stands in a string, a quoted name, a `$tag$` text or a comment.
//! Whether the rest is a statement is the database's to say.

/// The statements that a text holds, and what is left after the last semicolon.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Whole statements, each with its semicolon.
    pub statements: Vec<String>,
    /// What follows the last of them.
    pub rest: String,
}

/// Cuts a text at its semicolons.
pub fn split(text: &str) -> Split {
    let mut split = Split::default();
    let mut start = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = token(rest);
        rest = &rest[taken..];
        if first == ';' {
            let end = text.len() - rest.len();
            split.statements.push(text[start..end].trim().to_string());
            start = end;
        }
    }
    split.rest = text[start..].to_string();
    split
}

/// Whether a text has nothing but blanks and comments.
pub fn is_blank(text: &str) -> bool {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_comment = rest.starts_with("--") || rest.starts_with("//") || rest.starts_with("/*");
        if !is_comment && !first.is_whitespace() && first != ';' {
            return false;
        }
        rest = &rest[token(rest)..];
    }
    true
}

/// The bytes of the token that begins a text that is not empty; an unfinished one takes all.
fn token(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes[0] {
        b'\'' => quoted(bytes, b'\'', false),
        b'e' | b'E' if bytes.get(1) == Some(&b'\'') => 1 + quoted(&bytes[1..], b'\'', true),
        b'"' => quoted(bytes, b'"', false),
        b'$' => dollar_quoted(text).unwrap_or(1),
        b'-' if bytes.starts_with(b"--") => line(text),
        b'/' if bytes.starts_with(b"//") => line(text),
        b'/' if bytes.starts_with(b"/*") => comment(bytes),
        byte if byte.is_ascii_alphanumeric() || byte == b'_' => word(text),
        _ => text.chars().next().map_or(1, char::len_utf8),
    }
}

/// Words are taken whole, so that the `e` at the end of `name'…'` begins no string.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// A doubled quote is two quoted texts side by side, which ends at the same place.
fn quoted(bytes: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        at += if escapes && *byte == b'\\' { 2 } else { 1 };
        if *byte == quote {
            return at;
        }
    }
    bytes.len()
}

fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// `$tag$ … $tag$`; none if it is not one, as `$1`.
fn dollar_quoted(text: &str) -> Option<usize> {
    let end = text[1..].find('$')? + 1;
    let tag = &text[..=end];
    let name = &tag[1..end];
    if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let body = &text[tag.len()..];
    Some(body.find(tag).map_or(text.len(), |close| tag.len() + close + tag.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_semicolons_end_statements() {
        let pieces = [
            "SELECT ';', \";\", E'\\';', 'it''s;';",
            "SELECT $$;$$, $a$ $$ ; $a$, $1;",
            "-- one; two\nSELECT 1;",
            "/* ; /* ; */ ; */ SELECT name'x;y';",
            "// cql; comment\nSELECT 'ö';",
        ];
        for piece in pieces {
            assert_eq!(split(piece), Split { statements: vec![piece.to_string()], rest: String::new() }, "{piece}");
        }
        let two = split("SELECT 1; SELECT 'a;");
        assert_eq!(two, Split { statements: vec!["SELECT 1;".into()], rest: " SELECT 'a;".into() });
    }

    #[test]
    fn comments_and_semicolons_are_blank() {
        assert!(is_blank(" ; -- x\n/* y */ // z") && !is_blank("x"));
    }
}
