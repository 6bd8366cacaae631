//! A row key read as one text: its parts joined by `#`, and HBase's prefix scans over that text.
//!
//! Rule: the text is for reading and for prefixes that come from it; a `#` inside a part is not escaped, so the text
//! of a key with such a part is not unique and is never parsed back into a key.

use std::fmt::Write;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::builder::StringViewBuilder;
use arrow::array::{Array, ArrayRef};

use crate::array::value_at;
use crate::error::{Error, ErrorKind, Result};
use crate::key::KeyEncoder;
use crate::schema::KeyColumn;
use crate::span::Span;
use crate::types::ColumnType;
use crate::value::Value;

/// What joins the parts of a row key.
pub const ROW_KEY_SEPARATOR: char = '#';

/// A row key, or a prefix of one, as one text: the parts' texts joined by `#`.
pub fn row_key_text(values: &[Value], types: &[ColumnType]) -> String {
    let parts: Vec<String> = values.iter().zip(types).map(|(value, ty)| value.to_text(*ty)).collect();
    parts.join("#")
}

/// The pseudo column `row_key` of a batch: `columns` are its key columns, in key order.
pub fn row_key_array(columns: &[ArrayRef], key: &[KeyColumn]) -> Result<ArrayRef> {
    let rows = columns.first().map_or(0, |column| column.len());
    let mut builder = StringViewBuilder::with_capacity(rows);
    let mut text = String::new();
    for row in 0..rows {
        text.clear();
        for (index, (column, part)) in columns.iter().zip(key).enumerate() {
            if index > 0 {
                text.push(ROW_KEY_SEPARATOR);
            }
            text.push_str(&value_at(column.as_ref(), row, part.ty)?.to_text(part.ty));
        }
        builder.append_value(&text);
    }
    Ok(Arc::new(builder.finish()))
}

/// The pseudo column `ctid` of a batch: the bytes of each row key as hexadecimal digits, which sort as the keys do.
pub fn row_key_digits(columns: &[ArrayRef], key: &[KeyColumn]) -> Result<ArrayRef> {
    let keys = KeyEncoder::new(key).encode_batch(columns)?;
    let mut builder = StringViewBuilder::with_capacity(keys.len());
    let mut digits = String::new();
    for row in keys.iter().flatten() {
        digits.clear();
        // A String takes all that is written to it.
        row.iter().for_each(|byte| _ = write!(digits, "{byte:02x}"));
        builder.append_value(&digits);
    }
    Ok(Arc::new(builder.finish()))
}

