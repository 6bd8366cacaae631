//! `CREATE TYPE` and `ALTER TYPE`: CQL's user types.

use keyspan_model::{Error, ErrorKind, Nested, Result, TypeField};
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{AlterType, AlterTypeAction, CreateType, Statement};
use crate::types;

/// `CREATE TYPE [IF NOT EXISTS] name (field type, …)`; PostgreSQL's `AS` may stand before the fields.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["create", "type"])?;
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = reader.object_name()?;
    reader.eat("as");
    if matches!(reader.word(0), Some("enum" | "range")) {
        let error = reader.not_supported("types that are no records are not supported");
        return Err(error.with_hint("Use a column with CHECK (x IN (…))."));
    }
    let fields = reader.parenthesized(field)?;
    Ok(Statement::CreateType(CreateType { name, if_not_exists, fields }))
}

/// `ALTER TYPE name ADD [IF NOT EXISTS] field type | RENAME [IF EXISTS] field TO field [AND …]`.
pub(crate) fn alter(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["alter", "type"])?;
    let if_exists = reader.eat_all(&["if", "exists"]);
    let name = reader.object_name()?;
    let action = if reader.eat("add") {
        reader.eat("attribute");
        let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
        AlterTypeAction::Add { if_not_exists, field: field(reader)? }
    } else if reader.eat("rename") {
        reader.eat("attribute");
        let if_exists = reader.eat_all(&["if", "exists"]);
        let mut names = vec![renamed(reader)?];
        while reader.eat("and") {
            names.push(renamed(reader)?);
        }
        AlterTypeAction::Rename { if_exists, names }
    } else if reader.at("alter") || reader.at("drop") {
        let error = reader.not_supported("the fields of a type cannot be dropped or get another type");
        return Err(error.with_hint("Add a field, or create another type."));
    } else {
        return Err(reader.unexpected());
    };
    Ok(Statement::AlterType(AlterType { name, if_exists, action }))
}

fn renamed(reader: &mut Reader) -> Result<(String, String)> {
    let from = reader.name()?;
    reader.expect("to")?;
    Ok((from, reader.name()?))
}

/// `name type`. Collections in a user type are frozen with it; user types in it must say so.
fn field(reader: &mut Reader) -> Result<TypeField> {
    let name = reader.name()?;
    let position = reader.position();
    if reader.at("counter") && matches!(reader.token(1), Token::Comma | Token::RParen) {
        return Err(Error::new(ErrorKind::InvalidTableDefinition, "A user type cannot contain counters").at(position));
    }
    let read = types::read(reader)?;
    if read.max_length.is_some() {
        return Err(Error::not_supported("lengths of texts and times inside of a type are not supported").at(position));
    }
    if read.thawed && matches!(read.column_type.as_nested(), Some(Nested::Named(_))) {
        let error = Error::new(ErrorKind::InvalidTableDefinition, "A user type cannot contain non-frozen UDTs");
        return Err(error.with_hint(format!("Write {name} frozen<{}>.", read.text)).at(position));
    }
    Ok(TypeField { name, ty: read.column_type })
}
