//! Postgres' binary numeric: base-10000 digits with a weight, a sign and a display scale.
//!
//! ```text
//! i16 digits · i16 weight (of the first digit, in powers of 10000) · u16 sign · u16 display scale · digits × i16
//! ```

use bytes::{Buf, BufMut, BytesMut};
use keyspan_model::types::DECIMAL_DIGITS;

use super::array::ArrayParts;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const POSITIVE_INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Writes the number that is spelled by `text`: a sign, digits, perhaps a point and digits.
pub(super) fn put_numeric(text: &str, out: &mut BytesMut) {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut groups: Vec<i16> = Vec::with_capacity(whole.len() / 4 + fraction.len() / 4 + 2);
    let head = whole.len() % 4;
    let (first, rest) = whole.as_bytes().split_at(head);
    groups.extend((!first.is_empty()).then(|| group(first)));
    groups.extend(rest.chunks(4).map(group));
    let mut weight = groups.len() as i16 - 1;
    groups.extend(fraction.as_bytes().chunks(4).map(|digits| group(digits) * 10_i16.pow(4 - digits.len() as u32)));
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_i16(groups.len() as i16);
    out.put_i16(weight);
    out.put_u16(if negative && !groups.is_empty() { NEGATIVE } else { 0 });
    out.put_u16(fraction.len() as u16);
    groups.into_iter().for_each(|group| out.put_i16(group));
}

/// Up to four digits as a number.
fn group(digits: &[u8]) -> i16 {
    digits.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0'))
}

/// Reads a binary numeric as text: digits with a point, `NaN`, `Infinity` or `-Infinity`. None: the bytes are no
/// numeric.
pub(super) fn read_numeric(mut bytes: &[u8]) -> Option<String> {
    if bytes.len() < 8 {
        return None;
    }
    let count = usize::from(bytes.get_u16());
    let weight = bytes.get_i16();
    let sign = bytes.get_u16();
    let scale = usize::from(bytes.get_u16());
    if bytes.len() != count * 2 || scale > 0x3fff {
        return None;
    }
    match sign {
        NAN => return Some("NaN".into()),
        POSITIVE_INFINITY => return Some("Infinity".into()),
        NEGATIVE_INFINITY => return Some("-Infinity".into()),
        0 | NEGATIVE => {}
        _ => return None,
    }
    let groups: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    if groups.iter().any(|group| *group > 9999) {
        return None;
    }
    Some(spell(&groups, weight, sign == NEGATIVE, scale))
}

fn spell(groups: &[u16], weight: i16, negative: bool, scale: usize) -> String {
    let at = |power: i32| {
        let index = i32::from(weight) - power;
        usize::try_from(index).ok().and_then(|index| groups.get(index)).copied().unwrap_or(0)
    };
    let mut text = String::from(if negative { "-" } else { "" });
    let whole: String = (0..=i32::from(weight).max(0)).rev().map(|power| format!("{:04}", at(power))).collect();
    let trimmed = whole.trim_start_matches('0');
    text.push_str(if trimmed.is_empty() { "0" } else { trimmed });
    if scale > 0 {
        let powers = 1..=scale.div_ceil(4) as i32;
        let mut fraction: String = powers.map(|power| format!("{:04}", at(-power))).collect();
        fraction.truncate(scale);
        text.push('.');
        text.push_str(&fraction);
    }
    text
}

/// The digits after the point of a numeric that a client sends, as many as fit beside those before it; none if it has no
/// digits.
pub(crate) fn scale_of(bytes: &[u8], is_binary: bool) -> Option<i8> {
    Some(scale_for(digits_of(bytes, is_binary)?))
}

/// The digits after the point of the numerics of an array, as of one that has the most digits of them before the point and
/// after it; none if it has no numerics, or is no array.
pub(crate) fn scale_of_array(bytes: &[u8], is_binary: bool) -> Option<i8> {
    let elements: Vec<&[u8]> = match is_binary {
        true => ArrayParts::of(bytes)?.elements.into_iter().flatten().collect(),
        false => {
            let separates = |byte: &u8| b"{}\",".contains(byte) || byte.is_ascii_whitespace();
            let words = bytes.split(separates).filter(|word| !word.is_empty());
            words.filter(|word| !word.eq_ignore_ascii_case(b"null")).collect()
        }
    };
    let most = |most: (i64, i64), digits: (i64, i64)| (most.0.max(digits.0), most.1.max(digits.1));
    let digits = elements.into_iter().map(|element| digits_of(element, is_binary)).collect::<Option<Vec<_>>>()?;
    digits.into_iter().reduce(most).map(scale_for)
}

