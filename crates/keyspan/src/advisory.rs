//! Advisory locks: names that sessions of one database lock among themselves, with a meaning only to them.
//!
//! ```text
//! key ─▶ holds (session, shared, times, until the transaction's end) ; waiters sleep on one condition
//! ```
//!
//! The rule: a lock is held until its session gives it up as often as it took it, or ends; one of a transaction until
//! that ends. Functions wait here on the thread of their query, never on one that serves clients. A wait that would
//! close a circle of waits, also over row locks, fails with 40P01.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspan_model::{Error, ErrorKind, Result};
use keyspan_query::{AdvisoryKey, AdvisoryRequest};
use parking_lot::{Condvar, Mutex};

use crate::locks::LockTable;

/// Holds of all sessions together, so that memory is bounded.
const HOLDS_MAX: usize = 100_000;
/// How often a waiting function looks whether its statement has ended, and for circles.
const LOOK: Duration = Duration::from_millis(10);

/// All advisory locks of a database.
#[derive(Debug)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<AdvisoryState>,
    released: Condvar,
    /// Whose waits may be part of a circle.
    rows: Arc<LockTable>,
}

#[derive(Debug, Default)]
struct AdvisoryState {
    held: BTreeMap<AdvisoryKey, Vec<Hold>>,
    /// How many holds transactions have taken: each has a number of its own.
    taken: u64,
    /// What each waiting session waits for, and whether it would share it.
    waiting: HashMap<u64, (AdvisoryKey, bool)>,
    holds: usize,
}

/// One session's hold of a lock in one mode.
#[derive(Debug)]
struct Hold {
    session: u64,
    shared: bool,
    /// How often the session took it, not counting its transaction.
    times: u32,
    /// The number of the transaction's hold, if that holds it, too.
    transaction: Option<u64>,
}

impl AdvisoryLocks {
    /// No locks.
    pub(crate) fn new(rows: Arc<LockTable>) -> AdvisoryLocks {
        AdvisoryLocks { state: Mutex::default(), released: Condvar::new(), rows }
    }

    /// Takes a lock, or waits for it if the request says so; whether the session has it.
    pub(crate) fn lock(
        &self,
        session: u64,
        request: AdvisoryRequest,
        timeout: Option<Duration>,
        interrupted: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let AdvisoryRequest { key, shared, wait, .. } = request;
        let (began, mut has_waited) = (Instant::now(), false);
        let mut state = self.state.lock();
        loop {
            // A statement that ended while it waited must not get the lock.
            if has_waited {
                interrupted()?;
            }
            if state.blockers(session, key, shared).next().is_none() {
                return state.hold(session, request).map(|()| true);
            }
            if !wait {
                return Ok(false);
            }
            interrupted()?;
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                return Err(Error::new(ErrorKind::LockTimeout, "canceling statement due to lock timeout"));
            }
            state.waiting.insert(session, (key, shared));
            if self.closes_circle(&state, session) {
                state.waiting.remove(&session);
                return Err(Error::new(ErrorKind::Deadlock, "deadlock detected")
                    .with_hint("Take advisory locks and rows in the same order everywhere."));
            }
            self.released.wait_for(&mut state, LOOK);
            has_waited = true;
            state.waiting.remove(&session);
        }
    }

    /// Whether a session waits for itself, over others.
    fn closes_circle(&self, state: &AdvisoryState, session: u64) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![session]);
        while let Some(waiter) = next.pop() {
            let advisory = state.waiting.get(&waiter).into_iter();
            let blockers = advisory.flat_map(|(key, shared)| state.blockers(waiter, *key, *shared));
            for blocker in blockers.chain(self.rows.blocker(waiter)) {
                if blocker == session {
                    return true;
                }
                if seen.insert(blocker) {
                    next.push(blocker);
                }
            }
        }
        false
    }

    /// Gives up one hold of the session; false if it has none.
    pub(crate) fn unlock(&self, session: u64, key: AdvisoryKey, shared: bool) -> bool {
        let mut state = self.state.lock();
        let holds = state.held.get_mut(&key).into_iter().flatten();
        let own = |hold: &&mut Hold| hold.session == session && hold.shared == shared && hold.times > 0;
        let Some(hold) = holds.into_iter().find(own) else { return false };
        hold.times -= 1;
        state.forget_unheld();
        self.released.notify_all();
        true
    }

    /// Gives up what the session holds, but for its transaction's.
    pub(crate) fn unlock_all(&self, session: u64) {
        self.release(session, |hold| hold.times = 0);
    }

    /// A mark to which [`AdvisoryLocks::release_after`] goes back.
    pub(crate) fn mark(&self) -> u64 {
        self.state.lock().taken
    }

    /// Gives up what the session's transaction has taken since a mark; 0: all that it holds.
    pub(crate) fn release_after(&self, session: u64, mark: u64) {
        self.release(session, |hold| hold.transaction = hold.transaction.filter(|number| *number <= mark));
    }

    fn release(&self, session: u64, change: impl Fn(&mut Hold)) {
        let mut state = self.state.lock();
        if state.holds == 0 {
            return;
        }
        state.held.values_mut().flatten().filter(|hold| hold.session == session).for_each(change);
        state.forget_unheld();
        self.released.notify_all();
    }

    /// Whether a session waits for a lock.
    pub(crate) fn is_waiting(&self, session: u64) -> bool {
        self.state.lock().waiting.contains_key(&session)
    }

    /// Every hold and every wait: key, whether shared, session, whether it is held.
    pub(crate) fn all(&self) -> Vec<(AdvisoryKey, bool, u64, bool)> {
        let state = self.state.lock();
        let held =
            state.held.iter().flat_map(|(key, holds)| holds.iter().map(|hold| (*key, hold.shared, hold.session)));
        let waits = state.waiting.iter().map(|(session, (key, shared))| (*key, *shared, *session, false));
        held.map(|(key, shared, session)| (key, shared, session, true)).chain(waits).collect()
    }
}

