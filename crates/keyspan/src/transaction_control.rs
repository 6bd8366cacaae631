//! BEGIN, COMMIT, ROLLBACK, savepoints, batches, SET TRANSACTION, and what every statement checks first.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::{BeginBatch, IsolationLevel, Maintain, SetTransaction, Statement, TransactionModes, With, ast};
use keyspan_model::array::array_of;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value, WriteBatch};
use keyspan_seam::Caps;

use crate::context::ClientContext;
use crate::database::count;
use crate::ddl::{TRIES_MAX, kept_changing};
use crate::dml::using;
use crate::outcome::{Notice, Outcome, Rows, Tag};
use crate::transaction::{Ended, OpenBatch, OwnCatalog, SavedSession, Transaction, no_batch};

/// Fails with 25P02 for a statement that a failed transaction does not take.
pub(crate) fn check_not_failed(context: &ClientContext, statement: &Statement) -> Result<()> {
    let failed = context.transaction.as_ref().is_some_and(|transaction| transaction.failed);
    let ends = matches!(
        statement,
        Statement::Commit(_) | Statement::Rollback(_) | Statement::RollbackTo(_) | Statement::ApplyBatch
    );
    if failed && !ends {
        return Err(aborted());
    }
    Ok(())
}

fn aborted() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::new(ErrorKind::FailedTransaction, message)
}

/// Refuses a statement that writes in a read-only transaction; of a statement within another, too.
pub(crate) fn check_writable(context: &ClientContext, statement: &Statement) -> Result<()> {
    let read_only = context.transaction.as_ref().is_some_and(Transaction::is_read_only)
        || (context.transaction.is_none() && context.settings.is_on("default_transaction_read_only"));
    match writing_command(statement).or(locking_command(statement)).filter(|_| read_only) {
        Some(command) => {
            let message = format!("cannot execute {command} in a read-only transaction");
            Err(Error::new(ErrorKind::ReadOnly, message))
        }
        None => Ok(()),
    }
}

/// What every statement does first: may it run here, and with which stamp.
pub(crate) fn begin_statement(context: &mut ClientContext, statement: &Statement) -> Result<()> {
    check_not_failed(context, statement)?;
    check_writable(context, statement)?;
    check_batch(context, statement)?;
    if let Some(transaction) = &mut context.transaction {
        // A text of several statements may begin with BEGIN: its own transaction is open by then.
        let sees_nothing = matches!(
            statement,
            Statement::Begin(_) | Statement::SetTransaction(_) | Statement::Set(_) | Statement::Show(_)
        );
        transaction.begin_statement(!sees_nothing);
    }
    Ok(())
}

/// Refuses what may not stand in a BATCH.
fn check_batch(context: &ClientContext, statement: &Statement) -> Result<()> {
    if context.transaction.as_ref().and_then(Transaction::batch).is_none() {
        return Ok(());
    }
    let command = match statement {
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => return Ok(()),
        Statement::Commit(_) => "COMMIT",
        Statement::Begin(_) => "BEGIN",
        Statement::Savepoint(_) => "SAVEPOINT",
        Statement::Release(_) => "RELEASE",
        Statement::RollbackTo(_) => "ROLLBACK TO",
        other => match writing_command(other) {
            Some(command) => command,
            None => return Ok(()),
        },
    };
    let message = format!("{command} cannot stand in a BATCH");
    Err(Error::new(ErrorKind::ActiveTransaction, message).with_hint("End the batch with APPLY BATCH or ROLLBACK."))
}

/// The command's name, if it locks rows.
fn locking_command(statement: &Statement) -> Option<&'static str> {
    let Statement::Query(query) = statement else { return None };
    query.query.locks.first().map(|lock| match lock.lock_type {
        ast::LockType::Update => "SELECT FOR UPDATE",
        ast::LockType::Share => "SELECT FOR SHARE",
    })
}

