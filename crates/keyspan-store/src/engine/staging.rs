//! Staging: the effects of a batch on memory and its log record, prepared before the batch has its place in the commit
//! order.
//!
//! ```text
//! WriteBatch ─▶ logged mutations (keys encoded, small bulks as rows) ─▶ record for the log
//!                                                                    └▶ staged: row entries, sorted runs, tombstones
//! ```
//!
//! Everything costly or that can fail happens here, outside the apply lane: encoding, sorting, compressing, limits.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use keyspan_model::array::own_bytes;
use keyspan_model::array::value_at;
use keyspan_model::{
    BatchWrite, Catalog, CellWrite, ColumnType, Error, ErrorKind, KeyColumn, KeyEncoder, Mutation, RelationDef,
    RelationId, RelationKind, Result, RowWrite, Stamp, TableDef, Unchanged, Value, WriteBatch,
};

use super::load::Loaded;
use super::version::Schema;
use crate::log::{LoggedMutation, Record, encode_body};
use crate::memory_run::MemoryRun;
use crate::row::RowEntry;
use crate::segment::SegmentRecord;

/// Rows from which a bulk write stays columnar; fewer go to the memtable one by one.
pub const BULK_ROWS: usize = 1024;
/// Largest cell, in bytes.
pub const MAX_CELL_BYTES: usize = 10 << 20;

/// A batch prepared for the lane.
#[derive(Debug)]
pub struct PreparedBatch {
    /// Its effects, in order.
    pub staged: Vec<Staged>,
    /// Its log record; the place in the commit order is not filled in.
    pub record: Record,
    /// Its preconditions.
    pub conditions: Vec<Precondition>,
    /// The definitions of tables that its rows were checked against.
    pub definitions: Vec<Arc<TableDef>>,
    /// Acknowledge before the sync.
    pub relaxed: bool,
    /// The catalog as it was, and the new one.
    pub change: Option<(u64, Arc<Schema>)>,
    /// Rows written out beforehand, which must stay once the batch has its place.
    pub loaded: Vec<Arc<Loaded>>,
}

/// One staged mutation.
#[derive(Debug)]
pub struct Staged {
    /// The relation it changes.
    pub relation: RelationId,
    /// Its write timestamp, as asked for.
    pub stamp: Stamp,
    /// Its effect.
    pub effect: Effect,
}

/// The effect of a mutation on memory.
#[derive(Debug)]
pub enum Effect {
    /// Cells of the row with this encoded key.
    Row(Vec<u8>, RowWrite),
    /// The row with this encoded key is deleted.
    DeleteRow(Vec<u8>),
    /// The encoded keys from the first up to the second are deleted.
    DeleteSpan(Vec<u8>, Option<Vec<u8>>),
    /// Sorted rows with seconds to live; stamped in the lane.
    Run(Box<MemoryRun>, u32),
    /// Segments written beforehand, and how many statements their parts count for; they get their place in the lane.
    Load(Vec<SegmentRecord>, u32),
}

/// A precondition with encoded keys.
#[derive(Debug)]
pub struct Precondition {
    /// The relation.
    pub relation: RelationId,
    /// First key.
    pub start: Vec<u8>,
    /// First key behind.
    pub end: Option<Vec<u8>>,
    /// Whether the keys are one whole key.
    pub whole_key: bool,
    /// No batch after this one may have touched them.
    pub seq: u64,
}

impl Precondition {
    /// Encodes the keys of preconditions.
    pub fn all(schema: &Schema, unchanged: &[Unchanged]) -> Result<Vec<Precondition>> {
        unchanged.iter().map(|unchanged| Precondition::new(schema, unchanged)).collect()
    }

    fn new(schema: &Schema, unchanged: &Unchanged) -> Result<Precondition> {
        let (relation, seq) = (unchanged.relation, unchanged.seq);
        if unchanged.span.is_all() {
            // Also of a relation that a change of the catalog takes away.
            return Ok(Precondition { relation, start: Vec::new(), end: None, whole_key: false, seq });
        }
        let key = &schema.relation(relation)?.key;
        let (start, end) = KeyEncoder::new(key).span_bytes(&unchanged.span)?;
        let whole_key = matches!((&unchanged.span.start, &unchanged.span.end),
            (Bound::Included(first), Bound::Included(last)) if first == last && first.len() == key.len());
        Ok(Precondition { relation, start, end, whole_key, seq })
    }
}

