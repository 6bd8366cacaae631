//! Scans over random runs against a plain model: every write of a key in a list, resolved naively.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use keyspan_model::array::{array_of, value_at};
use keyspan_model::{
    BatchWrite, CellWrite, ColumnId, ColumnRange, ColumnType, GcRule, KeyColumn, KeyEncoder, Order, RelationDef,
    RelationId, RelationKind, Result, Retention, RowWrite, Scan, ScanColumn, Span, Stamp, Value, ValueColumn,
};

use super::{Lookups, Run, ScanSource};
use crate::memory_run::MemoryRun;
use crate::memtable::Memtable;
use crate::merge::{Compaction, CompactionInput};
use crate::row::RowEntry;
use crate::run::{KnownPrefixes, OverlapCache, RunBatch, RunMeta, SortedRun, SpanTombstone, Wanted, WholeKey};
use crate::segment::fixture;
use keyspan_seam::{Conditions, End, Known, RowCondition, ScanCounters, ScanForm, ScanStatistics, output_schema};

mod cold;
mod families;
mod first_rows;
mod forms;
mod late;
mod memory;
mod random;

/// A memory run that behaves like a segment: small blocks, and only its blocks' first keys known without reading.
#[derive(Debug)]
struct Blocks(MemoryRun, usize);

impl SortedRun for Blocks {
    fn meta(&self) -> &RunMeta {
        self.0.meta()
    }

    fn lower_bound(&self, key: &[u8], counters: &ScanCounters) -> Result<usize> {
        self.0.lower_bound(key, counters)
    }

    fn estimate(&self, key: &[u8]) -> (usize, usize) {
        let (row, rows) = (self.0.estimate(key).0, self.0.batch().rows);
        (row / self.1 * self.1, row.next_multiple_of(self.1).min(rows))
    }

    fn sample(&self, row: usize) -> Option<Vec<u8>> {
        self.0.sample(row / self.1 * self.1)
    }

    fn block(&self, row: usize, _: &Wanted) -> Range<usize> {
        let start = row / self.1 * self.1;
        start..(start + self.1).min(self.0.batch().rows)
    }

    fn read(&self, rows: Range<usize>, wanted: &Wanted, counters: &ScanCounters) -> Result<RunBatch> {
        assert!(!rows.is_empty() && rows.end <= self.block(rows.start, wanted).end, "a read stays inside a block");
        self.0.read(rows, wanted, counters)
    }

    fn may_contain(&self, key: &WholeKey<'_>) -> bool {
        self.0.may_contain(key)
    }

    fn is_segment(&self) -> bool {
        true
    }

    fn overlap_cache(&self) -> Option<&OverlapCache> {
        self.0.overlap_cache()
    }

    fn known_prefixes(&self) -> Option<&KnownPrefixes> {
        self.0.known_prefixes()
    }

    fn zone(&self, column: ColumnId) -> Option<(Vec<u8>, Vec<u8>)> {
        let numbers = self.0.batch().cells[0].values.as_ref().filter(|_| column == NUMBER)?;
        let number = KeyColumn { id: NUMBER, name: "number".into(), ty: ColumnType::BigInt, descending: false };
        let encoder = KeyEncoder::new(&[number]);
        let rows = 0..self.0.batch().rows;
        let encoded = rows.map(|row| encoder.encode(&[value_at(numbers, row, ColumnType::BigInt).ok()?]).ok());
        let encoded = encoded.collect::<Option<Vec<_>>>()?;
        Some((encoded.iter().min()?.clone(), encoded.iter().max()?.clone()))
    }

    /// Leaves out the blocks whose times all lie outside a range of the time column, and whose numbers do.
    fn keep(&self, ranges: &[ColumnRange], rows: Range<usize>, values: bool) -> Vec<Range<usize>> {
        let blocks = rows.clone().step_by(1).filter(|row| *row == rows.start || row % self.1 == 0);
        let inside = |row: usize, range: &ColumnRange| {
            let array = match range.column {
                TIME => self.0.batch().keys[1].clone(),
                NUMBER if values => self.0.batch().cells[0].values.clone(),
                _ => return true,
            };
            let ty = if range.column == TIME { ColumnType::Timestamp } else { ColumnType::BigInt };
            let value = array.map_or(Value::Null, |array| value_at(&array, row, ty).expect("a value"));
            contains(range, &value)
        };
        blocks
            .map(|row| row..self.block(row, &Wanted::default()).end.min(rows.end))
            .filter(|block| ranges.iter().all(|range| block.clone().any(|row| inside(row, range))))
            .collect()
    }
}

fn contains(range: &ColumnRange, value: &Value) -> bool {
    let ty = if range.column == TIME { ColumnType::Timestamp } else { ColumnType::BigInt };
    !value.is_null() && range.contains(ty, value)
}

const HOST: ColumnId = ColumnId(1);
const TIME: ColumnId = ColumnId(2);
const NUMBER: ColumnId = ColumnId(3);
const TEXT: ColumnId = ColumnId(4);

/// `(host text, time timestamp DESC) → number bigint, text text`
fn relation() -> RelationDef {
    let relation = fixture::relation(
        &[("host", ColumnType::Text, false), ("time", ColumnType::Timestamp, true)],
        &[("number", ColumnType::BigInt), ("text", ColumnType::Text)],
    );
    RelationDef { id: RelationId(7), gc_grace: 0, ..relation.as_ref().clone() }
}

fn key(host: &str, time: i64) -> Vec<Value> {
    vec![Value::Text(host.into()), Value::Timestamp(time)]
}