/// The digits after the point, as many as fit beside those before it.
fn scale_for((before, after): (i64, i64)) -> i8 {
    let most = i64::from(DECIMAL_DIGITS) - before.max(0);
    i8::try_from(after.clamp(0, most.max(0))).unwrap_or(0)
}

/// How many digits a numeric that a client sends has before the point, and after it.
fn digits_of(bytes: &[u8], is_binary: bool) -> Option<(i64, i64)> {
    let read = if is_binary { read_numeric(bytes) } else { None };
    let text = match &read {
        Some(text) => text.as_str(),
        None if is_binary => return None,
        None => std::str::from_utf8(bytes).ok()?.trim(),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, i64::from(exponent.parse::<i32>().ok()?)),
        None => (text, 0),
    };
    let unsigned = mantissa.trim_start_matches(['+', '-']);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !(digits(whole) && digits(fraction)) || whole.len() + fraction.len() == 0 {
        return None;
    }
    Some((whole.trim_start_matches('0').len() as i64 + exponent, fraction.len() as i64 - exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_numeric(text, &mut out);
        out.to_vec()
    }

    #[test]
    fn numbers_survive_the_binary_form() {
        let texts = [
            "0",
            "0.00",
            "1",
            "-1",
            "10000",
            "9999",
            "12345.678",
            "-0.00012",
            "0.1",
            "100000000",
            "1.50",
            "0.00000001",
            "99999999999999999999999999999999999999",
            "-1234567890123456789012345678.0123456789",
            "120000.0001",
        ];
        for text in texts {
            assert_eq!(read_numeric(&bytes(text)).as_deref(), Some(text));
        }
    }

    #[test]
    fn the_bytes_are_those_of_postgres() {
        // select numeric_send(12345.678), numeric_send(0.5), numeric_send(-10000)
        assert_eq!(bytes("12345.678"), [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]);
        assert_eq!(bytes("0.5"), [0, 1, 255, 255, 0, 0, 0, 1, 19, 136]);
        assert_eq!(bytes("-10000"), [0, 1, 0, 1, 64, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn junk_is_no_numeric() {
        for junk in
            [&[][..], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 0x12, 0, 0, 0], &[0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff]]
        {
            assert_eq!(read_numeric(junk), None);
        }
        assert_eq!(read_numeric(&[0, 0, 0, 0, 0xC0, 0, 0, 0]).as_deref(), Some("NaN"));
    }

    #[test]
    fn a_numeric_has_the_digits_after_the_point_that_it_is_written_with() {
        let of = |text: &str| scale_of(text.as_bytes(), false);
        for (text, scale) in [
            ("20", Some(0)),
            ("1.50", Some(2)),
            ("-0.000000000000001", Some(15)),
            ("1e-15", Some(15)),
            ("1.25E+3", Some(0)),
            ("12345678901234567890123456789012345.12345", Some(3)),
            ("1e40", Some(0)),
            (" 7.5 ", Some(1)),
            ("NaN", None),
            ("", None),
            ("1.2.3", None),
            ("1e2147483647", Some(0)),
            ("1.5e-2147483648", Some(38)),
            ("1e2147483648", None),
            ("x", None),
        ] {
            assert_eq!(of(text), scale, "{text}");
        }
        let mut binary = BytesMut::new();
        put_numeric("1.500", &mut binary);
        assert_eq!(scale_of(&binary, true), Some(3));
        assert_eq!(scale_of(&[1], true), None);
    }

    #[test]
    fn the_numerics_of_an_array_have_the_digits_that_each_of_them_needs() {
        for (text, scale) in [
            ("{1.5,NULL,-0.125, 20}", Some(3)),
            ("{\"1e-15\",1}", Some(15)),
            ("{10000000000000000000000000000000000,0.1234567}", Some(3)),
            ("{}", None),
            ("{NULL}", None),
            ("{1,x}", None),
        ] {
            assert_eq!(scale_of_array(text.as_bytes(), false), scale, "{text}");
        }
        let mut binary = BytesMut::new();
        [1, 1, 1700, 3, 1].into_iter().for_each(|word| binary.put_i32(word));
        for text in [Some("1.25"), None, Some("100.5")] {
            let mut element = BytesMut::new();
            text.into_iter().for_each(|text| put_numeric(text, &mut element));
            binary.put_i32(text.map_or(-1, |_| element.len() as i32));
            binary.extend_from_slice(&element);
        }
        assert_eq!(scale_of_array(&binary, true), Some(2));
        assert_eq!(scale_of_array(&binary[..9], true), None);
    }
}
