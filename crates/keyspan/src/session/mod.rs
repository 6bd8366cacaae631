//! One client's conversation: its statements one after the other, prepared or not, in one context.
//!
//! - `run`: a statement's way from its text to its family.
//! - `add_column`: ADD COLUMN that fills the rows that are there.
//! - `named`: SQL's PREPARE, EXECUTE and DEALLOCATE.

mod add_column;
mod create_table;
mod merge;
mod moved;
mod named;
mod run;
mod with;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use keyspan_model::{Catalog, Result};
use keyspan_query::ShownStatement;

use crate::cancel::CancelHandle;
use crate::channels::Inbox;
use crate::context::ClientContext;
use crate::database::Database;
use crate::outcome::Notice;
use crate::prepared::Prepared;
use crate::settings::Settings;
use crate::timer::StatementTimer;
use crate::transaction_control;

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
    pub(crate) context: ClientContext,
    /// SQL's PREPARE, by name.
    statements: BTreeMap<String, Prepared>,
    cancel: CancelHandle,
    /// The statement that waits for COPY data.
    pub(crate) copying: Option<StatementTimer>,
    reported: Vec<(&'static str, String)>,
}

impl Database {
    /// A new session. Cheap.
    pub fn session(&self) -> Session {
        let cancel = CancelHandle::default();
        let context = ClientContext::new(self.clone(), &cancel);
        context.peer.appear();
        let reported = context.settings.reported();
        Session { context, statements: BTreeMap::new(), cancel, copying: None, reported }
    }
}

impl Session {
    /// Whether a transaction is open. One that [`Session::begin_implicit`] opened does not count.
    pub fn status(&self) -> TransactionStatus {
        match &self.context.transaction {
            Some(transaction) if transaction.is_implicit() => TransactionStatus::Idle,
            Some(transaction) if transaction.failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
            None => TransactionStatus::Idle,
        }
    }

    /// Marks the open transaction, if there is one, as failed: to be called when rows of a statement end with an error,
    /// which the session does not see.
    pub fn fail(&mut self) {
        transaction_control::fail(&mut self.context);
    }

    /// Opens a transaction for statements that are to succeed or fail together, unless one is open.
    pub fn begin_implicit(&mut self) {
        if self.context.transaction.is_none() {
            self.context.statement_time = self.context.database.now();
        }
        transaction_control::begin_implicit(&mut self.context);
    }

    /// Ends the transaction that [`Session::begin_implicit`] opened, if it is still open: commits it when `commit`,
    /// else undoes it.
    pub async fn end_implicit(&mut self, commit: bool) -> Result<()> {
        transaction_control::end_implicit(&mut self.context, commit).await
    }

    /// Ends what a text began that has failed. A BATCH that another text is to end is open, and has failed.
    pub async fn end_failed_text(&mut self, sql: &str) {
        // The statement's error is the one to tell.
        let _ = self.end_implicit(false).await;
        if keyspan_cql::leaves_batch_open(sql) {
            transaction_control::begin_failed_batch(&mut self.context);
        }
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.context.notices);
        let late = std::mem::take(&mut *self.context.late_warnings.lock());
        notices.extend(late.into_iter().filter(|notice| self.context.settings.tells(notice.severity)));
        notices
    }

    /// What arrives of the channels that it listens to.
    pub fn inbox(&self) -> Arc<Inbox> {
        self.context.peer.inbox().clone()
    }

    /// Says which connection this is, for `pg_backend_pid()` and the other sessions, where its client is, and how many
    /// there may be at a time, for `SHOW max_connections`.
    pub fn identify(&mut self, process: i32, client: Option<(String, u16)>, max_connections: usize) {
        self.context.peer.show(|shown| (shown.process, shown.client) = (process, client));
        self.context.settings.set_max_connections(max_connections);
        self.context.settings_changed();
    }

    /// Lets EXECUTE and DEALLOCATE know a statement that the wire protocol has prepared, with the OIDs of its
    /// parameters' types; none: an empty one.
    ///
    /// # Errors
    /// 42P05 if there is one of this name: SQL's PREPARE and the protocol share one space of names.
    pub fn share_statement(
        &mut self,
        name: &str,
        text: &str,
        parameters: &[u32],
        statement: Option<&Prepared>,
    ) -> Result<()> {
        let (shown, prepared) = (name.to_owned(), self.context.database.now());
        let (text, parameters) = (text.to_owned(), parameters.to_vec());
        self.context.peer.add_prepared(ShownStatement { name: shown, text, prepared, parameters, by_sql: false })?;
        // EXECUTE runs what PREPARE takes.
        if let Some(statement) = statement.filter(|statement| named::can_be_prepared(statement.statement())) {
            self.statements.insert(name.to_owned(), statement.clone());
        }
        Ok(())
    }

    /// A statement that PREPARE or [`Session::share_statement`] has named.
    pub fn named_statement(&self, name: &str) -> Option<&Prepared> {
        self.statements.get(name)
    }

    /// Forgets a prepared statement, or all of them.
    pub fn forget_statement(&mut self, name: Option<&str>) {
        match name {
            Some(name) => drop(self.statements.remove(name)),
            None => self.statements.clear(),
        }
        self.context.peer.forget_prepared(name);
    }

    /// The columns of an open cursor: to the wire protocol it is a portal, which clients may describe.
    pub fn cursor_schema(&self, name: &str) -> Option<SchemaRef> {
        self.context.cursors.get(name).map(|cursor| cursor.schema().clone())
    }

    /// Closes a cursor, if there is one of this name.
    pub fn close_cursor(&mut self, name: &str) {
        self.context.cursors.remove(name);
    }

    /// Cancels the statement that this session is running.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The session's settings.
    pub fn settings(&self) -> &Settings {
        &self.context.settings
    }

    /// A setting's value as SHOW prints it.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.context.settings.get(name).map(str::to_string)
    }

    /// Sets a start-up value, to which RESET goes back.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a wrong value, 42501 for a role that the user is no member of.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.context.check_setting(&name.to_lowercase(), Some(&[value.to_owned()]))?;
        let set = self.context.settings.set_initial(name, value);
        self.context.settings_changed();
        set
    }

    /// Says who is connected to what. A database name that is a keyspace's leads the search path. Where there are roles
    /// the user must be one that may log in, and statements run as it; it is for the caller to know that it is it.
    ///
    /// # Errors
    /// 28000 for a user who may not connect.
    pub fn connect_as(&mut self, user: &str, database: &str) -> Result<()> {
        self.context.connect_as(user, database)
    }

    /// Reported settings that changed since the last call: name and value, for ParameterStatus.
    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        let now = self.context.settings.reported();
        let changed = now.iter().filter(|pair| !self.reported.contains(pair)).cloned().collect();
        self.reported = now;
        changed
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.context.database
    }

    /// The user the session belongs to.
    pub fn user(&self) -> &str {
        self.context.user()
    }

    /// The catalog as this session sees it: with what its open transaction has changed.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.context.catalog()
    }
}
