//! A run in memory: rows as arrays, sorted once, never changed.
//!
//! It is made from a frozen memtable ([`RowsBuilder`]), straight from a bulk write ([`MemoryRun::from_write`]),
//! which never passes through the memtable's map, or by merging others.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use keyspan_model::array::{ColumnBuilder, canonical_floats, compacted};
use keyspan_model::{BatchWrite, ColumnId, Error, KeyEncoder, RelationDef, Result, SegmentId};
use parking_lot::Mutex;

use crate::row::{CellStamp, RowEntry};
use crate::run::{
    Bits, CellColumn, ExtentBuilder, IndexedColumn, Int64s, KnownPrefixes, OverlapCache, RowColumns, RunBatch, RunMeta,
    SortedRun, ValueRanges, Wanted, WholeKey,
};
use crate::value_index::{About, ValueIndex, memory_index};
use keyspan_seam::ScanCounters;

/// Rows that are looked at together.
const BLOCK_ROWS: usize = 8192;

/// Rows from which on values are sorted when they are first looked up.
const INDEXED_ROWS: usize = 4096;

/// A run in memory.
#[derive(Clone, Debug)]
pub struct MemoryRun {
    meta: RunMeta,
    /// All rows: encoded keys, every key column, and one entry of `columns` a cell column.
    batch: RunBatch,
    columns: Vec<ColumnId>,
    overlap_cache: OverlapCache,
    prefixes: KnownPrefixes,
    values: KnownValues,
}

/// The value indexes of a run, each made when it is first asked for.
#[derive(Debug, Default)]
struct KnownValues(Mutex<Vec<(ColumnId, Arc<ValueIndex>)>>);

impl Clone for KnownValues {
    /// A cloned run has none.
    fn clone(&self) -> KnownValues {
        KnownValues::default()
    }
}

impl MemoryRun {
    /// A run of rows that are in key order already, each key once. `batch` has encoded keys, every key column, and
    /// the cells of `columns`; `seq` is its least and greatest commit order.
    pub fn new(
        relation: &RelationDef,
        mut batch: RunBatch,
        columns: Vec<ColumnId>,
        seq: (u64, u64),
    ) -> Result<MemoryRun> {
        // Without spare capacity, so that the bytes counted are the bytes held.
        let values = batch.cells.iter_mut().filter_map(|cells| cells.values.as_mut());
        batch.keys.iter_mut().flatten().chain(values).for_each(|array| *array = compacted(array));
        let mut extent = ExtentBuilder::new(relation, 0);
        extent.add(&batch)?;
        let meta = RunMeta { all: extent.finish(), groups: Vec::new(), seq, bytes: batch.bytes() as u64 };
        Ok(MemoryRun {
            meta,
            batch,
            columns,
            overlap_cache: OverlapCache::default(),
            prefixes: KnownPrefixes::default(),
            values: KnownValues::default(),
        })
    }

    /// The rows of a bulk write, stamped `ts` at the server's clock `now` (both in microseconds), sorted; of two rows
    /// with one key the later wins (where nulls leave cells alone, cell by cell).
    pub fn from_write(relation: &RelationDef, write: &BatchWrite, ts: i64, now: i64, seq: u64) -> Result<MemoryRun> {
        let encoder = KeyEncoder::new(&relation.key);
        let key_len = relation.key.len();
        check_columns(relation, write)?;
        let arrays: Vec<ArrayRef> = write.batch.columns().iter().map(canonical_floats).collect();
        let encoded = encoder.encode_batch(&arrays[..key_len])?;
        let order = sorted_order(&encoded);
        let stamp = CellStamp::new(ts, write.ttl, now);
        let picks = Picks::new(order, &encoded);
        let mut batch = RunBatch {
            rows: picks.last.len(),
            row: RowColumns {
                marker: if write.marker { Bits::All } else { Bits::None },
                ts: Int64s::Constant(stamp.ts),
                ttl: stamp.ttl.map_or(Int64s::Null, Int64s::Constant),
                expires: stamp.expires.map_or(Int64s::Null, Int64s::Constant),
                ..RowColumns::default()
            },
            ..RunBatch::default()
        };
        for array in &arrays[..key_len] {
            batch.keys.push(Some(picks.take(array)?));
        }
        for array in &arrays[key_len..] {
            let values = if write.null_deletes { picks.take(array)? } else { picks.take_last_valid(array)? };
            batch.cells.push(bulk_cells(values, write.null_deletes, now));
        }
        let encoded: ArrayRef = Arc::new(encoded);
        batch.encoded = Some(BinaryArray::from(picks.take(&encoded)?.to_data()));
        MemoryRun::new(relation, batch, write.columns[key_len..].to_vec(), (seq, seq))
    }

