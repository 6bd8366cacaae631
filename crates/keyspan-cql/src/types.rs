//! The names of types: CQL's and PostgreSQL's, several words long, with arguments. Those of types in types are read in
//! `nested`.

mod cast;
mod nested;

use keyspan_model::{ColumnType, Error, ErrorKind, Result, TextType, TypeName};
use sqlparser::ast::DataType;
use sqlparser::tokenizer::Token;

pub(crate) use cast::casts;

use crate::dialect::KeyspanDialect;
use crate::lexer::tokenize;
use crate::reader::Reader;
use crate::source::SourceText;

/// A type as it was read.
pub(crate) struct ReadType {
    /// The type. The names of user types in it are not yet resolved.
    pub(crate) column_type: ColumnType,
    /// As it was written.
    pub(crate) text: String,
    /// `n` of `varchar(n)`, `time(n)` and `timestamp(n)`.
    pub(crate) max_length: Option<u32>,
    /// Which of SQL's text types it is.
    pub(crate) text_type: TextType,
    /// A collection or user type that is written without `frozen<…>`.
    pub(crate) thawed: bool,
}

impl ReadType {
    /// A type of this text, without more.
    pub(crate) fn plain(column_type: ColumnType, text: &str) -> ReadType {
        ReadType { column_type, text: text.into(), max_length: None, text_type: TextType::Text, thawed: false }
    }

    /// The type, where none of a user's own may stand.
    ///
    /// # Errors
    /// 42704 for such a name.
    pub(crate) fn known(self) -> Result<ColumnType> {
        self.column_type.resolved(&unknown)
    }
}

/// 42704: there is no type of this name.
fn unknown(name: &TypeName) -> Result<ColumnType> {
    ColumnType::parse(&name.name, &[])
}

/// Words that may follow the first word of a type's name.
const CONTINUED: &[(&str, &[&[&str]])] = &[
    ("double", &[&["precision"]]),
    ("character", &[&["varying"]]),
    ("char", &[&["varying"]]),
    ("national", &[&["character", "varying"], &["char", "varying"], &["character"], &["char"]]),
    ("bit", &[&["varying"]]),
];

/// A type's name with its arguments.
pub(crate) fn read(reader: &mut Reader) -> Result<ReadType> {
    if let Some(nested) = nested::read(reader)? {
        return Ok(nested);
    }
    let (from, position) = (reader.offset(), reader.position());
    let Token::Word(first) = reader.token(0).clone() else { return Err(reader.unexpected()) };
    reader.skip();
    let mut name = first.value;
    if name == "pg_catalog" && reader.eat_token(&Token::Period) {
        name = reader.name()?;
    }
    refuse(&name, position)?;
    for words in CONTINUED.iter().filter(|(word, _)| *word == name).flat_map(|(_, rest)| rest.iter()) {
        if reader.eat_all(words) {
            name = format!("{name} {}", words.join(" "));
            break;
        }
    }
    let name = name.strip_prefix("national ").unwrap_or(&name).replace("char varying", "character varying");
    let arguments = if *reader.token(0) == Token::LParen { reader.parenthesized(Reader::integer)? } else { Vec::new() };
    let mut full = name.clone();
    if matches!(name.as_str(), "timestamp" | "time") {
        for zone in ["with", "without"] {
            if reader.eat_all(&[zone, "time", "zone"]) {
                full = format!("{name} {zone} time zone");
            }
        }
    }
    let element = match ColumnType::parse(&full, &arguments) {
        // Perhaps a user's own.
        Err(error) if error.kind == ErrorKind::UndefinedObject && arguments.is_empty() && full == name => {
            return nested::user_type(reader, name, from);
        }
        parsed => parsed.map_err(|error| error.at(position))?,
    };
    let column_type = array_of(element, reader).map_err(|error| error.at(position))?;
    let text_type = match name.as_str() {
        "varchar" | "character varying" => TextType::Varchar,
        "char" | "character" | "bpchar" => TextType::Char,
        _ => TextType::Text,
    };
    let max_length = match (text_type, arguments.first()) {
        (TextType::Varchar | TextType::Char, Some(&length)) => match u32::try_from(length) {
            Ok(length) if length > 0 => Some(length),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    format!("length for type {name} must be at least 1"),
                )
                .at(position));
            }
        },
        (TextType::Char, None) if name != "bpchar" => Some(1),
        _ => second_digits(element, &arguments),
    };
    Ok(ReadType { column_type, text: reader.text_from(from), max_length, text_type, thawed: false })
}

/// How many digits of its second a time keeps; none if all.
fn second_digits(ty: ColumnType, arguments: &[i64]) -> Option<u32> {
    use ColumnType::{Duration, LocalTimestamp, Time, Timestamp};
    let is_time = matches!(ty, Time | Timestamp | LocalTimestamp | Duration);
    let digits = arguments.first().filter(|_| is_time)?;
    u32::try_from(*digits).ok().filter(|digits| *digits < 6)
}

/// `int[]`, `int[3]`, whose size says nothing as in PostgreSQL, and `int ARRAY`.
fn array_of(element: ColumnType, reader: &mut Reader) -> Result<ColumnType> {
    let mut column_type = element;
    if reader.eat("array") {
        column_type = column_type.into_list()?;
    }
    while reader.eat_token(&Token::LBracket) {
        if *reader.token(0) != Token::RBracket {
            reader.integer()?;
        }
        reader.expect_token(&Token::RBracket)?;
        column_type = column_type.into_list()?;
    }
    Ok(column_type)
}

/// Refuses the types that Keyspan knows of and does not have.
fn refuse(name: &str, position: usize) -> Result<()> {
    let error = match name {
        "serial" | "serial4" | "bigserial" | "serial8" | "smallserial" | "serial2" => {
            Error::not_supported(format!("type {name} is only a column's")).with_hint("Write bigint.")
        }
        "counter" => Error::not_supported("type counter is not yet supported")
            .with_hint("Write bigint and SET n = n + 1: it is atomic."),
        "variant" => Error::not_supported("variant is a type of families' values only")
            .with_hint("Use jsonb, or a family<text, variant>."),
        _ => return Ok(()),
    };
    Err(error.at(position))
}

/// The code of a type in this text, which stands at this position.
fn nested_code(text: &str, position: usize) -> Result<String> {
    let source = SourceText::new(text);
    let tokens = tokenize(text).map_err(|error| error.error)?;
    let dialect = KeyspanDialect::new(tokens.len());
    let mut reader = Reader::new(&dialect, &source, tokens);
    let read = read(&mut reader).and_then(|read| reader.finish().map(|()| read.column_type.code()));
    // Positions would count within the type's name and mislead.
    read.map_err(|error| Error { position: Some(position), ..error })
}

/// The type that a CAST, a `::` or a typed literal names.
///
/// # Errors
/// [`ErrorKind::UndefinedObject`] for an unknown type, [`ErrorKind::NotSupported`] for arrays, collections and serials.
pub fn column_type(data_type: &DataType) -> Result<ColumnType> {
    let text = data_type.to_string();
    let source = SourceText::new(&text);
    let tokens = tokenize(&text).map_err(|error| error.error)?;
    let dialect = KeyspanDialect::new(tokens.len());
    let mut reader = Reader::new(&dialect, &source, tokens);
    let mut read_type = || {
        let column_type = read(&mut reader)?.known()?;
        reader.finish()?;
        Ok(column_type)
    };
    // Positions would count within the type's name and mislead.
    read_type().map_err(|mut error: Error| {
        error.position = None;
        error
    })
}
