//! What a write to a table with unique indexes checks and adds.
//!
//! ```text
//! rows written ─▶ their values ─▶ locked ─▶ entries ─▶ the rows that these name ─▶ another row has them: 23505
//!                                             └─▶ new entries, and that nobody else has written these meanwhile
//! ```
//!
//! The rule: what counts is the state after the statement: rows that it changes itself have their new values.

use std::collections::HashMap;

use keyspan_model::{Error, Mutation, Result, Span, Unchanged, WriteBatch};

use super::ClientContext;
use super::write::ROWS_LOCKED_MAX;
use crate::locks::HeldLocks;
use crate::row::TableHandle;
use crate::row::unique::{self, Claim, UniqueIndex, WrittenRow};
use crate::violation::Uniqueness;

/// What a write does besides, so that values stay unique.
pub(super) struct Kept {
    pub(super) mutations: Vec<Mutation>,
    pub(super) unchanged: Vec<Unchanged>,
    pub(super) locks: HeldLocks,
}

impl ClientContext {
    /// Checks the rows that mutations write.
    ///
    /// # Errors
    /// 23505 if another row has the values of one of them.
    pub(super) async fn keep_unique(&mut self, handle: &TableHandle, mutations: &[Mutation]) -> Result<Kept> {
        let mut rows = WrittenRow::all(handle, mutations)?;
        let snapshot = self.newest()?;
        // With those of the statements before it in a BATCH, which it does not see.
        let batched = self.transaction.as_ref().and_then(|transaction| transaction.batched()).unwrap_or_default();
        let read = unique::complete(handle, &snapshot, &[batched, mutations], &mut rows).await?;
        let mut kept = Kept {
            mutations: Vec::with_capacity(rows.len()),
            unchanged: read.iter().map(|key| handle.unchanged(key, snapshot.seq())).collect(),
            locks: HeldLocks::none(self.database.locks().clone()),
        };
        drop(snapshot);
        for (place, index) in handle.uniques.iter().enumerate() {
            let claims = index.claims(handle, place, &rows)?;
            if !claims.is_empty() {
                self.check_claims(handle, index, &claims, mutations, &mut kept).await?;
            }
        }
        Ok(kept)
    }

    async fn check_claims(
        &mut self,
        handle: &TableHandle,
        index: &UniqueIndex,
        claims: &[Claim],
        mutations: &[Mutation],
        kept: &mut Kept,
    ) -> Result<()> {
        let taken = |claim: &Claim| Uniqueness::of_index(&handle.table, &index.index).exists(&claim.values);
        self.check_each_once(handle, index, claims, &taken)?;
        let locked = claims.len() <= ROWS_LOCKED_MAX;
        if locked {
            kept.locks.absorb(self.lock(claims.iter().map(|claim| index.name(claim)).collect()).await?);
        }
        let snapshot = self.newest()?;
        let others = |holder: &unique::Holder| holder.row != claims[holder.claim].row;
        if index.holders(handle, &snapshot, claims).await?.iter().any(others) {
            // Rows that the statement changes itself count as they will be.
            let batch = WriteBatch { mutations: mutations.to_vec(), ..WriteBatch::default() };
            let after = index.holders(handle, &snapshot.with_writes(&batch)?, claims).await?;
            if let Some(holder) = after.into_iter().find(others) {
                return Err(taken(&claims[holder.claim]));
            }
        }
        let (stamp, seq) = (self.server_stamp(), snapshot.seq());
        kept.mutations.extend(claims.iter().map(|claim| index.entry(handle, claim, stamp)));
        match locked {
            true => kept.unchanged.extend(claims.iter().map(|claim| index.unchanged(&claim.values, seq))),
            false => kept.unchanged.push(Unchanged { relation: index.entries.id, span: Span::all(), seq }),
        }
        Ok(())
    }

    /// Of the statement itself, and of those before it in a BATCH, which do not see each other.
    fn check_each_once(
        &self,
        handle: &TableHandle,
        index: &UniqueIndex,
        claims: &[Claim],
        taken: &impl Fn(&Claim) -> Error,
    ) -> Result<()> {
        let earlier = match self.transaction.as_ref().and_then(|transaction| transaction.batched()) {
            Some(mutations) => index.claimed_by(handle, mutations)?,
            None => HashMap::new(),
        };
        let mut seen: HashMap<&[u8], &[u8]> = earlier.iter().map(|(values, row)| (&values[..], &row[..])).collect();
        for claim in claims {
            if seen.insert(&claim.encoded, &claim.row).is_some_and(|row| row != claim.row) {
                return Err(taken(claim));
            }
        }
        Ok(())
    }
}
