//! What is inside literals: escapes of `E'…'` and `U&'…'`, CQL's durations, uuids.

use std::iter::Peekable;
use std::str::Chars;

/// CQL's duration units and the words PostgreSQL has for them, in the order in which they must follow each other.
const UNITS: &[(&str, &str)] = &[
    ("y", "years"),
    ("mo", "months"),
    ("w", "weeks"),
    ("d", "days"),
    ("h", "hours"),
    ("m", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("µs", "microseconds"),
    ("ns", "nanoseconds"),
];

/// `1h30m` as `1 hours 30 minutes`; none if the text is not wholly a duration.
pub(crate) fn duration_words(text: &str) -> Option<String> {
    words(&text.to_lowercase(), UNITS)
}

/// `P1DT2H30M` as `1 days 2 hours 30 minutes`; none if the text is not wholly a duration.
pub(crate) fn iso_duration_words(text: &str) -> Option<String> {
    const DATE: &[(&str, &str)] = &[("Y", "years"), ("M", "months"), ("W", "weeks"), ("D", "days")];
    const TIME: &[(&str, &str)] = &[("H", "hours"), ("M", "minutes"), ("S", "seconds")];
    let body = text.strip_prefix('P')?;
    let (date, time) = body.split_once('T').map_or((body, None), |(date, time)| (date, Some(time)));
    let date = if date.is_empty() && time.is_some() { Some(String::new()) } else { words(date, DATE) }?;
    let time = time.map_or(Some(String::new()), |time| words(time, TIME))?;
    Some(format!("{date} {time}").trim().to_owned()).filter(|words| !words.is_empty())
}

/// Amounts with units, each unit later in the list than the one before.
fn words(text: &str, units: &[(&str, &str)]) -> Option<String> {
    let (mut rest, mut next, mut parts) = (text, 0, Vec::new());
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let after = &rest[digits..];
        let unit = &after[..after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len())];
        let place = units.iter().position(|(short, _)| *short == unit)?;
        if digits == 0 || place < next {
            return None;
        }
        parts.push(format!("{} {}", &rest[..digits], units[place].1));
        rest = &after[unit.len()..];
        next = place + 1;
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Whether the text is a uuid: 8-4-4-4-12 hexadecimal digits.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The value of the inside of `E'…'`.
pub(crate) fn decode_escapes(body: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // A quote inside stands doubled; an escaped one is taken below.
            '\'' => {
                rest.next_if_eq(&'\'');
                bytes.push(b'\'');
            }
            '\\' => escape(&mut rest, &mut bytes)?,
            other => push(&mut bytes, other),
        }
    }
    String::from_utf8(bytes).map_err(|_| "invalid byte sequence for encoding \"UTF8\" in a string".to_owned())
}

type Rest<'a> = Peekable<Chars<'a>>;

/// One escape, after its backslash.
fn escape(rest: &mut Rest, bytes: &mut Vec<u8>) -> Result<(), String> {
    match rest.next() {
        Some('b') => bytes.push(8),
        Some('f') => bytes.push(12),
        Some('n') => bytes.push(b'\n'),
        Some('r') => bytes.push(b'\r'),
        Some('t') => bytes.push(b'\t'),
        Some('x') if rest.peek().is_some_and(char::is_ascii_hexdigit) => bytes.push(number(rest, 1, 2, 16)? as u8),
        Some(digit @ '0'..='7') => {
            let mut code = digit.to_digit(8).unwrap_or_default();
            for _ in 0..2 {
                let Some(next) = rest.next_if(|c| c.is_digit(8)) else { break };
                code = code * 8 + next.to_digit(8).unwrap_or_default();
            }
            // PostgreSQL keeps the low eight bits of \777.
            bytes.push(code as u8);
        }
        Some('u') => push(bytes, character(rest, 4, "\\u")?),
        Some('U') => push(bytes, character(rest, 8, "\\U")?),
        Some(other) => push(bytes, other),
        None => return Err("unterminated quoted string".to_owned()),
    }
    Ok(())
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// A number of at least `least` and at most `most` digits.
fn number(rest: &mut Rest, least: usize, most: usize, radix: u32) -> Result<u32, String> {
    let (mut code, mut count) = (0u32, 0);
    while count < most {
        let Some(digit) = rest.next_if(|c| c.is_digit(radix)) else { break };
        code = code.wrapping_mul(radix) + digit.to_digit(radix).unwrap_or_default();
        count += 1;
    }
    if count < least { Err("invalid Unicode escape".to_owned()) } else { Ok(code) }
}

/// The character of a Unicode escape; a pair of UTF-16 surrogates, each with its `again`, is one character.
fn character(rest: &mut Rest, digits: usize, again: &str) -> Result<char, String> {
    let first = number(rest, digits, digits, 16)?;
    let code = if (0xD800..0xDC00).contains(&first) {
        if !again.chars().all(|c| rest.next_if_eq(&c).is_some()) {
            return Err("invalid Unicode surrogate pair".to_owned());
        }
        let second = number(rest, digits, digits, 16)?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err("invalid Unicode surrogate pair".to_owned());
        }
        0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
    } else {
        first
    };
    char::from_u32(code).ok_or_else(|| "invalid Unicode escape value".to_owned())
}

/// The value of the inside of `U&'…'`: `\0061` and `\+01F600`.
pub(crate) fn decode_unicode(body: &str) -> Result<String, String> {
    let mut value = String::with_capacity(body.len());
    let mut rest = body.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            value.push(c);
        } else if rest.next_if_eq(&'\\').is_some() {
            value.push('\\');
        } else if rest.next_if_eq(&'+').is_some() {
            value.push(character(&mut rest, 6, "\\+")?);
        } else {
            value.push(character(&mut rest, 4, "\\")?);
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, words) in [
            ("1h30m", Some("1 hours 30 minutes")),
            ("2d", Some("2 days")),
            (
                "1y2mo3w4d5h6m7s8ms9us10ns",
                Some(
                    "1 years 2 months 3 weeks 4 days 5 hours 6 minutes 7 seconds 8 milliseconds 9 microseconds 10 nanoseconds",
                ),
            ),
            ("30m1h", None),
            ("12", None),
            ("1h30", None),
            ("1x", None),
            ("1e5", None),
        ] {
            assert_eq!(duration_words(text).as_deref(), words, "{text}");
        }
        for (text, words) in [
            ("P1DT2H30M", Some("1 days 2 hours 30 minutes")),
            ("PT5S", Some("5 seconds")),
            ("P3W", Some("3 weeks")),
            ("P", None),
            ("PT", None),
            ("PLANES", None),
        ] {
            assert_eq!(iso_duration_words(text).as_deref(), words, "{text}");
        }
    }

    #[test]
    fn escapes() {
        for (body, value) in [
            (r"a\nb", "a\nb"),
            (r"it''s", "it's"),
            (r"it\'s", "it's"),
            (r"\x41\102", "AB"),
            (r"\u0061\U0001F600", "a😀"),
            (r"\uD83D\uDE00", "😀"),
            (r"\q", "q"),
            (r"\xc3\xa9", "é"),
        ] {
            assert_eq!(decode_escapes(body).as_deref(), Ok(value), "{body}");
        }
        for body in [r"\u12", r"\uD83Dx", r"\xff", r"\UFFFFFFFF", "\\"] {
            assert!(decode_escapes(body).is_err(), "{body}");
        }
        assert_eq!(decode_unicode(r"d\0061t\+000061\\").as_deref(), Ok("data\\"));
        assert!(decode_unicode(r"\00").is_err());
    }
}
