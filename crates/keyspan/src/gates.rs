//! Gates before tables: while one is closed, whoever is about to write to the table waits.
//!
//! ```text
//! ALTER: rows checked ─▶ definition installed, if nobody has written ──else──▶ gate closed ─▶ checked again ─▶ installed
//! ```
//!
//! The rule: gates only keep writers from coming between again and again; correctness does not rest on them. The store
//! checks `WriteBatch::unchanged` of who checks, and `WriteBatch::definitions` of who writes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use keyspan_model::{Result, TableId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::cancel::Running;
use crate::locks::in_time;

/// The gates that are closed.
#[derive(Debug, Default)]
pub(crate) struct TableGates {
    closed: Mutex<HashMap<TableId, Gate>>,
}

#[derive(Debug, Default)]
struct Gate {
    /// How many keep it closed.
    closers: usize,
    opened: Arc<Notify>,
}

/// Keeps a gate closed until it is dropped.
#[derive(Debug)]
pub(crate) struct ClosedGate {
    gates: Arc<TableGates>,
    table: TableId,
}

impl TableGates {
    /// Closes the gate of a table. Who has passed it already is not waited for.
    pub(crate) fn close(self: &Arc<Self>, table: TableId) -> ClosedGate {
        self.closed.lock().entry(table).or_default().closers += 1;
        ClosedGate { gates: self.clone(), table }
    }

    /// Waits until no gate of these tables is closed.
    ///
    /// # Errors
    /// 55P03 after `timeout`, 57014 when cancelled.
    pub(crate) async fn pass(&self, tables: &[TableId], timeout: Option<Duration>, running: &Running) -> Result<()> {
        while let Some(opened) = self.closed_one(tables) {
            let wait = async {
                opened.await;
                Ok(())
            };
            match timeout {
                None => running.guard(wait).await?,
                Some(timeout) => running.guard(in_time(timeout, wait)).await?,
            }
        }
        Ok(())
    }

    /// When the first closed gate of these tables is opened.
    fn closed_one(&self, tables: &[TableId]) -> Option<OwnedNotified> {
        let closed = self.closed.lock();
        // Told of an opening from here on, since the lock is still held.
        tables.iter().find_map(|table| closed.get(table)).map(|gate| gate.opened.clone().notified_owned())
    }
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        let mut closed = self.gates.closed.lock();
        if let Entry::Occupied(mut gate) = closed.entry(self.table) {
            gate.get_mut().closers -= 1;
            if gate.get().closers == 0 {
                gate.remove().opened.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use keyspan_model::ErrorKind;

    use super::*;
    use crate::cancel::CancelHandle;

    #[tokio::test]
    async fn writers_wait_until_all_have_opened_the_gate_of_their_table() {
        let gates = Arc::new(TableGates::default());
        let running = CancelHandle::default().begin(None);
        let (first, second) = (gates.close(TableId(1)), gates.close(TableId(1)));
        assert_eq!(gates.pass(&[TableId(2)], None, &running).await, Ok(()));
        let late = gates.pass(&[TableId(1)], Some(Duration::from_millis(1)), &running).await;
        assert_eq!(late.expect_err("closed").kind, ErrorKind::LockTimeout);
        let other = gates.clone();
        let waiter = tokio::spawn(async move {
            let running = CancelHandle::default().begin(None);
            other.pass(&[TableId(1)], None, &running).await
        });
        tokio::task::yield_now().await;
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(second);
        assert_eq!(waiter.await.expect("no panic"), Ok(()));
    }
}
