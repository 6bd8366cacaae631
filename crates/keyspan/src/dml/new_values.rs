//! The values of COPY and INSERT … SELECT that must be unique: none may be another row's, none may come twice.
//!
//! ```text
//! each batch ─▶ another row has the values? 23505 ─▶ a row before it has them? 23505 ─▶ its entries
//! at the end ─▶ (too many to remember: all rows sorted, the same side by side? 23505) ─▶ nobody has claimed them since
//! ```
//!
//! The rule: memory does not grow with the rows beyond what is [`Remembered`], and what others write between the first
//! look and the statement's own write is found by the store (40001).

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use keyspan_cql::quoted;
use keyspan_model::{BatchWrite, Mutation, Result, Span, Stamp, Unchanged, Value, WriteBatch};
use keyspan_seam::{BatchStream, ReadAt, Snapshot};

use super::remembered::{Neighbours, Remembered};
use crate::context::{ClientContext, ROWS_LOCKED_MAX};
use crate::row::TableHandle;
use crate::row::unique::{self, Claim, UniqueIndex, WrittenRow};
use crate::violation::Uniqueness;
use crate::{names, query};

/// Looks at the values of a statement's rows.
pub(crate) struct NewValues {
    handle: TableHandle,
    snapshot: Arc<dyn Snapshot>,
    stamp: Stamp,
    /// One for each unique index.
    parts: Vec<Part>,
    /// The keys of rows that were read; none if they are too many.
    read: Option<Vec<Vec<Value>>>,
}

/// What has come of one index.
#[derive(Default)]
struct Part {
    /// The values so far, and whose they are.
    all: Remembered,
    /// The values, while they are few.
    few: Vec<Vec<Value>>,
}

impl std::fmt::Debug for NewValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewValues").field("table", &self.handle.table.name).finish_non_exhaustive()
    }
}

impl NewValues {
    /// For rows of this table; none if nothing of it is unique but its key.
    pub(crate) fn wanted(context: &mut ClientContext, handle: &TableHandle) -> Result<Option<NewValues>> {
        if handle.uniques.is_empty() {
            return Ok(None);
        }
        if context.transaction.as_ref().is_some_and(|transaction| transaction.batched().is_some()) {
            return Err(unique::not_in_batch());
        }
        Ok(Some(NewValues {
            handle: handle.clone(),
            snapshot: context.newest()?,
            stamp: context.server_stamp(),
            parts: handle.uniques.iter().map(|_| Part::default()).collect(),
            read: Some(Vec::new()),
        }))
    }

    /// What writes the entries of the rows, which the first of these writes.
    ///
    /// # Errors
    /// 23505 if values of the rows are another row's, or came before.
    pub(crate) async fn check(&mut self, writes: &[BatchWrite]) -> Result<Vec<BatchWrite>> {
        let Some(write) = writes.first() else { return Ok(Vec::new()) };
        let mutations = [Mutation::Batch(write.clone())];
        let mut rows = WrittenRow::all(&self.handle, &mutations)?;
        let read = unique::complete(&self.handle, &self.snapshot, &[&mutations], &mut rows).await?;
        match &mut self.read {
            Some(keys) if keys.len() + read.len() <= ROWS_LOCKED_MAX => keys.extend(read),
            keys => *keys = None,
        }
        let handle = self.handle.clone();
        let mut entries = Vec::with_capacity(handle.uniques.len());
        for (place, index) in handle.uniques.iter().enumerate() {
            let claims = index.claims(&handle, place, &rows)?;
            if claims.is_empty() {
                continue;
            }
            let taken = |claim: &Claim| Uniqueness::of_index(&handle.table, &index.index).exists(&claim.values);
            let holders = index.holders(&handle, &self.snapshot, &claims).await?;
            if let Some(holder) = holders.iter().find(|holder| holder.row != claims[holder.claim].row) {
                return Err(taken(&claims[holder.claim]));
            }
            if let Some(claim) = claims.iter().find(|claim| !self.parts[place].add(claim)) {
                return Err(taken(claim));
            }
            entries.push(index.entries(&handle, &claims, self.stamp)?);
        }
        Ok(entries)
    }