impl PreparedBatch {
    /// Stages a batch under a schema.
    pub fn batch(schema: &Schema, batch: WriteBatch) -> Result<PreparedBatch> {
        schema.catalog.check_redefined(&batch.definitions)?;
        PreparedBatch::new(schema, batch, None, None)
    }

    /// Stages a change of the catalog, with a batch that is written under the new one.
    pub fn change(base: u64, next: Catalog, batch: WriteBatch) -> Result<PreparedBatch> {
        let schema = Schema::new(Arc::new(next));
        let catalog = schema.catalog.clone();
        PreparedBatch::new(&schema.clone(), batch, Some(catalog.as_ref()), Some((base, schema)))
    }

    fn new(
        schema: &Schema,
        batch: WriteBatch,
        catalog: Option<&Catalog>,
        change: Option<(u64, Arc<Schema>)>,
    ) -> Result<PreparedBatch> {
        let conditions = Precondition::all(schema, &batch.unchanged)?;
        let loads = batch.mutations.iter().filter_map(|mutation| match mutation {
            Mutation::Load(rows) => Some(Loaded::of(rows)),
            _ => None,
        });
        let loaded = loads.collect::<Result<_>>()?;
        let logged = logged(schema, batch.mutations)?;
        let record = encode_body(catalog, &logged)?;
        let staged = stage(schema, logged)?;
        let (definitions, relaxed) = (batch.definitions, batch.relaxed);
        Ok(PreparedBatch { staged, record, conditions, definitions, relaxed, change, loaded })
    }

    /// How many timestamps `Stamp::Server` asks for beyond the first.
    pub fn statements(&self) -> u32 {
        last_statement(&self.staged)
    }
}

/// The last statement that a batch takes a server's timestamp of.
pub fn last_statement(staged: &[Staged]) -> u32 {
    let last = |staged: &Staged| match staged.effect {
        Effect::Load(_, parts) => staged.stamp.last_statement(parts),
        _ => staged.stamp.last_statement(1),
    };
    staged.iter().map(last).max().unwrap_or(0)
}

/// The mutations as the log holds them.
pub fn logged(schema: &Schema, mutations: Vec<Mutation>) -> Result<Vec<LoggedMutation>> {
    let mut logged = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let relation = schema.relation(mutation.relation())?;
        let schema_version = relation.schema_version;
        match mutation {
            Mutation::Row(write) => logged.push(logged_row(relation, write)?),
            Mutation::Batch(write) => logged_bulk(relation, write, &mut logged)?,
            Mutation::Load(rows) => {
                let segments = Loaded::of(&rows)?.records();
                let (relation, stamp, parts) = (rows.relation, rows.stamp, rows.parts);
                logged.push(LoggedMutation::Load { relation, schema_version, stamp, parts, segments });
            }
            Mutation::DeleteRow(delete) => {
                let key = encoded(&relation.key, &delete.key)?;
                let (relation, stamp) = (delete.relation, delete.stamp);
                logged.push(LoggedMutation::DeleteRow { relation, schema_version, key, stamp });
            }
            Mutation::DeleteSpan(delete) => {
                let (start, end) = KeyEncoder::new(&relation.key).span_bytes(&delete.span)?;
                let (relation, stamp) = (delete.relation, delete.stamp);
                logged.push(LoggedMutation::DeleteSpan { relation, schema_version, start, end, stamp });
            }
        }
    }
    Ok(logged)
}

