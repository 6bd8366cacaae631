//! Transactions: what BEGIN opens and COMMIT writes in one atomic step.
//!
//! ```text
//! statement ─▶ own writes (mutations, preconditions) ──COMMIT──▶ Store::apply
//!     ▲              │                                            with own DDL: catalog_merge ─▶ Store::change
//!     └─ snapshot ◀──┘ READ COMMITTED: a new one per statement; REPEATABLE READ, SERIALIZABLE: one
//! ```
//!
//! The rule: nothing of a transaction is in the store before COMMIT, so ROLLBACK only forgets. Each statement has its
//! own stamp, so that of two writes to one cell that of the later statement wins.

mod batch;
mod catalog_merge;
mod savepoint;
mod watch;

use std::sync::Arc;

use keyspan_cql::{IsolationLevel, TransactionModes};
use keyspan_model::{
    Catalog, Error, ErrorKind, Mutation, RelationId, Result, Span, Stamp, TableDef, Unchanged, WriteBatch,
};
use keyspan_seam::{ReadAt, Snapshot, Store};
use parking_lot::Mutex;

use crate::depend;
use crate::locks::{HeldLocks, LockTable};
use crate::settings::Settings;

pub(crate) use batch::{OpenBatch, no_batch};
pub(crate) use catalog_merge::OwnCatalog;
pub(crate) use savepoint::SavedSession;
use savepoint::Savepoint;
use watch::ReadTracker;

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// Whether it was opened for a text of several statements, not by BEGIN.
    implicit: bool,
    /// Only ROLLBACK helps.
    pub(crate) failed: bool,
    isolation: IsolationLevel,
    read_only: bool,
    /// When it began, in microseconds since 1970: `now()`.
    pub(crate) began: i64,
    /// Whether a statement has run in it: then its isolation is fixed.
    started: bool,
    writes: WriteBatch,
    /// Number of the running statement: its stamp.
    statement: u32,
    locks: HeldLocks,
    /// The catalog with own changes.
    catalog: Option<OwnCatalog>,
    savepoints: Vec<Savepoint>,
    /// What SET changed, to be put back: the settings as BEGIN found them.
    settings: Settings,
    /// What SET LOCAL changed, to be put back at the end: names with the values COMMIT restores.
    local: Vec<(String, String)>,
    /// The one snapshot of REPEATABLE READ and SERIALIZABLE.
    fixed: Option<Arc<dyn Snapshot>>,
    /// What SERIALIZABLE has read.
    reads: Arc<Mutex<Vec<Unchanged>>>,
    /// A BATCH that is open.
    batch: Option<OpenBatch>,
}

/// What a transaction leaves when it ends.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its own catalog.
    pub(crate) catalog: Option<OwnCatalog>,
    /// Writes to relations that still exist, and all preconditions.
    pub(crate) batch: WriteBatch,
    pub(crate) locks: HeldLocks,
    /// The settings as BEGIN found them.
    pub(crate) settings: Settings,
    /// What SET LOCAL changed: names with the values COMMIT restores.
    pub(crate) local: Vec<(String, String)>,
}

impl Transaction {
    /// A transaction that begins now, in microseconds since 1970, with these settings.
    pub(crate) fn new(modes: TransactionModes, settings: &Settings, locks: &Arc<LockTable>, now: i64) -> Transaction {
        Transaction {
            implicit: false,
            failed: false,
            isolation: modes.isolation.unwrap_or(IsolationLevel::ReadCommitted),
            read_only: modes.read_only.unwrap_or(false),
            began: now,
            started: false,
            writes: WriteBatch::default(),
            statement: 0,
            locks: HeldLocks::none(locks.clone()),
            catalog: None,
            savepoints: Vec::new(),
            settings: settings.clone(),
            local: Vec::new(),
            fixed: None,
            reads: Arc::default(),
            batch: None,
        }
    }

    /// Whether it was opened for a text of several statements, not by BEGIN.
    pub(crate) fn is_implicit(&self) -> bool {
        self.implicit
    }

    /// Says whether it is a text's of several statements, or BEGIN's.
    pub(crate) fn set_implicit(&mut self, implicit: bool) {
        self.implicit = implicit;
    }

    /// Begins a statement; `sees` is whether it reads or writes tables, after which the isolation is fixed.
    pub(crate) fn begin_statement(&mut self, sees: bool) {
        if self.blind_batch().is_none() {
            self.statement += 1;
        }
        self.started |= sees;
    }

