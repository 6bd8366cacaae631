//! `to_char`, `to_timestamp`, `to_date`, `to_number`: Postgres' template patterns.
//!
//! The rule kept: a pattern is carried out or refused by name; it is never copied to the output.

use arrow::array::{StringViewArray, StringViewBuilder};
use arrow::buffer::NullBuffer;
use chrono::{Datelike, NaiveDate};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::overload::{Call, OfInfinity, Overload, Parameter};
use super::text::text;
use super::time::{DAY, joined, local_of, parts, split, to_instant};
use crate::types::arithmetic::rescale;

use ColumnType as C;
use Parameter::{Is, Numeric};

const T: Parameter = Is(C::Text);
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The functions.
pub fn functions() -> Vec<Overload> {
    vec![
        Overload::new("to_char", &[Is(C::Timestamp), T], C::Text, of_time).stable().of_infinity(OfInfinity::Null),
        Overload::new("to_char", &[Is(C::LocalTimestamp), T], C::Text, of_time).of_infinity(OfInfinity::Null),
        Overload::new("to_char", &[Is(C::Duration), T], C::Text, of_interval),
        Overload::new("to_char", &[Is(C::Int), T], C::Text, of_number),
        Overload::new("to_char", &[Is(C::BigInt), T], C::Text, of_number),
        Overload::new("to_char", &[Numeric, T], C::Text, of_number),
        Overload::new("to_char", &[Is(C::Double), T], C::Text, of_number),
        Overload::new("to_number", &[T, T], C::Decimal { precision: 38, scale: 10 }, to_number),
    ]
}

/// Patterns, longest first where one begins another.
const PATTERNS: &[&str] = &[
    "YYYY", "IYYY", "Y,YYY", "YYY", "IYY", "YY", "IY", "Y", "I", "MONTH", "Month", "month", "MON", "Mon", "mon", "MM",
    "MI", "MS", "DDD", "DAY", "Day", "day", "DD", "DY", "Dy", "dy", "D", "IDDD", "ID", "IW", "WW", "W", "CC", "Q", "J",
    "HH24", "HH12", "HH", "SSSSS", "SSSS", "SS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "A.M.", "P.M.",
    "a.m.", "p.m.", "AM", "PM", "am", "pm", "BC", "AD", "bc", "ad", "TZH", "TZM", "TZ", "tz", "OF", "RM",
];

#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Pattern { name: &'static str, fill: bool, ordinal: Option<&'a str> },
    Plain(&'a str),
}

/// A template in pieces. Patterns are found in any case, as Postgres does.
fn pieces(template: &str) -> Result<Vec<Piece<'_>>> {
    let mut found = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = take_quoted(quoted, &mut found);
            continue;
        }
        if rest.starts_with("\\\"") {
            found.push(Piece::Plain(&rest[1..2]));
            rest = &rest[2..];
            continue;
        }
        let (fill, after) = match rest.get(..2) {
            Some(prefix) if prefix.eq_ignore_ascii_case("FM") => (true, &rest[2..]),
            Some("TM") => return Err(Error::not_supported("TM in a template is not supported")),
            _ => (false, rest),
        };
        if let Some(name) = pattern_at(after) {
            let tail = &after[name.len()..];
            let ordinal = tail.get(..2).filter(|suffix| *suffix == "TH" || *suffix == "th");
            rest = ordinal.map_or(tail, |suffix| &tail[suffix.len()..]);
            found.push(Piece::Pattern { name, fill, ordinal });
            continue;
        }
        let length = after.chars().next().map_or(0, char::len_utf8);
        if length == 0 {
            break;
        }
        found.push(Piece::Plain(&after[..length]));
        rest = &after[length..];
    }
    Ok(found)
}

/// Takes what stands as it is, up to a quote; a backslash stands for what follows it. What stands behind the quote.
fn take_quoted<'a>(quoted: &'a str, found: &mut Vec<Piece<'a>>) -> &'a str {
    let mut begin = 0;
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                found.push(Piece::Plain(&quoted[begin..at]));
                return &quoted[at + 1..];
            }
            '\\' => {
                found.push(Piece::Plain(&quoted[begin..at]));
                begin = at + 1;
                characters.next();
            }
            _ => {}
        }
    }
    found.push(Piece::Plain(&quoted[begin..]));
    ""
}

