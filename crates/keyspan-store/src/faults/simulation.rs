//! Deterministic simulation: sessions, flushes, merges, faults and restarts in one run on one thread, all from one
//! seed.
//!
//! ```text
//! scheduler ─▶ begin or poll a session │ tick, flush, compact │ take or look at a snapshot │ fault │ crash, reopen
//!                  ▲──────── between any two operations of a flush or a merge ◀──┘
//! ```
//!
//! The model is the history of batches in their commit order, each with a row of its own in the table `m`. Rules that
//! are checked: a snapshot shows exactly the first so many batches, every acknowledged one among them, and goes on
//! doing so (atomicity, isolation, the last write wins); what a crash leaves is such a beginning too, and every durable
//! batch is in it (durability); a conditional batch applies only to what its session has seen.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use keyspan_model::{Applied, Error, ErrorKind, Result, Span, Stamp, Unchanged, WriteBatch};
use parking_lot::Mutex;

use super::workload::{Contents, Op, Step, contents, contents_of, named, options, random_ops, stamped, wait};
use crate::clock::ManualClock;
use crate::engine::tests::{START, key, table};
use crate::engine::{EmbeddedStore, StoreOptions};
use crate::files::simulated::{Crash, Failure, Fault, SimulatedDisk};
use crate::random::Random;
use keyspan_seam::{ReadAt, Snapshot, Store};

const SESSIONS: usize = 4;
/// The change that makes the tables is the first in the commit order.
const BEFORE: u64 = 1;

type Answer = Pin<Box<dyn Future<Output = Result<Applied>> + Send>>;

/// A batch in the commit order.
struct Batch {
    relaxed: bool,
    acknowledged: bool,
}

struct Running {
    answer: Answer,
    batch: usize,
}

/// One run.
struct World {
    seed: u64,
    random: Random,
    clock: Arc<ManualClock>,
    disk: SimulatedDisk,
    store: Option<Arc<EmbeddedStore>>,
    history: Vec<Batch>,
    /// What the first so many batches make of the database.
    states: Vec<Contents>,
    sessions: Vec<Option<Running>>,
    snapshots: Vec<(Arc<dyn Snapshot>, usize)>,
    /// A fault was set: errors may come.
    faulty: bool,
    tally: Tally,
}

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub batches: u64,
    pub acknowledged: u64,
    pub snapshots: u64,
    pub crashes: u64,
    pub faults: u64,
    pub within: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.batches += other.batches;
        self.acknowledged += other.acknowledged;
        self.snapshots += other.snapshots;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.within += other.within;
    }
}

/// Runs one seed; panics, saying which, where a rule is broken.
pub fn simulate(seed: u64, steps: usize) -> Tally {
    let mut random = Random::new(seed);
    let disk = if random.below(40) == 0 { SimulatedDisk::with_manifest_log() } else { SimulatedDisk::new() };
    let world = Arc::new(Mutex::new(World {
        seed,
        random,
        clock: Arc::new(ManualClock::new(START)),
        disk,
        store: None,
        history: Vec::new(),
        states: Vec::new(),
        sessions: (0..SESSIONS).map(|_| None).collect(),
        snapshots: Vec::new(),
        faulty: false,
        tally: Tally::default(),
    }));
    world.lock().create();
    watch(&world);
    (0..steps).for_each(|_| step(&world));
    let mut world = world.lock();
    world.restart();
    world.disk.watch(None);
    world.tally
}

/// Lets sessions go on in the middle of flushes and merges: before operations under which no lock of the lane is held.
fn watch(world: &Arc<Mutex<World>>) {
    let (disk, within) = (world.lock().disk.clone(), Arc::downgrade(world));
    disk.watch(Some(Arc::new(move |_, what| {
        let outside = !what.contains("seg/") && !what.contains("manifest/");
        let Some(world) = within.upgrade().filter(|_| !outside) else { return };
        if let Some(mut world) = world.try_lock()
            && world.random.below(4) == 0
        {
            world.tally.within += 1;
            world.session();
        };
    })));
}

