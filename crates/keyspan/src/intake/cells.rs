//! Cells of COPY and INSERT … SELECT on their way into families and collections.
//!
//! The rule: each row's family is written as a whole, as INSERT writes it; of two rows with one key the later is the one
//! whose cells are written. Cells are held until the statement ends, at most [`HELD_MAX`] bytes of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use keyspan_model::array::value_at;
use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{
    BatchWrite, ColumnBuilder, ColumnType, Error, ErrorKind, FamilyDef, KeyColumn, Mutation, RelationDef, RelationId,
    Result, Span, SpanDelete, Stamp, Value,
};

use keyspan_seam::Snapshot;

use super::whole;
use crate::row::TableHandle;

/// Bytes of cells that one statement holds.
const HELD_MAX: usize = 256 << 20;

/// What rows have in a family, each as a value of the whole's type.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) family: FamilyDef,
    pub(crate) values: ArrayRef,
}

/// The timestamp just before a statement's: of deletions of what it replaces.
pub(crate) fn before(stamp: Stamp) -> Stamp {
    match stamp {
        Stamp::Server(statement) => Stamp::Server(statement.saturating_sub(1)),
        Stamp::At(ts) => Stamp::At(ts.saturating_sub(1)),
    }
}

/// Cells of all families that a statement writes.
pub(crate) struct GatheredCells {
    target: TableHandle,
    stamp: Stamp,
    ttl: u32,
    /// The state before the statement; `None`: not known.
    before: Option<Arc<dyn Snapshot>>,
    /// Of each family the encoded keys of rows that had cells before; of one that is not among them all may have.
    had: HashMap<RelationId, HashSet<Vec<u8>>>,
    /// Of each key the last row that has it, and the key.
    last: HashMap<Vec<u8>, (u64, Vec<Value>)>,
    families: Vec<FamilyPart>,
    rows: u64,
    bytes: usize,
}

/// A row key, encoded and as values.
pub(crate) type GatheredKey<'a> = (&'a [u8], &'a [Value]);

/// Cells of one family.
struct FamilyPart {
    family: FamilyDef,
    relation: RelationDef,
    /// Of each cell the row that it comes from.
    rows: Vec<u64>,
    /// Key columns, the parts of the qualifier, the value.
    columns: Vec<ColumnBuilder>,
}

impl GatheredCells {
    /// Of these families.
    pub(crate) fn new(
        target: &TableHandle,
        families: &[FamilyDef],
        stamp: Stamp,
        ttl: u32,
        before: Option<Arc<dyn Snapshot>>,
    ) -> GatheredCells {
        let part = |family: &FamilyDef| {
            let relation = target.table.family_relation(family);
            let types = relation.given_key().iter().map(|column| column.ty).chain([family.value.ty]);
            let columns = types.map(ColumnBuilder::new).collect();
            FamilyPart { family: family.clone(), rows: Vec::new(), columns, relation }
        };
        let families = families.iter().map(part).collect();
        let (target, last, had) = (target.clone(), HashMap::new(), HashMap::new());
        GatheredCells { target, stamp, ttl, before, had, last, families, rows: 0, bytes: 0 }
    }

    /// The state before the statement; `None` where it is not known.
    pub(crate) fn before(&self) -> Option<&Arc<dyn Snapshot>> {
        self.before.as_ref()
    }

    /// The families' relations.
    pub(crate) fn relations(&self) -> impl Iterator<Item = &RelationDef> {
        self.families.iter().map(|part| &part.relation)
    }

    /// The keys that were taken, ascending.
    pub(crate) fn keys(&self) -> Vec<GatheredKey<'_>> {
        let mut keys: Vec<GatheredKey<'_>> =
            self.last.iter().map(|(encoded, (_, key))| (encoded.as_slice(), key.as_slice())).collect();
        keys.sort_by_key(|(encoded, _)| *encoded);
        keys
    }

    /// Of each of these families only the rows with these encoded keys had cells before: only these are emptied.
    pub(crate) fn note_had(&mut self, had: HashMap<RelationId, HashSet<Vec<u8>>>) {
        self.had = had;
    }

    /// Takes what rows have in families; `keys` are their key columns.
    pub(crate) fn push(&mut self, keys: &[ArrayRef], wholes: &[Whole]) -> Result<()> {
        let Some(rows) = keys.first().map(|array| array.len()) else { return Ok(()) };
        let encoded = self.target.encoded_keys(keys)?;
        for row in 0..rows {
            let types = self.target.relation.key.iter();
            let key = keys.iter().zip(types).map(|(array, column)| value_at(array, row, column.ty));
            let key = key.collect::<Result<Vec<_>>>()?;
            self.bytes += encoded.value(row).len() + size_of::<Value>() * key.len();
            for (part, whole) in self.families.iter_mut().zip(wholes) {
                let whole = value_at(&whole.values, row, part.family.whole_type())?;
                self.bytes += part.push(self.rows, &key, whole)?;
            }
            self.last.insert(encoded.value(row).to_vec(), (self.rows, key));
            self.rows += 1;
        }
        if self.bytes > HELD_MAX {
            let message = format!("cells of families and collections of one statement exceed {} MB", HELD_MAX >> 20);
            return Err(Error::new(ErrorKind::LimitExceeded, message)
                .with_hint("SET copy_commit_rows for COPY, or write in several statements."));
        }
        Ok(())
    }

    /// What writes the cells.
    pub(crate) fn finish(self) -> Result<Vec<Mutation>> {
        let mut mutations = Vec::new();
        let before = before(self.stamp);
        for part in self.families {
            let relation = part.relation.id;
            let had = self.had.get(&relation);
            let emptied = self.last.iter().filter(|(encoded, _)| had.is_none_or(|had| had.contains(*encoded)));
            mutations.extend(emptied.map(|(_, (_, key))| {
                Mutation::DeleteSpan(SpanDelete { relation, span: Span::prefix(key.clone()), stamp: before })
            }));
            mutations.extend(part.finish(&self.last, &self.target, self.stamp, self.ttl)?);
        }
        if self.ttl > 0 && !mutations.is_empty() {
            // The rows expire by their own marker; their presence does not, lest longer cells be lost.
            mutations.push(presence(&self.target, self.last.into_values().map(|(_, key)| key), self.stamp)?);
        }
        Ok(mutations)
    }
}