fn pattern_at(text: &str) -> Option<&'static str> {
    let exact = PATTERNS.iter().filter(|pattern| text.starts_with(**pattern)).max_by_key(|pattern| pattern.len());
    let any_case = || {
        let fits = |pattern: &&&str| {
            pattern.chars().all(|c| !c.is_lowercase())
                && text.get(..pattern.len()).is_some_and(|t| t.eq_ignore_ascii_case(pattern))
        };
        PATTERNS.iter().filter(fits).max_by_key(|pattern| pattern.len())
    };
    match (exact, any_case()) {
        (Some(exact), Some(any)) if any.len() > exact.len() => Some(any),
        (Some(exact), _) => Some(exact),
        (None, any) => any.copied(),
    }
}

struct Moment {
    date: NaiveDate,
    clock: i64,
    offset: Option<i32>,
    zone: Option<String>,
}

fn of_time(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let local = local_of(call, &values[0], call.types[0])?;
    let (date, clock) = split(local)?;
    let instant = match (&values[0], call.types[0]) {
        (Value::Timestamp(at), C::Timestamp) => Some(*at),
        _ => None,
    };
    let zone = instant.map(|at| call.zone.abbreviation_at(at));
    let moment = Moment { date, clock, offset: instant.map(|at| call.zone.offset_at(at)), zone };
    Ok(Value::Text(filled(&pieces(text(&values[1])?)?, &moment)?))
}

/// A template with the parts of a moment.
fn filled(pieces: &[Piece<'_>], moment: &Moment) -> Result<String> {
    let mut result = String::new();
    for piece in pieces {
        match piece {
            Piece::Plain(plain) => result.push_str(plain),
            Piece::Pattern { name, fill, ordinal } => {
                let shown = shown(moment, name, *fill)?;
                result.push_str(&shown);
                if let Some(case) = ordinal {
                    let suffix = ordinal_of(&shown);
                    result.push_str(&if *case == "TH" { suffix.to_uppercase() } else { suffix.to_owned() });
                }
            }
        }
    }
    Ok(result)
}

/// Wall-clock times by one template; `None` where the code for one time knows better: of zones, and where it fails. Times
/// of one day, hour, minute or second follow each other, and a template that shows no less has one text for them.
pub fn times_as_texts(template: &str, local: &[i64], nulls: Option<&NullBuffer>) -> Option<StringViewArray> {
    let pieces = pieces(template).ok()?;
    let unit = pieces.iter().map(unit_of).try_fold(DAY, |least, unit| Some(least.min(unit?)))?;
    let mut texts = StringViewBuilder::with_capacity(local.len());
    let (mut period, mut shown) = (None, String::new());
    for (row, at) in local.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            texts.append_null();
            continue;
        }
        let own = Some(at.div_euclid(unit));
        if own != period {
            let (date, clock) = split(*at).ok()?;
            shown = filled(&pieces, &Moment { date, clock, offset: None, zone: None }).ok()?;
            period = own;
        }
        texts.append_value(&shown);
    }
    Some(texts.finish())
}

/// How long what a piece shows stays the same, in microseconds; `None` for what depends on the zone.
fn unit_of(piece: &Piece<'_>) -> Option<i64> {
    let Piece::Pattern { name, .. } = piece else { return Some(DAY) };
    Some(match *name {
        "TZ" | "tz" | "TZH" | "TZM" | "OF" => return None,
        "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => 1,
        "SS" | "SSSS" | "SSSSS" => 1_000_000,
        "MI" => 60_000_000,
        "HH24" | "HH12" | "HH" | "A.M." | "P.M." | "a.m." | "p.m." | "AM" | "PM" | "am" | "pm" => 3_600_000_000,
        _ => DAY,
    })
}

fn ordinal_of(number: &str) -> &'static str {
    let teen = number.ends_with("11") || number.ends_with("12") || number.ends_with("13");
    match number.chars().last() {
        Some('1') if !teen => "st",
        Some('2') if !teen => "nd",
        Some('3') if !teen => "rd",
        _ => "th",
    }
}

