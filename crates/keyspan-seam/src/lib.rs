//! The seam: the small traits through which everything above sees a store.
//!
//! The embedded store is the first implementation; an attached cluster (Cassandra, Bigtable) or segments on an object
//! store can be others. So nothing here, nor above, knows of sled or Parquet: a [`Scan`] is plain typed data, a
//! [`Split`]'s payload is opaque, and [`Caps`] say what the store can promise.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use keyspan_model::{
    Applied, BatchWrite, Catalog, ColumnId, ColumnRange, ColumnType, Error, ErrorKind, Mutation, RelationDef,
    RelationId, Result, Scan, ScanColumn, Span, Stamp, Unchanged, Value, WriteBatch,
};

/// Batches of rows as they are read; dropping it stops the read.
pub type BatchStream = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// What a store can promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Whether row keys are ordered over the whole relation, not only inside a partition.
    pub global_key_order: bool,
    /// Whether a snapshot fixes what a statement sees.
    pub snapshots: bool,
    /// Whether a batch over several rows is all or nothing.
    pub atomic_batches: bool,
    /// Smallest distance of two write timestamps, in microseconds.
    pub timestamp_step: i64,
}

/// Which state a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// Everything acknowledged.
    Acknowledged,
    /// Everything applied, acknowledged or not yet on disk: what a conditional write must look at.
    Newest,
}

/// One engine that holds tables.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// What the store can promise; fixed for its life.
    fn caps(&self) -> &Caps;

    /// The current catalog.
    fn catalog(&self) -> Arc<Catalog>;

    /// Replaces the catalog, durably, when the current one still has version `base`; else 40001.
    ///
    /// The new catalog's version must be `base + 1`. Relations that no table names any more are dropped with their
    /// data; relations newly named begin empty. Their ids were never named before: they count on from `next_relation`,
    /// or are ids that an earlier change of this run has passed over. With `batch`, its mutations commit in the same
    /// atomic step, after the new relations exist (CREATE TABLE AS, DDL inside a transaction). Its preconditions are
    /// about the state before; those about a whole relation may name one that the new catalog does not have.
    async fn change(&self, base: u64, next: Catalog, batch: Option<WriteBatch>) -> Result<Arc<Catalog>>;

    /// Applies a batch atomically. Returns when it is durable, or at once if the batch is `relaxed`.
    ///
    /// Errors: 40001 when a precondition fails or a table, as it is by now, does not take the rows; 53100 on a full disk;
    /// 54000 for an oversize key or cell.
    async fn apply(&self, batch: WriteBatch) -> Result<Applied>;

    /// Whether these hold of what was applied so far.
    ///
    /// Errors: 40001 if one does not.
    fn check(&self, unchanged: &[Unchanged]) -> Result<()>;

    /// Begins a load: rows of one statement, of any number, written out while they come. They become visible when the
    /// mutation that [`Load::finish`] returns is applied. The relation need not exist yet.
    ///
    /// Errors: 53100 on a full disk.
    fn load(&self, relation: RelationDef, stamp: Stamp) -> Result<Box<dyn Load>>;

    /// A snapshot of all tables, fixed from now on.
    fn snapshot(&self, at: ReadAt) -> Result<Arc<dyn Snapshot>>;

    /// Writes all memtables out as segments.
    async fn flush(&self) -> Result<()>;

    /// Flushes, then merges the segments of every relation as far as they can be.
    async fn compact(&self) -> Result<()>;

    /// Tells the store that the followers of a relation, its materialized views, have seen all batches up to this one.
    /// Tombstones of later batches are kept, and all of them until the first call after the store was opened, so that
    /// [`Snapshot::changed`] finds what was deleted. Nothing to do for a store that answers [`Changes::Anywhere`].
    fn followed(&self, relation: RelationId, seq: u64) {
        let _ = (relation, seq);
    }

    /// Makes everything durable and frees what the store holds; later calls may fail. Blocks.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A load in progress. Dropped before [`Load::finish`], it leaves nothing behind.
#[async_trait]
pub trait Load: Send {
    /// Takes rows. Batches have the same columns, stamp and seconds to live; of two rows with one key the later wins.
    /// Memory stays bounded: waits while what came before is written.
    ///
    /// Errors: 53100 on a full disk, 54000 for an oversize key or cell. After an error the load is over.
    async fn write(&mut self, write: BatchWrite) -> Result<()>;

    /// Waits until all rows are durable. They are seen when the mutation is applied.
    async fn finish(self: Box<Self>) -> Result<Mutation>;
}

/// What of a scan the store answers exactly, so that nobody need check again. What it does not, the layers above do: they
/// evaluate every filter, sort, and count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Whether only rows inside the spans are delivered.
    pub spans: bool,
    /// Whether only rows between `lower` and `upper` of the scan's ranges of key columns are delivered.
    pub ranges: bool,
    /// Whether rows come in the order asked for.
    pub order: bool,
    /// Whether the limit is kept (per split: the sum over splits may exceed it).
    pub limit: bool,
    /// Whether only the asked number of rows of each key prefix is delivered: the first in the scan's order.
    pub per_prefix: bool,
}