impl FamilyPart {
    /// Answers about how many bytes the cells take.
    fn push(&mut self, row: u64, key: &[Value], whole: Value) -> Result<usize> {
        let mut bytes = 0;
        for (qualifier, value) in whole::cells(&self.family, whole)? {
            let parts = self.family.qualifier_parts(&qualifier);
            if parts.iter().any(Value::is_null) {
                return Err(whole::null_inside(&self.family));
            }
            for (builder, value) in self.columns.iter_mut().zip(key.iter().chain(&parts).chain([&value])) {
                builder.append(value)?;
                bytes += bytes_of(value);
            }
            self.rows.push(row);
        }
        Ok(bytes)
    }

    /// The cells of the last row of each key.
    fn finish(
        self,
        last: &HashMap<Vec<u8>, (u64, Vec<Value>)>,
        target: &TableHandle,
        stamp: Stamp,
        ttl: u32,
    ) -> Result<Option<Mutation>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let arrays: Vec<ArrayRef> = self.columns.into_iter().map(ColumnBuilder::finish).collect();
        let key_len = target.key_len();
        let encoded = target.encoded_keys(&arrays[..key_len])?;
        let is_last = |(cell, row): (usize, &u64)| last.get(encoded.value(cell)).map(|(last, _)| last == row);
        let keep: BooleanArray = self.rows.iter().enumerate().map(is_last).collect();
        let columns = self.relation.given_key().iter();
        let fields = columns.map(field).chain([self.family.value.ty.field(&self.family.value.name, true)]);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays)?;
        let batch = if keep.true_count() == keep.len() { batch } else { filter_record_batch(&batch, &keep)? };
        let columns = self.relation.given_key().iter().map(|column| column.id).chain([self.family.value.id]).collect();
        let relation = self.relation.id;
        let write = BatchWrite { relation, columns, batch, marker: false, null_deletes: false, stamp, ttl };
        Ok(Some(Mutation::Batch(write)))
    }
}

fn field(column: &KeyColumn) -> arrow::datatypes::Field {
    column.ty.field(&column.name, true)
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len() + 16,
        Value::Blob(bytes) => bytes.len() + 16,
        Value::List(parts) | Value::Tuple(parts) => parts.iter().map(bytes_of).sum(),
        Value::Variant(held) => bytes_of(held),
        Value::Map(entries) => entries.iter().map(|(key, value)| bytes_of(key) + bytes_of(value)).sum(),
        _ => 16,
    }
}

/// The presence entries of rows with these keys.
fn presence(target: &TableHandle, keys: impl Iterator<Item = Vec<Value>>, stamp: Stamp) -> Result<Mutation> {
    let mut builders: Vec<ColumnBuilder> =
        target.relation.key.iter().map(|column| ColumnBuilder::new(column.ty)).collect();
    let mut rows = 0;
    for key in keys {
        builders.iter_mut().zip(&key).try_for_each(|(builder, value)| builder.append(value))?;
        rows += 1;
    }
    let mut arrays: Vec<ArrayRef> = builders.into_iter().map(ColumnBuilder::finish).collect();
    arrays.push(Arc::new(BooleanArray::from(vec![true; rows])));
    let fields = target.relation.key.iter().map(field).chain([ColumnType::Boolean.field("presence", true)]);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays)?;
    let columns = target.relation.key.iter().map(|column| column.id).chain([PRESENCE_COLUMN]).collect();
    let relation = target.relation.id;
    let write = BatchWrite { relation, columns, batch, marker: false, null_deletes: false, stamp, ttl: 0 };
    Ok(Mutation::Batch(write))
}
