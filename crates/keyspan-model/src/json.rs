//! JSON as `jsonb` keeps it: a tree with keys in order and unique, numbers as numeric, and one text for each value.
//!
//! - Keys are ordered by their length, then by their bytes; of equal keys the last one stays.
//! - Numbers keep their digits: `1.50` stays `1.50`, `1e3` is `1000`.
//! - The text has a blank after each colon and comma: `{"a": [1, 2]}`.
//! - [`Json::order`] gives bytes that sort as PostgreSQL sorts `jsonb`.
//!
//! A column of type `json` keeps its text as it was written; [`members`] reads the parts of such a text without changing
//! them.

use std::cmp::Ordering;
use std::fmt;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};

/// Largest exponent of a number, as PostgreSQL's numeric has it.
const LARGEST_EXPONENT: i64 = 131_072;
/// Most digits after the point of a number, as PostgreSQL's numeric has it.
const LARGEST_SCALE: i64 = 16_383;

/// A value of `jsonb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number, as numeric's text has it.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// Members. Invariant: ordered as [`key_order`] says, each key once; [`Json::object`] makes it so.
    Object(Vec<(String, Json)>),
}

/// The order of keys in an object.
pub fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// Most arrays and objects inside of each other: whoever reads them calls itself for each. `serde_json` reads as many.
const DEEPEST: usize = 127;

/// The text, if it is JSON.
///
/// # Errors
/// 22P02 if it is not, 54001 if it is nested too deeply.
pub fn checked_json(text: &str) -> Result<&str> {
    if depth(text) > DEEPEST {
        let message = format!("JSON is nested more than {DEEPEST} levels deep");
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(text),
        Err(error) => {
            Err(Error::new(ErrorKind::InvalidText, "invalid input syntax for type json").with_detail(error.to_string()))
        }
    }
}

/// How deep brackets are nested in a text, outside of strings.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A part of a JSON text: its key, if it is a member of an object, and its own text.
pub struct Member<'a> {
    /// The key of an object's member.
    pub key: Option<String>,
    /// The value as it is written, without blanks around it.
    pub text: &'a str,
}

/// The elements of an array or the members of an object, as they are written; none of any other value. The text is known
/// to be JSON.
pub fn members(text: &str) -> Vec<Member<'_>> {
    let mut rest = text.trim_start_matches(BLANKS);
    let object = rest.starts_with('{');
    let mut members = Vec::new();
    if !object && !rest.starts_with('[') {
        return members;
    }
    rest = rest[1..].trim_start_matches(BLANKS);
    while !rest.is_empty() && !rest.starts_with(['}', ']']) {
        rest = rest.trim_start_matches(',').trim_start_matches(BLANKS);
        let mut key = None;
        if object {
            let (quoted, after) = rest.split_at(value_length(rest));
            key = unquoted(quoted).ok();
            rest = after.trim_start_matches(BLANKS).trim_start_matches(':').trim_start_matches(BLANKS);
        }
        let (value, after) = rest.split_at(value_length(rest));
        members.push(Member { key, text: value });
        rest = after.trim_start_matches(BLANKS);
    }
    members
}

/// Blanks of JSON.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Bytes of the first value of a text that is known to be JSON.
fn value_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut quoted, mut at) = (0_usize, false, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => {
                quoted = !quoted;
                if !quoted && depth == 0 {
                    return at + 1;
                }
            }
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 && at > 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The string that a JSON text in quotes is.
///
/// # Errors
/// 22P02 for what is no string.
pub fn unquoted(text: &str) -> Result<String> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::InvalidText, "invalid input syntax for type json").with_detail(error.to_string())
    })
}

/// A string as JSON writes it.
pub fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

impl Json {
    /// The value of a text.
    ///
    /// # Errors
    /// 22P02 for a text that is not JSON, 22P05 for `\u0000`, 22003 for a number beyond numeric's digits.
    pub fn parse(text: &str) -> Result<Json> {
        Json::read(checked_json(text)?.trim_matches(BLANKS))
    }