/// A value that is exact, estimated or unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known<T> {
    /// True as of the snapshot.
    Exact(T),
    /// Near the truth, as far as the store can tell without reading.
    Estimate(T),
    /// Unknown.
    Unknown,
}

/// Statistics of what a scan would read.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanStatistics {
    /// Live rows in the spans, and in the ranges as far as the store accepts them.
    pub rows: Known<u64>,
    /// Bytes in memory of the output columns.
    pub bytes: Known<u64>,
    /// Least and greatest value of each output column, where known; Exact only where everything is settled.
    pub ranges: Vec<Known<(Value, Value)>>,
}

/// How the runs of a scan are combined; EXPLAIN names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanForm {
    /// Nothing to read.
    Empty,
    /// Runs with disjoint key ranges, one after another.
    Concatenate,
    /// Runs disjoint in a later key column: rows are not compared, runs are switched where the leading columns change.
    Interleave,
    /// Runs that may hold the same row: versions are resolved.
    Merge,
    /// No order: runs are read in parallel.
    Unordered,
}

/// One part of a scan that can be read on its own.
#[derive(Clone, Debug)]
pub struct Split {
    /// Opaque: only the store that made the split can read it.
    pub payload: Bytes,
    /// Rows it is expected to deliver.
    pub rows: u64,
}

/// A planned scan: its parts, and what EXPLAIN says of it.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// Parts; for an ordered scan their concatenation in this order is in order, and their key ranges are disjoint.
    pub splits: Vec<Split>,
    /// How runs are combined.
    pub form: ScanForm,
    /// Runs in memory that are read.
    pub memory_runs: usize,
    /// Segments that are read.
    pub segments: usize,
    /// Segments (and memory runs) left out, by reason: `spans`, `ranges`, `bloom`, `expired`.
    pub pruned: Vec<(&'static str, usize)>,
    /// What is known of all rows in the spans.
    pub statistics: ScanStatistics,
    /// What indexes have found, where only that is read.
    pub found: Option<FoundByIndex>,
}

/// How far the index of a column is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexState {
    /// Segments that have it.
    pub built: u64,
    /// All segments.
    pub segments: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// What indexes have found for a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundByIndex {
    /// The columns whose indexes were asked.
    pub columns: Vec<ColumnId>,
    /// Rows to look at.
    pub keys: u64,
}

/// Where rows may have changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Changes {
    /// Anywhere.
    Anywhere,
    /// In rows whose value of a key column is in one of these ranges, both ends included; they may overlap.
    Within(Vec<(Value, Value)>),
}

/// Counters of what a scan has done, filled in while its stream is read.
#[derive(Debug, Default)]
pub struct ScanCounters {
    /// Rows delivered.
    pub rows: std::sync::atomic::AtomicU64,
    /// Rows that went through the comparison of versions.
    pub rows_merged: std::sync::atomic::AtomicU64,
    /// Rows that were read, and have been deleted or have expired.
    pub rows_dead: std::sync::atomic::AtomicU64,
    /// Bytes read from files (not from a cache).
    pub bytes_read: std::sync::atomic::AtomicU64,
    /// Pages (blocks of rows of one column) decoded.
    pub pages_read: std::sync::atomic::AtomicU64,
    /// Segments opened for reading.
    pub segments_read: std::sync::atomic::AtomicU64,
}

/// A condition that is no range of a column, or that is known only while rows are read. A row that does not meet it may be
/// left out, and need not be.
pub trait RowCondition: Debug + Send + Sync {
    /// The columns that it looks at: key and value columns that the scan reads.
    fn columns(&self) -> &[ColumnId];

    /// Which of some rows meet it by now, by their values of these columns; a column may come as codes
    /// ([`Scan::coded`]). `None`: that cannot be told.
    fn met(&self, columns: &[ArrayRef], rows: usize) -> Option<BooleanBuffer>;

    /// The range of one of its columns that is the same as the condition is by now, so that a store may test it instead.
    /// `None`: there is none, as where null meets it.
    fn range(&self) -> Option<ColumnRange> {
        None
    }

    /// Whether fewer rows may meet it while rows are read, so that another read of the same rows may deliver fewer.
    fn narrows(&self) -> bool {
        false
    }

    /// From which end of a column's values rows should come first, to make it narrow soon.
    fn first(&self) -> Option<(ColumnId, End)> {
        None
    }
}

/// An end of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The least ones.
    Least,
    /// The greatest ones.
    Greatest,
}

/// Conditions that rows must meet all.
pub type Conditions = Arc<[Arc<dyn RowCondition>]>;

