//! One client's conversation: settings, prepared statements, cursors, and the transaction that is open.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use arrow::datatypes::SchemaRef;
use keyspan_cql::{Parsed, Statement};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Result, TableDef, TableId, Value};
use keyspan_query::{QueryContext, QuerySession, SessionInfo, Zone};
use keyspan_store::seam::{ReadAt, Snapshot, Store};

use crate::cancel::{CancelHandle, Running};
use crate::cursor::Cursor;
use crate::database::Database;
use crate::outcome::{Notice, Outcome, Rows};
use crate::prepared::Prepared;
use crate::row::Written;
use crate::settings::Settings;
use crate::transaction::Transaction;
use crate::{arrays, bulk, cursor, ddl, dml, explain, maintain, prepare, prepared, query, show, transaction};

/// Tables whose [`Written`] a session keeps.
const TABLES_KEPT: usize = 64;

/// Whether a transaction is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None.
    Idle,
    /// One is open.
    Open,
    /// One is open and has failed: only ROLLBACK helps.
    Failed,
}

/// One client's conversation with a [`Database`]. Statements run one at a time.
#[derive(Debug)]
pub struct Session {
    pub(crate) database: Database,
    pub(crate) queries: QuerySession,
    /// Distinguishes sessions; the owner of row locks.
    pub(crate) id: u64,
    pub(crate) settings: Settings,
    pub(crate) notices: Vec<Notice>,
    pub(crate) running: Running,
    pub(crate) transaction: Option<Transaction>,
    /// SQL's PREPARE, by name.
    pub(crate) statements: BTreeMap<String, Prepared>,
    pub(crate) cursors: BTreeMap<String, Cursor>,
    /// When the statement began, in microseconds since 1970.
    pub(crate) statement_time: i64,
    /// What statements need of the tables that they last wrote to.
    written: HashMap<TableId, Written>,
    cancel: CancelHandle,
    reported: Vec<(&'static str, String)>,
    info: Option<Arc<SessionInfo>>,
    user: String,
    database_name: String,
}

impl Session {
    pub(crate) fn new(database: Database, queries: QuerySession, id: u64) -> Session {
        let cancel = CancelHandle::default();
        let settings = Settings::new();
        Session {
            queries,
            id,
            running: cancel.begin(None),
            transaction: None,
            statements: BTreeMap::new(),
            cursors: BTreeMap::new(),
            statement_time: database.now(),
            notices: Vec::new(),
            written: HashMap::new(),
            cancel,
            reported: settings.reported(),
            settings,
            info: None,
            user: "keyspan".into(),
            database_name: "keyspan".into(),
            database,
        }
    }

    /// The statements of a text, separated by semicolons.
    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        keyspan_cql::parse(sql)
    }

    /// Settles a statement's parameter types and columns. `parameter_types` are those the client says, as far as it does.
    ///
    /// # Errors
    /// Whatever is wrong with names and types; 25P02 in a failed transaction.
    pub async fn prepare(&mut self, parsed: &Parsed, parameter_types: &[Option<ColumnType>]) -> Result<Prepared> {
        transaction::check_not_failed(self, &parsed.statement)?;
        // A cancel request that came after the last statement does not concern this one.
        self.running = self.cancel.begin(self.settings.statement_timeout());
        let result = prepare::prepare(self, Arc::new(parsed.clone()), parameter_types.to_vec()).await;
        result.inspect_err(|_| self.fail())
    }

