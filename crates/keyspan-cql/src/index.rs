//! `CREATE INDEX`, parsed in full; the session decides what it means.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{CreateIndex, Statement};

/// `CREATE [UNIQUE] INDEX [CONCURRENTLY] [IF NOT EXISTS] [name] ON table [USING method] (columns) …`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect("create")?;
    let unique = reader.eat("unique");
    reader.expect("index")?;
    reader.eat("concurrently");
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = if reader.at("on") { None } else { Some(reader.name()?) };
    reader.expect("on")?;
    reader.eat("only");
    let table = reader.object_name()?;
    if reader.eat("using") {
        reader.name()?;
    }
    let columns = reader.parenthesized(column)?;
    // INCLUDE, WITH and the like change how an index is kept, not what it answers. WHERE would change that.
    if reader.at("where") {
        let error = reader.not_supported("an index of some rows only is not supported");
        return Err(error.with_hint("Leave out WHERE."));
    }
    if reader.eat("include") {
        reader.names()?;
    }
    if reader.eat("using") {
        reader.string()?;
    }
    if reader.eat("with") {
        if reader.eat("options") {
            reader.expect_token(&Token::Eq)?;
            crate::keyspace::value(reader)?;
        } else {
            reader.parenthesized(crate::keyspace::option)?;
        }
    }
    Ok(Statement::CreateIndex(CreateIndex { name, table, columns, unique, if_not_exists }))
}

/// One indexed column with its ASC, DESC, NULLS FIRST; an expression stands as its text.
fn column(reader: &mut Reader) -> Result<String> {
    let is_name =
        matches!(reader.token(0), Token::Word(_)) && !matches!(reader.token(1), Token::LParen | Token::Period);
    let column = if is_name { reader.name()? } else { reader.source_expression()?.text };
    if !matches!(reader.word(0), None | Some("asc" | "desc" | "nulls")) {
        // An operator class.
        reader.object_name()?;
    }
    reader.eat_any(&["asc", "desc"]);
    if reader.eat("nulls") && reader.eat_any(&["first", "last"]).is_none() {
        return Err(reader.unexpected());
    }
    Ok(column)
}
