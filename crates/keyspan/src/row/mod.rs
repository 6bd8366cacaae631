//! Rows as values, in the order of the table's columns, and their conversion to mutations and Arrow.

pub(crate) mod unique;

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::{array_of, coerce, value_at};
use keyspan_model::{
    CellWrite, Check, ColumnDef, ColumnId, ColumnRole, Error, FamilyDef, KeyEncoder, Mutation, RelationDef,
    RelationKind, Result, RowDelete, RowWrite, ScanColumn, Span, SpanDelete, Stamp, TableDef, Unchanged, Value,
};
use keyspan_query::StaticsRead;
use keyspan_seam::Snapshot;

use crate::locks::RowName;
use crate::names::columns_of;
use unique::UniqueIndex;

/// A row to write: one entry per column of the table; none leaves the cell alone.
pub(crate) type NewRow = Vec<Option<Value>>;

/// A table with what it takes to read and write its rows: relation, key encoder, schema. Clones are cheap;
/// [`ClientContext::handle`] keeps those that were used last.
///
/// [`ClientContext::handle`]: crate::context::ClientContext::handle
#[derive(Clone, Debug)]
pub(crate) struct TableHandle {
    pub(crate) table: Arc<TableDef>,
    /// The table as the catalog has it: of a table of static columns or of cells, the one that they belong to.
    pub(crate) declared: Arc<TableDef>,
    pub(crate) relation: Arc<RelationDef>,
    encoder: Arc<KeyEncoder>,
    /// All columns, hidden ones too, none of them declared NOT NULL: a row may be unfinished.
    pub(crate) schema: SchemaRef,
    /// The static columns, as a table with a row for each partition.
    pub(crate) statics: Option<Arc<TableHandle>>,
    /// The unique indexes.
    pub(crate) uniques: Arc<[UniqueIndex]>,
}

impl TableHandle {
    pub(crate) fn new(table: Arc<TableDef>) -> TableHandle {
        let statics = table.statics_table().zip(table.statics_relation()).map(|(statics, relation)| {
            let checks = table.checks.iter().filter(|check| is_about(&statics, check)).cloned().collect();
            let statics = TableDef { checks, ..statics };
            Arc::new(TableHandle::of_relation(Arc::new(statics), table.clone(), relation, None))
        });
        let relation = table.rows_relation();
        TableHandle::of_relation(table.clone(), table, relation, statics)
    }

    fn of_relation(
        table: Arc<TableDef>,
        declared: Arc<TableDef>,
        relation: RelationDef,
        statics: Option<Arc<TableHandle>>,
    ) -> TableHandle {
        let encoder = Arc::new(KeyEncoder::new(&relation.key));
        let fields: Vec<_> = table.columns.iter().map(|column| column.ty.field(&column.name, true)).collect();
        let uniques = match relation.kind {
            RelationKind::Rows => UniqueIndex::all(&table),
            _ => Arc::new([]),
        };
        let (schema, relation) = (Arc::new(Schema::new(fields)), Arc::new(relation));
        TableHandle { schema, relation, encoder, table, declared, statics, uniques }
    }

    /// Cells of a family of a declared table as rows of this table.
    pub(crate) fn of_cells(table: Arc<TableDef>, declared: Arc<TableDef>, relation: RelationDef) -> TableHandle {
        TableHandle::of_relation(table, declared, relation, None)
    }

    /// The first columns of a key, encoded.
    pub(crate) fn prefix(&self, values: &[Value]) -> Result<Vec<u8>> {
        KeyEncoder::new(&self.relation.key[..values.len()]).encode(values)
    }

    /// Whether its rows are the static values of partitions.
    pub(crate) fn is_of_statics(&self) -> bool {
        self.relation.kind == RelationKind::Statics
    }

    /// How many columns the key has; they are the first ones.
    pub(crate) fn key_len(&self) -> usize {
        self.relation.key.len()
    }

