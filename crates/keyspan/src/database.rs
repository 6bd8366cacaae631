//! An open database: its store, its query engine, its row locks, its counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use keyspan_model::{Catalog, Error, RelationDef, RelationId, Result, TableId};
use keyspan_query::{QueryEngine, QuerySession};
use keyspan_seam::Store;
use keyspan_store::clock::Clock;
use keyspan_store::{EmbeddedStore, StoreOptions, StoreStats};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::gates::TableGates;
use crate::heat::Heat;
use crate::locks::LockTable;
use crate::metrics::{MetricCounters, Metrics};
use crate::peer::SessionRegistry;
use crate::rowid::RowIds;
use crate::sequences::SequenceNumbers;
use crate::stores::Stores;
use crate::threads::QueryThreads;
use crate::usage::Usage;

/// An open database. Clones are the same database.
#[derive(Clone, Debug)]
pub struct Database {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Its own store and those of attached keyspaces.
    stores: Arc<Stores>,
    /// The same, as everything that reads and writes sees them.
    store: Arc<dyn Store>,
    /// How stores of attached directories are opened.
    store_options: StoreOptions,
    /// The own store, where it is the embedded one: for what no other has.
    embedded: Option<Arc<EmbeddedStore>>,
    clock: Arc<dyn Clock>,
    engine: Arc<QueryEngine>,
    locks: Arc<LockTable>,
    gates: Arc<TableGates>,
    session_registry: Arc<SessionRegistry>,
    row_ids: RowIds,
    sequences: Arc<SequenceNumbers>,
    counts: AtomicCounters,
    heat: Arc<Heat>,
    usage: Arc<Usage>,
    metrics: Arc<MetricCounters>,
    next_context: AtomicU64,
    numbers: Mutex<Numbers>,
    threads: QueryThreads,
    refresh: ViewRefreshes,
    facts: OnceLock<Vec<(&'static str, String)>>,
}

/// The numbers that the next table, relation and column get: none that an open transaction has given to its own, which
/// only it sees.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    table: u32,
    relation: u32,
    column: u32,
}

impl Numbers {
    fn of(catalog: &Catalog) -> Numbers {
        Numbers { table: catalog.next_table, relation: catalog.next_relation, column: catalog.next_column }
    }

    fn exceed(self, other: Numbers) -> bool {
        self.table > other.table || self.relation > other.relation || self.column > other.column
    }

    fn or_greater(self, other: Numbers) -> Numbers {
        Numbers {
            table: self.table.max(other.table),
            relation: self.relation.max(other.relation),
            column: self.column.max(other.column),
        }
    }
}

/// Who refreshes materialized views.
#[derive(Debug)]
struct ViewRefreshes {
    /// Whether it is done in the background.
    wanted: bool,
    /// Whether that has begun.
    begun: AtomicBool,
    /// Held by who refreshes a view.
    views: Mutex<HashMap<TableId, Arc<tokio::sync::Mutex<()>>>>,
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

/// The counters, shared by all sessions.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounters {
    pub(crate) point_reads: AtomicU64,
    pub(crate) point_writes: AtomicU64,
    pub(crate) planned_statements: AtomicU64,
    pub(crate) compilations: AtomicU64,
    pub(crate) retries: AtomicU64,
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Database {
    /// A database over these.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        embedded: Option<Arc<EmbeddedStore>>,
        store_options: StoreOptions,
        engine: Arc<QueryEngine>,
    ) -> Database {
        let clock = store_options.clock.clone();
        let refreshes = store_options.background && store_options.threads;
        let stores = Arc::new(Stores::new(store));
        let store: Arc<dyn Store> = stores.clone();
        let sequences = Arc::new(SequenceNumbers::new(store.clone()));
        let locks: Arc<LockTable> = Arc::default();
        let heat = Arc::new(Heat::new(clock.clone()));
        let inner = Inner {
            stores,
            store,
            store_options,
            embedded,
            clock,
            engine,
            session_registry: Arc::new(SessionRegistry::new(locks.clone(), heat.clone())),
            heat,
            usage: Arc::default(),
            locks,
            gates: Arc::default(),
            row_ids: RowIds::default(),
            sequences,
            counts: AtomicCounters::default(),
            metrics: Arc::default(),
            next_context: AtomicU64::new(1),
            numbers: Mutex::default(),
            threads: QueryThreads::default(),
            refresh: ViewRefreshes { wanted: refreshes, begun: AtomicBool::new(false), views: Mutex::default() },
            facts: OnceLock::new(),
        };
        Database { inner: Arc::new(inner) }
    }

