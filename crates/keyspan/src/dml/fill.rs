//! Gives the rows that are there the defaults of columns that are added.
//!
//! Rule: rows that expire are not filled, since what is written to them would outlive them. No row is locked: nobody
//! may have written to the table meanwhile.

use std::sync::Arc;

use keyspan_model::{ColumnId, Mutation, Result, ScanColumn, Span, TableDef, Unchanged, WriteBatch};
use keyspan_seam::Snapshot;

use super::{existing, insert};
use crate::constraint::kept_value;
use crate::context::ClientContext;
use crate::locks::HeldLocks;
use crate::row::{NewRow, TableHandle};

/// Rows that have been filled.
pub(crate) struct Filled {
    /// The table as it is then, without what others write meanwhile.
    pub(crate) state: Arc<dyn Snapshot>,
    /// How many rows expire, which are not filled.
    pub(crate) expiring: u64,
}

/// Writes the defaults of these columns to all rows that do not expire, in the open transaction.
///
/// # Errors
/// Those of an UPDATE; COMMIT fails with 40001 if others have written to the table meanwhile.
pub(crate) async fn fill(context: &mut ClientContext, table: Arc<TableDef>, columns: &[ColumnId]) -> Result<Filled> {
    let handle = context.handle(table);
    let (relation, snapshot) = (handle.relation.id, context.newest()?);
    let mut rows = lasting_rows(context, &snapshot, &handle).await?;
    let expiring =
        existing::count(context, &snapshot, relation, vec![Span::all()]).await?.saturating_sub(rows.len() as u64);
    insert::fill_defaults(context, &handle, |column| columns.contains(&column.id), &mut rows)?;
    let (stamp, places) = (context.stamp(), handle.key_len()..handle.table.columns.len());
    let mut mutations: Vec<Mutation> = Vec::with_capacity(rows.len());
    for mut row in rows {
        for (column, value) in handle.table.columns[places.clone()].iter().zip(&mut row[places.clone()]) {
            *value = value.take().map(|value| kept_value(&handle.table, column, value)).transpose()?;
        }
        mutations.extend(handle.write(&row, false, stamp, 0));
    }
    let written = WriteBatch { mutations, ..WriteBatch::default() };
    let state = snapshot.with_writes(&written)?;
    let unchanged = vec![Unchanged { relation, span: Span::all(), seq: snapshot.seq() }];
    let locks = HeldLocks::none(context.database.locks().clone());
    context.write(&handle, written.mutations, unchanged, locks).await?;
    Ok(Filled { state, expiring })
}

/// The rows that do not expire, with nothing but their keys.
async fn lasting_rows(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    handle: &TableHandle,
) -> Result<Vec<NewRow>> {
    let (key_len, all) = (handle.key_len(), handle.table.columns.len());
    let key = handle.table.columns[..key_len].iter().map(|column| ScanColumn::Column(column.id)).collect();
    let (mut rows, lasting) = (Vec::new(), snapshot.lasting()?);
    let read = existing::visit(context, &lasting, handle.relation.id, vec![Span::all()], key, |batch| {
        for place in 0..batch.num_rows() {
            let key = handle.key(&batch, place)?.into_iter().map(Some);
            rows.push(key.chain(std::iter::repeat_n(None, all - key_len)).collect());
        }
        Ok(false)
    });
    read.await?;
    Ok(rows)
}
