//! A session as the others of its database see it: its advisory locks, its messages, what it does.
//!
//! ```text
//! Database ─▶ SessionRegistry: all sessions, advisory locks, channels
//! Session  ─▶ SessionPeer ─▶ SessionRegistry ; to functions and system tables it is the trait Peers
//! ```
//!
//! The rule: what a session holds here goes with it, however it ends ([`PeerGuard`]).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use keyspan_model::{Catalog, Error, ErrorKind, Result};
use keyspan_query::{
    AdvisoryKey, AdvisoryRequest, Caller, Peers, ShownCursor, ShownHeat, ShownLock, ShownSession, ShownStatement,
};
use parking_lot::Mutex;

use crate::advisory::AdvisoryLocks;
use crate::cancel::CancelHandle;
use crate::channels::{Channels, Inbox, Notification, check_name, too_many_messages};
use crate::heat::Heat;
use crate::locks::LockTable;
use crate::settings::milliseconds;

/// Statements that a session may have prepared, each of which keeps its plan.
const PREPARED_MAX: usize = 10_000;
/// Bytes of a statement's text that others are shown.
const QUERY_MAX: usize = 1_024;
/// Bytes of messages that one transaction may say.
const UNSENT_MAX: usize = 16 << 20;

/// What all sessions of a database have in common.
#[derive(Debug)]
pub(crate) struct SessionRegistry {
    advisory: AdvisoryLocks,
    channels: Channels,
    rows: Arc<LockTable>,
    heat: Arc<Heat>,
    sessions: Mutex<BTreeMap<u64, Weak<SessionPeer>>>,
}

impl SessionRegistry {
    /// Without sessions.
    pub(crate) fn new(rows: Arc<LockTable>, heat: Arc<Heat>) -> SessionRegistry {
        let advisory = AdvisoryLocks::new(rows.clone());
        SessionRegistry { advisory, channels: Channels::default(), rows, heat, sessions: Mutex::default() }
    }

    fn sessions(&self) -> Vec<Arc<SessionPeer>> {
        self.sessions.lock().values().filter_map(Weak::upgrade).collect()
    }
}

/// A session among the others.
#[derive(Debug)]
pub(crate) struct SessionPeer {
    all: Arc<SessionRegistry>,
    /// The owner of row locks.
    id: u64,
    inbox: Arc<Inbox>,
    deferred: Mutex<Deferred>,
    shown: Mutex<ShownSession>,
    /// By their names: PREPARE and the wire protocol share one space of them.
    prepared: Mutex<BTreeMap<String, ShownStatement>>,
    cursors: Mutex<ShownCursors>,
    cancel: CancelHandle,
}

/// The open cursors by their numbers, which count up.
#[derive(Debug, Default)]
struct ShownCursors {
    open: BTreeMap<u64, ShownCursor>,
    next: u64,
}

/// A cursor in `pg_cursors`: shown until this is dropped.
#[derive(Debug)]
pub(crate) struct CursorGuard {
    peer: Arc<SessionPeer>,
    /// A later cursor has a greater one.
    pub(crate) number: u64,
}

impl std::ops::Drop for CursorGuard {
    fn drop(&mut self) {
        self.peer.cursors.lock().open.remove(&self.number);
    }
}

/// What the open transaction does when it commits.
#[derive(Debug, Default)]
struct Deferred {
    in_transaction: bool,
    acts: Vec<Act>,
    /// The messages among them: of two equal ones of a transaction one arrives.
    messages: HashSet<(String, String)>,
    /// Bytes of the messages.
    bytes: usize,
}

impl Deferred {
    fn add(&mut self, act: Act) -> Result<()> {
        if let Act::Notify(channel, payload) = &act {
            if self.bytes >= UNSENT_MAX {
                return Err(too_many_messages().with_hint("COMMIT, so that what there is so far is sent."));
            }
            if !self.messages.insert((channel.clone(), payload.clone())) {
                return Ok(());
            }
            self.bytes += channel.len() + payload.len();
        }
        self.acts.push(act);
        Ok(())
    }

    fn truncate(&mut self, kept: usize) {
        for act in self.acts.drain(kept.min(self.acts.len())..) {
            if let Act::Notify(channel, payload) = act {
                self.bytes -= channel.len() + payload.len();
                self.messages.remove(&(channel, payload));
            }
        }
    }
}

/// LISTEN, UNLISTEN and NOTIFY, which happen when the transaction commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// `LISTEN channel`.
    Listen(String),
    /// `UNLISTEN channel`, or `*`.
    Unlisten(Option<String>),
    /// `NOTIFY channel, payload`.
    Notify(String, String),
}

