//! A thread that lowers the priority of statements that have run for long.
//!
//! It sleeps while no statement runs. It belongs to no group of threads, so that no statement can delay it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::group::Priority;

/// The priority of a statement that has run for so long is lowered.
const LONG: Duration = Duration::from_millis(100);
/// How often the thread looks.
const TICK: Duration = Duration::from_millis(25);
/// How long the thread goes on looking when no statement runs: not every statement then has to wake it.
const LINGER: Duration = Duration::from_secs(1);

/// The watch over the statements that run. Its thread is begun with the first one and ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Watch {
    shared: Arc<WatchShared>,
}

#[derive(Debug, Default)]
struct WatchShared {
    state: Mutex<WatchState>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct WatchState {
    /// Those whose priority is as usual.
    running: Vec<(Instant, Arc<Priority>)>,
    thread: WatchThread,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum WatchThread {
    /// There is none, or it has ended.
    #[default]
    None,
    Looking,
    Asleep,
    /// It is to end.
    Ending,
}

impl Watch {
    /// A statement begins.
    pub(super) fn begin(&self, priority: &Arc<Priority>) {
        let mut state = self.shared.state.lock();
        state.running.push((Instant::now(), priority.clone()));
        match state.thread {
            WatchThread::None => {
                let shared = self.shared.clone();
                let thread = std::thread::Builder::new().name("keyspan-watch".into()).spawn(move || shared.look());
                // Without it all statements have the same priority, and the next one tries again.
                if thread.is_ok() {
                    state.thread = WatchThread::Looking;
                }
            }
            WatchThread::Asleep => {
                self.shared.woken.notify_one();
            }
            WatchThread::Looking | WatchThread::Ending => {}
        }
    }

    /// A statement ends.
    pub(super) fn end(&self, priority: &Arc<Priority>) {
        self.shared.state.lock().running.retain(|(_, running)| !Arc::ptr_eq(running, priority));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state.lock().thread = WatchThread::Ending;
        self.shared.woken.notify_one();
    }
}

impl WatchShared {
    fn look(&self) {
        let mut state = self.state.lock();
        let mut last_seen = Instant::now();
        while state.thread != WatchThread::Ending {
            let now = Instant::now();
            state.lower_long(now);
            if !state.running.is_empty() {
                last_seen = now;
            }
            if now.duration_since(last_seen) < LINGER {
                self.woken.wait_for(&mut state, TICK);
                continue;
            }
            state.thread = WatchThread::Asleep;
            self.woken.wait(&mut state);
            last_seen = Instant::now();
            if state.thread == WatchThread::Asleep {
                state.thread = WatchThread::Looking;
            }
        }
    }
}

impl WatchState {
    fn lower_long(&mut self, now: Instant) {
        self.running.retain(|(since, priority)| {
            let long = now.duration_since(*since) >= LONG;
            if long {
                priority.lower();
            }
            !long
        });
    }
}
