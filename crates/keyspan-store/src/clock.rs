//! The clock: the one source of the time of day.
//!
//! Rule: nothing in the store reads the system's time but through [`Clock`], so that tests decide what time it is.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Microseconds since 1970-01-01 UTC. May jump, also backwards: the store never lets its own time go back.
    fn now(&self) -> i64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        }
    }
}

/// A clock that moves only when it is told to: for tests.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `now`, in microseconds since 1970.
    pub fn new(now: i64) -> ManualClock {
        ManualClock { now: AtomicI64::new(now) }
    }

    /// Moves it on (or back) by some microseconds.
    pub fn advance(&self, microseconds: i64) {
        self.now.fetch_add(microseconds, Ordering::SeqCst);
    }

    /// Sets it.
    pub fn set(&self, now: i64) {
        self.now.store(now, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }
}
