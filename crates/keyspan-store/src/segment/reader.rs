//! Reading a segment: rows by number, block by block, through the cache of decoded blocks.
//!
//! Until a segment is first read, only its manifest record is in memory; then its index is read and cached. A read
//! decodes only the pages of its block and columns; where the rows of a table are wide, its narrow columns have several
//! blocks in a page, which are decoded and kept as one. Where blocks are read one after another a reader stays open
//! behind the block, so that a scan decodes each dictionary once per row group and reads ahead; such blocks do not push
//! others out of the cache.
//!
//! Rule: whoever holds a [`Segment`] may read it; its files are removed only after the last one is dropped.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::compute::concat;
use arrow::datatypes::Int64Type;
use keyspan_model::{
    ColumnId, ColumnRange, ColumnType, Error, KeyColumn, KeyEncoder, RelationDef, Result, SegmentId, decoded,
};
use parking_lot::Mutex;

use super::BLOCK_ROWS;
use super::bloom;
use super::cache::{BlockCache, BlockKey, DICTIONARY, ENCODED_KEYS, INDEX, Stream};
use super::column::{ColumnRead, ColumnReader};
use super::index::{Group, Index, ZoneMap};
use super::leaf::Leaf;
use super::pages::{CheckedFile, ReadCounts};
use super::plan::{SystemPlan, SystemShape};
use super::record::{SegmentRecord, data_path, index_path};
use super::role::{CellSystem, Role, RowSystem};
use super::values::KnownFiles;
use super::zone::value_as_key;
use crate::coded::{Coded, concat_coded};
use crate::files::{Files, corrupted};
use crate::run::{
    Bits, CellColumn, EncodedRange, Inside, Int64s, KnownPrefixes, OverlapCache, RowColumns, RowTest, RunBatch,
    RunMeta, SortedRun, Steps, Tested, ValueRanges, Wanted, WholeKey,
};
use keyspan_seam::ScanCounters;

/// A segment, opened at the first read.
pub struct Segment {
    record: SegmentRecord,
    key: Vec<KeyColumn>,
    partition_len: usize,
    encoder: KeyEncoder,
    pub(super) files: Arc<dyn Files>,
    pub(super) cache: Arc<BlockCache>,
    /// Whether the file may end early: then its last pages cannot be read.
    cut_short: bool,
    opened: Mutex<Weak<Opened>>,
    /// How often that was asked for.
    asked: AtomicU32,
    /// The record's, and once the index was read, with its row groups.
    full_meta: OnceLock<RunMeta>,
    overlap_cache: OverlapCache,
    prefixes: KnownPrefixes,
    pub(super) values: KnownFiles,
    since: Instant,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("id", &self.record.id).field("rows", &self.record.meta.all.rows).finish()
    }
}

/// Of so many times that the index is asked for the cache is asked once.
const ASKED_OF_CACHE: u32 = 32;

/// What is in memory of an opened segment.
struct Opened {
    index: Index,
    file: CheckedFile,
    leaves: Vec<OnceLock<Arc<Leaf>>>,
}

/// One block of rows, or several that a column has in one page.
struct Block<'a> {
    group: &'a Group,
    /// Number of the first in the segment.
    number: u32,
    /// Number of the one behind the last.
    next: u32,
    /// Their rows in the segment.
    rows: Range<usize>,
    /// Whether they are a page of the column that was asked about.
    is_page: bool,
}

impl Segment {
    /// The segment of this record; reads nothing yet.
    pub fn new(
        files: Arc<dyn Files>,
        cache: Arc<BlockCache>,
        relation: &RelationDef,
        record: SegmentRecord,
    ) -> Segment {
        Segment {
            key: relation.key.clone(),
            partition_len: relation.partition_len,
            encoder: KeyEncoder::new(&relation.key),
            files,
            cache,
            cut_short: false,
            opened: Mutex::new(Weak::new()),
            asked: AtomicU32::new(0),
            full_meta: OnceLock::new(),
            overlap_cache: OverlapCache::default(),
            prefixes: KnownPrefixes::default(),
            values: KnownFiles::default(),
            since: Instant::now(),
            record,
        }
    }

