//! `DELETE`: of rows, of spans of rows, and CQL's of single cells.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::family::target;
use crate::insert::{Tails, alias, tables, using};
use crate::reader::Reader;
use crate::statement::{Delete, ObjectName, Statement, Using};

/// `DELETE [columns] FROM [ONLY] table | cells(…) [[AS] alias] [USING tables | USING TIMESTAMP n]
/// [WHERE …] [IF …] [RETURNING …]`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect("delete")?;
    let columns = if reader.at("from") { Vec::new() } else { reader.list(target)? };
    reader.expect("from")?;
    reader.eat("only");
    let (table, family) = match reader.at("cells") && *reader.token(1) == Token::LParen {
        true => cells(reader)?,
        false => (reader.object_name()?, None),
    };
    let alias = alias(reader)?;
    let mut times = Using::default();
    let mut from = Vec::new();
    if reader.at("using") && !matches!(reader.word(1), Some("timestamp" | "ttl")) {
        reader.skip();
        from = tables(reader)?;
    }
    if reader.at("using") {
        if reader.word(1) == Some("ttl") {
            reader.skip();
            return Err(reader.unexpected().with_hint("A deletion has no TTL: write USING TIMESTAMP."));
        }
        using(reader, &mut times)?;
    }
    let Tails { filter, condition, returning } = Tails::read(reader)?;
    let delete = Delete { columns, table, family, alias, using: times, from, filter, condition, returning };
    Ok(Statement::Delete(Box::new(delete)))
}

/// `cells('table', 'family')`, `cells('keyspace.table', 'family')` or `cells('keyspace', 'table', 'family')`.
fn cells(reader: &mut Reader) -> Result<(ObjectName, Option<String>)> {
    reader.expect("cells")?;
    reader.expect_token(&Token::LParen)?;
    let position = reader.position();
    let table = reader.string()?;
    reader.expect_token(&Token::Comma)?;
    let family = reader.string()?;
    if reader.eat_token(&Token::Comma) {
        let own = reader.string()?;
        reader.expect_token(&Token::RParen)?;
        return Ok((ObjectName { database: None, keyspace: Some(table), name: family, position }, Some(own)));
    }
    reader.expect_token(&Token::RParen)?;
    let (keyspace, name) = match table.split_once('.') {
        Some((keyspace, name)) => (Some(keyspace.to_owned()), name.to_owned()),
        None => (None, table),
    };
    Ok((ObjectName { database: None, keyspace, name, position }, Some(family)))
}
