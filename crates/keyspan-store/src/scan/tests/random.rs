//! Random writes in random runs, read in every way.

use std::sync::atomic::{AtomicI64, Ordering};

use arrow::buffer::BooleanBuffer;

use super::*;
use crate::random::Random;
use crate::row::rules::{Candidate, stronger};

/// One version of a cell or marker in the model.
#[derive(Clone, Debug)]
struct Version {
    candidate: Candidate,
    value: Value,
}

#[derive(Clone, Debug, Default)]
struct ModelRow {
    markers: Vec<Version>,
    cells: [Vec<Version>; 2],
    deleted: Option<i64>,
}

type ModelKey = (String, i64);

#[derive(Default)]
struct Model {
    rows: BTreeMap<(String, std::cmp::Reverse<i64>), ModelRow>,
    spans: Vec<(ModelKey, i64, i64)>,
}

fn winner(versions: &[Version]) -> Option<&Version> {
    let bytes = |value: &Value| match value {
        Value::BigInt(number) => number.to_be_bytes().to_vec(),
        Value::Text(text) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    };
    versions.iter().reduce(|best, next| {
        let order = || bytes(&next.value).cmp(&bytes(&best.value));
        if stronger(next.candidate, best.candidate, order) { next } else { best }
    })
}

impl Model {
    /// Every live row in key order: host, time, number, text, writetime(number), ttl(number).
    fn live(&self, now: i64, horizon: Option<i64>) -> Vec<Vec<Value>> {
        let mut live = Vec::new();
        for ((host, time), row) in &self.rows {
            let time = time.0;
            let spans = self.spans.iter().filter(|(at, last, _)| at.0 == *host && time >= at.1 && time <= *last);
            let deleted = spans.map(|(_, _, ts)| *ts).max().max(row.deleted).max(horizon);
            let lives = |version: &&Version| {
                let candidate = version.candidate;
                !candidate.tombstone
                    && deleted.is_none_or(|deleted| candidate.ts > deleted)
                    && candidate.expires.is_none_or(|expires| now < expires)
            };
            let cells: Vec<_> = row.cells.iter().map(|versions| winner(versions).filter(lives)).collect();
            if winner(&row.markers).filter(lives).is_none() && cells.iter().all(Option::is_none) {
                continue;
            }
            let value = |cell: &Option<&Version>| cell.map_or(Value::Null, |cell| cell.value.clone());
            let number = cells[0].map(|cell| cell.candidate);
            let ttl =
                number.and_then(|number| number.expires).map(|expires| ((expires - now + 999_999) / 1_000_000) as i32);
            live.push(vec![
                Value::Text(host.clone()),
                Value::Timestamp(time),
                value(&cells[0]),
                value(&cells[1]),
                number.map_or(Value::Null, |number| Value::BigInt(number.ts)),
                ttl.map_or(Value::Null, Value::Int),
            ]);
        }
        live
    }
}

const HOSTS: [&str; 5] = ["a", "ab", "b", "c\0", ""];
const TIMES: Range<i64> = 0..12;

