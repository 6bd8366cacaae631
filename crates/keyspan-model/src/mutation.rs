//! What a write asks of a store: mutations with their stamps, and the keys that must not have changed.

use std::any::Any;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::schema::{ColumnId, RelationId, TableDef};
use crate::span::Span;
use crate::value::Value;

/// Which write timestamp a mutation gets, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The server's clock, strictly increasing; statement `n` of one batch gets a later one than statement `n - 1`.
    Server(u32),
    /// `USING TIMESTAMP`: as given; it never moves the server's clock.
    At(i64),
}

/// What a write does to one cell. A column that is not named is left alone (CQL's UNSET).
#[derive(Clone, Debug, PartialEq)]
pub enum CellWrite {
    /// Writes a value; never `Value::Null`.
    Value(Value),
    /// Deletes the cell. The store drops it where nothing older can exist.
    Tombstone,
}

/// Writes cells of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowWrite {
    /// The relation.
    pub relation: RelationId,
    /// The whole row key; of a family without the write timestamp, which is added where it is given.
    pub key: Vec<Value>,
    /// Whether a row marker is written: INSERT does, UPDATE does not.
    pub marker: bool,
    /// The cells.
    pub cells: Vec<(ColumnId, CellWrite)>,
    /// Write timestamp.
    pub stamp: Stamp,
    /// Seconds to live for marker and cells; 0: for ever.
    pub ttl: u32,
}

/// Writes many rows at once, columnar: the bulk path.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchWrite {
    /// The relation.
    pub relation: RelationId,
    /// The column of each of the batch's arrays: all key columns in key order (of a family without the write timestamp),
    /// then any value columns.
    pub columns: Vec<ColumnId>,
    /// Rows in any order, arrays of exactly the columns' Arrow types, no null in a key column. Of two rows with one key
    /// the later wins.
    pub batch: RecordBatch,
    /// Whether row markers are written.
    pub marker: bool,
    /// Whether a null deletes the cell (INSERT of NULL) or leaves it alone.
    pub null_deletes: bool,
    /// Write timestamp.
    pub stamp: Stamp,
    /// Seconds to live; 0: for ever.
    pub ttl: u32,
}

/// Deletes one row by its whole key: a row tombstone.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDelete {
    /// The relation.
    pub relation: RelationId,
    /// The whole row key.
    pub key: Vec<Value>,
    /// Write timestamp; covers cells written at or before it.
    pub stamp: Stamp,
}

/// Deletes a span of rows: a span tombstone.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanDelete {
    /// The relation.
    pub relation: RelationId,
    /// The keys.
    pub span: Span,
    /// Write timestamp; covers cells written at or before it.
    pub stamp: Stamp,
}

/// Rows of one statement that a store has written out beforehand, in parts. They become visible when this mutation is
/// applied; if its last clone is dropped before that, they are removed.
#[derive(Clone, Debug)]
pub struct LoadedRows {
    /// The relation.
    pub relation: RelationId,
    /// Write timestamp of the first part; under a server's stamp each further part counts as one more statement, so
    /// that of two rows with one key the later wins.
    pub stamp: Stamp,
    /// How many statements the parts count for: at least 1.
    pub parts: u32,
    /// Rows written.
    pub rows: u64,
    /// What only the store that wrote them can read.
    pub handle: Arc<dyn Any + Send + Sync>,
}

impl PartialEq for LoadedRows {
    fn eq(&self, other: &LoadedRows) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle) && self.stamp == other.stamp
    }
}

/// One change to one relation.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// Cells of one row.
    Row(RowWrite),
    /// Many rows.
    Batch(BatchWrite),
    /// More rows than memory should hold.
    Load(LoadedRows),
    /// One row deleted.
    DeleteRow(RowDelete),
    /// A span deleted.
    DeleteSpan(SpanDelete),
}

