//! Functions of text and bytes. Positions and lengths count characters.

use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::overload::{Call, Code, Overload, Parameter};
use crate::syntax::quote_ident;

use ColumnType as C;
use Parameter::Is;

const T: Parameter = Is(C::Text);
const I: Parameter = Is(C::Int);

/// Texts longer than this are refused rather than built.
pub(super) const LONGEST: usize = 64 << 20;

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    add("lower", &[T], C::Text, |_, v| map(v, |s| s.to_lowercase()));
    add("upper", &[T], C::Text, |_, v| map(v, |s| s.to_uppercase()));
    add("initcap", &[T], C::Text, |_, v| map(v, initcap));
    add("reverse", &[T], C::Text, |_, v| map(v, |s| s.chars().rev().collect()));
    add("reverse_domain", &[T], C::Text, |_, v| map(v, reverse_domain));
    for name in ["length", "char_length", "character_length"] {
        add(name, &[T], C::Int, |_, v| count(text(&v[0])?.chars().count()));
    }
    add("length", &[Is(C::Blob)], C::Int, |_, v| count(bytes(&v[0])?.len()));
    add("octet_length", &[T], C::Int, |_, v| count(text(&v[0])?.len()));
    add("octet_length", &[Is(C::Blob)], C::Int, |_, v| count(bytes(&v[0])?.len()));
    add("bit_length", &[T], C::Int, |_, v| count(text(&v[0])?.len() * 8));
    add("ascii", &[T], C::Int, |_, v| Ok(Value::Int(text(&v[0])?.chars().next().map_or(0, |c| c as i32))));
    add("chr", &[I], C::Text, chr);
    for (name, code) in [("substring", substring as Code), ("substr", substring)] {
        add(name, &[T, I], C::Text, code);
        add(name, &[T, I, I], C::Text, code);
        add(name, &[Is(C::Blob), I], C::Blob, sub_bytes);
        add(name, &[Is(C::Blob), I, I], C::Blob, sub_bytes);
    }
    add("left", &[T, I], C::Text, |_, v| Ok(Value::Text(side(v, true)?)));
    add("right", &[T, I], C::Text, |_, v| Ok(Value::Text(side(v, false)?)));
    add("boolean_output", &[Is(C::Boolean)], C::Text, |_, v| Ok(Value::Text(v[0].to_text(C::Boolean))));
    add("strpos", &[T, T], C::Int, |_, v| position(text(&v[0])?, text(&v[1])?));
    add("position", &[T, T], C::Int, |_, v| position(text(&v[1])?, text(&v[0])?));
    add("split_part", &[T, T, I], C::Text, split_part);
    add("replace", &[T, T, T], C::Text, |_, v| {
        let from = text(&v[1])?;
        Ok(Value::Text(if from.is_empty() {
            text(&v[0])?.to_owned()
        } else {
            text(&v[0])?.replace(from, text(&v[2])?)
        }))
    });
    add("translate", &[T, T, T], C::Text, translate);
    add("repeat", &[T, I], C::Text, repeat);
    add("lpad", &[T, I], C::Text, |_, v| pad(v, true));
    add("lpad", &[T, I, T], C::Text, |_, v| pad(v, true));
    add("rpad", &[T, I], C::Text, |_, v| pad(v, false));
    add("rpad", &[T, I, T], C::Text, |_, v| pad(v, false));
    add("overlay", &[T, T, I], C::Text, overlay);
    add("overlay", &[T, T, I, I], C::Text, overlay);
    for name in ["btrim", "trim"] {
        add(name, &[T], C::Text, |_, v| trim(v, true, true));
        add(name, &[T, T], C::Text, |_, v| trim(v, true, true));
    }
    for parameters in [&[T] as &'static [Parameter], &[T, T]] {
        add("ltrim", parameters, C::Text, |_, v| trim(v, true, false));
        add("rtrim", parameters, C::Text, |_, v| trim(v, false, true));
    }
    add("starts_with", &[T, T], C::Boolean, |_, v| Ok(Value::Boolean(text(&v[0])?.starts_with(text(&v[1])?))));
    add("ends_with", &[T, T], C::Boolean, |_, v| Ok(Value::Boolean(text(&v[0])?.ends_with(text(&v[1])?))));
    add("quote_ident", &[T], C::Text, |_, v| map(v, quote_ident));
    add("quote_literal", &[T], C::Text, |_, v| map(v, quote_literal));
    add("encode", &[Is(C::Blob), T], C::Text, encode);
    add("get_byte", &[Is(C::Blob), Is(C::Int)], C::Int, get_byte);
    add("set_byte", &[Is(C::Blob), Is(C::Int), Is(C::Int)], C::Blob, set_byte);
    add("decode", &[T, T], C::Blob, decode);
    add("blob_concat", &[Is(C::Blob), Is(C::Blob)], C::Blob, |_, v| {
        Ok(Value::Blob([bytes(&v[0])?, bytes(&v[1])?].concat()))
    });
    add("convert_from", &[Is(C::Blob), T], C::Text, |_, v| utf8(bytes(&v[0])?));
    add("convert_to", &[T, T], C::Blob, |_, v| Ok(Value::Blob(text(&v[0])?.as_bytes().to_vec())));
    all.push(Overload::new("concat", &[T], C::Text, concat).variadic().with_nulls());
    all.push(Overload::new("concat_ws", &[T, T], C::Text, concat_ws).variadic().with_nulls());
    all.push(Overload::new("format", &[T, T], C::Text, format).variadic().with_nulls());
    all.push(
        Overload::new("quote_nullable", &[T], C::Text, |_, v| match &v[0] {
            Value::Text(text) => Ok(Value::Text(quote_literal(text))),
            _ => Ok(Value::Text("NULL".into())),
        })
        .with_nulls(),
    );
    all
}

