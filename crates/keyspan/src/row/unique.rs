//! Unique indexes: entries that say which row has a value.
//!
//! ```text
//! row    7 ─▶ (email: 'a')          the rows
//! entry 'a' ─▶ 7                    written in the same batch as the row's cells, where none of the columns is null
//! ```
//!
//! The rule: every live row that has values has an entry under them. Nothing removes entries: one whose row is gone or
//! has other values now is stale, and so an entry only says where to look, and the row what is true (ADR 22).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use arrow::datatypes::Schema;
use keyspan_model::array::{array_of, value_at};
use keyspan_model::{
    BatchWrite, CellWrite, ColumnId, Error, IndexDef, KeyEncoder, Mutation, RelationDef, Result, RowWrite, ScanColumn,
    Span, Stamp, TableDef, Unchanged, Value, WriteBatch,
};
use keyspan_seam::Snapshot;

use super::{NewRow, TableHandle};
use crate::locks::RowName;

/// A unique index of a table.
#[derive(Debug)]
pub(crate) struct UniqueIndex {
    pub(crate) index: IndexDef,
    pub(crate) entries: Arc<RelationDef>,
    encoder: KeyEncoder,
    /// The places of its columns in the table.
    places: Vec<usize>,
}

/// Values that a row is to have.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) values: Vec<Value>,
    /// The values, encoded.
    pub(crate) encoded: Vec<u8>,
    /// The row's key.
    pub(crate) key: Vec<Value>,
    /// The row's key, encoded.
    pub(crate) row: Vec<u8>,
}

/// The row that has the values of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The place of the claim.
    pub(crate) claim: usize,
    /// The row's key.
    pub(crate) key: Vec<Value>,
    /// The row's key, encoded.
    pub(crate) row: Vec<u8>,
}

/// A row that a statement writes.
#[derive(Debug)]
pub(crate) struct WrittenRow {
    key: Vec<Value>,
    /// What is written; after [`complete`] what the row then has, where an index needs more than that.
    row: NewRow,
    /// The places of the unique indexes that the write is about.
    about: Vec<usize>,
}

impl UniqueIndex {
    /// The unique indexes of a table.
    pub(super) fn all(table: &TableDef) -> Arc<[UniqueIndex]> {
        let place = |id: &ColumnId| table.columns.iter().position(|column| column.id == *id);
        let one = |(index, unique): (&IndexDef, &keyspan_model::UniqueDef)| {
            let entries = Arc::new(table.entries_relation(index, unique));
            let encoder = KeyEncoder::new(&entries.key);
            let places = index.columns.iter().filter_map(place).collect();
            UniqueIndex { index: index.clone(), entries, encoder, places }
        };
        table.uniques().map(one).collect()
    }

    /// The names of its columns.
    pub(crate) fn columns(&self) -> Vec<&str> {
        self.entries.key.iter().map(|column| column.name.as_str()).collect()
    }

    /// What a row with these values of all columns claims; nothing where one of the index's is null.
    pub(crate) fn claim(&self, handle: &TableHandle, row: &[Value]) -> Result<Option<Claim>> {
        let values: Vec<Value> = self.places.iter().map(|place| row[*place].clone()).collect();
        if values.iter().any(Value::is_null) {
            return Ok(None);
        }
        let key = row[..handle.key_len()].to_vec();
        Ok(Some(Claim { encoded: self.encoder.encode(&values)?, row: handle.name(&key)?.1, values, key }))
    }

    /// The claims of written rows, which are complete; `place` is the index's own among those of the table.
    pub(crate) fn claims(&self, handle: &TableHandle, place: usize, rows: &[WrittenRow]) -> Result<Vec<Claim>> {
        let about = rows.iter().filter(|row| row.about.contains(&place));
        let claim = |row: &WrittenRow| self.claim(handle, &super::or_null(&row.row)).transpose();
        about.filter_map(claim).collect()
    }

