//! The type of a file's column, from the texts of its values.
//!
//! The rule: a column has the type of all its values. If more than half of them are of a type and some are not, that is
//! an error which names one of those: nothing becomes a text in silence. Only a column of this and that is a text.

use keyspan::{ColumnType, Value};

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// A larger one.
    Huge,
    /// A number with a fraction, an exponent, or none of both: `NaN`.
    Double,
    /// A day.
    Date,
    /// A time of a day, without a zone.
    Local,
    /// An instant: a time with its zone.
    Zoned,
    /// Anything else.
    Text,
    /// A list or an object.
    Json,
}

/// How many classes there are.
const CLASSES: usize = Class::Json as usize + 1;
/// Classes whose values can be of one type; the later ones decide which.
const FAMILIES: [&[(Class, ColumnType)]; 3] = [
    &[(Class::Boolean, ColumnType::Boolean)],
    &[(Class::Integer, ColumnType::BigInt), (Class::Huge, ColumnType::VarInt), (Class::Double, ColumnType::Double)],
    &[
        (Class::Date, ColumnType::Date),
        (Class::Local, ColumnType::LocalTimestamp),
        (Class::Zoned, ColumnType::Timestamp),
    ],
];

impl Class {
    /// The class of a text that COPY would read: numbers, truth values and times.
    pub fn of_text(text: &str) -> Class {
        let text = text.trim();
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return Class::Boolean;
        }
        number(text).unwrap_or_else(|| Class::of_string(text))
    }

    /// The class of a JSON string, which is no number even if it looks like one.
    pub fn of_string(text: &str) -> Class {
        time(text.trim()).unwrap_or(Class::Text)
    }
}

fn number(text: &str) -> Option<Class> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is = |ty| Value::parse(text, ty).is_ok();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match (is(ColumnType::BigInt), is(ColumnType::VarInt)) {
            (true, _) => Some(Class::Integer),
            (false, true) => Some(Class::Huge),
            (false, false) => None,
        };
    }
    let written_out = digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let named = ["nan", "inf", "infinity"].iter().any(|name| digits.eq_ignore_ascii_case(name));
    ((written_out || named) && is(ColumnType::Double)).then_some(Class::Double)
}

fn time(text: &str) -> Option<Class> {
    let bytes = text.as_bytes();
    let digit = |(byte, place): (&u8, u8)| if place == b'd' { byte.is_ascii_digit() } else { *byte == place };
    if bytes.len() < 10 || !bytes.iter().zip(*b"dddd-dd-dd").all(digit) {
        return None;
    }
    if bytes.len() == 10 {
        return Value::parse(text, ColumnType::Date).is_ok().then_some(Class::Date);
    }
    let clock = &bytes[11..];
    if !matches!(bytes[10], b'T' | b' ') || !clock.contains(&b':') || Value::parse(text, ColumnType::Timestamp).is_err()
    {
        return None;
    }
    let has_zone = {
        let clock = String::from_utf8_lossy(clock).to_ascii_lowercase();
        clock.replace(" am", "").replace(" pm", "").contains(|c: char| c.is_ascii_alphabetic() || "+-".contains(c))
    };
    Some(if has_zone { Class::Zoned } else { Class::Local })
}

/// The values of one class: how many, and the first.
#[derive(Clone, Debug)]
pub struct First {
    count: u64,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its text.
    pub value: String,
}

/// What was seen of a column's values, nulls aside.
#[derive(Clone, Debug, Default)]
pub struct Seen([Option<First>; CLASSES]);

/// A value that is not of the type that most of its column's values are of.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// That type.
    pub ty: ColumnType,
    /// The value.
    pub first: First,
}

impl Seen {
    /// Counts a value.
    pub fn add(&mut self, class: Class, line: u64, value: &str) {
        match &mut self.0[class as usize] {
            Some(first) => first.count += 1,
            none => *none = Some(First { count: 1, line, value: value.to_string() }),
        }
    }

    fn first(&self, class: Class) -> Option<&First> {
        self.0[class as usize].as_ref()
    }