/// The text of a text value.
pub fn text(value: &Value) -> Result<&str> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(Error::internal("a text was expected")),
    }
}

/// The bytes of a blob value.
pub fn bytes(value: &Value) -> Result<&[u8]> {
    match value {
        Value::Blob(bytes) => Ok(bytes),
        _ => Err(Error::internal("bytes were expected")),
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => i64::from(*value),
        _ => 0,
    }
}

fn map(values: &[Value], function: impl Fn(&str) -> String) -> Result<Value> {
    Ok(Value::Text(function(text(&values[0])?)))
}

fn count(count: usize) -> Result<Value> {
    i32::try_from(count).map(Value::Int).map_err(|_| Error::new(ErrorKind::NumericOverflow, "integer out of range"))
}

fn initcap(text: &str) -> String {
    let mut inside = false;
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        if inside {
            result.extend(c.to_lowercase());
        } else {
            result.extend(c.to_uppercase());
        }
        inside = c.is_alphanumeric();
    }
    result
}

/// `maps.google.com/index.html` as `com.google.maps/index.html`, so that the pages of a domain stand together in a key;
/// where the address names a scheme, as Apache Nutch writes it: `com.google.maps:https/index.html`.
fn reverse_domain(address: &str) -> String {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!(":{scheme}"), rest),
        _ => (String::new(), address),
    };
    let (host, rest) = rest.split_at(rest.find([':', '/', '?', '#']).unwrap_or(rest.len()));
    let reversed: Vec<&str> = host.split('.').rev().collect();
    format!("{}{scheme}{rest}", reversed.join("."))
}

fn chr(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let code = int(&values[0]);
    match u32::try_from(code).ok().filter(|code| *code != 0).and_then(char::from_u32) {
        Some(c) => Ok(Value::Text(c.to_string())),
        None if code == 0 => Err(Error::new(ErrorKind::LimitExceeded, "null character not permitted")),
        None => {
            Err(Error::new(ErrorKind::LimitExceeded, format!("requested character not valid for encoding: {code}")))
        }
    }
}

/// The characters from `from` (the first is 1), `for` many: a start before the text uses up length, as in Postgres.
fn range(values: &[Value]) -> Result<(usize, usize)> {
    let from = int(&values[1]);
    let end = match values.get(2) {
        Some(length) if int(length) < 0 => {
            return Err(Error::new(ErrorKind::Substring, "negative substring length not allowed"));
        }
        Some(length) => from + int(length),
        None => i64::MAX,
    };
    let start = from.max(1) - 1;
    let length = (end - 1 - start).max(0);
    Ok((usize::try_from(start).unwrap_or(0), usize::try_from(length).unwrap_or(usize::MAX)))
}

fn substring(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (start, length) = range(values)?;
    Ok(Value::Text(text(&values[0])?.chars().skip(start).take(length).collect()))
}

fn sub_bytes(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (start, length) = range(values)?;
    Ok(Value::Blob(bytes(&values[0])?.iter().skip(start).take(length).copied().collect()))
}

/// The first or last `n` characters; a negative `n` leaves out so many at the other end.
fn side(values: &[Value], left: bool) -> Result<String> {
    let (text, n) = (text(&values[0])?, int(&values[1]));
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let kept = if n < 0 { (count + n).max(0) } else { n.min(count) };
    let skipped = if left { 0 } else { count - kept };
    Ok(text.chars().skip(usize::try_from(skipped).unwrap_or(0)).take(usize::try_from(kept).unwrap_or(0)).collect())
}

fn position(text: &str, part: &str) -> Result<Value> {
    count(text.find(part).map_or(0, |at| text[..at].chars().count() + 1))
}