/// All tables as of one moment.
///
/// What may read keys or ask a network is async: what is in memory is ready at once, and a read of a disk does not keep the
/// thread's other tasks waiting.
#[async_trait]
pub trait Snapshot: Debug + Send + Sync + 'static {
    /// The catalog at that moment.
    fn catalog(&self) -> &Arc<Catalog>;

    /// The last batch in the commit order that the snapshot shows.
    fn seq(&self) -> u64;

    /// The time, in microseconds since 1970, by which expiry is judged.
    fn now(&self) -> i64;

    /// What of the scan is answered exactly. Cheap, no IO.
    fn accept(&self, scan: &Scan) -> Accepted;

    /// Divides the scan into about `want` parts, fewer where there are few rows, and says what is known of it. Reads no
    /// data but keys.
    async fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan>;

    /// Reads one part. Batches have the scan's columns in order, at most 8,192 rows each (fewer at ends). A store that
    /// accepts [`Order::Forward`](keyspan_model::Order) delivers the rows of one batch in key order (backward in a
    /// reverse scan) also where the scan asks for no order: then the next batch may begin at any key. Of a store that
    /// does not, rows come in any order. Rows that do not meet all of the conditions may be left out; the limit of the
    /// scan counts what is delivered.
    fn scan(
        &self,
        scan: &Scan,
        split: &Split,
        conditions: Conditions,
        counters: Arc<ScanCounters>,
    ) -> Result<BatchStream>;

    /// The live rows with these whole keys, in the keys' order, missing ones left out: the point path.
    async fn get(&self, relation: RelationId, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch>;

    /// For each of these keys, whole ones or the first parts of some: the newest write timestamp, in microseconds, of
    /// anything that is kept of its rows, deletions too, if it is later than every one that the store has given itself.
    /// Whoever has read a row and writes it anew writes above that. Costs nothing where nobody has written with a
    /// timestamp of his own from the future.
    async fn stamps_ahead(&self, relation: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>>;

    /// In which values of a key column rows may have been written or deleted by batches after `since`: a superset,
    /// never too few. What has merely expired is no change. Cheap, no IO. A store that does not know returns
    /// [`Changes::Anywhere`].
    fn changed(&self, relation: RelationId, column: ColumnId, since: u64) -> Result<Changes>;

    /// This snapshot with a transaction's own uncommitted writes on top.
    fn with_writes(&self, batch: &WriteBatch) -> Result<Arc<dyn Snapshot>>;

    /// This snapshot under another catalog, that of a transaction's own DDL: columns are as it defines them, relations
    /// that only it names are empty, and those that it does not name cannot be read.
    fn with_catalog(&self, catalog: Arc<Catalog>) -> Result<Arc<dyn Snapshot>>;

    /// What of this snapshot does not expire, however long one waits: this snapshot at the end of time.
    fn lasting(&self) -> Result<Arc<dyn Snapshot>>;

    /// Bytes that a relation takes, in memory and on disk, as far as the store knows.
    fn relation_bytes(&self, relation: RelationId) -> Known<u64>;

    /// How far the index of a column is built. `None`: the store builds none.
    fn index_state(&self, _relation: RelationId, _column: ColumnId) -> Option<IndexState> {
        None
    }

    /// The Arrow schema of a scan's output: the columns' types, key columns not null.
    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef>;
}

/// Whether a scan asks for less than the whole relation.
pub fn is_bounded(spans: &[Span], ranges: &[ColumnRange]) -> bool {
    !ranges.is_empty() || !spans.iter().any(Span::is_all)
}

/// The Arrow schema of a scan of `relation`: the columns' types, key columns not null.
pub fn output_schema(relation: &RelationDef, columns: &[ScanColumn]) -> Result<SchemaRef> {
    let fields: Vec<Field> = columns.iter().map(|column| output_field(relation, *column)).collect::<Result<_>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

fn output_field(relation: &RelationDef, column: ScanColumn) -> Result<Field> {
    use arrow::datatypes::DataType;
    match column {
        ScanColumn::Column(id) => match (relation.key_index(id), relation.value(id)) {
            (Some(at), _) => Ok(relation.key[at].ty.field(&relation.key[at].name, false)),
            (None, Some(column)) => Ok(column.ty.field(&column.name, true)),
            (None, None) => Err(no_column(relation, id)),
        },
        ScanColumn::WriteTime(id) => {
            Ok(Field::new(format!("writetime({})", value_name(relation, id)?), DataType::Int64, true))
        }
        ScanColumn::Ttl(id) => Ok(Field::new(format!("ttl({})", value_name(relation, id)?), DataType::Int32, true)),
        ScanColumn::ExpiresAt(id) => {
            Ok(ColumnType::Timestamp.field(&format!("expires_at({})", value_name(relation, id)?), true))
        }
    }
}

fn value_name(relation: &RelationDef, id: ColumnId) -> Result<&str> {
    relation.value(id).map(|column| column.name.as_str()).ok_or_else(|| no_column(relation, id))
}

fn no_column(relation: &RelationDef, id: ColumnId) -> Error {
    Error::new(ErrorKind::UndefinedColumn, format!("relation {} has no column {id}", relation.id))
}
