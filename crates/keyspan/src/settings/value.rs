//! The canonical forms of setting values.

use chrono_tz::TZ_VARIANTS;
use keyspan_cql::quoted;
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_query::types::Zone;

use super::definition::{Definition, Kind};

/// The value in its canonical form.
pub(super) fn canonical(definition: &Definition, values: &[String]) -> Result<String> {
    if definition.kind == Kind::Names {
        return Ok(values.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "));
    }
    let value = match values {
        [value] => value.trim().to_string(),
        _ if definition.kind == Kind::DateStyle => values.join(", "),
        _ => {
            let message = format!("SET {} takes only one argument", definition.name);
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
    };
    match definition.kind {
        Kind::Text | Kind::Names => Ok(value),
        Kind::Boolean => boolean(definition, &value),
        Kind::Integer(least, most) => integer(definition, &value, least, most),
        Kind::Duration => duration(definition, &value),
        Kind::Bytes => bytes(definition, &value),
        Kind::Word(words) => word(definition, &value, words),
        Kind::TimeZone => time_zone(definition, &value),
        Kind::DateStyle => date_style(definition, &value),
        Kind::Encoding => match encoding(&value) {
            Some(name) => Ok(name.to_string()),
            None => {
                let known = client_encodings().join(", ");
                Err(invalid(definition, &value).with_hint(format!("Available values: {known}.")))
            }
        },
        Kind::Fixed => {
            let message = format!("parameter \"{}\" cannot be changed", definition.name);
            Err(Error::new(ErrorKind::ObjectNotReady, message))
        }
    }
}

/// Encodings that a client may ask for, and their other names (PostgreSQL's `pg_encname_tbl`).
const ENCODINGS: &[(&str, &[&str])] = &[
    ("UTF8", &["unicode"]),
    ("SQL_ASCII", &[]),
    ("LATIN1", &["iso88591"]),
    ("LATIN2", &["iso88592"]),
    ("LATIN3", &["iso88593"]),
    ("LATIN4", &["iso88594"]),
    ("LATIN5", &["iso88599"]),
    ("LATIN6", &["iso885910"]),
    ("LATIN7", &["iso885913"]),
    ("LATIN8", &["iso885914"]),
    ("LATIN9", &["iso885915"]),
    ("LATIN10", &["iso885916"]),
    ("ISO_8859_5", &[]),
    ("ISO_8859_6", &[]),
    ("ISO_8859_7", &[]),
    ("ISO_8859_8", &[]),
    ("WIN866", &["windows866", "alt"]),
    ("WIN874", &["windows874"]),
    ("WIN1250", &["windows1250"]),
    ("WIN1251", &["windows1251", "win"]),
    ("WIN1252", &["windows1252"]),
    ("WIN1253", &["windows1253"]),
    ("WIN1254", &["windows1254"]),
    ("WIN1255", &["windows1255"]),
    ("WIN1256", &["windows1256"]),
    ("WIN1257", &["windows1257"]),
    ("WIN1258", &["windows1258", "abc", "tcvn", "tcvn5712", "vscii"]),
    ("KOI8R", &["koi8"]),
    ("KOI8U", &[]),
    ("BIG5", &["win950", "windows950"]),
    ("EUC_CN", &[]),
    ("EUC_JP", &[]),
    ("EUC_KR", &[]),
    ("GB18030", &[]),
    ("GBK", &["win936", "windows936"]),
    ("SJIS", &["shiftjis", "mskanji", "win932", "windows932"]),
    ("UHC", &["win949", "windows949"]),
];

/// The encodings that a client may ask for, as PostgreSQL spells them.
pub fn client_encodings() -> Vec<&'static str> {
    ENCODINGS.iter().map(|(name, _)| *name).collect()
}

/// The encoding of this name. PostgreSQL looks at letters and digits only (`clean_encoding_name`); asyncpg sends quotes.
fn encoding(value: &str) -> Option<&'static str> {
    let clean = |name: &str| name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let asked = clean(value);
    let is = |(name, others): &&(&str, &[&str])| clean(name) == asked || others.contains(&asked.as_str());
    ENCODINGS.iter().find(is).map(|(name, _)| *name)
}

/// The names of a list as `search_path` keeps it.
pub(super) fn names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut inside = false;
    let mut rest = list.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if inside && rest.peek() == Some(&'"') => name.push(rest.next().unwrap_or('"')),
            '"' => inside = !inside,
            ',' if !inside => names.push(std::mem::take(&mut name).trim().to_string()),
            c => name.push(c),
        }
    }
    names.push(name.trim().to_string());
    names.retain(|name| !name.is_empty());
    names
}

/// A duration's text as milliseconds; a number alone is milliseconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1.0,
        "us" => 0.001,
        "s" => 1_000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let milliseconds = (number * unit).round();
    (milliseconds <= f64::from(i32::MAX)).then_some(milliseconds as u64)
}

