//! The store against a plain `BTreeMap`: random writes, deletes, TTLs, explicit timestamps, schema changes, flushes,
//! compactions and reopens, with a memory budget far below the data. Columns are indexed and not, and files of indexes
//! damaged (`index`).
//!
//! The model keeps, for each cell, the write that wins (larger timestamp; ties as in `docs/decisions.md`) and, for
//! each row, the newest deletion that covers it. `KEYSPAN_SEED` repeats a run, `KEYSPAN_STEPS` makes it longer.

mod index;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use keyspan_model::{
    BatchWrite, Catalog, CellWrite, ColumnDef, ColumnId, ColumnRole, ColumnType, Encoding, Mutation, Order, RelationId,
    Retention, RowDelete, RowWrite, Scan, ScanColumn, Span, SpanDelete, Stamp, TableDef, TableId, TextType, Value,
    WriteBatch, array,
};
use keyspan_seam::{Conditions, ReadAt, Snapshot, Store};
use keyspan_store::clock::ManualClock;
use keyspan_store::{EmbeddedStore, StoreOptions};
use keyspan_tests::random::Random;

const SECOND: i64 = 1_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// What one write says of one cell or marker.
#[derive(Clone, Debug, PartialEq)]
struct Write {
    ts: i64,
    expires: Option<i64>,
    value: Option<Value>,
}

impl Write {
    /// Whether this write wins over the other: `docs/decisions.md`, "write conflicts".
    fn beats(&self, other: &Write) -> bool {
        let rank = |write: &Write| {
            let class = match (&write.value, write.expires) {
                (None, _) => 2,
                (_, Some(_)) => 1,
                _ => 0,
            };
            (write.ts, class, write.expires.unwrap_or(0))
        };
        if rank(self) != rank(other) {
            return rank(self) > rank(other);
        }
        let bytes = |write: &Write| write.value.as_ref().map(array::tie_bytes);
        bytes(self) > bytes(other)
    }

    fn live(&self, deleted: i64, now: i64) -> bool {
        self.ts > deleted && self.value.is_some() && self.expires.is_none_or(|at| now < at)
    }
}

type Key = (String, i64);

/// What the writes say of one row.
#[derive(Default)]
struct ModelRow {
    marker: Option<Write>,
    cells: BTreeMap<u32, Write>,
    deleted: Option<i64>,
}

/// A deletion of the times from..=to of a partition, and its write timestamp.
type DeletedSpan = (i64, i64, i64);

#[derive(Default)]
struct Model {
    rows: BTreeMap<Key, ModelRow>,
    spans: BTreeMap<String, Vec<DeletedSpan>>,
}

impl Model {
    fn put(&mut self, key: &Key, column: Option<u32>, write: Write) {
        let row = self.rows.entry(key.clone()).or_default();
        let slot = match column {
            None => row.marker.get_or_insert_with(|| write.clone()),
            Some(column) => row.cells.entry(column).or_insert_with(|| write.clone()),
        };
        if write.beats(slot) {
            *slot = write;
        }
    }

    fn delete(&mut self, key: &Key, ts: i64) {
        let row = self.rows.entry(key.clone()).or_default();
        row.deleted = row.deleted.max(Some(ts));
    }

    fn deleted_at(&self, key: &Key, row: &ModelRow) -> i64 {
        let spans = self.spans.get(&key.0).into_iter().flatten();
        let covering = spans.filter(|(from, to, _)| (*from..=*to).contains(&key.1)).map(|span| span.2);
        covering.chain(row.deleted).max().unwrap_or(i64::MIN)
    }