    fn read(text: &str) -> Result<Json> {
        Ok(match text.as_bytes().first() {
            Some(b'n') => Json::Null,
            Some(b't') => Json::Boolean(true),
            Some(b'f') => Json::Boolean(false),
            Some(b'"') => Json::Text(storable(unquoted(text)?)?),
            Some(b'[') => Json::Array(members(text).iter().map(|each| Json::read(each.text)).collect::<Result<_>>()?),
            Some(b'{') => {
                let members = members(text).into_iter();
                let fields = members.map(|each| Ok((storable(each.key.unwrap_or_default())?, Json::read(each.text)?)));
                Json::object(fields.collect::<Result<_>>()?)
            }
            _ => Json::Number(number(text)?),
        })
    }

    /// An object of these members: keys in order, and of equal ones the last.
    pub fn object(mut fields: Vec<(String, Json)>) -> Json {
        fields.reverse();
        fields.sort_by(|(a, _), (b, _)| key_order(a, b));
        fields.dedup_by(|(a, _), (b, _)| a == b);
        Json::Object(fields)
    }

    /// The member of this key.
    pub fn field(&self, name: &str) -> Option<&Json> {
        let Json::Object(fields) = self else { return None };
        let at = fields.binary_search_by(|(key, _)| key_order(key, name)).ok()?;
        Some(&fields[at].1)
    }

    /// Text without blanks, as PostgreSQL makes `json` of other values.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.put(&mut out, ",", ":");
        out
    }

    fn put(&self, out: &mut String, comma: &str, colon: &str) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(digits) => out.push_str(digits),
            Json::Text(text) => out.push_str(&quoted(text)),
            Json::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    out.push_str(if place > 0 { comma } else { "" });
                    item.put(out, comma, colon);
                }
                out.push(']');
            }
            Json::Object(fields) => {
                out.push('{');
                for (place, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if place > 0 { comma } else { "" });
                    out.push_str(&quoted(key));
                    out.push_str(colon);
                    value.put(out, comma, colon);
                }
                out.push('}');
            }
        }
    }

    /// The one form of equal values: numbers without zeros at their end, as in `1` for `1.0`.
    pub fn canonical(self) -> Json {
        match self {
            Json::Number(digits) => Json::Number(without_zeros(digits)),
            Json::Array(items) => Json::Array(items.into_iter().map(Json::canonical).collect()),
            Json::Object(fields) => {
                Json::Object(fields.into_iter().map(|(key, value)| (key, value.canonical())).collect())
            }
            other => other,
        }
    }

    /// Bytes that sort as values of `jsonb` do, and are alike for equal values: `1` and `1.0` are one.
    pub fn order(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            // At the top, an empty array comes before all.
            Json::Array(items) if items.is_empty() => out.push(0),
            value => value.put_order(&mut out),
        }
        out
    }

    fn put_order(&self, out: &mut Vec<u8>) {
        let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX).to_be_bytes();
        match self {
            Json::Null => out.push(1),
            Json::Text(text) => {
                out.push(2);
                put_text(text, out);
            }
            Json::Number(digits) => {
                out.push(3);
                put_number(digits, out);
            }
            Json::Boolean(value) => out.extend([4, u8::from(*value)]),
            Json::Array(items) => {
                out.push(5);
                out.extend(count(items.len()));
                items.iter().for_each(|item| item.put_order(out));
            }
            Json::Object(fields) => {
                out.push(6);
                out.extend(count(fields.len()));
                for (key, value) in fields {
                    put_text(key, out);
                    value.put_order(out);
                }
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.put(&mut out, ", ", ": ");
        f.write_str(&out)
    }
}

/// PostgreSQL's texts hold no NUL.
fn storable(text: String) -> Result<String> {
    if text.contains('\0') {
        let error = Error::new(ErrorKind::UntranslatableCharacter, "unsupported Unicode escape sequence");
        return Err(error.with_detail("\\u0000 cannot be converted to text."));
    }
    Ok(text)
}

/// Texts hold no NUL, so that one ends them.
fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend(text.as_bytes());
    out.push(0);
}

fn without_zeros(digits: String) -> String {
    if !digits.contains('.') {
        return digits;
    }
    match digits.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".into(),
        short => short.into(),
    }
}

