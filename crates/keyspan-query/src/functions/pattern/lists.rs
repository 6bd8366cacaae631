//! Functions of regular expressions that give arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayBuilder, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::super::list::{ListFunction, missing, texts};
use super::compile::{compiled, compiled_once};
use super::{Captures, first_match, matches};
use crate::error::external;
use crate::types::{Ty, field_type};

/// All matches of `regexp_matches`, each an array.
pub const MATCHES: &str = "regexp_match_list";
/// The parts of a text between matches.
pub const SPLIT: &str = "regexp_split_to_array";

/// The functions.
pub fn functions() -> Vec<ListFunction> {
    vec![
        ListFunction::new("regexp_match", 2, |name, args| checked(name, args, texts(name)), first).or_with(3),
        ListFunction::new(SPLIT, 2, |name, args| checked(name, args, texts(name)), split).or_with(3),
        ListFunction::new(
            MATCHES,
            2,
            |name, args| {
                let matches = DataType::new_list(texts("").data_type().clone(), true);
                checked("regexp_matches", args, Field::new(name, matches, true))
            },
            every,
        )
        .or_with(3),
    ]
}

fn checked(name: &'static str, arguments: &[FieldRef], result: Field) -> Result<Field> {
    let text =
        |field: &FieldRef| matches!(field_type(field), Ty::Unknown | Ty::Known(ColumnType::Text | ColumnType::Ascii));
    if arguments.iter().all(text) { Ok(result) } else { missing(name, arguments) }
}

/// The arguments of each row: text, pattern, flags.
fn columns(args: &ScalarFunctionArgs) -> Result<Vec<StringViewArray>> {
    use arrow::array::AsArray;
    let column = |arg: &ColumnarValue| {
        let array = arrow::compute::cast(&arg.to_array(args.number_rows)?, &DataType::Utf8View)?;
        Ok(array.as_string_view().clone())
    };
    args.args.iter().map(column).collect()
}

/// Calls `row` for each row with text, pattern and flags; `None` where one of them is null.
fn each_row(
    args: &ScalarFunctionArgs,
    mut row: impl FnMut(Option<(&str, &str, &str)>) -> keyspan_model::Result<()>,
) -> Result<()> {
    let columns = columns(args)?;
    for at in 0..args.number_rows {
        let value = |place: usize| columns.get(place).map_or(Some(""), |own| own.is_valid(at).then(|| own.value(at)));
        let values = value(0).zip(value(1)).zip(value(2)).map(|((text, pattern), flags)| (text, pattern, flags));
        row(values).map_err(external)?;
    }
    Ok(())
}

type Texts = ListBuilder<StringViewBuilder>;

/// The groups of a match, or the whole if there are none.
fn put(found: &Captures<'_>, builder: &mut Texts) {
    let first = usize::from(found.len() > 1);
    for group in first..found.len() {
        builder.values().append_option(found.get(group).map(|part| part.as_str()));
    }
    builder.append(true);
}

fn first(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    each_row(args, |row| {
        let Some((text, pattern, flags)) = row else {
            builder.append(false);
            return Ok(());
        };
        let hint = "Use the regexp_matches function instead.";
        let pattern = compiled_once("regexp_match", pattern, flags).map_err(|error| match error.kind {
            ErrorKind::InvalidParameter if flags.contains('g') => error.with_hint(hint),
            _ => error,
        })?;
        match first_match(&pattern.regex, text)? {
            Some(found) => put(&found, &mut builder),
            None => builder.append(false),
        }
        Ok(())
    })?;
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

fn every(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut builder = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
    each_row(args, |row| {
        if let Some((text, pattern, flags)) = row {
            let pattern = compiled(pattern, flags)?;
            let wanted = if pattern.global { usize::MAX } else { 1 };
            for found in matches(&pattern.regex, text, 0).take(wanted) {
                put(&found?, builder.values());
            }
        }
        builder.append(row.is_some());
        Ok(())
    })?;
    debug_assert_eq!(builder.len(), args.number_rows);
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

/// Matches of nothing at the ends of the text and right after another match divide nothing.
fn split(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    each_row(args, |row| {
        let Some((text, pattern, flags)) = row else {
            builder.append(false);
            return Ok(());
        };
        let pattern = compiled(pattern, flags)?;
        if pattern.global {
            let message = "regexp_split_to_array() does not support the \"global\" option";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        let mut begin = 0;
        for found in matches(&pattern.regex, text, 0) {
            let found = found?;
            let whole = found.get(0).expect("the whole match");
            if !whole.range().is_empty() || (whole.start() < text.len() && whole.end() > begin) {
                builder.values().append_value(&text[begin..whole.start()]);
                begin = whole.end();
            }
        }
        builder.values().append_value(&text[begin..]);
        builder.append(true);
        Ok(())
    })?;
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}