    /// Runs a prepared statement. The parameters have (or can be cast to) the types of [`Prepared::parameters`].
    ///
    /// Rows are read while they are taken from the outcome; an error while they are read does not fail an open
    /// transaction by itself: who takes the rows calls [`Session::fail`].
    pub async fn run(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        self.running = self.cancel.begin(self.settings.statement_timeout());
        self.statement_time = self.database.now();
        let result = match transaction::begin_statement(self, prepared.statement()) {
            Ok(()) => self.run_prepared(prepared, parameters).await,
            Err(error) => Err(error),
        };
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// Prepares again what tables have changed under, casts the parameters, and routes.
    pub(crate) async fn run_prepared(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        if prepared.template.is_some() {
            return Box::pin(self.run_with_arrays(prepared, parameters)).await;
        }
        let again;
        let mut prepared = prepared;
        // Not by its version: a transaction that is undone has used numbers that others use again.
        if !Arc::ptr_eq(&prepared.catalog, &self.catalog()) {
            again = Box::pin(prepare::prepare(self, prepared.parsed.clone(), prepared.given.clone())).await?;
            if prepared.schema.is_some() && again.schema != prepared.schema {
                return Err(Error::not_supported("cached plan must not change result type"));
            }
            prepared = &again;
        }
        let parameters = query::typed_parameters(self, prepared, parameters)?;
        self.route(prepared, &parameters).await
    }

    /// Puts the elements of array parameters into the statement, and runs that.
    async fn run_with_arrays(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        query::check_count(prepared, parameters)?;
        let template = prepared.template.as_ref().unwrap_or(&prepared.parsed);
        let parsed = arrays::bound(template, &prepared.arrays, &prepared.parameters, parameters)?;
        let types = prepared.parameters.iter().copied().map(Some).collect();
        let written = prepare::prepare(self, Arc::new(parsed), types).await?;
        let left = parameters.iter().enumerate();
        let left = left.map(|(index, value)| if prepared.arrays.contains_key(&index) { &Value::Null } else { value });
        let left: Vec<Value> = left.cloned().collect();
        self.run_prepared(&written, &left).await
    }

    /// Each statement to its family.
    async fn route(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        match prepared.statement() {
            Statement::CreateKeyspace(statement) => ddl::keyspace::create(self, statement).await,
            Statement::AlterKeyspace(statement) => ddl::keyspace::alter(self, statement).await,
            Statement::CreateTable(statement) => ddl::table::create(self, statement).await,
            Statement::CreateTableAs(statement) => ddl::create_as::run(self, statement, parameters).await,
            Statement::CreateView(statement) => ddl::view::create(self, statement).await,
            Statement::AlterTable(statement) => ddl::alter::run(self, statement).await,
            Statement::Drop(statement) => ddl::drop::run(self, statement).await,
            Statement::Truncate(statement) => ddl::drop::truncate(self, statement).await,
            Statement::CreateIndex(statement) => ddl::index::create(self, statement).await,
            Statement::Comment(statement) => ddl::comment::run(self, statement).await,
            Statement::Insert(statement) => dml::insert::run(self, statement, parameters).await,
            Statement::Update(statement) => dml::update::run(self, statement, parameters).await,
            Statement::Delete(statement) => dml::delete::run(self, statement, parameters).await,
            Statement::Query(_) | Statement::Scan(_) => Box::pin(query::run(self, prepared, parameters)).await,
            Statement::Explain(statement) => explain::run(self, statement, prepared, parameters).await,
            Statement::Show(statement) => show::run(self, statement),
            Statement::Describe(statement) => show::describe(self, statement),
            Statement::Use(keyspace) => show::use_keyspace(self, keyspace),
            Statement::Set(statement) => show::set(self, statement),
            Statement::Reset(name) => show::reset(self, name.as_deref()),
            Statement::Discard(what) => show::discard(self, *what),
            Statement::SetTransaction(statement) => transaction::set(self, statement),
            Statement::Begin(modes) => transaction::begin(self, *modes),
            Statement::Commit(end) => transaction::commit(self, end.chain).await,
            Statement::Rollback(end) => transaction::rollback(self, end.chain),
            Statement::Savepoint(name) => transaction::savepoint(self, name),
            Statement::Release(name) => transaction::release(self, name),
            Statement::RollbackTo(name) => transaction::rollback_to(self, name),
            Statement::Prepare(statement) => prepared::prepare(self, statement).await,
            Statement::Execute(statement) => prepared::execute(self, statement, parameters).await,
            Statement::Deallocate(name) => prepared::deallocate(self, name.as_deref()),
            Statement::DeclareCursor(statement) => cursor::declare(self, statement, parameters).await,
            Statement::Fetch(statement) => cursor::fetch(self, statement).await,
            Statement::Close(name) => cursor::close(self, name.as_deref()),
            Statement::Copy(statement) => bulk::copy(self, statement, parameters).await,
            Statement::Listen(_) | Statement::Unlisten(_) | Statement::Notify(_) => {
                maintain::channel(prepared.statement())
            }
            Statement::Maintain(statement) => maintain::run(self, statement).await,
        }
    }

    /// Runs all statements of a text, as PostgreSQL's simple query does: several form one transaction unless they
    /// say otherwise. The rows of several statements are read into memory, so that an error among them undoes all;
    /// those of a single one are read while they are taken.
    ///
    /// # Errors
    /// The first one; what the text did before it is undone, unless it committed it.
    pub async fn execute(&mut self, sql: &str) -> Result<Vec<Outcome>> {
        let statements = self.parse(sql)?;
        let several = statements.len() > 1;
        if several {
            self.begin_implicit();
        }
        let mut outcomes = Vec::with_capacity(statements.len());
        for parsed in &statements {
            match self.prepare_and_run(parsed, &[]).await {
                Ok(outcome) if several => match outcome.read_all().await {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(error) => {
                        self.fail();
                        self.end_implicit(false).await?;
                        return Err(error);
                    }
                },
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    self.end_implicit(false).await?;
                    return Err(error);
                }
            }
        }
        self.end_implicit(true).await?;
        Ok(outcomes)
    }