fn step(world: &Arc<Mutex<World>>) {
    let (choice, store) = {
        let mut world = world.lock();
        (world.random.below(100), world.store.clone())
    };
    let store = store.expect("a store is open");
    let work = match choice {
        0..=64 => {
            world.lock().session();
            return;
        }
        // Without the world's lock: sessions go on meanwhile.
        65..=72 => store.tick(),
        73..=77 => wait(store.flush()),
        78..=81 => wait(store.compact()),
        82..=89 => return world.lock().look(),
        90..=91 => return world.lock().pass_time(),
        92..=95 => return world.lock().set_fault(),
        _ => {
            drop(store);
            world.lock().restart();
            return watch(world);
        }
    };
    drop(store);
    let mut own = world.lock();
    if let Err(error) = work
        && own.allow(&error)
    {
        own.restart();
        drop(own);
        watch(world);
    }
}

impl World {
    fn options(&self) -> StoreOptions {
        StoreOptions { clock: self.clock.clone(), memory_budget: 2 << 20, ..options() }
    }

    fn open(&self) -> Result<Arc<EmbeddedStore>> {
        EmbeddedStore::open_files(Arc::new(self.disk.clone()), self.options())
    }

    fn create(&mut self) {
        let store = self.open().expect("opens");
        let mut next = (*store.catalog()).clone();
        next.version += 1;
        let mut first = Contents::new();
        for name in ["m", "t", "u"] {
            let table = table(&mut next, name);
            next.tables.insert(table.id, Arc::new(table));
            first.insert(name.into(), Default::default());
        }
        wait(store.change(next.version - 1, next, None)).expect("creates");
        self.states.push(first);
        self.store = Some(store);
    }

    /// Begins a statement in some session, or goes on with it.
    fn session(&mut self) {
        let at = self.random.below(SESSIONS as u64) as usize;
        match self.sessions[at].take() {
            Some(running) => self.sessions[at] = self.poll(running),
            None => self.sessions[at] = self.begin(),
        }
    }