    /// The segment, to be read as far as it can be.
    pub(super) fn cut_short(self) -> Segment {
        Segment { cut_short: true, ..self }
    }

    /// What the manifest knows of it.
    pub fn record(&self) -> &SegmentRecord {
        &self.record
    }

    /// How long the store has had it, since it was opened.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Its id.
    pub fn id(&self) -> SegmentId {
        self.record.id
    }

    /// Widens a plan by the system columns that this segment has.
    pub fn observe(&self, relation: &RelationDef, plan: &mut SystemPlan) -> Result<()> {
        let opened = self.opened()?;
        let cells = relation.values.iter().flat_map(|value| CellSystem::ALL.map(|system| Role::Cell(value.id, system)));
        for role in RowSystem::ALL.into_iter().map(Role::Row).chain(cells) {
            let shape = match (opened.index.column(role), opened.index.constant(role)) {
                (Some(_), _) => SystemShape::Column,
                (None, Some(number)) => SystemShape::Constant(number + self.base(role)),
                (None, None) => SystemShape::Absent,
            };
            plan.widen(role, shape);
        }
        Ok(())
    }

    /// What is to be added to the numbers of a system column.
    fn base(&self, role: Role) -> i64 {
        match role {
            Role::Row(RowSystem::Ts | RowSystem::DeletedTs) | Role::Cell(_, CellSystem::Ts) => self.record.ts_base,
            _ => 0,
        }
    }

    /// The least encoded keys at which the segment can be divided into parts of about `rows` rows: keys of blocks.
    pub fn split_keys(&self, rows: usize) -> Result<Vec<Vec<u8>>> {
        let opened = self.opened()?;
        let total = self.record.meta.all.rows as usize;
        let at = (1..total.div_ceil(rows.max(1))).map(|part| opened.block_at(part * rows));
        let mut keys: Vec<Vec<u8>> =
            at.map(|block| opened.index.block_keys.get(block.number as usize).to_vec()).collect();
        keys.dedup();
        Ok(keys)
    }

    pub(super) fn key_of(&self, column: u32, block: u32) -> BlockKey {
        BlockKey { segment: self.record.id, column, block }
    }

    fn dictionary_key(&self, column: usize, block: &Block<'_>) -> BlockKey {
        self.key_of(DICTIONARY + column as u32, block.group.first_block)
    }

    fn opened(&self) -> Result<Arc<Opened>> {
        // A scan asks several times for each block: the cache need not look it up each time in order to keep it.
        if !self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(ASKED_OF_CACHE)
            && let Some(opened) = self.opened.lock().upgrade()
        {
            return Ok(opened);
        }
        if let Some(opened) = self.cache.get::<Opened>(&self.key_of(INDEX, 0)) {
            return Ok(opened);
        }
        let mut known = self.opened.lock();
        if let Some(opened) = known.upgrade() {
            return Ok(opened);
        }
        let opened = Arc::new(self.open()?);
        *known = Arc::downgrade(&opened);
        self.full_meta.get_or_init(|| self.record.corrected(opened.index.meta()));
        self.cache.put(self.key_of(INDEX, 0), Arc::clone(&opened), opened.index.memory(), false);
        Ok(opened)
    }

