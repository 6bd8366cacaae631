//! Short workloads on a simulated disk, what the database must hold after each step of them, and how that is verified.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use futures::StreamExt;
use keyspan_model::{
    CellWrite, Mutation, Order, Result, RowDelete, RowWrite, Scan, ScanColumn, Span, SpanDelete, Stamp, TableDef,
    Value, WriteBatch,
};
use parking_lot::Mutex;

use crate::check::check_files;
use crate::clock::ManualClock;
use crate::engine::tests::{START, bulk, key, row, table};
use crate::engine::{EmbeddedStore, StoreOptions};
use crate::files::Files;
use crate::files::simulated::SimulatedDisk;
use crate::random::Random;
use keyspan_seam::{Conditions, ReadAt, Snapshot, Store};

/// Rows of a table: key and value.
pub type Rows = BTreeMap<(String, i64), Option<i64>>;
/// Rows of every table, by its name.
pub type Contents = BTreeMap<String, Rows>;

/// One statement.
#[derive(Clone, Debug)]
pub enum Step {
    Create(&'static str),
    Write(Vec<Op>),
    /// Acknowledged before it is durable.
    Relaxed(Vec<Op>),
    /// Rows that are written as segments beforehand and become visible in one step: all of a bulk.
    Load(Op),
    Flush,
    Compact,
    /// What the background does.
    Tick,
    Truncate(&'static str),
    Drop(&'static str),
}

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Op {
    Put(&'static str, &'static str, i64, i64),
    Bulk(&'static str, &'static str, i64, i64, i64),
    Delete(&'static str, &'static str, i64),
    /// The value alone.
    Clear(&'static str, &'static str, i64),
    /// From this clustering value to the partition's end.
    DeleteFrom(&'static str, &'static str, i64),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Steps that are durable.
    pub durable: usize,
    /// Steps that were begun.
    pub begun: usize,
}

/// Small bounds, so that a short workload meets all of them, and no threads.
pub fn options() -> StoreOptions {
    StoreOptions {
        clock: Arc::new(ManualClock::new(START)),
        threads: false,
        log_file: 8 << 10,
        log_limit: 64 << 10,
        log_frame: 2 << 10,
        memory_budget: 512 << 10,
        free_space_mark: 0,
        quiet: Duration::ZERO,
        ..StoreOptions::default()
    }
}

/// Opens the store on a disk.
pub fn open(disk: &SimulatedDisk) -> Result<Arc<EmbeddedStore>> {
    EmbeddedStore::open_files(Arc::new(disk.clone()), options())
}

/// A workload that goes through everything once: single rows, bulks in parts, deletions of rows and spans, batches over
/// tables, relaxed writes, flushes, merges, log files begun and forgotten, TRUNCATE and DROP.
pub fn script() -> Vec<Step> {
    use Op::*;
    use Step::*;
    vec![
        Create("t"),
        Write(vec![Put("t", "a", 1, 1), Put("t", "b", 1, 2)]),
        Write(vec![Bulk("t", "a", 0, 1100, 3)]),
        Create("u"),
        Write(vec![Put("u", "x", 1, 4), Bulk("t", "c", 0, 1030, 5), Delete("t", "b", 1)]),
        Relaxed(vec![Put("t", "b", 7, 6)]),
        Relaxed(vec![Put("u", "b", 8, 7)]),
        Write(vec![DeleteFrom("t", "a", 9)]),
        Flush,
        Write(vec![Bulk("t", "a", 5, 1040, 8), Put("u", "y", 1, 9)]),
        Tick,
        Flush,
        Write(vec![Delete("t", "a", 6), DeleteFrom("t", "c", 20)]),
        Compact,
        Write(vec![Bulk("u", "z", 0, 1030, 10)]),
        Load(Bulk("t", "b", 0, 1200, 15)),
        Write(vec![Put("t", "b", 3, 16), Delete("t", "b", 4)]),
        Tick,
        Truncate("t"),
        Write(vec![Put("t", "after", 1, 11)]),
        Tick,
        Flush,
        Drop("u"),
        Tick,
        Create("u"),
        Load(Bulk("u", "again", 0, 1030, 17)),
        Write(vec![Put("u", "again", 1, 12), Put("t", "again", 1, 13)]),
        Relaxed(vec![Put("t", "last", 1, 14)]),
        Compact,
    ]
}

/// A random workload.
pub fn random_steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut steps = vec![Step::Create("t"), Step::Create("u")];
    steps.extend((0..count).map(|at| match random.below(24) {
        0 => Step::Truncate(["t", "u"][random.below(2) as usize]),
        1..=3 => Step::Flush,
        4 => Step::Compact,
        5..=7 => Step::Tick,
        8..=9 => Step::Relaxed(random_ops(&mut random, at as i64)),
        10 => Step::Load(Op::Bulk(["t", "u"][random.below(2) as usize], "b", 3, 1030, at as i64)),
        _ => Step::Write(random_ops(&mut random, at as i64)),
    }));
    steps
}

pub fn random_ops(random: &mut Random, value: i64) -> Vec<Op> {
    let count = 1 + random.below(3);
    let op = |random: &mut Random| {
        let (t, p) = (["t", "u"][random.below(2) as usize], ["a", "b", "c"][random.below(3) as usize]);
        let c = random.below(40) as i64;
        match random.below(10) {
            0 => Op::Bulk(t, p, c, c + 1024 + random.below(200) as i64, value),
            1..=2 => Op::Delete(t, p, c),
            3 => Op::DeleteFrom(t, p, c),
            4 => Op::Clear(t, p, c),
            _ => Op::Put(t, p, c, value),
        }
    };
    (0..count).map(|_| op(random)).collect()
}

/// What the database holds before the first step and after each.
pub fn states(steps: &[Step]) -> Vec<Contents> {
    let mut states = vec![Contents::new()];
    for step in steps {
        let mut next = states.last().expect("there is one").clone();
        step.apply(&mut next);
        states.push(next);
    }
    states
}

impl Step {
    /// What the step makes of the database.
    pub fn apply(&self, contents: &mut Contents) {
        match self {
            Step::Create(name) | Step::Truncate(name) => {
                contents.insert(name.to_string(), Rows::new());
            }
            Step::Drop(name) => {
                contents.remove(*name);
            }
            Step::Load(op) => op.apply(contents),
            Step::Write(ops) | Step::Relaxed(ops) => ops.iter().for_each(|op| op.apply(contents)),
            Step::Flush | Step::Compact | Step::Tick => {}
        }
    }
}

impl Op {
    /// What the change makes of the database.
    pub fn apply(&self, contents: &mut Contents) {
        let mut rows = |t: &str| contents.get_mut(t).map(std::mem::take).unwrap_or_default();
        let (t, changed) = match *self {
            Op::Put(t, p, c, v) => {
                let mut rows = rows(t);
                rows.insert((p.into(), c), Some(v));
                (t, rows)
            }
            Op::Bulk(t, p, from, to, v) => {
                let mut rows = rows(t);
                rows.extend((from..to).map(|c| ((p.to_string(), c), Some(v))));
                (t, rows)
            }
            Op::Delete(t, p, c) => {
                let mut rows = rows(t);
                rows.remove(&(p.to_string(), c));
                (t, rows)
            }
            Op::Clear(t, p, c) => {
                let mut rows = rows(t);
                rows.entry((p.to_string(), c)).and_modify(|value| *value = None);
                (t, rows)
            }
            Op::DeleteFrom(t, p, from) => {
                let mut rows = rows(t);
                rows.retain(|(own, c), _| own != p || *c < from);
                (t, rows)
            }
        };
        contents.insert(t.to_string(), changed);
    }

    /// The change as the store takes it.
    pub fn mutation(&self, store: &EmbeddedStore) -> Mutation {
        match *self {
            Op::Put(t, p, c, v) => row(&named(store, t), p, c, v),
            Op::Bulk(t, p, from, to, v) => bulk(&named(store, t), p, from..to, v),
            Op::Delete(t, p, c) => Mutation::DeleteRow(RowDelete {
                relation: named(store, t).rows,
                key: key(p, c),
                stamp: Stamp::Server(0),
            }),
            Op::Clear(t, p, c) => {
                let table = named(store, t);
                let cells = vec![(table.columns[2].id, CellWrite::Tombstone)];
                let (relation, key, stamp) = (table.rows, key(p, c), Stamp::Server(0));
                Mutation::Row(RowWrite { relation, key, marker: false, cells, stamp, ttl: 0 })
            }
            Op::DeleteFrom(t, p, c) => {
                let span =
                    Span { start: Bound::Included(key(p, c)), end: Bound::Included(vec![Value::Text(p.into())]) };
                Mutation::DeleteSpan(SpanDelete { relation: named(store, t).rows, span, stamp: Stamp::Server(0) })
            }
        }
    }
}

/// Carries out one step.
pub fn carry_out(store: &EmbeddedStore, step: &Step) -> Result<()> {
    match step {
        Step::Create(name) => change(store, |catalog| {
            let table = table(catalog, name);
            catalog.tables.insert(table.id, Arc::new(table));
        }),
        Step::Drop(name) => {
            let id = named(store, name).id;
            change(store, |catalog| drop(catalog.tables.remove(&id)))
        }
        Step::Truncate(name) => {
            let mut table = named(store, name);
            change(store, |catalog| {
                table.rows = catalog.new_relation_id();
                catalog.tables.insert(table.id, Arc::new(table.clone()));
            })
        }
        Step::Write(ops) => apply(store, ops, false),
        Step::Relaxed(ops) => apply(store, ops, true),
        Step::Load(op) => {
            let Mutation::Batch(write) = op.mutation(store) else { panic!("only a bulk is loaded") };
            let catalog = store.catalog();
            let mut relations = catalog.tables.values().flat_map(|table| table.relations());
            let relation = relations.find(|relation| relation.id == write.relation).expect("is there");
            let mut load = store.load(relation, Stamp::Server(0))?;
            wait(load.write(write))?;
            let mutations = vec![wait(load.finish())?];
            wait(store.apply(WriteBatch { mutations, ..WriteBatch::default() })).map(drop)
        }
        Step::Flush => wait(store.flush()),
        Step::Compact => wait(store.compact()),
        Step::Tick => store.tick(),
    }
}

fn apply(store: &EmbeddedStore, ops: &[Op], relaxed: bool) -> Result<()> {
    let batch = WriteBatch {
        // One timestamp each, so that the later of two changes of one row wins.
        mutations: ops
            .iter()
            .enumerate()
            .map(|(at, op)| stamped(op.mutation(store), Stamp::Server(at as u32)))
            .collect(),
        relaxed,
        ..WriteBatch::default()
    };
    wait(store.apply(batch)).map(drop)
}

/// A change with this timestamp.
pub fn stamped(mut mutation: Mutation, stamp: Stamp) -> Mutation {
    match &mut mutation {
        Mutation::Row(write) => write.stamp = stamp,
        Mutation::Batch(write) => write.stamp = stamp,
        Mutation::DeleteRow(delete) => delete.stamp = stamp,
        Mutation::DeleteSpan(delete) => delete.stamp = stamp,
        Mutation::Load(load) => load.stamp = stamp,
    }
    mutation
}

fn change(store: &EmbeddedStore, edit: impl FnOnce(&mut keyspan_model::Catalog)) -> Result<()> {
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    edit(&mut next);
    wait(store.change(next.version - 1, next, None)).map(drop)
}

/// The table of this name.
pub fn named(store: &EmbeddedStore, name: &str) -> TableDef {
    let catalog = store.catalog();
    let found = catalog.tables.values().find(|table| table.name == name);
    found.unwrap_or_else(|| panic!("no table {name}")).as_ref().clone()
}

/// Carries out steps until one fails; says how far it came.
pub fn run(store: &EmbeddedStore, steps: &[Step], progress: &Mutex<Progress>) -> Result<()> {
    for (at, step) in steps.iter().enumerate() {
        progress.lock().begun = at + 1;
        carry_out(store, step)?;
        if !matches!(step, Step::Relaxed(_) | Step::Compact | Step::Tick) {
            progress.lock().durable = at + 1;
        }
    }
    Ok(())
}

/// Polls until it is done. Without threads nobody else must do anything for that; and it works inside itself, which an
/// executor does not: a crash is verified in the middle of a statement.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
    panic!("it waits for ever");
}

/// Everything that a store holds, or the first error in reading it.
pub fn contents(store: &EmbeddedStore) -> Result<Contents> {
    contents_of(store.snapshot(ReadAt::Acknowledged)?.as_ref())
}

/// Everything that a snapshot shows.
pub fn contents_of(snapshot: &dyn Snapshot) -> Result<Contents> {
    let catalog = snapshot.catalog();
    let tables = catalog.tables.values().map(|table| Ok((table.name.clone(), rows(snapshot, table, Span::all())?)));
    tables.collect()
}

/// The rows of a table in a span.
pub fn rows(snapshot: &dyn Snapshot, table: &TableDef, span: Span) -> Result<Rows> {
    let scan = Scan {
        relation: table.rows,
        spans: vec![span],
        columns: table.columns.iter().map(|column| ScanColumn::Column(column.id)).collect(),
        ranges: vec![],
        order: Order::Forward,
        limit: None,
        per_prefix: None,
        coded: false,
    };
    let mut rows = Rows::new();
    for split in &wait(snapshot.plan(&scan, 2))?.splits {
        let mut stream = snapshot.scan(&scan, split, Conditions::default(), Arc::default())?;
        while let Some(batch) = wait(stream.next()) {
            let batch = batch?;
            let (p, c) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Int64Type>());
            let v = batch.column(2).as_primitive::<Int64Type>();
            for at in 0..batch.num_rows() {
                let before = rows.insert((p.value(at).into(), c.value(at)), v.is_valid(at).then(|| v.value(at)));
                assert!(before.is_none(), "a row comes twice");
            }
        }
    }
    Ok(rows)
}

