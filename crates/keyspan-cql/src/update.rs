//! `UPDATE`.

use keyspan_model::Result;

use crate::insert::{Tails, alias, assignments, tables, using};
use crate::reader::Reader;
use crate::statement::{Statement, Update, Using};

/// `UPDATE [ONLY] table [[AS] alias] [USING …] SET … [FROM tables] [WHERE …] [IF …] [RETURNING …]`.
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
    let from = if reader.eat("from") { tables(reader)? } else { Vec::new() };
    let Tails { filter, condition, returning } = Tails::read(reader)?;
    Ok(Statement::Update(Box::new(Update {
        table,
        alias,
        using: times,
        assignments,
        from,
        filter,
        condition,
        returning,
        upserts: false,
    })))
}