    /// Its isolation level, and whether it only reads.
    pub(crate) fn modes(&self) -> TransactionModes {
        TransactionModes { isolation: Some(self.isolation), read_only: Some(self.read_only), deferrable: None }
    }

    /// Its isolation level.
    pub(crate) fn isolation(&self) -> IsolationLevel {
        self.isolation
    }

    /// Whether it only reads.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Changes its modes.
    ///
    /// # Errors
    /// 25001 for a change that comes after its first query.
    pub(crate) fn set_modes(&mut self, modes: TransactionModes) -> Result<()> {
        match modes.isolation {
            Some(level) if level != self.isolation && self.started => {
                let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(Error::new(ErrorKind::ActiveTransaction, message));
            }
            Some(level) => self.isolation = level,
            None => {}
        }
        match modes.read_only {
            Some(false) if self.read_only && self.started => {
                let message = "transaction read-write mode must be set before any query";
                return Err(Error::new(ErrorKind::ActiveTransaction, message));
            }
            Some(read_only) => self.read_only = read_only,
            None => {}
        }
        Ok(())
    }

    /// The catalog with the transaction's own changes, if it has made any.
    pub(crate) fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog.as_ref().map(|catalog| &catalog.own)
    }

    /// Takes over a changed catalog; `before` is what it was made from.
    pub(crate) fn set_catalog(&mut self, before: &Arc<Catalog>, catalog: Catalog) {
        let base = self.catalog.as_ref().map_or(before, |catalog| &catalog.base).clone();
        let own = Arc::new(Catalog { version: base.version + 1, ..catalog });
        self.catalog = Some(OwnCatalog { base, own });
    }

    /// The running statement's write timestamp: in a BATCH that of all its statements.
    pub(crate) fn stamp(&self) -> Stamp {
        self.blind_batch().map_or(Stamp::Server(self.statement), OpenBatch::stamp)
    }

    /// The running statement's write timestamp, but for one that a BATCH has of its own.
    pub(crate) fn server_stamp(&self) -> Stamp {
        Stamp::Server(self.statement)
    }

    /// Adds a statement's writes. A load takes several statement numbers: the next statement comes after all of them.
    pub(crate) fn write(&mut self, mut batch: WriteBatch) {
        if let Some(open) = self.batch.as_mut().filter(|open| !open.is_of_counters()) {
            return open.write(batch);
        }
        let last = batch.mutations.iter().map(Mutation::last_statement).max();
        self.statement = self.statement.max(last.unwrap_or(0));
        self.writes.mutations.append(&mut batch.mutations);
        self.writes.unchanged.append(&mut batch.unchanged);
        // Of the tables that it has made or changed itself, COMMIT finds what others have changed.
        let base = self.catalog.as_ref().map(|catalog| &catalog.base);
        let is_others = |table: &Arc<TableDef>| base.is_none_or(|base| base.tables.get(&table.id) == Some(table));
        let known = &mut self.writes.definitions;
        let is_new = |table: &Arc<TableDef>| !known.iter().any(|known| Arc::ptr_eq(known, table));
        batch.definitions.retain(|table| is_new(table) && is_others(table));
        known.append(&mut batch.definitions);
    }

    /// As [`Transaction::write`]; with one snapshot, nobody else may have written the same rows since it was taken.
    pub(crate) fn write_checked(&mut self, store: &Arc<dyn Store>, mut batch: WriteBatch) -> Result<()> {
        if self.has_one_snapshot() {
            let seq = self.fixed_snapshot(store)?.seq();
            let spans = batch.mutations.iter().map(span_of).collect::<Vec<_>>();
            batch.unchanged.extend(spans.into_iter().map(|(relation, span)| Unchanged { relation, span, seq }));
        }
        self.write(batch);
        Ok(())
    }

    fn fixed_snapshot(&mut self, store: &Arc<dyn Store>) -> Result<Arc<dyn Snapshot>> {
        match &self.fixed {
            Some(fixed) => Ok(fixed.clone()),
            None => Ok(self.fixed.insert(store.snapshot(ReadAt::Acknowledged)?).clone()),
        }
    }

    /// Its one snapshot, if it has taken that.
    pub(crate) fn fixed(&self) -> Option<&Arc<dyn Snapshot>> {
        self.fixed.as_ref()
    }

    /// The catalog that its statements see, if it is not the newest one: with the own changes, or that of its one snapshot.
    pub(crate) fn seen_catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog().or_else(|| self.fixed.as_ref().map(|fixed| fixed.catalog()))
    }

    /// Remembers what a setting goes back to at COMMIT.
    pub(crate) fn set_local(&mut self, name: String, former: String) {
        self.local.push((name, former));
    }

    /// Keeps locks until the end.
    pub(crate) fn keep(&mut self, locks: HeldLocks) {
        self.locks.absorb(locks);
    }

    /// Whether it has written to a relation.
    pub(crate) fn has_written(&self, relation: RelationId) -> bool {
        self.writes.mutations.iter().any(|mutation| mutation.relation() == relation)
    }

    /// Whether reads and writes are checked at COMMIT against what others have committed since its snapshot.
    pub(crate) fn has_one_snapshot(&self) -> bool {
        matches!(self.isolation, IsolationLevel::RepeatableRead | IsolationLevel::Serializable)
    }

    /// What a statement sees: the committed state, fixed where the isolation says so, with the own writes on top.
    pub(crate) fn snapshot(&mut self, store: &Arc<dyn Store>, at: ReadAt) -> Result<Arc<dyn Snapshot>> {
        let committed = match self.has_one_snapshot() {
            true => self.fixed_snapshot(store)?,
            false => store.snapshot(at)?,
        };
        let watched: Arc<dyn Snapshot> = match self.isolation {
            IsolationLevel::Serializable => Arc::new(ReadTracker::new(committed, self.reads.clone())),
            _ => committed,
        };
        match &self.catalog {
            Some(OwnCatalog { own, .. }) => watched.with_catalog(own.clone())?.with_writes(&self.writes_under(own)),
            None if self.writes.mutations.is_empty() => Ok(watched),
            None => watched.with_writes(&self.writes),
        }
    }

    /// The own writes to relations that a catalog still names.
    fn writes_under(&self, catalog: &Catalog) -> WriteBatch {
        let live = |mutation: &&Mutation| catalog.relation(mutation.relation()).is_some();
        let mutations = self.writes.mutations.iter().filter(live).cloned().collect();
        WriteBatch { mutations, relaxed: true, ..WriteBatch::default() }
    }

    /// Does what ON COMMIT says of the temporary tables in this keyspace; `committed` is the catalog as others see it.
    pub(crate) fn end_temporary(&mut self, keyspace: &str, committed: &Arc<Catalog>) {
        let catalog = self.catalog().unwrap_or(committed).clone();
        self.writes.forget(&catalog.emptied_at_commit(keyspace));
        let dropped = catalog.dropped_at_commit(keyspace);
        if !dropped.is_empty() {
            let mut next = (*catalog).clone();
            for id in &dropped {
                depend::drop_views_of(&mut next, *id);
            }
            next.tables.retain(|id, _| !dropped.contains(id));
            next.forget_dropped();
            self.set_catalog(committed, next);
        }
    }

    /// The settings as BEGIN found them.
    pub(crate) fn into_settings(self) -> Settings {
        self.settings
    }

    /// Everything to commit.
    pub(crate) fn end(self, relaxed: bool) -> Ended {
        let mut batch = WriteBatch { relaxed, ..self.writes };
        if !batch.mutations.is_empty() || self.catalog.is_some() {
            batch.unchanged.append(&mut self.reads.lock());
        }
        if let Some(OwnCatalog { own, .. }) = &self.catalog {
            let live: Vec<_> = own.all_tables().flat_map(|t| t.relations()).map(|r| r.id).collect();
            batch.mutations.retain(|mutation| live.contains(&mutation.relation()));
            // A relation that was rewritten and is gone must have had no writes since.
            let whole = |condition: &Unchanged| condition.span.is_all();
            batch.unchanged.retain(|condition| whole(condition) || live.contains(&condition.relation));
        }
        Ended { catalog: self.catalog, batch, locks: self.locks, settings: self.settings, local: self.local }
    }
}

/// The rows a mutation writes: a batch of many counts as the whole relation.
fn span_of(mutation: &Mutation) -> (RelationId, Span) {
    match mutation {
        Mutation::Row(write) => (write.relation, Span::prefix(write.key.clone())),
        Mutation::Batch(write) => (write.relation, Span::all()),
        Mutation::Load(rows) => (rows.relation, Span::all()),
        Mutation::DeleteRow(delete) => (delete.relation, Span::prefix(delete.key.clone())),
        Mutation::DeleteSpan(delete) => (delete.relation, delete.span.clone()),
    }
}