    /// The row's values, one for each column, if it is live.
    fn live(&self, key: &Key, columns: &[u32], now: i64) -> Option<Vec<Value>> {
        let row = self.rows.get(key)?;
        let deleted = self.deleted_at(key, row);
        let live = |write: &&Write| write.live(deleted, now);
        let cell = |id| row.cells.get(id).filter(live).and_then(|write| write.value.clone());
        let values: Vec<Value> = columns.iter().map(|id| cell(id).unwrap_or(Value::Null)).collect();
        let lives = row.marker.as_ref().is_some_and(|marker| live(&marker)) || values.iter().any(|v| *v != Value::Null);
        lives.then_some(values)
    }
}

struct Run {
    random: Random,
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
    store: Arc<EmbeddedStore>,
    table: TableDef,
    model: Model,
    descending: bool,
    /// Rows come in time order: the twelfth of an hour that is being written.
    hour: usize,
    flushes: u64,
    compactions: u64,
    /// Scans whose rows indexes have found.
    found: u64,
}

fn options(clock: &Arc<ManualClock>) -> StoreOptions {
    StoreOptions {
        memory_budget: 1 << 20,
        cache_budget: 1 << 20,
        log_limit: 4 << 20,
        log_file: 1 << 20,
        clock: clock.clone(),
        segment_rows: 3_000,
        ..StoreOptions::default()
    }
}

fn column(id: ColumnId, name: &str, ty: ColumnType, role: ColumnRole) -> ColumnDef {
    ColumnDef {
        id,
        name: name.into(),
        ty,
        role,
        not_null: false,
        default: None,
        max_length: None,
        text_type: TextType::Text,
        hidden: false,
        counter: false,
        identity: None,
    }
}

fn table(catalog: &mut Catalog, descending: bool) -> TableDef {
    let mut new = |name: &str, ty, role| column(catalog.new_column_id(), name, ty, role);
    let columns = vec![
        new("p", ColumnType::Text, ColumnRole::Partition),
        new("ts", ColumnType::Timestamp, ColumnRole::Clustering { descending }),
        new("a", ColumnType::Int, ColumnRole::Regular),
        new("b", ColumnType::Text, ColumnRole::Regular),
        new("n", ColumnType::Double, ColumnRole::Regular),
    ];
    TableDef {
        id: catalog.new_table_id(),
        keyspace: "public".into(),
        name: "t".into(),
        version: 1,
        window: Some(columns[1].id),
        columns,
        rows: catalog.new_relation_id(),
        statics: None,
        families: vec![],
        default_ttl: 0,
        retention: Retention::default(),
        encoding: Encoding::default(),
        gc_grace: 864_000,
        checks: vec![],
        options: BTreeMap::new(),
        indexes: vec![],
        foreign_keys: vec![],
    }
}

