//! Writing a segment: rows in key order become a Parquet file and its index file.
//!
//! ```text
//! batches ─▶ pending ─▶ block (4,096 rows) ─▶ column writers ─▶ row group (128 K rows) ─▶ file
//!                        first key, bloom,      pages             crc of every page,
//!                        extent, zones                            boxes
//! ```
//!
//! A block is cut to fewer rows where rows are wide, so that neither a page nor a decoded block grows beyond some
//! megabytes. The columns that make them wide have a page for each block; the others one for 4,096 rows. Memory held:
//! one row group, encoded, and less than one block. Order of durability: the Parquet file is synced, then the index
//! file, then the directory; an unfinished segment's files are removed when the writer is dropped.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::Schema;
use keyspan_model::array::{long_bytes, own_bytes};
use keyspan_model::{Error, KeyEncoder, RelationDef, Result, SegmentId};
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::bloom::{self, Bloom};
use super::encoding::is_better_without_codes;
use super::index::{ColumnChunk, Group, Index, IndexColumn, Page, ZoneMap};
use super::layout::SegmentLayout;
use super::leaf::{Codec, to_stored};
use super::plan::{SystemPlan, system_array};
use super::record::{SegmentRecord, data_path, index_path};
use super::role::Role;
use super::zone::ZoneBuilder;
use super::{BLOCK_ROWS, GROUP_ROWS};
use crate::files::{FileWriter, Files, io_error};
use crate::run::{ExtentBuilder, RunBatch};
use crate::sparse_keys::SparseKeys;

/// Bytes of decoded rows that a block should not exceed by much, long texts counted [`TEXT_WEIGHT`] times: they are
/// most of what is decoded for one row, and of what a merge of many runs must hold of each.
const BLOCK_BYTES: usize = 4 << 20;
const TEXT_WEIGHT: usize = 32;
/// A column of which 4,096 rows take more than this part of these bytes has a page for each block.
const WIDE_PART: usize = 4;
/// Encoded bytes after which a row group is closed early.
const GROUP_BYTES: usize = 8 << 20;
/// Distinct partition keys after which a segment has no bloom filter: its hashes would take too much memory.
const MAX_HASHES: usize = 4 << 20;

/// Writes one segment.
pub struct SegmentWriter {
    files: Arc<dyn Files>,
    id: SegmentId,
    relation: Arc<RelationDef>,
    encoder: KeyEncoder,
    plan: SystemPlan,
    layout: SegmentLayout,
    parquet: SerializedFileWriter<Recorder>,
    factories: Vec<Factories>,
    file: Box<dyn FileWriter>,
    /// Bytes handed to `file`.
    written: u64,
    pending: Pending,
    group: Option<OpenGroup>,
    groups: Vec<Group>,
    zones: Vec<ZoneBuilder>,
    block_keys: SparseKeys,
    last_key: Vec<u8>,
    partition: Option<Vec<u8>>,
    hashes: Option<Vec<u64>>,
    rows: u64,
    seq: (u64, u64),
    finished: bool,
}

#[derive(Default)]
struct Pending {
    /// With the bytes of each.
    batches: Vec<(RunBatch, usize)>,
    rows: usize,
    bytes: usize,
}

struct OpenGroup {
    writers: Vec<ArrowColumnWriter>,
    extent: ExtentBuilder,
    rows: usize,
    block_rows: usize,
    first_block: u32,
}

impl SegmentWriter {
    /// Begins a segment. `seq`: least and greatest commit order of the runs it is made of.
    pub fn new(
        files: Arc<dyn Files>,
        id: SegmentId,
        relation: Arc<RelationDef>,
        plan: SystemPlan,
        seq: (u64, u64),
    ) -> Result<SegmentWriter> {
        let layout = SegmentLayout::new(&relation, &plan)?;
        let parquet = file_writer(&layout, true, BLOCK_ROWS)?;
        let file = files.create(&data_path(id))?;
        Ok(SegmentWriter {
            encoder: KeyEncoder::new(&relation.key),
            zones: relation.values.iter().map(ZoneBuilder::new).collect(),
            files,
            id,
            relation,
            plan,
            layout,
            parquet,
            factories: Vec::new(),
            file,
            seq,
            written: 0,
            pending: Pending::default(),
            group: None,
            groups: Vec::new(),
            block_keys: SparseKeys::default(),
            last_key: Vec::new(),
            partition: None,
            hashes: Some(Vec::new()),
            rows: 0,
            finished: false,
        })
    }