fn all_columns() -> Vec<ScanColumn> {
    [HOST, TIME, NUMBER, TEXT].map(ScanColumn::Column).into()
}

fn scan_of(spans: Vec<Span>, order: Order) -> Scan {
    let columns = all_columns();
    Scan { relation: RelationId(7), spans, columns, ranges: vec![], order, limit: None, per_prefix: None, coded: false }
}

fn types(relation: &RelationDef, columns: &[ScanColumn]) -> Vec<ColumnType> {
    let of = |id: ColumnId| match relation.key_index(id) {
        Some(at) => relation.key[at].ty,
        None => relation.value(id).expect("a column").ty,
    };
    let ty = |column: &ScanColumn| match column {
        ScanColumn::Column(id) => of(*id),
        ScanColumn::WriteTime(_) => ColumnType::BigInt,
        ScanColumn::Ttl(_) => ColumnType::Int,
        ScanColumn::ExpiresAt(_) => ColumnType::Timestamp,
    };
    columns.iter().map(ty).collect()
}

fn rows_of(relation: &RelationDef, columns: &[ScanColumn], batch: &RecordBatch) -> Vec<Vec<Value>> {
    let types = types(relation, columns);
    let row = |row: usize| {
        let values = batch.columns().iter().zip(&types).map(|(array, ty)| value_at(array, row, *ty).expect("a value"));
        values.collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// All rows of all splits, one after another.
fn read(source: &Arc<ScanSource>, scan: &Scan, want: usize, counters: &Arc<ScanCounters>) -> Vec<Vec<Value>> {
    let plan = source.divide(scan, want, 8).expect("a plan");
    let mut rows = Vec::new();
    for split in &plan.splits {
        let mut reader = source.reader(scan, split, &Conditions::default(), Arc::clone(counters)).expect("a reader");
        while let Some(batch) = reader.next_batch().expect("a batch") {
            assert!(batch.num_rows() <= super::reader::BATCH_ROWS);
            check_order(&source.relation, scan, &batch);
            rows.extend(rows_of(&source.relation, &scan.columns, &batch));
        }
    }
    rows
}

/// The rows of one batch are in key order, whatever order the scan asks for.
fn check_order(relation: &RelationDef, scan: &Scan, batch: &RecordBatch) {
    let place = |id: ColumnId| scan.columns.iter().position(|column| *column == ScanColumn::Column(id));
    let key: Option<Vec<ArrayRef>> =
        relation.key.iter().map(|column| Some(batch.column(place(column.id)?).clone())).collect();
    let Some(key) = key.filter(|_| !scan.coded) else { return };
    let keys = KeyEncoder::new(&relation.key).encode_batch(&key).expect("keys");
    let reverse = scan.order == Order::Reverse;
    let in_order = |pair: usize| (keys.value(pair) < keys.value(pair + 1)) != reverse;
    assert!((1..keys.len()).all(|row| in_order(row - 1)), "{scan:?}: {batch:?}");
}

/// What is known of a scan without reading.
fn known(source: &Arc<ScanSource>, scan: &Scan) -> ScanStatistics {
    source.plan(scan, 1).expect("a plan").statistics
}

fn read_all(source: &Arc<ScanSource>, scan: &Scan) -> Vec<Vec<Value>> {
    read(source, scan, 1, &Arc::default())
}

fn write(key: Vec<Value>, cells: Vec<(ColumnId, CellWrite)>, marker: bool, ttl: u32) -> RowWrite {
    RowWrite { relation: RelationId(7), key, marker, cells, stamp: Stamp::Server(0), ttl }
}

/// Key, number and text of an inserted row.
type Inserted = (Vec<Value>, Value, Value);

/// A bulk INSERT of `(host, time, number, text)`.
fn bulk(relation: &RelationDef, rows: &[Inserted], ttl: u32, null_deletes: bool) -> BatchWrite {
    let column = |ty, get: &dyn Fn(&Inserted) -> Value| {
        array_of(ty, &rows.iter().map(get).collect::<Vec<_>>()).expect("values of the type")
    };
    let arrays = vec![
        column(ColumnType::Text, &|row| row.0[0].clone()),
        column(ColumnType::Timestamp, &|row| row.0[1].clone()),
        column(ColumnType::BigInt, &|row| row.1.clone()),
        column(ColumnType::Text, &|row| row.2.clone()),
    ];
    let schema = output_schema(relation, &all_columns()).expect("a schema");
    BatchWrite {
        relation: relation.id,
        columns: vec![HOST, TIME, NUMBER, TEXT],
        batch: RecordBatch::try_new(schema, arrays).expect("a batch"),
        marker: true,
        null_deletes,
        stamp: Stamp::Server(0),
        ttl,
    }
}

fn plain_run(relation: &RelationDef, keys: &[(&str, Range<i64>)], ts: i64) -> Run {
    let rows: Vec<_> = keys
        .iter()
        .flat_map(|(host, times)| times.clone().map(|time| (key(host, time), Value::BigInt(time), Value::Null)))
        .collect();
    let run = MemoryRun::from_write(relation, &bulk(relation, &rows, 0, false), ts, 0, 1).expect("a run");
    Run::Segment(Arc::new(Blocks(run, 16)))
}

fn source(relation: RelationDef, runs: Vec<Run>, tombstones: Vec<SpanTombstone>, now: i64) -> Arc<ScanSource> {
    Arc::new(ScanSource {
        relation: Arc::new(relation),
        runs,
        tombstones: tombstones.into(),
        now,
        families: vec![],
        lookups: Lookups::default(),
    })
}
