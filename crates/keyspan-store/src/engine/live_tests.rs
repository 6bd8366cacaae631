//! Rows arrive in batches, some late, some over others, some deleted: whatever was merged meanwhile, every scan says
//! what a model says, and compares no more rows than have several versions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Int64Type, Schema, TimestampMicrosecondType};
use futures::StreamExt;
use futures::executor::block_on;
use keyspan_model::{
    BatchWrite, ColumnRange, ColumnType, Mutation, Order, RowDelete, Scan, ScanColumn, Span, Stamp, TableDef, Value,
};

use super::tests::{options, table, write};
use super::*;
use crate::random::Random;
use keyspan_seam::{Conditions, ScanCounters, ScanForm};

const HOSTS: i64 = 60;
/// Microseconds between two rows of a host.
const STEP: i64 = 60_000_000;

/// Rows by host and time.
type Model = BTreeMap<(i64, i64), i64>;
/// Host, time and value.
type Row = ((i64, i64), i64);

struct Live {
    store: Arc<EmbeddedStore>,
    table: TableDef,
    model: Model,
    random: Random,
    /// Rows that were written more than once, or deleted.
    again: u64,
    now: i64,
}

fn host(host: i64) -> String {
    format!("host_{host:02}")
}

impl Live {
    /// A store whose rows are settled.
    fn new() -> Live {
        let store = EmbeddedStore::open_files(Arc::new(MemoryFiles::new()), options()).expect("opens");
        let mut next = (*store.catalog()).clone();
        next.version += 1;
        let mut table = table(&mut next, "t");
        table.columns[1].ty = ColumnType::Timestamp;
        table.window = Some(table.columns[1].id);
        next.tables.insert(table.id, Arc::new(table.clone()));
        block_on(store.change(next.version - 1, next, None)).expect("creates");
        let mut live = Live { store, table, model: Model::new(), random: Random::new(7), again: 0, now: 0 };
        live.arrive(1_200, 0, 0);
        block_on(live.store.flush()).expect("flushes");
        live
    }

    /// A batch of all hosts at so many moments, and rows that come late, or again.
    fn arrive(&mut self, moments: i64, late: u64, again: u64) {
        let mut rows: Vec<(i64, i64)> = Vec::new();
        for moment in self.now..self.now + moments {
            rows.extend((0..HOSTS).map(|host| (host, moment * STEP)));
        }
        let past =
            |random: &mut Random| (random.below(HOSTS as u64) as i64, (self.now - 1 - random.below(300) as i64) * STEP);
        rows.extend((0..late).map(|_| past(&mut self.random)).map(|(host, time)| (host, time + STEP / 2)));
        rows.extend((0..again).map(|_| past(&mut self.random)));
        self.now += moments;
        self.again += late + again;
        let value = self.now;
        let column = |at: usize, array: ArrayRef| {
            (Field::new(&self.table.columns[at].name, array.data_type().clone(), true), array)
        };
        let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1)).with_timezone("UTC");
        let columns = [
            column(0, Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| host(row.0))))),
            column(1, Arc::new(times)),
            column(2, Arc::new(Int64Array::from(vec![value; rows.len()]))),
        ];
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch");
        let columns = self.table.columns.iter().map(|column| column.id).collect();
        let (relation, stamp) = (self.table.rows, Stamp::Server(0));
        let mutation =
            Mutation::Batch(BatchWrite { relation, columns, batch, marker: true, null_deletes: true, stamp, ttl: 0 });
        write(&self.store, vec![mutation]);
        self.model.extend(rows.into_iter().map(|row| (row, value)));
    }

    /// Deletes a row of the past on its own.
    fn delete(&mut self) {
        let (at, time) = (self.random.below(HOSTS as u64) as i64, (self.now - 100) * STEP);
        let key = vec![Value::Text(host(at)), Value::Timestamp(time)];
        write(
            &self.store,
            vec![Mutation::DeleteRow(RowDelete { relation: self.table.rows, key, stamp: Stamp::Server(0) })],
        );
        self.model.remove(&(at, time));
        self.again += 1;
    }

    fn scan(&self, order: Order) -> Scan {
        let columns = self.table.columns.iter().map(|column| ScanColumn::Column(column.id)).collect();
        let spans = vec![Span::all()];
        Scan {
            relation: self.table.rows,
            spans,
            columns,
            ranges: vec![],
            order,
            limit: None,
            per_prefix: None,
            coded: false,
        }
    }

    /// Every form of a scan says what the model says, and only rows with several versions are compared.
    fn check(&self) {
        let snapshot = self.store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
        let all: Vec<Row> = self.model.iter().map(|(row, value)| (*row, *value)).collect();
        for order in [Order::Forward, Order::Reverse, Order::Any] {
            let (form, merged, mut rows) = read(&snapshot, &self.scan(order));
            match order {
                Order::Any => rows.sort_unstable(),
                Order::Reverse => rows.reverse(),
                Order::Forward => {}
            }
            assert!(rows == all, "{order:?}, {form:?}: {} rows, not {}", rows.len(), all.len());
            assert!(merged <= self.again * 4, "{order:?}, {form:?}: {merged} rows compared, {} came again", self.again);
        }
        // Where older versions have this value, they must not show.
        let (newest, v) = (Bound::Included(Value::BigInt(1_200)), self.table.columns[2].id);
        let ranges = vec![ColumnRange::between(v, newest.clone(), newest)];
        let mut first = read(&snapshot, &Scan { ranges, ..self.scan(Order::Any) }).2;
        first.retain(|(_, value)| *value == 1_200);
        first.sort_unstable();
        assert!(first.iter().eq(all.iter().filter(|(_, value)| *value == 1_200)));
    }
}