struct Case {
    random: Random,
    model: Model,
    relation: RelationDef,
    runs: Vec<Run>,
    tombstones: Vec<SpanTombstone>,
    now: i64,
    /// The slice of time that rows are written in; late ones are outside.
    slice: Range<i64>,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let mut relation = relation();
        relation.gc_grace = if random.chance(50) { 0 } else { 3 };
        let mut case = Case {
            random,
            model: Model::default(),
            relation,
            runs: Vec::new(),
            tombstones: Vec::new(),
            now: 10_000_000,
            slice: TIMES,
        };
        let sliced = case.random.chance(50);
        for run in 0..case.random.below(5) as i64 + 1 {
            case.slice = if sliced { run * 2..run * 2 + 3 } else { TIMES };
            match case.random.below(4) {
                0 => case.bulk_run(),
                _ => case.row_run(),
            }
        }
        case.slice = TIMES;
        for _ in 0..case.random.below(3) {
            case.span();
        }
        if case.random.chance(40) {
            case.retention();
        }
        case
    }

    fn key(&mut self) -> ModelKey {
        let host = HOSTS[self.random.below(5) as usize];
        let times = if self.random.chance(3) { TIMES } else { self.slice.clone() };
        (host.to_string(), times.start + self.random.below((times.end - times.start) as u64) as i64)
    }

    fn ts(&mut self) -> i64 {
        self.random.below(6) as i64 + 1
    }

    /// Seconds to live, and the clock of the write: some have expired by now.
    fn ttl(&mut self) -> (u32, i64) {
        if self.random.chance(30) { (self.random.below(9) as u32 + 1, 5_000_000) } else { (0, 5_000_000) }
    }

    fn note(&mut self, (host, time): &ModelKey) -> &mut ModelRow {
        self.model.rows.entry((host.clone(), std::cmp::Reverse(*time))).or_default()
    }

    fn row_run(&mut self) {
        let memtable = Arc::new(Memtable::new(&self.relation));
        let encoder = KeyEncoder::new(&self.relation.key);
        for seq in 1..=self.random.below(60) {
            let at = self.key();
            let bytes = encoder.encode(&key(&at.0, at.1)).expect("a key");
            let entry = self.entry(&at);
            memtable.insert(bytes, seq, entry).expect("inserted");
        }
        let relation = Arc::new(self.relation.clone());
        let run = match self.random.below(3) {
            0 => Run::Memtable(memtable.view(u64::MAX, relation)),
            1 => Run::Memory(Arc::new(memtable.freeze(&relation).expect("frozen"))),
            _ => {
                let block = self.random.below(7) as usize + 1;
                Run::Segment(Arc::new(Blocks(memtable.freeze(&relation).expect("frozen"), block)))
            }
        };
        self.runs.push(run);
    }

    fn entry(&mut self, at: &ModelKey) -> RowEntry {
        let ts = self.ts();
        if self.random.chance(15) {
            let row = self.note(at);
            row.deleted = row.deleted.max(Some(ts));
            return RowEntry::deleted(ts, 5_000_000);
        }
        let ((ttl, clock), marker) = (self.ttl(), self.random.chance(60));
        let expires = (ttl > 0).then(|| clock + i64::from(ttl) * 1_000_000);
        let mut cells = Vec::new();
        for (at_column, column) in [NUMBER, TEXT].into_iter().enumerate() {
            if self.random.chance(30) {
                continue;
            }
            let tombstone = self.random.chance(20);
            let number = self.random.below(4) as i64 - 1;
            let value = if column == NUMBER { Value::BigInt(number) } else { Value::Text(format!("t{number}")) };
            let candidate = Candidate { ts, tombstone, expires: expires.filter(|_| !tombstone) };
            let version = Version { candidate, value: if tombstone { Value::Null } else { value.clone() } };
            self.note(at).cells[at_column].push(version);
            cells.push((column, if tombstone { CellWrite::Tombstone } else { CellWrite::Value(value) }));
        }
        if marker {
            let candidate = Candidate { ts, tombstone: false, expires };
            self.note(at).markers.push(Version { candidate, value: Value::Null });
        }
        RowEntry::written(&write(key(&at.0, at.1), cells, marker, ttl), ts, clock)
    }

    fn bulk_run(&mut self) {
        let (ts, (ttl, clock), null_deletes) = (self.ts(), self.ttl(), self.random.chance(50));
        let expires = (ttl > 0).then(|| clock + i64::from(ttl) * 1_000_000);
        let mut rows = BTreeMap::new();
        for _ in 0..self.random.below(40) + 1 {
            let at = self.key();
            let number = if self.random.chance(30) { Value::Null } else { Value::BigInt(self.random.below(4) as i64) };
            let text = if self.random.chance(30) { Value::Null } else { Value::Text("bulk".into()) };
            rows.insert(at, (number, text));
        }
        for (at, (number, text)) in &rows {
            let row = self.note(at);
            row.markers.push(Version { candidate: Candidate { ts, tombstone: false, expires }, value: Value::Null });
            for (column, value) in [number, text].into_iter().enumerate() {
                let tombstone = value.is_null();
                if !tombstone || null_deletes {
                    let candidate = Candidate { ts, tombstone, expires: expires.filter(|_| !tombstone) };
                    row.cells[column].push(Version { candidate, value: value.clone() });
                }
            }
        }
        // Any order will do: the run sorts.
        let rows: Vec<_> = rows.into_iter().rev().map(|(at, (a, b))| (key(&at.0, at.1), a, b)).collect();
        let write = bulk(&self.relation, &rows, ttl, null_deletes);
        let run = MemoryRun::from_write(&self.relation, &write, ts, clock, 1).expect("a run");
        let block = self.random.below(7) as usize + 1;
        let small = self.random.chance(50);
        self.runs.push(if small { Run::Segment(Arc::new(Blocks(run, block))) } else { Run::Memory(Arc::new(run)) });
    }

    fn span(&mut self) {
        let (at, ts) = (self.key(), self.ts());
        let last = at.1 + self.random.below(6) as i64;
        // Times descend in the key: the last is the first.
        let span = Span { start: Bound::Included(key(&at.0, last)), end: Bound::Included(key(&at.0, at.1)) };
        let (start, end) = KeyEncoder::new(&self.relation.key).span_bytes(&span).expect("a span");
        self.tombstones.push(SpanTombstone { start, end, ts, deleted_at: 5_000_000, seq: 1 });
        self.model.spans.push((at, last, ts));
    }

    /// Some of the writes are too old; later perhaps all of them.
    fn retention(&mut self) {
        let ended = self.random.below(7) as i64;
        self.relation.retention = Retention { age: Some(self.now - ended), ended: None };
        if self.random.chance(50) {
            self.relation.retention = self.relation.retention.lengthened(None, self.now, 0);
        }
    }

    fn source(&self) -> Arc<ScanSource> {
        source(self.relation.clone(), self.runs.clone(), self.tombstones.clone(), self.now)
    }

    fn range(&mut self) -> ColumnRange {
        if self.random.chance(50) {
            let lower = self.random.below(12) as i64;
            let upper = Value::Timestamp(lower + self.random.below(3) as i64);
            return ColumnRange::between(TIME, Bound::Included(Value::Timestamp(lower)), Bound::Included(upper));
        }
        let number = Value::BigInt(self.random.below(4) as i64 - 1);
        ColumnRange::between(NUMBER, Bound::Included(number.clone()), Bound::Included(number))
    }

    fn spans(&mut self) -> Vec<Span> {
        if self.random.chance(30) {
            return vec![Span::all()];
        }
        let mut hosts: Vec<&str> = HOSTS.to_vec();
        hosts.sort_unstable();
        let mut spans = Vec::new();
        for host in hosts {
            match self.random.below(4) {
                0 => spans.push(Span::prefix(vec![Value::Text(host.into())])),
                1 => {
                    let middle = self.random.below(12) as i64;
                    let prefix = vec![Value::Text(host.into())];
                    spans
                        .push(Span { start: Bound::Included(prefix.clone()), end: Bound::Excluded(key(host, middle)) });
                    if self.random.chance(50) {
                        spans.push(Span { start: Bound::Excluded(key(host, middle)), end: Bound::Included(prefix) });
                    }
                }
                2 => spans.push(Span::prefix(key(host, self.random.below(12) as i64))),
                _ => {}
            }
        }
        spans
    }

    fn check(&mut self, seed: u64) {
        let source = self.source();
        let mut columns = all_columns();
        columns.extend([ScanColumn::WriteTime(NUMBER), ScanColumn::Ttl(NUMBER)]);
        let live = self.model.live(self.now, self.relation.retention.horizon(self.now));
        for round in 0..6 {
            let order = [Order::Forward, Order::Reverse, Order::Any][self.random.below(3) as usize];
            let mut scan = scan_of(self.spans(), order);
            if round == 0 {
                scan.columns = columns.clone();
            }
            if round == 1 {
                scan.columns = vec![ScanColumn::Column(TIME), ScanColumn::Column(NUMBER)];
            }
            if self.random.chance(40) {
                scan.ranges = vec![self.range()];
                if scan.ranges[0].column == TIME && self.random.chance(50) {
                    scan.columns = vec![ScanColumn::Column(NUMBER), ScanColumn::Column(TEXT)];
                }
            } else if self.random.chance(30) {
                scan.per_prefix = Some((self.random.below(3) as usize, self.random.below(3) as usize + 1));
            }
            let want = if self.random.chance(50) { 1 } else { 3 };
            // Rows outside of ranges of value columns may be delivered: whoever asked checks again.
            let checked = scan.ranges.iter().find(|range| range.column != TIME).cloned();
            if order != Order::Any && checked.is_none() && self.random.chance(30) {
                scan.limit = Some(self.random.below(10) as usize);
            }
            let mut expected = expected(&live, &scan);
            let mut actual = read(&source, &scan, if scan.limit.is_some() { 1 } else { want }, &Arc::default());
            if let Some(range) = &checked {
                let place =
                    scan.columns.iter().position(|column| *column == ScanColumn::Column(range.column)).expect("read");
                actual.retain(|row| contains(range, &row[place]));
                expected.retain(|row| contains(range, &row[place]));
            }
            if order == Order::Any {
                if scan.per_prefix.is_some() {
                    assert_eq!(actual.len(), expected.len(), "seed {seed}, {scan:?}");
                    continue;
                }
                sort(&mut actual);
                sort(&mut expected);
                assert_eq!(actual, expected, "seed {seed}, {scan:?}");
                continue;
            }
            assert_eq!(actual, expected, "seed {seed}, {scan:?}");
            let statistics = known(&source, &scan);
            if let (Known::Exact(rows), None) = (statistics.rows, scan.limit) {
                assert_eq!(rows as usize, expected.len(), "seed {seed}, {scan:?}");
            }
        }
        self.check_points(&source, &live, seed);
    }

    /// Of rows that do not meet conditions some may be missing, of those that do none.
    fn check_conditions(&mut self, seed: u64) {
        let source = self.source();
        let live = self.model.live(self.now, self.relation.retention.horizon(self.now));
        for _ in 0..4 {
            let order = [Order::Forward, Order::Reverse, Order::Any][self.random.below(3) as usize];
            let scan = scan_of(self.spans(), order);
            let asked: Vec<Arc<AtLeast>> = (0..1 + self.random.below(2)).map(|_| Arc::new(self.at_least())).collect();
            let conditions: Vec<Arc<dyn RowCondition>> = asked.iter().map(|one| one.clone() as _).collect();
            let conditions: Conditions = conditions.into();
            let mut delivered = Vec::new();
            for split in &source.divide(&scan, 3, 8).expect("a plan").splits {
                let mut reader = source.reader(&scan, split, &conditions, Arc::default()).expect("a reader");
                while let Some(batch) = reader.next_batch().expect("a batch") {
                    delivered.extend(rows_of(&self.relation, &scan.columns, &batch));
                    asked.iter().filter(|one| one.narrows).for_each(|one| {
                        one.least.fetch_add(self.random.below(2) as i64, Ordering::Relaxed);
                    });
                }
            }
            let mut expected = expected(&live, &scan);
            if order != Order::Any {
                let mut next = expected.iter();
                assert!(delivered.iter().all(|row| next.any(|own| own == row)), "seed {seed}, {scan:?}, {asked:?}");
            }
            sort(&mut delivered);
            sort(&mut expected);
            let left_out: Vec<_> = expected
                .iter()
                .filter(|row| delivered.binary_search_by_key(&format!("{row:?}"), |own| format!("{own:?}")).is_err())
                .collect();
            assert_eq!(delivered.len() + left_out.len(), expected.len(), "seed {seed}, {scan:?}, {asked:?}");
            let value = |row: &Vec<Value>, column: &ColumnId| row[if *column == TIME { 1 } else { 2 }].clone();
            let met = |row: &&&Vec<Value>| {
                asked.iter().all(|one| one.is_met(one.columns.iter().map(|column| value(row, column))))
            };
            assert_eq!(left_out.iter().find(met), None, "seed {seed}, {scan:?}, {asked:?}");
        }
    }

    fn at_least(&mut self) -> AtLeast {
        let columns = match self.random.below(3) {
            0 => vec![TIME],
            1 => vec![NUMBER],
            _ => vec![NUMBER, TIME],
        };
        AtLeast {
            columns,
            least: AtomicI64::new(self.random.below(4) as i64 - 1),
            null: self.random.chance(50),
            narrows: self.random.chance(50),
        }
    }

    fn check_points(&mut self, source: &Arc<ScanSource>, live: &[Vec<Value>], seed: u64) {
        let keys: Vec<Vec<Value>> = (0..5).map(|_| self.key()).map(|at| key(&at.0, at.1)).collect();
        let get = |keys: &[Vec<Value>]| {
            let got = source.get(keys, &all_columns(), &ScanCounters::default()).expect("rows");
            rows_of(&self.relation, &all_columns(), &got)
        };
        let row = |key: &Vec<Value>| live.iter().find(|row| row[..2] == key[..]).map(|row| row[..4].to_vec());
        assert_eq!(get(&keys), keys.iter().filter_map(row).collect::<Vec<_>>(), "seed {seed}, keys {keys:?}");
        for key in &keys {
            let scan = scan_of(vec![Span::prefix(key.clone())], Order::Forward);
            assert_eq!(get(std::slice::from_ref(key)), read_all(source, &scan), "seed {seed}, key {key:?}");
        }
    }

    /// Merges some of the runs into one, by the purge rules: nothing that is read may change.
    fn compact(&mut self) {
        let (mut merged, mut outside) = (Vec::new(), Vec::new());
        for run in std::mem::take(&mut self.runs) {
            if self.random.chance(60) { merged.push(run) } else { outside.push(run) }
        }
        let input = CompactionInput {
            relation: Arc::new(self.relation.clone()),
            runs: merged.iter().map(|run| run.open(&[], None).expect("opened")).collect(),
            tombstones: &self.tombstones,
            keep_tombstones: false,
            outside: outside.iter().map(|run| run.meta().all.clone()).collect(),
            now: self.now,
        };
        let mut compaction = Compaction::new(input, Arc::default()).expect("a compaction");
        let columns = compaction.columns().to_vec();
        let mut parts = Vec::new();
        while let Some(part) = compaction.next_batch().expect("a batch") {
            parts.push(part);
        }
        self.runs = outside;
        if parts.iter().any(|part| part.rows > 0) {
            let whole = RunBatch::concat(&parts).expect("one shape");
            let run = MemoryRun::new(&self.relation, whole, columns, (1, 1)).expect("a run");
            let block = self.random.below(7) as usize + 1;
            self.runs.push(Run::Segment(Arc::new(Blocks(run, block))));
        }
    }
}

