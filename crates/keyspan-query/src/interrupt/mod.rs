//! Stopping the work of a statement that has ended, where that work does not yield.
//!
//! A statement's task is stopped at its next yield, and operators of DataFusion can be busy for minutes between two: a nested
//! loop join compares one batch of its probe side with all rows of its build side without a pause. So the threads that run a
//! statement share an [`Interrupt`], as a PostgreSQL backend has its `InterruptPending`. Whoever ends the statement raises
//! it, and long loops call [`check`].
//!
//! | what may be busy for long | what stops it |
//! |---|---|
//! | one batch of a scan, sort, aggregate or window | the task's next yield: each takes a bounded time |
//! | a join that makes many rows of few | a `CooperativeExec` above it, so that its task yields |
//! | a join whose condition few pairs meet | [`condition`]: the condition asks before each piece of pairs |
//! | a series of many rows, which is made while the statement is planned | [`check`] between its rows |
//! | a semi or anti join without a condition | [`pace`]: batches of its probe side are cut to what takes milliseconds |
//!
//! [`StopJoins`] puts these into a plan.

mod condition;
mod pace;
mod rule;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyspan_model::{Error, ErrorKind, Result};

pub(crate) use pace::PaceExec;
pub use rule::StopJoins;

thread_local! {
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// Tells the threads of a statement that it has ended. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Makes this the interrupt that [`check`] looks at on the calling thread, from now on.
    pub fn watch_on_this_thread(&self) {
        CURRENT.set(Some(self.clone()));
    }

    /// Ends what runs on the threads that watch it.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Lets the next statement run on these threads.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Fails once the statement that runs on this thread has ended. On a thread that watches no interrupt it never does.
///
/// # Errors
/// 57014. Nobody reads it: whoever ended the statement has answered.
pub(crate) fn check() -> Result<()> {
    let raised = CURRENT.with_borrow(|current| current.as_ref().is_some_and(|it| it.0.load(Ordering::Relaxed)));
    match raised {
        true => Err(Error::new(ErrorKind::Canceled, "canceling statement due to user request")),
        false => Ok(()),
    }
}

/// Whether the calling thread may be made to wait: it is one of a query, which [`check`] can stop.
pub(crate) fn is_watched() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_watch_an_interrupt_are_stopped() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        assert!(check().is_ok());
        interrupt.watch_on_this_thread();
        assert!(check().is_err());
        interrupt.clear();
        assert!(check().is_ok());
    }
}