/// Stages logged mutations; those of relations that the schema does not name are left out.
pub fn stage(schema: &Schema, logged: Vec<LoggedMutation>) -> Result<Vec<Staged>> {
    let mut staged = Vec::with_capacity(logged.len());
    for mutation in logged {
        let (relation, stamp) = (mutation.relation(), mutation.stamp());
        let Some(definition) = schema.relations.get(&relation) else { continue };
        let effect = match mutation {
            LoggedMutation::Row { key, marker, cells, ttl, .. } => {
                Effect::Row(key, RowWrite { relation, key: Vec::new(), marker, cells, stamp, ttl })
            }
            LoggedMutation::Bulk { write, .. } => {
                let run = MemoryRun::from_write(definition, &known_columns(definition, write.clone())?, 0, 0, 0)?;
                Effect::Run(Box::new(run), write.ttl)
            }
            LoggedMutation::Load { segments, parts, .. } => Effect::Load(segments, parts),
            LoggedMutation::DeleteRow { key, .. } => Effect::DeleteRow(key),
            LoggedMutation::DeleteSpan { start, end, .. } => Effect::DeleteSpan(start, end),
        };
        staged.push(Staged { relation, stamp, effect });
    }
    Ok(staged)
}

/// The bytes of a key, or of what a write gives of it.
fn encoded(columns: &[KeyColumn], key: &[Value]) -> Result<Vec<u8>> {
    if key.len() != columns.len() {
        let message = format!("a row needs all {} key columns, {} were given", columns.len(), key.len());
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    KeyEncoder::new(columns).encode(key)
}

fn logged_row(relation: &RelationDef, write: RowWrite) -> Result<LoggedMutation> {
    let key = encoded(relation.given_key(), &write.key)?;
    let mut cells = Vec::with_capacity(write.cells.len());
    for (column, cell) in write.cells {
        let Some(definition) = relation.value(column) else { continue };
        if let CellWrite::Value(value) = &cell {
            check_cell(&definition.name, value_bytes(value))?;
            if value.is_null() || !value.fits(definition.ty) {
                let message = format!("column \"{}\" of type {} cannot hold {value:?}", definition.name, definition.ty);
                return Err(Error::new(ErrorKind::DatatypeMismatch, message));
            }
        }
        cells.push((column, cell));
    }
    Ok(LoggedMutation::Row {
        relation: write.relation,
        schema_version: relation.schema_version,
        key,
        marker: write.marker,
        cells,
        stamp: write.stamp,
        ttl: write.ttl,
    })
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::List(parts) | Value::Tuple(parts) => parts.iter().map(value_bytes).sum(),
        Value::Variant(held) => value_bytes(held),
        Value::Map(entries) => entries.iter().map(|(key, value)| value_bytes(key) + value_bytes(value)).sum(),
        _ => 16,
    }
}

fn check_cell(column: &str, bytes: usize) -> Result<()> {
    if bytes <= MAX_CELL_BYTES {
        return Ok(());
    }
    let message =
        format!("a value of {bytes} bytes for column \"{column}\" exceeds the limit of {MAX_CELL_BYTES} bytes");
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

fn logged_bulk(relation: &RelationDef, write: BatchWrite, logged: &mut Vec<LoggedMutation>) -> Result<()> {
    let write = known_columns(relation, write)?;
    check_arrays(relation, &write)?;
    // A family's rows have a key only once they have their timestamp.
    if write.batch.num_rows() >= BULK_ROWS && relation.kind != RelationKind::Family {
        logged.push(LoggedMutation::Bulk { schema_version: relation.schema_version, write });
        return Ok(());
    }
    for row in single_rows(relation, &write)? {
        logged.push(logged_row(relation, row)?);
    }
    Ok(())
}

/// The write without columns that the relation does not have any more.
pub fn known_columns(relation: &RelationDef, write: BatchWrite) -> Result<BatchWrite> {
    let known = |at: &usize| column_type(relation, &write, *at).is_some();
    let keep: Vec<usize> = (0..write.columns.len()).filter(known).collect();
    if keep.len() == write.columns.len() {
        return Ok(write);
    }
    let columns = keep.iter().map(|at| write.columns[*at]).collect();
    Ok(BatchWrite { columns, batch: write.batch.project(&keep)?, ..write })
}

fn column_type(relation: &RelationDef, write: &BatchWrite, at: usize) -> Option<ColumnType> {
    let id = write.columns[at];
    let key = relation.key_index(id).map(|index| relation.key[index].ty);
    key.or_else(|| relation.value(id).map(|column| column.ty))
}

/// Errors: a batch that is not of the relation's types (42804), a value that is too long (54000).
pub fn check_arrays(relation: &RelationDef, write: &BatchWrite) -> Result<()> {
    let given = relation.given_key();
    let keys = given.iter().map(|column| column.id);
    if write.columns.len() != write.batch.num_columns() || !keys.eq(write.columns.iter().copied().take(given.len())) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a bulk write needs an array for every key column, in key order",
        ));
    }
    for (at, array) in write.batch.columns().iter().enumerate() {
        let ty = column_type(relation, write, at).expect("unknown columns were left out");
        if ty.arrow() != *array.data_type() {
            let message = format!("a column of type {ty} cannot take an array of {}", array.data_type());
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        }
        let longest = match array.data_type() {
            DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).max(),
            DataType::Binary => array.as_binary::<i32>().iter().flatten().map(<[u8]>::len).max(),
            DataType::List(_) => array.as_list::<i32>().iter().flatten().map(|list| own_bytes(&list)).max(),
            _ => None,
        };
        check_cell(&write.columns[at].to_string(), longest.unwrap_or(0))?;
    }
    Ok(())
}