fn split_part(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (text, by, n) = (text(&values[0])?, text(&values[1])?, int(&values[2]));
    if n == 0 {
        return Err(Error::new(ErrorKind::InvalidParameter, "field position must not be zero"));
    }
    let parts: Vec<&str> = if by.is_empty() { vec![text] } else { text.split(by).collect() };
    let index = usize::try_from(n.abs() - 1).unwrap_or(usize::MAX);
    let part = if n > 0 { parts.get(index) } else { parts.iter().rev().nth(index) };
    Ok(Value::Text(part.copied().unwrap_or_default().to_owned()))
}

fn translate(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (text, from, to) = (text(&values[0])?, text(&values[1])?, text(&values[2])?);
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let replaced = text.chars().filter_map(|c| match from.iter().position(|each| *each == c) {
        Some(place) => to.get(place).copied(),
        None => Some(c),
    });
    Ok(Value::Text(replaced.collect()))
}

pub(super) fn too_long() -> Error {
    Error::new(ErrorKind::LimitExceeded, "requested length too large")
}

fn repeat(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (text, times) = (text(&values[0])?, usize::try_from(int(&values[1])).unwrap_or(0));
    if text.len().saturating_mul(times) > LONGEST {
        return Err(too_long());
    }
    Ok(Value::Text(text.repeat(times)))
}

fn pad(values: &[Value], left: bool) -> Result<Value> {
    let (own, width) = (text(&values[0])?, usize::try_from(int(&values[1])).unwrap_or(0));
    let fill = values.get(2).map_or(Ok(" "), text)?;
    if width > LONGEST / 4 {
        return Err(too_long());
    }
    let length = own.chars().count();
    if length >= width || fill.is_empty() {
        return Ok(Value::Text(own.chars().take(width).collect()));
    }
    let padding: String = fill.chars().cycle().take(width - length).collect();
    Ok(Value::Text(if left { padding + own } else { own.to_owned() + &padding }))
}

fn overlay(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (own, new, from) = (text(&values[0])?, text(&values[1])?, int(&values[2]));
    if from <= 0 {
        return Err(Error::new(ErrorKind::Substring, "negative substring length not allowed"));
    }
    let replaced = values.get(3).map_or(i64::try_from(new.chars().count()).unwrap_or(0), int);
    let before: String = own.chars().take(usize::try_from(from - 1).unwrap_or(0)).collect();
    let after: String = own.chars().skip(usize::try_from(from - 1 + replaced).unwrap_or(0)).collect();
    Ok(Value::Text(before + new + &after))
}

fn trim(values: &[Value], start: bool, end: bool) -> Result<Value> {
    let own = text(&values[0])?;
    let set: Vec<char> = values.get(1).map_or(Ok(" "), text)?.chars().collect();
    let own = if start { own.trim_start_matches(set.as_slice()) } else { own };
    Ok(Value::Text(if end { own.trim_end_matches(set.as_slice()) } else { own }.to_owned()))
}

fn concat(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let parts = values.iter().filter(|value| !value.is_null()).map(text);
    Ok(Value::Text(parts.collect::<Result<Vec<_>>>()?.concat()))
}

fn concat_ws(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let Some((Value::Text(by), rest)) = values.split_first() else { return Ok(Value::Null) };
    let parts = rest.iter().filter(|value| !value.is_null()).map(text);
    Ok(Value::Text(parts.collect::<Result<Vec<_>>>()?.join(by)))
}

/// `format('%s %I %L', …)`, with positions (`%2$s`) and widths.
fn format(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let Some((Value::Text(pattern), arguments)) = values.split_first() else { return Ok(Value::Null) };
    let (mut result, mut next) = (String::new(), 0);
    let mut rest = pattern.as_str();
    while let Some(at) = rest.find('%') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let spec_end = rest.find(|c: char| !c.is_ascii_digit() && c != '$' && c != '-');
        let Some(end) = spec_end else {
            return Err(Error::new(ErrorKind::InvalidParameter, "unterminated format() type specifier"));
        };
        let (spec, kind) = (&rest[..end], rest[end..].chars().next().unwrap_or_default());
        rest = &rest[end + kind.len_utf8()..];
        if kind == '%' {
            result.push('%');
            continue;
        }
        let (place, width) = match spec.split_once('$') {
            Some((place, width)) => (place.parse::<usize>().ok(), width),
            None => (None, spec),
        };
        next = place.map_or(next + 1, |place| place);
        let Some(value) = next.checked_sub(1).and_then(|index| arguments.get(index)) else {
            return Err(Error::new(ErrorKind::InvalidParameter, "too few arguments for format()"));
        };
        result.push_str(&padded(&formatted(kind, value)?, width));
    }
    result.push_str(rest);
    Ok(Value::Text(result))
}