/// That of times and numbers none is below another number, nor null unless nulls are wanted.
#[derive(Debug)]
struct AtLeast {
    columns: Vec<ColumnId>,
    least: AtomicI64,
    null: bool,
    narrows: bool,
}

impl AtLeast {
    fn is_met(&self, mut values: impl Iterator<Item = Value>) -> bool {
        let least = self.least.load(Ordering::Relaxed);
        values.all(|value| match value {
            Value::BigInt(number) | Value::Timestamp(number) => number >= least,
            _ => self.null,
        })
    }
}

impl RowCondition for AtLeast {
    fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    fn met(&self, columns: &[ArrayRef], rows: usize) -> Option<BooleanBuffer> {
        let met = |row| {
            let ty = |column| if column == TIME { ColumnType::Timestamp } else { ColumnType::BigInt };
            let value = |(array, column): (&ArrayRef, &ColumnId)| value_at(array, row, ty(*column)).expect("a value");
            self.is_met(columns.iter().zip(&self.columns).map(value))
        };
        Some(BooleanBuffer::collect_bool(rows, met))
    }

    fn range(&self) -> Option<ColumnRange> {
        let least = self.least.load(Ordering::Relaxed);
        let [column] = *self.columns.as_slice() else { return None };
        let least = if column == TIME { Value::Timestamp(least) } else { Value::BigInt(least) };
        let tells = column == TIME || !self.null;
        tells.then(|| ColumnRange::between(column, Bound::Included(least), Bound::Unbounded))
    }