fn padded(value: i64, width: usize, fill: bool) -> String {
    if fill { value.to_string() } else { format!("{value:0width$}") }
}

fn in_case(name: &str, pattern: &str, width: usize, fill: bool) -> String {
    let name = match pattern.chars().nth(1) {
        Some(c) if c.is_uppercase() => name.to_uppercase(),
        _ if pattern.starts_with(char::is_uppercase) => name.to_owned(),
        _ => name.to_lowercase(),
    };
    if fill { name } else { format!("{name:<width$}") }
}

fn shown(moment: &Moment, name: &str, fill: bool) -> Result<String> {
    let Moment { date, clock, .. } = moment;
    let clock = *clock;
    let hour = clock / 3_600_000_000;
    let fraction = clock % 1_000_000;
    let year = i64::from(if date.year() > 0 { date.year() } else { 1 - date.year() });
    let iso_year = i64::from(date.iso_week().year());
    let number = |value: i64, width: usize| Ok(padded(value, width, fill));
    let month = MONTHS[date.month0() as usize];
    let weekday = WEEKDAYS[date.weekday().num_days_from_sunday() as usize];
    match name {
        "YYYY" => number(year, 4),
        "YYY" => number(year % 1000, 3),
        "YY" => number(year % 100, 2),
        "Y" => number(year % 10, 1),
        "Y,YYY" => Ok(format!("{},{:03}", year / 1000, year % 1000)),
        "IYYY" => number(iso_year, 4),
        "IYY" => number(iso_year % 1000, 3),
        "IY" => number(iso_year % 100, 2),
        "I" => number(iso_year % 10, 1),
        "MONTH" | "Month" | "month" => Ok(in_case(month, name, 9, fill)),
        "MON" | "Mon" | "mon" => Ok(in_case(&month[..3], name, 3, fill)),
        "DAY" | "Day" | "day" => Ok(in_case(weekday, name, 9, fill)),
        "DY" | "Dy" | "dy" => Ok(in_case(&weekday[..3], name, 3, fill)),
        "MM" => number(i64::from(date.month()), 2),
        "DD" => number(i64::from(date.day()), 2),
        "DDD" => number(i64::from(date.ordinal()), 3),
        "IDDD" => number(i64::from(date.iso_week().week() - 1) * 7 + i64::from(date.weekday().number_from_monday()), 3),
        "D" => number(i64::from(date.weekday().num_days_from_sunday()) + 1, 1),
        "ID" => number(i64::from(date.weekday().number_from_monday()), 1),
        "IW" => number(i64::from(date.iso_week().week()), 2),
        "WW" => number(i64::from(date.ordinal0()) / 7 + 1, 2),
        "W" => number(i64::from(date.day0()) / 7 + 1, 1),
        "CC" => number((year + 99) / 100, 2),
        "Q" => number(i64::from(date.month0()) / 3 + 1, 1),
        "J" => number(joined(*date) / DAY + 2_440_588, 1),
        "HH24" => number(hour, 2),
        "HH12" | "HH" => number((hour + 11) % 12 + 1, 2),
        "MI" => number(clock / 60_000_000 % 60, 2),
        "SS" => number(clock / 1_000_000 % 60, 2),
        "SSSS" | "SSSSS" => number(clock / 1_000_000, 1),
        "MS" | "FF3" => Ok(format!("{:03}", fraction / 1000)),
        "US" | "FF6" => Ok(format!("{fraction:06}")),
        "FF1" => Ok(format!("{:01}", fraction / 100_000)),
        "FF2" => Ok(format!("{:02}", fraction / 10_000)),
        "FF4" => Ok(format!("{:04}", fraction / 100)),
        "FF5" => Ok(format!("{:05}", fraction / 10)),
        "AM" | "PM" => Ok(if hour < 12 { "AM" } else { "PM" }.into()),
        "am" | "pm" => Ok(if hour < 12 { "am" } else { "pm" }.into()),
        "A.M." | "P.M." => Ok(if hour < 12 { "A.M." } else { "P.M." }.into()),
        "a.m." | "p.m." => Ok(if hour < 12 { "a.m." } else { "p.m." }.into()),
        "BC" | "AD" => Ok(if date.year() > 0 { "AD" } else { "BC" }.into()),
        "bc" | "ad" => Ok(if date.year() > 0 { "ad" } else { "bc" }.into()),
        "TZ" => Ok(moment.zone.clone().unwrap_or_default()),
        "tz" => Ok(moment.zone.clone().unwrap_or_default().to_lowercase()),
        "TZH" => Ok(format!("{:+03}", moment.offset.unwrap_or(0) / 3600)),
        "TZM" => Ok(format!("{:02}", moment.offset.unwrap_or(0).abs() / 60 % 60)),
        "OF" => {
            let offset = moment.offset.unwrap_or(0);
            let minutes = offset.abs() / 60 % 60;
            let minutes = if minutes == 0 { String::new() } else { format!(":{minutes:02}") };
            Ok(format!("{:+03}{minutes}", offset / 3600))
        }
        other => Err(Error::not_supported(format!("\"{other}\" in a template is not supported"))),
    }
}

