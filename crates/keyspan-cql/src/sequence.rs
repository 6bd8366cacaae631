//! `CREATE | ALTER SEQUENCE`, `serial` columns and `GENERATED … AS IDENTITY`.

use keyspan_model::{ColumnType, Error, ErrorKind, Identity, Result};
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{AlterSequence, ColumnSequence, CreateSequence, SequenceOptions, SequenceOwner, Statement};
use crate::types;

/// `CREATE SEQUENCE [IF NOT EXISTS] name [option …]`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["create", "sequence"])?;
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = reader.object_name()?;
    let mut options = SequenceOptions::default();
    while !reader.at_end() {
        option(reader, &mut options)?;
    }
    Ok(Statement::CreateSequence(CreateSequence { name, if_not_exists, options }))
}

/// `ALTER SEQUENCE [IF EXISTS] name option … | RENAME TO name | OWNER TO role`.
pub(crate) fn alter(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["alter", "sequence"])?;
    let if_exists = reader.eat_all(&["if", "exists"]);
    let mut statement = AlterSequence {
        name: reader.object_name()?,
        if_exists,
        options: SequenceOptions::default(),
        rename_to: None,
        owner: None,
    };
    if reader.eat_all(&["rename", "to"]) {
        statement.rename_to = Some(reader.name()?);
    } else if reader.eat_all(&["owner", "to"]) {
        statement.owner = Some(reader.role_name()?);
    } else {
        option(reader, &mut statement.options)?;
        while !reader.at_end() {
            option(reader, &mut statement.options)?;
        }
    }
    Ok(Statement::AlterSequence(statement))
}

/// `serial` and its kin as the type of a column: the type of its numbers.
pub(crate) fn serial(reader: &mut Reader) -> Option<(ColumnType, &'static str)> {
    let (ty, text) = match reader.word(0)? {
        "serial" | "serial4" => (ColumnType::Int, "integer"),
        "bigserial" | "serial8" => (ColumnType::BigInt, "bigint"),
        "smallserial" | "serial2" => (ColumnType::SmallInt, "smallint"),
        _ => return None,
    };
    reader.skip();
    Some((ty, text))
}

/// `GENERATED ALWAYS | BY DEFAULT AS IDENTITY [(option …)]`, where one stands here.
pub(crate) fn identity(reader: &mut Reader) -> Result<Option<ColumnSequence>> {
    if !reader.at("generated") {
        return Ok(None);
    }
    let always = reader.at_all(&["generated", "always", "as", "identity"]);
    if !always && !reader.at_all(&["generated", "by", "default", "as", "identity"]) {
        let error = reader.not_supported("generated columns are not supported");
        return Err(error.with_hint("Compute the value in a view."));
    }
    (0..if always { 4 } else { 5 }).for_each(|_| reader.skip());
    let (mut options, mut name) = (SequenceOptions::default(), None);
    if reader.eat_token(&Token::LParen) {
        while !reader.eat_token(&Token::RParen) {
            match reader.eat_all(&["sequence", "name"]) {
                true => name = Some(reader.object_name()?),
                false => option(reader, &mut options)?,
            }
        }
    }
    let identity = if always { Identity::Always } else { Identity::ByDefault };
    Ok(Some(ColumnSequence { identity: Some(identity), name, options }))
}

/// `SET GENERATED ALWAYS | BY DEFAULT`, `SET option` and `RESTART [WITH n]`, several of them, of an identity column.
pub(crate) fn change_identity(reader: &mut Reader) -> Result<(Option<Identity>, SequenceOptions)> {
    let (mut identity, mut options) = (None, SequenceOptions::default());
    while reader.at("set") || reader.at("restart") {
        let set = reader.eat("set");
        if set && reader.eat("generated") {
            identity = Some(match reader.eat("always") {
                true => Identity::Always,
                false => reader.expect_all(&["by", "default"]).map(|()| Identity::ByDefault)?,
            });
            continue;
        }
        option(reader, &mut options)?;
    }
    Ok((identity, options))
}

fn option(reader: &mut Reader, options: &mut SequenceOptions) -> Result<()> {
    if reader.eat("as") {
        options.ty = Some(types::read(reader)?.known()?);
    } else if reader.eat("increment") {
        reader.eat("by");
        options.increment = Some(number(reader)?);
    } else if reader.eat("start") {
        reader.eat("with");
        options.start = Some(number(reader)?);
    } else if reader.eat("restart") {
        let given = reader.eat("with") || matches!(reader.token(0), Token::Number(..) | Token::Minus);
        options.restart = Some(if given { Some(number(reader)?) } else { None });
    } else if reader.eat("minvalue") {
        options.min = Some(Some(number(reader)?));
    } else if reader.eat("maxvalue") {
        options.max = Some(Some(number(reader)?));
    } else if reader.eat("cache") {
        options.cache = Some(number(reader)?);
    } else if reader.eat("cycle") {
        options.cycle = Some(true);
    } else if reader.eat("no") {
        match reader.eat_any(&["minvalue", "maxvalue", "cycle"]) {
            Some("minvalue") => options.min = Some(None),
            Some("maxvalue") => options.max = Some(None),
            Some(_) => options.cycle = Some(false),
            None => return Err(reader.unexpected()),
        }
    } else if reader.eat_all(&["owned", "by"]) {
        options.owned_by = Some(owner(reader)?);
    } else {
        return Err(reader.unexpected());
    }
    Ok(())
}

fn number(reader: &mut Reader) -> Result<i64> {
    let negative = reader.eat_token(&Token::Minus);
    let position = reader.position();
    let Token::Number(digits, _) = reader.token(0).clone() else { return Err(reader.unexpected()) };
    reader.skip();
    let sign = if negative { "-" } else { "" };
    let wrong = |_| Error::new(ErrorKind::NumericOverflow, format!("value \"{sign}{digits}\" is out of range"));
    format!("{sign}{digits}").parse().map_err(wrong).map_err(|error: Error| error.at(position))
}

/// `NONE`, `table.column`, `keyspace.table.column`.
fn owner(reader: &mut Reader) -> Result<Option<SequenceOwner>> {
    if reader.eat("none") {
        return Ok(None);
    }
    // The last of the name's parts is the column.
    let mut table = reader.object_name()?;
    let Some(name) = table.keyspace.take() else {
        return Err(Error::new(ErrorKind::Syntax, "invalid OWNED BY option")
            .with_hint("Specify OWNED BY table.column or OWNED BY NONE.")
            .at(table.position));
    };
    let column = std::mem::replace(&mut table.name, name);
    table.keyspace = table.database.take();
    Ok(Some(SequenceOwner { table, column }))
}