/// The form, how many rows were compared, and all rows.
fn read(snapshot: &Arc<dyn Snapshot>, scan: &Scan) -> (ScanForm, u64, Vec<Row>) {
    let plan = block_on(snapshot.plan(scan, 2)).expect("plans");
    let counters = Arc::new(ScanCounters::default());
    let mut rows = Vec::new();
    for split in &plan.splits {
        let mut stream = snapshot.scan(scan, split, Conditions::default(), counters.clone()).expect("scans");
        while let Some(batch) = block_on(stream.next()) {
            let batch = batch.expect("reads");
            let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            let (hosts, values) = (batch.column(0).as_string_view(), batch.column(2).as_primitive::<Int64Type>());
            let host = |at: usize| hosts.value(at)["host_".len()..].parse::<i64>().expect("a number");
            rows.extend((0..batch.num_rows()).map(|at| ((host(at), times.value(at)), values.value(at))));
        }
    }
    (plan.form, counters.rows_merged.load(Ordering::Relaxed), rows)
}

#[test]
fn late_rows_that_nobody_has_are_not_compared_in_memory_nor_after_flushes() {
    let mut live = Live::new();
    for batch in 0..20 {
        live.arrive(20, 12, 0);
        live.store.core.merge_memory().expect("merges");
        if batch == 12 {
            block_on(live.store.flush()).expect("flushes");
        }
        if batch % 4 == 3 {
            let snapshot = live.store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
            let (form, merged, rows) = read(&snapshot, &live.scan(Order::Any));
            // By chance a late row comes twice.
            assert!(merged <= 20 && matches!(form, ScanForm::Unordered | ScanForm::Merge), "{form:?}, {merged}");
            assert_eq!(rows.len(), live.model.len());
        }
    }
    live.check();
}

#[test]
fn overwritten_deleted_and_late_rows_read_right_whatever_was_merged_meanwhile() {
    let mut live = Live::new();
    let mut held = Vec::new();
    for batch in 0..24 {
        live.arrive(20, 8, 6);
        if batch % 3 == 1 {
            live.delete();
        }
        if batch % 2 == 0 {
            live.store.core.merge_memory().expect("merges");
        }
        if batch % 8 == 2 {
            held.push((live.store.snapshot(ReadAt::Acknowledged).expect("a snapshot"), live.model.clone()));
        }
        match batch {
            9 | 17 => block_on(live.store.flush()).expect("flushes"),
            21 => block_on(live.store.compact()).expect("compacts"),
            _ => {}
        }
        if batch % 5 == 0 {
            live.check();
        }
    }
    live.check();
    for (snapshot, model) in held {
        let mut rows = read(&snapshot, &live.scan(Order::Any)).2;
        rows.sort_unstable();
        assert!(rows.into_iter().eq(model), "a snapshot older than the merges");
    }
}
