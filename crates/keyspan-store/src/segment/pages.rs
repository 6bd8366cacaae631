//! Reading pages: bytes are read by whole pages, each checked against its crc32c before it is decoded.
//!
//! ```text
//! chunk in the file:   [dictionary][page 0][page 1] … [page n]
//! what is asked for:   rows of pages 2 and 3
//! what Parquet sees:   [dictionary][page 2][page 3]      offsets from 0, as if nothing else were there
//! ```
//!
//! Pages that follow each other are read together, up to [`READ_AHEAD`] bytes, so that a scan costs few system calls
//! and holds little. Rule: a page whose crc differs is `Corrupted` naming the file; its bytes are never decoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use keyspan_model::{Error, Result};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as PageResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::decode::PageBlocks;
use super::leaf::{Codec, Leaf, from_stored};
use crate::coded::Coded;
use crate::files::{FileReader, corrupted};

/// Most bytes of one column that are read at once.
pub(super) const READ_AHEAD: u64 = 64 * 1024;

/// A file whose damage is reported by name, and what was read of it.
#[derive(Clone, Debug)]
pub(super) struct CheckedFile {
    pub(super) file: Arc<dyn FileReader>,
    /// As errors name it.
    pub(super) name: Arc<str>,
}

/// Counters of what was read from the files of segments, not from the cache.
#[derive(Debug, Default)]
pub(super) struct ReadCounts {
    pub(super) bytes: AtomicU64,
    pub(super) pages: AtomicU64,
}

impl CheckedFile {
    /// These bytes, or `Corrupted` if the file ends before.
    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        if offset.checked_add(len).is_none_or(|end| end > self.file.len()) {
            return Err(corrupted(&self.name, format!("it ends before byte {}", offset.saturating_add(len))));
        }
        self.file.read_at(offset, len as usize)
    }

    /// A page's bytes, checked.
    pub(super) fn read_checked(&self, page: PageAt) -> Result<Bytes> {
        let bytes = self.read(page.offset, u64::from(page.len))?;
        self.check(&bytes, page.offset, page.crc)?;
        Ok(bytes)
    }

    fn check(&self, bytes: &[u8], offset: u64, crc: u32) -> Result<()> {
        if crc32c::crc32c(bytes) == crc {
            return Ok(());
        }
        Err(corrupted(&self.name, format!("checksum mismatch in {} bytes at {offset}", bytes.len())))
    }
}

/// One page in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageAt {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) crc: u32,
}

/// Rows of one column of one row group, decoded block by block.
pub(super) struct ColumnReader {
    blocks: Blocks,
    failure: Arc<Mutex<Option<Error>>>,
    counts: Arc<ReadCounts>,
    name: Arc<str>,
    ty: keyspan_model::ColumnType,
    /// Whether blocks are made as small as they can be.
    coded: bool,
}

/// How blocks come out of pages.
enum Blocks {
    /// Each is a page.
    Pages(Box<PageBlocks<SerializedPageReader<VirtualChunk>>>),
    /// Pages end elsewhere, or rows are wanted as plain arrays.
    Rows(Box<ParquetRecordBatchReader>),
}

/// Which rows of a chunk to decode, and the pages that hold them.
pub(super) struct ColumnRead {
    pub(super) codec: Codec,
    pub(super) dictionary: Option<PageAt>,
    pub(super) pages: Vec<PageAt>,
    /// Rows of the first page before the first wanted.
    pub(super) skip: usize,
    /// Rows wanted.
    pub(super) rows: usize,
    /// Rows of each array but the last.
    pub(super) block_rows: usize,
    /// Whether each block is a page of its own.
    pub(super) is_aligned: bool,
}

impl ColumnReader {
    /// `coded`: blocks are to be made as small as they can be.
    pub(super) fn new(leaf: &Arc<Leaf>, file: &CheckedFile, read: ColumnRead, coded: bool) -> Result<ColumnReader> {
        let dictionary = read.dictionary.map_or(0, |page| u64::from(page.len));
        let pages = VirtualChunk::new(file.clone(), read.dictionary.iter().chain(&read.pages));
        let (failure, counts) = (Arc::clone(&pages.failure), Arc::clone(&pages.counts));
        let chunk = leaf.chunk(read.codec, dictionary, pages.len())?;
        let damaged = |error: ParquetError| corrupted(&file.name, error);
        let source =
            SerializedPageReader::new(Arc::new(pages), &chunk, read.skip + read.rows, None).map_err(damaged)?;
        let blocks = match coded && read.is_aligned && leaf.ty.element().is_none() {
            true => Blocks::Pages(Box::new(PageBlocks::new(Arc::clone(leaf), source))),
            false => {
                let rows = SelectedRows { skip: read.skip, rows: read.rows, of_block: read.block_rows };
                Blocks::Rows(Box::new(rows.read(leaf, Box::new(source)).map_err(damaged)?))
            }
        };
        Ok(ColumnReader { blocks, coded, failure, counts, name: Arc::clone(&file.name), ty: leaf.ty })
    }

    /// The next block; an error if there is none.
    pub(super) fn next_block(&mut self, rows: usize) -> Result<Coded> {
        let batch = match &mut self.blocks {
            Blocks::Pages(pages) => {
                let block = pages.next(rows);
                return block.map_err(|error| self.failed(&error.to_string()));
            }
            Blocks::Rows(reader) => reader.next(),
        };
        let batch = match batch {
            Some(Ok(batch)) => batch,
            Some(Err(error)) => return Err(self.failed(&error.to_string())),
            None => return Err(self.failed("pages hold fewer rows than the index says")),
        };
        if batch.num_rows() < rows {
            return Err(self.failed("pages hold fewer rows than the index says"));
        }
        let array = if batch.num_rows() > rows { batch.column(0).slice(0, rows) } else { Arc::clone(batch.column(0)) };
        let array =
            from_stored(self.ty, array).ok_or_else(|| self.failed("a column has another type than the index says"))?;
        if self.coded { Coded::new(array) } else { Ok(Coded::Array(array)) }
    }