    fn poll(&mut self, mut running: Running) -> Option<Running> {
        match running.answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return Some(running),
            Poll::Ready(Ok(applied)) => self.acknowledge(running.batch, applied),
            Poll::Ready(Err(error)) => {
                assert_eq!(error.kind, ErrorKind::LogPoisoned, "seed {}: {error:?}", self.seed);
                assert!(self.faulty, "seed {}: {error:?} without a fault", self.seed);
            }
        }
        None
    }

    fn acknowledge(&mut self, batch: usize, applied: Applied) {
        assert_eq!(applied.seq, batch as u64 + BEFORE + 1, "seed {}: not the order of entering", self.seed);
        self.history[batch].acknowledged = true;
        self.tally.acknowledged += 1;
    }

    /// Whether the error means that the store must be opened again.
    fn allow(&mut self, error: &Error) -> bool {
        let fits = matches!(error.kind, ErrorKind::LogPoisoned | ErrorKind::Io | ErrorKind::DiskFull);
        assert!(fits && self.faulty, "seed {}: {error:?}", self.seed);
        self.disk.heal();
        error.kind == ErrorKind::LogPoisoned
    }

    fn begin(&mut self) -> Option<Running> {
        let store = self.store.clone().expect("a store is open");
        let mark = Op::Put("m", "mark", self.history.len() as i64, 0);
        let choice = self.random.below(12);
        let (ops, answer, relaxed): (Vec<Op>, Answer, bool) = match choice {
            0 => return self.truncate(store, mark),
            1..=3 => {
                let (op, unchanged) = self.increment(&store)?;
                let batch = batch_of(&store, &[mark.clone(), op.clone()], vec![unchanged], false);
                (vec![mark, op], Box::pin(async move { store.apply(batch).await }), false)
            }
            _ => {
                let value = self.random.below(1 << 20) as i64;
                let mut ops = random_ops(&mut self.random, value);
                ops.push(mark);
                let relaxed = choice < 6;
                let batch = batch_of(&store, &ops, Vec::new(), relaxed);
                (ops, Box::pin(async move { store.apply(batch).await }), relaxed)
            }
        };
        self.enter(answer, relaxed, |contents| ops.iter().for_each(|op| op.apply(contents)))
    }

    /// Empties a table: a change of the catalog that brings its mark along.
    fn truncate(&mut self, store: Arc<EmbeddedStore>, mark: Op) -> Option<Running> {
        let name = ["t", "u"][self.random.below(2) as usize];
        let mut next = (*store.catalog()).clone();
        let base = next.version;
        next.version += 1;
        let mut emptied = named(&store, name);
        emptied.rows = next.new_relation_id();
        next.tables.insert(emptied.id, Arc::new(emptied));
        let batch = batch_of(&store, std::slice::from_ref(&mark), Vec::new(), false);
        let answer: Answer = Box::pin(async move {
            let changed = store.change(base, next, Some(batch)).await;
            // Its place is not told: it is looked up by whoever asks.
            changed.map(|_| Applied { seq: 0, timestamp: 0 })
        });
        self.enter(answer, false, |contents| {
            Step::Truncate(name).apply(contents);
            mark.apply(contents);
        })
    }

    /// One more than what the session has seen, on condition that it is still so.
    fn increment(&mut self, store: &EmbeddedStore) -> Option<(Op, Unchanged)> {
        let snapshot = store.snapshot(ReadAt::Newest).expect("a snapshot");
        let seen = contents_of(snapshot.as_ref()).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let value = seen["t"].get(&("n".to_string(), 0)).copied().flatten().unwrap_or(0);
        let table = snapshot.catalog().tables.values().find(|table| table.name == "t")?.clone();
        let unchanged = Unchanged { relation: table.rows, span: Span::prefix(key("n", 0)), seq: snapshot.seq() };
        Some((Op::Put("t", "n", 0, value + 1), unchanged))
    }

    /// Polls once: then the statement has its place, or was refused.
    fn enter(&mut self, mut answer: Answer, relaxed: bool, apply: impl FnOnce(&mut Contents)) -> Option<Running> {
        let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(Err(error)) = &polled {
            let lost = matches!(error.kind, ErrorKind::Serialization | ErrorKind::Redefined);
            // The store is opened again by whoever next finds the log poisoned.
            let _ = lost || self.allow(error);
            return None;
        }
        let mut next = self.states.last().expect("there is a first").clone();
        let before = next["t"].get(&("n".to_string(), 0)).copied().flatten().unwrap_or(0);
        apply(&mut next);
        let after = next["t"].get(&("n".to_string(), 0)).copied().flatten().unwrap_or(0);
        assert!(after == before || after == before + 1 || after == 0, "seed {}: an increment is lost", self.seed);
        let batch = self.history.len();
        self.states.push(next);
        self.history.push(Batch { relaxed, acknowledged: false });
        self.tally.batches += 1;
        match polled {
            Poll::Ready(Ok(applied)) => {
                self.acknowledge(batch, applied);
                None
            }
            _ => Some(Running { answer: place(answer, batch), batch }),
        }
    }

    /// Takes a snapshot, or looks whether one that is held still shows what it did.
    fn look(&mut self) {
        self.tally.snapshots += 1;
        if self.snapshots.len() > 3 || (!self.snapshots.is_empty() && self.random.below(2) == 0) {
            let at = self.random.below(self.snapshots.len() as u64) as usize;
            let (snapshot, batches) = self.snapshots.swap_remove(at);
            return self.shows(snapshot.as_ref(), batches);
        }
        let snapshot = self.store.as_ref().expect("open").snapshot(ReadAt::Acknowledged).expect("a snapshot");
        let batches = (snapshot.seq() - BEFORE) as usize;
        let acknowledged = self.history.iter().rposition(|batch| batch.acknowledged).map_or(0, |last| last + 1);
        assert!(batches >= acknowledged, "seed {}: {batches} shown, {acknowledged} acknowledged", self.seed);
        self.shows(snapshot.as_ref(), batches);
        self.snapshots.push((snapshot, batches));
    }

    fn shows(&self, snapshot: &dyn Snapshot, batches: usize) {
        let found = contents_of(snapshot).unwrap_or_else(|error| panic!("seed {}: cannot be read: {error}", self.seed));
        assert!(found == self.states[batches], "seed {}: a snapshot of {batches} batches shows others", self.seed);
    }

    fn pass_time(&mut self) {
        self.clock.advance(self.random.below(10_000_000) as i64 - 1_000_000);
    }

    fn set_fault(&mut self) {
        self.tally.faults += 1;
        self.faulty = true;
        let failure = [Failure::Io, Failure::Full, Failure::Short][self.random.below(3) as usize];
        let count = if self.random.below(3) == 0 { u64::MAX } else { 1 };
        self.disk.fail(Fault { at: self.disk.operations() + 1 + self.random.below(40), count, failure });
    }

    /// Closes the store, or lets it crash, and opens what is left; finds how many batches that is.
    fn restart(&mut self) {
        self.tally.crashes += 1;
        self.disk.watch(None);
        let closed = self.random.below(4) == 0 && self.close_cleanly();
        let crash = match self.random.below(4) {
            _ if closed => Crash::Nothing,
            0 => Crash::Kill,
            1 => Crash::Nothing,
            _ => Crash::Some(self.random.number()),
        };
        let left = self.disk.after(crash);
        self.sessions.iter_mut().for_each(|session| *session = None);
        self.snapshots.clear();
        self.store = None;
        self.disk = left;
        self.faulty = false;
        self.reopen();
        self.survived(closed);
    }

    fn close_cleanly(&mut self) -> bool {
        self.disk.heal();
        self.store.as_ref().expect("open").close().is_ok()
    }

    /// Opens; the process may be killed in the middle of that, again and again.
    fn reopen(&mut self) {
        while self.random.below(3) == 0 {
            let at = self.disk.operations() + 1 + self.random.below(30);
            self.disk.fail(Fault { at, count: u64::MAX, failure: Failure::Stop });
            let opened = self.open();
            let left = self.disk.after(Crash::Some(self.random.number()));
            drop(opened);
            self.disk = left;
            self.tally.crashes += 1;
        }
        let store = self.open().unwrap_or_else(|error| panic!("seed {}: does not open: {error}", self.seed));
        self.store = Some(store);
    }

    fn survived(&mut self, closed: bool) {
        let found = contents(self.store.as_ref().expect("open"));
        let found = found.unwrap_or_else(|error| panic!("seed {}: cannot be read: {error}", self.seed));
        let batches = found["m"].len();
        let durable = |batch: &Batch| batch.acknowledged && (closed || !batch.relaxed);
        let needed = self.history.iter().rposition(durable).map_or(0, |last| last + 1);
        assert!(batches >= needed, "seed {}: {batches} batches are left, {needed} are durable", self.seed);
        assert!(self.states.get(batches) == Some(&found), "seed {}: {batches} batches are left, not whole", self.seed);
        self.history.truncate(batches);
        self.states.truncate(batches + 1);
        // What is there now is durable, whatever was said of it.
        self.history.iter_mut().for_each(|batch| (batch.acknowledged, batch.relaxed) = (true, false));
    }
}

