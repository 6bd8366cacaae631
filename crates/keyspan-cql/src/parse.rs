//! From the text to its statements: tokens, cut at semicolons, rewritten where `sqlparser` would misread them, read by
//! their first words.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::KeyspanDialect;
use crate::keyword::{FIRST, nearest_keyword};
use crate::lexer::tokenize;
use crate::reader::Reader;
use crate::source::{SourceText, end, start};
use crate::statement::{Parameter, Parsed, Statement};
use crate::{
    attach, budget, chain, channel, comment, copy, cursor, delete, describe, drop, explain, extension, form, grant,
    hbase, index, insert, keyspace, maintain, merge, misread, parameter, prepare, refuse, role, sequence, session,
    table, transaction, types, update, user_type, view, with,
};

/// Parses a text of statements separated by semicolons. Empty statements are skipped.
///
/// Everything is parsed before anything is answered, as PostgreSQL does with a message of several statements.
///
/// # Errors
/// The first error of the text, with its position in characters from 1 over the whole text: [`ErrorKind::Syntax`],
/// [`ErrorKind::NotSupported`] for what is refused by name, [`ErrorKind::TooComplex`] beyond the budget.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    let source = SourceText::new(sql);
    let tokens = tokenize(sql).map_err(|error| error.error)?;
    let mut statements = Vec::new();
    let mut tokens = tokens.into_iter();
    let mut in_batch = false;
    loop {
        let mut ended = false;
        let statement: Vec<TokenWithSpan> = tokens
            .by_ref()
            .take_while(|token| {
                ended = token.token == Token::SemiColon;
                !ended
            })
            .collect();
        for statement in transaction::cut_batch(statement, &mut in_batch) {
            statements.push(statement_of(&source, statement)?);
        }
        if !ended {
            return Ok(statements);
        }
    }
}

/// Whether a text begins a BATCH and does not end it: so it is with a client that sends what stands before a semicolon.
/// The text may have errors.
pub fn leaves_batch_open(sql: &str) -> bool {
    let mut in_batch = false;
    for statement in tokenize(sql).unwrap_or_default().split(|token| token.token == Token::SemiColon) {
        transaction::cut_batch(statement.to_vec(), &mut in_batch);
    }
    in_batch
}

