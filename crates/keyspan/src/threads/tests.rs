//! Statements do not wait for each other, end when they are told to, and give way when they run for long.

use std::time::{Duration, Instant};

use super::*;
use crate::cancel::CancelHandle;

/// Work that keeps its thread for so long, as a join's inner loop does.
async fn busy(time: Duration) -> Result<()> {
    std::thread::sleep(time);
    Ok(())
}

#[tokio::test]
async fn work_that_never_yields_does_not_hold_up_its_cancel() {
    let threads = QueryThreads::default();
    let handle = CancelHandle::default();
    let running = handle.begin(Some(Duration::from_millis(20)));
    let start = Instant::now();
    let error = running.guard(threads.run(busy(Duration::from_secs(3)))).await.expect_err("timed out");
    assert_eq!(error.sqlstate(), "57014");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn work_that_never_yields_does_not_hold_up_others() {
    let threads = QueryThreads::default();
    let long: Vec<_> = (0..16).map(|_| threads.begin(busy(Duration::from_secs(30))).expect("threads")).collect();
    let start = Instant::now();
    assert_eq!(threads.run(async { Ok(1) }).await, Ok(1));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    drop(long);
}

#[tokio::test]
async fn a_group_that_is_still_busy_is_given_to_nobody() {
    let threads = QueryThreads::default();
    let (done, waits) = std::sync::mpsc::channel::<()>();
    let (begun, beginning) = oneshot::channel();
    let work = async move {
        let _ = begun.send(());
        waits.recv().is_ok()
    };
    let long = threads.begin(work).expect("threads");
    beginning.await.expect("the work begins");
    drop(long);
    assert!(threads.groups.free.lock().iter().all(|group| !group.is_free()));
    assert_eq!(threads.run(async { Ok(1) }).await, Ok(1));
    drop(done);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn long_work_gives_way_and_its_threads_end_with_it() {
    let threads = QueryThreads::default();
    let nice = || {
        rustix::process::getpriority_process(Some(rustix::thread::gettid()))
            .map_err(|error| Error::internal(error.to_string()))
    };
    let usual = threads.run(async move { nice() }).await.expect("a number");
    if usual >= 10 {
        // The tests themselves run under `nice`: there is no lower priority to give.
        return;
    }
    let lowered = threads.run(async move {
        while nice()? == usual {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    lowered.await.expect("some time");
    assert_eq!(threads.run(async move { nice() }).await, Ok(usual));
}

#[tokio::test]
async fn a_panic_before_the_rows_is_a_panic_too() {
    let threads = QueryThreads::default();
    let begun = tokio::spawn(async move { threads.stream(async { panic!("a defect") }).await.map(drop) });
    assert!(begun.await.expect_err("a panic").is_panic());
}

#[tokio::test]
async fn a_panic_among_the_rows_is_not_their_end() {
    let threads = QueryThreads::default();
    let broken = || Ok(Box::pin(futures::stream::poll_fn(|_| panic!("a defect"))) as BatchStream);
    let stream = threads.begin_stream(broken).expect("threads");
    let read = tokio::spawn(stream.collect::<Vec<_>>());
    assert!(read.await.expect_err("a panic").is_panic());
}

#[tokio::test]
async fn an_error_comes_when_nothing_of_its_statement_is_left() {
    let threads = QueryThreads::default();
    let held = Arc::new(());
    let task = held.clone();
    let work = async move {
        let (begun, beginning) = oneshot::channel();
        // As an operator's task does: it is aborted with the plan, but holds what it has until its next yield.
        let operator = tokio::spawn(async move {
            let _ = begun.send(());
            std::thread::sleep(Duration::from_millis(100));
            tokio::task::yield_now().await;
            drop(task);
        });
        let _ = beginning.await;
        operator.abort();
        Err::<(), _>(closing())
    };
    assert!(threads.run(work).await.is_err());
    assert_eq!(Arc::strong_count(&held), 1, "the task still holds its memory");
}