    pub(super) fn counts(&self) -> &ReadCounts {
        &self.counts
    }

    fn failed(&self, what: &str) -> Error {
        self.failure.lock().take().unwrap_or_else(|| corrupted(&self.name, what))
    }
}

/// The wanted pages of a chunk as one run of bytes from 0, read and checked when asked for.
struct VirtualChunk {
    file: CheckedFile,
    /// With the virtual offset of each page.
    pages: Vec<(u64, PageAt)>,
    len: u64,
    loaded: Mutex<(u64, Bytes)>,
    failure: Arc<Mutex<Option<Error>>>,
    counts: Arc<ReadCounts>,
}

impl VirtualChunk {
    fn new<'a>(file: CheckedFile, pages: impl Iterator<Item = &'a PageAt>) -> VirtualChunk {
        let mut len = 0;
        let placed = |page: &PageAt| {
            let at = len;
            len += u64::from(page.len);
            (at, *page)
        };
        let pages = pages.map(placed).collect();
        VirtualChunk { file, pages, len, loaded: Mutex::default(), failure: Arc::default(), counts: Arc::default() }
    }

    /// Loaded bytes from `start` to the end of what is loaded, at least to the end of its page.
    fn bytes_from(&self, start: u64) -> Result<Bytes> {
        let mut loaded = self.loaded.lock();
        let (from, bytes) = &*loaded;
        if start >= *from && start < from + bytes.len() as u64 {
            return Ok(bytes.slice((start - from) as usize..));
        }
        let first = self.pages.partition_point(|(at, _)| *at <= start).saturating_sub(1);
        let Some((at, bytes)) = self.load(first)? else { return Ok(Bytes::new()) };
        *loaded = (at, bytes.clone());
        let skip = start.saturating_sub(at).min(bytes.len() as u64) as usize;
        Ok(bytes.slice(skip..))
    }

    /// The page at this index and those right behind it in the file, up to one that is damaged: that is an error to who
    /// asks for it, not to who reads what stands before.
    fn load(&self, first: usize) -> Result<Option<(u64, Bytes)>> {
        let Some((at, page)) = self.pages.get(first) else { return Ok(None) };
        let mut end = page.offset + u64::from(page.len);
        let mut count = 1;
        for (_, next) in &self.pages[first + 1..] {
            let next_end = next.offset + u64::from(next.len);
            if next.offset != end || next_end - page.offset > READ_AHEAD || next_end > self.file.file.len() {
                break;
            }
            end = next_end;
            count += 1;
        }
        let bytes = self.file.read(page.offset, end - page.offset)?;
        self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.counts.pages.fetch_add(count as u64, Ordering::Relaxed);
        let mut sound = 0;
        for (_, part) in &self.pages[first..first + count] {
            let own = &bytes[sound..sound + part.len as usize];
            match self.file.check(own, part.offset, part.crc) {
                Ok(()) => sound += own.len(),
                Err(_) if sound > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Some((*at, bytes.slice(..sound))))
    }

    fn failed(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.failure.lock().get_or_insert(error);
        ParquetError::General(text)
    }
}

impl Length for VirtualChunk {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for VirtualChunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> PageResult<Self::T> {
        self.bytes_from(start).map(Buf::reader).map_err(|error| self.failed(error))
    }

    fn get_bytes(&self, start: u64, length: usize) -> PageResult<Bytes> {
        let bytes = self.bytes_from(start).map_err(|error| self.failed(error))?;
        if bytes.len() < length {
            return Err(ParquetError::EOF("a page is longer than the index says".to_string()));
        }
        Ok(bytes.slice(..length))
    }
}

/// The rows of pages, in one batch.
pub(super) fn read_rows(leaf: &Leaf, pages: Box<dyn PageReader>, rows: usize) -> PageResult<ParquetRecordBatchReader> {
    SelectedRows { skip: 0, rows, of_block: rows }.read(leaf, pages)
}

/// Rows of pages, in batches of so many.
struct SelectedRows {
    skip: usize,
    rows: usize,
    of_block: usize,
}

impl SelectedRows {
    fn read(self, leaf: &Leaf, pages: Box<dyn PageReader>) -> PageResult<ParquetRecordBatchReader> {
        let rows = self.skip + self.rows;
        let group = OneChunk { rows, pages: Mutex::new(Some(pages)), metadata: &leaf.metadata };
        let selection = (self.skip > 0)
            .then(|| RowSelection::from(vec![RowSelector::skip(self.skip), RowSelector::select(self.rows)]));
        ParquetRecordBatchReader::try_new_with_row_groups(&leaf.levels, &group, self.of_block, selection)
    }
}

/// A row group of one column chunk.
struct OneChunk<'a> {
    rows: usize,
    pages: Mutex<Option<Box<dyn PageReader>>>,
    metadata: &'a ParquetMetaData,
}

impl RowGroups for OneChunk<'_> {
    fn num_rows(&self) -> usize {
        self.rows
    }

    fn column_chunks(&self, _column: usize) -> PageResult<Box<dyn PageIterator>> {
        let pages = self.pages.lock().take();
        Ok(Box::new(OnePages(pages)))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::empty())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

struct OnePages(Option<Box<dyn PageReader>>);

impl Iterator for OnePages {
    type Item = PageResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OnePages {}
