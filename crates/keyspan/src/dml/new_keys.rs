//! The keys of COPY and INSERT … SELECT under `write_semantics = postgres`: none may exist, none may come twice.
//!
//! ```text
//! each batch ─▶ in the snapshot? 23505 ─▶ among those before it? 23505
//! at the end ─▶ (too many to remember, not ascending: are there as many rows as came?) ─▶ the span has not changed
//! ```
//!
//! The rule: memory does not grow with the rows beyond what is [`Remembered`], and what others write between the first
//! look and the statement's own write is found by the store (40001).

use std::sync::Arc;

use keyspan_model::{BatchWrite, Mutation, Result, ScanColumn, Unchanged, WriteBatch};
use keyspan_seam::{ReadAt, Snapshot};

use super::existing;
use super::remembered::Remembered;
use crate::context::ClientContext;
use crate::row::TableHandle;
use crate::violation::Uniqueness;

/// Looks at the keys of a statement's rows.
pub(crate) struct NewKeys {
    handle: TableHandle,
    snapshot: Arc<dyn Snapshot>,
    keys: Remembered,
    rows: u64,
}

impl std::fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKeys").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl NewKeys {
    /// For rows of this table; none where a write may overwrite rows.
    pub(crate) fn wanted(context: &mut ClientContext, handle: &TableHandle) -> Result<Option<NewKeys>> {
        if !context.settings.postgres_writes() || !handle.table.has_key() {
            return Ok(None);
        }
        Ok(Some(NewKeys { handle: handle.clone(), snapshot: context.newest()?, keys: Remembered::default(), rows: 0 }))
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
            self.rows += 1;
            if !self.keys.add(bytes, &key, &self.rows.to_le_bytes()) {
                return Err(Uniqueness::of_key(&self.handle.table).exists(&key));
            }
        }
        Ok(())
    }

    /// What must not have been written since; `mutations` are those that write the rows.
    ///
    /// # Errors
    /// 23505 if a key came twice among more of them than are remembered.
    pub(crate) async fn confirm(&self, context: &ClientContext, mutations: &[Mutation]) -> Result<Vec<Unchanged>> {
        let Some(span) = self.keys.span() else { return Ok(Vec::new()) };
        let relation = self.handle.relation.id;
        if self.keys.may_repeat() {
            let batch = WriteBatch { mutations: mutations.to_vec(), ..WriteBatch::default() };
            let before = existing::count(context, &self.snapshot, relation, vec![span.clone()]).await?;
            let after = self.snapshot.with_writes(&batch)?;
            if existing::count(context, &after, relation, vec![span.clone()]).await? < before + self.rows {
                return Err(Uniqueness::of_key(&self.handle.table).comes_twice());
            }
        }
        Ok(vec![Unchanged { relation, span, seq: self.snapshot.seq() }])
    }

    /// Begins anew, after what came so far was committed.
    pub(crate) fn begin_again(&mut self, context: &ClientContext) -> Result<()> {
        self.snapshot = context.database.store().snapshot(ReadAt::Newest)?;
        (self.keys, self.rows) = (Remembered::default(), 0);
        Ok(())
    }
}
