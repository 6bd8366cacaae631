//! What statements run in: a client's settings, its open transaction and cursors, and the database.
//!
//! The rule: nothing here knows a statement. Statements are functions that take a context; the session that owns it
//! ([`crate::session`]) tells which of them runs.

mod guardrail;
mod principal;
mod unique;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use keyspan_model::schema::temporary::temporary_keyspace;
use keyspan_model::{Catalog, ColumnType, Principal, Result, TableDef, TableId, Value};
use keyspan_query::{GivenRelation, Peers, QueryContext, QuerySession, SessionInfo, SettingChange, Zone};
use keyspan_seam::{ReadAt, Snapshot};
use parking_lot::Mutex;

use crate::cancel::{CancelHandle, Running};
use crate::cursor::SqlCursor;
use crate::database::Database;
use crate::outcome::Notice;
use crate::peer::PeerGuard;
use crate::reads::{CountedSnapshot, ReadTotals, ReadWatch};
use crate::row::TableHandle;
use crate::sequences::SessionSequences;
use crate::settings::{self, Settings};
use crate::temporary::TemporaryTables;
use crate::transaction::Transaction;

use guardrail::Guardrails;

pub(crate) use principal::{denied, expect_role};
pub(crate) use write::ROWS_LOCKED_MAX;

/// Tables whose [`TableHandle`] a context keeps.
const TABLES_MAX: usize = 64;

/// What the statements of one client run in.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) database: Database,
    pub(crate) queries: QuerySession,
    /// The owner of row locks: different for each context of a database.
    id: u64,
    /// How the other sessions see this one.
    pub(crate) peer: PeerGuard,
    pub(crate) settings: Settings,
    pub(crate) notices: Vec<Notice>,
    pub(crate) running: Running,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) cursors: BTreeMap<String, SqlCursor>,
    /// When the statement began, in microseconds since 1970.
    pub(crate) statement_time: i64,
    /// Rows that names stand for before tables do: those of statements in WITH that have run.
    pub(crate) given: Vec<GivenRelation>,
    /// Types of the running statement's parameters.
    pub(crate) parameter_types: Vec<ColumnType>,
    /// How long the statement took to be prepared.
    pub(crate) planning: Duration,
    /// What the client's scans have read.
    pub(crate) reads: Arc<ReadTotals>,
    guardrails: Guardrails,
    /// Who is told of what is read, where no limit counts it for each statement by itself.
    watch: Arc<ReadWatch>,
    /// Warnings that come while rows are read.
    pub(crate) late_warnings: Arc<Mutex<Vec<Notice>>>,
    /// The numbers of sequences, and those that this client got last.
    pub(crate) sequences: Arc<SessionSequences>,
    /// The temporary tables, which go with the context.
    temporary: TemporaryTables,
    /// What statements need of the tables that they last used.
    tables: HashMap<TableId, TableHandle>,
    /// The snapshot of the running statement, once it has asked for it.
    snapshot: Option<Arc<dyn Snapshot>>,
    info: Option<Arc<SessionInfo>>,
    user: String,
    /// The connected role.
    session_role: Principal,
    /// As whom statements run.
    principal: Principal,
    /// The name by which SET ROLE took that one. Roles are renamed, and made anew under a name: it stays the same role.
    set_role: Option<String>,
    /// Whether a client has connected while there were no roles.
    joined_without_roles: bool,
    database_name: String,
}

impl ClientContext {
    /// A context with the default settings, whose statements this handle cancels.
    pub(crate) fn new(database: Database, cancel: &CancelHandle) -> ClientContext {
        let (id, running) = (database.new_context_id(), cancel.begin(None));
        let mut settings = Settings::new();
        settings.set_facts(database.facts());
        let reads: Arc<ReadTotals> = Arc::default();
        let (heat, usage) = (database.heat().clone(), database.usage().clone());
        let watch = Arc::new(ReadWatch { totals: reads.clone(), heat, usage, dead: None });
        ClientContext {
            guardrails: Guardrails::of(&settings),
            watch,
            queries: database.begin_queries(),
            id,
            peer: PeerGuard::new(database.session_registry().clone(), id, database.now(), cancel.clone()),
            settings,
            notices: Vec::new(),
            running,
            transaction: None,
            cursors: BTreeMap::new(),
            statement_time: database.now(),
            given: Vec::new(),
            parameter_types: Vec::new(),
            planning: Duration::ZERO,
            reads,
            late_warnings: Arc::default(),
            sequences: Arc::new(SessionSequences::new(database.sequences().clone())),
            temporary: TemporaryTables::none(&database),
            tables: HashMap::new(),
            snapshot: None,
            info: None,
            user: "keyspan".into(),
            session_role: Principal::Owner,
            principal: Principal::Owner,
            set_role: None,
            joined_without_roles: false,
            database_name: "keyspan".into(),
            database,
        }
    }

    /// The keyspace of the client's temporary tables, of which there will be one.
    pub(crate) fn begin_temporary(&mut self) -> String {
        let keyspace = temporary_keyspace(self.id);
        self.settings.set_temporary(keyspace.clone());
        self.temporary.begin(keyspace.clone());
        keyspace
    }

    /// Begins a statement.
    pub(crate) fn begin(&mut self, running: Running) {
        self.running = running;
        self.statement_time = self.database.now();
    }