/// Opens what a crash has left and finds what some number of steps has made of the database, all of the durable ones
/// among them; answers that number. The directory verifies before and after, and takes writes again.
pub fn verify(disk: &SimulatedDisk, progress: Progress, states: &[Contents], context: &str) -> usize {
    sound(disk, context);
    let store = open(disk).unwrap_or_else(|error| panic!("{context}: does not open: {error}"));
    let found = contents(&store).unwrap_or_else(|error| panic!("{context}: cannot be read: {error}"));
    let reached = (progress.durable..=progress.begun).rev().find(|at| states[*at] == found);
    let reached = reached.unwrap_or_else(|| {
        let expected = &states[progress.durable];
        panic!("{context}: {progress:?}\n found {}\n durable {}", summary(&found), summary(expected))
    });
    carry_out(&store, &Step::Create("probe")).unwrap_or_else(|error| panic!("{context}: takes no writes: {error}"));
    store.close().unwrap_or_else(|error| panic!("{context}: does not close: {error}"));
    drop(store);
    sound(disk, context);
    reached
}

fn sound(disk: &SimulatedDisk, context: &str) {
    if disk.len(crate::format::FORMAT_FILE).expect("looks").is_none() {
        return;
    }
    let report = check_files(&(Arc::new(disk.clone()) as Arc<dyn Files>)).expect("checks");
    assert!(report.is_sound(), "{context}: {:?}", report.problems);
}

/// Tables and their sizes, for messages.
pub fn summary(contents: &Contents) -> String {
    let table = |(name, rows): (&String, &Rows)| {
        let few: Vec<_> = rows.iter().take(6).collect();
        format!("{name}: {} rows, begins {few:?}", rows.len())
    };
    contents.iter().map(table).collect::<Vec<_>>().join("; ")
}
