//! Texts of files that are not as PostgreSQL writes them: other texts for null, decimal commas, dates in other forms.
//!
//! The rule: a text is put into PostgreSQL's form before it is read, by the type of its column; what does not have the
//! form that was said is an error, never taken for something else.

use std::borrow::Cow;

use std::fmt::Write;

use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};

/// How the texts of a file are to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Texts that stand for null, besides the COPY's own.
    pub nulls: Vec<String>,
    /// Numbers are written as `1.234,5`.
    pub decimal_comma: bool,
    /// How dates are written, as strftime has it: `%d/%m/%Y`.
    pub date_format: Option<String>,
    /// How times with their dates are written.
    pub timestamp_format: Option<String>,
}

impl Reading {
    /// Checks the formats.
    ///
    /// # Errors
    /// 22023 for a format with a directive that there is not, and for one that does not tell all of a date or a time.
    pub fn check(&self) -> Result<()> {
        for format in self.date_format.iter().chain(&self.timestamp_format) {
            let wrong = |what: &str| Error::new(ErrorKind::InvalidParameter, format!("\"{format}\" {what}"));
            if StrftimeItems::new(format).any(|item| item == Item::Error) {
                let error = wrong("is not a format of dates");
                return Err(error.with_hint("Formats are strftime's, as %d/%m/%Y %H:%M:%S."));
            }
            if StrftimeItems::new(format).any(|item| item == Item::Fixed(Fixed::TimezoneName)) {
                return Err(wrong("has %Z, and names of zones are not read").with_hint("%z reads a zone's offset."));
            }
            if !is_whole(format) {
                let error = wrong("does not tell all of a date or a time");
                return Err(error.with_hint("A date needs its year, %H needs %M, and %I needs %p, too."));
            }
        }
        Ok(())
    }

    /// Whether a text stands for null.
    pub fn is_null(&self, text: &str) -> bool {
        self.nulls.iter().any(|null| null == text)
    }

    /// The text as PostgreSQL writes a value of this type.
    ///
    /// # Errors
    /// 22007 and 22P02 for a text that has not the form that was said.
    pub fn written<'a>(&self, text: &'a str, ty: ColumnType) -> Result<Cow<'a, str>> {
        use ColumnType as T;
        match ty {
            T::Date => self.date(text),
            T::Timestamp | T::LocalTimestamp => self.timestamp(text),
            T::Real | T::Double | T::Decimal { .. } | T::VarInt if self.decimal_comma => number(text).map(Cow::Owned),
            T::TinyInt | T::SmallInt | T::Int | T::BigInt if self.decimal_comma => number(text).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(text)),
        }
    }

    /// The text as a number or time, if it has one of the forms that were said; to find out a column's type.
    pub fn guessed<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let time = [&self.timestamp_format, &self.date_format].into_iter().flatten();
        let time = time.filter_map(|format| time_of(text.trim(), format)).next();
        let plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        let number = || number(text.trim()).ok().filter(|number| self.decimal_comma && plain(number));
        time.or_else(number).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    fn date<'a>(&self, text: &'a str) -> Result<Cow<'a, str>> {
        let Some(format) = &self.date_format else { return Ok(Cow::Borrowed(text)) };
        match NaiveDate::parse_from_str(text.trim(), format) {
            Ok(date) => Ok(Cow::Owned(date.format("%Y-%m-%d").to_string())),
            Err(_) => Err(misfit(text, format)),
        }
    }

    /// Where no format of times is said, midnights may be written as dates are.
    fn timestamp<'a>(&self, text: &'a str) -> Result<Cow<'a, str>> {
        match (&self.timestamp_format, &self.date_format) {
            (Some(format), _) => time_of(text.trim(), format).map(Cow::Owned).ok_or_else(|| misfit(text, format)),
            (None, Some(format)) => Ok(time_of(text.trim(), format).map_or(Cow::Borrowed(text), Cow::Owned)),
            (None, None) => Ok(Cow::Borrowed(text)),
        }
    }
}

fn misfit(text: &str, format: &str) -> Error {
    Error::new(ErrorKind::InvalidDatetime, format!("\"{text}\" is not of the format \"{format}\""))
}

/// A time of this format as PostgreSQL writes it: with its zone, without one, or a date.
fn time_of(text: &str, format: &str) -> Option<String> {
    let instant = DateTime::parse_from_str(text, format).map(|time| time.format("%Y-%m-%d %H:%M:%S%.f%:z").to_string());
    let local =
        || NaiveDateTime::parse_from_str(text, format).map(|time| time.format("%Y-%m-%d %H:%M:%S%.f").to_string());
    let date = || NaiveDate::parse_from_str(text, format).map(|date| date.format("%Y-%m-%d").to_string());
    // What tells more than a day is not cut down to one.
    instant.ok().or_else(|| local().ok()).or_else(|| if has_time(format) { None } else { date().ok() })
}

