//! `CREATE | ALTER KEYSPACE | SCHEMA`, `USE`, and the options that tables and keyspaces have in common.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{AlterKeyspace, CreateKeyspace, OptionValue, Statement, TableOption};

/// `CREATE KEYSPACE [IF NOT EXISTS] name [AUTHORIZATION user] [WITH option = value AND …]`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    reader.skip();
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = reader.name()?;
    let owner = if reader.eat("authorization") { Some(reader.role_name()?) } else { None };
    let options = if reader.eat("with") { options(reader)? } else { Vec::new() };
    Ok(Statement::CreateKeyspace(CreateKeyspace { name, if_not_exists, owner, options }))
}

/// `ALTER KEYSPACE [IF EXISTS] name WITH … | RENAME TO name | OWNER TO role`.
pub(crate) fn alter(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    reader.skip();
    let if_exists = reader.eat_all(&["if", "exists"]);
    let name = reader.name()?;
    let (mut set, mut rename_to, mut owner) = (Vec::new(), None, None);
    if reader.eat_all(&["rename", "to"]) {
        rename_to = Some(reader.name()?);
    } else if reader.eat_all(&["owner", "to"]) {
        owner = Some(reader.role_name()?);
    } else {
        reader.expect("with")?;
        set = options(reader)?;
    }
    Ok(Statement::AlterKeyspace(AlterKeyspace { name, if_exists, options: set, rename_to, owner }))
}

/// `USE keyspace`.
pub(crate) fn use_keyspace(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    reader.eat_any(&["keyspace", "schema"]);
    reader.name().map(Statement::Use)
}

/// `option = value AND option = value …`.
pub(crate) fn options(reader: &mut Reader) -> Result<Vec<TableOption>> {
    let mut options = vec![option(reader)?];
    while reader.eat("and") {
        options.push(option(reader)?);
    }
    Ok(options)
}

/// `option = value`.
pub(crate) fn option(reader: &mut Reader) -> Result<TableOption> {
    let position = reader.position();
    // A reserved word elsewhere, and an option of ours.
    let mut name = if reader.eat("window") { "window".to_owned() } else { reader.name()? };
    while reader.eat_token(&Token::Period) {
        name = format!("{name}.{}", reader.name()?);
    }
    reader.expect_token(&Token::Eq)?;
    Ok(TableOption { name, value: value(reader)?, position })
}

/// An option's value.
pub(crate) fn value(reader: &mut Reader) -> Result<OptionValue> {
    let from = reader.offset();
    match reader.token(0).clone() {
        Token::SingleQuotedString(text) => {
            reader.skip();
            Ok(OptionValue::Text(text))
        }
        Token::Number(digits, _) => {
            reader.skip();
            Ok(OptionValue::Number(digits))
        }
        Token::Minus => {
            reader.skip();
            let Token::Number(digits, _) = reader.token(0).clone() else { return Err(reader.unexpected()) };
            reader.skip();
            Ok(OptionValue::Number(format!("-{digits}")))
        }
        Token::LBrace => map(reader),
        Token::LBracket => {
            reader.expect_token(&Token::LBracket)?;
            if *reader.token(0) != Token::RBracket {
                reader.list(value)?;
            }
            reader.expect_token(&Token::RBracket)?;
            Ok(OptionValue::Other(reader.text_from(from)))
        }
        // Literals of two tokens, such as 1h30m.
        Token::Word(_) if matches!(reader.token(1), Token::SingleQuotedString(_)) => {
            reader.skip();
            reader.skip();
            Ok(OptionValue::Other(reader.text_from(from)))
        }
        Token::Word(word) => {
            reader.skip();
            Ok(match (word.quote_style, word.value.as_str()) {
                (None, "true") => OptionValue::Boolean(true),
                (None, "false") => OptionValue::Boolean(false),
                _ => OptionValue::Word(word.value),
            })
        }
        _ => Err(reader.unexpected()),
    }
}

/// `{'key': value, …}`.
fn map(reader: &mut Reader) -> Result<OptionValue> {
    reader.expect_token(&Token::LBrace)?;
    let mut entries = Vec::new();
    while !reader.eat_token(&Token::RBrace) {
        if !entries.is_empty() {
            reader.expect_token(&Token::Comma)?;
        }
        let key = value(reader)?.text();
        reader.expect_token(&Token::Colon)?;
        entries.push((key, value(reader)?));
    }
    Ok(OptionValue::Map(entries))
}