    /// Runs one statement with parameters and answers its rows; none of a statement that returns no rows.
    pub async fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Rows> {
        let statements = self.parse(sql)?;
        let [parsed] = statements.as_slice() else {
            return Err(Error::new(ErrorKind::Syntax, "cannot insert multiple commands into a prepared statement"));
        };
        let outcome = self.prepare_and_run(parsed, parameters).await?;
        Ok(outcome.rows.unwrap_or_else(|| Rows::ready(Arc::new(arrow::datatypes::Schema::empty()), Vec::new())))
    }

    async fn prepare_and_run(&mut self, parsed: &Parsed, parameters: &[Value]) -> Result<Outcome> {
        let types: Vec<_> = parameters.iter().map(Value::natural_type).collect();
        let prepared = self.prepare(parsed, &types).await?;
        self.run(&prepared, parameters).await
    }

    /// Whether a transaction is open. One that [`Session::begin_implicit`] opened does not count.
    pub fn status(&self) -> TransactionStatus {
        match &self.transaction {
            Some(transaction) if transaction.is_implicit() => TransactionStatus::Idle,
            Some(transaction) if transaction.failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
            None => TransactionStatus::Idle,
        }
    }

    /// Marks the open transaction, if there is one, as failed.
    pub fn fail(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
    }

    /// Opens a transaction for statements that are to succeed or fail together, unless one is open.
    pub fn begin_implicit(&mut self) {
        transaction::begin_implicit(self);
    }

    /// Ends the transaction that [`Session::begin_implicit`] opened, if it is still open: commits it when `commit`,
    /// else undoes it.
    pub async fn end_implicit(&mut self, commit: bool) -> Result<()> {
        transaction::end_implicit(self, commit).await
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The columns of an open cursor: to the wire protocol it is a portal, which clients may describe.
    pub fn cursor_schema(&self, name: &str) -> Option<SchemaRef> {
        self.cursors.get(name).map(|cursor| cursor.schema().clone())
    }

    /// Cancels the statement that this session is running.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The session's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A setting's value as SHOW prints it.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name).map(str::to_string)
    }