fn of_interval(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (months, days, nanos) = parts(&values[0]);
    let clock = nanos / 1000;
    let mut result = String::new();
    for piece in pieces(text(&values[1])?)? {
        let (name, fill) = match piece {
            Piece::Plain(plain) => {
                result.push_str(plain);
                continue;
            }
            Piece::Pattern { name, fill, .. } => (name, fill),
        };
        let (value, width) = match name {
            "YYYY" => (i64::from(months / 12), 4),
            "MM" => (i64::from(months % 12), 2),
            "DD" => (i64::from(days), 2),
            "HH24" => (clock / 3_600_000_000, 2),
            "HH12" | "HH" => ((clock / 3_600_000_000 + 11) % 12 + 1, 2),
            "MI" => (clock / 60_000_000 % 60, 2),
            "SS" => (clock / 1_000_000 % 60, 2),
            "MS" => (clock % 1_000_000 / 1000, 3),
            "US" => (clock % 1_000_000, 6),
            other => {
                return Err(Error::not_supported(format!("\"{other}\" in a template for intervals is not supported")));
            }
        };
        // As in PostgreSQL a sign is one character more, but not of days and parts of seconds.
        let sign = usize::from(value < 0 && !matches!(name, "DD" | "MS" | "US"));
        result.push_str(&padded(value, width + sign, fill));
    }
    Ok(Value::Text(result))
}

/// What stands before the point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// `9`: a digit, or a blank before the first one.
    Digit,
    /// `0`: a digit in any case.
    Zero,
    /// `,`.
    Group,
    /// A character that stands for itself.
    Plain(char),
}

/// A template for numbers: places before and after the point, and what stands around them.
#[derive(Default)]
struct NumberTemplate {
    /// Before the point, from left to right: `9`, `0`, `,` and plain characters, of which a `9` is not a place.
    whole: Vec<Slot>,
    /// After the point.
    fraction: Vec<char>,
    point: bool,
    fill: bool,
    sign_first: bool,
    sign_last: Option<char>,
    angle: bool,
    suffix: String,
    /// The sign of a currency.
    prefix: String,
    /// Plain characters before all else.
    lead: String,
}