impl Mutation {
    /// The relation that it changes.
    pub fn relation(&self) -> RelationId {
        match self {
            Mutation::Row(write) => write.relation,
            Mutation::Batch(write) => write.relation,
            Mutation::Load(rows) => rows.relation,
            Mutation::DeleteRow(delete) => delete.relation,
            Mutation::DeleteSpan(delete) => delete.relation,
        }
    }

    /// Gives it a timestamp of its own, in microseconds, in the place of one of the server's, of which it gets the
    /// statement's number.
    pub fn move_server_stamp(&mut self, to: impl FnOnce(u32) -> i64) {
        let stamp = match self {
            Mutation::Row(write) => &mut write.stamp,
            Mutation::Batch(write) => &mut write.stamp,
            Mutation::Load(rows) => &mut rows.stamp,
            Mutation::DeleteRow(delete) => &mut delete.stamp,
            Mutation::DeleteSpan(delete) => &mut delete.stamp,
        };
        if let Stamp::Server(statement) = *stamp {
            *stamp = Stamp::At(to(statement));
        }
    }

    /// Its write timestamp, as asked for.
    pub fn stamp(&self) -> Stamp {
        match self {
            Mutation::Row(write) => write.stamp,
            Mutation::Batch(write) => write.stamp,
            Mutation::Load(rows) => rows.stamp,
            Mutation::DeleteRow(delete) => delete.stamp,
            Mutation::DeleteSpan(delete) => delete.stamp,
        }
    }

    /// Whether it only deletes.
    pub fn is_deletion(&self) -> bool {
        match self {
            Mutation::Row(write) => {
                !write.marker && write.cells.iter().all(|(_, cell)| matches!(cell, CellWrite::Tombstone))
            }
            Mutation::DeleteRow(_) | Mutation::DeleteSpan(_) => true,
            Mutation::Batch(_) | Mutation::Load(_) => false,
        }
    }

    /// The last statement of its batch that it takes a server's timestamp of; 0 where it brings its own.
    pub fn last_statement(&self) -> u32 {
        let parts = if let Mutation::Load(rows) = self { rows.parts } else { 1 };
        self.stamp().last_statement(parts)
    }
}

impl Stamp {
    /// The last of `parts` statements that begin with this one; 0 for a timestamp that was given.
    pub fn last_statement(self, parts: u32) -> u32 {
        match self {
            Stamp::Server(statement) => statement + parts.saturating_sub(1),
            Stamp::At(_) => 0,
        }
    }
}

/// A precondition: nothing in these keys was committed after `seq`; else the batch fails with 40001.
#[derive(Clone, Debug, PartialEq)]
pub struct Unchanged {
    /// The relation.
    pub relation: RelationId,
    /// The keys.
    pub span: Span,
    /// The commit order up to which the caller has seen everything.
    pub seq: u64,
}

/// An atomic set of mutations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteBatch {
    /// In order: of two equal stamps on one cell Cassandra's rules for ties decide: a tombstone beats a value, an
    /// expiring cell one that does not expire, then the later expiry and the larger bytes.
    pub mutations: Vec<Mutation>,
    /// All must hold when the batch is applied.
    pub unchanged: Vec<Unchanged>,
    /// The definitions that the rows were checked against. When the batch is applied, the tables may not have more
    /// constraints, nor new columns with a default, nor have their rows in other relations.
    pub definitions: Vec<Arc<TableDef>>,
    /// Acknowledge before the log is on disk: `SET durability = 'relaxed'`.
    pub relaxed: bool,
}

impl WriteBatch {
    /// Leaves out what it writes to these relations, and what it expects of them.
    pub fn forget(&mut self, relations: &[RelationId]) {
        if !relations.is_empty() {
            self.mutations.retain(|mutation| !relations.contains(&mutation.relation()));
            self.unchanged.retain(|condition| !relations.contains(&condition.relation));
        }
    }
}

/// The result of applying a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The batch's place in the commit order.
    pub seq: u64,
    /// The write timestamp that `Stamp::Server(0)` got, in microseconds.
    pub timestamp: i64,
}