/// The span of the rows whose [`row_key_text`] begins with `prefix`: HBase's ROWPREFIXFILTER.
///
/// Each part followed by `#` must be a value of its column (22P02 and the like if it is not); what follows the last
/// `#` is a prefix of a text column. `STC#22#` over (text, int, …) is the prefix ['STC', 22]; the empty text is every
/// row. If the last key column is a text it takes the rest of the prefix, `#` included, so that keys which hold `#`
/// themselves, as HBase's do, are found. A number or time cut short has no span: 22023.
pub fn span_of_row_key_prefix(prefix: &str, key: &[KeyColumn]) -> Result<Span> {
    let mut values = Vec::new();
    let mut rest = prefix;
    for (index, column) in key.iter().enumerate() {
        let is_text = matches!(column.ty, ColumnType::Text | ColumnType::Ascii);
        let takes_rest = is_text && index + 1 == key.len();
        match rest.split_once(ROW_KEY_SEPARATOR).filter(|_| !takes_rest) {
            Some((part, after)) => {
                values.push(Value::parse(part, column.ty)?);
                rest = after;
            }
            None if rest.is_empty() => return Ok(Span::prefix(values)),
            None if is_text => return Ok(text_prefix_span(values, rest, column.descending)),
            None => return Err(incomplete_part(rest, column)),
        }
    }
    if !rest.is_empty() {
        let message = format!("row key prefix \"{prefix}\" has more parts than the key has columns ({})", key.len());
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    Ok(Span::prefix(values))
}

fn incomplete_part(part: &str, column: &KeyColumn) -> Error {
    let message = format!(
        "row key prefix ends inside column \"{}\" of type {}, which has no prefixes",
        column.name,
        column.ty.postgres_name()
    );
    Error::new(ErrorKind::InvalidParameter, message)
        .with_hint(format!("End the part with #, as in \"{part}#\", if it is the whole value."))
}

/// The span of the keys that begin with `values` and then have a text that begins with `prefix`.
pub fn text_prefix_span(values: Vec<Value>, prefix: &str, descending: bool) -> Span {
    let with = |text: String| {
        let mut bound = values.clone();
        bound.push(Value::Text(text));
        bound
    };
    let least = Bound::Included(with(prefix.to_owned()));
    // Without a next text, the prefix's last texts are the last of all.
    let beyond = match text_successor(prefix) {
        Some(next) => Bound::Excluded(with(next)),
        None if values.is_empty() => Bound::Unbounded,
        None => Bound::Included(values.clone()),
    };
    if descending { Span { start: beyond, end: least } } else { Span { start: least, end: beyond } }
}

/// The least text above every text that begins with `prefix`; `None` if there is none.
pub fn text_successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        if let Some(next) = next_character(last) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn next_character(character: char) -> Option<char> {
    match character {
        // The surrogates between these two are no characters.
        '\u{d7ff}' => Some('\u{e000}'),
        other => char::from_u32(u32::from(other) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ColumnId;

    fn key(columns: &[(ColumnType, bool)]) -> Vec<KeyColumn> {
        let column = |(index, (ty, descending)): (usize, &(ColumnType, bool))| KeyColumn {
            id: ColumnId(index as u32),
            name: format!("k{index}"),
            ty: *ty,
            descending: *descending,
        };
        columns.iter().enumerate().map(column).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn complete_parts_are_typed_values() {
        let vehicles = key(&[(ColumnType::Text, false), (ColumnType::Int, false)]);
        let span = span_of_row_key_prefix("STC#22#", &vehicles).expect("a span");
        assert_eq!(span, Span::prefix(vec![text("STC"), Value::Int(22)]));
        assert_eq!(span_of_row_key_prefix("", &vehicles), Ok(Span::all()));
        assert_eq!(span_of_row_key_prefix("STC#", &vehicles), Ok(Span::prefix(vec![text("STC")])));
        let cut = span_of_row_key_prefix("STC#2", &vehicles).expect_err("a number cut short");
        assert_eq!(cut.kind, ErrorKind::InvalidParameter);
        assert_eq!(span_of_row_key_prefix("STC#x#", &vehicles).expect_err("no int").kind, ErrorKind::InvalidText);
        assert_eq!(
            span_of_row_key_prefix("STC#2#y", &vehicles).expect_err("too many").kind,
            ErrorKind::InvalidParameter
        );
    }

    #[test]
    fn an_incomplete_text_is_a_range() {
        let ascending = key(&[(ColumnType::Text, false), (ColumnType::Int, false)]);
        let span = span_of_row_key_prefix("TF-", &ascending).expect("a span");
        assert_eq!(span.start, Bound::Included(vec![text("TF-")]));
        assert_eq!(span.end, Bound::Excluded(vec![text("TF.")]));
        let descending = key(&[(ColumnType::Int, false), (ColumnType::Text, true)]);
        let span = span_of_row_key_prefix("7#a#b", &descending).expect("a span");
        assert_eq!(span.start, Bound::Excluded(vec![Value::Int(7), text("a#c")]));
        assert_eq!(span.end, Bound::Included(vec![Value::Int(7), text("a#b")]));
    }

    #[test]
    fn the_last_text_has_no_successor() {
        assert_eq!(text_successor("a\u{10ffff}"), Some("b".into()));
        assert_eq!(text_successor("\u{10ffff}"), None);
        assert_eq!(text_successor("\u{d7ff}"), Some("\u{e000}".into()));
    }

    #[test]
    fn the_text_joins_the_parts() {
        let values = [text("STC"), Value::Int(22), Value::Timestamp(0)];
        let types = [ColumnType::Text, ColumnType::Int, ColumnType::Timestamp];
        assert_eq!(row_key_text(&values, &types), "STC#22#1970-01-01 00:00:00+00");
    }
}