    /// A run made by [`MemoryRun::from_write`] with the stamp that its batch got later: written at `ts`, at the
    /// server's clock `now` (both in microseconds), as part of batch `seq`. Rows are sorted before the batch has its
    /// place in the commit order, and stamped after.
    pub fn stamped(mut self, ts: i64, ttl: u32, now: i64, seq: u64) -> MemoryRun {
        let stamp = CellStamp::new(ts, ttl, now);
        let row = &mut self.batch.row;
        row.ts = Int64s::Constant(stamp.ts);
        row.ttl = stamp.ttl.map_or(Int64s::Null, Int64s::Constant);
        row.expires = stamp.expires.map_or(Int64s::Null, Int64s::Constant);
        for cells in &mut self.batch.cells {
            cells.deleted_at = deletion_clock(&cells.tombstones, now);
        }
        let all = &mut self.meta.all;
        all.ts = all.ts.map(|_| (ts, ts));
        all.expires = all.expires.and(stamp.expires).map(|expires| (expires, expires));
        all.deleted_at = all.deleted_at.map(|_| (now, now));
        self.meta.seq = (seq, seq);
        self
    }

    /// All rows.
    pub fn batch(&self) -> &RunBatch {
        &self.batch
    }

    /// The columns of [`MemoryRun::batch`]'s cells.
    pub fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    fn encoded(&self) -> &BinaryArray {
        self.batch.encoded.as_ref().expect("every memory run has its encoded keys")
    }

    /// The value index of a column, made now if need be.
    fn value_index(&self, column: &IndexedColumn) -> Result<Arc<ValueIndex>> {
        let mut known = self.values.0.lock();
        if let Some((_, index)) = known.iter().find(|(id, _)| *id == column.id) {
            return Ok(Arc::clone(index));
        }
        let about = About { segment: SegmentId(0), column: column.id, ty: column.ty, rows: self.batch.rows as u64 };
        let index = Arc::new(memory_index(self, column, &about)?);
        known.push((column.id, Arc::clone(&index)));
        Ok(index)
    }