/// The command's name, if it writes.
fn writing_command(statement: &Statement) -> Option<&'static str> {
    Some(match statement {
        Statement::CreateKeyspace(_) => "CREATE SCHEMA",
        Statement::AlterKeyspace(_) => "ALTER SCHEMA",
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateTableAs(_) => "CREATE TABLE AS",
        Statement::CreateView(view) if view.materialized.is_some() => "CREATE MATERIALIZED VIEW",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::Maintain(Maintain::Refresh { .. }) => "REFRESH MATERIALIZED VIEW",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::Drop(_) => "DROP",
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::RenameIndex(_) => "ALTER INDEX",
        Statement::CreateSequence(_) => "CREATE SEQUENCE",
        Statement::AlterSequence(_) => "ALTER SEQUENCE",
        Statement::CreateType(_) => "CREATE TYPE",
        Statement::AlterType(_) => "ALTER TYPE",
        Statement::Comment(_) => "COMMENT",
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Merge(_) => "MERGE",
        Statement::With(with) => return with_command(with),
        Statement::Copy(copy) if copy.is_from => "COPY FROM",
        _ => return None,
    })
}

/// The first command of a WITH that writes.
fn with_command(with: &With) -> Option<&'static str> {
    let mut statements = with.parts.iter().map(|part| &part.body).chain([&with.statement]);
    statements.find_map(|parsed| writing_command(&parsed.statement))
}

/// The modes with the session's defaults for what is not said.
fn with_defaults(context: &ClientContext, modes: TransactionModes) -> TransactionModes {
    let isolation = modes.isolation.or_else(|| isolation_named(context.settings.get("default_transaction_isolation")));
    let read_only = modes.read_only.unwrap_or_else(|| context.settings.is_on("default_transaction_read_only"));
    TransactionModes { isolation, read_only: Some(read_only), deferrable: modes.deferrable }
}

fn isolation_named(name: Option<&str>) -> Option<IsolationLevel> {
    Some(match name? {
        "read uncommitted" => IsolationLevel::ReadUncommitted,
        "read committed" => IsolationLevel::ReadCommitted,
        "repeatable read" => IsolationLevel::RepeatableRead,
        "serializable" => IsolationLevel::Serializable,
        _ => return None,
    })
}

fn isolation_name(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::ReadUncommitted => "read uncommitted",
        IsolationLevel::ReadCommitted => "read committed",
        IsolationLevel::RepeatableRead => "repeatable read",
        IsolationLevel::Serializable => "serializable",
    }
}

/// 0A000 where the store cannot keep what a transaction promises: one state to read, and all or nothing.
fn check_caps(caps: &Caps) -> Result<()> {
    let missing = match (caps.snapshots, caps.atomic_batches) {
        (true, true) => return Ok(()),
        (false, true) => "snapshots",
        (true, false) => "atomic batches",
        (false, false) => "snapshots and atomic batches",
    };
    let message = format!("transactions need {missing}, which the store of this database does not have");
    Err(Error::not_supported(message).with_hint("Run each statement by itself."))
}

fn open(context: &mut ClientContext, modes: TransactionModes) -> Result<()> {
    check_caps(context.database.store().caps())?;
    let modes = with_defaults(context, modes);
    let transaction = Transaction::new(modes, &context.settings, context.database.locks(), context.statement_time);
    context.transaction = Some(transaction);
    context.peer.begin_transaction(context.statement_time);
    let by_default = context.settings.is_on("default_transaction_deferrable");
    show_deferrable(context, "transaction_deferrable", modes.deferrable.unwrap_or(by_default))?;
    show_modes(context)
}

/// SHOW transaction_isolation and the like tell of the open transaction.
fn show_modes(context: &mut ClientContext) -> Result<()> {
    let Some(transaction) = &context.transaction else { return Ok(()) };
    let (isolation, read_only) = (transaction.isolation(), transaction.is_read_only());
    context.settings.set("transaction_isolation", &[isolation_name(isolation).to_string()])?;
    context.settings.set("transaction_read_only", &[if read_only { "on" } else { "off" }.to_string()])?;
    context.settings_changed();
    Ok(())
}

/// DEFERRABLE is told, and changes nothing: no transaction fails for what others do unless it writes.
fn show_deferrable(context: &mut ClientContext, name: &str, deferrable: bool) -> Result<()> {
    context.settings.set(name, &[if deferrable { "on" } else { "off" }.to_string()])
}

/// BEGIN, START TRANSACTION.
pub(crate) fn begin(context: &mut ClientContext, modes: TransactionModes) -> Result<Outcome> {
    match &mut context.transaction {
        // A text of several statements has begun one already: from here on it is the client's.
        Some(transaction) if transaction.is_implicit() => {
            transaction.set_implicit(false);
            apply_modes(context, modes)?;
        }
        Some(_) => context.notice(Notice::warning("25001", "there is already a transaction in progress")),
        None => open(context, modes)?,
    }
    Ok(Outcome::done(Tag::plain("BEGIN")))
}