impl AdvisoryState {
    /// The other sessions that hold the lock in a way that this session cannot.
    fn blockers(&self, session: u64, key: AdvisoryKey, shared: bool) -> impl Iterator<Item = u64> {
        let holds = self.held.get(&key).into_iter().flatten();
        holds.filter(move |hold| hold.session != session && !(shared && hold.shared)).map(|hold| hold.session)
    }

    fn hold(&mut self, session: u64, request: AdvisoryRequest) -> Result<()> {
        if self.holds >= HOLDS_MAX {
            let message = format!("out of shared memory: {HOLDS_MAX} advisory locks are held");
            return Err(Error::new(ErrorKind::OutOfMemory, message).with_hint("Give up locks that are not needed."));
        }
        let holds = self.held.entry(request.key).or_default();
        let own = holds.iter().position(|hold| hold.session == session && hold.shared == request.shared);
        let place = own.unwrap_or_else(|| {
            holds.push(Hold { session, shared: request.shared, times: 0, transaction: None });
            self.holds += 1;
            holds.len() - 1
        });
        match request.transaction {
            true => {
                self.taken += 1;
                holds[place].transaction.get_or_insert(self.taken);
            }
            false => holds[place].times += 1,
        }
        Ok(())
    }

    fn forget_unheld(&mut self) {
        self.held.retain(|_, holds| {
            holds.retain(|hold| hold.times > 0 || hold.transaction.is_some());
            !holds.is_empty()
        });
        self.holds = self.held.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO_ON: &dyn Fn() -> Result<()> = &|| Ok(());

    fn request(key: i64, shared: bool, wait: bool) -> AdvisoryRequest {
        AdvisoryRequest { key: AdvisoryKey::One(key), shared, transaction: false, wait }
    }

    fn table() -> AdvisoryLocks {
        AdvisoryLocks::new(Arc::default())
    }

    #[test]
    fn a_lock_is_given_up_as_often_as_it_was_taken() {
        let locks = table();
        assert_eq!(locks.lock(1, request(7, false, false), None, GO_ON), Ok(true));
        assert_eq!(locks.lock(1, request(7, false, false), None, GO_ON), Ok(true));
        assert!(locks.unlock(1, AdvisoryKey::One(7), false));
        assert_eq!(locks.lock(2, request(7, false, false), None, GO_ON), Ok(false));
        assert!(locks.unlock(1, AdvisoryKey::One(7), false));
        assert!(!locks.unlock(1, AdvisoryKey::One(7), false));
        assert_eq!(locks.lock(2, request(7, false, false), None, GO_ON), Ok(true));
    }

    #[test]
    fn shared_locks_exclude_only_those_that_are_not() {
        let locks = table();
        assert_eq!(locks.lock(1, request(7, true, false), None, GO_ON), Ok(true));
        assert_eq!(locks.lock(2, request(7, true, false), None, GO_ON), Ok(true));
        assert_eq!(locks.lock(3, request(7, false, false), None, GO_ON), Ok(false));
        assert_eq!(locks.lock(1, request(7, false, false), None, GO_ON), Ok(false));
    }

    #[test]
    fn a_circle_of_waits_is_a_deadlock() {
        let locks = Arc::new(table());
        locks.lock(1, request(1, false, false), None, GO_ON).expect("free");
        locks.lock(2, request(2, false, false), None, GO_ON).expect("free");
        let other = locks.clone();
        let waiter = std::thread::spawn(move || other.lock(1, request(2, false, true), None, GO_ON));
        while !locks.is_waiting(1) {
            std::thread::yield_now();
        }
        let error = locks.lock(2, request(1, false, true), None, GO_ON).expect_err("a circle");
        assert_eq!(error.sqlstate(), "40P01");
        locks.unlock_all(2);
        assert_eq!(waiter.join().expect("no panic"), Ok(true));
    }

    #[test]
    fn a_wait_ends_with_its_statement_and_after_lock_timeout() {
        let locks = table();
        locks.lock(1, request(1, false, false), None, GO_ON).expect("free");
        let late = locks.lock(2, request(1, false, true), Some(Duration::from_millis(15)), GO_ON);
        assert_eq!(late.expect_err("held").sqlstate(), "55P03");
        let ended = locks.lock(2, request(1, false, true), None, &|| Err(Error::new(ErrorKind::Canceled, "ended")));
        assert_eq!(ended.expect_err("held").sqlstate(), "57014");
        assert!(!locks.is_waiting(2));
    }
}
