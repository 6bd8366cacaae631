//! The memory of one statement: what it takes of all queries' memory, and no more than its own limit.

use std::fmt::{self, Display};
use std::sync::Arc;

use datafusion::common::resources_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use super::{QueryMemory, limit_of};

/// The setting that is named where its limit is reached.
pub(crate) const STATEMENT_MEMORY: &str = "statement_memory";

/// A pool within another one.
#[derive(Debug)]
pub(crate) struct StatementMemory {
    all: Arc<dyn MemoryPool>,
    own: QueryMemory,
}

impl StatementMemory {
    /// Bytes of `all`, at most `limit`.
    pub(crate) fn new(all: Arc<dyn MemoryPool>, limit: usize) -> StatementMemory {
        StatementMemory { all, own: QueryMemory::new(limit) }
    }
}

impl Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.own, self.all)
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &str {
        "statement memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own.try_grow(reservation, additional).map_err(|error| match error {
            DataFusionError::ResourcesExhausted(message) => resources_datafusion_err!("{STATEMENT_MEMORY}: {message}"),
            other => other,
        })?;
        self.all.try_grow(reservation, additional).inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(limit_of(&self.own).min(limit_of(self.all.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool;
    use super::*;

    #[test]
    fn a_statement_takes_of_the_whole_and_has_a_limit_of_its_own() {
        let all: Arc<dyn MemoryPool> = Arc::new(pool(1000));
        let own: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(all.clone(), 100));
        let join = MemoryConsumer::new("HashJoinInput").register(&own);
        join.try_grow(100).expect("all of its own");
        assert_eq!((own.reserved(), all.reserved()), (100, 100));
        let error = join.try_grow(1).expect_err("no more").to_string();
        assert!(error.contains(STATEMENT_MEMORY), "{error}");
        let others = MemoryConsumer::new("HashJoinInput").register(&all);
        others.try_grow(880).expect("the statement has left it");
        join.shrink(50);
        assert!(join.try_grow(80).is_err());
        others.try_grow(50).expect("what the statement gave back");
        let error = join.try_grow(40).expect_err("the whole is used up").to_string();
        assert!(!error.contains(STATEMENT_MEMORY), "{error}");
        assert_eq!((own.reserved(), all.reserved()), (50, 980));
        drop((join, others));
        assert_eq!((own.reserved(), all.reserved()), (0, 0));
    }

    #[test]
    fn what_can_spill_leaves_a_quarter_of_its_statement() {
        let own: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(Arc::new(pool(1000)), 100));
        let sort = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&own);
        assert!(sort.try_grow(76).is_err());
        sort.try_grow(75).expect("three quarters");
        MemoryConsumer::new("SortPreservingMergeExec[0]").register(&own).try_grow(25).expect("the rest");
    }
}
