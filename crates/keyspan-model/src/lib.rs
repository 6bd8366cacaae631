//! Values, types, schema, spans and the order-preserving key encoding of Keyspan. No IO.
//!
//! - [`error`]: the one public error type; its kind says what the caller should do.
//! - [`types`]: column types, their names in CQL and Postgres, and their Arrow form.
//! - [`value`]: one typed value: order, text form (read in `text`, printed in [`display`]), casts.
//! - [`json`]: `jsonb` as a tree, its text and its order; [`value_json`]: nested values as JSON and back.
//! - [`mod@array`]: values in and out of Arrow arrays.
//! - [`key`]: row keys as bytes whose order is the order of the values.
//! - [`row_key`]: a row key as one text, and prefix scans over it.
//! - [`schema`]: tables, columns, relations and the catalog that names them; roles and what they may do.
//! - [`span`]: contiguous ranges of row keys, and the scan that reads them.
//! - [`mutation`]: what a write asks of a store.

pub mod array;
mod cast;
mod datetime;
pub mod display;
mod duration;
pub mod error;
pub mod infinity;
mod input_error;
mod interval_style;
pub mod json;
pub mod key;
mod key_batch;
mod key_part;
pub mod mutation;
mod number;
pub mod row_key;
pub mod schema;
mod shared_map;
pub mod span;
pub mod text;
mod token;
pub mod types;
pub mod value;
pub mod value_json;
mod value_order;
mod variant;

pub use array::{
    ColumnBuilder, array_of, canonical_floats, cells_of_lists, coerce, compacted, constant, decoded, lists_of_cells,
    tie_bytes, value_at,
};
pub use datetime::{ZoneResolver, civil_from_days, days_from_civil, utc_only};
pub use display::timestamp_text;
pub use duration::parse_fixed_duration;
pub use error::{Error, ErrorKind, ErrorSubject, Result, nearest};
pub use interval_style::IntervalStyle;
pub use key::{KeyEncoder, MAX_KEY_BYTES, successor};
pub use mutation::{
    Applied, BatchWrite, CellWrite, LoadedRows, Mutation, RowDelete, RowWrite, SpanDelete, Stamp, Unchanged, WriteBatch,
};
pub use row_key::{
    row_key_array, row_key_digits, row_key_text, span_of_row_key_prefix, text_prefix_span, text_successor,
};
pub use schema::rights::{Grant, Object, Principal, Right, Rights, RoleDef, RoleId};
pub use schema::sequence::{Identity, SequenceDef, SequenceState, range_of};
pub use schema::{
    COMMENT_ON_COLUMN, COMMENT_ON_CONSTRAINT, Catalog, Check, ColumnDef, ColumnId, ColumnRole, Encoding, FamilyDef,
    FamilyKind, ForeignKeyAction, ForeignKeyDef, ForeignKeyRules, GcRule, IndexDef, KEY_NAME, KeyColumn, KeyspaceDef,
    KnownCell, Materialized, Member, ReferencedKey, RelationDef, RelationId, RelationKind, Retention, RollupDef,
    SegmentId, StoredDef, TableDef, TableId, TextType, UniqueDef, ValueColumn, ViewDef,
};
pub use span::{ColumnRange, Order, Scan, ScanColumn, Span};
pub use token::{serialized, token};
pub use types::{ColumnType, Nested, Similarity, TypeField, TypeId, TypeName, UserType};
pub use value::Value;
pub use value_order::{value_of_order, value_order};
