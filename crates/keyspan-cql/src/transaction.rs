//! `BEGIN` to `COMMIT`, savepoints, and CQL's batches.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::insert::using;
use crate::reader::Reader;
use crate::statement::{BeginBatch, EndTransaction, IsolationLevel, Statement, TransactionModes, Using};

/// `BEGIN [WORK | TRANSACTION] [modes]`, `START TRANSACTION [modes]`.
pub(crate) fn begin(reader: &mut Reader) -> Result<Statement> {
    if reader.eat("start") {
        reader.expect("transaction")?;
        return modes(reader).map(Statement::Begin);
    }
    reader.expect("begin")?;
    if let Some("batch" | "unlogged" | "logged" | "counter") = reader.word(0) {
        return batch(reader);
    }
    reader.eat_any(&["work", "transaction"]);
    modes(reader).map(Statement::Begin)
}

/// `[LOGGED | UNLOGGED | COUNTER] BATCH [USING TIMESTAMP n]`. On one machine a logged batch and an unlogged one are the
/// same.
fn batch(reader: &mut Reader) -> Result<Statement> {
    let counter = reader.eat_any(&["logged", "unlogged", "counter"]) == Some("counter");
    reader.expect("batch")?;
    let mut times = Using::default();
    if reader.at("using") {
        let position = reader.position();
        using(reader, &mut times)?;
        if times.ttl.is_some() {
            let error = Error::new(ErrorKind::Syntax, "a BATCH has no TTL").at(position);
            return Err(error.with_hint("Write USING TTL in its statements."));
        }
    }
    Ok(Statement::BeginBatch(BeginBatch { counter, timestamp: times.timestamp }))
}

/// `APPLY BATCH`.
pub(crate) fn apply(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["apply", "batch"])?;
    Ok(Statement::ApplyBatch)
}

/// Cuts the tokens up to a semicolon where a statement of a batch begins: behind `BEGIN BATCH …`, and, where `inside`
/// says that a batch is open, also between statements that no semicolon parts.
pub(crate) fn cut_batch(tokens: Vec<TokenWithSpan>, inside: &mut bool) -> Vec<Vec<TokenWithSpan>> {
    let is = |at: usize, words: &[&str]| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            words.iter().any(|each| word.value.eq_ignore_ascii_case(each))
        }
        _ => false,
    };
    let mut cuts = vec![0];
    if is(0, &["begin"]) {
        let batch = if is(1, &["logged", "unlogged", "counter"]) { 2 } else { 1 };
        if is(batch, &["batch"]) {
            *inside = true;
            let behind = batch + if is(batch + 1, &["using"]) { 4 } else { 1 };
            cuts.push(behind.min(tokens.len()));
        }
    }
    // A word that begins a statement may also be a name or a part of one: what must follow it tells.
    let begins = |at: usize| {
        let sets = |at: usize| is(at, &["set", "using"]);
        (is(at, &["insert"]) && is(at + 1, &["into"]))
            || (is(at, &["apply"]) && is(at + 1, &["batch"]))
            || (is(at, &["update"]) && !is(at - 1, &["do", "for"]) && (sets(at + 2) || sets(at + 4)))
            || (is(at, &["delete"]) && (at + 1..at + 8).any(|from| is(from, &["from"])))
    };
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(1).filter(|_| *inside) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && begins(at) => cuts.push(at),
            _ => {}
        }
    }
    if cuts.iter().any(|at| is(*at, &["apply"])) {
        *inside = false;
    }
    cuts.push(tokens.len());
    cuts.dedup();
    let mut tokens = tokens.into_iter();
    let parts = cuts.windows(2).map(|cut| tokens.by_ref().take(cut[1] - cut[0]).collect());
    parts.filter(|part: &Vec<TokenWithSpan>| !part.is_empty()).collect()
}

/// The modes of a transaction, with or without commas.
pub(crate) fn modes(reader: &mut Reader) -> Result<TransactionModes> {
    let mut modes = TransactionModes::default();
    while !reader.at_end() {
        if reader.eat_all(&["isolation", "level"]) {
            modes.isolation = Some(isolation(reader)?);
        } else if reader.eat_all(&["read", "only"]) {
            modes.read_only = Some(true);
        } else if reader.eat_all(&["read", "write"]) {
            modes.read_only = Some(false);
        } else if reader.eat("deferrable") {
            modes.deferrable = Some(true);
        } else if reader.eat_all(&["not", "deferrable"]) {
            modes.deferrable = Some(false);
        } else if reader.at("snapshot") {
            return Err(reader.not_supported("SET TRANSACTION SNAPSHOT is not supported"));
        } else {
            return Err(reader.unexpected());
        }
        if reader.eat_token(&Token::Comma) && reader.at_end() {
            return Err(reader.unexpected());
        }
    }
    Ok(modes)
}

fn isolation(reader: &mut Reader) -> Result<IsolationLevel> {
    if reader.eat("serializable") {
        Ok(IsolationLevel::Serializable)
    } else if reader.eat_all(&["repeatable", "read"]) {
        Ok(IsolationLevel::RepeatableRead)
    } else if reader.eat_all(&["read", "committed"]) {
        Ok(IsolationLevel::ReadCommitted)
    } else if reader.eat_all(&["read", "uncommitted"]) {
        Ok(IsolationLevel::ReadUncommitted)
    } else {
        Err(reader.unexpected())
    }
}

/// `COMMIT`, `END`, `ROLLBACK`, `ABORT`, `ROLLBACK TO`.
pub(crate) fn end(reader: &mut Reader) -> Result<Statement> {
    let commits = matches!(reader.word(0), Some("commit" | "end"));
    reader.skip();
    if reader.at("prepared") {
        let error = reader.not_supported("two-phase commit is not supported");
        return Err(error.with_hint("Write COMMIT."));
    }
    reader.eat_any(&["work", "transaction"]);
    if !commits && reader.eat("to") {
        reader.eat("savepoint");
        return reader.name().map(Statement::RollbackTo);
    }
    let mut end = EndTransaction::default();
    if reader.eat("and") {
        end.chain = !reader.eat("no");
        reader.expect("chain")?;
    }
    Ok(if commits { Statement::Commit(end) } else { Statement::Rollback(end) })
}

/// `SAVEPOINT name`, `RELEASE [SAVEPOINT] name`.
pub(crate) fn savepoint(reader: &mut Reader) -> Result<Statement> {
    if reader.eat("savepoint") {
        return reader.name().map(Statement::Savepoint);
    }
    reader.expect("release")?;
    reader.eat("savepoint");
    reader.name().map(Statement::Release)
}
