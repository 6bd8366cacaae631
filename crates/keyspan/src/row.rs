//! Rows as values, in the order of the table's columns, and their conversion to mutations and Arrow.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_model::array::{array_of, value_at};
use keyspan_model::{
    CellWrite, ColumnDef, FamilyDef, KeyEncoder, Mutation, RelationDef, Result, RowDelete, RowWrite, ScanColumn, Span,
    SpanDelete, Stamp, TableDef, Unchanged, Value,
};
use keyspan_seam::Snapshot;

use crate::locks::RowName;

/// A row to write: one entry per column of the table; none leaves the cell alone.
pub(crate) type NewRow = Vec<Option<Value>>;

/// A table with what it takes to read and write its rows: relation, key encoder, schema. Clones are cheap;
/// [`ClientContext::handle`] keeps those that were used last.
///
/// [`ClientContext::handle`]: crate::context::ClientContext::handle
#[derive(Clone, Debug)]
pub(crate) struct TableHandle {
    pub(crate) table: Arc<TableDef>,
    pub(crate) relation: Arc<RelationDef>,
    encoder: Arc<KeyEncoder>,
    /// All columns, hidden ones too, none of them declared NOT NULL: a row may be unfinished.
    pub(crate) schema: SchemaRef,
}

impl TableHandle {
    pub(crate) fn new(table: Arc<TableDef>) -> TableHandle {
        let relation = Arc::new(table.rows_relation());
        let encoder = Arc::new(KeyEncoder::new(&relation.key));
        let fields: Vec<_> = table.columns.iter().map(|column| column.ty.field(&column.name, true)).collect();
        TableHandle { schema: Arc::new(Schema::new(fields)), relation, encoder, table }
    }

    /// How many columns the key has; they are the first ones.
    pub(crate) fn key_len(&self) -> usize {
        self.relation.key.len()
    }

    /// The columns that are not hidden, with their places.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (usize, &ColumnDef)> {
        self.table.columns.iter().enumerate().filter(|(_, column)| !column.hidden)
    }

    /// Every column, for reading whole rows.
    pub(crate) fn scan_columns(&self) -> Vec<ScanColumn> {
        self.table.columns.iter().map(|column| ScanColumn::Column(column.id)).collect()
    }

    /// The row's name among locks.
    pub(crate) fn name(&self, key: &[Value]) -> Result<RowName> {
        Ok((self.relation.id, self.encoder.encode(key)?))
    }

    /// The encoded keys of rows, given their key columns.
    pub(crate) fn encoded_keys(&self, columns: &[ArrayRef]) -> Result<BinaryArray> {
        self.encoder.encode_batch(columns)
    }

    /// The precondition that this row has not changed since.
    pub(crate) fn unchanged(&self, key: &[Value], seq: u64) -> Unchanged {
        Unchanged { relation: self.relation.id, span: Span::prefix(key.to_vec()), seq }
    }

    /// The live rows of these keys, all columns; missing ones are left out.
    pub(crate) async fn read(&self, snapshot: &Arc<dyn Snapshot>, keys: &[Vec<Value>]) -> Result<RecordBatch> {
        snapshot.get(self.relation.id, keys, &self.scan_columns()).await
    }

    /// The values of one row of a batch that has all columns.
    pub(crate) fn values(&self, batch: &RecordBatch, row: usize) -> Result<Vec<Value>> {
        let columns = self.table.columns.iter().zip(batch.columns());
        columns.map(|(column, array)| value_at(array, row, column.ty)).collect()
    }

    /// The key of one row of a batch that has all columns.
    pub(crate) fn key(&self, batch: &RecordBatch, row: usize) -> Result<Vec<Value>> {
        let columns = self.table.columns.iter().zip(batch.columns()).take(self.key_len());
        columns.map(|(column, array)| value_at(array, row, column.ty)).collect()
    }

    /// Rows of values as a batch of all columns.
    pub(crate) fn batch(&self, rows: &[Vec<Value>]) -> Result<RecordBatch> {
        let array = |(index, column): (usize, &ColumnDef)| -> Result<ArrayRef> {
            let values: Vec<Value> = rows.iter().map(|row| row[index].clone()).collect();
            array_of(column.ty, &values)
        };
        let arrays = self.table.columns.iter().enumerate().map(array).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }

    /// The mutation that writes a row: null deletes a cell, a missing entry leaves it alone.
    pub(crate) fn write(&self, row: &NewRow, marker: bool, stamp: Stamp, ttl: u32) -> Mutation {
        let key_len = self.key_len();
        let key = row[..key_len].iter().map(|value| value.clone().unwrap_or(Value::Null)).collect();
        let cells = self.table.columns.iter().zip(row).skip(key_len);
        let cells = cells.filter_map(|(column, value)| {
            let write = match value.as_ref()? {
                Value::Null => CellWrite::Tombstone,
                value => CellWrite::Value(value.clone()),
            };
            Some((column.id, write))
        });
        Mutation::Row(RowWrite { relation: self.relation.id, key, marker, cells: cells.collect(), stamp, ttl })
    }

    /// The mutations that delete a row.
    pub(crate) fn delete(&self, key: Vec<Value>, stamp: Stamp) -> Vec<Mutation> {
        let mut mutations = self.delete_families(&Span::prefix(key.clone()), stamp);
        mutations.push(Mutation::DeleteRow(RowDelete { relation: self.relation.id, key, stamp }));
        mutations
    }

    /// The mutations that delete a span of rows.
    pub(crate) fn delete_span(&self, span: Span, stamp: Stamp) -> Vec<Mutation> {
        let mut mutations = self.delete_families(&span, stamp);
        mutations.push(Mutation::DeleteSpan(SpanDelete { relation: self.relation.id, span, stamp }));
        mutations
    }

    fn delete_families(&self, span: &Span, stamp: Stamp) -> Vec<Mutation> {
        let families = self.table.families.iter();
        let delete = |family: &FamilyDef| SpanDelete { relation: family.relation, span: span.clone(), stamp };
        families.map(|family| Mutation::DeleteSpan(delete(family))).collect()
    }
}

/// The old row with the new one's entries over it.
pub(crate) fn overlaid(old: &[Value], new: &NewRow) -> Vec<Value> {
    old.iter().zip(new).map(|(old, new)| new.clone().unwrap_or_else(|| old.clone())).collect()
}

/// The row with null where nothing is written.
pub(crate) fn or_null(new: &NewRow) -> Vec<Value> {
    new.iter().map(|value| value.clone().unwrap_or(Value::Null)).collect()
}
