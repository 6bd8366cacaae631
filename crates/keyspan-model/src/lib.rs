//! Values, types, schema, spans and the order-preserving key encoding of Keyspan. No IO.
//!
//! - [`error`]: the one public error type; its kind says what the caller should do.
//! - [`types`]: column types, their names in CQL and Postgres, and their Arrow form.
//! - [`value`]: one typed value; text form, comparison, to and from Arrow.
//! - [`key`]: row keys as bytes whose order is the order of the values.
//! - [`schema`]: tables, columns, relations and the catalog that names them.
//! - [`span`]: contiguous ranges of row keys, and the scan that reads them.
//! - [`mutation`]: what a write asks of a store.

pub mod array;
pub mod error;
pub mod key;
pub mod mutation;
pub mod schema;
pub mod span;
pub mod types;
pub mod value;

pub use error::{Error, ErrorKind, Result, nearest};
pub use key::KeyEncoder;
pub use mutation::{Applied, BatchWrite, CellWrite, Mutation, RowDelete, RowWrite, SpanDelete, Stamp, Unchanged, WriteBatch};
pub use schema::{
    Catalog, Check, ColumnDef, ColumnId, ColumnRole, FamilyDef, GcRule, KeyColumn, KeyspaceDef, RelationDef, RelationId,
    RelationKind, SegmentId, TableDef, TableId, ValueColumn, ViewDef,
};
pub use span::{ColumnRange, Order, Scan, ScanColumn, Span};
pub use types::ColumnType;
pub use value::Value;
