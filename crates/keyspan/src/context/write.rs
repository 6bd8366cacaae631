//! Locking and writing rows: into the open transaction, or at once.

use keyspan_model::{Mutation, Result, Stamp, Unchanged, Value, WriteBatch};

use super::ClientContext;
use crate::locks::{HeldLocks, RowName};
use crate::row::TableHandle;

/// Blind statements of at most so many rows wait for row locks.
const BLIND_LOCKED_MAX: usize = 64;

impl ClientContext {
    /// The running statement's write timestamp, unless it says its own.
    pub(crate) fn stamp(&self) -> Stamp {
        self.transaction.as_ref().map_or(Stamp::Server(0), |transaction| transaction.stamp())
    }

    /// Locks rows for this session.
    pub(crate) async fn lock(&mut self, rows: Vec<RowName>) -> Result<HeldLocks> {
        let locks = self.database.locks().clone();
        locks.lock(self.id, rows, self.settings.lock_timeout(), &self.running).await
    }

    /// Locks the rows of a blind write, if they are few: it then waits for transactions that are changing them.
    pub(crate) async fn lock_blind(&mut self, handle: &TableHandle, keys: &[Vec<Value>]) -> Result<HeldLocks> {
        if keys.len() > BLIND_LOCKED_MAX {
            return Ok(HeldLocks::none(self.database.locks().clone()));
        }
        let names = keys.iter().map(|key| handle.name(key)).collect::<Result<_>>()?;
        self.lock(names).await
    }

    /// Writes: into the open transaction, which keeps the locks, or at once.
    pub(crate) async fn write(
        &mut self,
        mutations: Vec<Mutation>,
        unchanged: Vec<Unchanged>,
        locks: HeldLocks,
    ) -> Result<()> {
        self.running.check()?;
        self.check_collections(&mutations)?;
        let relaxed = self.settings.relaxed_durability();
        let batch = WriteBatch { mutations, unchanged, relaxed };
        match &mut self.transaction {
            Some(transaction) => {
                transaction.write_checked(self.database.store(), batch)?;
                transaction.keep(locks);
                Ok(())
            }
            None if batch.mutations.is_empty() => Ok(()),
            None => self.database.store().apply(batch).await.map(drop),
        }
    }
}