fn formatted(kind: char, value: &Value) -> Result<String> {
    match (kind, value) {
        ('s', Value::Text(text)) => Ok(text.clone()),
        ('s', _) => Ok(String::new()),
        ('I', Value::Text(text)) => Ok(quote_ident(text)),
        ('I', _) => {
            Err(Error::new(ErrorKind::InvalidParameter, "null values cannot be formatted as an SQL identifier"))
        }
        ('L', Value::Text(text)) => Ok(quote_literal(text)),
        ('L', _) => Ok("NULL".into()),
        (kind, _) => {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            let hint = "For a single \"%\" use \"%%\".";
            Err(Error::new(ErrorKind::InvalidParameter, message).with_hint(hint))
        }
    }
}

fn padded(text: &str, width: &str) -> String {
    let (left, digits) = width.strip_prefix('-').map_or((false, width), |digits| (true, digits));
    let width = digits.parse::<usize>().unwrap_or(0).min(LONGEST / 4);
    // The standard library pads to 65,535 characters at most.
    let blanks = " ".repeat(width.saturating_sub(text.chars().count()));
    if left { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
}

fn quote_literal(text: &str) -> String {
    let quoted = format!("'{}'", text.replace('\'', "''").replace('\\', "\\\\"));
    if text.contains('\\') { format!("E{quoted}") } else { quoted }
}

fn utf8(bytes: &[u8]) -> Result<Value> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Value::Text(text.to_owned())),
        Err(_) => Err(Error::new(ErrorKind::InvalidEncoding, "invalid byte sequence for encoding \"UTF8\"")),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn unknown_encoding(name: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("unrecognized encoding: \"{name}\""))
}

fn get_byte(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (bytes, Value::Int(index)) = (bytes(&values[0])?, &values[1]) else { return Ok(Value::Null) };
    let byte = usize::try_from(*index).ok().and_then(|index| bytes.get(index));
    byte.map(|byte| Value::Int(i32::from(*byte))).ok_or_else(|| {
        let message = format!("index {index} out of valid range, 0..{}", bytes.len() as i64 - 1);
        Error::new(ErrorKind::ArraySubscript, message)
    })
}

/// PostgreSQL takes the number's lowest eight bits.
fn set_byte(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (bytes, Value::Int(index), Value::Int(byte)) = (bytes(&values[0])?, &values[1], &values[2]) else {
        return Ok(Value::Null);
    };
    let mut changed = bytes.to_vec();
    let place = usize::try_from(*index).ok().and_then(|index| changed.get_mut(index));
    let Some(place) = place else {
        let message = format!("index {index} out of valid range, 0..{}", bytes.len() as i64 - 1);
        return Err(Error::new(ErrorKind::ArraySubscript, message));
    };
    *place = byte.to_le_bytes()[0];
    Ok(Value::Blob(changed))
}

fn encode(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (bytes, name) = (bytes(&values[0])?, text(&values[1])?);
    Ok(Value::Text(match name.to_lowercase().as_str() {
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        "base64" => base64(bytes),
        "escape" => bytes
            .iter()
            .map(|byte| match byte {
                b'\\' => "\\\\".to_owned(),
                0 | 128.. => format!("\\{byte:03o}"),
                byte => char::from(*byte).to_string(),
            })
            .collect(),
        _ => return Err(unknown_encoding(name)),
    }))
}

/// In lines of 76, as Postgres writes it.
fn base64(bytes: &[u8]) -> String {
    let mut result = String::new();
    for (index, group) in bytes.chunks(3).enumerate() {
        if index > 0 && index % 19 == 0 {
            result.push('\n');
        }
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            result.push(if place <= group.len() { char::from(ALPHABET[digit as usize]) } else { '=' });
        }
    }
    result
}

fn decode(_: &super::overload::Call<'_>, values: &[Value]) -> Result<Value> {
    let (own, name) = (text(&values[0])?, text(&values[1])?);
    match name.to_lowercase().as_str() {
        "hex" => {
            let digits: String = own.split_whitespace().collect();
            Value::parse(&format!("\\x{digits}"), C::Blob)
        }
        "base64" => unbase64(own),
        "escape" => Value::parse(own, C::Blob),
        _ => Err(unknown_encoding(name)),
    }
}

fn unbase64(text: &str) -> Result<Value> {
    let invalid = || {
        Error::new(ErrorKind::InvalidParameter, "invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted.")
    };
    let (mut bits, mut count, mut bytes, mut ends) = (0_u32, 0, Vec::new(), 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if byte == b'=' {
            ends += 1;
            continue;
        }
        let digit = ALPHABET.iter().position(|each| *each == byte).filter(|_| ends == 0).ok_or_else(invalid)?;
        bits = bits << 6 | u32::try_from(digit).expect("less than 64");
        count += 1;
        if count % 4 == 0 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            bits = 0;
        }
    }
    match (count % 4, ends) {
        (0, 0) => {}
        (2, 2) => bytes.push((bits >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => return Err(invalid()),
    }
    Ok(Value::Blob(bytes))
}