    fn open(&self) -> Result<Opened> {
        let index = read_index(self.files.as_ref(), &self.record)?;
        let path = data_path(self.record.id);
        let name = self.files.display(&path);
        let file = self.files.open(&path)?;
        if file.len() != self.record.file_bytes && !self.cut_short {
            return Err(corrupted(&name, format!("{} bytes long, not {}", file.len(), self.record.file_bytes)));
        }
        let known = |column: &KeyColumn| {
            // A user type may have got fields since.
            let same = |ty: ColumnType| ty == column.ty || (ty.is_packed() && column.ty.is_packed());
            index.columns.iter().any(|own| own.role == Role::Key(column.id) && same(own.ty))
        };
        if !self.key.iter().all(known) {
            return Err(corrupted(&name, "its key columns are not those of its table"));
        }
        let leaves = index.columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Opened { index, leaves, file: CheckedFile { file, name: name.into() } })
    }

    /// One column of a block, which is one of its own.
    fn column(
        &self,
        opened: &Opened,
        column: usize,
        block: &Block<'_>,
        rows: &Range<usize>,
        counters: &ScanCounters,
    ) -> Result<Arc<Coded>> {
        let key = self.key_of(column as u32, block.number);
        if let Some(coded) = self.cache.get::<Coded>(&key) {
            return Ok(coded);
        }
        let stream = self.cache.take_stream(&key);
        let passing = stream.is_some();
        let backward = matches!(stream, Some(Stream::Backward));
        let mut reader = match stream {
            Some(Stream::Reader(reader)) => reader,
            Some(Stream::Forward) => Box::new(self.reader(opened, column, block, true)?),
            Some(Stream::Backward) | None => Box::new(self.reader(opened, column, block, false)?),
        };
        let coded = reader.next_block(block.rows.len(), passing);
        reader.counts().add_to(counters);
        let coded = Arc::new(coded?);
        if let Some(dictionary) = reader.take_new_dictionary() {
            let bytes = dictionary.get_array_memory_size();
            self.cache.put(self.dictionary_key(column, block), Arc::new(dictionary), bytes, passing);
        }
        let goes_on = self.key_of(column as u32, block.next);
        if passing && !backward && block.next < block.group.first_block + block.group.blocks() {
            self.cache.put_stream(goes_on, Stream::Reader(reader));
        } else if rows.end == block.rows.end && !backward && rows.end < self.record.meta.all.rows as usize {
            self.cache.put_stream(goes_on, Stream::Forward);
        }
        if rows.start == block.rows.start && block.number > 0 && (!passing || backward) {
            let before = opened.block_of(column, block.rows.start - 1).number;
            self.cache.put_stream(self.key_of(column as u32, before), Stream::Backward);
        }
        self.cache.put(key, Arc::clone(&coded), coded.bytes(), passing);
        Ok(coded)
    }

    /// A reader of a column that begins with this block, and goes on to the end of its row group if `on`.
    fn reader(&self, opened: &Opened, column: usize, block: &Block<'_>, on: bool) -> Result<ColumnReader> {
        let first = block.group.extent.first_row as usize;
        let start = block.rows.start - first;
        let end = if on { block.group.extent.rows as usize } else { block.rows.end - first };
        let chunk = &block.group.chunks[column];
        let (pages, skip) = chunk.pages_of(start as u32, end as u32);
        let known = chunk.dictionary.and_then(|_| self.cache.get::<ArrayRef>(&self.dictionary_key(column, block)));
        let read = ColumnRead {
            codec: chunk.codec,
            dictionary: chunk.dictionary_at(),
            known: known.as_deref().cloned(),
            pages,
            skip,
            rows: end - start,
            block_rows: (block.group.block_rows * block.group.blocks_of_page(chunk).0) as usize,
            is_aligned: block.is_page,
        };
        let typed = matches!(opened.index.columns[column].role, Role::Key(_) | Role::Value(_));
        ColumnReader::new(opened.leaf(column)?, &opened.file, read, typed)
    }

    /// The encoded keys of one block.
    fn encoded(
        &self,
        opened: &Opened,
        block: &Block<'_>,
        rows: &Range<usize>,
        counters: &ScanCounters,
    ) -> Result<Arc<BinaryArray>> {
        let key = self.key_of(ENCODED_KEYS, block.number);
        if let Some(encoded) = self.cache.get::<BinaryArray>(&key) {
            return Ok(encoded);
        }
        let stream = self.cache.take_stream(&key);
        let mut columns = Vec::with_capacity(self.key.len());
        for column in &self.key {
            let at =
                opened.index.column(Role::Key(column.id)).ok_or_else(|| opened.damaged("a key column is missing"))?;
            let own = opened.block_of(at, block.rows.start);
            let coded = self.column(opened, at, &own, rows, counters)?;
            columns.push(decoded(&coded.slice(block.rows.start - own.rows.start, block.rows.len())?)?);
        }
        let encoded = Arc::new(self.encoder.encode_batch(&columns)?);
        if encoded.is_empty() || encoded.value(0) != opened.index.block_keys.get(block.number as usize) {
            return Err(opened.damaged("a block does not begin with the key that the index says"));
        }
        if rows.end == block.rows.end && !matches!(stream, Some(Stream::Backward)) {
            self.cache.put_stream(self.key_of(ENCODED_KEYS, block.number + 1), Stream::Forward);
        } else if rows.start == block.rows.start && block.number > 0 {
            self.cache.put_stream(self.key_of(ENCODED_KEYS, block.number - 1), Stream::Backward);
        }
        let bytes = encoded.get_array_memory_size();
        self.cache.put(key, Arc::clone(&encoded), bytes, stream.is_some());
        Ok(encoded)
    }

    fn read_rows(&self, rows: Range<usize>, wanted: &Wanted, counters: &ScanCounters) -> Result<RunBatch> {
        let opened = self.opened()?;
        if rows.is_empty() || rows.end > self.record.meta.all.rows as usize {
            return Err(Error::internal(format!("rows {rows:?} are not among those of a segment")));
        }
        let coded = wanted.coded;
        let reading = Reading { segment: self, opened: &opened, rows: &rows, counters };
        let mut keys = Vec::with_capacity(self.key.len());
        for (at, column) in self.key.iter().enumerate() {
            let wanted = wanted.keys.get(at).copied().unwrap_or(false);
            keys.push(if wanted { reading.array(Role::Key(column.id), coded)? } else { None });
        }
        let encoded = if wanted.encoded { Some(reading.encoded()?) } else { None };
        let cells = wanted.values.iter().map(|id| reading.cells(*id, wanted));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let row =
            if wanted.system { reading.row()? } else { RowColumns { marker: Bits::All, ..RowColumns::default() } };
        Ok(RunBatch { rows: rows.len(), keys, encoded, row, cells })
    }

    fn kept_groups(&self, ranges: &[ColumnRange], rows: Range<usize>, values: bool) -> Result<Vec<Range<usize>>> {
        let opened = self.opened()?;
        let tests: Vec<RangeTest> =
            ranges.iter().filter_map(|range| RangeTest::new(range, &self.key, &opened)).collect();
        let mut kept: Vec<Range<usize>> = Vec::new();
        for group in &opened.index.groups {
            let first = group.extent.first_row as usize;
            let part = rows.start.max(first)..rows.end.min(first + group.extent.rows as usize);
            if part.is_empty() || !tests.iter().all(|test| test.may_match(group, values)) {
                continue;
            }
            let of_key: Vec<&RangeTest> = tests.iter().filter(|test| test.tells_blocks_apart(group)).collect();
            if of_key.is_empty() {
                join(&mut kept, part);
                continue;
            }
            let first_block = opened.block_at(part.start).number;
            for number in first_block..=opened.block_at(part.end - 1).number {
                let bounds = opened.keys_of_block(group, number);
                if of_key.iter().all(|test| test.may_match_block(&self.encoder, bounds)) {
                    let rows = opened.first_row(number as usize)..opened.first_row(number as usize + 1);
                    join(&mut kept, rows.start.max(part.start)..rows.end.min(part.end));
                }
            }
        }
        Ok(kept)
    }
}

