//! Read-modify-write: lock the rows, read the newest state, decide, write, and begin again when another write has
//! changed the rows in between.
//!
//! ```text
//! keys known:   lock ─▶ newest state ─▶ decide ─▶ apply with preconditions ──40001──▶ again
//! rows found:   newest state ─▶ lock the rows found ─▶ (in a transaction: read again) ─▶ decide ─▶ …
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use keyspan_model::{Error, ErrorKind, Mutation, RelationId, Result, Span, Unchanged, Value, WriteBatch};
use keyspan_seam::Snapshot;

use super::family::{FamilyInput, FamilyRows};
use super::target::{self, Computed, ReadRows, WriteTarget};
use crate::context::{ClientContext, ROWS_LOCKED_MAX};
use crate::database::count;
use crate::locks::{HeldLocks, RowName};
use crate::row::TableHandle;

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
    /// Of a target given by keys, the rows that are not there: what they show all the same.
    empty: HashMap<RowName, Vec<Value>>,
    /// The partition keys of a target found by a query, those of partitions without rows among them.
    pub(crate) partitions: Vec<Vec<Value>>,
}

impl TargetRows {
    /// The place of each row, by its name.
    pub(crate) fn places(&self, handle: &TableHandle) -> Result<HashMap<RowName, usize>> {
        self.keys.iter().enumerate().map(|(place, key)| Ok((handle.name(key)?, place))).collect()
    }

    /// The keys of the target that have no row.
    pub(crate) fn missing<'a>(&self, handle: &TableHandle, target: &'a WriteTarget) -> Result<Vec<&'a Vec<Value>>> {
        if target.keys().is_empty() {
            return Ok(Vec::new());
        }
        let places = self.places(handle)?;
        let mut missing = Vec::new();
        for key in target.keys() {
            if !places.contains_key(&handle.name(key)?) {
                missing.push(key);
            }
        }
        Ok(missing)
    }

    /// The row of a key of the target that is not there: it shows the static values of its partition.
    pub(crate) fn empty_row(&self, handle: &TableHandle, key: &[Value]) -> Result<Vec<Value>> {
        let known = if self.empty.is_empty() { None } else { self.empty.get(&handle.name(key)?) };
        Ok(known.cloned().unwrap_or_else(|| handle.bare_row(key)))
    }
}

impl WriteTarget {
    /// The keys, of a target given by keys.
    pub(crate) fn keys(&self) -> &[Vec<Value>] {
        match self {
            WriteTarget::Key(key) => std::slice::from_ref(key),
            WriteTarget::Keys(keys) => keys,
            WriteTarget::Spans(_) | WriteTarget::Nothing | WriteTarget::Query(_) => &[],
        }
    }
}

/// Asks for the state with what a statement has written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After;

/// What was decided, and the states before and after.
#[derive(Debug)]
pub(crate) struct Changed<T> {
    pub(crate) answer: T,
    pub(crate) before: Arc<dyn Snapshot>,
    pub(crate) after: Option<Arc<dyn Snapshot>>,
}

/// Reads the target's rows, lets `decide` turn them into mutations, and writes these; begins again when another write
/// has changed the rows in between. `decide` must not have effects beyond its answer. Tells the states before and, where
/// it is wanted, after.
pub(crate) async fn change_seen<T>(
    context: &mut ClientContext,
    handle: &TableHandle,
    target: &WriteTarget,
    families: &FamilyInput,
    wanted: Option<After>,
    parameters: &[Value],
    mut decide: impl FnMut(&TargetRows) -> Result<(Vec<Mutation>, T)>,
) -> Result<Changed<T>> {
    for _ in 0..TRIES_MAX {
        let (found, snapshot, locks) = find(context, handle, target, families, parameters).await?;
        let (mutations, answer) = decide(&found)?;
        let mutations = above_what_was_read(&snapshot, handle, mutations).await?;
        let mut unchanged = preconditions(handle, target, &found, snapshot.seq());
        unchanged.extend(families.unchanged(&found.keys, snapshot.seq()));
        unchanged.extend(families.unchanged_statics(keys_of(target, &found), snapshot.seq()));
        let after = match wanted {
            Some(After) => {
                let batch = WriteBatch { mutations: mutations.clone(), ..WriteBatch::default() };
                Some(snapshot.with_writes(&batch)?)
            }
            None => None,
        };
        match context.write(handle, mutations, unchanged, locks).await {
            Ok(()) => return Ok(Changed { answer, before: snapshot, after }),
            Err(error) if error.kind == ErrorKind::Serialization && context.transaction.is_none() => {
                count(&context.database.counts().retries);
            }
            Err(error) => return Err(error),
        }
    }
    let message = "could not serialize access: the rows kept changing";
    Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again."))
}

