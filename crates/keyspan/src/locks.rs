//! Row locks, so that statements that read what they write wait for each other instead of failing.
//!
//! ```text
//! (relation, key bytes) ─▶ owner session ; waiters sleep on the entry's Notify
//! ```
//!
//! The rule: locks only order the writers of this process; correctness does not rest on them. The store checks
//! `WriteBatch::unchanged`; without locks more writers would fail that check and run again.
//! A wait that would close a cycle of waits (a deadlock) fails at once with 40P01.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use keyspan_model::{Error, ErrorKind, RelationId, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cancel::Running;

/// A row by its relation and encoded key.
pub(crate) type RowName = (RelationId, Vec<u8>);

/// All row locks of a database.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    state: Mutex<LockState>,
}

#[derive(Debug, Default)]
struct LockState {
    held: HashMap<RowName, RowLock>,
    /// The row each waiting session waits for.
    waiting: HashMap<u64, RowName>,
}

#[derive(Debug)]
struct RowLock {
    owner: u64,
    released: Arc<Notify>,
}

/// Locks that are released when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    table: Arc<LockTable>,
    rows: Vec<RowName>,
}

/// Removes a session from the waiting list when its wait ends, in whatever way.
struct Waiting<'a> {
    table: &'a LockTable,
    owner: u64,
}

impl std::ops::Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.table.state.lock().waiting.remove(&self.owner);
    }
}

impl LockTable {
    /// Locks rows for a session, in their order, so that two statements cannot wait for each other. Rows that the
    /// session holds already stay as they are.
    ///
    /// # Errors
    /// 40P01 when a wait would never end, 55P03 after `timeout`, 57014 when cancelled.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        owner: u64,
        mut rows: Vec<RowName>,
        timeout: Option<Duration>,
        running: &Running,
    ) -> Result<HeldLocks> {
        rows.sort();
        rows.dedup();
        let mut held = HeldLocks { table: self.clone(), rows: Vec::with_capacity(rows.len()) };
        for row in rows {
            if self.lock_one(owner, &row, timeout, running).await? {
                held.rows.push(row);
            }
        }
        Ok(held)
    }

    /// Locks rows that nobody else holds; `None` if another session holds one of them.
    pub(crate) fn lock_free(self: &Arc<Self>, owner: u64, rows: Vec<RowName>) -> Option<HeldLocks> {
        let mut state = self.state.lock();
        if rows.iter().any(|row| state.held.get(row).is_some_and(|held| held.owner != owner)) {
            return None;
        }
        let mut held = HeldLocks { table: self.clone(), rows: Vec::with_capacity(rows.len()) };
        for row in rows {
            if !state.held.contains_key(&row) {
                state.held.insert(row.clone(), RowLock { owner, released: Arc::default() });
                held.rows.push(row);
            }
        }
        Some(held)
    }

    /// The session that holds the row that a session waits for, if it waits for one.
    pub(crate) fn blocker(&self, waiter: u64) -> Option<u64> {
        let state = self.state.lock();
        state.waiting.get(&waiter).and_then(|row| state.held.get(row)).map(|held| held.owner)
    }

    /// Whether the lock is new to the owner.
    async fn lock_one(&self, owner: u64, row: &RowName, timeout: Option<Duration>, running: &Running) -> Result<bool> {
        loop {
            let released = {
                let mut state = self.state.lock();
                match state.held.get(row) {
                    None => {
                        let entry = RowLock { owner, released: Arc::default() };
                        state.held.insert(row.clone(), entry);
                        return Ok(true);
                    }
                    Some(entry) if entry.owner == owner => return Ok(false),
                    Some(entry) => {
                        let released = entry.released.clone().notified_owned();
                        state.check_deadlock(owner, row)?;
                        state.waiting.insert(owner, row.clone());
                        released
                    }
                }
            };
            let _waiting = Waiting { table: self, owner };
            let wait = async {
                released.await;
                Ok(())
            };
            match timeout {
                None => running.guard(wait).await?,
                Some(timeout) => running.guard(in_time(timeout, wait)).await?,
            }
        }
    }
}

/// 55P03 if what is waited for does not come within `timeout`.
pub(crate) async fn in_time(timeout: Duration, wait: impl Future<Output = Result<()>>) -> Result<()> {
    match tokio::time::timeout(timeout, wait).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(ErrorKind::LockTimeout, "canceling statement due to lock timeout")),
    }
}

