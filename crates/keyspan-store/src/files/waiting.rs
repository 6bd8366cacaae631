//! Which threads may wait for a disk.
//!
//! The threads of queries, of flushes and of compactions may: nobody else needs them. A task that serves a client shares its
//! thread with the tasks of other clients. What it reads is tried in memory first ([`in_memory`]); where that is not
//! enough, it is read anew on a thread that may wait ([`on_disk`]).

use std::cell::Cell;

use keyspan_model::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::Shared) };
}

/// What the thread may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// Tasks share it, if there is a runtime.
    Shared,
    /// It may wait.
    Waiting,
    /// It tries to do without a disk.
    Trying,
    /// It has tried, and failed.
    Refused,
}

/// Lets the calling thread wait for disks from now on.
pub fn wait_on_this_thread() {
    THREAD.set(Thread::Waiting);
}

/// Whether the calling thread may wait.
pub(crate) fn may_wait() -> bool {
    THREAD.get() == Thread::Waiting || Handle::try_current().is_err()
}

/// What the work answers, if it needs no disk or the thread may wait; else `None`, and it is to be done anew.
pub(crate) fn in_memory<T>(work: impl FnOnce() -> T) -> Option<T> {
    if THREAD.get() != Thread::Shared || Handle::try_current().is_err() {
        return Some(work());
    }
    let tried = Tried::begin();
    let answer = work();
    (!tried.is_refused()).then_some(answer)
}

/// Work on a thread that may wait. To be called in a runtime.
pub(crate) fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        wait_on_this_thread();
        work()
    })
}

/// The answer of such work. A panic goes on here.
pub(crate) fn answered<T>(joined: std::result::Result<T, tokio::task::JoinError>) -> Result<T> {
    joined.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Error::internal("the runtime ended while a read waited for the disk"),
    })
}

/// Asks, before a disk is read, whether the thread may wait for it.
pub(super) fn ask(name: &str) -> Result<()> {
    match THREAD.get() {
        Thread::Shared | Thread::Waiting => Ok(()),
        Thread::Trying | Thread::Refused => {
            THREAD.set(Thread::Refused);
            Err(Error::internal(format!("{name} is not in memory")))
        }
    }
}

/// Whether a read has been refused, so that what was learnt from it must not be kept.
pub(crate) fn is_refused() -> bool {
    THREAD.get() == Thread::Refused
}

/// Until it is dropped the thread tries to do without a disk.
struct Tried;

impl Tried {
    fn begin() -> Tried {
        THREAD.set(Thread::Trying);
        Tried
    }

    fn is_refused(&self) -> bool {
        is_refused()
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        THREAD.set(Thread::Shared);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Files, LocalFiles};
    use super::*;

    #[tokio::test]
    async fn a_shared_thread_leaves_the_disk_to_others() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("data"), b"abc").expect("writes");
        let files = LocalFiles::new(dir.path()).expect("opens");
        assert!(in_memory(|| files.read("data")).is_none());
        assert_eq!(in_memory(|| 7), Some(7));
        // What is not tried in memory is read where it is asked for.
        assert_eq!(files.read("data").expect("reads"), "abc");
        let read = answered(on_disk(move || files.read("data")).await).expect("ends").expect("reads");
        assert_eq!(read, "abc");
    }

    #[test]
    fn without_a_runtime_every_thread_may_wait() {
        assert!(may_wait());
        assert_eq!(in_memory(|| 7), Some(7));
    }
}