/// A number of bytes with its unit, such as `512MB`.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn parse_bytes(text: &str) -> std::result::Result<usize, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" if !number.is_empty() => return Err(format!("\"{text}\" has no unit: write {text}MB or {text}GB")),
        "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        other if number.is_empty() || !other.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            return Err(format!("\"{text}\" is no whole number with a unit: write 512MB or 2GB"));
        }
        other => return Err(format!("unknown unit \"{other}\": write 512MB or 2GB")),
    };
    let number: usize = number.parse().map_err(|_| "too many bytes".to_string())?;
    number.checked_mul(factor).ok_or_else(|| "too many bytes".to_string())
}

/// 0 needs no unit.
fn bytes(definition: &Definition, value: &str) -> Result<String> {
    match parse_bytes(value) {
        _ if value == "0" => Ok(value.to_owned()),
        Ok(_) => Ok(value.to_owned()),
        Err(what) => Err(invalid(definition, value).with_detail(format!("{what}."))),
    }
}

fn boolean(definition: &Definition, value: &str) -> Result<String> {
    match value.to_lowercase().as_str() {
        "on" | "true" | "t" | "yes" | "y" | "1" => Ok("on".to_string()),
        "off" | "false" | "f" | "no" | "n" | "0" => Ok("off".to_string()),
        _ => {
            let message = format!("parameter \"{}\" requires a Boolean value", definition.name);
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
    }
}

fn integer(definition: &Definition, value: &str, least: i64, most: i64) -> Result<String> {
    let number: i64 = value.parse().map_err(|_| invalid(definition, value))?;
    if !(least..=most).contains(&number) {
        let message =
            format!("{number} is outside the valid range for parameter \"{}\" ({least} .. {most})", definition.name);
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    Ok(number.to_string())
}

fn duration(definition: &Definition, value: &str) -> Result<String> {
    let all = milliseconds(value).ok_or_else(|| {
        invalid(definition, value)
            .with_hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
    })?;
    const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
    let unit = UNITS.iter().find(|(_, length)| all >= *length && all % length == 0);
    Ok(unit.map_or("0".to_string(), |(unit, length)| format!("{}{unit}", all / length)))
}

fn word(definition: &Definition, value: &str, words: &[&str]) -> Result<String> {
    let lower = value.to_lowercase();
    match words.iter().find(|word| **word == lower) {
        Some(word) => Ok((*word).to_string()),
        None => Err(invalid(definition, value).with_hint(format!("Available values: {}.", words.join(", ")))),
    }
}

fn time_zone(definition: &Definition, value: &str) -> Result<String> {
    if let Some(name) = zone_name(value) {
        return Ok(name);
    }
    let hours: Result<f64, _> = value.trim_start_matches('+').parse();
    match hours {
        Ok(hours) if hours.abs() <= 15.0 => {
            let minutes = (hours.abs() * 60.0).round() as i64;
            let sign = if hours < 0.0 { '-' } else { '+' };
            let (hours, minutes) = (minutes / 60, minutes % 60);
            let to = |sign| match minutes {
                0 => format!("{sign}{hours:02}"),
                _ => format!("{sign}{hours:02}:{minutes:02}"),
            };
            // As PostgreSQL shows it: a name, and behind it POSIX's offset to the west.
            Ok(format!("<{}>{}", to(sign), to(if sign == '-' { '+' } else { '-' })))
        }
        _ => {
            Err(invalid(definition, value).with_hint("Give an IANA name such as Europe/Berlin, or hours east of UTC."))
        }
    }
}

/// The zone as the time zone database spells it, or as POSIX writes one: `+01:00`, which is west of UTC.
fn zone_name(value: &str) -> Option<String> {
    if matches!(value.to_lowercase().as_str(), "utc" | "gmt" | "z" | "zulu" | "default" | "local") {
        return Some(if value.eq_ignore_ascii_case("gmt") { "GMT" } else { "UTC" }.to_string());
    }
    let named = TZ_VARIANTS.iter().map(|zone| zone.name()).find(|name| name.eq_ignore_ascii_case(value));
    match named {
        Some(name) => Some(name.to_owned()),
        // A bare number is hours to the east, not POSIX's to the west.
        None if value.parse::<f64>().is_ok() => None,
        None => Zone::parse(value).is_ok().then(|| value.to_owned()),
    }
}

fn date_style(definition: &Definition, value: &str) -> Result<String> {
    let mut order = "MDY";
    for part in value.split(',').map(|part| part.trim().to_lowercase()) {
        match part.as_str() {
            "iso" | "default" => {}
            "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            _ => return Err(invalid(definition, value).with_hint("Keyspan writes dates in ISO style only.")),
        }
    }
    Ok(format!("ISO, {order}"))
}

fn invalid(definition: &Definition, value: &str) -> Error {
    let message = format!("invalid value for parameter \"{}\": \"{value}\"", definition.name);
    Error::new(ErrorKind::InvalidParameter, message)
}
