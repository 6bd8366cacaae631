//! `parse_ident`: a qualified name as the list of its parts, as Postgres reads it.

use std::sync::Arc;

use arrow::array::{Array, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::list::{ListFunction, missing, texts};
use crate::error::external;
use crate::types::{Ty, field_type};

/// The function.
pub fn functions() -> [ListFunction; 1] {
    [ListFunction::new("parse_ident", 1, returns, parse_ident).or_with(2)]
}

fn returns(name: &'static str, arguments: &[FieldRef]) -> Result<Field> {
    let is = |field: &FieldRef, ty: ColumnType| match field_type(field) {
        Ty::Known(known) => known == ty,
        Ty::Unknown => true,
        Ty::Other(_) => false,
    };
    match arguments {
        [text, rest @ ..]
            if is(text, ColumnType::Text) && rest.iter().all(|strict| is(strict, ColumnType::Boolean)) =>
        {
            Ok(texts(name))
        }
        _ => missing(name, arguments),
    }
}

fn parse_ident(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let column = |place: usize, ty: &DataType| match args.args.get(place) {
        Some(value) => Ok(Some(arrow::compute::cast(&value.to_array(args.number_rows)?, ty)?)),
        None => Ok::<_, datafusion::error::DataFusionError>(None),
    };
    let (names, strict) = (column(0, &DataType::Utf8View)?, column(1, &DataType::Boolean)?);
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for row in 0..args.number_rows {
        let name = names.as_ref().filter(|names| names.is_valid(row)).map(|names| names.as_string_view().value(row));
        let strict = match &strict {
            None => Some(true),
            Some(strict) => strict.is_valid(row).then(|| strict.as_boolean().value(row)),
        };
        match (name, strict) {
            (Some(name), Some(strict)) => {
                let parts = Parts { name, rest: name, strict }.read().map_err(external)?;
                builder.append_value(parts.iter().map(Some));
            }
            _ => builder.append_null(),
        }
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

struct Parts<'a> {
    name: &'a str,
    rest: &'a str,
    /// Whether anything may follow the name.
    strict: bool,
}

impl Parts<'_> {
    fn read(mut self) -> keyspan_model::Result<Vec<String>> {
        let mut parts = Vec::new();
        self.skip_space();
        loop {
            let part = match self.rest.strip_prefix('"') {
                Some(rest) => Some(self.quoted(rest)?),
                None => self.plain(),
            };
            parts.push(part.ok_or_else(|| self.no_part(!parts.is_empty()))?);
            self.skip_space();
            match self.rest.strip_prefix('.') {
                Some(rest) => self.rest = rest,
                None if self.rest.is_empty() || !self.strict => return Ok(parts),
                None => return Err(self.wrong()),
            }
            self.skip_space();
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    }

    /// A part in double quotes; two of them are one.
    fn quoted(&mut self, from: &str) -> keyspan_model::Result<String> {
        let mut part = String::new();
        let mut chars = from.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == '"' && chars.next_if(|(_, next)| *next == '"').is_none() {
                self.rest = &self.rest[at + 2..];
                return match part.is_empty() {
                    true => Err(self.wrong().with_detail("Quoted identifier must not be empty.")),
                    false => Ok(part),
                };
            }
            part.push(c);
        }
        Err(self.wrong().with_detail("String has unclosed double quotes."))
    }

    /// A part without quotes, in lower case.
    fn plain(&mut self) -> Option<String> {
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        let goes_on = |c: char| starts(c) || c.is_ascii_digit() || c == '$';
        if !self.rest.starts_with(starts) {
            return None;
        }
        let end = self.rest.find(|c| !goes_on(c)).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(part.to_ascii_lowercase())
    }

    fn no_part(&self, after_dot: bool) -> Error {
        match (self.rest.starts_with('.'), after_dot) {
            (true, _) => self.wrong().with_detail("No valid identifier before \".\"."),
            (false, true) => self.wrong().with_detail("No valid identifier after \".\"."),
            (false, false) => self.wrong(),
        }
    }

    fn wrong(&self) -> Error {
        let message = format!("string is not a valid identifier: \"{}\"", self.name);
        Error::new(ErrorKind::InvalidParameter, message)
    }
}
