//! `CREATE VIEW`. The query's source text is what a catalog stores.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{CreateView, Statement};

/// `CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] AS query`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect("create")?;
    let or_replace = reader.eat_all(&["or", "replace"]);
    reader.expect("view")?;
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = reader.object_name()?;
    let columns = if *reader.token(0) == Token::LParen { reader.names()? } else { Vec::new() };
    reader.expect("as")?;
    let query = reader.query()?;
    if reader.at("with") {
        let error = reader.not_supported("WITH CHECK OPTION is not supported");
        return Err(error.with_hint("Views cannot be written to: write to the table."));
    }
    Ok(Statement::CreateView(Box::new(CreateView { name, or_replace, if_not_exists, columns, query })))
}