    /// What must not have been written since; `mutations` are those of the statement.
    ///
    /// # Errors
    /// 23505 if values came twice among more of them than are remembered.
    pub(crate) async fn confirm(&self, context: &mut ClientContext, mutations: &[Mutation]) -> Result<Vec<Unchanged>> {
        let (mut unchanged, seq) = (Vec::new(), self.snapshot.seq());
        match &self.read {
            Some(keys) => unchanged.extend(keys.iter().map(|key| self.handle.unchanged(key, seq))),
            None => unchanged.push(Unchanged { relation: self.handle.relation.id, span: Span::all(), seq }),
        }
        for (index, part) in self.handle.uniques.iter().zip(&self.parts) {
            if part.all.may_repeat() {
                let batch = WriteBatch { mutations: mutations.to_vec(), ..WriteBatch::default() };
                let after = self.snapshot.with_writes(&batch)?;
                let mut sorted = SortedValues::begin(context, &self.handle, index, after).await?;
                while sorted.next().await?.is_some() {}
            }
            match part.few.len() <= ROWS_LOCKED_MAX {
                true => unchanged.extend(part.few.iter().map(|values| index.unchanged(values, seq))),
                false => {
                    let spans = part.all.span().into_iter();
                    unchanged.extend(spans.map(|span| Unchanged { relation: index.entries.id, span, seq }));
                }
            }
        }
        Ok(unchanged)
    }

    /// Begins anew, after what came so far was committed.
    pub(crate) fn begin_again(&mut self, context: &ClientContext) -> Result<()> {
        self.snapshot = context.database.store().snapshot(ReadAt::Newest)?;
        self.parts.iter_mut().for_each(|part| *part = Part::default());
        self.read = Some(Vec::new());
        Ok(())
    }
}

impl Part {
    /// Takes the values of a row; false if another row had them before.
    fn add(&mut self, claim: &Claim) -> bool {
        if self.few.len() <= ROWS_LOCKED_MAX {
            self.few.push(claim.values.clone());
        }
        self.all.add(&claim.encoded, &claim.values, &claim.row)
    }
}

/// All rows of a table by the values of a unique index, as its entries are: those with the same come side by side.
pub(crate) struct SortedValues<'a> {
    handle: &'a TableHandle,
    index: &'a UniqueIndex,
    rows: BatchStream,
    neighbours: Neighbours,
}

impl<'a> SortedValues<'a> {
    /// Begins to read them; sorting spills to disk.
    pub(crate) async fn begin(
        context: &mut ClientContext,
        handle: &'a TableHandle,
        index: &'a UniqueIndex,
        snapshot: Arc<dyn Snapshot>,
    ) -> Result<SortedValues<'a>> {
        let query_context = context.query_context(snapshot, &[]);
        let query = names::parse_query(&sorted_rows(handle, index))?;
        let (_, rows) = query::run_on(context, &query, &[], query_context).await?;
        let rows = context.running.guard_stream(rows);
        Ok(SortedValues { handle, index, rows, neighbours: Neighbours::default() })
    }

    /// The next rows: the columns of entries.
    ///
    /// # Errors
    /// 23505 if two rows have the same values.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.rows.next().await else { return Ok(None) };
        let batch = batch?;
        let columns = &batch.columns()[..self.index.entries.key.len()];
        if let Some(row) = self.neighbours.repeated(&self.index.encode_batch(columns)?) {
            let columns = self.index.entries.key.iter().zip(columns);
            let values = columns.map(|(column, array)| keyspan_model::value_at(array, row, column.ty));
            let values = values.collect::<Result<Vec<_>>>()?;
            return Err(Uniqueness::of_index(&self.handle.table, &self.index.index).repeated(&values));
        }
        Ok(Some(batch))
    }
}

/// The query for all rows that have values, the same ones side by side.
fn sorted_rows(handle: &TableHandle, index: &UniqueIndex) -> String {
    let (key, rest) = (index.entries.key.iter(), index.entries.values.iter());
    let own: Vec<String> = key.map(|column| format!("rows.{}", quoted(&column.name))).collect();
    let rest = rest.map(|column| format!("rows.{}", quoted(&column.name)));
    let all: Vec<String> = own.iter().cloned().chain(rest).collect();
    let some: Vec<String> = own.iter().map(|column| format!("{column} IS NOT NULL")).collect();
    let table = format!("{}.{}", quoted(&handle.table.keyspace), quoted(&handle.table.name));
    let (all, some, own) = (all.join(", "), some.join(" AND "), own.join(", "));
    format!("SELECT {all} FROM {table} AS rows WHERE {some} ORDER BY {own}")
}