    /// The encoded values of rows whose first columns are those of the index.
    pub(crate) fn encode_batch(&self, columns: &[ArrayRef]) -> Result<BinaryArray> {
        self.encoder.encode_batch(columns)
    }

    /// The name of a claim's values among locks.
    pub(crate) fn name(&self, claim: &Claim) -> RowName {
        (self.entries.id, claim.encoded.clone())
    }

    /// The precondition that nobody has claimed these values since.
    pub(crate) fn unchanged(&self, values: &[Value], seq: u64) -> Unchanged {
        Unchanged { relation: self.entries.id, span: Span::prefix(values.to_vec()), seq }
    }

    /// Whether a write to the row is about the index.
    fn concerns(&self, handle: &TableHandle, row: &NewRow) -> bool {
        let mut others = self.places.iter().filter(|place| **place >= handle.key_len()).peekable();
        others.peek().is_none() || others.any(|place| row[*place].is_some())
    }

    /// The live rows that have the values of claims, their own rows among them.
    pub(crate) async fn holders(
        &self,
        handle: &TableHandle,
        snapshot: &Arc<dyn Snapshot>,
        claims: &[Claim],
    ) -> Result<Vec<Holder>> {
        let values: Vec<Vec<Value>> = claims.iter().map(|claim| claim.values.clone()).collect();
        let columns = self.scan_columns(handle);
        let entries = self.read(handle, &snapshot.get(self.entries.id, &values, &columns).await?)?;
        let entries: HashMap<Vec<u8>, Vec<Value>> = entries.into_iter().collect();
        let named = |(place, claim): (usize, &Claim)| Some((place, entries.get(&claim.encoded)?.clone()));
        let named: Vec<(usize, Vec<Value>)> = claims.iter().enumerate().filter_map(named).collect();
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Vec<Value>> = named.iter().map(|(_, key)| key.clone()).collect();
        let rows = self.read(handle, &snapshot.get(handle.relation.id, &keys, &columns).await?)?;
        let rows = rows.into_iter().map(|(values, key)| Ok((handle.name(&key)?.1, values)));
        let rows: HashMap<Vec<u8>, Vec<u8>> = rows.collect::<Result<_>>()?;
        let mut holders = Vec::with_capacity(named.len());
        for (claim, key) in named {
            let row = handle.name(&key)?.1;
            if rows.get(&row) == Some(&claims[claim].encoded) {
                holders.push(Holder { claim, key, row });
            }
        }
        Ok(holders)
    }

    /// The row key, then the index's columns.
    fn scan_columns(&self, handle: &TableHandle) -> Vec<ScanColumn> {
        let key = handle.relation.key.iter().map(|column| column.id);
        key.chain(self.index.columns.iter().copied()).map(ScanColumn::Column).collect()
    }

