//! An open database: its store, its query engine, its row locks, its counters.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use keyspan_model::{Catalog, RelationDef, Result};
use keyspan_query::{QueryEngine, QueryOptions, QuerySession};
use keyspan_store::clock::Clock;
use keyspan_store::seam::Store;
use keyspan_store::{EmbeddedStore, StoreOptions, StoreStats};

use crate::locks::LockTable;
use crate::rollup::{self, Rollups};
use crate::rowid::RowIds;
use crate::threads::QueryThreads;

/// How a database is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Memory, cache, log and clock of the store.
    pub store: StoreOptions,
    /// Memory, threads and spill directory of queries.
    pub query: QueryOptions,
}

/// An open database. Clones are the same database.
#[derive(Clone, Debug)]
pub struct Database {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<EmbeddedStore>,
    clock: Arc<dyn Clock>,
    engine: Arc<QueryEngine>,
    locks: Arc<LockTable>,
    row_ids: RowIds,
    counts: Counts,
    next_context: AtomicU64,
    threads: QueryThreads,
    rollups: Rollups,
    refreshes: bool,
}

/// A handle that does not keep the database open.
#[derive(Clone, Debug)]
pub(crate) struct WeakDatabase(Weak<Inner>);

impl WeakDatabase {
    /// The database, if it is still open.
    pub(crate) fn upgrade(&self) -> Option<Database> {
        self.0.upgrade().map(|inner| Database { inner })
    }
}

/// What the database has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// SELECTs by whole key that went straight to the store.
    pub point_reads: u64,
    /// INSERTs, UPDATEs and DELETEs by whole key that needed no planner.
    pub point_writes: u64,
    /// Statements that DataFusion planned.
    pub planned_statements: u64,
    /// Plans made for expressions outside of queries: values, assignments, conditions, checks.
    pub compilations: u64,
    /// Statements that were run again because another write came between.
    pub retries: u64,
}

/// The counters as they count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) point_reads: AtomicU64,
    pub(crate) point_writes: AtomicU64,
    pub(crate) planned_statements: AtomicU64,
    pub(crate) compilations: AtomicU64,
    pub(crate) retries: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Database {
    /// Opens the database in a directory, which is made if it does not exist. Blocks while the commit log is replayed.
    ///
    /// # Errors
    /// 55006 if another process has it open, XX002 for a newer format, XX001 naming a damaged file.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, Options::default())
    }

    /// As [`Database::open`], with options.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let store = EmbeddedStore::open(path, options.store.clone())?;
        Database::over(store, options)
    }

    /// A database in memory, gone when its last clone and session are.
    pub fn in_memory() -> Result<Database> {
        Database::in_memory_with(Options::default())
    }

    /// As [`Database::in_memory`], with options.
    pub fn in_memory_with(options: Options) -> Result<Database> {
        let store = EmbeddedStore::in_memory(options.store.clone())?;
        Database::over(store, options)
    }

    fn over(store: Arc<EmbeddedStore>, options: Options) -> Result<Database> {
        let mut query = options.query;
        query.parser.get_or_insert(crate::names::parse_query);
        let database = Database {
            inner: Arc::new(Inner {
                store,
                clock: options.store.clock,
                engine: QueryEngine::new(query)?,
                locks: Arc::default(),
                row_ids: RowIds::default(),
                counts: Counts::default(),
                next_context: AtomicU64::new(1),
                threads: QueryThreads::default(),
                rollups: Rollups::default(),
                refreshes: options.store.background && options.store.threads,
            }),
        };
        if database.catalog().views.values().any(|view| view.rollup.is_some()) {
            rollup::look_after(&database)?;
        }
        Ok(database)
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.store.catalog()
    }

    /// Writes what is in memory out as segments.
    pub async fn flush(&self) -> Result<()> {
        self.inner.store.flush().await
    }

    /// Flushes, then merges the segments of every table as far as they can be.
    pub async fn compact(&self) -> Result<()> {
        self.inner.store.compact().await
    }

    /// Makes everything durable and frees the directory. Blocking; later calls on sessions fail.
    pub fn close(&self) -> Result<()> {
        self.inner.store.close()
    }

    /// What the store tells of itself.
    pub fn stats(&self) -> StoreStats {
        self.inner.store.stats()
    }

    /// What has been done since the database was opened.
    pub fn counters(&self) -> Counters {
        let counts = &self.inner.counts;
        Counters {
            point_reads: counts.point_reads.load(Ordering::Relaxed),
            point_writes: counts.point_writes.load(Ordering::Relaxed),
            planned_statements: counts.planned_statements.load(Ordering::Relaxed),
            compilations: counts.compilations.load(Ordering::Relaxed),
            retries: counts.retries.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn store(&self) -> &Arc<EmbeddedStore> {
        &self.inner.store
    }

    pub(crate) fn locks(&self) -> &Arc<LockTable> {
        &self.inner.locks
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    pub(crate) fn threads(&self) -> &QueryThreads {
        &self.inner.threads
    }

    pub(crate) fn rollups(&self) -> &Rollups {
        &self.inner.rollups
    }

    /// Whether materialized views are refreshed in the background.
    pub(crate) fn refreshes(&self) -> bool {
        self.inner.refreshes
    }

    /// A handle that does not keep the database open.
    pub(crate) fn downgrade(&self) -> WeakDatabase {
        WeakDatabase(Arc::downgrade(&self.inner))
    }

    /// The first of `rows` new consecutive numbers for rows of a table without a key.
    pub(crate) async fn new_row_ids(&self, relation: &RelationDef, rows: usize) -> Result<i64> {
        self.inner.row_ids.allocate(self.store(), relation, rows).await
    }

    /// A number that no other context of this database has.
    pub(crate) fn new_context_id(&self) -> u64 {
        self.inner.next_context.fetch_add(1, Ordering::Relaxed)
    }

    /// The queries of one context.
    pub(crate) fn begin_queries(&self) -> QuerySession {
        self.inner.engine.session()
    }

    /// Microseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.inner.clock.now()
    }
}
