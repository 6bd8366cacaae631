//! Writing what depends on what is there: lock the rows, read the newest state, decide, write, and begin again when
//! another write came between.
//!
//! ```text
//! keys known:   lock ─▶ newest state ─▶ decide ─▶ apply with preconditions ──40001──▶ again
//! rows sought:  newest state ─▶ lock what is found ─▶ (in a transaction: look again) ─▶ decide ─▶ …
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use keyspan_model::{Error, ErrorKind, Mutation, Result, Span, Stamp, Unchanged, Value, WriteBatch};
use keyspan_store::seam::{Snapshot, Store};

use super::target::{self, Target};
use crate::database::count;
use crate::locks::{HeldLocks, RowName};
use crate::row::Written;
use crate::session::Session;

/// More rows than this are not locked one by one: the whole relation must not have changed.
const ROWS_LOCKED_MAX: usize = 4_096;
/// How often a statement is tried when other writes keep coming between.
const TRIES_MAX: usize = 1_000;
/// Blind statements of at most so many rows wait for row locks.
pub(crate) const BLIND_LOCKED_MAX: usize = 64;

/// What a statement has found: the rows with all columns, as of the newest state.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) rows: RecordBatch,
    /// The rows' keys, in the rows' order.
    pub(crate) keys: Vec<Vec<Value>>,
}

impl Found {
    /// The place of each row, by its name.
    pub(crate) fn places(&self, written: &Written) -> Result<HashMap<RowName, usize>> {
        self.keys.iter().enumerate().map(|(place, key)| Ok((written.name(key)?, place))).collect()
    }
}

/// Reads the target's rows, lets `decide` turn them into mutations, writes these; again as often as another write
/// comes between. `decide` must not have effects beyond its answer.
pub(crate) async fn change<T>(
    session: &mut Session,
    written: &Written,
    target: &Target,
    parameters: &[Value],
    mut decide: impl FnMut(&mut Session, &Found) -> Result<(Vec<Mutation>, T)>,
) -> Result<T> {
    for _ in 0..TRIES_MAX {
        let (found, snapshot, locks) = find(session, written, target, parameters).await?;
        let (mutations, answer) = decide(session, &found)?;
        let unchanged = preconditions(written, target, &found, snapshot.seq());
        match session.write(mutations, unchanged, locks).await {
            Ok(()) => return Ok(answer),
            Err(error) if error.kind == ErrorKind::Serialization && session.transaction.is_none() => {
                count(&session.database.counts().retries);
            }
            Err(error) => return Err(error),
        }
    }
    let message = "could not serialize access: the rows kept changing";
    Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again."))
}

type Locked = (Found, Arc<dyn Snapshot>, HeldLocks);

async fn find(session: &mut Session, written: &Written, target: &Target, parameters: &[Value]) -> Result<Locked> {
    let mut locks = HeldLocks::none(session.database.locks().clone());
    match target {
        Target::Key(key) => locks = session.lock(vec![written.name(key)?]).await?,
        Target::Keys(keys) => locks = session.lock(names(written, keys)?).await?,
        Target::Span(_) | Target::Query(_) | Target::Nothing => {}
    }
    let mut locked: HashSet<RowName> = HashSet::new();
    loop {
        let snapshot = session.newest()?;
        let rows = target::read(session, written, target, &snapshot, parameters).await?;
        let keys = (0..rows.num_rows()).map(|row| written.key(&rows, row)).collect::<Result<Vec<_>>>()?;
        let found = Found { rows, keys };
        let known = matches!(target, Target::Key(_) | Target::Keys(_) | Target::Nothing);
        if known || found.keys.len() > ROWS_LOCKED_MAX {
            return Ok((found, snapshot, locks));
        }
        let mut wanted = names(written, &found.keys)?;
        wanted.retain(|name| !locked.contains(name));
        // Outside a transaction the preconditions tell at once whether something came between.
        if wanted.is_empty() && (session.transaction.is_some() || found.keys.is_empty() || !locked.is_empty()) {
            return Ok((found, snapshot, locks));
        }
        locks.absorb(session.lock(wanted.clone()).await?);
        locked.extend(wanted);
        if session.transaction.is_none() {
            return Ok((found, snapshot, locks));
        }
    }
}

fn names(written: &Written, keys: &[Vec<Value>]) -> Result<Vec<RowName>> {
    keys.iter().map(|key| written.name(key)).collect()
}

/// What must not have been written since: the rows that were read, present or not.
fn preconditions(written: &Written, target: &Target, found: &Found, seq: u64) -> Vec<Unchanged> {
    match target {
        Target::Key(key) => vec![written.unchanged(key, seq)],
        Target::Keys(keys) if keys.len() <= ROWS_LOCKED_MAX => {
            keys.iter().map(|key| written.unchanged(key, seq)).collect()
        }
        _ if found.keys.is_empty() => Vec::new(),
        _ if found.keys.len() <= ROWS_LOCKED_MAX => found.keys.iter().map(|key| written.unchanged(key, seq)).collect(),
        _ => vec![Unchanged { relation: written.relation.id, span: Span::all(), seq }],
    }
}

impl Session {
    /// The running statement's write timestamp, unless it says its own.
    pub(crate) fn stamp(&self) -> Stamp {
        self.transaction.as_ref().map_or(Stamp::Server(0), |transaction| transaction.stamp())
    }

    /// Locks rows for this session.
    pub(crate) async fn lock(&mut self, rows: Vec<RowName>) -> Result<HeldLocks> {
        let locks = self.database.locks().clone();
        locks.lock(self.id, rows, self.settings.lock_timeout(), &self.running).await
    }

    /// Locks the rows of a blind write, if they are few: it then waits for transactions that are changing them.
    pub(crate) async fn lock_blind(&mut self, written: &Written, keys: &[Vec<Value>]) -> Result<HeldLocks> {
        if keys.len() > BLIND_LOCKED_MAX {
            return Ok(HeldLocks::none(self.database.locks().clone()));
        }
        let names = names(written, keys)?;
        self.lock(names).await
    }

    /// Writes: into the open transaction, which keeps the locks, or at once.
    pub(crate) async fn write(
        &mut self,
        mutations: Vec<Mutation>,
        unchanged: Vec<Unchanged>,
        locks: HeldLocks,
    ) -> Result<()> {
        self.running.check()?;
        let relaxed = self.settings.relaxed_durability();
        let batch = WriteBatch { mutations, unchanged, relaxed };
        match &mut self.transaction {
            Some(transaction) => {
                transaction.write_checked(self.database.store(), batch)?;
                transaction.keep(locks);
                Ok(())
            }
            None if batch.mutations.is_empty() => Ok(()),
            None => self.database.store().apply(batch).await.map(drop),
        }
    }
}
