//! PostgreSQL's errors for text that is not a value of a type, and for numbers that do not fit.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind};
use crate::types::ColumnType;

/// Characters of a user's text that an error message shows at most.
const SHOWN_CHARACTERS: usize = 200;

/// The text as an error message shows it: long ones are cut.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Postgres' error for text that is not a value of the type.
pub(crate) fn invalid(ty: ColumnType, text: &str) -> Error {
    let kind = match ty {
        ColumnType::Date | ColumnType::Time | ColumnType::Timestamp | ColumnType::LocalTimestamp => {
            ErrorKind::InvalidDatetime
        }
        ColumnType::Duration => ErrorKind::InvalidDatetime,
        _ => ErrorKind::InvalidText,
    };
    Error::new(kind, format!("invalid input syntax for type {}: \"{}\"", input_name(ty), shown(text)))
}

/// The name that Postgres' input functions give a type: shorter than `format_type`'s.
fn input_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::LocalTimestamp => "timestamp".into(),
        ColumnType::Time => "time".into(),
        ColumnType::Decimal { .. } => "numeric".into(),
        ty => ty.postgres_name(),
    }
}

/// Postgres' error for a number with too many digits before the point.
pub(crate) fn numeric_overflow(precision: u8, scale: i8) -> Error {
    let power = i32::from(precision) - i32::from(scale);
    let bound = if power == 0 { "1".to_string() } else { format!("10^{power}") };
    Error::new(ErrorKind::NumericOverflow, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// 22003 for a float whose text stands for no finite number.
pub(crate) fn float_out_of_range(text: &str, ty: ColumnType) -> Error {
    Error::new(ErrorKind::NumericOverflow, format!("\"{}\" is out of range for type {}", shown(text), input_name(ty)))
}

/// 22003 for a number beyond its type.
pub(crate) fn value_out_of_range(text: &str, ty: ColumnType) -> Error {
    let message = format!("value \"{}\" is out of range for type {}", shown(text.trim()), input_name(ty));
    Error::new(ErrorKind::NumericOverflow, message)
}
