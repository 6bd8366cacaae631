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
use keyspan_model::{Error, ErrorKind, Mutation, Result, Span, Unchanged, Value};
use keyspan_store::seam::Snapshot;

use super::target::{self, Target};
use crate::context::ClientContext;
use crate::database::count;
use crate::locks::{HeldLocks, RowName};
use crate::row::Written;

/// More rows than this are not locked one by one: the whole relation must not have changed.
const ROWS_LOCKED_MAX: usize = 4_096;
/// How often a statement is tried when other writes keep coming between.
const TRIES_MAX: usize = 1_000;

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
    context: &mut ClientContext,
    written: &Written,
    target: &Target,
    parameters: &[Value],
    mut decide: impl FnMut(&Found) -> Result<(Vec<Mutation>, T)>,
) -> Result<T> {
    for _ in 0..TRIES_MAX {
        let (found, snapshot, locks) = find(context, written, target, parameters).await?;
        let (mutations, answer) = decide(&found)?;
        let unchanged = preconditions(written, target, &found, snapshot.seq());
        match context.write(mutations, unchanged, locks).await {
            Ok(()) => return Ok(answer),
            Err(error) if error.kind == ErrorKind::Serialization && context.transaction.is_none() => {
                count(&context.database.counts().retries);
            }
            Err(error) => return Err(error),
        }
    }
    let message = "could not serialize access: the rows kept changing";
    Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again."))
}

type Locked = (Found, Arc<dyn Snapshot>, HeldLocks);

async fn find(context: &mut ClientContext, written: &Written, target: &Target, parameters: &[Value]) -> Result<Locked> {
    let mut locks = HeldLocks::none(context.database.locks().clone());
    match target {
        Target::Key(key) => locks = context.lock(vec![written.name(key)?]).await?,
        Target::Keys(keys) => locks = context.lock(names(written, keys)?).await?,
        Target::Span(_) | Target::Query(_) | Target::Nothing => {}
    }
    let mut locked: HashSet<RowName> = HashSet::new();
    loop {
        let snapshot = context.newest()?;
        let rows = target::read(context, written, target, &snapshot, parameters).await?;
        let keys = (0..rows.num_rows()).map(|row| written.key(&rows, row)).collect::<Result<Vec<_>>>()?;
        let found = Found { rows, keys };
        let known = matches!(target, Target::Key(_) | Target::Keys(_) | Target::Nothing);
        if known || found.keys.len() > ROWS_LOCKED_MAX {
            return Ok((found, snapshot, locks));
        }
        let mut wanted = names(written, &found.keys)?;
        wanted.retain(|name| !locked.contains(name));
        // Outside a transaction the preconditions tell at once whether something came between.
        if wanted.is_empty() && (context.transaction.is_some() || found.keys.is_empty() || !locked.is_empty()) {
            return Ok((found, snapshot, locks));
        }
        locks.absorb(context.lock(wanted.clone()).await?);
        locked.extend(wanted);
        if context.transaction.is_none() {
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
