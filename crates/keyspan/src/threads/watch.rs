//! The thread that looks after how long statements run, and lowers the priority of those that have run for long.
//!
//! It sleeps as long as no statement runs. It stands apart from all others, so that no statement keeps it from its work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::group::Priority;

/// A statement that runs longer gives way to others.
const LONG: Duration = Duration::from_millis(100);
/// How often is looked.
const TICK: Duration = Duration::from_millis(25);
/// It looks on for so long without a statement, so that not each one has to wake it.
const LINGER: Duration = Duration::from_secs(1);

/// The watch over the statements that run. Its thread is begun with the first one and ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Watch {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those whose priority is as usual.
    running: Vec<(Instant, Arc<Priority>)>,
    thread: Watcher,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Watcher {
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
            Watcher::None => {
                let shared = self.shared.clone();
                let thread = std::thread::Builder::new().name("keyspan-watch".into()).spawn(move || shared.look());
                // Without it all statements have the same priority, and the next one tries again.
                if thread.is_ok() {
                    state.thread = Watcher::Looking;
                }
            }
            Watcher::Asleep => {
                self.shared.woken.notify_one();
            }
            Watcher::Looking | Watcher::Ending => {}
        }
    }

    /// A statement ends.
    pub(super) fn end(&self, priority: &Arc<Priority>) {
        self.shared.state.lock().running.retain(|(_, running)| !Arc::ptr_eq(running, priority));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state.lock().thread = Watcher::Ending;
        self.shared.woken.notify_one();
    }
}

impl Shared {
    fn look(&self) {
        let mut state = self.state.lock();
        let mut last_seen = Instant::now();
        while state.thread != Watcher::Ending {
            let now = Instant::now();
            state.lower_long(now);
            if !state.running.is_empty() {
                last_seen = now;
            }
            if now.duration_since(last_seen) < LINGER {
                self.woken.wait_for(&mut state, TICK);
                continue;
            }
            state.thread = Watcher::Asleep;
            self.woken.wait(&mut state);
            last_seen = Instant::now();
            if state.thread == Watcher::Asleep {
                state.thread = Watcher::Looking;
            }
        }
    }
}

impl State {
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