    /// Notes what SHOW tells of the database in sessions that begin later. Only the first call counts.
    pub(crate) fn set_facts(&self, facts: Vec<(&'static str, String)>) {
        let _ = self.inner.facts.set(facts);
    }

    /// What SHOW tells of the database.
    pub(crate) fn facts(&self) -> &[(&'static str, String)] {
        self.inner.facts.get().map_or(&[], Vec::as_slice)
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

    /// What the embedded store tells of itself.
    ///
    /// # Errors
    /// 0A000 for another kind of store.
    pub fn stats(&self) -> Result<StoreStats> {
        Ok(self.embedded("statistics of files and memory")?.stats())
    }

    /// Fails while nothing can be written any more until the database is opened again.
    ///
    /// # Errors
    /// What has broken the commit log.
    pub fn check_health(&self) -> Result<()> {
        match self.inner.embedded.as_ref().and_then(|store| store.failure()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
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

    /// What statements have done since the database was opened.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics.read()
    }

    pub(crate) fn metric_counters(&self) -> &Arc<MetricCounters> {
        &self.inner.metrics
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub(crate) fn stores(&self) -> &Arc<Stores> {
        &self.inner.stores
    }

    /// How its own store was opened.
    pub(crate) fn store_options(&self) -> &StoreOptions {
        &self.inner.store_options
    }

    /// The embedded store, or 0A000 that says what this database does not have without it.
    pub(crate) fn embedded(&self, what: &str) -> Result<&Arc<EmbeddedStore>> {
        let missing = || Error::not_supported(format!("the store of this database has no {what}"));
        self.inner.embedded.as_ref().ok_or_else(missing)
    }

    pub(crate) fn locks(&self) -> &Arc<LockTable> {
        &self.inner.locks
    }

    pub(crate) fn gates(&self) -> &Arc<TableGates> {
        &self.inner.gates
    }

    /// What all sessions have in common.
    pub(crate) fn session_registry(&self) -> &Arc<SessionRegistry> {
        &self.inner.session_registry
    }

    /// The catalog, in which new things get numbers that no open transaction has given.
    pub(crate) fn numbered(&self, catalog: Arc<Catalog>) -> Arc<Catalog> {
        let (taken, own) = (*self.inner.numbers.lock(), Numbers::of(&catalog));
        if !taken.exceed(own) {
            return catalog;
        }
        let Numbers { table, relation, column } = taken.or_greater(own);
        let numbered =
            Catalog { next_table: table, next_relation: relation, next_column: column, ..(*catalog).clone() };
        Arc::new(numbered)
    }

    /// Keeps others from giving the numbers that `next` has given, which was made of `before`. False if another session has
    /// given some of them meanwhile.
    pub(crate) fn take_numbers(&self, before: &Catalog, next: &Catalog) -> bool {
        let (before, next) = (Numbers::of(before), Numbers::of(next));
        let mut taken = self.inner.numbers.lock();
        let free = !next.exceed(before) || !taken.exceed(before);
        if free {
            *taken = taken.or_greater(next);
        }
        free
    }

    pub(crate) fn counts(&self) -> &AtomicCounters {
        &self.inner.counts
    }

    pub(crate) fn heat(&self) -> &Arc<Heat> {
        &self.inner.heat
    }

    pub(crate) fn usage(&self) -> &Arc<Usage> {
        &self.inner.usage
    }

    pub(crate) fn threads(&self) -> &QueryThreads {
        &self.inner.threads
    }

    /// Whether the refreshing of materialized views in the background is to begin: it is wanted, and nobody was told so
    /// before.
    pub(crate) fn begin_refreshing(&self) -> bool {
        self.inner.refresh.wanted && !self.inner.refresh.begun.swap(true, Ordering::SeqCst)
    }

    /// Waits until nobody else refreshes this view.
    pub(crate) async fn lock_refresh(&self, view: TableId) -> OwnedMutexGuard<()> {
        let lock = self.inner.refresh.views.lock().entry(view).or_default().clone();
        lock.lock_owned().await
    }

    /// A handle that does not keep the database open.
    pub(crate) fn downgrade(&self) -> WeakDatabase {
        WeakDatabase(Arc::downgrade(&self.inner))
    }

    /// The first of `rows` new consecutive numbers for rows of a table without a key.
    pub(crate) async fn new_row_ids(&self, relation: &RelationDef, rows: usize) -> Result<i64> {
        self.inner.row_ids.allocate(self.store(), relation, rows).await
    }

    /// Rows of a table without a key have the numbers up to this one.
    pub(crate) fn learn_row_ids(&self, relation: RelationId, last: u64) {
        self.inner.row_ids.learn(relation, i64::try_from(last).unwrap_or(i64::MAX - 1));
    }

    /// The numbers of sequences.
    pub(crate) fn sequences(&self) -> &Arc<SequenceNumbers> {
        &self.inner.sequences
    }

    /// A number that no other context of this database has.
    pub(crate) fn new_context_id(&self) -> u64 {
        self.inner.next_context.fetch_add(1, Ordering::Relaxed)
    }

    /// The queries of one context.
    pub(crate) fn begin_queries(&self) -> QuerySession {
        self.inner.engine.session()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Microseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.inner.clock.now()
    }
}
