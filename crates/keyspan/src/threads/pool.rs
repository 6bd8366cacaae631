//! The groups of threads of a database: handed out, taken back, begun when none is free.

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::task::{JoinError, JoinHandle};

use super::group::ThreadGroup;
use super::watch::Watch;

/// Groups that are kept for statements to come.
const KEPT: usize = 4;

/// The groups that no statement has.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) free: Mutex<Vec<ThreadGroup>>,
    watch: OnceLock<Watch>,
}

impl Pool {
    /// Begins work on a group that nobody else has until it ends; `None` if the system has no threads left.
    pub(super) fn begin<T: Send + 'static>(
        pool: &Arc<Pool>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<GroupWork<T>> {
        let group = pool.take().or_else(|| ThreadGroup::new(cores()))?;
        group.begin();
        pool.watch.get_or_init(Watch::default).begin(group.priority());
        let task = group.spawn(work);
        Some(GroupWork { task, group: Some(group), pool: pool.clone() })
    }

    fn take(&self) -> Option<ThreadGroup> {
        let mut free = self.free.lock();
        let at = free.iter().rposition(ThreadGroup::is_free)?;
        Some(free.swap_remove(at))
    }

    /// Takes a group back. What its statement has left running is ended; until it is, nobody gets the group.
    fn give_back(&self, group: ThreadGroup) {
        group.interrupt();
        if group.priority().is_lowered() {
            return;
        }
        let mut free = self.free.lock();
        if free.len() >= KEPT
            && let Some(busy) = free.iter().position(|group| !group.is_free())
        {
            free.swap_remove(busy);
        }
        if free.len() < KEPT {
            free.push(group);
        }
    }
}

/// How many threads a group has. Asking the system takes long beside a short query.
pub(super) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Work on a group of threads. Dropping it ends the work.
pub(super) struct GroupWork<T> {
    task: JoinHandle<T>,
    /// `None` only while it is dropped.
    group: Option<ThreadGroup>,
    pool: Arc<Pool>,
}

impl<T> Future for GroupWork<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context)
    }
}

impl<T> Drop for GroupWork<T> {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(group) = self.group.take() {
            if let Some(watch) = self.pool.watch.get() {
                watch.end(group.priority());
            }
            self.pool.give_back(group);
        }
    }
}
