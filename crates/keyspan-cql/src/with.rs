//! `WITH` before INSERT, UPDATE, DELETE and MERGE, and `WITH` of statements that write.
//!
//! ```text
//! WITH q AS (SELECT …) INSERT INTO t SELECT … FROM q           INSERT INTO t WITH q AS (SELECT …) SELECT … FROM q
//! WITH q AS (SELECT …) UPDATE t SET … FROM q                   one statement after another: With
//! WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x
//! ```

use keyspan_model::{Error, Result};
use sqlparser::ast;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::query::refuse_writes;
use crate::reader::{ParseStatement, Reader};
use crate::statement::{InsertSource, Parsed, Query, Statement, With, WithPart, cql_tails, folded};

const WRITES: [&str; 4] = ["insert", "update", "delete", "merge"];

/// Whether `WITH` comes next, and a statement in it or after it writes.
pub(crate) fn writes(reader: &Reader) -> bool {
    if !reader.at("with") {
        return false;
    }
    let (mut depth, mut at) = (0_usize, 1);
    loop {
        // `WITH merge AS (…)` is a name.
        let name = depth == 0 && (*reader.token(at + 1) == Token::LParen || reader.word(at + 1) == Some("as"));
        let write = !name && reader.word(at).is_some_and(|word| WRITES.contains(&word));
        match reader.token(at) {
            Token::EOF => return false,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if write && depth == 0 => return true,
            _ if write
                && depth == 1
                && *reader.token(at - 1) == Token::LParen
                && at >= 2
                && matches!(reader.word(at - 2), Some("as" | "materialized")) =>
            {
                return true;
            }
            _ if depth == 0 && !name && matches!(reader.word(at), Some("select" | "values")) => return false,
            _ => {}
        }
        at += 1;
    }
}

/// One of the named statements as it is read.
enum Named {
    Query(Box<ast::Cte>),
    Write(WithPart),
}

/// The statement. `parse` reads those in it.
pub(crate) fn statement(reader: &mut Reader, parse: ParseStatement) -> Result<Statement> {
    reader.expect("with")?;
    let recursive = reader.eat("recursive");
    let named = reader.list(|reader| part(reader, parse))?;
    let position = reader.position();
    let mut inner = reader.nested(parse)?;
    if let Statement::Insert(insert) = &mut inner.statement
        && let InsertSource::Query(source) = &mut insert.source
        && named.iter().all(|part| matches!(part, Named::Query(_)))
    {
        prepend(&mut source.query, named, recursive);
        return Ok(inner.statement);
    }
    let parts = named.into_iter().map(|part| match part {
        Named::Query(cte) => of_query(*cte, recursive),
        Named::Write(part) => Ok(part),
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    match inner.statement {
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Query(_) => {
            Ok(Statement::With(Box::new(With { parts, statement: Box::new(inner), is_returning: false })))
        }
        _ => {
            let error =
                Error::not_supported("WITH stands before a query, INSERT, UPDATE, DELETE or MERGE").at(position);
            Err(error.with_hint("CREATE TABLE … AS takes WITH behind AS, if nothing in it writes."))
        }
    }
}

/// `name [(columns)] AS [[NOT] MATERIALIZED] (statement)`.
fn part(reader: &mut Reader, parse: ParseStatement) -> Result<Named> {
    let mut at = 1;
    if *reader.token(at) == Token::LParen {
        while !matches!(reader.token(at), Token::RParen | Token::EOF) {
            at += 1;
        }
        at += 1;
    }
    while matches!(reader.word(at), Some("as" | "not" | "materialized")) {
        at += 1;
    }
    if !reader.word(at + 1).is_some_and(|word| WRITES.contains(&word)) {
        let from = reader.offset();
        let cte = reader.parse(Parser::parse_cte)?;
        refuse_writes(&cte.query, from)?;
        return Ok(Named::Query(Box::new(cte)));
    }
    let name = reader.name()?;
    let columns = if *reader.token(0) == Token::LParen { reader.names()? } else { Vec::new() };
    reader.expect("as")?;
    reader.eat("not");
    reader.eat("materialized");
    reader.expect_token(&Token::LParen)?;
    if reader.at("merge") {
        let error = reader.not_supported("MERGE in WITH is not supported");
        return Err(error.with_hint("Run MERGE by itself, or write INSERT … ON CONFLICT … RETURNING in WITH."));
    }
    let body = Box::new(reader.nested(parse)?);
    reader.expect_token(&Token::RParen)?;
    Ok(Named::Write(WithPart { name, columns, body }))
}

/// Puts named queries before those of a query.
fn prepend(query: &mut ast::Query, named: Vec<Named>, recursive: bool) {
    let before = named.into_iter().filter_map(|part| match part {
        Named::Query(cte) => Some(*cte),
        Named::Write(_) => None,
    });
    let with = query.with.get_or_insert_with(|| ast::With {
        with_token: ast::helpers::attached_token::AttachedToken::empty(),
        recursive,
        cte_tables: Vec::new(),
    });
    with.recursive |= recursive;
    with.cte_tables.splice(0..0, before);
}

/// A named query as a statement. A recursive one is `WITH RECURSIVE name AS (…) SELECT * FROM name`.
fn of_query(cte: ast::Cte, recursive: bool) -> Result<WithPart> {
    let name = folded(&cte.alias.name);
    let columns = cte.alias.columns.iter().map(|column| folded(&column.name)).collect();
    let query = match recursive {
        false => cte.query,
        true => {
            let text = format!("SELECT * FROM {}", crate::statement::quoted(&name));
            let Statement::Query(Query { mut query, .. }) = crate::parse_one(&text)?.statement else {
                return Err(Error::internal("a SELECT is not a query"));
            };
            prepend(&mut query, vec![Named::Query(Box::new(cte))], true);
            query
        }
    };
    let tails = cql_tails(&query);
    let statement = Statement::Query(Query { query, text: String::new(), tails });
    let body = Parsed { statement, text: String::new(), offset: 0, parameters: Vec::new() };
    Ok(WithPart { name, columns, body: Box::new(body) })
}