    fn count(&self, class: Class) -> u64 {
        self.first(class).map_or(0, |first| first.count)
    }

    /// The type of the column.
    pub fn ty(&self) -> Result<ColumnType, Misfit> {
        if self.first(Class::Json).is_some() {
            return Ok(ColumnType::Json);
        }
        let total: u64 = self.0.iter().flatten().map(|first| first.count).sum();
        for family in FAMILIES {
            let fitting: u64 = family.iter().map(|(class, _)| self.count(*class)).sum();
            let decisive = family.iter().rev().find(|(class, _)| self.first(*class).is_some());
            let Some((_, ty)) = decisive.filter(|_| fitting * 2 > total) else { continue };
            let others = self.0.iter().enumerate().filter(|(at, _)| !family.iter().any(|own| own.0 as usize == *at));
            let misfit = others.filter_map(|(_, first)| first.as_ref()).min_by_key(|first| first.line);
            return misfit.map_or(Ok(*ty), |first| Err(Misfit { ty: *ty, first: first.clone() }));
        }
        Ok(ColumnType::Text)
    }

    /// The first time without a zone, in a column in which others have one.
    pub fn without_zone(&self) -> Option<&First> {
        self.first(Class::Zoned)?;
        let times = [Class::Date, Class::Local].into_iter().filter_map(|class| self.first(class));
        times.min_by_key(|first| first.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[&str]) -> Seen {
        let mut seen = Seen::default();
        (1..).zip(values).for_each(|(line, value)| seen.add(Class::of_text(value), line, value));
        seen
    }

    #[test]
    fn a_column_has_the_type_of_all_its_values() {
        let ty = |values: &[&str]| seen(values).ty().expect("they fit");
        assert_eq!(ty(&["1", "-2", " 3 "]), ColumnType::BigInt);
        assert_eq!(ty(&["1", "9223372036854775808"]), ColumnType::VarInt);
        assert_eq!(ty(&["1", "1.5", "1e5", ".5", "NaN", "-inf"]), ColumnType::Double);
        assert_eq!(ty(&["true", "FALSE"]), ColumnType::Boolean);
        assert_eq!(ty(&["2026-03-25"]), ColumnType::Date);
        assert_eq!(ty(&["2026-03-25", "2026-03-25 10:00:00.5"]), ColumnType::LocalTimestamp);
        for zoned in ["2026-03-25T10:00:00+05:30", "2026-03-25 10:00:00-08", "2026-03-25T10:00:00.25Z"] {
            assert_eq!(ty(&[zoned]), ColumnType::Timestamp, "{zoned}");
            assert_eq!(ty(&["2026-03-25 10:00", zoned]), ColumnType::Timestamp, "{zoned}");
        }
        assert_eq!(ty(&[]), ColumnType::Text);
        assert_eq!(ty(&["1", "a", "2026-03-25"]), ColumnType::Text);
        for text in [
            "0x1A",
            "1_000",
            "1-2",
            "2026-13-01",
            "2026-03-25x10:00",
            "2026-03-25 10",
            "e",
            "-",
            "1234567890123456789012345678901234567890",
        ] {
            assert_eq!(Class::of_text(text), Class::Text, "{text}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_the_most_is_told() {
        let misfit = seen(&["1", "n/a", "2.5", "x", "3", "4", "5"]).ty().expect_err("a misfit");
        assert_eq!((misfit.ty, misfit.first.line, misfit.first.value.as_str()), (ColumnType::Double, 2, "n/a"));
        let misfit = seen(&["2026-03-25T10:00:00Z", "yesterday", "2026-03-25T10:00:00Z"]).ty().expect_err("a misfit");
        assert_eq!((misfit.ty, misfit.first.line), (ColumnType::Timestamp, 2));
    }

    #[test]
    fn a_time_without_a_zone_among_others_is_told() {
        let mixed = seen(&["2026-03-25T10:00:00Z", "2026-03-25 10:00:00"]);
        assert_eq!(mixed.without_zone().map(|first| first.line), Some(2));
        assert!(seen(&["2026-03-25 10:00:00", "2026-03-25"]).without_zone().is_none());
    }
}