/// BEGIN BATCH: a transaction of its own, unless one is open.
pub(crate) fn begin_batch(
    context: &mut ClientContext,
    statement: &BeginBatch,
    parameters: &[Value],
) -> Result<Outcome> {
    let timestamp = using::timestamp(context, statement.timestamp.as_ref(), parameters)?;
    if statement.counter && timestamp.is_some() {
        let message = "Cannot provide custom timestamp for counter BATCH";
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    let alone = !context.in_transaction_block();
    if context.transaction.is_none() {
        open(context, TransactionModes::default())?;
    }
    if let Some(transaction) = &mut context.transaction {
        transaction.begin_batch(statement.counter, timestamp, alone)?;
        transaction.set_implicit(false);
    }
    Ok(Outcome::done(Tag::plain("BEGIN")))
}

/// Opens a BATCH that has failed, unless a transaction is open: its other statements are not to run by themselves.
pub(crate) fn begin_failed_batch(context: &mut ClientContext) {
    if context.transaction.is_none()
        && open(context, TransactionModes::default()).is_ok()
        && let Some(transaction) = &mut context.transaction
        && transaction.begin_batch(false, None, true).is_ok()
    {
        fail(context);
    }
}

/// The columns of APPLY BATCH: `[applied]` where a statement of the open batch has a condition.
pub(crate) fn batch_schema(context: &ClientContext) -> Option<SchemaRef> {
    let batch = context.transaction.as_ref().and_then(Transaction::batch)?;
    let applied = ColumnType::Boolean.field("[applied]", false);
    batch.is_conditional().then(|| Arc::new(Schema::new(vec![applied])))
}

/// APPLY BATCH. Where the client was told of columns, it gets whether all conditions held.
pub(crate) async fn apply_batch(context: &mut ClientContext, schema: Option<&SchemaRef>) -> Result<Outcome> {
    let Some(transaction) = &mut context.transaction else { return Err(no_batch()) };
    let failed = transaction.failed;
    let applied = transaction.apply_batch()?;
    if failed && !applied.alone {
        return Err(aborted());
    }
    let written = !failed && applied.applied != Some(false);
    match applied.alone {
        true if written => finish(context).await?,
        true => undo(context),
        false => {}
    }
    if failed {
        return Ok(Outcome::done(Tag::plain("ROLLBACK")));
    }
    let tag = Tag::plain("APPLY BATCH");
    let Some(schema) = schema else { return Ok(Outcome::done(tag)) };
    let rows = RecordBatch::try_new(schema.clone(), vec![array_of(ColumnType::Boolean, &[Value::Boolean(written)])?])?;
    Ok(Outcome::with_rows(tag, Rows::ready(schema.clone(), vec![rows])))
}

/// Opens a transaction for a text of several statements; where the store cannot keep one, each statement is by itself.
pub(crate) fn begin_implicit(context: &mut ClientContext) {
    if context.transaction.is_none()
        && open(context, TransactionModes::default()).is_ok()
        && let Some(transaction) = &mut context.transaction
    {
        transaction.set_implicit(true);
    }
}

/// Begins a statement that writes several times: all of it or nothing, in the open transaction or in one of its own.
/// Whether that is its own.
///
/// # Errors
/// 0A000 where the store keeps no transactions.
pub(crate) fn begin_several(context: &mut ClientContext) -> Result<bool> {
    let own = context.transaction.is_none();
    begin_implicit(context);
    match context.transaction {
        Some(_) => next_write(context),
        None => {
            let message = "this store keeps no transactions, which a statement of several writes needs";
            return Err(Error::not_supported(message).with_hint("Write the statements one by one."));
        }
    }
    Ok(own)
}

/// Lets the next write of a statement come after those before it.
pub(crate) fn next_write(context: &mut ClientContext) {
    if let Some(transaction) = &mut context.transaction {
        transaction.begin_statement(true);
    }
}

/// Ends it, if it is still the text's own.
pub(crate) async fn end_implicit(context: &mut ClientContext, commit: bool) -> Result<()> {
    match &context.transaction {
        Some(transaction) if transaction.is_implicit() && commit && !transaction.failed => finish(context).await,
        Some(transaction) if transaction.is_implicit() => {
            undo(context);
            Ok(())
        }
        Some(transaction) if !commit && transaction.batch().is_some_and(OpenBatch::ends_with_text) => {
            undo(context);
            Ok(())
        }
        _ => {
            let batch = context.transaction.as_mut().and_then(Transaction::batch_mut);
            batch.into_iter().for_each(OpenBatch::outlive_text);
            Ok(())
        }
    }
}

/// COMMIT, END.
pub(crate) async fn commit(context: &mut ClientContext, chain: bool) -> Result<Outcome> {
    let Some(transaction) = &context.transaction else {
        context.notice(Notice::warning("25P01", "there is no transaction in progress"));
        return Ok(Outcome::done(Tag::plain("COMMIT")));
    };
    let modes = transaction.modes();
    if transaction.failed {
        undo(context);
        chain_if(context, chain, modes)?;
        return Ok(Outcome::done(Tag::plain("ROLLBACK")));
    }
    if transaction.is_implicit() {
        context.notice(Notice::warning("25P01", "there is no transaction in progress"));
    }
    finish(context).await?;
    chain_if(context, chain, modes)?;
    Ok(Outcome::done(Tag::plain("COMMIT")))
}

/// ROLLBACK, ABORT.
pub(crate) fn rollback(context: &mut ClientContext, chain: bool) -> Result<Outcome> {
    match &context.transaction {
        Some(transaction) => {
            let modes = transaction.modes();
            undo(context);
            chain_if(context, chain, modes)?;
        }
        None => context.notice(Notice::warning("25P01", "there is no transaction in progress")),
    }
    Ok(Outcome::done(Tag::plain("ROLLBACK")))
}

fn chain_if(context: &mut ClientContext, chain: bool, modes: TransactionModes) -> Result<()> {
    if chain { open(context, modes) } else { Ok(()) }
}

/// Writes everything in one step. Whatever happens, the transaction is over.
async fn finish(context: &mut ClientContext) -> Result<()> {
    let Some(mut transaction) = context.transaction.take() else { return Ok(()) };
    let committed = context.database.store().catalog();
    if let Some(keyspace) = context.settings.temporary() {
        transaction.end_temporary(keyspace, &committed);
    }
    let ended = transaction.end(context.settings.relaxed_durability());
    let Ended { catalog, mut batch, locks, settings: before, local } = ended;
    batch.mutations.extend(context.sequences.end_transaction(catalog.as_ref().map(|catalog| &*catalog.own)));
    let passed = context.pass_gates(&batch).await;
    let result = match catalog {
        _ if passed.is_err() => passed,
        Some(catalog) => commit_catalog(context, &catalog, batch).await,
        None if batch.mutations.is_empty() => Ok(()),
        None => context.database.store().apply(batch).await.map(drop),
    };
    drop(locks);
    match &result {
        Ok(()) => context.settings.restore(&local),
        Err(_) => context.settings = before,
    }
    end_session_state(context, result.is_ok());
    result
}

/// Writes with changes of the catalog, which go on top of what others have changed meanwhile.
async fn commit_catalog(context: &ClientContext, catalog: &OwnCatalog, batch: WriteBatch) -> Result<()> {
    let store = context.database.store();
    for _ in 0..TRIES_MAX {
        let newest = store.catalog();
        let next = catalog.over(&newest)?;
        newest.check_redefined(&batch.definitions)?;
        match store.change(newest.version, next, Some(batch.clone())).await {
            Err(error) if error.kind == ErrorKind::Serialization && store.catalog().version != newest.version => {
                count(&context.database.counts().retries);
            }
            other => return other.map(drop),
        }
    }
    Err(kept_changing())
}

/// Forgets everything.
fn undo(context: &mut ClientContext) {
    if let Some(transaction) = context.transaction.take() {
        context.settings = transaction.into_settings();
    }
    drop(context.sequences.end_transaction(None));
    end_session_state(context, false);
}

/// Cursors without hold end with their transaction; one that failed takes all cursors it declared with it.
fn end_session_state(context: &mut ClientContext, committed: bool) {
    context.cursors.retain(|_, cursor| cursor.survives(committed));
    context.peer.end_transaction(committed);
    context.settings_changed();
}

fn expect_block<'a>(context: &'a mut ClientContext, command: &str) -> Result<&'a mut Transaction> {
    match &mut context.transaction {
        Some(transaction) if !transaction.is_implicit() => Ok(transaction),
        _ => {
            let message = format!("{command} can only be used in transaction blocks");
            Err(Error::new(ErrorKind::NoTransaction, message))
        }
    }
}

