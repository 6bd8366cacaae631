//! Scans of a table without a query: whether it is empty, has nulls, breaks a condition; counts.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use futures::StreamExt;
use keyspan_cql::ast;
use keyspan_model::{
    ColumnDef, ColumnId, ColumnRole, KeyEncoder, RelationDef, RelationId, Result, Scan, ScanColumn, Span, TableDef,
};
use keyspan_seam::{Conditions, Known, Snapshot};

use crate::constraint;
use crate::context::ClientContext;
use crate::intake::GatheredKey;
use crate::intake::gather::Gather;
use crate::names::columns_of;
use crate::row::TableHandle;

/// Cells between the least and the greatest of some keys, for each key, up to which all between them is read.
const CELLS_FOR_A_KEY: u64 = 16;
/// Keys up to which each is looked up by itself where there are more cells.
const KEYS_ONE_BY_ONE: usize = 10_000;

/// Reads spans of a relation, batch by batch, until `visit` says that it has seen enough.
pub(crate) async fn visit(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    relation: RelationId,
    spans: Vec<Span>,
    columns: Vec<ScanColumn>,
    visit: impl FnMut(RecordBatch) -> Result<bool>,
) -> Result<()> {
    visit_scan(context, snapshot, Scan::new(relation, spans, columns), visit).await
}

