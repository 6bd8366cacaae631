//! What stands between the delimiters of one line.

use keyspan_model::{Error, ErrorKind, Result};

use super::rules::Rules;

/// A field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// Its bytes, without quotes and escapes.
    pub(super) bytes: &'a [u8],
    /// It reads as the null text: before escapes are resolved, and without regard to quotes.
    pub(super) is_null_text: bool,
    /// It had quotes.
    pub(super) quoted: bool,
}

/// Calls `each` with every field of a line, in order.
pub(super) fn each_field(
    line: &[u8],
    rules: &Rules,
    csv: bool,
    scratch: &mut Vec<u8>,
    each: impl FnMut(usize, Field<'_>) -> Result<()>,
) -> Result<()> {
    if csv { csv_fields(line, rules, scratch, each) } else { text_fields(line, rules, scratch, each) }
}

fn text_fields(
    line: &[u8],
    rules: &Rules,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(usize, Field<'_>) -> Result<()>,
) -> Result<()> {
    let (mut start, mut index) = (0, 0);
    loop {
        let mut end = start;
        let mut escapes = false;
        while let Some(byte) = line.get(end).filter(|byte| **byte != rules.delimiter) {
            // What follows a backslash is data, even the delimiter.
            let step = if *byte == b'\\' { 2 } else { 1 };
            escapes |= step == 2;
            end += step;
        }
        let end = end.min(line.len());
        let raw = &line[start..end];
        let is_null_text = raw == rules.null;
        let bytes = if escapes && !is_null_text {
            unescape(raw, scratch)?;
            scratch.as_slice()
        } else {
            raw
        };
        each(index, Field { bytes, is_null_text, quoted: false })?;
        if end == line.len() {
            return Ok(());
        }
        (start, index) = (end + 1, index + 1);
    }
}

/// Resolves the escapes of PostgreSQL's text format.
fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let mut rest = raw;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let Some((letter, after)) = rest.split_first() else { break };
        rest = after;
        match letter {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(0x0b),
            b'0'..=b'7' => {
                let (value, digits) = digits(rest, u32::from(letter - b'0'), 8, 2);
                rest = &rest[digits..];
                out.push((value & 0xff) as u8);
            }
            b'x' => match digits(rest, 0, 16, 2) {
                (_, 0) => out.push(b'x'),
                (value, digits) => {
                    rest = &rest[digits..];
                    out.push(value as u8);
                }
            },
            b'.' => {
                let message = "end-of-copy marker is not alone on its line";
                return Err(Error::new(ErrorKind::InvalidCopy, message));
            }
            other => out.push(*other),
        }
    }
    Ok(())
}

/// Reads up to `most` digits after `value`; answers the number and how many digits there were.
fn digits(text: &[u8], mut value: u32, radix: u32, most: usize) -> (u32, usize) {
    let mut count = 0;
    while let Some(digit) = text.get(count).filter(|_| count < most).and_then(|byte| char::from(*byte).to_digit(radix))
    {
        value = value * radix + digit;
        count += 1;
    }
    (value, count)
}

fn csv_fields(
    line: &[u8],
    rules: &Rules,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(usize, Field<'_>) -> Result<()>,
) -> Result<()> {
    let (mut start, mut index) = (0, 0);
    loop {
        let special = |byte: &u8| *byte == rules.delimiter || *byte == rules.quote;
        let mut end = line[start..].iter().position(special).map_or(line.len(), |length| start + length);
        let quoted = line.get(end) == Some(&rules.quote);
        if quoted {
            scratch.clear();
            end = unquote(line, start, rules, scratch)?;
        }
        let bytes = if quoted { scratch.as_slice() } else { &line[start..end] };
        each(index, Field { bytes, is_null_text: bytes == rules.null, quoted })?;
        if end == line.len() {
            return Ok(());
        }
        (start, index) = (end + 1, index + 1);
    }
}

/// Reads a field that has quotes somewhere; answers where it ends.
fn unquote(line: &[u8], start: usize, rules: &Rules, out: &mut Vec<u8>) -> Result<usize> {
    let mut at = start;
    let mut in_quotes = false;
    while let Some(byte) = line.get(at) {
        match (*byte, in_quotes) {
            (byte, false) if byte == rules.delimiter => return Ok(at),
            (byte, true) if byte == rules.escape && is_escaped(line.get(at + 1), rules) => {
                out.push(line[at + 1]);
                at += 1;
            }
            (byte, _) if byte == rules.quote => in_quotes = !in_quotes,
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    if in_quotes {
        return Err(Error::new(ErrorKind::InvalidCopy, "unterminated CSV quoted field"));
    }
    Ok(at)
}

fn is_escaped(following: Option<&u8>, rules: &Rules) -> bool {
    following.is_some_and(|byte| *byte == rules.escape || *byte == rules.quote)
}