    /// The encoded values and the row keys of what was read of the rows or the entries, nulls left out.
    fn read(&self, handle: &TableHandle, batch: &RecordBatch) -> Result<Vec<(Vec<u8>, Vec<Value>)>> {
        let key = handle.relation.key.iter().map(|column| column.ty);
        let types: Vec<_> = key.chain(self.entries.key.iter().map(|column| column.ty)).collect();
        let mut all = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let value = |(array, ty): (&ArrayRef, &_)| value_at(array, row, *ty);
            let mut key = batch.columns().iter().zip(&types).map(value).collect::<Result<Vec<_>>>()?;
            let values = key.split_off(handle.key_len());
            if !values.iter().any(Value::is_null) {
                all.push((self.encoder.encode(&values)?, key));
            }
        }
        Ok(all)
    }

    /// What writes the entry of a claim.
    pub(crate) fn entry(&self, handle: &TableHandle, claim: &Claim, stamp: Stamp) -> Mutation {
        let rest = self.rest(handle).map(|(id, place)| (id, CellWrite::Value(claim.key[place].clone())));
        Mutation::Row(RowWrite {
            relation: self.entries.id,
            key: claim.values.clone(),
            marker: true,
            cells: rest.collect(),
            stamp,
            ttl: 0,
        })
    }

    /// The value columns of entries, with their places in the row key.
    fn rest(&self, handle: &TableHandle) -> impl Iterator<Item = (ColumnId, usize)> {
        let place = |id: ColumnId| handle.relation.key_index(id);
        self.entries.values.iter().filter_map(move |column| Some((column.id, place(column.id)?)))
    }

    /// The entries of many claims at once.
    pub(crate) fn entries(&self, handle: &TableHandle, claims: &[Claim], stamp: Stamp) -> Result<BatchWrite> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (place, column) in self.entries.key.iter().enumerate() {
            let values: Vec<Value> = claims.iter().map(|claim| claim.values[place].clone()).collect();
            fields.push(column.ty.field(&column.name, false));
            arrays.push(array_of(column.ty, &values)?);
        }
        for ((_, place), column) in self.rest(handle).zip(&self.entries.values) {
            let values: Vec<Value> = claims.iter().map(|claim| claim.key[place].clone()).collect();
            fields.push(column.ty.field(&column.name, true));
            arrays.push(array_of(column.ty, &values)?);
        }
        Ok(self.entries_of(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?, stamp))
    }

    /// Entries whose columns, those of the index and the rest of the row key, are these.
    pub(crate) fn entries_of(&self, batch: RecordBatch, stamp: Stamp) -> BatchWrite {
        let key = self.entries.key.iter().map(|column| column.id);
        let columns = key.chain(self.entries.values.iter().map(|column| column.id)).collect();
        BatchWrite { relation: self.entries.id, columns, batch, marker: true, null_deletes: true, stamp, ttl: 0 }
    }

    /// The values that mutations claim, as an earlier statement of a BATCH made them: encoded, each with its row.
    pub(crate) fn claimed_by(&self, handle: &TableHandle, mutations: &[Mutation]) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let mut claimed = HashMap::new();
        for mutation in mutations.iter().filter(|mutation| mutation.relation() == self.entries.id) {
            let Mutation::Row(write) = mutation else {
                return Err(not_in_batch());
            };
            let column = |id: ColumnId| match self.entries.key_index(id) {
                Some(place) => Some(write.key[place].clone()),
                None => write.cells.iter().find(|(own, _)| *own == id).and_then(|(_, cell)| match cell {
                    CellWrite::Value(value) => Some(value.clone()),
                    CellWrite::Tombstone => None,
                }),
            };
            let key: Option<Vec<Value>> = handle.relation.key.iter().map(|own| column(own.id)).collect();
            let key = key.ok_or_else(|| Error::internal("an entry without its row"))?;
            claimed.insert(self.encoder.encode(&write.key)?, handle.name(&key)?.1);
        }
        Ok(claimed)
    }
}

/// 0A000 for rows of a query in a BATCH.
pub(crate) fn not_in_batch() -> Error {
    let error = Error::not_supported("INSERT … SELECT in a BATCH into a table with unique values is not supported");
    error.with_hint("Write BEGIN … COMMIT.")
}

/// Whether mutations write what a unique index of the table may be about.
pub(crate) fn is_checked(handle: &TableHandle, mutations: &[Mutation]) -> bool {
    let writes = |mutation: &Mutation| {
        mutation.relation() == handle.relation.id && matches!(mutation, Mutation::Row(_) | Mutation::Batch(_))
    };
    !handle.uniques.is_empty() && mutations.iter().any(writes)
}