fn number_template(template: &str) -> Result<NumberTemplate> {
    let mut found = NumberTemplate::default();
    let mut rest = template;
    if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
        found.fill = true;
        rest = after;
    }
    let upper = rest.to_uppercase();
    if upper.len() != rest.len() {
        return Err(Error::not_supported("letters outside of ASCII in a template for numbers are not supported"));
    }
    let mut index = 0;
    let mut quoted = false;
    while let Some(c) = rest[index..].chars().next() {
        let left = &upper[index..];
        index += c.len_utf8();
        let started = found.point || !found.whole.is_empty();
        match c.to_ascii_uppercase() {
            '"' => quoted = !quoted,
            _ if quoted => plain(&mut found, c, started),
            digit @ ('9' | '0') if found.point => found.fraction.push(digit),
            '9' => found.whole.push(Slot::Digit),
            '0' => found.whole.push(Slot::Zero),
            ',' | 'G' => found.whole.push(Slot::Group),
            '.' | 'D' if !found.point => found.point = true,
            'S' if started => found.sign_last = Some('S'),
            'S' => found.sign_first = true,
            'M' if left.starts_with("MI") => {
                found.sign_last = Some('M');
                index += 1;
            }
            'P' if left.starts_with("PR") => {
                found.angle = true;
                index += 1;
            }
            c @ ('E' | 'V' | 'R' | 'T' | 'P' | 'M') if c.is_alphabetic() => {
                return Err(Error::not_supported(format!("\"{c}\" in a template for numbers is not supported")));
            }
            'L' if started => found.suffix.push('$'),
            'L' => found.prefix.push('$'),
            _ => plain(&mut found, c, started),
        }
    }
    Ok(found)
}

fn plain(found: &mut NumberTemplate, c: char, started: bool) {
    if !started {
        found.lead.push(c);
    } else if found.point {
        found.suffix.push(c);
    } else {
        found.whole.push(Slot::Plain(c));
    }
}

/// Digits after the point that are computed; those behind them are zeros.
const MOST_PLACES: usize = 30;

fn of_number(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let template = number_template(text(&values[1])?)?;
    let places = template.fraction.len().min(MOST_PLACES) as i8;
    let (digits, scale) = match &values[0] {
        Value::Decimal(digits, scale) => (*digits, *scale),
        other => match other.clone().cast(C::Decimal { precision: 38, scale: places.max(15) })? {
            Value::Decimal(digits, scale) => (digits, scale),
            _ => return Ok(Value::Null),
        },
    };
    let digits =
        rescale(digits, scale, places).ok_or_else(|| Error::new(ErrorKind::NumericOverflow, "numeric out of range"))?;
    let unit = 10_u128.pow(u32::from(places.unsigned_abs()));
    let (whole, fraction) = (digits.unsigned_abs() / unit, digits.unsigned_abs() % unit);
    Ok(Value::Text(laid_out(&template, digits < 0, whole, fraction)))
}

fn laid_out(template: &NumberTemplate, negative: bool, whole: u128, fraction: u128) -> String {
    let slots = template.whole.iter().filter(|slot| matches!(slot, Slot::Digit | Slot::Zero)).count();
    let text = if whole == 0 { String::new() } else { whole.to_string() };
    let overflow = text.len() > slots;
    let mut body = whole_part(template, &text, slots, overflow);
    if template.point {
        body.push('.');
        let width = template.fraction.len();
        let places = width.min(MOST_PLACES);
        let mut after = match overflow {
            true => "#".repeat(width),
            false => format!("{fraction:0places$}{}", "0".repeat(width - places)),
        };
        if template.fill && !overflow {
            let kept = template.fraction.iter().rposition(|c| *c == '0').map_or(0, |last| last + 1);
            while after.len() > kept && after.ends_with('0') {
                after.pop();
            }
        }
        body.push_str(if width == 0 { "" } else { &after });
    }
    signed(template, negative, body)
}

/// The places before the point; blanks stand for leading `9`s without a digit, unless blanks are left out.
fn whole_part(template: &NumberTemplate, text: &str, slots: usize, overflow: bool) -> String {
    let mut digits = text.chars();
    let (mut slot, mut begun) = (0, false);
    // Without a fraction, zero shows at least one digit.
    let lone_zero = text.is_empty() && template.fraction.is_empty();
    let mut body = String::new();
    let blank = if template.fill { "" } else { " " };
    for c in &template.whole {
        match c {
            Slot::Group => body.push_str(if begun { "," } else { blank }),
            Slot::Plain(c) => body.push(*c),
            Slot::Digit | Slot::Zero => {}
        }
        if matches!(c, Slot::Group | Slot::Plain(_)) {
            continue;
        }
        slot += 1;
        let available = overflow || slots - slot < text.len();
        if overflow {
            body.push('#');
            begun = true;
        } else if available {
            body.extend(digits.next());
            begun = true;
        } else if *c == Slot::Zero || begun || (lone_zero && slot == slots) {
            body.push('0');
            begun = true;
        } else {
            body.push_str(blank);
        }
    }
    body
}

