//! The keys of COPY and INSERT … SELECT under `write_semantics = postgres`: none may exist, none may come twice.
//!
//! ```text
//! each batch ─▶ in the snapshot? 23505 ─▶ among those before it? 23505
//! at the end ─▶ (too many to remember, not ascending: are there as many rows as came?) ─▶ the span has not changed
//! ```
//!
//! The rule: memory does not grow with the rows beyond [`REMEMBERED_MAX`] hashes of keys, and what others write between
//! the first look and the statement's own write is found by the store (40001).

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use keyspan_model::{BatchWrite, Mutation, Result, ScanColumn, Span, Unchanged, Value, WriteBatch};
use keyspan_seam::{ReadAt, Snapshot};

use super::existing;
use crate::context::ClientContext;
use crate::row::TableHandle;
use crate::violation::Uniqueness;

/// Keys whose hashes are kept, 16 bytes each.
const REMEMBERED_MAX: usize = 1 << 20;

/// Looks at the keys of a statement's rows.
pub(crate) struct NewKeys {
    handle: TableHandle,
    snapshot: Arc<dyn Snapshot>,
    hashers: [RandomState; 2],
    /// Hashes of the keys so far, unless they were too many.
    seen: Option<HashSet<u128>>,
    /// The least and the greatest key so far, encoded and as values.
    ends: Option<(KeyEnd, KeyEnd)>,
    /// Whether each key was greater than the one before it.
    ascending: bool,
    rows: u64,
}

type KeyEnd = (Vec<u8>, Vec<Value>);

impl std::fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKeys").field("rows", &self.rows).field("ascending", &self.ascending).finish_non_exhaustive()
    }
}

impl NewKeys {
    /// For rows of this table; none where a write may overwrite rows.
    pub(crate) fn wanted(context: &mut ClientContext, handle: &TableHandle) -> Result<Option<NewKeys>> {
        if !context.settings.postgres_writes() || !handle.table.has_key() {
            return Ok(None);
        }
        Ok(Some(NewKeys {
            handle: handle.clone(),
            snapshot: context.newest()?,
            hashers: Default::default(),
            seen: Some(HashSet::new()),
            ends: None,
            ascending: true,
            rows: 0,
        }))
    }

    /// 23505 if a key of the rows, which the first of these writes, exists or came before.
    pub(crate) async fn check(&mut self, writes: &[BatchWrite]) -> Result<()> {
        let Some(write) = writes.first() else { return Ok(()) };
        let keys = (0..write.batch.num_rows()).map(|row| self.handle.key(&write.batch, row));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let columns: Vec<ScanColumn> = self.handle.table.key().map(|column| ScanColumn::Column(column.id)).collect();
        let found = self.snapshot.get(self.handle.relation.id, &keys, &columns).await?;
        if found.num_rows() > 0 {
            return Err(Uniqueness::of_key(&self.handle.table).exists(&self.handle.key(&found, 0)?));
        }
        let encoded = self.handle.encoded_keys(&write.batch.columns()[..self.handle.key_len()])?;
        for (bytes, key) in encoded.iter().flatten().zip(keys) {
            self.add(bytes, key)?;
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8], key: Vec<Value>) -> Result<()> {
        self.rows += 1;
        let hash = self.hashers.iter().fold(0, |all, hasher| all << 64 | u128::from(hasher.hash_one(bytes)));
        if self.seen.as_mut().is_some_and(|seen| !seen.insert(hash)) {
            return Err(Uniqueness::of_key(&self.handle.table).exists(&key));
        }
        if self.seen.as_ref().is_some_and(|seen| seen.len() > REMEMBERED_MAX) {
            self.seen = None;
        }
        match &mut self.ends {
            None => self.ends = Some(((bytes.to_vec(), key.clone()), (bytes.to_vec(), key))),
            Some((_, greatest)) if *bytes > *greatest.0 => *greatest = (bytes.to_vec(), key),
            Some((least, _)) => {
                self.ascending = false;
                if *bytes < *least.0 {
                    *least = (bytes.to_vec(), key);
                }
            }
        }
        Ok(())
    }

    /// What must not have been written since; `mutations` are those that write the rows.
    ///
    /// # Errors
    /// 23505 if a key came twice among more of them than are remembered.
    pub(crate) async fn confirm(&self, context: &ClientContext, mutations: &[Mutation]) -> Result<Vec<Unchanged>> {
        let Some((least, greatest)) = &self.ends else { return Ok(Vec::new()) };
        let span = Span { start: Bound::Included(least.1.clone()), end: Bound::Included(greatest.1.clone()) };
        let relation = self.handle.relation.id;
        if self.seen.is_none() && !self.ascending {
            let batch = WriteBatch { mutations: mutations.to_vec(), ..WriteBatch::default() };
            let before = existing::count(context, &self.snapshot, relation, span.clone()).await?;
            let after = self.snapshot.with_writes(&batch)?;
            if existing::count(context, &after, relation, span.clone()).await? < before + self.rows {
                return Err(Uniqueness::of_key(&self.handle.table).comes_twice());
            }
        }
        Ok(vec![Unchanged { relation, span, seq: self.snapshot.seq() }])
    }

    /// Begins anew, after what came so far was committed.
    pub(crate) fn begin_again(&mut self, context: &ClientContext) -> Result<()> {
        self.snapshot = context.database.store().snapshot(ReadAt::Newest)?;
        (self.seen, self.ends, self.ascending, self.rows) = (Some(HashSet::new()), None, true, 0);
        Ok(())
    }
}
