//! `BEGIN` to `COMMIT`, and savepoints.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{EndTransaction, IsolationLevel, Statement, TransactionModes};

/// `BEGIN [WORK | TRANSACTION] [modes]`, `START TRANSACTION [modes]`.
pub(crate) fn begin(reader: &mut Reader) -> Result<Statement> {
    if reader.eat("start") {
        reader.expect("transaction")?;
        return modes(reader).map(Statement::Begin);
    }
    reader.expect("begin")?;
    if let Some("batch" | "unlogged" | "logged" | "counter") = reader.word(0) {
        let error = reader.not_supported("BEGIN BATCH is not yet supported");
        return Err(error.with_hint("Write BEGIN and COMMIT: a transaction is one atomic batch."));
    }
    reader.eat_any(&["work", "transaction"]);
    modes(reader).map(Statement::Begin)
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