/// Adds rows behind those that are kept.
fn join(kept: &mut Vec<Range<usize>>, rows: Range<usize>) {
    match kept.last_mut() {
        Some(last) if last.end == rows.start => last.end = rows.end,
        _ => kept.push(rows),
    }
}

/// Reads and checks a segment's index file.
pub(super) fn read_index(files: &dyn Files, record: &SegmentRecord) -> Result<Index> {
    let path = index_path(record.id);
    let name = files.display(&path);
    let bytes = files.read(&path)?;
    if bytes.len() as u64 != record.index_bytes || crc32c::crc32c(&bytes) != record.index_crc {
        // Another format version is reported as such, not as damage.
        Index::decode(&bytes, &name)?;
        return Err(corrupted(&name, "it is not the file that the manifest names"));
    }
    let index = Index::decode(&bytes, &name)?;
    let own = (index.segment, index.relation, index.file_bytes, index.meta().all.rows);
    if own != (record.id, record.relation, record.file_bytes, record.meta.all.rows) {
        return Err(corrupted(&name, "it belongs to another segment"));
    }
    Ok(index)
}

impl Opened {
    fn leaf(&self, column: usize) -> Result<&Arc<Leaf>> {
        if let Some(leaf) = self.leaves[column].get() {
            return Ok(leaf);
        }
        let of = &self.index.columns[column];
        let leaf = Arc::new(Leaf::new(of.ty, of.nullable)?);
        Ok(self.leaves[column].get_or_init(|| leaf))
    }

