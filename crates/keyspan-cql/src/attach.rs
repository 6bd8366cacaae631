//! `ATTACH`, `DETACH`: keyspaces of other databases.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{Attach, Detach, Statement};

/// `ATTACH [DATABASE] [IF NOT EXISTS] 'directory' AS name [(KEYSPACE name, READ_ONLY)]`.
pub(crate) fn attach(reader: &mut Reader) -> Result<Statement> {
    reader.expect("attach")?;
    reader.eat("database");
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let directory = reader.string()?;
    reader.expect("as")?;
    let name = reader.name()?;
    let mut keyspace = "public".to_owned();
    if *reader.token(0) == Token::LParen {
        reader.parenthesized(|reader| {
            match reader.eat_any(&["keyspace", "schema", "read_only"]) {
                Some("read_only") => drop(reader.eat("true")),
                Some(_) => keyspace = reader.name()?,
                None if reader.at("read_write") => {
                    let error = reader.not_supported("READ_WRITE of an attached keyspace is not supported");
                    return Err(error.with_hint("It can only be read: open its database to change it."));
                }
                None => return Err(reader.unexpected()),
            }
            Ok(())
        })?;
    }
    Ok(Statement::Attach(Attach { directory, name, keyspace, if_not_exists }))
}

/// `DETACH [DATABASE] [IF EXISTS] name`.
pub(crate) fn detach(reader: &mut Reader) -> Result<Statement> {
    reader.expect("detach")?;
    reader.eat("database");
    let if_exists = reader.eat_all(&["if", "exists"]);
    Ok(Statement::Detach(Detach { name: reader.name()?, if_exists }))
}