async fn visit_scan(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    mut scan: Scan,
    mut visit: impl FnMut(RecordBatch) -> Result<bool>,
) -> Result<()> {
    let filter = SpanFilter::of(&mut scan, snapshot)?;
    let plan = snapshot.plan(&scan, 1).await?;
    for split in &plan.splits {
        let rows = snapshot.scan(&scan, split, Conditions::default(), Arc::default())?;
        let mut stream = context.running.guard_stream(context.database.threads().begin_stream(|| Ok(rows))?);
        while let Some(batch) = stream.next().await {
            let batch = match &filter {
                Some(filter) => filter.inside(&batch?)?,
                None => batch?,
            };
            if visit(batch)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The rows inside spans, of a store that delivers others too.
struct SpanFilter {
    encoder: KeyEncoder,
    spans: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// How many columns were asked for; behind them stand the key columns.
    wanted: usize,
}

impl SpanFilter {
    /// Has the scan read the key columns as well, if the store may deliver rows outside its spans.
    fn of(scan: &mut Scan, snapshot: &Arc<dyn Snapshot>) -> Result<Option<SpanFilter>> {
        if scan.spans.iter().any(Span::is_all) || snapshot.accept(scan).spans {
            return Ok(None);
        }
        let Some(RelationDef { key, .. }) = snapshot.catalog().relation(scan.relation) else { return Ok(None) };
        let encoder = KeyEncoder::new(&key);
        let spans = scan.spans.iter().map(|span| encoder.span_bytes(span)).collect::<Result<_>>()?;
        let wanted = scan.columns.len();
        scan.columns.extend(key.iter().map(|column| ScanColumn::Column(column.id)));
        Ok(Some(SpanFilter { encoder, spans, wanted }))
    }

    fn inside(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keys = self.encoder.encode_batch(&batch.columns()[self.wanted..])?;
        let holds = |key: &[u8]| {
            self.spans.iter().any(|(from, to)| key >= &from[..] && to.as_ref().is_none_or(|to| key < &to[..]))
        };
        let keep: BooleanArray = keys.iter().map(|key| key.map(holds)).collect();
        let wanted: Vec<usize> = (0..self.wanted).collect();
        Ok(filter_record_batch(&batch.project(&wanted)?, &keep)?)
    }
}

/// How many live rows these spans have, which are in key order.
pub(crate) async fn count(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    relation: RelationId,
    spans: Vec<Span>,
) -> Result<u64> {
    let mut rows = 0;
    let counted = visit(context, snapshot, relation, spans, Vec::new(), |batch| {
        rows += batch.num_rows() as u64;
        Ok(false)
    });
    counted.await?;
    Ok(rows)
}

/// Whether the table has a row.
pub(crate) async fn any_row(context: &ClientContext, snapshot: &Arc<dyn Snapshot>, table: &TableDef) -> Result<bool> {
    any(context, snapshot, table.rows, Vec::new(), |batch| Ok(batch.num_rows() > 0)).await
}

/// Finds out which of the rows that were gathered had cells in families before, so that the others, which are most where
/// rows are new, need no deletion.
pub(crate) async fn note_cells_before(context: &ClientContext, gather: &mut Gather) -> Result<()> {
    let Some(cells) = gather.cells_mut() else { return Ok(()) };
    let Some(before) = cells.before().cloned() else { return Ok(()) };
    let (keys, mut had) = (cells.keys(), HashMap::new());
    for relation in cells.relations() {
        if let Some(keys) = keys_with_cells(context, &before, relation, &keys).await? {
            had.insert(relation.id, keys);
        }
    }
    cells.note_had(had);
    Ok(())
}

/// Of these row keys, which ascend, those that a family has cells of, encoded; `None` where too much would be read.
async fn keys_with_cells(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    relation: &RelationDef,
    keys: &[GatheredKey<'_>],
) -> Result<Option<HashSet<Vec<u8>>>> {
    let ([(_, first), ..], [.., (_, last)]) = (keys, keys) else { return Ok(Some(HashSet::new())) };
    let columns = &relation.key[..first.len()];
    let between = Span { start: Bound::Included(first.to_vec()), end: Bound::Included(last.to_vec()) };
    let wanted = columns.iter().map(|column| ScanColumn::Column(column.id)).collect();
    let mut scan = Scan { per_prefix: Some((columns.len(), 1)), ..Scan::new(relation.id, vec![between], wanted) };
    let cells = match snapshot.plan(&scan, 1).await?.statistics.rows {
        Known::Exact(rows) | Known::Estimate(rows) => rows,
        Known::Unknown => u64::MAX,
    };
    if cells > (keys.len() as u64).saturating_mul(CELLS_FOR_A_KEY) {
        if keys.len() > KEYS_ONE_BY_ONE {
            return Ok(None);
        }
        scan.spans = keys.iter().map(|(_, key)| Span::prefix(key.to_vec())).collect();
    }
    let (encoder, mut had) = (KeyEncoder::new(columns), HashSet::new());
    visit_scan(context, snapshot, scan, |batch| {
        let encoded = encoder.encode_batch(batch.columns())?;
        had.extend(encoded.iter().flatten().map(<[u8]>::to_vec));
        Ok(false)
    })
    .await?;
    Ok(Some(had))
}

/// Whether a row expires, or a cell of a column outside of the key.
pub(crate) async fn any_expiring(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
) -> Result<bool> {
    let lasting = count(context, &snapshot.lasting()?, table.rows, vec![Span::all()]).await?;
    if count(context, snapshot, table.rows, vec![Span::all()]).await? > lasting {
        return Ok(true);
    }
    let columns = table.columns.iter().filter(|column| !column.is_key() && column.role != ColumnRole::Static);
    let columns: Vec<ScanColumn> = columns.map(|column| ScanColumn::Ttl(column.id)).collect();
    let expires = |batch: RecordBatch| Ok(batch.columns().iter().any(|column| column.null_count() < column.len()));
    any(context, snapshot, table.rows, columns, expires).await
}

/// Whether a text of this column has more characters.
pub(crate) async fn any_longer(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    column: &ColumnDef,
    most: u32,
) -> Result<bool> {
    let relation = match (&table.statics, column.role) {
        (Some(statics), ColumnRole::Static) => *statics,
        _ => table.rows,
    };
    let is_longer = |text: &str| text.len() > most as usize && text.chars().count() > most as usize;
    let longer = |batch: RecordBatch| Ok(batch.column(0).as_string_view().iter().flatten().any(is_longer));
    any(context, snapshot, relation, vec![ScanColumn::Column(column.id)], longer).await
}

/// Whether a row has null in this column.
pub(crate) async fn any_null(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    column: ColumnId,
) -> Result<bool> {
    let columns = vec![ScanColumn::Column(column)];
    any(context, snapshot, table.rows, columns, |batch| Ok(batch.column(0).null_count() > 0)).await
}

/// Whether the condition is false for a row.
pub(crate) async fn any_breaking(
    context: &mut ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    condition: &ast::Expr,
) -> Result<bool> {
    let handle = TableHandle::new(Arc::new(table.clone()));
    // It is about static columns or about others, not about both.
    let of_statics = |name: &String| table.column(name).is_some_and(|column| column.role == ColumnRole::Static);
    let (table, relation) = match &handle.statics {
        Some(statics) if columns_of(condition).iter().any(of_statics) => (statics.table.clone(), statics.relation.id),
        _ => (Arc::new(table.without_statics()), table.rows),
    };
    let compiled = constraint::compile_one(context, &table, condition)?;
    let columns = table.columns.iter().map(|column| ScanColumn::Column(column.id)).collect();
    let breaks = |batch| Ok(constraint::has_false(compiled.evaluate(&batch, &[])?[0].as_ref()));
    any(context, snapshot, relation, columns, breaks).await
}

async fn any(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    relation: RelationId,
    columns: Vec<ScanColumn>,
    test: impl Fn(RecordBatch) -> Result<bool>,
) -> Result<bool> {
    let mut found = false;
    let read = visit(context, snapshot, relation, vec![Span::all()], columns, |batch| {
        found |= test(batch)?;
        Ok(found)
    });
    read.await?;
    Ok(found)
}