/// The rows of a small bulk write, each key once: of two rows with one key the later wins.
pub fn single_rows(relation: &RelationDef, write: &BatchWrite) -> Result<Vec<RowWrite>> {
    let keys = relation.given_key().len();
    let encoded = KeyEncoder::new(relation.given_key()).encode_batch(&write.batch.columns()[..keys])?;
    let mut rows: Vec<RowWrite> = Vec::with_capacity(write.batch.num_rows());
    let mut places: HashMap<Vec<u8>, usize> = HashMap::with_capacity(write.batch.num_rows());
    for at in 0..write.batch.num_rows() {
        let row = single_row(relation, write, at)?;
        match places.entry(encoded.value(at).to_vec()) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(rows.len());
                rows.push(row);
            }
            std::collections::hash_map::Entry::Occupied(place) => {
                let earlier = &mut rows[*place.get()];
                earlier.cells.retain(|(column, _)| row.cells.iter().all(|(later, _)| later != column));
                earlier.cells.extend(row.cells);
            }
        }
    }
    Ok(rows)
}

fn single_row(relation: &RelationDef, write: &BatchWrite, at: usize) -> Result<RowWrite> {
    let keys = relation.given_key().len();
    let (mut key, mut cells) = (Vec::with_capacity(keys), Vec::new());
    for (index, array) in write.batch.columns().iter().enumerate() {
        let ty = column_type(relation, write, index).expect("unknown columns were left out");
        if index < keys {
            key.push(value_at(array, at, ty)?);
        } else if array.is_valid(at) {
            cells.push((write.columns[index], CellWrite::Value(value_at(array, at, ty)?)));
        } else if write.null_deletes {
            cells.push((write.columns[index], CellWrite::Tombstone));
        }
    }
    Ok(RowWrite { relation: write.relation, key, marker: write.marker, cells, stamp: write.stamp, ttl: write.ttl })
}

/// Makes the key of a family's cell of what a write gives of it, and its write timestamp in microseconds.
pub fn add_version(relation: &RelationDef, key: &mut Vec<u8>, ts: i64) {
    if let (RelationKind::Family, Some(version)) = (relation.kind, relation.key.last()) {
        let encoder = KeyEncoder::new(std::slice::from_ref(version));
        encoder.encode_into(&[Value::Timestamp(ts)], key).expect("a timestamp is a key of eight bytes");
    }
}

impl Effect {
    /// The row entry of a write of one row of this relation, stamped; the effect itself for the others.
    pub fn entry(self, relation: &RelationDef, ts: i64, now: i64) -> Result<(Vec<u8>, RowEntry), Effect> {
        match self {
            Effect::Row(mut key, write) => {
                add_version(relation, &mut key, ts);
                Ok((key, RowEntry::written(&write, ts, now)))
            }
            Effect::DeleteRow(key) => Ok((key, RowEntry::deleted(ts, now))),
            other => Err(other),
        }
    }
}