    /// The columns that are not hidden, as `SELECT *` has them, with their places.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (usize, &ColumnDef)> {
        self.table.shown_places().map(|place| (place, &self.table.columns[place]))
    }

    /// Every column but the static ones, for reading rows.
    pub(crate) fn scan_columns(&self) -> Vec<ScanColumn> {
        self.stored().map(|(_, column)| ScanColumn::Column(column.id)).collect()
    }

    /// The columns that rows hold: all but static ones, with their places.
    fn stored(&self) -> impl Iterator<Item = (usize, &ColumnDef)> {
        self.table.columns.iter().enumerate().filter(|(_, column)| column.role != ColumnRole::Static)
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
        let rows = snapshot.get(self.relation.id, keys, &self.scan_columns()).await?;
        self.with_statics(snapshot, rows).await
    }

    /// Rows of [`TableHandle::scan_columns`] with all columns.
    pub(crate) async fn with_statics(&self, snapshot: &Arc<dyn Snapshot>, rows: RecordBatch) -> Result<RecordBatch> {
        let Some(statics) = &self.statics else { return Ok(rows) };
        let columns = statics.table.columns.iter().skip(statics.key_len());
        let columns = columns.map(|column| ScanColumn::Column(column.id)).collect();
        let Some(read) = StaticsRead::new(&self.table, columns) else { return Ok(rows) };
        let partition = &rows.columns()[..statics.key_len()];
        let mut values = read.columns(snapshot, partition, rows.num_rows()).await?.into_iter();
        let mut stored = rows.columns().iter();
        let next = |column: &ColumnDef| match column.role {
            ColumnRole::Static => values.next(),
            _ => stored.next().cloned(),
        };
        let arrays: Option<Vec<ArrayRef>> = self.table.columns.iter().map(next).collect();
        let arrays = arrays.ok_or_else(|| Error::internal("the store left out a column"))?;
        let typed = arrays.iter().zip(&self.table.columns).map(|(array, column)| coerce(array, column.ty));
        Ok(RecordBatch::try_new(self.schema.clone(), typed.collect::<Result<_>>()?)?)
    }

    /// A row of which only the key is there.
    pub(crate) fn bare_row(&self, key: &[Value]) -> Vec<Value> {
        let rest = self.table.columns.len() - key.len();
        key.iter().cloned().chain(std::iter::repeat_n(Value::Null, rest)).collect()
    }

    /// The row with this key as it is while nothing of its own has been written: it shows the static values of its
    /// partition.
    pub(crate) async fn empty_row(&self, snapshot: &Arc<dyn Snapshot>, key: &[Value]) -> Result<Vec<Value>> {
        let mut row = self.bare_row(key);
        let Some(statics) = &self.statics else { return Ok(row) };
        let partition = key[..statics.key_len()].to_vec();
        let found = statics.read(snapshot, &[partition]).await?;
        if found.num_rows() == 0 {
            return Ok(row);
        }
        let values = statics.values(&found, 0)?;
        for (column, value) in statics.table.columns.iter().zip(values) {
            if let Some(place) = self.table.columns.iter().position(|own| own.id == column.id) {
                row[place] = value;
            }
        }
        Ok(row)
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

    /// The mutations that write a row: null deletes a cell, a missing entry leaves it alone. Static values have no
    /// marker.
    pub(crate) fn write(&self, row: &NewRow, marker: bool, stamp: Stamp, ttl: u32) -> Vec<Mutation> {
        let key_len = self.key_len();
        let key: Vec<Value> = row[..key_len].iter().map(|value| value.clone().unwrap_or(Value::Null)).collect();
        let cell = |value: &Value| match value {
            Value::Null => CellWrite::Tombstone,
            value => CellWrite::Value(value.clone()),
        };
        let cells = self.table.columns.iter().zip(row).skip(key_len);
        let cells = cells.filter_map(|(column, value)| Some((column.id, cell(value.as_ref()?)))).collect();
        self.write_cells(key, marker && !self.is_of_statics(), cells, stamp, ttl)
    }

    /// The mutations that write cells of a row, static ones to its partition.
    pub(crate) fn write_cells(
        &self,
        key: Vec<Value>,
        marker: bool,
        cells: Vec<(ColumnId, CellWrite)>,
        stamp: Stamp,
        ttl: u32,
    ) -> Vec<Mutation> {
        let is_static = |(id, _): &(ColumnId, CellWrite)| self.relation.value(*id).is_none();
        let (of_partition, cells): (Vec<_>, Vec<_>) = cells.into_iter().partition(is_static);
        let mut mutations = Vec::with_capacity(1);
        if let (Some(statics), false) = (&self.statics, of_partition.is_empty()) {
            mutations.extend(statics.write_cells(self.partition(&key), false, of_partition, stamp, ttl));
        }
        if marker || !cells.is_empty() {
            mutations.push(Mutation::Row(RowWrite { relation: self.relation.id, key, marker, cells, stamp, ttl }));
        }
        mutations
    }

    /// The partition key of a row key.
    pub(crate) fn partition(&self, key: &[Value]) -> Vec<Value> {
        key[..self.relation.partition_len].to_vec()
    }

    /// The mutations that delete a row.
    pub(crate) fn delete(&self, key: Vec<Value>, stamp: Stamp) -> Vec<Mutation> {
        let mut mutations = self.delete_families(&Span::prefix(key.clone()), stamp);
        mutations.push(Mutation::DeleteRow(RowDelete { relation: self.relation.id, key, stamp }));
        mutations
    }

    /// The mutations that delete a span of rows, with the static values of whole partitions.
    pub(crate) fn delete_span(&self, span: Span, stamp: Stamp) -> Vec<Mutation> {
        let mut mutations = self.delete_families(&span, stamp);
        mutations.extend(self.delete_statics(&span, stamp));
        mutations.push(Mutation::DeleteSpan(SpanDelete { relation: self.relation.id, span, stamp }));
        mutations
    }

    /// The deletion of the static values of a span, if it consists of whole partitions.
    pub(crate) fn delete_statics(&self, span: &Span, stamp: Stamp) -> Option<Mutation> {
        let whole = |bound: &Bound<Vec<Value>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len() <= self.relation.partition_len,
            Bound::Unbounded => true,
        };
        let statics = self.statics.as_ref().filter(|_| whole(&span.start) && whole(&span.end))?;
        let relation = statics.relation.id;
        Some(Mutation::DeleteSpan(SpanDelete { relation, span: span.clone(), stamp }))
    }

    fn delete_families(&self, span: &Span, stamp: Stamp) -> Vec<Mutation> {
        let families = self.table.families.iter();
        let delete = |family: &FamilyDef| SpanDelete { relation: family.relation, span: span.clone(), stamp };
        families.map(|family| Mutation::DeleteSpan(delete(family))).collect()
    }
}

/// Whether a constraint reads columns of this table only.
fn is_about(table: &TableDef, check: &Check) -> bool {
    let about = |expression: &ast::Expr| columns_of(expression).iter().all(|name| table.column(name).is_some());
    keyspan_cql::parse_expression(&check.sql).is_ok_and(|expression| about(&expression))
}

/// The old row with the new one's entries over it.
pub(crate) fn overlaid(old: &[Value], new: &NewRow) -> Vec<Value> {
    old.iter().zip(new).map(|(old, new)| new.clone().unwrap_or_else(|| old.clone())).collect()
}

/// The row with null where nothing is written.
pub(crate) fn or_null(new: &NewRow) -> Vec<Value> {
    new.iter().map(|value| value.clone().unwrap_or(Value::Null)).collect()
}