    /// Whether a batch can be written under the plan that the segment was begun with.
    pub fn fits(&self, batch: &RunBatch) -> bool {
        self.plan.fits(&self.relation, batch)
    }

    /// Adds rows behind those before: whole rows, with encoded keys, every key column and every value column.
    ///
    /// Errors: keys not strictly ascending, or a batch that does not fit the plan, are defects (XX000).
    pub fn write(&mut self, batch: RunBatch) -> Result<()> {
        if batch.rows == 0 {
            return Ok(());
        }
        if !self.fits(&batch) {
            return Err(Error::internal("a batch does not fit the plan of its segment"));
        }
        for first in (0..batch.rows).step_by(BLOCK_ROWS) {
            self.pending.push(batch.slice(first, BLOCK_ROWS.min(batch.rows - first)));
            while self.pending.rows >= BLOCK_ROWS || self.pending.bytes >= 2 * BLOCK_BYTES {
                if !self.cut_block(false)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Rows written or pending.
    pub fn rows(&self) -> u64 {
        self.rows + self.pending.rows as u64
    }

    /// Bytes that the file will have about, were it finished now.
    pub fn bytes(&self) -> u64 {
        let group = self.group.as_ref().map_or(0, OpenGroup::encoded_bytes);
        self.written + group as u64
    }

    /// Writes everything out, durably. `None` if there were no rows: then no file is left.
    pub fn finish(mut self) -> Result<Option<SegmentRecord>> {
        while self.pending.rows > 0 {
            self.cut_block(true)?;
        }
        self.close_group()?;
        if self.groups.is_empty() {
            return Ok(None);
        }
        let footer_at = self.written;
        self.parquet.finish().map_err(parquet_error)?;
        self.parquet.flush().map_err(|error| self.refused("write", &error))?;
        let footer = self.parquet.inner_mut().take();
        self.put(&footer)?;
        self.file.sync_data()?;
        let footer_crc = crc32c::crc32c(&footer);
        let index = self.index(footer_at, footer_crc);
        let bytes = index.encode();
        let mut file = self.files.create(&index_path(self.id))?;
        file.write_all(&bytes).map_err(|error| io_error("write", &index_path(self.id), &error))?;
        file.sync_data()?;
        self.files.sync_dir(super::record::SEGMENT_DIRECTORY)?;
        self.finished = true;
        let mut meta = index.meta();
        meta.groups.clear();
        Ok(Some(SegmentRecord {
            id: self.id,
            relation: self.relation.id,
            schema_version: self.relation.schema_version,
            file_bytes: self.written,
            footer_crc,
            index_bytes: bytes.len() as u64,
            index_crc: crc32c::crc32c(&bytes),
            meta,
            ts_base: 0,
        }))
    }

    fn index(&mut self, footer_at: u64, footer_crc: u32) -> Index {
        Index {
            segment: self.id,
            relation: self.relation.id,
            schema_version: self.relation.schema_version,
            file_bytes: self.written,
            footer: (footer_at, footer_crc),
            columns: std::mem::take(&mut self.layout.columns),
            constants: self.plan.constants(),
            seq: self.seq,
            groups: std::mem::take(&mut self.groups),
            block_keys: std::mem::take(&mut self.block_keys),
            bloom: self.hashes.take().map_or_else(Bloom::default, |hashes| Bloom::build(&hashes)),
        }
    }

    /// Takes one block from what is pending. Returns false where there is not enough for a whole one (and `all` is
    /// false).
    fn cut_block(&mut self, all: bool) -> Result<bool> {
        let wanted = block_rows_for(self.pending.bytes / self.pending.rows.max(1));
        let group_rows = self.group.as_ref().map(|group| group.block_rows);
        // Rows have become wider, or much narrower again: the next group has blocks of another size.
        if group_rows.is_some_and(|own| wanted < own || wanted >= own * 8) {
            self.close_group()?;
        }
        let block_rows = self.group.as_ref().map_or(wanted, |group| group.block_rows);
        if self.pending.rows < block_rows && !all {
            return Ok(false);
        }
        let block = self.pending.take(block_rows)?;
        self.write_block(&block, block_rows)?;
        let group = self.group.as_ref();
        if group.is_some_and(|group| group.rows >= group.row_limit() || group.encoded_bytes() >= GROUP_BYTES) {
            self.close_group()?;
        }
        Ok(true)
    }

    fn write_block(&mut self, block: &RunBatch, block_rows: usize) -> Result<()> {
        self.check_keys(block)?;
        let arrays = self.layout.columns.iter().map(|column| physical(&self.relation, block, column));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        if self.group.is_none() {
            let writers = self.column_writers(&arrays, block_rows)?;
            let first_block = self.block_keys.len() as u32;
            let extent = ExtentBuilder::new(&self.relation, self.rows);
            self.group = Some(OpenGroup { writers, extent, rows: 0, block_rows, first_block });
        }
        let Some(encoded) = &block.encoded else { return Err(Error::internal("a batch without encoded keys")) };
        self.block_keys.push(encoded.value(0));
        let group = self.group.as_mut().expect("opened above");
        group.extent.add(block)?;
        group.rows += block.rows;
        self.rows += block.rows as u64;
        for ((writer, array), field) in group.writers.iter_mut().zip(&arrays).zip(&self.layout.fields) {
            for leaf in compute_leaves(field, array).map_err(parquet_error)? {
                writer.write(&leaf).map_err(parquet_error)?;
            }
        }
        for (zone, cells) in self.zones.iter_mut().zip(&block.cells) {
            zone.add(cells.values.as_ref());
        }
        Ok(())
    }

    /// Writers for a row group of such blocks that begins with these columns' rows.
    fn column_writers(&mut self, first: &[ArrayRef], block_rows: usize) -> Result<Vec<ArrowColumnWriter>> {
        let number = self.groups.len();
        let of_large_pages = self.factories(BLOCK_ROWS)?.column_writers(number)?;
        let of_blocks = match block_rows {
            BLOCK_ROWS => Vec::new(),
            rows => self.factories(rows)?.column_writers(number)?,
        };
        let of_blocks = of_blocks.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let writer = |((large, of_block), rows): ((Writers, Option<Writers>), &ArrayRef)| {
            let (coded, plain) = of_block.filter(|_| is_wide(rows)).unwrap_or(large);
            if is_better_without_codes(rows, self.relation.encoding) { plain } else { coded }
        };
        Ok(of_large_pages.into_iter().zip(of_blocks).zip(first).map(writer).collect())
    }

    /// What makes the writers of columns with pages of so many rows.
    fn factories(&mut self, page_rows: usize) -> Result<&Factories> {
        let known = self.factories.iter().position(|own| own.page_rows == page_rows);
        let at = match known {
            Some(at) => at,
            None => {
                let schema = Arc::new(Schema::new(self.layout.fields.clone()));
                let factory = |dictionaries| {
                    let file = file_writer(&self.layout, dictionaries, page_rows)?;
                    Ok::<_, Error>(ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema)))
                };
                self.factories.push(Factories { page_rows, coded: factory(true)?, plain: factory(false)? });
                self.factories.len() - 1
            }
        };
        Ok(&self.factories[at])
    }

    /// Invariant: keys ascend strictly through the whole segment. Gathers the partition keys on the way.
    fn check_keys(&mut self, block: &RunBatch) -> Result<()> {
        let Some(encoded) = &block.encoded else { return Err(Error::internal("a batch without encoded keys")) };
        let mut before: &[u8] = &self.last_key;
        for (row, key) in encoded.iter().flatten().enumerate() {
            if key <= before && self.rows + row as u64 > 0 {
                return Err(Error::internal("the keys of a segment do not ascend"));
            }
            before = key;
            if self.partition.as_deref().is_none_or(|partition| !key.starts_with(partition)) {
                let partition = &key[..self.encoder.prefix_len(key, self.relation.partition_len)];
                if let Some(hashes) = &mut self.hashes {
                    hashes.push(bloom::hash(partition));
                }
                self.partition = Some(partition.to_vec());
            }
        }
        self.last_key = before.to_vec();
        if self.hashes.as_ref().is_some_and(|hashes| hashes.len() > MAX_HASHES) {
            self.hashes = None;
        }
        Ok(())
    }

    fn close_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let mut pages = Vec::with_capacity(group.writers.len());
        let mut row_group = self.parquet.next_row_group().map_err(parquet_error)?;
        for writer in group.writers {
            let chunk = writer.close().map_err(parquet_error)?;
            pages.push(page_sizes(&chunk)?);
            chunk.append_to_row_group(&mut row_group).map_err(parquet_error)?;
        }
        let metadata = row_group.close().map_err(parquet_error)?;
        self.parquet.flush().map_err(|error| self.refused("write", &error))?;
        let bytes = self.parquet.inner_mut().take();
        let columns = metadata.columns().iter().map(|column| (column.compression(), column.byte_range()));
        let chunks = columns.zip(pages).map(|(column, pages)| chunk_of(column, &pages, self.written, &bytes));
        let chunks = chunks.collect::<Result<Vec<_>>>()?;
        self.put(&bytes)?;
        let ids = self.relation.values.iter().map(|value| value.id);
        let zones: Vec<(_, ZoneMap)> = ids.zip(&mut self.zones).map(|(id, zone)| (id, zone.take())).collect();
        self.groups.push(Group {
            extent: group.extent.finish(),
            block_rows: group.block_rows as u32,
            first_block: group.first_block,
            zones,
            chunks,
        });
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.refused("write", &error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn refused(&self, what: &str, error: &std::io::Error) -> Error {
        io_error(what, &self.files.display(&data_path(self.id)), error)
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: recovery removes files that no manifest names.
            let _ = self.files.remove(&data_path(self.id));
            let _ = self.files.remove(&index_path(self.id));
        }
    }
}

/// What makes the writers of columns.
struct Factories {
    page_rows: usize,
    /// With dictionaries.
    coded: ArrowRowGroupWriterFactory,
    /// Without.
    plain: ArrowRowGroupWriterFactory,
}

/// The writers of a column: one with a dictionary, one without.
type Writers = (ArrowColumnWriter, ArrowColumnWriter);

impl Factories {
    /// For each column both writers, in a row group of this number.
    fn column_writers(&self, number: usize) -> Result<Vec<Writers>> {
        let coded = self.coded.create_column_writers(number).map_err(parquet_error)?;
        let plain = self.plain.create_column_writers(number).map_err(parquet_error)?;
        Ok(coded.into_iter().zip(plain).collect())
    }
}

fn file_writer(layout: &SegmentLayout, dictionaries: bool, page_rows: usize) -> Result<SerializedFileWriter<Recorder>> {
    let properties = Arc::new(layout.properties(dictionaries, page_rows));
    SerializedFileWriter::new(Recorder::default(), layout.root()?, properties).map_err(parquet_error)
}

impl OpenGroup {
    fn encoded_bytes(&self) -> usize {
        self.writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    fn row_limit(&self) -> usize {
        self.block_rows * (GROUP_ROWS / BLOCK_ROWS)
    }
}

impl Pending {
    fn push(&mut self, batch: RunBatch) {
        let bytes = weight(&batch);
        self.rows += batch.rows;
        self.bytes += bytes;
        self.batches.push((batch, bytes));
    }