/// The mutations, those of rows that have something from the future (USING TIMESTAMP) stamped above that: a write that has
/// read a row takes the place of what it has read. All of a row's are moved alike, so that one statement's stay in their
/// order.
pub(super) async fn above_what_was_read(
    snapshot: &Arc<dyn Snapshot>,
    handle: &TableHandle,
    mut mutations: Vec<Mutation>,
) -> Result<Vec<Mutation>> {
    let mut keys: BTreeMap<RelationId, Vec<Vec<Value>>> = BTreeMap::new();
    for mutation in &mutations {
        if let Some(key) = key_of(mutation) {
            keys.entry(mutation.relation()).or_default().push(key.to_vec());
        }
    }
    let row_of = |key: &[Value]| handle.prefix(&key[..key.len().min(handle.key_len())]);
    let mut ahead: HashMap<Vec<u8>, i64> = HashMap::new();
    for (relation, keys) in keys {
        let stamps = snapshot.stamps_ahead(relation, &keys).await?;
        for (key, stamp) in keys.iter().zip(stamps).filter_map(|(key, stamp)| Some((key, stamp?))) {
            let newest = ahead.entry(row_of(key)?).or_insert(stamp);
            *newest = stamp.max(*newest);
        }
    }
    if !ahead.is_empty() {
        for mutation in &mut mutations {
            let Some(newest) = key_of(mutation).map(row_of).transpose()?.and_then(|row| ahead.get(&row)) else {
                continue;
            };
            mutation.move_server_stamp(|statement| newest.saturating_add(1 + i64::from(statement)));
        }
    }
    Ok(mutations)
}

/// The key of a mutation of one row, or of what begins with it.
fn key_of(mutation: &Mutation) -> Option<&[Value]> {
    match mutation {
        Mutation::Row(write) => Some(&write.key),
        Mutation::DeleteRow(delete) => Some(&delete.key),
        Mutation::DeleteSpan(delete) => match (&delete.span.start, &delete.span.end) {
            (Bound::Included(start), Bound::Included(end)) if start == end => Some(start),
            _ => None,
        },
        Mutation::Batch(_) | Mutation::Load(_) => None,
    }
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
    if !target.keys().is_empty() {
        locks = context.lock(names(handle, families, target.keys())?).await?;
    }
    let mut locked: HashSet<RowName> = HashSet::new();
    loop {
        let snapshot = context.newest()?;
        let ReadRows { rows, computed, partitions } =
            target::read(context, handle, target, &snapshot, parameters).await?;
        let keys = (0..rows.num_rows()).map(|row| handle.key(&rows, row)).collect::<Result<Vec<_>>>()?;
        let read = families.read(&snapshot, handle, rows.clone()).await?;
        let empty = empty_rows(handle, target, &keys, &snapshot).await?;
        let found = TargetRows { rows, computed, keys, families: read, empty, partitions };
        let known = matches!(target, WriteTarget::Key(_) | WriteTarget::Keys(_) | WriteTarget::Nothing);
        if known || found.keys.len() > ROWS_LOCKED_MAX {
            return Ok((found, snapshot, locks));
        }
        let mut wanted = names(handle, families, &found.keys)?;
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

/// The rows of a target given by keys that are not there, if they show static values.
async fn empty_rows(
    handle: &TableHandle,
    target: &WriteTarget,
    found: &[Vec<Value>],
    snapshot: &Arc<dyn Snapshot>,
) -> Result<HashMap<RowName, Vec<Value>>> {
    let wanted = target.keys();
    if handle.statics.is_none() || wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let found = found.iter().map(|key| handle.name(key)).collect::<Result<HashSet<_>>>()?;
    let mut empty = HashMap::new();
    for key in wanted {
        let name = handle.name(key)?;
        if !found.contains(&name) && !empty.contains_key(&name) {
            empty.insert(name, handle.empty_row(snapshot, key).await?);
        }
    }
    Ok(empty)
}

/// The keys that a statement reads, whether rows are there or not.
fn keys_of<'a>(target: &'a WriteTarget, found: &'a TargetRows) -> &'a [Vec<Value>] {
    if target.keys().is_empty() { &found.keys } else { target.keys() }
}

/// What to lock: the rows, and the partitions whose static values are read.
fn names(handle: &TableHandle, families: &FamilyInput, keys: &[Vec<Value>]) -> Result<Vec<RowName>> {
    let mut names = keys.iter().map(|key| handle.name(key)).collect::<Result<Vec<_>>>()?;
    names.extend(families.names_of_statics(keys)?);
    Ok(names)
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