    fn narrows(&self) -> bool {
        self.narrows
    }

    fn first(&self) -> Option<(ColumnId, End)> {
        self.narrows.then_some((self.columns[0], End::Greatest))
    }
}

fn sort(rows: &mut [Vec<Value>]) {
    rows.sort_by_key(|row| format!("{row:?}"));
}

/// What a scan of these live rows must give.
fn expected(live: &[Vec<Value>], scan: &Scan) -> Vec<Vec<Value>> {
    let encoder = KeyEncoder::new(&relation().key);
    let spans: Vec<_> = scan.spans.iter().map(|span| encoder.span_bytes(span).expect("a span")).collect();
    let mut rows: Vec<&Vec<Value>> = live
        .iter()
        .filter(|row| {
            let key = encoder.encode(&row[..2]).expect("a key");
            let in_spans = spans.iter().any(|(start, end)| key >= *start && end.as_ref().is_none_or(|end| key < *end));
            in_spans && scan.ranges.iter().all(|range| range.column != TIME || contains(range, &row[1]))
        })
        .collect();
    if scan.order == Order::Reverse {
        rows.reverse();
    }
    if let Some((columns, most)) = scan.per_prefix {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        rows.retain(|row| {
            let count = counts.entry(format!("{:?}", &row[..columns])).or_default();
            *count += 1;
            *count <= most
        });
    }
    rows.truncate(scan.limit.unwrap_or(usize::MAX));
    let order = [HOST, TIME, NUMBER, TEXT].map(ScanColumn::Column);
    let place = |column: &ScanColumn| match column {
        ScanColumn::WriteTime(_) => 4,
        ScanColumn::Ttl(_) => 5,
        column => order.iter().position(|own| own == column).expect("a column"),
    };
    rows.iter().map(|row| scan.columns.iter().map(|column| row[place(column)].clone()).collect()).collect()
}

#[test]
fn random_runs_read_as_the_model_says() {
    for seed in 1..=1500 {
        let mut case = Case::new(seed);
        case.check(seed);
    }
}

#[test]
fn conditions_leave_out_only_rows_that_do_not_meet_them() {
    for seed in 1..=3000 {
        Case::new(seed + 200_000).check_conditions(seed);
    }
}

#[test]
fn compaction_changes_nothing_that_is_read_then_or_later() {
    for seed in 1..=1000 {
        let mut case = Case::new(seed + 100_000);
        case.compact();
        case.check(seed);
        case.compact();
        case.now += 4_000_000;
        case.check(seed);
    }
}