/// The owner of a [`SessionPeer`]: when it is dropped, so are the session's locks and channels.
#[derive(Debug)]
pub(crate) struct PeerGuard(Arc<SessionPeer>);

impl std::ops::Deref for PeerGuard {
    type Target = Arc<SessionPeer>;

    fn deref(&self) -> &Arc<SessionPeer> {
        &self.0
    }
}

impl std::ops::Drop for PeerGuard {
    fn drop(&mut self) {
        self.end_transaction(false);
        self.unlock_all();
        self.all.channels.unlisten(None, &self.inbox);
        self.all.sessions.lock().remove(&self.id);
    }
}

impl PeerGuard {
    /// A session with this id, which others do not yet see; it begins now, in microseconds since 1970.
    pub(crate) fn new(all: Arc<SessionRegistry>, id: u64, now: i64, cancel: CancelHandle) -> PeerGuard {
        let process = i32::try_from(id).unwrap_or(i32::MAX);
        let shown = ShownSession { process, began: now, changed: now, state: "idle", ..ShownSession::default() };
        PeerGuard(Arc::new(SessionPeer {
            all,
            id,
            inbox: Arc::default(),
            deferred: Mutex::default(),
            shown: Mutex::new(shown),
            prepared: Mutex::default(),
            cursors: Mutex::default(),
            cancel,
        }))
    }
}

impl SessionPeer {
    /// Lets the others see it.
    pub(crate) fn appear(self: &Arc<Self>) {
        self.all.sessions.lock().insert(self.id, Arc::downgrade(self));
    }

    /// Changes what the others see.
    pub(crate) fn show(&self, change: impl FnOnce(&mut ShownSession)) {
        change(&mut self.shown.lock());
    }

    /// A statement has been prepared; 42P05 if there is one of this name, of PREPARE or of the protocol, 54000 if there are
    /// too many.
    pub(crate) fn add_prepared(&self, statement: ShownStatement) -> Result<()> {
        let mut prepared = self.prepared.lock();
        if prepared.len() >= PREPARED_MAX {
            let message = format!("a session has at most {PREPARED_MAX} prepared statements");
            let error = Error::new(ErrorKind::LimitExceeded, message);
            return Err(error.with_hint("DEALLOCATE those that are not used any more."));
        }
        match prepared.entry(statement.name.clone()) {
            Entry::Occupied(_) => {
                let message = format!("prepared statement \"{}\" already exists", statement.name);
                Err(Error::new(ErrorKind::DuplicateStatement, message))
            }
            Entry::Vacant(place) => {
                place.insert(statement);
                Ok(())
            }
        }
    }

    /// A prepared statement is forgotten, or all of them are.
    pub(crate) fn forget_prepared(&self, name: Option<&str>) {
        let mut prepared = self.prepared.lock();
        match name {
            Some(name) => drop(prepared.remove(name)),
            None => prepared.clear(),
        }
    }

    /// Shows an open cursor.
    pub(crate) fn show_cursor(self: &Arc<Self>, cursor: ShownCursor) -> CursorGuard {
        let mut cursors = self.cursors.lock();
        let number = cursors.next;
        cursors.next += 1;
        cursors.open.insert(number, cursor);
        CursorGuard { peer: self.clone(), number }
    }

    /// The number that the next cursor gets.
    pub(crate) fn next_cursor(&self) -> u64 {
        self.cursors.lock().next
    }