    /// The block of a row.
    fn block_at(&self, row: usize) -> Block<'_> {
        Opened::blocks_at(self.index.group_of(row as u64), row, (1, false))
    }

    /// The blocks of a row that a column has together.
    fn block_of(&self, column: usize, row: usize) -> Block<'_> {
        let group = self.index.group_of(row as u64);
        Opened::blocks_at(group, row, group.blocks_of_page(&group.chunks[column]))
    }

    fn blocks_at(group: &Group, row: usize, (blocks, is_page): (u32, bool)) -> Block<'_> {
        let (first, size) = (group.extent.first_row as usize, group.block_rows as usize * blocks as usize);
        let end = first + group.extent.rows as usize;
        let at = (row.min(end - 1) - first) / size;
        let rows = first + at * size..(first + (at + 1) * size).min(end);
        let number = group.first_block + at as u32 * blocks;
        let next = (number + blocks).min(group.first_block + group.blocks());
        Block { group, number, next, rows, is_page }
    }

    /// Keys between which those of a block are, both inclusive.
    fn keys_of_block<'a>(&'a self, group: &'a Group, number: u32) -> (&'a [u8], &'a [u8]) {
        let keys = &self.index.block_keys;
        let last = number + 1 == group.first_block + group.blocks();
        let end = if last { group.extent.key.1.as_slice() } else { keys.get(number as usize + 1) };
        (keys.get(number as usize), end)
    }

    /// First row of a block; the number of rows for the one behind the last.
    fn first_row(&self, block: usize) -> usize {
        let groups = &self.index.groups;
        let at = groups.partition_point(|group| group.first_block as usize <= block).saturating_sub(1);
        let group = &groups[at];
        let row = (block - group.first_block as usize) * group.block_rows as usize;
        group.extent.first_row as usize + row.min(group.extent.rows as usize)
    }

    /// Between which rows the first one not less than `key` is, as the blocks' keys say.
    fn rows_before(&self, key: &[u8]) -> (usize, usize) {
        match self.index.block_keys.count_below(key, false) {
            0 => (0, 0),
            before => (self.first_row(before - 1) + 1, self.first_row(before)),
        }
    }

    fn damaged(&self, what: &str) -> Error {
        corrupted(&self.file.name, what)
    }
}

/// One read of some rows.
struct Reading<'a> {
    segment: &'a Segment,
    opened: &'a Opened,
    rows: &'a Range<usize>,
    counters: &'a ScanCounters,
}

