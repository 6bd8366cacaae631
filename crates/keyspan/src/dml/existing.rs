//! Scans of a table without a query: whether it is empty, has nulls, breaks a condition; counts.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use futures::StreamExt;
use keyspan_cql::ast;
use keyspan_model::{
    ColumnDef, ColumnId, ColumnRole, FamilyDef, KeyEncoder, Order, RelationDef, RelationId, Result, Scan, ScanColumn,
    Span, TableDef,
};
use keyspan_seam::{Conditions, Snapshot};

use crate::constraint;
use crate::context::ClientContext;
use crate::names::columns_of;
use crate::row::TableHandle;

/// Reads spans of a relation, batch by batch, until `visit` says that it has seen enough.
pub(crate) async fn visit(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    relation: RelationId,
    spans: Vec<Span>,
    columns: Vec<ScanColumn>,
    mut visit: impl FnMut(RecordBatch) -> Result<bool>,
) -> Result<()> {
    let mut scan = Scan {
        relation,
        spans,
        columns,
        ranges: Vec::new(),
        order: Order::Forward,
        limit: None,
        per_prefix: None,
        coded: false,
    };
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

/// Of these families those that have cells, in whatever row.
pub(crate) async fn with_cells(context: &mut ClientContext, families: &[FamilyDef]) -> Result<Vec<RelationId>> {
    let snapshot = context.newest()?;
    with_cells_in(context, &snapshot, families).await
}

/// As [`with_cells`], in this state.
pub(crate) async fn with_cells_in(
    context: &ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    families: &[FamilyDef],
) -> Result<Vec<RelationId>> {
    let mut found = Vec::new();
    for family in families {
        let relation = family.relation;
        let read = visit(context, snapshot, relation, vec![Span::all()], Vec::new(), |batch| {
            if batch.num_rows() > 0 {
                found.push(relation);
            }
            Ok(batch.num_rows() > 0)
        });
        read.await?;
    }
    Ok(found)
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
