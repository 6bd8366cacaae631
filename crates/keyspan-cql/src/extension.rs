//! `CREATE EXTENSION`, `DROP EXTENSION`: PostgreSQL's.

use keyspan_model::Result;

use crate::reader::Reader;
use crate::statement::{CreateExtension, DropExtension, Statement};

/// `CREATE EXTENSION [IF NOT EXISTS] name [WITH] [SCHEMA schema] [VERSION version] [CASCADE]`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["create", "extension"])?;
    reader.eat_all(&["if", "not", "exists"]);
    let position = reader.position();
    let name = reader.name()?;
    reader.eat("with");
    loop {
        if reader.eat("schema") {
            reader.name()?;
        } else if reader.eat("version") {
            reader.word_or_string()?;
        } else if !reader.eat("cascade") {
            return Ok(Statement::CreateExtension(CreateExtension { name, position }));
        }
    }
}

/// `DROP EXTENSION [IF EXISTS] name, … [CASCADE | RESTRICT]`.
pub(crate) fn drop(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["drop", "extension"])?;
    let if_exists = reader.eat_all(&["if", "exists"]);
    let names = reader.list(Reader::name)?;
    reader.eat_any(&["cascade", "restrict"]);
    Ok(Statement::DropExtension(DropExtension { names, if_exists }))
}
