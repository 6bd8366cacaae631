//! CQL's types of types: `frozen<…>`, `list<…>`, `set<…>`, `map<…>`, `tuple<…>`, `vector<…>`, and the names of user
//! types.
//!
//! Where CQL wants `frozen<…>`, so does this; inside of it, and in tuples, everything is frozen. The texts of errors are
//! Cassandra's.

use keyspan_model::types::NESTING_MAX;
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Result, TextType, TypeName};
use sqlparser::tokenizer::Token;

use super::ReadType;
use crate::reader::Reader;

/// A type that begins with one of CQL's words and `<`.
pub(super) fn read(reader: &mut Reader) -> Result<Option<ReadType>> {
    let Some(word) = word(reader) else { return Ok(None) };
    let (from, position) = (reader.offset(), reader.position());
    let column_type = of_word(reader, word, 0).map_err(|error| placed(error, position))?;
    let thawed = !matches!(word, "frozen" | "tuple" | "vector");
    Ok(Some(ReadType {
        column_type,
        text: reader.text_from(from),
        max_length: None,
        text_type: TextType::Text,
        thawed,
    }))
}

/// The name of a user type, of which the first part has been read.
pub(super) fn user_type(reader: &mut Reader, first: String, from: usize) -> Result<ReadType> {
    let mut name = TypeName { keyspace: None, name: first };
    if reader.eat_token(&Token::Period) {
        name = TypeName { keyspace: Some(name.name), name: reader.name()? };
    }
    let column_type = ColumnType::nested(Nested::Named(name));
    Ok(ReadType {
        column_type,
        text: reader.text_from(from),
        max_length: None,
        text_type: TextType::Text,
        thawed: true,
    })
}

fn placed(error: Error, position: usize) -> Error {
    if error.position.is_some() { error } else { error.at(position) }
}

fn word(reader: &Reader) -> Option<&'static str> {
    let word = reader.word(0).filter(|_| *reader.token(1) == Token::Lt)?;
    ["frozen", "list", "set", "map", "tuple", "vector"].into_iter().find(|known| *known == word)
}

/// After a look at the word and the bracket.
fn of_word(reader: &mut Reader, word: &str, depth: usize) -> Result<ColumnType> {
    if depth > NESTING_MAX {
        return Err(Error::new(ErrorKind::TooComplex, format!("types may be nested {NESTING_MAX} deep at most")));
    }
    (0..2).for_each(|_| reader.skip());
    let ty = match word {
        "frozen" => frozen(reader, depth)?,
        "list" => ColumnType::frozen_list(part(reader, depth)?),
        "set" => ColumnType::nested(Nested::Set(part(reader, depth)?)),
        "map" => {
            let key = part(reader, depth)?;
            reader.expect_token(&Token::Comma)?;
            ColumnType::nested(Nested::Map(key, part(reader, depth)?))
        }
        "vector" => vector(reader)?,
        _ => ColumnType::nested(Nested::Tuple(reader.list(|reader| part(reader, depth))?)),
    };
    reader.close_bracket()?;
    Ok(ty)
}

/// `float, 3`: in a vector a float has four bytes, as in Cassandra.
fn vector(reader: &mut Reader) -> Result<ColumnType> {
    let position = reader.position();
    let floats = matches!(reader.word(0), Some("float" | "real" | "float4"));
    let element = super::read(reader)?;
    if !floats {
        let error = Error::not_supported(format!("vectors of {} are not supported", element.text)).at(position);
        return Err(error.with_hint("Write vector<float, n>, or a frozen<list<…>>."));
    }
    reader.expect_token(&Token::Comma)?;
    ColumnType::vector(reader.integer()?)
}

fn frozen(reader: &mut Reader, depth: usize) -> Result<ColumnType> {
    let position = reader.position();
    let ty = part(reader, depth)?;
    // Twice frozen is frozen.
    if ty.is_scalar() {
        let message =
            format!("frozen<> is only allowed on collections, tuples, and user-defined types (got {})", ty.name());
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(position));
    }
    Ok(ty)
}

/// A type inside of another, which is frozen with it.
fn part(reader: &mut Reader, depth: usize) -> Result<ColumnType> {
    if let Some(word) = word(reader) {
        return of_word(reader, word, depth + 1);
    }
    let position = reader.position();
    if reader.at("counter") {
        return Err(
            Error::new(ErrorKind::InvalidTableDefinition, "Counters are not allowed inside collections").at(position)
        );
    }
    let read = super::read(reader)?;
    match read.max_length {
        None => Ok(read.column_type),
        Some(_) => {
            Err(Error::not_supported("lengths of texts and times inside of a type are not supported").at(position))
        }
    }
}
