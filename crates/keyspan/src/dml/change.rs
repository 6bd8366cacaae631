//! Read-modify-write: lock the rows, read the newest state, decide, write, and begin again when another write has
//! changed the rows in between.
//!
//! ```text
//! keys known:   lock ─▶ newest state ─▶ decide ─▶ apply with preconditions ──40001──▶ again
//! rows found:   newest state ─▶ lock the rows found ─▶ (in a transaction: read again) ─▶ decide ─▶ …
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use keyspan_model::{Error, ErrorKind, Mutation, Result, Span, Unchanged, Value};
use keyspan_seam::Snapshot;

use super::family::{FamilyInput, FamilyRows};
use super::target::{self, Computed, WriteTarget};
use crate::context::ClientContext;
use crate::database::count;
use crate::locks::{HeldLocks, RowName};
use crate::row::TableHandle;

/// More rows than this are not locked one by one: the whole relation must not have changed.
pub(crate) const ROWS_LOCKED_MAX: usize = 4_096;
/// How often a statement is tried while other writes keep changing its rows.
const TRIES_MAX: usize = 1_000;

/// The rows of a statement's target, with all columns, as of the newest state.
#[derive(Debug)]
pub(crate) struct TargetRows {
    pub(crate) rows: RecordBatch,
    /// What a query has computed for each row.
    pub(crate) computed: Vec<Computed>,
    /// The rows' keys, in the rows' order.
    pub(crate) keys: Vec<Vec<Value>>,
    /// The rows with the families that the statement reads.
    pub(crate) families: FamilyRows,
}

impl TargetRows {
    /// The place of each row, by its name.
    pub(crate) fn places(&self, handle: &TableHandle) -> Result<HashMap<RowName, usize>> {
        self.keys.iter().enumerate().map(|(place, key)| Ok((handle.name(key)?, place))).collect()
    }
}

/// Reads the target's rows, lets `decide` turn them into mutations, and writes these; begins again when another write
/// has changed the rows in between. `decide` must not have effects beyond its answer.
pub(crate) async fn change<T>(
    context: &mut ClientContext,
    handle: &TableHandle,
    target: &WriteTarget,
    families: &FamilyInput,
    parameters: &[Value],
    mut decide: impl FnMut(&TargetRows) -> Result<(Vec<Mutation>, T)>,
) -> Result<T> {
    for _ in 0..TRIES_MAX {
        let (found, snapshot, locks) = find(context, handle, target, families, parameters).await?;
        let (mutations, answer) = decide(&found)?;
        let mut unchanged = preconditions(handle, target, &found, snapshot.seq());
        unchanged.extend(families.unchanged(&found.keys, snapshot.seq()));
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

type Locked = (TargetRows, Arc<dyn Snapshot>, HeldLocks);

async fn find(
    context: &mut ClientContext,
    handle: &TableHandle,
    target: &WriteTarget,
    families: &FamilyInput,
    parameters: &[Value],
) -> Result<Locked> {
    let mut locks = HeldLocks::none(context.database.locks().clone());
    match target {
        WriteTarget::Key(key) => locks = context.lock(vec![handle.name(key)?]).await?,
        WriteTarget::Keys(keys) => locks = context.lock(names(handle, keys)?).await?,
        WriteTarget::Span(_) | WriteTarget::Query(_) | WriteTarget::Nothing => {}
    }
    let mut locked: HashSet<RowName> = HashSet::new();
    loop {
        let snapshot = context.newest()?;
        let (rows, computed) = target::read(context, handle, target, &snapshot, parameters).await?;
        let keys = (0..rows.num_rows()).map(|row| handle.key(&rows, row)).collect::<Result<Vec<_>>>()?;
        let families = families.read(&snapshot, handle, rows.clone()).await?;
        let found = TargetRows { rows, computed, keys, families };
        let known = matches!(target, WriteTarget::Key(_) | WriteTarget::Keys(_) | WriteTarget::Nothing);
        if known || found.keys.len() > ROWS_LOCKED_MAX {
            return Ok((found, snapshot, locks));
        }
        let mut wanted = names(handle, &found.keys)?;
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

fn names(handle: &TableHandle, keys: &[Vec<Value>]) -> Result<Vec<RowName>> {
    keys.iter().map(|key| handle.name(key)).collect()
}

/// What must not have been written since: the rows that were read, whether they exist or not.
fn preconditions(handle: &TableHandle, target: &WriteTarget, found: &TargetRows, seq: u64) -> Vec<Unchanged> {
    match target {
        WriteTarget::Key(key) => vec![handle.unchanged(key, seq)],
        WriteTarget::Keys(keys) if keys.len() <= ROWS_LOCKED_MAX => {
            keys.iter().map(|key| handle.unchanged(key, seq)).collect()
        }
        _ if found.keys.is_empty() => Vec::new(),
        _ if found.keys.len() <= ROWS_LOCKED_MAX => found.keys.iter().map(|key| handle.unchanged(key, seq)).collect(),
        _ => vec![Unchanged { relation: handle.relation.id, span: Span::all(), seq }],
    }
}
