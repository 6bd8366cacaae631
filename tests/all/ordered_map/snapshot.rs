//! What the weak store answers to reads: what it accepts, and nothing more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use keyspan_model::{
    Catalog, ColumnId, ColumnRange, ColumnType, Error, Order, RelationId, Result, Scan, ScanColumn, Span, Value,
    WriteBatch, array_of,
};
use keyspan_seam::{
    Accepted, BatchStream, Changes, Conditions, Known, ScanCounters, ScanForm, ScanPlan, ScanStatistics, Snapshot,
    Split, output_schema,
};
use keyspan_tests::random::Random;

use super::row::Row;
use super::state::{Relation, State};

/// Rows of a batch; few, so that most scans have several.
const BATCH: usize = 100;

/// A state, and how it is read.
#[derive(Debug)]
pub struct MapSnapshot {
    pub state: State,
    pub accepted: Accepted,
}

type Found<'a> = (&'a Vec<u8>, &'a Row);

impl MapSnapshot {
    /// The rows that a scan delivers, in the order of delivery.
    fn found<'a>(&'a self, relation: &'a Relation, scan: &Scan) -> Result<Vec<Found<'a>>> {
        let every = [Span::all()];
        let spans = if self.accepted.spans { scan.spans.as_slice() } else { &every };
        let mut found = Vec::new();
        for span in spans {
            let keys = relation.encoder.span_bytes(span)?;
            found.extend(self.state.live(relation, &keys)?);
        }
        if self.accepted.ranges {
            for range in &scan.ranges {
                found = within(relation, range, found)?;
            }
        }
        if scan.order == Order::Reverse {
            found.reverse();
        }
        if let Some((columns, most)) = scan.per_prefix.filter(|_| self.accepted.per_prefix) {
            let mut taken: HashMap<&[u8], usize> = HashMap::new();
            found.retain(|(key, _)| {
                let taken = taken.entry(&key[..relation.encoder.prefix_len(key, columns)]).or_default();
                *taken += 1;
                *taken <= most
            });
        }
        Ok(if self.accepted.order { found } else { shuffled(found) })
    }

    fn batch(&self, relation: &Relation, columns: &[ScanColumn], rows: &[Found]) -> Result<RecordBatch> {
        let keys = rows.iter().map(|(key, _)| relation.encoder.decode(key)).collect::<Result<Vec<_>>>()?;
        let arrays = columns.iter().map(|column| self.array(relation, *column, rows, &keys));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = output_schema(&relation.definition, columns)?;
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    fn array(&self, relation: &Relation, column: ScanColumn, rows: &[Found], keys: &[Vec<Value>]) -> Result<ArrayRef> {
        let at = relation.at(self.state.clock);
        let id = column.id();
        if let Some(at) = relation.definition.key_index(id) {
            let values: Vec<Value> = keys.iter().map(|key| key[at].clone()).collect();
            return array_of(relation.definition.key[at].ty, &values);
        }
        let definition = relation.definition.value(id).ok_or_else(|| Error::internal("no such column"))?;
        let value = |row: &Row| {
            let cell = row.cell(id, at)?;
            match column {
                ScanColumn::Column(_) => cell.value.clone(),
                ScanColumn::WriteTime(_) => Some(Value::BigInt(cell.ts)),
                ScanColumn::Ttl(_) => cell.ttl(at.now).map(Value::Int),
                ScanColumn::ExpiresAt(_) => cell.expires.map(Value::Timestamp),
            }
        };
        let ty = match column {
            ScanColumn::Column(_) => definition.ty,
            ScanColumn::WriteTime(_) => ColumnType::BigInt,
            ScanColumn::Ttl(_) => ColumnType::Int,
            ScanColumn::ExpiresAt(_) => ColumnType::Timestamp,
        };
        let values: Vec<Value> = rows.iter().map(|(_, row)| value(row).unwrap_or(Value::Null)).collect();
        array_of(ty, &values)
    }
}

/// The rows inside a range, if it is of a key column.
fn within<'a>(relation: &Relation, range: &ColumnRange, rows: Vec<Found<'a>>) -> Result<Vec<Found<'a>>> {
    let Some(at) = relation.definition.key_index(range.column) else { return Ok(rows) };
    let ty = relation.definition.key[at].ty;
    let mut inside = Vec::new();
    for (key, row) in rows {
        if range.contains(ty, &relation.encoder.decode(key)?[at]) {
            inside.push((key, row));
        }
    }
    Ok(inside)
}