/// Whether a format tells a time of a day, or the zone of one.
fn has_time(format: &str) -> bool {
    use Numeric::{Hour, Hour12, Minute, Nanosecond, Second};
    StrftimeItems::new(format).any(|item| match item {
        Item::Numeric(Hour | Hour12 | Minute | Second | Nanosecond, _) => true,
        Item::Fixed(fixed) => {
            use Fixed::{LongMonthName, LongWeekdayName, ShortMonthName, ShortWeekdayName};
            !matches!(fixed, ShortMonthName | LongMonthName | ShortWeekdayName | LongWeekdayName)
        }
        _ => false,
    })
}

/// Whether what is written in a format can be read again: it may leave out what a date or a time needs.
fn is_whole(format: &str) -> bool {
    let mut text = String::new();
    let is_written = write!(text, "{}", DateTime::<Utc>::UNIX_EPOCH.format(format)).is_ok();
    // A few directives are only for reading.
    !is_written || time_of(text.trim(), format).is_some()
}

/// A number with a decimal comma; points stand between groups of three digits.
fn number(text: &str) -> Result<String> {
    let wrong = || Error::new(ErrorKind::InvalidText, format!("\"{text}\" is not a number with a decimal comma"));
    let (whole, fraction) = match text.trim().split_once(',') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.trim(), None),
    };
    let digits = whole.trim_start_matches(['-', '+']);
    let mut groups = digits.split('.');
    let is_grouped = groups.next().is_some_and(|first| (1..=3).contains(&first.len()))
        && groups.all(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()));
    if (digits.contains('.') && !is_grouped) || fraction.is_some_and(|fraction| fraction.contains([',', '.'])) {
        return Err(wrong());
    }
    let whole = whole.replace('.', "");
    Ok(fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_decimal_comma() {
        for (text, wanted) in
            [("1,5", "1.5"), ("-1.234,5", "-1234.5"), ("1.234.567", "1234567"), ("7", "7"), ("1e3", "1e3")]
        {
            assert_eq!(number(text).expect("a number"), wanted);
        }
        for wrong in ["1.5", "1,234.5", "1,2,3", "12.34", "1234.567"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        let reading = Reading { decimal_comma: true, ..Reading::default() };
        assert_eq!(reading.written("1,5", ColumnType::Text).expect("a text"), "1,5");
        assert_eq!(reading.guessed("1,5"), "1.5");
        assert_eq!(reading.guessed("a,b"), "a,b");
    }

    #[test]
    fn times_have_the_form_that_was_said() {
        let reading = Reading {
            date_format: Some("%d/%m/%Y".into()),
            timestamp_format: Some("%d.%m.%Y %H:%M".into()),
            ..Reading::default()
        };
        reading.check().expect("formats");
        let written = |text, ty| reading.written(text, ty).map(Cow::into_owned);
        assert_eq!(written("25/01/2024", ColumnType::Date).expect("a date"), "2024-01-25");
        assert_eq!(written("25.01.2024 10:30", ColumnType::LocalTimestamp).expect("a time"), "2024-01-25 10:30:00");
        assert_eq!(written("2024-01-25", ColumnType::Date).expect_err("another form").sqlstate(), "22007");
        let zoned = Reading { timestamp_format: Some("%Y-%m-%d %H:%M:%S %z".into()), ..Reading::default() };
        let instant = zoned.written("2024-01-25 10:00:00 +0530", ColumnType::Timestamp).expect("a time");
        assert_eq!(instant, "2024-01-25 10:00:00+05:30");
        assert!(Reading { date_format: Some("%Q".into()), ..Reading::default() }.check().is_err());
    }

    #[test]
    fn a_time_is_not_cut_down_to_a_day() {
        for format in
            ["%d.%m.%Y %I:%M", "%Y-%m-%d %H", "%Y-%m-%d %H:%S", "%Y-%m-%d %M", "%Y-%m-%d %z", "%d.%m.", "%H:%M"]
        {
            let reading = Reading { timestamp_format: Some(format.into()), ..Reading::default() };
            assert_eq!(reading.check().expect_err(format).sqlstate(), "22023");
        }
        assert_eq!(time_of("25.01.2024 10:30", "%d.%m.%Y %I:%M"), None);
        for format in
            ["%d.%m.%Y %I:%M %p", "%Y%m%d", "%s", "%c", "%+", "%Y-%m-%dT%H:%M:%S%.f%#z", "%G-W%V-%u", "%e %B %y"]
        {
            Reading { timestamp_format: Some(format.into()), ..Reading::default() }.check().expect(format);
        }
    }
}