/// Parses a text that must be one statement.
///
/// # Errors
/// As [`parse`]; also a syntax error if there are several statements or none.
pub fn parse_one(sql: &str) -> Result<Parsed> {
    let mut statements = parse(sql)?;
    match (statements.pop(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (None, _) => Err(Error::new(ErrorKind::Syntax, "an empty text is not a statement")),
        _ => Err(Error::new(ErrorKind::Syntax, "cannot insert multiple commands into a prepared statement")),
    }
}

/// Parses one expression, such as the stored text of a DEFAULT or CHECK.
///
/// # Errors
/// As [`parse`].
pub fn parse_expression(sql: &str) -> Result<sqlparser::ast::Expr> {
    let source = SourceText::new(sql);
    let tokens = tokenize(sql).map_err(|error| error.error)?;
    let (tokens, _) = prepared(tokens)?;
    let dialect = KeyspanDialect::new(tokens.len());
    let mut reader = Reader::new(&dialect, &source, tokens);
    let expression = reader.expression()?;
    reader.finish()?;
    Ok(expression)
}

/// The passes over a statement's tokens.
fn prepared(mut tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Vec<Parameter>)> {
    budget::check(&tokens)?;
    let parameters = parameter::number(&mut tokens)?;
    let tokens = chain::fold(types::casts(form::rewrite(misread::rewrite(tokens)?)?)?)?;
    Ok((tokens, parameters))
}

fn statement_of(source: &SourceText, tokens: Vec<TokenWithSpan>) -> Result<Parsed> {
    let offset = tokens.first().map_or(0, |first| start(first.span));
    let last = tokens.last().map_or(0, |last| end(last.span));
    let (tokens, parameters) = prepared(tokens)?;
    let dialect = KeyspanDialect::new(tokens.len()).nesting_joins(form::nests_joins(&tokens)?);
    let mut reader = Reader::new(&dialect, source, tokens);
    let mut statement = statement(&mut reader)?;
    reader.finish()?;
    let parameters = share_parameters(&mut statement, parameters);
    Ok(Parsed { statement, text: source.slice(offset, last).to_owned(), offset, parameters })
}

/// Gives a statement inside another its parameters. Those of a PREPARE are the prepared statement's alone.
fn share_parameters(statement: &mut Statement, parameters: Vec<Parameter>) -> Vec<Parameter> {
    match statement {
        Statement::Explain(explain) => {
            explain.statement.parameters.clone_from(&parameters);
            share_parameters(&mut explain.statement.statement, parameters.clone());
        }
        Statement::With(with) => {
            for inner in with.parts.iter_mut().map(|part| &mut part.body).chain([&mut with.statement]) {
                inner.parameters.clone_from(&parameters);
            }
        }
        Statement::Prepare(prepare) => {
            prepare.statement.parameters = parameters;
            return Vec::new();
        }
        _ => {}
    }
    parameters
}

/// One statement, by its first words.
fn statement(reader: &mut Reader) -> Result<Statement> {
    if with::writes(reader) {
        return with::statement(reader, statement);
    }
    if reader.at_query() {
        return crate::query::statement(reader);
    }
    if let Some(verb) = hbase::verb(reader) {
        return hbase::statement(reader, verb);
    }
    let Some(first) = reader.word(0).map(str::to_owned) else { return Err(reader.unexpected()) };
    match first.as_str() {
        "create" => create(reader),
        "advise" => maintain::advise(reader),
        "attach" => attach::attach(reader),
        "detach" => attach::detach(reader),
        "alter" => alter(reader),
        "drop" if role::at(reader) => role::drop(reader),
        "drop" if reader.word(1) == Some("extension") => extension::drop(reader),
        "drop" => drop::statement(reader),
        "grant" => grant::grant(reader),
        "revoke" => grant::revoke(reader),
        "truncate" => drop::truncate(reader),
        "use" => keyspace::use_keyspace(reader),
        "comment" => comment::statement(reader),
        "insert" => insert::statement(reader),
        "update" => update::statement(reader),
        "delete" => delete::statement(reader),
        "merge" => merge::statement(reader),
        "explain" => explain::statement(reader, statement),
        "describe" | "desc" => describe::statement(reader),
        "show" => describe::show(reader),
        "set" => session::set(reader),
        "reset" => session::reset(reader),
        "discard" => session::discard(reader),
        "begin" | "start" => transaction::begin(reader),
        "apply" => transaction::apply(reader),
        "commit" | "end" | "rollback" | "abort" => transaction::end(reader),
        "savepoint" | "release" => transaction::savepoint(reader),
        "prepare" => prepare::prepare(reader, statement),
        "execute" => prepare::execute(reader),
        "deallocate" => prepare::deallocate(reader),
        "declare" => cursor::declare(reader),
        "fetch" | "move" => cursor::fetch(reader),
        "close" => cursor::close(reader),
        "copy" => copy::statement(reader),
        "listen" | "unlisten" | "notify" => channel::statement(reader),
        "vacuum" | "analyze" | "checkpoint" | "flush" | "compact" | "backup" | "refresh" => maintain::statement(reader),
        _ => Err(refuse::known(reader).unwrap_or_else(|| misspelled(reader, &first))),
    }
}

fn create(reader: &mut Reader) -> Result<Statement> {
    match (reader.word(1), reader.word(2)) {
        (Some("keyspace" | "schema"), _) => keyspace::create(reader),
        _ if role::at(reader) => role::create(reader),
        _ if view::at(reader) => view::create(reader),
        (Some("table"), _) | (Some("unlogged" | "temp" | "temporary"), Some("table")) => table::create(reader),
        (Some("local" | "global"), Some("temp" | "temporary")) if reader.word(3) == Some("table") => {
            table::create(reader)
        }
        (Some("sequence"), _) => sequence::create(reader),
        (Some("type"), _) => user_type::create(reader),
        (Some("extension"), _) => extension::create(reader),
        (Some("materialized"), Some("view")) => view::create_materialized(reader),
        (Some("index"), _) | (Some("unique" | "custom"), Some("index")) => index::create(reader),
        _ => Err(refuse::known(reader).unwrap_or_else(|| {
            reader.skip();
            reader.unexpected()
        })),
    }
}

fn alter(reader: &mut Reader) -> Result<Statement> {
    match reader.word(1) {
        Some("keyspace" | "schema") => keyspace::alter(reader),
        Some("table" | "view" | "materialized") => crate::alter::statement(reader),
        Some("sequence") => sequence::alter(reader),
        Some("index") => index::alter(reader),
        Some("type") => user_type::alter(reader),
        _ if role::at(reader) => role::alter(reader),
        _ => Err(refuse::known(reader).unwrap_or_else(|| {
            reader.skip();
            reader.unexpected()
        })),
    }
}

fn misspelled(reader: &Reader, first: &str) -> Error {
    let error = reader.unexpected();
    match nearest_keyword(first, FIRST.iter().copied()) {
        Some(near) => error.with_hint(format!("Perhaps you meant {near}.")),
        None => error,
    }
}

/// Whether the text is an unfinished statement, so that an interactive shell should read another line: an open string,
/// name, comment or bracket, or no semicolon at the end. A text without any statement is finished.
pub fn first_incomplete(sql: &str) -> bool {
    let tokens = match tokenize(sql) {
        Ok(tokens) => tokens,
        Err(error) => return error.unterminated,
    };
    tokens.last().is_some_and(|last| last.token != Token::SemiColon)
}