    /// The user the client connected as.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The catalog that statements see: with what the open transaction has changed, and as of its snapshot if it has but
    /// one.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        match self.transaction.as_ref().and_then(Transaction::seen_catalog) {
            Some(seen) => seen.clone(),
            None => self.database.store().catalog(),
        }
    }

    /// The newest catalog, with what the open transaction has changed. Definitions change it, and rights are those in it; but
    /// the rights to read in a query that is planned are those in the catalog of its snapshot.
    pub(crate) fn newest_catalog(&self) -> Arc<Catalog> {
        match self.transaction.as_ref().and_then(Transaction::catalog) {
            Some(own) => own.clone(),
            None => self.database.store().catalog(),
        }
    }

    /// [`Self::newest_catalog`], in which new things get numbers that no open transaction has given to its own.
    pub(crate) fn catalog_to_change(&self) -> Arc<Catalog> {
        self.database.numbered(self.newest_catalog())
    }

    /// What the running statement sees: one snapshot, unless tables change between its being planned and its being run.
    pub(crate) fn snapshot(&mut self) -> Result<Arc<dyn Snapshot>> {
        let catalog = self.catalog();
        match &self.snapshot {
            Some(snapshot) if Arc::ptr_eq(snapshot.catalog(), &catalog) => Ok(snapshot.clone()),
            _ => {
                let snapshot = self.snapshot_at(ReadAt::Acknowledged)?;
                Ok(self.snapshot.insert(snapshot).clone())
            }
        }
    }

    /// Lets go of the statement's snapshot, which its rows may still hold: the next statement gets one of its own.
    pub(crate) fn release_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// The newest state, for statements that read what they write.
    pub(crate) fn newest(&mut self) -> Result<Arc<dyn Snapshot>> {
        self.snapshot_at(ReadAt::Newest)
    }

    fn snapshot_at(&mut self, at: ReadAt) -> Result<Arc<dyn Snapshot>> {
        match &mut self.transaction {
            Some(transaction) => transaction.snapshot(self.database.store(), at),
            None => self.database.store().snapshot(at),
        }
    }

    /// Types of the running statement's parameters, for a query of ours that has them too, or none: as they were declared,
    /// since an instant and a time without a zone are values of one kind.
    pub(crate) fn types_of(&self, parameters: &[Value]) -> Vec<Option<ColumnType>> {
        debug_assert!(parameters.is_empty() || parameters.len() == self.parameter_types.len());
        self.parameter_types.iter().take(parameters.len()).copied().map(Some).collect()
    }

    /// Everything a query's meaning depends on, besides its text.
    pub(crate) fn query_context(
        &mut self,
        snapshot: Arc<dyn Snapshot>,
        parameter_types: &[Option<ColumnType>],
    ) -> QueryContext {
        let newest = Some(self.database.catalog()).filter(|newest| !Arc::ptr_eq(newest, snapshot.catalog()));
        QueryContext {
            newest,
            snapshot: self.watched(snapshot),
            search_path: self.settings.search_path(),
            time_zone: self.settings.time_zone().to_string(),
            now: self.now(),
            statement_time: self.statement_time,
            parameter_types: parameter_types.to_vec(),
            info: self.info(),
            given: self.given.clone(),
            unjudged_columns: 0,
        }
    }

    /// A snapshot for the statement's queries, of which is counted what they read.
    pub(crate) fn watched(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        match self.dead_rows() {
            None => CountedSnapshot::counted(snapshot, &self.watch),
            dead => CountedSnapshot::counted(snapshot, &Arc::new(ReadWatch { dead, ..self.watch.as_ref().clone() })),
        }
    }

    /// `now()`: when the transaction, or else the statement, began.
    fn now(&self) -> i64 {
        self.transaction.as_ref().map_or(self.statement_time, |transaction| transaction.began)
    }

    /// Whether BEGIN has opened a transaction that is still open.
    pub(crate) fn in_transaction_block(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| !transaction.is_implicit())
    }

    /// Tells the client something beside the statement's answer, if it wants to hear it.
    pub(crate) fn notice(&mut self, notice: Notice) {
        if self.settings.tells(notice.severity) {
            self.notices.push(notice);
        }
    }

    /// Called when settings have changed: functions such as `current_setting` see the new ones.
    pub(crate) fn settings_changed(&mut self) {
        if self.transaction.is_none() {
            self.settings.follow_defaults();
        }
        self.follow_role();
        self.info = None;
        self.guardrails = Guardrails::of(&self.settings);
        let application = self.settings.get("application_name").unwrap_or_default();
        self.peer.show(|shown| {
            if shown.application != application {
                shown.application = application.to_owned();
            }
        });
    }

    /// What statements need of this table; made once for each of its versions.
    pub(crate) fn handle(&mut self, table: Arc<TableDef>) -> TableHandle {
        match self.tables.get(&table.id) {
            Some(known) if Arc::ptr_eq(&known.table, &table) => known.clone(),
            _ => {
                if self.tables.len() >= TABLES_MAX {
                    self.tables.clear();
                }
                let handle = TableHandle::new(table);
                self.tables.insert(handle.table.id, handle.clone());
                handle
            }
        }
    }

    /// Reads texts of instants in the session's time zone.
    pub(crate) fn zone(&self) -> Zone {
        Zone::of_setting(self.settings.time_zone())
    }

    /// The calls of `set_config` since the last time, in order.
    pub(crate) fn take_setting_changes(&mut self) -> Vec<SettingChange> {
        let info = self.info();
        let mut changes = info.changes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *changes)
    }

    fn info(&mut self) -> Arc<SessionInfo> {
        let fresh = || {
            Arc::new(SessionInfo {
                user: self.current_user(),
                session_user: self.user.clone(),
                principal: self.principal,
                sequences: Some(self.sequences.clone()),
                peers: Some(Arc::clone(&self.peer) as Arc<dyn Peers>),
                database: self.database_name.clone(),
                statement_memory: self.settings.statement_memory(),
                settings: self.settings.values().clone(),
                described: settings::described(),
                changes: Arc::default(),
            })
        };
        let info = self.info.clone().unwrap_or_else(fresh);
        self.info = Some(info.clone());
        info
    }
}