fn signed(template: &NumberTemplate, negative: bool, body: String) -> String {
    // The sign stands right before the first digit.
    let first = body.find(|c: char| c.is_ascii_digit() || matches!(c, '#' | '.')).unwrap_or(0);
    let (blank, digits) = body.split_at(first);
    let prefix = &template.prefix;
    let none = if template.fill { "" } else { " " };
    let (minus, sign) = (if negative { "-" } else { none }, if negative { "-" } else { "+" });
    let shown = match (template.angle, template.sign_last, template.sign_first) {
        (true, ..) if negative => format!("{blank}<{prefix}{digits}>"),
        (true, ..) => format!("{none}{blank}{prefix}{digits}{none}"),
        (_, Some('S'), _) => format!("{blank}{prefix}{digits}{sign}"),
        (_, Some(_), _) => format!("{blank}{prefix}{digits}{minus}"),
        (_, _, true) => format!("{blank}{sign}{prefix}{digits}"),
        _ if prefix.is_empty() => format!("{blank}{minus}{digits}"),
        _ => format!("{minus}{prefix}{blank}{digits}"),
    };
    format!("{}{shown}{}", template.lead, template.suffix)
}

fn to_number(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (own, template) = (text(&values[0])?, number_template(text(&values[1])?)?);
    let minus = own.contains('-') || (template.angle && own.contains('<'));
    let mut points = 0;
    let read = own.chars().filter(|c| c.is_ascii_digit() || *c == '.').take_while(|c| {
        points += i32::from(*c == '.');
        points < 2
    });
    let digits: String = read.collect();
    Value::parse(&if minus { format!("-{digits}") } else { digits }, C::Decimal { precision: 38, scale: 10 })
}

#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    ordinal: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    offset: Option<i64>,
}

/// `to_timestamp(text, template)`.
pub fn to_timestamp(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let fields = read(text(&values[0])?, text(&values[1])?)?;
    let offset = fields.offset;
    let local = fields.local()?;
    Ok(Value::Timestamp(match offset {
        Some(offset) => local - offset * 1_000_000,
        None => to_instant(local, call.zone),
    }))
}

/// `to_date(text, template)`.
pub fn to_date(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    Value::Timestamp(read(text(&values[0])?, text(&values[1])?)?.local()?).cast(C::Date)
}

fn invalid(text: &str, pattern: &str) -> Error {
    let shown: String = text.chars().take(10).collect();
    Error::new(ErrorKind::InvalidDatetime, format!("invalid value \"{shown}\" for \"{pattern}\""))
}

fn read(input: &str, template: &str) -> Result<Fields> {
    let mut fields = Fields::default();
    let mut rest = input.trim_start();
    let pieces = pieces(template)?;
    for (index, piece) in pieces.iter().enumerate() {
        let name = match piece {
            Piece::Plain(plain) => {
                let separator = plain.chars().all(|c| !c.is_alphanumeric());
                match rest.strip_prefix(plain) {
                    Some(after) => rest = after,
                    None if separator => {
                        rest = rest.strip_prefix(|c: char| !c.is_alphanumeric() && c != '-' && c != '+').unwrap_or(rest)
                    }
                    None => rest = rest.get(plain.len()..).unwrap_or_default(),
                }
                continue;
            }
            Piece::Pattern { name, .. } => *name,
        };
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let next_is_digits = matches!(pieces.get(index + 1), Some(Piece::Pattern { .. }));
        rest = fields.take(name, rest, next_is_digits)?;
    }
    Ok(fields)
}