impl Reading<'_> {
    /// The rows of a physical column, as codes if it has them and they are wanted; `None`: the segment has none.
    fn array(&self, role: Role, coded: bool) -> Result<Option<ArrayRef>> {
        let Some(column) = self.opened.index.column(role) else { return Ok(None) };
        let (first, behind) = self.of_block(column, self.rows.start)?;
        let array = match behind == self.rows.end {
            true => first,
            false => {
                let (mut arrays, mut next) = (vec![first], behind);
                while next < self.rows.end {
                    let (array, behind) = self.of_block(column, next)?;
                    arrays.push(array);
                    next = behind;
                }
                concat_coded(&arrays)?
            }
        };
        Ok(Some(if coded { array } else { decoded(&array)? }))
    }

    /// A column of the rows from one on that are in its block, and which row is behind them.
    fn of_block(&self, column: usize, first: usize) -> Result<(ArrayRef, usize)> {
        let block = self.opened.block_of(column, first);
        let rows = first..self.rows.end.min(block.rows.end);
        let coded = self.segment.column(self.opened, column, &block, &rows, self.counters)?;
        Ok((coded.slice(first - block.rows.start, rows.len())?, rows.end))
    }

    /// The encoded keys of the rows.
    fn encoded(&self) -> Result<BinaryArray> {
        let mut parts: Vec<BinaryArray> = Vec::new();
        let mut next = self.rows.start;
        while next < self.rows.end {
            let block = self.opened.block_at(next);
            let rows = next..self.rows.end.min(block.rows.end);
            let encoded = self.segment.encoded(self.opened, &block, &rows, self.counters)?;
            parts.push(encoded.slice(next - block.rows.start, rows.len()));
            next = rows.end;
        }
        match parts.as_slice() {
            [one] => Ok(one.clone()),
            _ => {
                let joined = concat(&parts.iter().map(|part| part as &dyn Array).collect::<Vec<_>>())?;
                Ok(joined.as_binary::<i32>().clone())
            }
        }
    }

    fn numbers(&self, role: Role) -> Result<Int64s> {
        let numbers = match self.array(role, false)? {
            Some(array) => match array.as_primitive_opt::<Int64Type>() {
                Some(numbers) => Int64s::Array(numbers.clone()).compact(),
                None => return Err(self.opened.damaged("a system column is not of numbers")),
            },
            None => self.opened.index.constant(role).map_or(Int64s::Null, Int64s::Constant),
        };
        Ok(numbers.shifted(self.segment.base(role)))
    }

    fn flags(&self, role: Role) -> Result<Bits> {
        match self.array(role, false)? {
            Some(array) => match array.as_boolean_opt() {
                Some(flags) => Ok(Bits::new(flags.values().clone())),
                None => Err(self.opened.damaged("a system column is not of flags")),
            },
            None => Ok(if self.opened.index.constant(role).is_some() { Bits::All } else { Bits::None }),
        }
    }

    fn row(&self) -> Result<RowColumns> {
        Ok(RowColumns {
            marker: self.flags(Role::Row(RowSystem::Marker))?,
            ts: self.numbers(Role::Row(RowSystem::Ts))?,
            ttl: self.numbers(Role::Row(RowSystem::Ttl))?,
            expires: self.numbers(Role::Row(RowSystem::Expires))?,
            deleted_ts: self.numbers(Role::Row(RowSystem::DeletedTs))?,
            deleted_at: self.numbers(Role::Row(RowSystem::DeletedAt))?,
        })
    }

    fn cells(&self, id: ColumnId, wanted: &Wanted) -> Result<CellColumn> {
        let values = self.array(Role::Value(id), wanted.coded)?.filter(|values| values.null_count() < values.len());
        if !wanted.system {
            return Ok(CellColumn { values, ..CellColumn::default() });
        }
        Ok(CellColumn {
            values,
            tombstones: self.flags(Role::Cell(id, CellSystem::Tombstone))?,
            ts: self.numbers(Role::Cell(id, CellSystem::Ts))?,
            ttl: self.numbers(Role::Cell(id, CellSystem::Ttl))?,
            expires: self.numbers(Role::Cell(id, CellSystem::Expires))?,
            deleted_at: self.numbers(Role::Cell(id, CellSystem::DeletedAt))?,
        })
    }
}