/// No order that anybody asks for, the same for the same number of rows.
fn shuffled(mut rows: Vec<Found<'_>>) -> Vec<Found<'_>> {
    let mut random = Random::new(rows.len() as u64);
    for at in (1..rows.len()).rev() {
        rows.swap(at, random.below(at + 1));
    }
    rows
}

/// About `want` equal parts of so many rows, each named by its first row and the first one behind.
fn divided(rows: usize, want: usize) -> Vec<Split> {
    let share = rows.div_ceil(want.max(1)).max(1);
    let part = |from: usize| {
        let to = rows.min(from + share);
        Split { payload: format!("{from} {to}").into(), rows: (to - from) as u64 }
    };
    (0..rows).step_by(share).map(part).collect()
}

fn bounds(split: &Split) -> Option<(usize, usize)> {
    let (from, to) = std::str::from_utf8(&split.payload).ok()?.split_once(' ')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

#[async_trait]
impl Snapshot for MapSnapshot {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.state.catalog
    }

    fn seq(&self) -> u64 {
        self.state.seq
    }

    fn now(&self) -> i64 {
        self.state.clock
    }

    fn accept(&self, scan: &Scan) -> Accepted {
        Accepted { order: self.accepted.order && scan.order != Order::Any, ..self.accepted }
    }

    async fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        let rows = self.found(self.state.relation(scan.relation)?, scan)?.len();
        Ok(ScanPlan {
            splits: divided(rows, want),
            form: if rows == 0 { ScanForm::Empty } else { ScanForm::Unordered },
            memory_runs: 1,
            segments: 0,
            pruned: Vec::new(),
            statistics: ScanStatistics {
                rows: Known::Estimate(rows as u64),
                bytes: Known::Unknown,
                ranges: vec![Known::Unknown; scan.columns.len()],
            },
            found: None,
        })
    }

    fn scan(&self, scan: &Scan, split: &Split, _: Conditions, counters: Arc<ScanCounters>) -> Result<BatchStream> {
        let relation = self.state.relation(scan.relation)?;
        let (from, to) = bounds(split).ok_or_else(|| Error::internal("a split of another store"))?;
        let found = self.found(relation, scan)?;
        let limit = scan.limit.filter(|_| self.accepted.limit).unwrap_or(usize::MAX);
        let rows = &found[from..to.min(from.saturating_add(limit))];
        counters.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
        let batches: Vec<_> = rows.chunks(BATCH).map(|rows| self.batch(relation, &scan.columns, rows)).collect();
        Ok(futures::stream::iter(batches).boxed())
    }

    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        let relation = self.state.relation(relation)?;
        let mut found = Vec::new();
        for key in keys {
            found.extend(self.state.live(relation, &relation.encoder.span_bytes(&Span::prefix(key.clone()))?)?);
        }
        self.batch(relation, columns, &found)
    }

    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        let relation = self.state.relation(relation)?;
        let newest = |key: &Vec<Value>| {
            let newest = relation.newest(&relation.encoder.span_bytes(&Span::prefix(key.clone()))?);
            Ok(newest.filter(|ts| *ts > self.state.timestamp))
        };
        keys.iter().map(newest).collect()
    }

    fn changed(&self, _: RelationId, _: ColumnId, _: u64) -> Result<Changes> {
        Ok(Changes::Anywhere)
    }

    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        let mut state = self.state.clone();
        let timestamp = state.clock.max(state.timestamp + 1);
        state.write(batch, timestamp)?;
        Ok(Arc::new(MapSnapshot { state, accepted: self.accepted }))
    }

    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        let mut state = self.state.clone();
        state.set_catalog(catalog);
        Ok(Arc::new(MapSnapshot { state, accepted: self.accepted }))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        let mut state = self.state.clone();
        state.clock = i64::MAX;
        Ok(Arc::new(MapSnapshot { state, accepted: self.accepted }))
    }

    fn relation_bytes(&self, _: RelationId) -> Known<u64> {
        Known::Unknown
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        output_schema(&self.state.relation(relation)?.definition, columns)
    }
}