impl Run {
    async fn new(seed: u64) -> Run {
        let mut random = Random::new(seed);
        let clock = Arc::new(ManualClock::new(START));
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), options(&clock)).unwrap();
        let base = store.catalog();
        let mut catalog = (*base).clone();
        catalog.version += 1;
        let descending = random.below(2) == 0;
        let table = table(&mut catalog, descending);
        catalog.tables.insert(table.id, Arc::new(table.clone()));
        store.change(base.version, catalog, None).await.unwrap();
        Run {
            random,
            clock,
            folder,
            store,
            table,
            model: Model::default(),
            descending,
            hour: 0,
            flushes: 0,
            compactions: 0,
            found: 0,
        }
    }

    fn values(&self) -> Vec<(u32, ColumnType)> {
        let regular = self.table.columns.iter().filter(|c| c.role == ColumnRole::Regular);
        regular.map(|c| (c.id.0, c.ty)).collect()
    }

    /// Mostly of the hours that are being written now, in all partitions; now and then a late one or any other.
    fn key(&mut self) -> Key {
        let hour = match self.random.below(3) {
            0 => self.random.below(24 * 12),
            _ => self.hour + self.random.below(3),
        } as i64;
        (format!("p{}", self.random.below(12)), START + (hour * 300 + self.random.below(20) as i64) * SECOND)
    }

    fn value(&mut self, ty: ColumnType) -> Value {
        match ty {
            ColumnType::Int => Value::Int(self.random.below(1000) as i32 - 500),
            ColumnType::Text => Value::Text("x".repeat(self.random.below(40)) + &self.random.below(9).to_string()),
            _ => Value::Double(self.random.below(1000) as f64 / 4.0),
        }
    }

    fn stamp(&mut self) -> Stamp {
        let explicit = self.random.below(4) == 0;
        if explicit { Stamp::At(START - SECOND + self.random.below(50) as i64) } else { Stamp::Server(0) }
    }

    fn ttl(&mut self) -> u32 {
        if self.random.below(6) == 0 { 1 + self.random.below(200) as u32 } else { 0 }
    }

    async fn apply(&self, mutation: Mutation) -> i64 {
        let batch = WriteBatch { mutations: vec![mutation], relaxed: true, ..WriteBatch::default() };
        self.store.apply(batch).await.unwrap().timestamp
    }

    async fn write_row(&mut self) {
        let (key, marker, stamp, ttl) = (self.key(), self.random.below(3) > 0, self.stamp(), self.ttl());
        let mut cells = Vec::new();
        for (id, ty) in self.values() {
            let explicit = matches!(stamp, Stamp::At(_));
            match self.random.below(4) {
                0 => {}
                // A null is dropped where nothing older exists, so a column that gets nulls gets no older writes.
                1 if ty == ColumnType::Double && !explicit => cells.push((ColumnId(id), CellWrite::Tombstone)),
                _ if ty == ColumnType::Double && explicit => {}
                _ => cells.push((ColumnId(id), CellWrite::Value(self.value(ty)))),
            }
        }
        let write = RowWrite {
            relation: self.table.rows,
            key: vec![Value::Text(key.0.clone()), Value::Timestamp(key.1)],
            marker,
            cells: cells.clone(),
            stamp,
            ttl,
        };
        let now = self.clock_now();
        let server = self.apply(Mutation::Row(write)).await;
        let ts = if let Stamp::At(at) = stamp { at } else { server };
        let expires = (ttl > 0).then(|| now + i64::from(ttl) * SECOND);
        if marker {
            self.model.put(&key, None, Write { ts, expires, value: Some(Value::Boolean(true)) });
        }
        for (id, cell) in cells {
            let write = match cell {
                CellWrite::Value(value) => Write { ts, expires, value: Some(value) },
                CellWrite::Tombstone => Write { ts, expires: None, value: None },
            };
            self.model.put(&key, Some(id.0), write);
        }
    }

    async fn write_batch(&mut self) {
        let rows =
            if self.random.below(3) == 0 { 1_024 + self.random.below(3_000) } else { 1 + self.random.below(200) };
        let (stamp, ttl) = (Stamp::Server(0), self.ttl());
        let mut keys: BTreeMap<Key, ()> = BTreeMap::new();
        for _ in 0..rows {
            keys.insert(self.key(), ());
        }
        let keys: Vec<Key> = keys.into_keys().collect();
        let mut columns = vec![self.table.columns[0].id, self.table.columns[1].id];
        let texts: Vec<Value> = keys.iter().map(|key| Value::Text(key.0.clone())).collect();
        let times: Vec<Value> = keys.iter().map(|key| Value::Timestamp(key.1)).collect();
        let mut arrays = vec![
            array::array_of(ColumnType::Text, &texts).unwrap(),
            array::array_of(ColumnType::Timestamp, &times).unwrap(),
        ];
        let mut data = Vec::new();
        for (id, ty) in self.values() {
            let values: Vec<Value> =
                keys.iter().map(|_| if self.random.below(5) == 0 { Value::Null } else { self.value(ty) }).collect();
            columns.push(ColumnId(id));
            arrays.push(array::array_of(ty, &values).unwrap());
            data.push((id, ty, values));
        }
        let names: Vec<(String, _)> = arrays.into_iter().enumerate().map(|(n, a)| (format!("c{n}"), a)).collect();
        let batch = RecordBatch::try_from_iter(names).unwrap();
        let relation = self.table.rows;
        let now = self.clock_now();
        let write = BatchWrite { relation, columns, batch, marker: true, null_deletes: false, stamp, ttl };
        let ts = self.apply(Mutation::Batch(write)).await;
        let expires = (ttl > 0).then(|| now + i64::from(ttl) * SECOND);
        for (row, key) in keys.iter().enumerate() {
            self.model.put(key, None, Write { ts, expires, value: Some(Value::Boolean(true)) });
            for (id, _, values) in data.iter().filter(|(_, _, values)| values[row] != Value::Null) {
                self.model.put(key, Some(*id), Write { ts, expires, value: Some(values[row].clone()) });
            }
        }
    }

    async fn delete(&mut self) {
        let (key, stamp, relation) = (self.key(), self.stamp(), self.table.rows);
        if self.random.below(2) == 0 {
            let values = vec![Value::Text(key.0.clone()), Value::Timestamp(key.1)];
            let server = self.apply(Mutation::DeleteRow(RowDelete { relation, key: values, stamp })).await;
            let ts = if let Stamp::At(at) = stamp { at } else { server };
            self.model.delete(&key, ts);
            return;
        }
        let until = key.1 + self.random.below(3_000) as i64 * SECOND;
        let (from, to) = if self.random.below(4) == 0 { (i64::MIN, i64::MAX) } else { (key.1, until) };
        let span =
            if from == i64::MIN { Span::prefix(vec![Value::Text(key.0.clone())]) } else { self.span(&key.0, from, to) };
        let server = self.apply(Mutation::DeleteSpan(SpanDelete { relation, span, stamp })).await;
        let ts = if let Stamp::At(at) = stamp { at } else { server };
        self.model.spans.entry(key.0).or_default().push((from, to, ts));
    }

    /// The keys of one partition between two times, both included, in key order.
    fn span(&self, partition: &str, from: i64, to: i64) -> Span {
        let (first, last) = if self.descending { (to, from) } else { (from, to) };
        let bound = |ts| Bound::Included(vec![Value::Text(partition.to_string()), Value::Timestamp(ts)]);
        Span { start: bound(first), end: bound(last) }
    }

    fn clock_now(&self) -> i64 {
        keyspan_store::clock::Clock::now(&*self.clock)
    }

    async fn change_columns(&mut self) {
        let base = self.store.catalog();
        let mut catalog = (*base).clone();
        catalog.version += 1;
        let mut table = self.table.clone();
        table.version += 1;
        if table.columns.len() > 4 && self.random.below(2) == 0 {
            let at = 2 + self.random.below(table.columns.len() - 2);
            let gone = table.columns.remove(at).id.0;
            table.indexes.retain(|index| index.columns != [ColumnId(gone)]);
            self.model.rows.values_mut().for_each(|row| drop(row.cells.remove(&gone)));
        } else {
            let ty = [ColumnType::Int, ColumnType::Text][self.random.below(2)];
            let id = catalog.new_column_id();
            table.columns.push(column(id, &format!("c{}", id.0), ty, ColumnRole::Regular));
        }
        catalog.tables.insert(table.id, Arc::new(table.clone()));
        self.store.change(base.version, catalog, None).await.unwrap();
        self.table = table;
    }

    async fn truncate(&mut self) {
        let base = self.store.catalog();
        let mut catalog = (*base).clone();
        catalog.version += 1;
        let mut table = self.table.clone();
        table.version += 1;
        table.rows = catalog.new_relation_id();
        catalog.tables.insert(table.id, Arc::new(table.clone()));
        self.store.change(base.version, catalog, None).await.unwrap();
        self.table = table;
        self.model = Model::default();
    }

    async fn reopen(&mut self) {
        let stats = self.store.stats();
        self.flushes += stats.flushes;
        self.compactions += stats.compactions;
        self.store.close().unwrap();
        self.damage_indexes();
        self.store = EmbeddedStore::open(self.folder.path(), options(&self.clock)).unwrap();
        let found = self.store.catalog().tables[&TableId(self.table.id.0)].clone();
        assert_eq!(*found, self.table);
    }

    async fn step(&mut self) {
        match self.random.below(1000) {
            0..=549 => self.write_row().await,
            550..=679 => self.write_batch().await,
            680..=819 => self.delete().await,
            820..=869 => self.clock.advance(self.random.below(30) as i64 * SECOND),
            870..=879 => {
                self.hour = (self.hour + 1) % (24 * 12);
                self.store.flush().await.unwrap();
            }
            880..=884 => self.store.compact().await.unwrap(),
            885..=889 => self.reopen().await,
            890..=892 => self.change_columns().await,
            893..=894 => self.change_indexes().await,
            895 => self.truncate().await,
            896..=939 => self.check_get().await,
            940..=959 => self.check_span().await,
            960..=984 => self.check_index().await,
            _ => self.check_all().await,
        }
    }

    fn columns(&self) -> (Vec<u32>, Vec<ScanColumn>, Vec<ColumnType>) {
        let ids: Vec<u32> = self.values().iter().map(|(id, _)| *id).collect();
        let columns = self.table.columns.iter().map(|c| ScanColumn::Column(c.id)).collect();
        (ids, columns, self.table.columns.iter().map(|c| c.ty).collect())
    }

    fn expected(&self, filter: impl Fn(&Key) -> bool) -> Vec<(Key, Vec<Value>)> {
        let (ids, _, _) = self.columns();
        let now = self.clock_now();
        let keys = self.model.rows.keys().filter(|key| filter(key));
        let mut rows: Vec<_> = keys.filter_map(|key| Some((key.clone(), self.model.live(key, &ids, now)?))).collect();
        if self.descending {
            rows.sort_by(|a, b| (&a.0.0, -a.0.1).cmp(&(&b.0.0, -b.0.1)));
        }
        rows
    }

    async fn check_all(&mut self) {
        let order = [Order::Forward, Order::Reverse, Order::Any][self.random.below(3)];
        let want = 1 + self.random.below(3);
        self.check(vec![Span::all()], order, None, want, |_| true).await;
    }

    async fn check_span(&mut self) {
        let key = self.key();
        let until = key.1 + self.random.below(20_000) as i64 * SECOND;
        let order = [Order::Forward, Order::Reverse][self.random.below(2)];
        let limit = (self.random.below(2) == 0).then(|| 1 + self.random.below(50));
        let span = self.span(&key.0, key.1, until);
        self.check(vec![span], order, limit, 1, |k| k.0 == key.0 && (key.1..=until).contains(&k.1)).await;
    }

    async fn check(
        &mut self,
        spans: Vec<Span>,
        order: Order,
        limit: Option<usize>,
        want: usize,
        filter: impl Fn(&Key) -> bool,
    ) {
        let (_, columns, types) = self.columns();
        let scan = Scan {
            relation: self.table.rows,
            spans,
            columns,
            ranges: vec![],
            order,
            limit,
            per_prefix: None,
            coded: false,
        };
        let mut found = read(&*self.store.snapshot(ReadAt::Newest).unwrap(), &scan, want, &types).await;
        let mut expected = self.expected(filter);
        match order {
            Order::Reverse => expected.reverse(),
            Order::Any => {
                found.sort_by(|a, b| a.0.cmp(&b.0));
                expected.sort_by(|a, b| a.0.cmp(&b.0));
            }
            Order::Forward => {}
        }
        if let Some(limit) = limit {
            expected.truncate(limit);
            found.truncate(limit);
        }
        assert_eq!(found.len(), expected.len(), "{order:?} limit {limit:?}: numbers of rows");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{order:?} limit {limit:?}");
        }
    }

    async fn check_get(&mut self) {
        let (relation, (_, columns, types)) = (self.table.rows, self.columns());
        let snapshot = self.store.snapshot(ReadAt::Newest).unwrap();
        for _ in 0..10 {
            let key = self.key();
            let values = vec![Value::Text(key.0.clone()), Value::Timestamp(key.1)];
            let found = snapshot.get(relation, std::slice::from_ref(&values), &columns).await.unwrap();
            let found = rows_of(&found, &types);
            assert_eq!(found, self.expected(|k| *k == key), "get {key:?}");
            let scan = Scan {
                relation,
                spans: vec![Span::prefix(values)],
                columns: columns.clone(),
                ranges: vec![],
                order: Order::Forward,
                limit: None,
                per_prefix: None,
                coded: false,
            };
            assert_eq!(found, read(&*snapshot, &scan, 1, &types).await, "get and scan of {key:?}");
        }
    }
}