impl ReadCounts {
    /// Moves what was counted into a scan's counters.
    fn add_to(&self, counters: &ScanCounters) {
        counters.bytes_read.fetch_add(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        counters.pages_read.fetch_add(self.pages.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A range that a segment's groups are compared with.
struct RangeTest {
    place: Place,
    range: EncodedRange,
}

enum Place {
    Key(usize),
    Value(ColumnId),
}

impl RangeTest {
    /// `None` where nothing can be told: a column that the segment has not, a value that does not fit its type.
    fn new(range: &ColumnRange, key: &[KeyColumn], opened: &Opened) -> Option<RangeTest> {
        if let Some(at) = key.iter().position(|column| column.id == range.column) {
            return Some(RangeTest { place: Place::Key(at), range: EncodedRange::new(&key[at], range).ok()? });
        }
        let column = opened.index.columns.iter().find(|column| column.role == Role::Value(range.column))?;
        let encoded = EncodedRange::new(&value_as_key(range.column, column.ty), range).ok()?;
        Some(RangeTest { place: Place::Value(range.column), range: encoded })
    }

    fn may_match(&self, group: &Group, values: bool) -> bool {
        match &self.place {
            Place::Key(at) => {
                group.extent.columns.get(*at).is_none_or(|(least, greatest)| self.range.overlaps(least, greatest))
            }
            Place::Value(id) => match group.zones.iter().find(|zone| zone.0 == *id && values) {
                Some((_, ZoneMap::Range(least, greatest))) => self.range.overlaps(least, greatest),
                Some((_, ZoneMap::Empty)) => false,
                _ => true,
            },
        }
    }

    /// Whether some blocks of a group may have no row inside though others have: by a key column, whose values a block
    /// has between its first and its last where the columns before it stay the same.
    fn tells_blocks_apart(&self, group: &Group) -> bool {
        let Place::Key(at) = self.place else { return false };
        group.extent.columns.get(at).is_some_and(|(least, greatest)| !self.range.holds(least, greatest))
    }

    /// Whether a block with keys from the first to the last may have a row inside.
    fn may_match_block(&self, encoder: &KeyEncoder, (first, last): (&[u8], &[u8])) -> bool {
        let Place::Key(at) = self.place else { return true };
        let value = |key: &[u8]| encoder.prefix_len(key, at)..encoder.prefix_len(key, at + 1);
        let (least, greatest) = (value(first), value(last));
        first[..least.start] != last[..greatest.start] || self.range.overlaps(&first[least], &last[greatest])
    }
}

impl SortedRun for Segment {
    fn meta(&self) -> &RunMeta {
        self.full_meta.get().unwrap_or(&self.record.meta)
    }

    fn lower_bound(&self, key: &[u8], counters: &ScanCounters) -> Result<usize> {
        let opened = self.opened()?;
        let before = opened.index.block_keys.count_below(key, false);
        if before == 0 {
            return Ok(0);
        }
        if self.record.meta.all.key.1.as_slice() < key {
            return Ok(self.record.meta.all.rows as usize);
        }
        let block = opened.block_at(opened.first_row(before - 1));
        let inside = block.rows.start..block.rows.start + 1;
        let encoded = self.encoded(&opened, &block, &inside, counters)?;
        let (mut low, mut high) = (0, encoded.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if encoded.value(middle) < key { low = middle + 1 } else { high = middle }
        }
        Ok(block.rows.start + low)
    }

    fn estimate(&self, key: &[u8]) -> (usize, usize) {
        self.estimates(&[key])[0]
    }

    fn estimates(&self, keys: &[&[u8]]) -> Vec<(usize, usize)> {
        let all = &self.record.meta.all;
        let rows = all.rows as usize;
        let opened = OnceCell::new();
        let estimate = |key: &&[u8]| {
            if all.key.1.as_slice() < *key {
                return (rows, rows);
            }
            if all.key.0.as_slice() >= *key {
                return (0, 0);
            }
            match opened.get_or_init(|| self.opened()) {
                Ok(opened) => opened.rows_before(key),
                Err(_) => (0, rows),
            }
        };
        keys.iter().map(estimate).collect()
    }

    fn sample(&self, row: usize) -> Option<Vec<u8>> {
        if row >= self.record.meta.all.rows as usize {
            return None;
        }
        let opened = self.opened().ok()?;
        Some(opened.index.block_keys.get(opened.block_at(row).number as usize).to_vec())
    }

    /// Where the index cannot be read the whole segment is one block; reading it then says why.
    fn block(&self, row: usize, wanted: &Wanted) -> Range<usize> {
        let Ok(opened) = self.opened() else { return 0..self.record.meta.all.rows as usize };
        let block = opened.block_at(row);
        if wanted.encoded || wanted.system || block.rows.len() >= BLOCK_ROWS {
            return block.rows;
        }
        let keys = wanted.keys.iter().zip(&self.key).filter(|(wanted, _)| **wanted);
        let roles = keys.map(|(_, column)| Role::Key(column.id)).chain(wanted.values.iter().copied().map(Role::Value));
        let columns = roles.filter_map(|role| opened.index.column(role));
        let most = ((BLOCK_ROWS as u32 / block.group.block_rows).max(1), false);
        // Those that all columns have together.
        columns.fold(Opened::blocks_at(block.group, row, most).rows, |rows, column| {
            let own = opened.block_of(column, row).rows;
            rows.start.max(own.start)..rows.end.min(own.end)
        })
    }

    fn undecoded(&self, column: ColumnId, rows: Range<usize>) -> u64 {
        let Ok(opened) = self.opened() else { return 0 };
        let Some(column) = opened.index.column(Role::Value(column)) else { return 0 };
        let (mut row, mut undecoded) = (rows.start, 0);
        while row < rows.end {
            let block = opened.block_of(column, row);
            if !self.cache.holds(&self.key_of(column as u32, block.number)) {
                undecoded += block.rows.len() as u64;
            }
            row = block.rows.end;
        }
        undecoded
    }

    fn read(&self, rows: Range<usize>, wanted: &Wanted, counters: &ScanCounters) -> Result<RunBatch> {
        self.read_rows(rows, wanted, counters)
    }

    fn inside(&self, rows: Range<usize>, test: &RowTest, counters: &ScanCounters) -> Result<Inside> {
        let opened = self.opened()?;
        let role = match test.column() {
            Tested::Key(at) => Role::Key(self.key[at].id),
            Tested::Value(id) => Role::Value(id),
        };
        // A column that the segment has not is null in all rows.
        let Some(column) = opened.index.column(role) else { return Ok(Inside::nothing(rows)) };
        let block = opened.block_of(column, rows.start);
        if rows.end > block.rows.end {
            let reading = Reading { segment: self, opened: &opened, rows: &rows, counters };
            let Some(array) = reading.array(role, true)? else { return Ok(Inside::nothing(rows)) };
            return test.of_array(rows, &array);
        }
        let coded = self.column(&opened, column, &block, &rows, counters)?;
        let first = rows.start - block.rows.start;
        if let Coded::Steps { base, unit, offsets, slopes, .. } = coded.as_ref() {
            let steps = Steps { base: *base, unit: *unit, offsets, slopes: slopes.as_ref() };
            if let Some(inside) = test.of_steps(rows.clone(), first..first + rows.len(), &steps) {
                return Ok(inside);
            }
        }
        let array = coded.slice(first, rows.len())?;
        test.of_array(rows, &array)
    }

    fn may_contain(&self, key: &WholeKey<'_>) -> bool {
        if !self.record.meta.all.may_contain(key) {
            return false;
        }
        let partition = key.prefix(self.partition_len);
        self.opened().map_or(true, |opened| opened.index.bloom.may_contain(bloom::hash(partition)))
    }

    fn keep(&self, ranges: &[ColumnRange], rows: Range<usize>, values: bool) -> Vec<Range<usize>> {
        if rows.is_empty() {
            return Vec::new();
        }
        if ranges.is_empty() {
            return vec![rows];
        }
        self.kept_groups(ranges, rows.clone(), values).unwrap_or_else(|_| vec![rows])
    }

    fn zone(&self, column: ColumnId) -> Option<(Vec<u8>, Vec<u8>)> {
        let opened = self.opened().ok()?;
        let mut whole: Option<(Vec<u8>, Vec<u8>)> = None;
        for group in &opened.index.groups {
            match &group.zones.iter().find(|zone| zone.0 == column)?.1 {
                ZoneMap::Unknown => return None,
                ZoneMap::Empty => {}
                ZoneMap::Range(least, greatest) => {
                    whole = Some(match whole {
                        None => (least.clone(), greatest.clone()),
                        Some((own, owns)) => (own.min(least.clone()), owns.max(greatest.clone())),
                    });
                }
            }
        }
        whole
    }

    fn rows_with(&self, wanted: &ValueRanges, most: usize, counters: &ScanCounters) -> Result<Option<Vec<u32>>> {
        match self.indexed_rows(wanted, most)? {
            Some(answer) => Ok(answer),
            None => wanted.look_through(self, most, counters),
        }
    }

    fn has_values_of(&self, column: ColumnId) -> bool {
        self.has_file_of_values(column)
    }

    fn is_segment(&self) -> bool {
        true
    }

    fn overlap_cache(&self) -> Option<&OverlapCache> {
        Some(&self.overlap_cache)
    }

    fn known_prefixes(&self) -> Option<&KnownPrefixes> {
        Some(&self.prefixes)
    }
}