impl LockState {
    /// Fails if waiting for `row` would be a deadlock.
    fn check_deadlock(&self, waiter: u64, row: &RowName) -> Result<()> {
        let mut row = row;
        while let Some(entry) = self.held.get(row) {
            if entry.owner == waiter {
                let error = Error::new(ErrorKind::Deadlock, "deadlock detected");
                return Err(error.with_hint("Run the transaction again; write rows in the same order everywhere."));
            }
            match self.waiting.get(&entry.owner) {
                Some(next) => row = next,
                None => break,
            }
        }
        Ok(())
    }
}

impl HeldLocks {
    /// No locks yet.
    pub(crate) fn none(table: Arc<LockTable>) -> HeldLocks {
        HeldLocks { table, rows: Vec::new() }
    }

    /// Takes over another's locks.
    pub(crate) fn absorb(&mut self, mut other: HeldLocks) {
        self.rows.append(&mut other.rows);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Releases all but the first ones.
    pub(crate) fn release_after(&mut self, kept: usize) {
        if self.rows.len() <= kept {
            return;
        }
        let mut state = self.table.state.lock();
        for row in self.rows.drain(kept..) {
            if let Some(entry) = state.held.remove(&row) {
                entry.released.notify_waiters();
            }
        }
    }
}

impl std::ops::Drop for HeldLocks {
    fn drop(&mut self) {
        self.release_after(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelHandle;

    fn row(key: u8) -> RowName {
        (RelationId(1), vec![key])
    }

    #[tokio::test]
    async fn a_second_session_waits_until_the_lock_is_released() {
        let table = Arc::new(LockTable::default());
        let running = CancelHandle::default().begin(None);
        let held = table.lock(1, vec![row(1)], None, &running).await.expect("free");
        let other = table.clone();
        let waiter = tokio::spawn(async move {
            let running = CancelHandle::default().begin(None);
            other.lock(2, vec![row(1)], None, &running).await.map(drop)
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(held);
        assert_eq!(waiter.await.expect("no panic"), Ok(()));
    }

    #[tokio::test]
    async fn a_circle_of_waits_is_a_deadlock() {
        let table = Arc::new(LockTable::default());
        let running = CancelHandle::default().begin(None);
        let _one = table.lock(1, vec![row(1)], None, &running).await.expect("free");
        let two = table.lock(2, vec![row(2)], None, &running).await.expect("free");
        let other = table.clone();
        let waiter = tokio::spawn(async move {
            let running = CancelHandle::default().begin(None);
            other.lock(1, vec![row(2)], None, &running).await.map(drop)
        });
        tokio::task::yield_now().await;
        let error = table.lock(2, vec![row(1)], None, &running).await.expect_err("a circle");
        assert_eq!(error.sqlstate(), "40P01");
        drop(two);
        assert_eq!(waiter.await.expect("no panic"), Ok(()));
    }

    #[tokio::test]
    async fn a_lock_that_is_not_free_in_time_is_55p03() {
        let table = Arc::new(LockTable::default());
        let running = CancelHandle::default().begin(None);
        let _held = table.lock(1, vec![row(1)], None, &running).await.expect("free");
        let waited = table.lock(2, vec![row(1)], Some(Duration::from_millis(5)), &running).await;
        assert_eq!(waited.expect_err("not free").sqlstate(), "55P03");
    }

    #[tokio::test]
    async fn rows_that_are_not_all_free_are_not_locked() {
        let table = Arc::new(LockTable::default());
        let running = CancelHandle::default().begin(None);
        let held = table.lock(1, vec![row(1)], None, &running).await.expect("free");
        assert!(table.lock_free(2, vec![row(2), row(1)]).is_none());
        assert_eq!(table.lock_free(1, vec![row(1), row(2)]).expect("own, and free").rows, [row(2)]);
        drop(held);
        assert_eq!(table.lock_free(2, vec![row(2), row(1)]).expect("free").rows, [row(2), row(1)]);
    }

    #[tokio::test]
    async fn a_session_does_not_wait_for_itself() {
        let table = Arc::new(LockTable::default());
        let running = CancelHandle::default().begin(None);
        let _first = table.lock(1, vec![row(1)], None, &running).await.expect("free");
        let again = table.lock(1, vec![row(1), row(2)], None, &running).await.expect("own");
        assert_eq!(again.rows, [row(2)]);
    }
}
