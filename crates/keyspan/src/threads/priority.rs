//! The priority of single threads, where the system has such a thing: Linux. Elsewhere all threads are equal.

pub(super) use system::{Thread, current, lower};

#[cfg(target_os = "linux")]
mod system {
    use rustix::process::setpriority_process;
    use rustix::thread::gettid;

    /// How nice long statements are: a core that others want gives them a tenth of its time.
    const NICE: i32 = 10;

    pub(in super::super) type Thread = rustix::thread::Pid;

    pub(in super::super) fn current() -> Option<Thread> {
        Some(gettid())
    }

    /// To Linux a thread is a process of its own. A thread that is gone needs no priority.
    pub(in super::super) fn lower(thread: Thread) {
        let _ = setpriority_process(Some(thread), NICE);
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) enum Thread {}

    pub(in super::super) fn current() -> Option<Thread> {
        None
    }

    pub(in super::super) fn lower(thread: Thread) {
        match thread {}
    }
}