/// Marks the open transaction, if there is one, as failed. What it has locked since its last savepoint is free.
pub(crate) fn fail(context: &mut ClientContext) {
    if let Some(transaction) = &mut context.transaction {
        let mark = transaction.fail();
        context.peer.release_locks(mark);
    }
}

/// SAVEPOINT.
pub(crate) fn savepoint(context: &mut ClientContext, name: &str) -> Result<Outcome> {
    expect_block(context, "SAVEPOINT")?;
    mark(context, name);
    Ok(Outcome::done(Tag::plain("SAVEPOINT")))
}

/// A savepoint in the open transaction, be it a statement's own.
pub(crate) fn mark(context: &mut ClientContext, name: &str) {
    let session = SavedSession {
        settings: context.settings.clone(),
        deferred: context.peer.deferred(),
        advisory: context.peer.locks_mark(),
        next_cursor: context.peer.next_cursor(),
    };
    if let Some(transaction) = &mut context.transaction {
        transaction.save(name, session);
    }
}

/// Forgets a [`mark`].
pub(crate) fn unmark(context: &mut ClientContext, name: &str) -> Result<()> {
    context.transaction.as_mut().map_or(Ok(()), |transaction| transaction.release(name))
}

/// Takes back what was written since a [`mark`], and goes on with the newest state.
pub(crate) fn back_to_mark(context: &mut ClientContext, name: &str) -> Result<()> {
    let Some(transaction) = &mut context.transaction else { return Ok(()) };
    let session = transaction.roll_back_to(name)?;
    take_back(context, session);
    context.release_snapshot();
    next_write(context);
    Ok(())
}

