//! `LISTEN`, `UNLISTEN`, `NOTIFY`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{Notify, Statement};

/// `LISTEN channel`, `UNLISTEN channel | *`, `NOTIFY channel [, 'payload']`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    if reader.eat("listen") {
        return reader.name().map(Statement::Listen);
    }
    if reader.eat("unlisten") {
        let all = reader.eat_token(&Token::Mul);
        return Ok(Statement::Unlisten(if all { None } else { Some(reader.name()?) }));
    }
    reader.expect("notify")?;
    let channel = reader.name()?;
    let payload = if reader.eat_token(&Token::Comma) { reader.string()? } else { String::new() };
    Ok(Statement::Notify(Notify { channel, payload }))
}