/// A statement that does not tell its place gets that of its batch.
fn place(answer: Answer, batch: usize) -> Answer {
    Box::pin(async move {
        let applied = answer.await?;
        Ok(if applied.seq == 0 { Applied { seq: batch as u64 + BEFORE + 1, ..applied } } else { applied })
    })
}

fn batch_of(store: &EmbeddedStore, ops: &[Op], unchanged: Vec<Unchanged>, relaxed: bool) -> WriteBatch {
    let mutations = ops.iter().enumerate().map(|(at, op)| stamped(op.mutation(store), Stamp::Server(at as u32)));
    WriteBatch { mutations: mutations.collect(), unchanged, relaxed, ..WriteBatch::default() }
}

#[test]
fn seeded_runs_keep_every_rule() {
    let mut tally = Tally::default();
    let begun = std::time::Instant::now();
    let seeds = 30;
    (1..=seeds).for_each(|seed| tally.add(simulate(seed, 150)));
    println!("{seeds} seeds in {:?}: {tally:?}", begun.elapsed());
    assert!(tally.crashes > seeds && tally.within > seeds && tally.faults > seeds, "{tally:?}");
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let runs: Vec<String> = (0..2).map(|_| format!("{:?}", simulate(7, 150))).collect();
    assert_eq!(runs[0], runs[1]);
}