/// RELEASE SAVEPOINT.
pub(crate) fn release(context: &mut ClientContext, name: &str) -> Result<Outcome> {
    expect_block(context, "RELEASE SAVEPOINT")?.release(name)?;
    Ok(Outcome::done(Tag::plain("RELEASE")))
}

/// ROLLBACK TO SAVEPOINT.
pub(crate) fn rollback_to(context: &mut ClientContext, name: &str) -> Result<Outcome> {
    let session = expect_block(context, "ROLLBACK TO SAVEPOINT")?.roll_back_to(name)?;
    take_back(context, session);
    Ok(Outcome::done(Tag::plain("ROLLBACK")))
}

fn take_back(context: &mut ClientContext, session: SavedSession) {
    context.settings = session.settings;
    context.peer.forget_deferred(session.deferred);
    context.peer.release_locks(session.advisory);
    context.cursors.retain(|_, cursor| cursor.number() < session.next_cursor);
    context.settings_changed();
}

/// SET TRANSACTION, SET SESSION CHARACTERISTICS.
pub(crate) fn set(context: &mut ClientContext, statement: &SetTransaction) -> Result<Outcome> {
    if statement.session {
        if let Some(level) = statement.modes.isolation {
            context.settings.set("default_transaction_isolation", &[isolation_name(level).to_string()])?;
        }
        if let Some(read_only) = statement.modes.read_only {
            context
                .settings
                .set("default_transaction_read_only", &[if read_only { "on" } else { "off" }.to_string()])?;
        }
        if let Some(deferrable) = statement.modes.deferrable {
            show_deferrable(context, "default_transaction_deferrable", deferrable)?;
        }
        context.settings_changed();
    } else if context.transaction.is_none() {
        context.notice(Notice::warning("25P01", "SET TRANSACTION can only be used in transaction blocks"));
    } else {
        apply_modes(context, statement.modes)?;
        if let Some(deferrable) = statement.modes.deferrable {
            show_deferrable(context, "transaction_deferrable", deferrable)?;
            context.settings_changed();
        }
    }
    Ok(Outcome::done(Tag::plain("SET")))
}

/// Changes the open transaction's modes.
pub(crate) fn apply_modes(context: &mut ClientContext, modes: TransactionModes) -> Result<()> {
    let Some(transaction) = &mut context.transaction else { return Ok(()) };
    transaction.set_modes(modes)?;
    show_modes(context)
}