    /// A statement begins.
    pub(crate) fn begin_statement(&self, text: &str, now: i64) {
        let mut end = text.len().min(QUERY_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.show(|shown| {
            shown.query.clear();
            shown.query.push_str(&text[..end]);
            (shown.statement_began, shown.changed, shown.state) = (Some(now), now, "active");
        });
    }

    /// The statement has ended, and leaves the session in this state.
    pub(crate) fn end_statement(&self, state: &'static str, now: i64) {
        self.show(|shown| (shown.state, shown.changed) = (state, now));
    }

    /// What arrives from others.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// A transaction begins.
    pub(crate) fn begin_transaction(&self, now: i64) {
        self.deferred.lock().in_transaction = true;
        self.show(|shown| shown.transaction_began = Some(now));
    }

    /// The transaction has ended: what it deferred happens, or is forgotten, and its advisory locks are free.
    pub(crate) fn end_transaction(&self, committed: bool) {
        let acts = {
            let mut deferred = self.deferred.lock();
            std::mem::take(&mut *deferred).acts
        };
        self.release_locks(0);
        self.show(|shown| shown.transaction_began = None);
        if committed {
            self.perform(acts);
        }
    }

    /// LISTEN, UNLISTEN or NOTIFY: now, or when the open transaction commits.
    pub(crate) fn act(&self, act: Act) -> Result<()> {
        match &act {
            Act::Listen(channel) => check_name(channel)?,
            Act::Notify(channel, payload) => self.all.channels.check(channel, payload)?,
            Act::Unlisten(_) => {}
        }
        {
            let mut deferred = self.deferred.lock();
            if deferred.in_transaction {
                return deferred.add(act);
            }
        }
        self.perform(vec![act]);
        Ok(())
    }

    /// A mark of the advisory locks that the open transaction holds by now.
    pub(crate) fn locks_mark(&self) -> u64 {
        self.all.advisory.mark()
    }

    /// Gives up the advisory locks that the open transaction has taken since a mark; 0: all of them.
    pub(crate) fn release_locks(&self, mark: u64) {
        self.all.advisory.release_after(self.id, mark);
    }

    /// How much the open transaction will do when it commits.
    pub(crate) fn deferred(&self) -> usize {
        self.deferred.lock().acts.len()
    }

    /// Forgets what the open transaction would do after this much.
    pub(crate) fn forget_deferred(&self, kept: usize) {
        self.deferred.lock().truncate(kept);
    }

    fn perform(&self, acts: Vec<Act>) {
        for act in &acts {
            match act {
                Act::Listen(channel) => self.all.channels.listen(channel, &self.inbox),
                Act::Unlisten(channel) => self.all.channels.unlisten(channel.as_deref(), &self.inbox),
                Act::Notify(..) => {}
            }
        }
        for act in acts {
            if let Act::Notify(channel, payload) = act {
                self.all.channels.send(&Notification { process: self.process(), channel, payload });
            }
        }
    }

    fn wait(&self) -> Option<(&'static str, &'static str)> {
        if self.all.advisory.is_waiting(self.id) {
            return Some(("Lock", "advisory"));
        }
        if self.all.rows.blocker(self.id).is_some() {
            return Some(("Lock", "tuple"));
        }
        (self.shown.lock().state != "active").then_some(("Client", "ClientRead"))
    }
}

impl Peers for SessionPeer {
    fn heat(&self, catalog: &Catalog) -> Vec<ShownHeat> {
        self.all.heat.shown(catalog)
    }

    fn process(&self) -> i32 {
        self.shown.lock().process
    }

    fn lock(
        &self,
        request: AdvisoryRequest,
        lock_timeout: Option<&str>,
        interrupted: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let timeout = lock_timeout.and_then(milliseconds).filter(|timeout| *timeout > 0);
        let taken =
            self.all.advisory.lock(self.id, request, timeout.map(std::time::Duration::from_millis), interrupted);
        // A statement by itself is a transaction, which ends with it.
        if request.transaction && !self.deferred.lock().in_transaction {
            self.release_locks(0);
        }
        taken
    }

    fn unlock(&self, key: AdvisoryKey, shared: bool) -> bool {
        self.all.advisory.unlock(self.id, key, shared)
    }

    fn unlock_all(&self) {
        self.all.advisory.unlock_all(self.id);
    }

    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        self.act(Act::Notify(channel.to_owned(), payload.to_owned()))
    }

    fn locks(&self) -> Vec<ShownLock> {
        let processes: BTreeMap<u64, i32> =
            self.all.sessions().iter().map(|session| (session.id, session.process())).collect();
        let shown = |(key, shared, session, granted): (AdvisoryKey, bool, u64, bool)| {
            let process = processes.get(&session).copied().unwrap_or_default();
            ShownLock { key, shared, process, granted }
        };
        self.all.advisory.all().into_iter().map(shown).collect()
    }

    fn sessions(&self) -> Vec<ShownSession> {
        let shown = |session: Arc<SessionPeer>| ShownSession { wait: session.wait(), ..session.shown.lock().clone() };
        self.all.sessions().into_iter().map(shown).collect()
    }

    fn prepared(&self) -> Vec<ShownStatement> {
        self.prepared.lock().values().cloned().collect()
    }

    fn cursors(&self) -> Vec<ShownCursor> {
        self.cursors.lock().open.values().cloned().collect()
    }

    fn stop(&self, process: i32, end: bool, caller: Caller<'_>) -> Result<bool> {
        let Some(session) = self.all.sessions().into_iter().find(|session| session.process() == process) else {
            return Ok(false);
        };
        if matches!(caller, Caller::User(user) if session.shown.lock().user != user) {
            let what = if end { "terminate process" } else { "cancel query" };
            return Err(Error::new(ErrorKind::Unauthorized, format!("permission denied to {what}"))
                .with_detail("Only superusers, and roles for sessions of their own, may do that."));
        }
        if end {
            session.cancel.end()
        } else {
            session.cancel.cancel()
        }
        Ok(true)
    }
}