/// A sign, the place of the point, the digits that count; of negative numbers the complement.
fn put_number(text: &str, out: &mut Vec<u8>) {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return out.push(1);
    }
    let leading = all.len() - significant.len();
    let point = i32::try_from(whole.len()).unwrap_or(i32::MAX) - i32::try_from(leading).unwrap_or(i32::MAX);
    let mut body = (point as u32 ^ 0x8000_0000).to_be_bytes().to_vec();
    body.extend(significant.trim_end_matches('0').as_bytes());
    body.push(0);
    if negative {
        out.push(0);
        out.extend(body.into_iter().map(|byte| !byte));
    } else {
        out.push(2);
        out.extend(body);
    }
}

/// A number of JSON as numeric prints it: without exponent, with the digits after the point that are written.
fn number(text: &str) -> Result<String> {
    let overflow = || Error::new(ErrorKind::NumericOverflow, "value overflows numeric format");
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>().map_err(|_| overflow())?),
        None => (text, 0),
    };
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let scale = i64::try_from(fraction.len()).unwrap_or(i64::MAX) - exponent;
    let point = i64::try_from(digits.len()).unwrap_or(i64::MAX) - scale;
    if exponent.abs() > LARGEST_EXPONENT || point > LARGEST_EXPONENT || scale > LARGEST_SCALE {
        return Err(overflow());
    }
    let places = |count: i64| usize::try_from(count).unwrap_or(0);
    let padded = format!("{}{digits}{}", "0".repeat(places(1 - point)), "0".repeat(places(-scale)));
    let (whole, fraction) = padded.split_at(padded.len() - places(scale));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let sign = if negative && digits.contains(|digit| digit != '0') { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Json::parse(text).expect("JSON").to_string()
    }

    #[test]
    fn keys_are_in_order_and_unique_and_numbers_keep_their_digits() {
        assert_eq!(canonical(r#" {"bb":1,"a":[ 1,2 ],"a" : {"x":"y,}"}} "#), r#"{"a": {"x": "y,}"}, "bb": 1}"#);
        assert_eq!(canonical("[]"), "[]");
        assert_eq!(canonical("{}"), "{}");
        let numbers = [("1.50", "1.50"), ("1e3", "1000"), ("-0.0", "0.0"), ("1.5e-3", "0.0015"), ("12.5E1", "125")];
        for (written, printed) in numbers {
            assert_eq!(canonical(written), printed);
        }
        assert_eq!(canonical(r#""\u00e9\"\n""#), r#""é\"\n""#);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let state = |text: &str| Json::parse(text).expect_err("no jsonb").sqlstate();
        assert_eq!(state("{"), "22P02");
        assert_eq!(state(r#""\u0000""#), "22P05");
        assert_eq!(state("1e131073"), "22003");
    }

    #[test]
    fn the_order_is_that_of_postgres() {
        let sorted = [
            "[]",
            "null",
            r#""a""#,
            r#""ab""#,
            "-10",
            "-9.5",
            "-0.5",
            "0",
            "0.25",
            "0.5",
            "9",
            "10",
            "false",
            "true",
            "[1]",
            "[2]",
            "[[]]",
            "[1, 1]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            r#"{"b": 1}"#,
        ];
        for pair in sorted.windows(2) {
            let order = |text: &str| Json::parse(text).expect("JSON").order();
            assert!(order(pair[0]) < order(pair[1]), "{pair:?}");
        }
        assert_eq!(Json::Number("1.0".into()).order(), Json::Number("1".into()).order());
    }

    #[test]
    fn members_keep_their_texts() {
        let text = r#"{ "a" : {"b":  1}, "a":"x\"]" , "c":[1 ,2]}"#;
        let found: Vec<_> = members(text).into_iter().map(|each| (each.key, each.text)).collect();
        let key = |name: &str| Some(name.to_owned());
        assert_eq!(found, [(key("a"), r#"{"b":  1}"#), (key("a"), r#""x\"]""#), (key("c"), "[1 ,2]")]);
        assert!(members("5").is_empty());
    }
}