async fn read(snapshot: &dyn Snapshot, scan: &Scan, want: usize, types: &[ColumnType]) -> Vec<(Key, Vec<Value>)> {
    let plan = snapshot.plan(scan, want).await.unwrap();
    let mut rows = Vec::new();
    for split in &plan.splits {
        let batches = snapshot.scan(scan, split, Conditions::default(), Arc::default()).unwrap();
        for batch in batches.try_collect::<Vec<_>>().await.unwrap() {
            rows.extend(rows_of(&batch, types));
        }
    }
    rows
}

fn rows_of(batch: &RecordBatch, types: &[ColumnType]) -> Vec<(Key, Vec<Value>)> {
    let value = |row: usize, column: usize| array::value_at(batch.column(column), row, types[column]).unwrap();
    let key = |row| match (value(row, 0), value(row, 1)) {
        (Value::Text(p), Value::Timestamp(ts)) => (p, ts),
        other => panic!("not a key: {other:?}"),
    };
    (0..batch.num_rows()).map(|row| (key(row), (2..types.len()).map(|c| value(row, c)).collect())).collect()
}

async fn run(seed: u64, steps: usize) -> (u64, u64, u64) {
    let mut run = Run::new(seed).await;
    while run.table.indexes.is_empty() {
        run.change_indexes().await;
    }
    for _ in 0..steps {
        run.step().await;
    }
    run.reopen().await;
    run.store.compact().await.unwrap();
    run.check_all().await;
    run.check_index().await;
    let stats = run.store.stats();
    (run.flushes + stats.flushes, run.compactions + stats.compactions, run.found)
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_agree_with_a_map() {
    let steps = setting("KEYSPAN_STEPS").unwrap_or(3_000) as usize;
    let seeds = setting("KEYSPAN_SEED").map_or(vec![1, 2, 3], |seed| vec![seed]);
    let (mut flushes, mut compactions, mut found) = (0, 0, 0);
    for seed in seeds {
        println!("seed {seed}");
        let (f, c, i) = run(seed, steps).await;
        flushes += f;
        compactions += c;
        found += i;
    }
    assert!(found > 0, "indexes have found nothing");
    assert!(
        flushes > 20 && compactions > 5,
        "the data never left memory: {flushes} flushes, {compactions} compactions"
    );
}

/// Relation ids are part of the mutation: a truncated table's old rows cannot be written by mistake.
#[tokio::test]
async fn writing_to_a_relation_that_is_gone_is_an_error() {
    let mut run = Run::new(9).await;
    let old: RelationId = run.table.rows;
    run.truncate().await;
    let key = vec![Value::Text("p".into()), Value::Timestamp(START)];
    let delete = Mutation::DeleteRow(RowDelete { relation: old, key, stamp: Stamp::Server(0) });
    let batch = WriteBatch { mutations: vec![delete], ..WriteBatch::default() };
    assert!(run.store.apply(batch).await.is_err());
}
