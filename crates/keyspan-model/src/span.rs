//! Spans: contiguous ranges of row keys as typed values, and the scan that reads them.
//!
//! Typed, because an attached store (Cassandra) needs partition values, and bytes are cheap to derive. Bounds are
//! prefixes of the row key in **key order**: for a DESC column the larger value is the lower bound. A prefix stands
//! for all keys that begin with it: `Included([a])` as start begins with the first key of `a`, as end stops after its
//! last; `Excluded([a])` as start begins after the last key of `a`, as end stops before its first.

use std::ops::Bound;

use crate::schema::{ColumnId, RelationId};
use crate::types::ColumnType;
use crate::value::Value;

/// A contiguous range of row keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// First keys, a prefix of the row key.
    pub start: Bound<Vec<Value>>,
    /// Last keys, a prefix of the row key.
    pub end: Bound<Vec<Value>>,
}

impl Span {
    /// Every key.
    pub fn all() -> Span {
        Span { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// The keys that begin with these values.
    pub fn prefix(values: Vec<Value>) -> Span {
        if values.is_empty() {
            return Span::all();
        }
        Span { start: Bound::Included(values.clone()), end: Bound::Included(values) }
    }

    /// Whether the span is every key.
    pub fn is_all(&self) -> bool {
        self.start == Bound::Unbounded && self.end == Bound::Unbounded
    }
}

/// What rows must satisfy in one column; it may be wider than the query's predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRange {
    /// A key column or a value column.
    pub column: ColumnId,
    /// Least value.
    pub lower: Bound<Value>,
    /// Greatest value.
    pub upper: Bound<Value>,
    /// The parts of the range that count, ascending and disjoint, as IN has them; empty: all of it.
    pub parts: Vec<(Bound<Value>, Bound<Value>)>,
}

impl ColumnRange {
    /// All values between two bounds.
    pub fn between(column: ColumnId, lower: Bound<Value>, upper: Bound<Value>) -> ColumnRange {
        ColumnRange { column, lower, upper, parts: Vec::new() }
    }

    /// Whether a value of the column, of this type, is between the two bounds, whatever the parts.
    pub fn contains(&self, ty: ColumnType, value: &Value) -> bool {
        let order = |bound: &Value| Value::compare_as(ty, value, bound);
        let above = match &self.lower {
            Bound::Included(least) => order(least).is_ge(),
            Bound::Excluded(least) => order(least).is_gt(),
            Bound::Unbounded => true,
        };
        let below = match &self.upper {
            Bound::Included(greatest) => order(greatest).is_le(),
            Bound::Excluded(greatest) => order(greatest).is_lt(),
            Bound::Unbounded => true,
        };
        above && below
    }

    /// The parts that count.
    pub fn intervals(&self) -> Vec<(Bound<Value>, Bound<Value>)> {
        match self.parts.as_slice() {
            [] => vec![(self.lower.clone(), self.upper.clone())],
            parts => parts.to_vec(),
        }
    }
}

/// The order in which a scan delivers rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row-key order.
    Forward,
    /// Row-key order backwards.
    Reverse,
    /// Any order: the store reads what is cheapest, in parallel.
    Any,
}

/// A column of a scan's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanColumn {
    /// A key or value column.
    Column(ColumnId),
    /// The write timestamp of a value column's cell: int64, microseconds; null where there is no cell.
    WriteTime(ColumnId),
    /// Seconds that a value column's cell still lives: int32; null where it does not expire.
    Ttl(ColumnId),
    /// When a value column's cell expires: an instant in microseconds; null where it does not.
    ExpiresAt(ColumnId),
}

impl ScanColumn {
    /// The column that it is, or is about.
    pub fn id(self) -> ColumnId {
        match self {
            ScanColumn::Column(id) | ScanColumn::WriteTime(id) | ScanColumn::Ttl(id) | ScanColumn::ExpiresAt(id) => id,
        }
    }
}

/// What to read: plain versioned data, nothing of a process in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The relation to read.
    pub relation: RelationId,
    /// Sorted and disjoint; empty reads nothing.
    pub spans: Vec<Span>,
    /// Output columns in order; may be empty (only the number of rows counts).
    pub columns: Vec<ScanColumn>,
    /// Rows outside any of these may be left out, and are where the store accepts ranges; rows inside are never.
    pub ranges: Vec<ColumnRange>,
    /// Order of delivery.
    pub order: Order,
    /// Rows after which the scan may stop.
    pub limit: Option<usize>,
    /// Rows to deliver at most for each distinct value of this many leading key columns: (columns, rows).
    pub per_prefix: Option<(usize, usize)>,
    /// Whether columns may come as codes into a few values, `Dictionary(UInt8, T)` for a column of type `T`: batch by
    /// batch, as the store holds them. For readers that look at few of the values, or at each value once.
    pub coded: bool,
}

impl Scan {
    /// A scan of all rows in these spans, in the order of their keys, as plain arrays.
    pub fn new(relation: RelationId, spans: Vec<Span>, columns: Vec<ScanColumn>) -> Scan {
        let (ranges, order) = (Vec::new(), Order::Forward);
        Scan { relation, spans, columns, ranges, order, limit: None, per_prefix: None, coded: false }
    }
}