impl WrittenRow {
    /// The rows of a table that mutations write, each once, as far as a unique index is about what is written.
    pub(crate) fn all(handle: &TableHandle, mutations: &[Mutation]) -> Result<Vec<WrittenRow>> {
        let mut rows: Vec<(Vec<Value>, NewRow)> = Vec::new();
        for mutation in mutations.iter().filter(|mutation| mutation.relation() == handle.relation.id) {
            match mutation {
                Mutation::Row(write) => rows.push(of_write(handle, write)),
                Mutation::Batch(write) => rows.extend(of_batch(handle, write)?),
                Mutation::Load(_) | Mutation::DeleteRow(_) | Mutation::DeleteSpan(_) => {}
            }
        }
        let mut places: HashMap<Vec<u8>, usize> = HashMap::with_capacity(rows.len());
        let mut all: Vec<WrittenRow> = Vec::with_capacity(rows.len());
        for (key, row) in rows {
            let place = *places.entry(handle.name(&key)?.1).or_insert(all.len());
            match all.get_mut(place) {
                Some(earlier) => {
                    earlier.row.iter_mut().zip(row).filter(|(_, new)| new.is_some()).for_each(|(old, new)| *old = new)
                }
                None => all.push(WrittenRow { key, row, about: Vec::new() }),
            }
        }
        for written in &mut all {
            let about = handle.uniques.iter().enumerate().filter(|(_, index)| index.concerns(handle, &written.row));
            written.about = about.map(|(place, _)| place).collect();
        }
        all.retain(|row| !row.about.is_empty());
        Ok(all)
    }
}

fn of_write(handle: &TableHandle, write: &RowWrite) -> (Vec<Value>, NewRow) {
    let cell = |id: ColumnId| {
        write.cells.iter().find(|(own, _)| *own == id).map(|(_, cell)| match cell {
            CellWrite::Value(value) => value.clone(),
            CellWrite::Tombstone => Value::Null,
        })
    };
    let rest = handle.table.columns.iter().skip(handle.key_len()).map(|column| cell(column.id));
    (write.key.clone(), write.key.iter().cloned().map(Some).chain(rest).collect())
}

fn of_batch(handle: &TableHandle, write: &BatchWrite) -> Result<Vec<(Vec<Value>, NewRow)>> {
    let array = |id: ColumnId| write.columns.iter().position(|own| *own == id).map(|at| write.batch.column(at));
    let columns: Vec<_> = handle.table.columns.iter().map(|column| (array(column.id), column.ty)).collect();
    let row = |row: usize| {
        let value = |(array, ty): &(Option<&ArrayRef>, _)| match array {
            None => Ok(None),
            Some(array) => {
                value_at(array, row, *ty).map(|value| (write.null_deletes || !value.is_null()).then_some(value))
            }
        };
        let row = columns.iter().map(value).collect::<Result<NewRow>>()?;
        Ok((super::or_null(&row[..handle.key_len()].to_vec()), row))
    };
    (0..write.batch.num_rows()).map(row).collect()
}

/// Reads what the rows have after these writes, where an index is about several columns: others may not be written, or
/// keep a value with a later timestamp. Answers the keys of the rows that were read.
pub(crate) async fn complete(
    handle: &TableHandle,
    before: &Arc<dyn Snapshot>,
    writes: &[&[Mutation]],
    rows: &mut [WrittenRow],
) -> Result<Vec<Vec<Value>>> {
    let values = |index: &UniqueIndex| index.places.iter().filter(|place| **place >= handle.key_len()).count();
    let open = |row: &WrittenRow| row.about.iter().any(|index| values(&handle.uniques[*index]) > 1);
    let mut open: Vec<&mut WrittenRow> = rows.iter_mut().filter(|row| open(row)).collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Vec<Value>> = open.iter().map(|row| row.key.clone()).collect();
    let after = before.with_writes(&WriteBatch { mutations: writes.concat(), ..WriteBatch::default() })?;
    let found = handle.read(&after, &keys).await?;
    let mut then = HashMap::with_capacity(found.num_rows());
    for row in 0..found.num_rows() {
        let values = handle.values(&found, row)?;
        then.insert(handle.name(&values[..handle.key_len()])?.1, values);
    }
    for written in &mut open {
        if let Some(values) = then.remove(&handle.name(&written.key)?.1) {
            written.row = values.into_iter().map(Some).collect();
        }
    }
    Ok(keys)
}
