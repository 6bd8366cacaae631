//! `CREATE VIEW`, `CREATE MATERIALIZED VIEW`. The query's source text is what a catalog stores.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::keyspace::{option, options};
use crate::reader::Reader;
use crate::statement::{CreateView, MaterializedOptions, Statement};
use crate::table::with_data;

/// Whether a CREATE of a view stands here.
pub(crate) fn at(reader: &Reader) -> bool {
    let mut words = (1..=5).map_while(|at| reader.word(at));
    let before = ["or", "replace", "local", "global", "temp", "temporary"];
    words.find(|word| !before.contains(word)).is_some_and(|word| word == "view")
}

/// `CREATE [OR REPLACE] [TEMP] VIEW [IF NOT EXISTS] name [(columns)] AS query`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect("create")?;
    let or_replace = reader.eat_all(&["or", "replace"]);
    // PostgreSQL has but one kind, too.
    let kind = reader.eat_any(&["local", "global"]);
    let temporary = reader.eat_any(&["temp", "temporary"]).is_some();
    if kind.is_some() && !temporary {
        return Err(reader.unexpected());
    }
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
    let view = CreateView { name, or_replace, temporary, if_not_exists, columns, query, materialized: None };
    Ok(Statement::CreateView(Box::new(view)))
}

/// `CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [WITH option …] AS query [WITH [NO] DATA]`.
pub(crate) fn create_materialized(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["create", "materialized", "view"])?;
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = reader.object_name()?;
    let columns = if *reader.token(0) == Token::LParen { reader.names()? } else { Vec::new() };
    let options = match reader.eat("with") {
        true if *reader.token(0) == Token::LParen => reader.parenthesized(option)?,
        true => options(reader)?,
        false => Vec::new(),
    };
    reader.expect("as")?;
    let query = reader.query()?;
    if reader.at_all(&["primary", "key"]) {
        let error = reader.not_supported("the PRIMARY KEY of a materialized view cannot be chosen");
        return Err(error.with_hint("Its key is its GROUP BY, the time last."));
    }
    let materialized = Some(MaterializedOptions { options, with_data: with_data(reader) });
    let view = CreateView { name, or_replace: false, temporary: false, if_not_exists, columns, query, materialized };
    Ok(Statement::CreateView(Box::new(view)))
}