impl Fields {
    /// Reads one pattern from the start of a text; gives the rest.
    fn take<'a>(&mut self, name: &str, text: &'a str, bounded: bool) -> Result<&'a str> {
        let name_of = |names: &[&str], length: Option<usize>| {
            let fits = |each: &&str| {
                let each = length.map_or(*each, |length| &each[..length]);
                text.get(..each.len()).is_some_and(|start| start.eq_ignore_ascii_case(each))
            };
            let place = names.iter().position(fits)?;
            Some((place, &text[length.unwrap_or(names[place].len())..]))
        };
        match name {
            "MONTH" | "Month" | "month" => {
                let (place, rest) = name_of(&MONTHS, None).ok_or_else(|| invalid(text, name))?;
                self.month = i64::try_from(place).ok().map(|place| place + 1);
                return Ok(rest);
            }
            "MON" | "Mon" | "mon" => {
                let (place, rest) = name_of(&MONTHS, Some(3)).ok_or_else(|| invalid(text, name))?;
                self.month = i64::try_from(place).ok().map(|place| place + 1);
                return Ok(rest);
            }
            "DAY" | "Day" | "day" => return Ok(name_of(&WEEKDAYS, None).ok_or_else(|| invalid(text, name))?.1),
            "DY" | "Dy" | "dy" => return Ok(name_of(&WEEKDAYS, Some(3)).ok_or_else(|| invalid(text, name))?.1),
            "AM" | "PM" | "am" | "pm" => {
                let half = text.get(..2).unwrap_or_default().to_uppercase();
                self.afternoon = Some(half == "PM");
                return if half == "AM" || half == "PM" { Ok(&text[2..]) } else { Err(invalid(text, name)) };
            }
            "TZH" | "OF" => {
                let (value, rest) = digits(text, 3, name)?;
                self.offset = Some(value * 3600);
                return Ok(rest);
            }
            _ => {}
        }
        let width = match name {
            "YYYY" | "IYYY" => 4,
            "DDD" | "MS" | "FF3" => 3,
            "US" | "FF6" => 6,
            "SSSS" | "SSSSS" => 5,
            "Y" => 1,
            _ => 2,
        };
        let width = if bounded || matches!(name, "MS" | "US" | "FF3" | "FF6") { width } else { usize::MAX };
        let (value, rest) = digits(text, width, name)?;
        let read = text.len() - rest.len();
        match name {
            "YYYY" => self.year = Some(value),
            "YY" => {
                self.year = Some(if value < 70 {
                    2000 + value
                } else if value < 100 {
                    1900 + value
                } else {
                    value
                })
            }
            "MM" => self.month = Some(value),
            "DD" => self.day = Some(value),
            "DDD" => self.ordinal = Some(value),
            "HH24" | "HH12" | "HH" => self.hour = value,
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "MS" | "US" | "FF3" | "FF6" => {
                self.micros = value * 10_i64.pow(u32::try_from(6 - read.min(6)).unwrap_or(0))
            }
            "SSSS" | "SSSSS" => self.second = value,
            other => return Err(Error::not_supported(format!("reading \"{other}\" of a template is not supported"))),
        }
        Ok(rest)
    }

    fn local(self) -> Result<i64> {
        let error = || Error::new(ErrorKind::DatetimeOverflow, "date/time field value out of range");
        let hour = match self.afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour,
        };
        let year = i32::try_from(self.year.unwrap_or(0)).map_err(|_| error())?;
        let part = |value: Option<i64>| u32::try_from(value.unwrap_or(1)).map_err(|_| error());
        let date = match self.ordinal {
            Some(_) => NaiveDate::from_yo_opt(year, part(self.ordinal)?),
            None => NaiveDate::from_ymd_opt(year, part(self.month)?, part(self.day)?),
        };
        if hour > 24 || self.minute > 59 || self.second >= 86_400 {
            return Err(error());
        }
        let seconds = hour * 3600 + self.minute * 60 + self.second;
        Ok(joined(date.ok_or_else(error)?) + seconds * 1_000_000 + self.micros)
    }
}

fn digits<'a>(text: &'a str, width: usize, pattern: &str) -> Result<(i64, &'a str)> {
    let signed = text.starts_with(['-', '+']);
    let own = if signed { &text[1..] } else { text };
    let end = own.bytes().take(width.min(18)).take_while(u8::is_ascii_digit).count();
    let value: i64 = own[..end].parse().map_err(|_| invalid(text, pattern))?;
    Ok((if text.starts_with('-') { -value } else { value }, &own[end..]))
}