    /// Sets a start-up value, to which RESET goes back.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a wrong value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.info = None;
        self.settings.set_initial(name, value)
    }

    /// Says who is connected to what. A database name that is a keyspace's leads the search path.
    pub fn connect_as(&mut self, user: &str, database: &str) -> Result<()> {
        self.user = user.to_string();
        self.database_name = database.to_string();
        self.info = None;
        self.settings.set_session_user(user);
        if database != "public" && self.database.catalog().keyspaces.contains_key(database) {
            let path = format!("{}, \"$user\", public", keyspan_cql::quoted(database));
            self.settings.set_initial("search_path", &path)?;
        }
        Ok(())
    }

    /// Reported settings that changed since the last call: name and value, for ParameterStatus.
    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        let now = self.settings.reported();
        let changed = now.iter().filter(|pair| !self.reported.contains(pair)).cloned().collect();
        self.reported = now;
        changed
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The user the session belongs to.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The catalog as this session sees it: with what its open transaction has changed.
    pub fn catalog(&self) -> Arc<Catalog> {
        match self.transaction.as_ref().and_then(Transaction::catalog) {
            Some(own) => own.clone(),
            None => self.database.store().catalog(),
        }
    }

    /// What the running statement sees.
    pub(crate) fn snapshot(&mut self) -> Result<Arc<dyn Snapshot>> {
        match &mut self.transaction {
            Some(transaction) => transaction.snapshot(self.database.store(), ReadAt::Acknowledged),
            None => self.database.store().snapshot(ReadAt::Acknowledged),
        }
    }

    /// The newest state, for statements that read what they write.
    pub(crate) fn newest(&mut self) -> Result<Arc<dyn Snapshot>> {
        match &mut self.transaction {
            Some(transaction) => transaction.snapshot(self.database.store(), ReadAt::Newest),
            None => self.database.store().snapshot(ReadAt::Newest),
        }
    }

    /// Everything a query's meaning depends on.
    pub(crate) fn context(&mut self, snapshot: Arc<dyn Snapshot>, types: &[Option<ColumnType>]) -> QueryContext {
        QueryContext {
            snapshot,
            search_path: self.settings.search_path(),
            time_zone: self.settings.time_zone().to_string(),
            now: self.now(),
            parameter_types: types.to_vec(),
            info: self.info(),
        }
    }

    /// `now()`: when the transaction, or else the statement, began.
    pub(crate) fn now(&self) -> i64 {
        self.transaction.as_ref().map_or(self.statement_time, |transaction| transaction.began)
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Called when settings have changed: functions such as `current_setting` see the new ones.
    pub(crate) fn settings_changed(&mut self) {
        if self.transaction.is_none() {
            self.settings.follow_defaults();
        }
        self.info = None;
    }

    /// What statements need of this table; made once for each of its versions.
    pub(crate) fn written(&mut self, table: Arc<TableDef>) -> Written {
        match self.written.get(&table.id) {
            Some(known) if Arc::ptr_eq(&known.table, &table) => known.clone(),
            _ => {
                if self.written.len() >= TABLES_KEPT {
                    self.written.clear();
                }
                let written = Written::new(table);
                self.written.insert(written.table.id, written.clone());
                written
            }
        }
    }

    /// Reads texts of instants in the session's time zone.
    pub(crate) fn zone(&self) -> Zone {
        Zone::of_setting(self.settings.time_zone())
    }

    /// Does what calls of `set_config` in the statement asked for.
    pub(crate) fn grant_changes(&mut self) -> Result<()> {
        let changes = self.info().changes.clone();
        let changes = std::mem::take(&mut *changes.lock().unwrap_or_else(PoisonError::into_inner));
        changes.into_iter().try_for_each(|change| show::set_config(self, change))
    }

    fn info(&mut self) -> Arc<SessionInfo> {
        let fresh = || {
            Arc::new(SessionInfo {
                user: self.user.clone(),
                database: self.database_name.clone(),
                settings: self.settings.values().clone(),
                changes: Arc::default(),
            })
        };
        let info = self.info.take().unwrap_or_else(fresh);
        self.info = Some(info.clone());
        info
    }
}
