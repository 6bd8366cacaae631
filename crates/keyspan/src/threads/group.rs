//! A group of threads that one statement has for itself while it runs.
//!
//! The operating system divides the cores among the groups, so that no statement waits until another yields. A
//! group whose statement has run for long gets a lower priority, so that short ones come first. The priority of a
//! thread cannot be raised again, so such a group ends with its statement.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keyspan_query::interrupt::Interrupt;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::priority;

/// How long an error waits for the tasks of its statement. They end at their next yield.
const REST: Duration = Duration::from_secs(1);

/// The threads of one statement.
#[derive(Debug)]
pub(super) struct ThreadGroup {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    interrupt: Interrupt,
    priority: Arc<Priority>,
}

/// The priority of a group's threads.
#[derive(Debug, Default)]
pub(super) struct Priority {
    threads: Mutex<Vec<priority::Thread>>,
    lowered: AtomicBool,
}

impl ThreadGroup {
    /// A group of so many threads, of usual priority; `None` if the system has no threads left.
    pub(super) fn new(threads: usize) -> Option<ThreadGroup> {
        let (interrupt, priority) = (Interrupt::default(), Arc::<Priority>::default());
        let (watched, members) = (interrupt.clone(), priority.clone());
        let begin = move || {
            watched.watch_on_this_thread();
            keyspan_store::wait_on_this_thread();
            members.join();
        };
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("keyspan-query").thread_stack_size(super::STACK);
        builder.enable_time().on_thread_start(begin);
        Some(ThreadGroup { runtime: Some(builder.build().ok()?), interrupt, priority })
    }

    /// Begins work on these threads.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.runtime().spawn(work)
    }

    /// Ends what still runs here.
    pub(super) fn interrupt(&self) {
        self.interrupt.raise();
    }

    /// Whether nothing runs here, and the next statement would run as soon as any other.
    pub(super) fn is_free(&self) -> bool {
        !self.priority.is_lowered() && self.runtime().metrics().num_alive_tasks() == 0
    }

    /// Makes ready for the next statement.
    pub(super) fn begin(&self) {
        self.interrupt.clear();
    }

    pub(super) fn priority(&self) -> &Arc<Priority> {
        &self.priority
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only by drop")
    }
}

/// Waits, in a task of a group, until the group's other tasks have ended: a plan that is dropped aborts its tasks,
/// which then hold their memory until they yield. So the memory is free when the client is
/// told of the error.
pub(super) async fn wait_for_tasks() {
    let metrics = Handle::current().metrics();
    let until = Instant::now() + REST;
    while metrics.num_alive_tasks() > 1 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.interrupt.raise();
        // Without waiting: a statement may end inside a task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Priority {
    /// Lets the threads run after all others that want to.
    pub(super) fn lower(&self) {
        let threads = self.threads.lock();
        self.lowered.store(true, Ordering::Relaxed);
        threads.iter().copied().for_each(priority::lower);
    }

    pub(super) fn is_lowered(&self) -> bool {
        self.lowered.load(Ordering::Relaxed)
    }

    /// The calling thread is one of the group.
    fn join(&self) {
        let Some(thread) = priority::current() else { return };
        let mut threads = self.threads.lock();
        threads.push(thread);
        if self.is_lowered() {
            priority::lower(thread);
        }
    }
}