    fn position(&self, key: &[u8]) -> usize {
        let (encoded, mut low, mut high) = (self.encoded(), 0, self.batch.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            if encoded.value(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl SortedRun for MemoryRun {
    fn meta(&self) -> &RunMeta {
        &self.meta
    }

    fn lower_bound(&self, key: &[u8], _counters: &ScanCounters) -> Result<usize> {
        Ok(self.position(key))
    }

    fn find(&self, key: &[u8], _counters: &ScanCounters) -> Result<Option<usize>> {
        let position = self.position(key);
        Ok((position < self.batch.rows && self.encoded().value(position) == key).then_some(position))
    }

    fn estimate(&self, key: &[u8]) -> (usize, usize) {
        let position = self.position(key);
        (position, position)
    }

    fn sample(&self, row: usize) -> Option<Vec<u8>> {
        (row < self.batch.rows).then(|| self.encoded().value(row).to_vec())
    }

    fn block(&self, row: usize, _wanted: &Wanted) -> Range<usize> {
        let start = row / BLOCK_ROWS * BLOCK_ROWS;
        start..(start + BLOCK_ROWS).min(self.batch.rows)
    }

    fn read(&self, rows: Range<usize>, wanted: &Wanted, _counters: &ScanCounters) -> Result<RunBatch> {
        let (offset, length) = (rows.start, rows.len());
        let key = |(at, key): (usize, &Option<ArrayRef>)| {
            let wanted = wanted.keys.get(at).copied().unwrap_or(false);
            key.as_ref().filter(|_| wanted).map(|key| key.slice(offset, length))
        };
        let cells = wanted.values.iter().map(|column| match self.columns.iter().position(|own| own == column) {
            Some(at) => self.batch.cells[at].slice(offset, length),
            None => CellColumn::absent(),
        });
        Ok(RunBatch {
            rows: length,
            keys: self.batch.keys.iter().enumerate().map(key).collect(),
            encoded: wanted.encoded.then(|| self.encoded().slice(offset, length)),
            row: self.batch.row.slice(offset, length),
            cells: cells.collect(),
        })
    }

    fn may_contain(&self, key: &WholeKey<'_>) -> bool {
        self.meta.all.may_contain(key)
    }

    fn rows_with(&self, wanted: &ValueRanges, most: usize, counters: &ScanCounters) -> Result<Option<Vec<u32>>> {
        match self.batch.rows < INDEXED_ROWS {
            true => wanted.look_through(self, most, counters),
            false => self.value_index(&wanted.column)?.rows_with(wanted, most),
        }
    }

    fn has_values_of(&self, _: ColumnId) -> bool {
        true
    }

    fn in_memory(&self) -> bool {
        true
    }

    fn overlap_cache(&self) -> Option<&OverlapCache> {
        Some(&self.overlap_cache)
    }

    fn known_prefixes(&self) -> Option<&KnownPrefixes> {
        Some(&self.prefixes)
    }
}

fn check_columns(relation: &RelationDef, write: &BatchWrite) -> Result<()> {
    let keys_first =
        relation.key.iter().map(|column| column.id).eq(write.columns.iter().copied().take(relation.key.len()));
    if keys_first && write.columns.len() == write.batch.num_columns() {
        return Ok(());
    }
    Err(Error::internal("a bulk write must give all key columns first, and one array a column"))
}

/// Row numbers in the order of their keys; equal keys in the order they came.
fn sorted_order(encoded: &BinaryArray) -> Vec<u32> {
    let rows = 0..encoded.len() as u32;
    let key = |row: u32| encoded.value(row as usize);
    if rows.clone().skip(1).all(|row| key(row - 1) < key(row)) {
        return rows.collect();
    }
    let common = rows.clone().map(|row| common_prefix(key(0), key(row))).min().unwrap_or(0);
    let mut heads: Vec<(KeyHead, u32)> = rows.map(|row| (key_head(&key(row)[common..]), row)).collect();
    heads.sort_unstable_by(|(a, left), (b, right)| {
        a.cmp(b).then_with(|| key(*left).cmp(key(*right))).then_with(|| left.cmp(right))
    });
    heads.into_iter().map(|(_, row)| row).collect()
}

/// The first sixteen bytes of a key as numbers, zeroes where it is shorter: most comparisons are decided by them alone.
type KeyHead = [u64; 2];

fn key_head(key: &[u8]) -> KeyHead {
    let mut bytes = [0; size_of::<KeyHead>()];
    let length = key.len().min(bytes.len());
    bytes[..length].copy_from_slice(&key[..length]);
    let [high, low] = [0, 8].map(|at| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes")));
    [high, low]
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Which rows of a bulk write become the rows of the run.
struct Picks {
    /// Row numbers of the write in key order.
    order: Vec<u32>,
    /// Places in `order` of the last row of each key.
    last: Vec<u32>,
    /// Whether each row of the write is a row of the run, in its place.
    unchanged: bool,
    rows: UInt32Array,
}

impl Picks {
    fn new(order: Vec<u32>, encoded: &BinaryArray) -> Picks {
        let key = |place: usize| encoded.value(order[place] as usize);
        let last: Vec<u32> = (0..order.len())
            .filter(|place| place + 1 == order.len() || key(*place) != key(place + 1))
            .map(|place| place as u32)
            .collect();
        let unchanged = last.len() == order.len() && order.iter().enumerate().all(|(at, row)| at as u32 == *row);
        let rows = UInt32Array::from_iter_values(last.iter().map(|place| order[*place as usize]));
        Picks { order, last, unchanged, rows }
    }

    fn take(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if self.unchanged { Ok(Arc::clone(array)) } else { Ok(take(array, &self.rows, None)?) }
    }

    /// As `take`, but of each key's rows the last one that is not null.
    fn take_last_valid(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if array.null_count() == 0 || self.last.len() == self.order.len() {
            return self.take(array);
        }
        let mut first = 0;
        let rows = self.last.iter().map(|last| {
            let group = &self.order[first..=*last as usize];
            first = *last as usize + 1;
            let valid = group.iter().rev().find(|row| array.is_valid(**row as usize));
            *valid.unwrap_or(&group[group.len() - 1])
        });
        Ok(take(array, &UInt32Array::from_iter_values(rows), None)?)
    }
}

fn bulk_cells(values: ArrayRef, null_deletes: bool, now: i64) -> CellColumn {
    let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let all_null = values.len() == nulls.as_ref().map_or(0, |nulls| nulls.null_count());
    let tombstones = match nulls {
        Some(nulls) if null_deletes => Bits::new(!nulls.inner()),
        _ => Bits::None,
    };
    let deleted_at = deletion_clock(&tombstones, now);
    CellColumn { values: (!all_null).then_some(values), tombstones, deleted_at, ..CellColumn::default() }
}

fn deletion_clock(tombstones: &Bits, now: i64) -> Int64s {
    match tombstones {
        Bits::None => Int64s::Null,
        Bits::All => Int64s::Constant(now),
        Bits::Some(bits) => Int64s::from_options(bits.iter().map(|bit| bit.then_some(now)).collect()),
    }
}

/// Collects single rows into a memory run; rows come in key order, each key once.
pub struct RowsBuilder<'a> {
    relation: &'a RelationDef,
    encoder: KeyEncoder,
    encoded: Vec<Vec<u8>>,
    keys: Vec<ColumnBuilder>,
    rows: Vec<RowEntry>,
}

impl<'a> RowsBuilder<'a> {
    /// An empty builder for rows of this relation.
    pub fn new(relation: &'a RelationDef) -> RowsBuilder<'a> {
        RowsBuilder {
            relation,
            encoder: KeyEncoder::new(&relation.key),
            encoded: Vec::new(),
            keys: relation.key.iter().map(|column| ColumnBuilder::new(column.ty)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds the row that follows.
    pub fn push(&mut self, key: Vec<u8>, row: RowEntry) -> Result<()> {
        for (builder, value) in self.keys.iter_mut().zip(self.encoder.decode(&key)?) {
            builder.append(&value)?;
        }
        self.encoded.push(key);
        self.rows.push(row);
        Ok(())
    }

    /// The run of all rows. Cells of columns that the relation no longer has are left out.
    pub fn finish(self, seq: (u64, u64)) -> Result<MemoryRun> {
        let RowsBuilder { relation, encoded, keys, rows, .. } = self;
        let bases: Vec<Option<CellStamp>> = rows.iter().map(base_stamp).collect();
        let mut cells = Vec::with_capacity(relation.values.len());
        for column in &relation.values {
            cells.push(cell_column(column.id, ColumnBuilder::new(column.ty), &rows, &bases)?);
        }
        let batch = RunBatch {
            rows: rows.len(),
            keys: keys.into_iter().map(|builder| Some(builder.finish())).collect(),
            encoded: Some(BinaryArray::from_iter_values(&encoded)),
            row: row_columns(&rows, &bases),
            cells,
        };
        MemoryRun::new(relation, batch, relation.values.iter().map(|column| column.id).collect(), seq)
    }
}

fn base_stamp(row: &RowEntry) -> Option<CellStamp> {
    row.marker.or_else(|| row.cells.first().map(|(_, cell)| cell.stamp))
}

fn row_columns(rows: &[RowEntry], bases: &[Option<CellStamp>]) -> RowColumns {
    let of = |get: &dyn Fn(&CellStamp) -> Option<i64>| {
        Int64s::from_options(bases.iter().map(|base| base.as_ref().and_then(get)).collect())
    };
    RowColumns {
        marker: Bits::new(BooleanBuffer::collect_bool(rows.len(), |row| rows[row].marker.is_some())),
        ts: of(&|base| Some(base.ts)),
        ttl: of(&|base| base.ttl),
        expires: of(&|base| base.expires),
        deleted_ts: Int64s::from_options(rows.iter().map(|row| row.deleted.map(|deleted| deleted.ts)).collect()),
        deleted_at: Int64s::from_options(rows.iter().map(|row| row.deleted.map(|deleted| deleted.at)).collect()),
    }
}

fn cell_column(
    id: ColumnId,
    mut values: ColumnBuilder,
    rows: &[RowEntry],
    bases: &[Option<CellStamp>],
) -> Result<CellColumn> {
    let mut tombstones = BooleanBufferBuilder::new(rows.len());
    let (mut ts, mut ttl, mut expires, mut deleted_at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut any_value = false;
    for (row, base) in rows.iter().zip(bases) {
        let cell = row.cells.iter().find(|(column, _)| *column == id).map(|(_, cell)| cell);
        match cell.map(|cell| &cell.content) {
            Some(Ok(value)) => {
                any_value = true;
                values.append(value)?;
            }
            _ => values.append_null(),
        }
        let own = cell.map(|cell| cell.stamp).filter(|stamp| Some(*stamp) != *base);
        tombstones.append(cell.is_some_and(|cell| cell.content.is_err()));
        ts.push(own.map(|stamp| stamp.ts));
        ttl.push(own.and_then(|stamp| stamp.ttl));
        expires.push(own.and_then(|stamp| stamp.expires));
        deleted_at.push(cell.and_then(|cell| cell.content.as_ref().err().copied()));
    }
    Ok(CellColumn {
        values: any_value.then(|| values.finish()),
        tombstones: Bits::new(tombstones.finish()),
        ts: Int64s::from_options(ts),
        ttl: Int64s::from_options(ttl),
        expires: Int64s::from_options(expires),
        deleted_at: Int64s::from_options(deleted_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Short keys, keys that are the beginning of others, zeroes, and equal ones, behind a beginning that all share.
    #[test]
    fn keys_are_sorted_as_bytes_and_equal_ones_stay_as_they_came() {
        let mut random = Random::new(1);
        for common in [&b""[..], b"a beginning that all of them share"] {
            let mut key = || -> Vec<u8> {
                let zeroes = random.below(18);
                let tail = (0..random.below(4)).map(|_| [0, 1, 255][random.below(3) as usize]);
                let zeroes = std::iter::repeat_n(0, zeroes as usize);
                common.iter().copied().chain(zeroes).chain(tail).collect()
            };
            let keys: Vec<Vec<u8>> = (0..2000).map(|_| key()).collect();
            let encoded = BinaryArray::from_iter_values(&keys);
            let mut sorted: Vec<u32> = (0..2000).collect();
            sorted.sort_by_key(|row| &keys[*row as usize]);
            assert_eq!(sorted_order(&encoded), sorted);
        }
        assert_eq!(sorted_order(&BinaryArray::from_iter_values(["a", "b", "b\0"])), [0, 1, 2]);
        assert!(sorted_order(&BinaryArray::from_iter_values([""; 0])).is_empty());
    }
}
