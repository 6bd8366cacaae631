//! `PREPARE`, `EXECUTE`, `DEALLOCATE`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::{ParseStatement, Reader};
use crate::statement::{Execute, Prepare, Statement};
use crate::types;

/// `PREPARE name [(types)] AS statement`. `parse` reads the statement.
pub(crate) fn prepare(reader: &mut Reader, parse: ParseStatement) -> Result<Statement> {
    reader.expect("prepare")?;
    if reader.at("transaction") && matches!(reader.token(1), Token::SingleQuotedString(_)) {
        return Err(reader.not_supported("two-phase commit is not supported").with_hint("Write COMMIT."));
    }
    let name = reader.name()?;
    let has_types = *reader.token(0) == Token::LParen;
    let types = if has_types { reader.parenthesized(|reader| types::read(reader)?.known())? } else { Vec::new() };
    reader.expect("as")?;
    if !reader.at_query() && !matches!(reader.word(0), Some("insert" | "update" | "delete" | "merge")) {
        return Err(reader.unexpected());
    }
    Ok(Statement::Prepare(Prepare { name, types, statement: Box::new(reader.nested(parse)?) }))
}

/// `EXECUTE name [(arguments)]`.
pub(crate) fn execute(reader: &mut Reader) -> Result<Statement> {
    reader.expect("execute")?;
    let name = reader.name()?;
    let has_arguments = *reader.token(0) == Token::LParen;
    let arguments = if has_arguments { reader.parenthesized(Reader::expression)? } else { Vec::new() };
    Ok(Statement::Execute(Execute { name, arguments }))
}

/// `DEALLOCATE [PREPARE] name | ALL`.
pub(crate) fn deallocate(reader: &mut Reader) -> Result<Statement> {
    reader.expect("deallocate")?;
    if matches!(reader.token(1), Token::Word(_)) {
        reader.eat("prepare");
    }
    if reader.eat("all") {
        return Ok(Statement::Deallocate(None));
    }
    reader.name().map(|name| Statement::Deallocate(Some(name)))
}
