//! The memory of all queries together, and of one of them ([`StatementMemory`], where `statement_memory` is set).
//!
//! | who | may take |
//! |---|---|
//! | what can spill (sorts, aggregates, rows that are read several times) | three quarters, shared fairly; refused, it goes to disk |
//! | what cannot (hash joins, windows, the merges of sorted runs, the rows of a LIMIT) | what the others leave; refused, the query ends with 53200 |
//! | what waits between two partitions of a plan (`RepartitionExec`) | as much again, apart from the others |
//!
//! The quarter lets a sort that has filled its share still merge what it has spilled. What waits is apart since DataFusion 55
//! writes it to disk when it is refused, and with two writers at it the reader can wait for ever
//! ([issue 24883](https://github.com/apache/datafusion/issues/24883)). Its gates let a few batches wait for each
//! partition, so that it takes little unless one partition lags far behind.

mod held;
mod statement;
mod windows;

use std::fmt::{self, Display};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};

pub(crate) use held::{HeldTexts, own_bytes};
pub(crate) use statement::{STATEMENT_MEMORY, StatementMemory};
pub use windows::CountWindows;
pub(crate) use windows::WindowInputExec;

/// Consumers that an error about a lack of memory names.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);

/// A pool of this many bytes, whose errors name who holds most.
pub fn pool(limit: usize) -> TrackConsumersPool<QueryMemory> {
    TrackConsumersPool::new(QueryMemory::new(limit), CONSUMERS_NAMED)
}

/// The pool.
#[derive(Debug)]
pub struct QueryMemory {
    limit: usize,
    spillable: FairSpillPool,
    /// Bytes of what cannot spill.
    fixed: AtomicUsize,
    /// Bytes that wait between partitions.
    waiting: AtomicUsize,
}

enum Kind {
    Spillable,
    Fixed,
    Waiting,
}

impl QueryMemory {
    fn new(limit: usize) -> QueryMemory {
        QueryMemory {
            limit,
            spillable: FairSpillPool::new(limit / 4 * 3),
            fixed: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Takes bytes from a counter's limit.
    fn take(&self, counter: &AtomicUsize, limit: usize, name: &str, additional: usize) -> Result<()> {
        let within = |taken: usize| taken.checked_add(additional).filter(|taken| *taken <= limit);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).map(drop).map_err(|taken| {
            let left = limit.saturating_sub(taken);
            resources_datafusion_err!("{name} asked for {additional} more bytes, and {left} are left")
        })
    }
}

fn kind(consumer: &MemoryConsumer) -> Kind {
    match consumer.name().starts_with("RepartitionExec") {
        true => Kind::Waiting,
        false if consumer.can_spill() => Kind::Spillable,
        false => Kind::Fixed,
    }
}

/// How large a batch of rows should be at most, about: operators keep whole batches for the sake of a few rows, one for each
/// partition and each row of a LIMIT.
pub fn bytes_of_a_batch(pool: &dyn MemoryPool) -> usize {
    (limit_of(pool) / 128).clamp(LEAST_BATCH, LARGEST_BATCH)
}

/// Bytes that a pool gives away.
pub fn limit_of(pool: &dyn MemoryPool) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// A plan that reads more than this part of the memory does not repartition.
const PART: usize = 4;

/// Whether a plan that reads so many bytes may repartition its rows by hash.
pub fn may_repartition(bytes: usize, memory: usize) -> bool {
    bytes <= memory / PART
}

const LEAST_BATCH: usize = 64 << 10;
const LARGEST_BATCH: usize = 4 << 20;

impl Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query memory of {} bytes", self.limit)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if let Kind::Spillable = kind(consumer) {
            self.spillable.register(consumer);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if let Kind::Spillable = kind(consumer) {
            self.spillable.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        match kind(reservation.consumer()) {
            Kind::Spillable => self.spillable.grow(reservation, additional),
            Kind::Fixed => drop(self.fixed.fetch_add(additional, Ordering::Relaxed)),
            Kind::Waiting => drop(self.waiting.fetch_add(additional, Ordering::Relaxed)),
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        match kind(reservation.consumer()) {
            Kind::Spillable => self.spillable.shrink(reservation, shrink),
            Kind::Fixed => drop(self.fixed.fetch_sub(shrink, Ordering::Relaxed)),
            Kind::Waiting => drop(self.waiting.fetch_sub(shrink, Ordering::Relaxed)),
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let name = reservation.consumer().name();
        match kind(reservation.consumer()) {
            Kind::Spillable => {
                let left = self.limit.saturating_sub(self.fixed.load(Ordering::Relaxed) + self.spillable.reserved());
                if additional > left {
                    return Err(resources_datafusion_err!(
                        "{name} asked for {additional} more bytes, and {left} are left"
                    ));
                }
                self.spillable.try_grow(reservation, additional)
            }
            Kind::Fixed => {
                let limit = self.limit.saturating_sub(self.spillable.reserved());
                self.take(&self.fixed, limit, name, additional)
            }
            Kind::Waiting => self.take(&self.waiting, self.limit, name, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.spillable.reserved() + self.fixed.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn consumer(name: &str, spills: bool) -> MemoryConsumer {
        MemoryConsumer::new(name).with_can_spill(spills)
    }

    #[test]
    fn a_quarter_is_left_to_what_cannot_spill_and_what_waits_is_apart() {
        let pool: Arc<dyn MemoryPool> = Arc::new(pool(1000));
        let sort = consumer("ExternalSorter[0]", true).register(&pool);
        assert!(sort.try_grow(751).is_err());
        sort.try_grow(750).expect("three quarters");
        let merge = consumer("SortPreservingMergeExec[0]", false).register(&pool);
        merge.try_grow(250).expect("the rest");
        let error = merge.try_grow(1).expect_err("nothing is left").to_string();
        assert!(error.contains("SortPreservingMergeExec[0]") && error.contains("ExternalSorter[0]"), "{error}");
        let waiting = consumer("RepartitionExec[0]", true).register(&pool);
        waiting.try_grow(1000).expect("as much again");
        assert!(waiting.try_grow(1).is_err());
        sort.free();
        merge.try_grow(750).expect("what nobody else takes");
        assert!(sort.try_grow(1).is_err(), "what can spill does not take what is not there");
        merge.free();
        waiting.free();
        assert_eq!(pool.reserved(), 0);
    }
}
