//! One column of a row group, block by block.
//!
//! Where each block is a page it is decoded here ([`super::decode`]); pages that end elsewhere, as those of large values
//! do, and system columns go through Parquet's reader.

use std::sync::Arc;

use arrow::array::ArrayRef;
use keyspan_model::{Error, Result};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as PageResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::decode::PageBlocks;
use super::leaf::{Codec, Leaf, from_stored};
use super::pages::{CheckedFile, FilePages, PageAt, ReadCounts};
use crate::coded::Coded;
use crate::files::corrupted;

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
    Pages(Box<PageBlocks<FilePages>>),
    /// Pages end elsewhere, or rows are wanted as plain arrays.
    Rows(Box<ParquetRecordBatchReader>),
}

/// Which rows of a chunk to decode, and the pages that hold them.
pub(super) struct ColumnRead {
    pub(super) codec: Codec,
    pub(super) dictionary: Option<PageAt>,
    /// The dictionary's values, if they were decoded before.
    pub(super) known: Option<ArrayRef>,
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
        let by_pages = coded && read.is_aligned && leaf.ty.element().is_none();
        let known = read.known.filter(|_| by_pages);
        let dictionary = read.dictionary.filter(|_| known.is_none());
        let source = FilePages::new(file.clone(), read.codec, dictionary.into_iter().chain(read.pages).collect());
        let (failure, counts) = (Arc::clone(&source.failure), Arc::clone(&source.counts));
        let damaged = |error: ParquetError| corrupted(&file.name, error);
        let blocks = match by_pages {
            true => Blocks::Pages(Box::new(PageBlocks::new(Arc::clone(leaf), source, known))),
            false => {
                let rows = SelectedRows { skip: read.skip, rows: read.rows, of_block: read.block_rows };
                Blocks::Rows(Box::new(rows.read(leaf, Box::new(source)).map_err(damaged)?))
            }
        };
        Ok(ColumnReader { blocks, coded, failure, counts, name: Arc::clone(&file.name), ty: leaf.ty })
    }

    /// The dictionary of the row group, once after it was read; `None` also where Parquet's reader has it.
    pub(super) fn take_new_dictionary(&mut self) -> Option<ArrayRef> {
        match &mut self.blocks {
            Blocks::Pages(pages) => pages.take_new_dictionary(),
            Blocks::Rows(_) => None,
        }
    }

    /// The next block; an error if there is none. `shared`: blocks before it or behind it are kept too.
    pub(super) fn next_block(&mut self, rows: usize, shared: bool) -> Result<Coded> {
        let batch = match &mut self.blocks {
            Blocks::Pages(pages) => {
                let block = pages.next(rows, shared);
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
