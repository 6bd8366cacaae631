//! `UPDATE`.

use keyspan_model::Result;

use crate::insert::{Tails, alias, assignments, using};
use crate::reader::Reader;
use crate::statement::{Statement, Update, Using};

/// `UPDATE [ONLY] table [[AS] alias] [USING …] SET … [WHERE …] [IF …] [RETURNING …]`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect("update")?;
    reader.eat("only");
    let table = reader.object_name()?;
    let alias = alias(reader)?;
    let mut times = Using::default();
    if reader.at("using") {
        using(reader, &mut times)?;
    }
    reader.expect("set")?;
    let assignments = assignments(reader)?;
    if reader.at("from") {
        let error = reader.not_supported("UPDATE … FROM is not supported");
        return Err(
            error.with_hint("Write SET a = (SELECT …) and WHERE key IN (SELECT …), or INSERT INTO table SELECT ….")
        );
    }
    let Tails { filter, condition, returning } = Tails::read(reader)?;
    Ok(Statement::Update(Box::new(Update { table, alias, using: times, assignments, filter, condition, returning })))
}
