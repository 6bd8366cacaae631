//! Locking and writing rows: into the open transaction, or at once.

use keyspan_model::{ErrorKind, Mutation, Result, Span, Stamp, Unchanged, Value, WriteBatch};

use super::ClientContext;
use crate::database::count;
use crate::locks::{HeldLocks, RowName};
use crate::row::{TableHandle, unique};
use crate::transaction::Transaction;

/// Blind statements of at most so many rows wait for row locks.
const BLIND_LOCKED_MAX: usize = 64;
/// More rows than this are not locked one by one: the whole relation must not have changed.
pub(crate) const ROWS_LOCKED_MAX: usize = 4_096;
/// How often a write is tried while others claim the same unique values.
const TRIES_MAX: usize = 1_000;

impl ClientContext {
    /// The running statement's write timestamp, unless it says its own.
    pub(crate) fn stamp(&self) -> Stamp {
        self.transaction.as_ref().map_or(Stamp::Server(0), |transaction| transaction.stamp())
    }

    /// The running statement's place among those of the server's time, whatever timestamp it brings.
    pub(crate) fn server_stamp(&self) -> Stamp {
        self.transaction.as_ref().map_or(Stamp::Server(0), |transaction| transaction.server_stamp())
    }

    /// Locks rows for this session.
    pub(crate) async fn lock(&mut self, rows: Vec<RowName>) -> Result<HeldLocks> {
        let locks = self.database.locks().clone();
        locks.lock(self.id, rows, self.settings.lock_timeout(), &self.running).await
    }

    /// Locks rows for this session, if no other holds one of them.
    pub(crate) fn lock_free(&self, rows: Vec<RowName>) -> Option<HeldLocks> {
        self.database.locks().clone().lock_free(self.id, rows)
    }

    /// Fails where others have written to rows that the open transaction has locked since its one snapshot was taken.
    /// Nobody else knows relations that it has made since, by CREATE TABLE or TRUNCATE.
    ///
    /// # Errors
    /// 40001, as in PostgreSQL.
    pub(crate) fn check_locked(&self, handle: &TableHandle, keys: &[Vec<Value>]) -> Result<()> {
        let Some(fixed) = self.transaction.as_ref().and_then(Transaction::fixed) else { return Ok(()) };
        let families = handle.table.families.iter().map(|family| family.relation);
        let relations = std::iter::once(handle.relation.id).chain(families);
        let known: Vec<_> = relations.filter(|relation| fixed.catalog().relation(*relation).is_some()).collect();
        let of_row = |key: &Vec<Value>| {
            let span = Span::prefix(key.clone());
            known.iter().map(move |relation| Unchanged { relation: *relation, span: span.clone(), seq: fixed.seq() })
        };
        let unchanged: Vec<Unchanged> = keys.iter().flat_map(of_row).collect();
        self.database.store().check(&unchanged)
    }

    /// Locks the rows of a blind write, if they are few: it then waits for transactions that are changing them.
    pub(crate) async fn lock_blind(&mut self, handle: &TableHandle, keys: &[Vec<Value>]) -> Result<HeldLocks> {
        if keys.len() > BLIND_LOCKED_MAX {
            return Ok(HeldLocks::none(self.database.locks().clone()));
        }
        let names = keys.iter().map(|key| handle.name(key)).collect::<Result<_>>()?;
        self.lock(names).await
    }

    /// Writes rows of a table: into the open transaction, which keeps the locks, or at once.
    ///
    /// # Errors
    /// 23505 where a unique index of the table refuses a row; 40001 if what must be unchanged is not, or if the table
    /// has more constraints by now (`Redefined`).
    pub(crate) async fn write(
        &mut self,
        handle: &TableHandle,
        mutations: Vec<Mutation>,
        mut unchanged: Vec<Unchanged>,
        mut locks: HeldLocks,
    ) -> Result<()> {
        if !unique::is_checked(handle, &mutations) {
            return self.write_checked(handle, mutations, unchanged, locks).await;
        }
        // What was read besides is read anew by who has read it.
        let blind = unchanged.is_empty() && self.transaction.is_none();
        for _ in 1..if blind { TRIES_MAX } else { 1 } {
            let kept = self.keep_unique(handle, &mutations).await?;
            let all = mutations.iter().cloned().chain(kept.mutations).collect();
            match self.write_checked(handle, all, kept.unchanged, kept.locks).await {
                Err(error) if error.kind == ErrorKind::Serialization => count(&self.database.counts().retries),
                other => return other,
            }
        }
        let kept = self.keep_unique(handle, &mutations).await?;
        unchanged.extend(kept.unchanged);
        locks.absorb(kept.locks);
        let all = mutations.into_iter().chain(kept.mutations).collect();
        self.write_checked(handle, all, unchanged, locks).await
    }

    /// Writes what needs no further check: it was checked against the handle's definition of its table.
    ///
    /// # Errors
    /// 40001 (`Redefined`) if the table has more constraints by now.
    pub(crate) async fn write_checked(
        &mut self,
        handle: &TableHandle,
        mutations: Vec<Mutation>,
        unchanged: Vec<Unchanged>,
        locks: HeldLocks,
    ) -> Result<()> {
        self.running.check()?;
        self.check_collections(&mutations)?;
        self.check_partitions(handle, &mutations).await?;
        self.database.heat().write(&self.catalog(), &mutations);
        let relaxed = self.settings.relaxed_durability();
        let batch = WriteBatch { mutations, unchanged, definitions: vec![handle.declared.clone()], relaxed };
        match &mut self.transaction {
            Some(transaction) => {
                transaction.write_checked(self.database.store(), batch)?;
                transaction.keep(locks);
                Ok(())
            }
            None => self.apply(batch).await,
        }
    }

    /// Writes at once. What COMMIT deletes of temporary tables is not written at all.
    pub(crate) async fn apply(&self, mut batch: WriteBatch) -> Result<()> {
        if let Some(keyspace) = self.settings.temporary() {
            batch.forget(&self.catalog().emptied_at_commit(keyspace));
        }
        if batch.mutations.is_empty() {
            return Ok(());
        }
        self.pass_gates(&batch).await?;
        self.database.store().apply(batch).await.map(drop)
    }

    /// Waits while the rows of a table that is written to are checked against a new definition.
    pub(crate) async fn pass_gates(&self, batch: &WriteBatch) -> Result<()> {
        let tables: Vec<_> = batch.definitions.iter().map(|table| table.id).collect();
        self.database.gates().pass(&tables, self.settings.lock_timeout(), &self.running).await
    }
}
