//! `DELETE`: of rows, of spans of rows, and CQL's of single cells.

use keyspan_model::Result;

use crate::family::target;
use crate::insert::{Tails, alias, tables, using};
use crate::reader::Reader;
use crate::statement::{Delete, Statement, Using};

/// `DELETE [columns] FROM [ONLY] table [[AS] alias] [USING tables | USING TIMESTAMP n] [WHERE …] [IF …] [RETURNING …]`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect("delete")?;
    let columns = if reader.at("from") { Vec::new() } else { reader.list(target)? };
    reader.expect("from")?;
    reader.eat("only");
    let table = reader.object_name()?;
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
    Ok(Statement::Delete(Box::new(Delete { columns, table, alias, using: times, from, filter, condition, returning })))
}
