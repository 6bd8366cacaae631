//! Upkeep: `VACUUM`, `ANALYZE`, `CHECKPOINT` of PostgreSQL, `FLUSH`, `COMPACT` and `BACKUP` of our own;
//! `REFRESH MATERIALIZED VIEW`, `ADVISE`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{Maintain, ObjectName, Statement};
use crate::table::with_data;

/// `VACUUM | ANALYZE | CHECKPOINT | FLUSH | COMPACT …`, `BACKUP DATABASE TO 'directory'`, `REFRESH …`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    let Some(verb) = reader.eat_any(&["vacuum", "analyze", "checkpoint", "flush", "compact", "backup", "refresh"])
    else {
        return Err(reader.unexpected());
    };
    let statement = match verb {
        "backup" => {
            reader.expect_all(&["database", "to"])?;
            Maintain::Backup(reader.string()?)
        }
        "checkpoint" => Maintain::Checkpoint,
        "refresh" => refresh(reader)?,
        "flush" => Maintain::Flush(tables(reader)?),
        "compact" => Maintain::Compact(tables(reader)?),
        _ => {
            options(reader)?;
            let tables = relations(reader)?;
            if verb == "vacuum" { Maintain::Vacuum(tables) } else { Maintain::Analyze(tables) }
        }
    };
    Ok(Statement::Maintain(statement))
}

/// `ADVISE [TABLE] name, …`.
pub(crate) fn advise(reader: &mut Reader) -> Result<Statement> {
    reader.expect("advise")?;
    if matches!(reader.token(1), Token::Word(_)) {
        reader.eat("table");
    }
    reader.list(Reader::object_name).map(Statement::Advise)
}

/// `MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]`: a refresh never blocks readers.
fn refresh(reader: &mut Reader) -> Result<Maintain> {
    reader.expect_all(&["materialized", "view"])?;
    reader.eat("concurrently");
    Ok(Maintain::Refresh { name: reader.object_name()?, with_data: with_data(reader) })
}

/// `[TABLE | TABLES] [name, …]`.
fn tables(reader: &mut Reader) -> Result<Vec<ObjectName>> {
    if matches!(reader.token(1), Token::Word(_) | Token::EOF) {
        reader.eat_any(&["table", "tables"]);
    }
    if reader.at_end() { Ok(Vec::new()) } else { reader.list(Reader::object_name) }
}

/// `FULL`, `FREEZE`, `VERBOSE`, `ANALYZE`, or a list of them in parentheses: there is nothing to choose here.
fn options(reader: &mut Reader) -> Result<()> {
    if reader.eat_token(&Token::LParen) {
        while !reader.eat_token(&Token::RParen) {
            if reader.at_end() {
                return Err(reader.unexpected());
            }
            reader.skip();
        }
        return Ok(());
    }
    while reader.eat_any(&["full", "freeze", "verbose", "analyze"]).is_some() {}
    Ok(())
}

/// `[name [(columns)], …]`.
fn relations(reader: &mut Reader) -> Result<Vec<ObjectName>> {
    if reader.at_end() {
        return Ok(Vec::new());
    }
    reader.list(|reader| {
        let name = reader.object_name()?;
        if *reader.token(0) == Token::LParen {
            reader.names()?;
        }
        Ok(name)
    })
}
