//! Partitions that have static values but no rows.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::{filter, filter_record_batch, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use keyspan_model::array::{coerce, value_at};
use keyspan_model::{ColumnType, KeyEncoder, RelationDef, Result, Scan, ScanColumn, Span, Value};
use keyspan_seam::{Known, Snapshot};

use super::read::{StaticsRead, read};
use crate::error::from_datafusion;

/// Partitions with static values up to which those without rows are found before the scan is planned.
const FOUND_BEFORE: u64 = 64;
/// Spans of one scan at most.
const SPANS_MAX: usize = 256;
/// A limit that no scan reaches: what looks for partitions without rows is no query by itself that could be refused for
/// reading a whole table.
const NO_LIMIT: usize = u32::MAX as usize;

/// Looks for the partitions that have static values but no rows.
#[derive(Clone, Debug)]
pub struct RowlessPartitions {
    /// What is read of the static columns.
    pub statics: StaticsRead,
    /// The relation of the rows.
    pub rows: Arc<RelationDef>,
    /// Where static values are looked for.
    pub spans: Vec<Span>,
    /// Columns of the output and of the filter: of each its place in the key, among the static columns that are read,
    /// or neither: then it is null.
    pub columns: Vec<Option<RowlessColumn>>,
    /// Their schema.
    pub schema: SchemaRef,
    /// What the rows must satisfy.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// Places of the output's columns.
    pub output: Vec<usize>,
}

/// Where a column of a partition without rows comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowlessColumn {
    /// The partition key's column at this place.
    Key(usize),
    /// The static column at this place.
    Static(usize),
}

/// Partitions without rows, in key order.
#[derive(Clone, Debug)]
pub struct Rowless {
    /// Their encoded keys.
    pub keys: BinaryArray,
    /// The rows that stand for them, in the output's columns.
    pub rows: RecordBatch,
}

impl RowlessPartitions {
    /// Finds them if there are few partitions with static values; `None` if there are many.
    pub async fn few(&self, snapshot: &Arc<dyn Snapshot>) -> Result<Option<Rowless>> {
        let scan = self.scan();
        let planned = snapshot.plan(&scan, 1).await?;
        if !planned.splits.is_empty() {
            let (Known::Exact(partitions) | Known::Estimate(partitions)) = planned.statistics.rows else {
                return Ok(None);
            };
            if partitions > FOUND_BEFORE {
                return Ok(None);
            }
        }
        self.find(snapshot).await.map(Some)
    }

    /// Finds them.
    pub async fn find(&self, snapshot: &Arc<dyn Snapshot>) -> Result<Rowless> {
        let statics = read(snapshot, &self.scan()).await?;
        let key_len = self.statics.relation.key.len();
        let encoder = KeyEncoder::new(&self.statics.relation.key);
        let keys = encoder.encode_batch(&statics.columns()[..key_len])?;
        let peopled = self.with_rows(snapshot, &statics.columns()[..key_len], statics.num_rows()).await?;
        let alone = |row: &u32| !peopled.contains(keys.value(*row as usize));
        let mut order: Vec<u32> = (0..statics.num_rows() as u32).filter(alone).collect();
        order.sort_by_key(|row| keys.value(*row as usize));
        let order = UInt32Array::from(order);
        let (rows, kept) = self.filtered(&take_record_batch(&statics, &order)?)?;
        let keys = take(&keys, &order, None)?;
        let keys = match kept {
            Some(kept) => filter(&keys, &kept)?,
            None => keys,
        };
        Ok(Rowless { keys: keys.as_binary().clone(), rows })
    }

    fn scan(&self) -> Scan {
        Scan { limit: Some(NO_LIMIT), ..self.statics.scan(self.spans.clone()) }
    }

    /// Of these partitions, the encoded keys of those that have rows.
    async fn with_rows(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        keys: &[ArrayRef],
        partitions: usize,
    ) -> Result<HashSet<Vec<u8>>> {
        let key_columns = &self.rows.key[..keys.len()];
        let prefix = |row: usize| -> Result<Span> {
            let values = keys.iter().zip(key_columns).map(|(array, column)| value_at(array, row, column.ty));
            Ok(Span::prefix(values.collect::<Result<Vec<Value>>>()?))
        };
        let encoder = KeyEncoder::new(key_columns);
        let mut order: Vec<usize> = (0..partitions).collect();
        let encoded = encoder.encode_batch(keys)?;
        order.sort_by_key(|row| encoded.value(*row));
        let mut found = HashSet::new();
        for chunk in order.chunks(SPANS_MAX) {
            let spans = chunk.iter().map(|row| prefix(*row)).collect::<Result<_>>()?;
            let columns = key_columns.iter().map(|column| ScanColumn::Column(column.id)).collect();
            let scan = Scan { per_prefix: Some((keys.len(), 1)), ..Scan::new(self.rows.id, spans, columns) };
            let rows = read(snapshot, &scan).await?;
            found.extend(encoder.encode_batch(rows.columns())?.iter().flatten().map(<[u8]>::to_vec));
        }
        Ok(found)
    }

    /// The rows that stand for these partitions, as far as they satisfy the filter; and which do, if there is one.
    fn filtered(&self, statics: &RecordBatch) -> Result<(RecordBatch, Option<BooleanArray>)> {
        let rows = statics.num_rows();
        let key_len = self.statics.relation.key.len();
        let columns = self.columns.iter().zip(self.schema.fields()).map(|(column, field)| {
            let array = match column {
                Some(RowlessColumn::Key(place)) => statics.column(*place),
                Some(RowlessColumn::Static(place)) => statics.column(key_len + place),
                None => return Ok(new_null_array(field.data_type(), rows)),
            };
            match ColumnType::of_field(field) {
                Some(ty) => coerce(array, ty),
                None => Ok(array.clone()),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let whole = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let Some(filter) = &self.filter else { return Ok((whole.project(&self.output)?, None)) };
        let mask = filter.evaluate(&whole).and_then(|value| value.into_array(rows)).map_err(from_datafusion)?;
        let mask = as_boolean_array(&mask).map_err(from_datafusion)?;
        Ok((filter_record_batch(&whole, mask)?.project(&self.output)?, Some(mask.clone())))
    }
}