    /// The first `rows` rows, or all if there are fewer, as one batch.
    fn take(&mut self, rows: usize) -> Result<RunBatch> {
        let mut taken = Vec::new();
        let mut missing = rows.min(self.rows);
        let mut used = 0;
        for (batch, bytes) in &mut self.batches {
            if missing == 0 {
                break;
            }
            let part = missing.min(batch.rows);
            missing -= part;
            if part == batch.rows {
                used += 1;
                taken.push(std::mem::take(batch));
            } else {
                taken.push(batch.slice(0, part));
                *batch = batch.slice(part, batch.rows - part);
                *bytes = weight(batch);
            }
        }
        self.batches.drain(..used);
        let block = RunBatch::concat(&taken)?;
        self.rows -= block.rows;
        self.bytes = self.batches.iter().map(|(_, bytes)| bytes).sum();
        Ok(block)
    }
}

/// Bytes of the rows' own values, long texts weighted.
fn weight(batch: &RunBatch) -> usize {
    let values = batch.cells.iter().filter_map(|cells| cells.values.as_ref());
    batch.keys.iter().flatten().chain(values).map(weight_of).sum()
}

fn weight_of(array: &ArrayRef) -> usize {
    own_bytes(array) + (TEXT_WEIGHT - 1) * long_bytes(array)
}

/// Whether such values make rows wide.
fn is_wide(values: &ArrayRef) -> bool {
    weight_of(values) * BLOCK_ROWS > values.len() * BLOCK_BYTES / WIDE_PART
}

/// Rows of a block where a row weighs this many bytes: a power of two, so that sizes change seldom.
fn block_rows_for(row_bytes: usize) -> usize {
    let mut rows = BLOCK_ROWS;
    while rows > 1 && rows * row_bytes > BLOCK_BYTES {
        rows /= 2;
    }
    rows
}

/// The array of one physical column.
fn physical(relation: &RelationDef, block: &RunBatch, column: &IndexColumn) -> Result<ArrayRef> {
    let array = match column.role {
        Role::Key(id) => {
            let at = relation.key_index(id).ok_or_else(|| Error::internal("a key column without its definition"))?;
            block.keys.get(at).cloned().flatten().ok_or_else(|| Error::internal("a batch without a key column"))?
        }
        Role::Value(id) => {
            let at = relation.values.iter().position(|value| value.id == id);
            let cells = at.and_then(|at| block.cells.get(at));
            match cells.and_then(|cells| cells.values.clone()) {
                Some(values) => values,
                None => new_null_array(&column.ty.arrow(), block.rows),
            }
        }
        Role::Row(_) | Role::Cell(..) => system_array(relation, block, column.role),
    };
    to_stored(column.ty, &array)
}

/// First row and length of every page of a chunk.
fn page_sizes(chunk: &parquet::arrow::arrow_writer::ArrowColumnChunk) -> Result<Vec<(u32, u32)>> {
    let Some(index) = &chunk.close().offset_index else { return Err(Error::internal("a column without page index")) };
    let size = |page: &parquet::file::page_index::offset_index::PageLocation| {
        (page.first_row_index as u32, page.compressed_page_size as u32)
    };
    Ok(index.page_locations().iter().map(size).collect())
}

/// Where a chunk's pages lie, and their checksums; `bytes` are the row group's, which begins at `base`.
fn chunk_of(
    (compression, (start, length)): (Compression, (u64, u64)),
    pages: &[(u32, u32)],
    base: u64,
    bytes: &[u8],
) -> Result<ColumnChunk> {
    let misfit = || Error::internal("a row group is not laid out as its metadata says");
    let codec = Codec::of_parquet(compression).ok_or_else(misfit)?;
    let mut at = start.checked_sub(base).ok_or_else(misfit)? as usize;
    let mut checked = |len: u64| {
        let page = bytes.get(at..at + len as usize).ok_or_else(misfit)?;
        at += len as usize;
        Ok::<u32, Error>(crc32c::crc32c(page))
    };
    let of_pages: u64 = pages.iter().map(|page| u64::from(page.1)).sum();
    let dictionary = length.checked_sub(of_pages).ok_or_else(misfit)?;
    let dictionary = if dictionary > 0 { Some((dictionary as u32, checked(dictionary)?)) } else { None };
    let pages = pages
        .iter()
        .map(|(first_row, len)| Ok(Page { first_row: *first_row, len: *len, crc: checked(u64::from(*len))? }));
    Ok(ColumnChunk::new(start, codec, dictionary, pages.collect::<Result<_>>()?))
}

pub(super) fn parquet_error(error: ParquetError) -> Error {
    Error::internal(format!("a segment could not be encoded: {error}"))
}

/// Keeps what the Parquet writer writes until it is asked for.
#[derive(Default)]
struct Recorder {
    bytes: Vec<u8>,
}

impl Recorder {
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
